/*
 * e2b_snapshot.c - snapshots: what a sandbox wrote, as a template that others start from
 *
 * A snapshot is files, not memory. Its image has a name of its own, never used again, so that the row in the store
 * is what makes it a snapshot: the image comes first, the row last; where one replaces another of its name, the old
 * image goes when the row has changed. What is left over when the daemon is killed in between has no row, and
 * is removed at the next start (snapshot_sweep).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "serve/e2b_control.h"
#include "serve/snapshot.h"
#include "serve/wish.h"

#define NAME_MAX_BYTES 128
#define IMAGE_PREFIX   "serve.snapshot."
#define QUOTA_WAIT_S   60 /* nobody knows when there will be room */

/* --- images --- */

static void removed(void *of, const struct fleet_output *output)
{
	(void)of;
	if (!WIFEXITED(output->status) || WEXITSTATUS(output->status) != 0)
		log_line(LOG_WARNING, "an image was not removed: %s", output->err);
}

void snapshot_remove_image(struct serve *serve, const char *image)
{
	char *words[] = { (char *)(uintptr_t) "image", (char *)(uintptr_t) "rm", strdup(image),
			  NULL };
	struct err err = ERR_NONE;

	if (!words[2] || fleet_run(serve->fleet, words, removed, NULL, NULL, &err) < 0)
		log_line(LOG_WARNING, "image %s was not removed: %s", image, err.text);
	free(words[2]);
}

int snapshot_image_name(const char *prefix, char ret_name[static SNAPSHOT_IMAGE_SIZE])
{
	char word[21];
	int r = make_word(word, sizeof(word));

	snprintf(ret_name, SNAPSHOT_IMAGE_SIZE, "%s%s", prefix, word);
	return r;
}

int snapshot_run(struct serve *serve, const char *id, const char *image, fleet_ran ran, void *of,
		 struct err *err)
{
	char *words[] = { (char *)(uintptr_t) "snapshot", strdup(id), strdup(image),
			  (char *)(uintptr_t) "--json", NULL };
	int r = words[1] && words[2] ? fleet_run(serve->fleet, words, ran, of, NULL, err)
				     : err_set(err, -ENOMEM, "out of memory");

	free(words[1]);
	free(words[2]);
	return r;
}

/* What brig said, as an error: it has words, and no number. */
int snapshot_failed(const struct fleet_output *output, struct err *err)
{
	if (WIFEXITED(output->status) && WEXITSTATUS(output->status) == 0)
		return 0;
	if (strstr(output->err, "No space left"))
		return err_set(err, -ENOSPC, "%s", output->err);
	return err_set(err, -EIO, "%s",
		       output->err[0] ? output->err : "the snapshot was cut short");
}

/* --- names --- */

struct name {
	char name[NAME_MAX_BYTES + 1]; /* "": none */
	char tag[NAME_MAX_BYTES + 1];
};

static bool is_name(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789._-")] == '\0';
}

/* "name", "name:tag", "tenant/name". */
static int read_name(const char *tenant, const char *text, struct name *ret_name, struct err *err)
{
	struct name name = { .tag = "default" };
	const char *colon;
	size_t own = strlen(tenant);

	if (strncmp(text, tenant, own) == 0 && text[own] == '/')
		text += own + 1;
	colon = strchr(text, ':');
	snprintf(name.name, sizeof(name.name), "%.*s", (int)strcspn(text, ":"), text);
	if (colon)
		snprintf(name.tag, sizeof(name.tag), "%s", colon + 1);
	if (!is_name(name.name) || !is_name(name.tag) || strlen(text) > NAME_MAX_BYTES)
		return err_set(err, -EINVAL,
			       "\"name\" must be letters, digits, \".\", \"_\" and \"-\", at most "
			       "%d, with \":tag\" behind if need be",
			       NAME_MAX_BYTES);
	*ret_name = name;
	return 0;
}

/* The i-th of its tags; without any it is "default". False behind the last. */
static bool tag_of(const struct node *tags, size_t i, const char **ret_tag)
{
	size_t count = tags && tags->kind == NODE_LIST ? tags->count : 0;
	const struct node *tag = i < count ? tags->entries[i].value : NULL;

	*ret_tag = tag && tag->kind == NODE_STRING ? tag->text : "default";
	return i < count || i == 0;
}

static bool has_tag(const struct template *t, const char *wanted)
{
	_cleanup_(node_freep) struct node *tags = extra_json(t->tags);
	const char *tag;

	for (size_t i = 0; tag_of(tags, i, &tag); i++)
		if (str_equal(tag, wanted))
			return true;
	return false;
}

