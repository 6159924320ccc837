#include "serve/templates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/fd.h"
#include "base/str.h"

#define EXIT_BRIG 125

static void store_closep(struct store **store)
{
	store_close(*store);
}

static int complain(const struct err *err)
{
	fprintf(stderr, "brig: %s\n", err->text);
	return EXIT_BRIG;
}

static const char *text_of(const struct node *request, const char *name)
{
	const struct node *value = node_get(request, name);

	return value && value->kind == NODE_STRING ? value->text : "";
}

/* Takes it. */
static int print_json(struct node *taken)
{
	_cleanup_(node_freep) struct node *node = taken;
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	struct err err = ERR_NONE;
	int r = node ? json_write(node, true, &text) : -ENOMEM;

	r = r < 0 ? r : buf_char(&text, '\n');
	r = r < 0 ? r : fd_write_all(1, buf_text(&text), text.len);
	if (r == 0)
		return 0;
	err_errno(&err, r, "cannot write the result");
	return complain(&err);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- names and tags --- */

static bool is_name(const char *text, size_t len)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-";

	return len > 0 && len <= TEMPLATE_NAME_MAX && strspn(text, good) >= len;
}

int template_read_name(const char *text, char ret_name[static TEMPLATE_NAME_MAX + 1],
		       char ret_tag[static TEMPLATE_NAME_MAX + 1], struct err *err)
{
	size_t len = strcspn(text, ":");
	const char *tag = text[len] ? text + len + 1 : "default";

	if (!is_name(text, len) || !is_name(tag, strlen(tag)))
		return err_set(err, -EINVAL,
			       "\"%.40s\" cannot be a template's name: letters, digits, \".\", "
			       "\"_\" and \"-\", %d at most, with \":tag\" behind if need be",
			       text, TEMPLATE_NAME_MAX);
	snprintf(ret_name, TEMPLATE_NAME_MAX + 1, "%.*s", (int)len, text);
	snprintf(ret_tag, TEMPLATE_NAME_MAX + 1, "%s", tag);
	return 0;
}

int template_new_id(char ret_id[static 21])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
	unsigned char bytes[20];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		ret_id[i] = letters[bytes[i] % 32];
	ret_id[20] = '\0';
	return 0;
}

static struct node *tags_of(const struct template *t)
{
	struct node *tags = NULL;
	struct err err = ERR_NONE;

	if (t->tags && t->tags[0] && json_read(t->tags, strlen(t->tags), NULL, &tags, &err) == 0 &&
	    tags->kind == NODE_LIST)
		return tags;
	node_free(tags);
	return node_list();
}

static bool list_has(const struct node *list, const char *text)
{
	for (size_t i = 0; list && i < list->count; i++)
		if (list->entries[i].value->kind == NODE_STRING &&
		    str_equal(list->entries[i].value->text, text))
			return true;
	return false;
}

bool template_has_tag(const struct template *t, const char *tag)
{
	_cleanup_(node_freep) struct node *tags = tags_of(t);

	return list_has(tags, tag);
}

static int set_text(char **place, const char *text)
{
	char *made = strdup(text);

	if (!made)
		return -ENOMEM;
	free(*place);
	*place = made;
	return 0;
}

static int set_tags(struct template *t, const struct node *tags)
{
	_cleanup_(buf_done) struct buf text = BUF(64 * KIB);
	int r = json_write(tags, true, &text);

	return r < 0 ? r : set_text(&t->tags, buf_text(&text));
}

bool template_image_is_needed(struct store *store, const char *image)
{
	struct template *all = NULL;
	size_t count = 0;
	bool found = false;

	if (store_list_templates(store, NULL, &all, &count) < 0)
		return true;
	for (size_t i = 0; i < count; i++) {
		found |= image && str_equal(all[i].image, image);
		template_done(&all[i]);
	}
	free(all);
	return found;
}

static int note_image(struct store *store, const char *image, struct strv *old_images)
{
	return image && image[0] && !template_image_is_needed(store, image)
		       ? strv_add(old_images, image)
		       : 0;
}

/* One row without these tags; has it none then, it goes. */
static int take_from_row(struct store *store, struct template *t, const struct node *tags,
			 struct strv *old_images, struct err *err)
{
	_cleanup_(node_freep) struct node *had = tags_of(t), *left = node_list();
	int r = had && left ? 0 : -ENOMEM;