/* As clients name it: what was given, else the id; with the first of its tags. */
static struct node *shape_snapshot(const struct template *t)
{
	_cleanup_(node_freep) struct node *map = node_map(), *names = node_list();
	_cleanup_(node_freep) struct node *tags = extra_json(t->tags);
	const char *name = t->name[0] ? t->name : t->id, *tag;
	char id[2 * NAME_MAX_BYTES + 8];
	int r = map && names ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && tag_of(tags, i, &tag); i++) {
		snprintf(id, sizeof(id), "%.*s:%.*s", NAME_MAX_BYTES, name, NAME_MAX_BYTES, tag);
		if (i == 0)
			r = node_set(map, "snapshotID", node_string(id));
		if (r == 0 && t->name[0])
			r = node_add(names, node_string(id));
	}
	r = r < 0 ? r : node_set(map, "names", take_ptr(&names));
	return r < 0 ? NULL : take_ptr(&map);
}

/* --- making one --- */

struct snapshot {
	struct request *q; /* NULL: the client has left */
	struct serve *serve;
	char tenant[TENANT_NAME_MAX + 1], id[TRACE_ID_SIZE];
	char image[SNAPSHOT_IMAGE_SIZE];
	struct name name;
	uint64_t bytes; /* of the image */
};

static void snapshot_leave(struct request *q)
{
	struct snapshot *snapshot = q->of;

	snapshot->q = NULL;
}

static int text_to(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to ? 0 : -ENOMEM;
}

/* What a sandbox from the snapshot has to know, as the one that it is of knew it. */
static int fill_row(const struct snapshot *snapshot, const struct held *held, struct template *t)
{
	char user[256] = "", workdir[4096] = "", tags[NAME_MAX_BYTES + 8];
	int r;

	(void)!extra_text(held, "user", user, sizeof(user));
	(void)!extra_text(held, "workdir", workdir, sizeof(workdir));
	snprintf(tags, sizeof(tags), "[\"%s\"]", snapshot->name.tag);
	t->kind = TEMPLATE_SNAPSHOT;
	snprintf(t->tenant, sizeof(t->tenant), "%s", snapshot->tenant);
	t->cpu = held->cpu;
	t->memory = held->memory;
	t->disk = held->disk;
	t->bytes = snapshot->bytes;
	t->updated = time_now();
	r = text_to(&t->name, snapshot->name.name);
	r = r < 0 ? r : text_to(&t->tags, tags);
	r = r < 0 ? r : text_to(&t->image, snapshot->image);
	r = r < 0 ? r : text_to(&t->env, held->env);
	r = r < 0 ? r : text_to(&t->user, user);
	r = r < 0 ? r : text_to(&t->workdir, workdir);
	r = r < 0 ? r : text_to(&t->source, held->id);
	return r;
}

/* The start command is the template's: what ran is not in the files, and has to be started again. */
static int take_commands(const struct snapshot *snapshot, const struct held *held,
			 struct template *t)
{
	_cleanup_(template_done) struct template origin = { 0 };
	bool is_known = make_find_template(snapshot->serve, snapshot->tenant, held->template_id,
					   &origin) == 0;
	int r = text_to(&t->start, is_known ? origin.start : "");

	return r < 0 ? r : text_to(&t->ready, is_known ? origin.ready : "");
}

/* One of this name is replaced, and keeps its id. old: the image that nobody needs then. */
static int find_old(const struct snapshot *snapshot, struct template *ret_template, struct err *err)
{
	char word[2 * NAME_MAX_BYTES + 8];
	int r = -ENOENT;

	snprintf(word, sizeof(word), "%s:%s", snapshot->name.name, snapshot->name.tag);
	if (snapshot->name.name[0])
		r = store_get_template(snapshot->serve->store, snapshot->tenant, word,
				       ret_template);
	if (r == 0 && (ret_template->kind != TEMPLATE_SNAPSHOT ||
		       !str_equal(ret_template->tenant, snapshot->tenant))) {
		template_done(ret_template);
		*ret_template = (struct template){ 0 };
		return err_set(err, -EEXIST, "\"%s\" is the name of a template", word);
	}
	if (r == -ENOENT) {
		*ret_template = (struct template){ .created = time_now() };
		r = make_word(ret_template->id, 21);
	}
	return r < 0 ? err_errno(err, r, "snapshot") : 0;
}

static uint64_t bytes_of(const struct fleet_output *output)
{
	_cleanup_(node_freep) struct node *info = NULL;
	struct err err = ERR_NONE;
	const struct node *bytes;

	if (json_read(output->out, output->out_len, NULL, &info, &err) < 0)
		return 0;
	bytes = node_get(info, "bytes");
	return bytes && bytes->kind == NODE_INT && bytes->number > 0 ? (uint64_t)bytes->number : 0;
}

/* How large it is, only the making of it tells. The one that it replaces counts until it is gone. */
static int check_room(const struct snapshot *snapshot, struct err *err)
{
	struct tenant tenant;

	/* Where no key is asked for there is no quota. */
	if (store_get_tenant(snapshot->serve->store, snapshot->tenant, &tenant) < 0)
		return 0;
	return registry_check_image(snapshot->serve->registry, &tenant, snapshot->bytes, err);
}

static int put_row(const struct snapshot *snapshot, const struct held *held,
		   struct template *ret_template, struct err *err)
{
	_cleanup_free_ char *old = NULL;
	struct template t = { 0 };
	int r = find_old(snapshot, &t, err);

	if (r < 0)
		return r;
	old = take_ptr(&t.image);
	r = fill_row(snapshot, held, &t);
	r = r < 0 ? r : take_commands(snapshot, held, &t);
	r = r < 0 ? r : store_put_template(snapshot->serve->store, &t, err);
	if (r < 0) {
		template_done(&t);
		return err->code ? r : err_set(err, r, "out of memory");
	}
	if (old && old[0])
		snapshot_remove_image(snapshot->serve, old);
	*ret_template = t;
	return 0;
}

static void snapshot_end(struct snapshot *snapshot, const struct template *t, const struct err *err)
{
	struct request *q = snapshot->q;

	free(snapshot);
	if (!q)
		return;
	q->of = NULL;
	q->gone = NULL;
	if (t)
		answer_take_json(q, 201, shape_snapshot(t));
	else if (err->code == -EDQUOT)
		refuse_full(q, QUOTA_WAIT_S, err);
	else
		refuse_err(q, err);
}

static void on_snapshot(void *of, const struct fleet_output *output)
{
	_cleanup_(template_done) struct template t = { 0 };
	struct snapshot *snapshot = of;
	struct err err = ERR_NONE;
	const struct held *held;
	int r = snapshot_failed(output, &err);

	if (r == 0) {
		snapshot->bytes = bytes_of(output);
		held = registry_find(snapshot->serve->registry, snapshot->id, snapshot->tenant);
		r = check_room(snapshot, &err);
		r = r < 0  ? r
		    : held ? put_row(snapshot, held, &t, &err)
			   : err_set(&err, -ESRCH, "sandbox \"%s\" has ended", snapshot->id);
		if (r < 0)
			snapshot_remove_image(snapshot->serve, snapshot->image);
	}
	snapshot_end(snapshot, r < 0 ? NULL : &t, &err);
}

static int read_wish(struct request *q, struct name *ret_name, struct err *err)
{
	const char *text = NULL;
	bool memory = false;
	int r = wish_text(q->body, "name", (size_t)2 * NAME_MAX_BYTES, &text, err);

	r = r < 0 ? r : wish_bool(q->body, "memory", &memory, err);
	if (r == 0 && memory)
		r = err_set(err, -EINVAL,
			    "\"memory\": a snapshot has the files of a sandbox, not its memory");
	if (r == 0 && text)
		r = read_name(q->tenant_name, text, ret_name, err);
	return r;
}

void control_snapshot(struct request *q)
{
	const struct held *held = own_sandbox(q);
	struct name name = { .tag = "default" };
	struct snapshot *snapshot;
	struct err err = ERR_NONE;
	int r;

	if (!held)
		return;
	r = read_wish(q, &name, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot) {
		answer_error(q, 503, "out of memory");
		return;
	}
	*snapshot = (struct snapshot){ .q = q, .serve = q->serve, .name = name };
	snprintf(snapshot->tenant, sizeof(snapshot->tenant), "%s", q->tenant_name);
	snprintf(snapshot->id, sizeof(snapshot->id), "%s", held->id);
	q->of = snapshot;
	q->gone = snapshot_leave;
	r = snapshot_image_name(IMAGE_PREFIX, snapshot->image);
	r = r < 0 ? err_errno(&err, r, "snapshot")
		  : snapshot_run(q->serve, held->id, snapshot->image, on_snapshot, snapshot, &err);
	if (r < 0)
		snapshot_end(snapshot, NULL, &err);
}

/* --- those that there are --- */

static bool fits(const struct request *q, const struct template *t, const char *sandbox,
		 const struct name *name)
{
	if (t->kind != TEMPLATE_SNAPSHOT || !str_equal(t->tenant, q->tenant_name))
		return false;
	if (name->name[0] &&
	    (!str_equal(t->name, name->name) || (name->tag[0] && !has_tag(t, name->tag))))
		return false;
	return !sandbox[0] || str_equal(t->source, sandbox);
}