	for (size_t i = 0; i < (had ? had->count : 0) && r == 0; i++)
		if (!list_has(tags, had->entries[i].value->text))
			r = node_add(left, node_copy(had->entries[i].value));
	if (r < 0 || left->count == had->count)
		return r;
	if (left->count == 0) {
		r = store_delete_template(store, t->id);
		return r < 0 ? r : note_image(store, t->image, old_images);
	}
	r = set_tags(t, left);
	return r < 0 ? r : store_put_template(store, t, err);
}

int template_take_tags(struct store *store, const char *tenant, const char *name,
		       const struct node *tags, const char *but_id, struct strv *old_images,
		       struct err *err)
{
	struct template *all = NULL;
	size_t count = 0;
	int r = store_list_templates(store, NULL, &all, &count);

	for (size_t i = 0; i < count; i++) {
		if (r == 0 && name && str_equal(all[i].tenant, tenant) &&
		    str_equal(all[i].name, name) && !(but_id && str_equal(all[i].id, but_id)))
			r = take_from_row(store, &all[i], tags, old_images, err);
		template_done(&all[i]);
	}
	free(all);
	return r < 0 && !err->code ? err_errno(err, r, "template") : r;
}

/* --- putting one --- */

/* The row that has the first of the tags, of this tenant itself. */
static int find_own(struct store *store, const struct template *t, const char *tag,
		    struct template *ret_template)
{
	char word[2 * TEMPLATE_NAME_MAX + 8];
	int r;

	snprintf(word, sizeof(word), "%s:%s", t->name, tag);
	r = store_get_template(store, t->tenant, word, ret_template);
	if (r == 0 && t->name &&
	    !(str_equal(ret_template->tenant, t->tenant) &&
	      str_equal(ret_template->name, t->name))) {
		template_done(ret_template);
		*ret_template = (struct template){ 0 };
		r = -ENOENT;
	}
	return r;
}

/* One whose tags are all among the new ones is replaced, and keeps its id. */
static bool is_replaced(const struct template *old, const struct node *tags)
{
	_cleanup_(node_freep) struct node *had = tags_of(old);

	for (size_t i = 0; had && i < had->count; i++)
		if (!list_has(tags, had->entries[i].value->text))
			return false;
	return had != NULL;
}

int template_put(struct store *store, struct template *t, struct strv *old_images, struct err *err)
{
	_cleanup_(node_freep) struct node *tags = tags_of(t);
	_cleanup_(template_done) struct template old = { 0 };
	_cleanup_free_ char *old_image = NULL;
	int r = tags && tags->count > 0 ? find_own(store, t, tags->entries[0].value->text, &old)
					: -EINVAL;

	t->created = t->updated = now_ms();
	if (r == 0 && old.kind == TEMPLATE_SNAPSHOT)
		return err_set(err, -EEXIST, "\"%s\" is the name of a snapshot", t->name);
	if (r == 0 && is_replaced(&old, tags)) {
		snprintf(t->id, sizeof(t->id), "%s", old.id);
		t->created = old.created;
		old_image = take_ptr(&old.image);
	}
	r = r == -ENOENT ? 0 : r;
	if (r == 0 && !t->id[0])
		r = template_new_id(t->id);
	r = r < 0 ? r : store_put_template(store, t, err);
	r = r < 0 ? r : template_take_tags(store, t->tenant, t->name, tags, t->id, old_images, err);
	if (r == 0 && old_image)
		r = note_image(store, old_image, old_images);
	return r < 0 && !err->code ? err_errno(err, r, "template \"%s\"", t->name) : r;
}

/* --- as JSON --- */

struct node *template_to_node(const struct template *t)
{
	_cleanup_(node_freep) struct node *map = node_map();
	struct node *env = NULL;
	struct err err = ERR_NONE;
	const struct {
		const char *name, *text;
	} texts[] = {
		{ "id", t->id },
		{ "name", t->name },
		{ "tenant", t->tenant },
		{ "image", t->image },
		{ "workdir", t->workdir },
		{ "user", t->user },
		{ "start", t->start },
		{ "ready", t->ready },
		{ "kind", t->kind == TEMPLATE_SNAPSHOT ? "snapshot" : "template" },
	};
	int r = map ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = node_set(map, texts[i].name, node_string(texts[i].text));
	r = r < 0 ? r : node_set(map, "tags", tags_of(t));
	if (t->env[0] && json_read(t->env, strlen(t->env), NULL, &env, &err) < 0)
		env = NULL;
	r = r < 0 ? r : node_set(map, "env", env ? env : node_map());
	r = r < 0 ? r : node_set(map, "bytes", node_int((int64_t)t->bytes));
	r = r < 0 ? r : node_set(map, "created_ms", node_int((int64_t)t->created));
	r = r < 0 ? r : node_set(map, "updated_ms", node_int((int64_t)t->updated));
	return r < 0 ? NULL : take_ptr(&map);
}