/* sandboxID and name of the query. A name without a tag means all of its tags. */
static bool read_query(struct request *q, char *sandbox, size_t size, struct name *name)
{
	char text[2 * NAME_MAX_BYTES + 1];
	struct err err = ERR_NONE;
	int r = query_get(q, "sandboxID", 0, sandbox, size);

	if (r == -ENOENT)
		sandbox[0] = '\0';
	else if (r == 0)
		sandbox[strcspn(sandbox, "-")] = '\0';
	if (r < 0 && r != -ENOENT) {
		refuse(q, 400, "\"sandboxID\" is not the id of a sandbox");
		return false;
	}
	r = query_get(q, "name", 0, text, sizeof(text));
	if (r == -ENOENT || (r == 0 && !text[0]))
		return true;
	r = r < 0 ? err_set(&err, -EINVAL, "\"name\" is too long, or has odd bytes")
		  : read_name(q->tenant_name, text, name, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return false;
	}
	if (!strchr(text, ':'))
		name->tag[0] = '\0';
	return true;
}

static int by_page(const void *a, const void *b)
{
	const struct template *x = a, *y = b;

	return page_order(false, x->created, x->id, y->created, y->id);
}

static struct node *list_page(struct request *q, const struct page *page, struct template *all,
			      size_t count, const char *sandbox, const struct name *name)
{
	const struct template *last = NULL;
	struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	if (count > 0)
		qsort(all, count, sizeof(*all), by_page);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (!fits(q, &all[i], sandbox, name) ||
		    !page_is_behind(page, all[i].created, all[i].id))
			continue;
		if (last && list->count == page->limit) {
			page_next(q, last->created, last->id);
			break;
		}
		last = &all[i];
		r = node_add(list, shape_snapshot(&all[i]));
	}
	if (r == 0)
		return list;
	node_free(list);
	return NULL;
}

void control_snapshots(struct request *q)
{
	struct name name = { 0 };
	struct template *all = NULL;
	char sandbox[64];
	struct page page;
	size_t count = 0;
	int r;

	if (!page_read(q, &page) || !read_query(q, sandbox, sizeof(sandbox), &name))
		return;
	r = store_list_templates(q->serve->store, q->tenant_name, &all, &count);
	if (r < 0) {
		answer_error(q, 503, "snapshots cannot be listed: %s", strerror(-r));
		return;
	}
	answer_take_json(q, 200, list_page(q, &page, all, count, sandbox, &name));
	for (size_t i = 0; i < count; i++)
		template_done(&all[i]);
	free(all);
}

/* --- the end of one --- */

/* Rows that share an image: tags of a template do. */
static bool is_needed(struct serve *serve, const char *image)
{
	struct template *all = NULL;
	size_t count = 0;
	bool found = false;

	if (store_list_templates(serve->store, NULL, &all, &count) < 0)
		return true;
	for (size_t i = 0; i < count; i++) {
		found |= str_equal(all[i].image, image);
		template_done(&all[i]);
	}
	free(all);
	return found;
}

/* What is not this tenant's own is not there to be deleted, "base" neither. */
void control_delete_template(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	int r = make_find_template(q->serve, q->tenant_name, q->parameter[0], &t);

	if (r < 0 || !str_equal(t.tenant, q->tenant_name)) {
		refuse(q, 404, "template \"%.128s\" does not exist, or is not yours",
		       q->parameter[0]);
		return;
	}
	r = store_delete_template(q->serve->store, t.id);
	if (r < 0 && r != -ENOENT) {
		answer_error(q, 503, "the template cannot be deleted: %s", strerror(-r));
		return;
	}
	if (t.image[0] && !is_needed(q->serve, t.image))
		snapshot_remove_image(q->serve, t.image);
	answer_empty(q, 204);
}

/* --- at the start --- */

static void on_images(void *of, const struct fleet_output *output)
{
	_cleanup_(node_freep) struct node *root = NULL;
	struct serve *serve = of;
	const struct node *images;
	struct err err = ERR_NONE;

	if (json_read(output->out, output->out_len, NULL, &root, &err) < 0) {
		log_line(LOG_WARNING, "images cannot be listed: %s", output->err);
		return;
	}
	images = node_get(root, "images");
	for (size_t i = 0; images && images->kind == NODE_LIST && i < images->count; i++) {
		const struct node *name = node_get(images->entries[i].value, "name");

		if (name && name->kind == NODE_STRING &&
		    (str_starts(name->text, IMAGE_PREFIX) ||
		     str_starts(name->text, SNAPSHOT_BUILD_PREFIX) ||
		     str_starts(name->text, SNAPSHOT_FORK_PREFIX)) &&
		    !is_needed(serve, name->text))
			snapshot_remove_image(serve, name->text);
	}
}

void snapshot_sweep(struct serve *serve)
{
	char *words[] = { (char *)(uintptr_t) "image", (char *)(uintptr_t) "ls",
			  (char *)(uintptr_t) "--json", NULL };
	struct err err = ERR_NONE;

	if (fleet_run(serve->fleet, words, on_images, serve, NULL, &err) < 0)
		log_line(LOG_WARNING, "images cannot be listed: %s", err.text);
}