/* --- for "brig template" --- */

static int fill(const struct node *request, struct template *t, struct err *err)
{
	const struct {
		char **place;
		const char *key;
	} texts[] = {
		{ &t->image, "image" }, { &t->workdir, "workdir" }, { &t->user, "user" },
		{ &t->start, "start" }, { &t->ready, "ready" },     { &t->source, "source" },
	};
	char name[TEMPLATE_NAME_MAX + 1], tag[TEMPLATE_NAME_MAX + 1];
	char tags[TEMPLATE_NAME_MAX + 8];
	const struct node *bytes = node_get(request, "bytes"), *env = node_get(request, "env");
	_cleanup_(buf_done) struct buf json = BUF(2 * MIB);
	int r = template_read_name(text_of(request, "name"), name, tag, err);

	if (r < 0)
		return r;
	if (text_of(request, "tenant")[0] && !tenant_name_is_valid(text_of(request, "tenant")))
		return err_set(err, -EINVAL, "that cannot be a tenant's name");
	snprintf(tags, sizeof(tags), "[\"%s\"]", tag);
	snprintf(t->tenant, sizeof(t->tenant), "%s", text_of(request, "tenant"));
	t->bytes = bytes && bytes->kind == NODE_INT ? (uint64_t)bytes->number : 0;
	r = env ? json_write(env, true, &json) : 0;
	r = r < 0 ? r : set_text(&t->env, buf_text(&json));
	r = r < 0 ? r : set_text(&t->name, name);
	r = r < 0 ? r : set_text(&t->tags, tags);
	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = set_text(texts[i].place, text_of(request, texts[i].key));
	return r;
}

/* {"template", "old_image"} */
static int print_change(const struct template *t, const struct strv *old_images)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "template", template_to_node(t)) : -ENOMEM;

	r = r < 0 ? r
		  : node_set(map, "old_image",
			     node_string(old_images->count > 0 ? old_images->items[0] : ""));
	return print_json(r < 0 ? NULL : take_ptr(&map));
}

int templates_put(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	_cleanup_(template_done) struct template t = { .kind = TEMPLATE_BUILT };
	_cleanup_(strv_done) struct strv old_images = { 0 };
	struct err err = ERR_NONE;
	int r = fill(request, &t, &err);

	r = r < 0 ? r : store_open(&store, &err);
	r = r < 0 ? r : template_put(store, &t, &old_images, &err);
	if (r < 0 && !err.code)
		err_errno(&err, r, "template");
	return r < 0 ? complain(&err) : print_change(&t, &old_images);
}

static int find(const struct node *request, struct store **ret_store, struct template *t,
		struct err *err)
{
	const char *name = text_of(request, "name");
	int r = store_open_existing(ret_store, err);

	r = r < 0 ? r : store_get_template(*ret_store, text_of(request, "tenant"), name, t);
	return r == -ENOENT
		       ? err_set(err, r, "there is no template \"%.80s\" (brig template ls)", name)
	       : r < 0 && !err->code ? err_errno(err, r, "template")
				     : r;
}

int templates_get(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	_cleanup_(template_done) struct template t = { 0 };
	struct err err = ERR_NONE;

	return find(request, &store, &t, &err) < 0 ? complain(&err)
						   : print_json(template_to_node(&t));
}

int templates_delete(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(strv_done) struct strv old_images = { 0 };
	struct err err = ERR_NONE;
	int r = find(request, &store, &t, &err);

	if (r == 0) {
		r = store_delete_template(store, t.id);
		r = r < 0 ? r : note_image(store, t.image, &old_images);
		if (r < 0)
			err_errno(&err, r, "the template cannot be removed");
	}
	return r < 0 ? complain(&err) : print_change(&t, &old_images);
}

int templates_list(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	_cleanup_(node_freep) struct node *map = node_map(), *list = node_list();
	const char *tenant = text_of(request, "tenant");
	struct template *all = NULL;
	struct err err = ERR_NONE;
	size_t count = 0;
	int r = store_open_existing(&store, &err);

	if (r < 0 && r != -ENOENT)
		return complain(&err);
	r = store ? store_list_templates(store, tenant[0] ? tenant : NULL, &all, &count) : 0;
	for (size_t i = 0; i < count; i++) {
		r = r < 0 ? r : node_add(list, template_to_node(&all[i]));
		template_done(&all[i]);
	}
	free(all);
	r = r < 0 || !map ? -ENOMEM : node_set(map, "templates", take_ptr(&list));
	return print_json(r < 0 ? NULL : take_ptr(&map));
}
