/* e2b_template_tags.c - tags of templates: further names for what was built */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/e2b_build.h"
#include "serve/e2b_control.h"
#include "serve/snapshot.h"
#include "serve/wish.h"

#define TAGS_MAX 32

static void build_of(const struct template *t, char ret_id[static BUILD_ID_SIZE])
{
	char words[64];

	snprintf(words, sizeof(words), "%s %" PRIu64, t->id, t->updated);
	build_uuid(words, ret_id);
}

static int read_tags(const struct request *q, const struct node **ret_tags, struct err *err)
{
	char name[TEMPLATE_NAME_MAX + 1], tag[TEMPLATE_NAME_MAX + 1];
	const struct node *tags = NULL;
	int r = wish_list(q->body, "tags", &tags, err);

	if (r == 0 && (!tags || tags->count == 0 || tags->count > TAGS_MAX))
		r = err_set(err, -EINVAL, "\"tags\" wants 1 to %d of them", TAGS_MAX);
	for (size_t i = 0; r == 0 && tags && i < tags->count; i++) {
		const struct node *value = tags->entries[i].value;

		r = value->kind == NODE_STRING && !strchr(value->text, ':')
			    ? template_read_name(value->text, name, tag, err)
			    : err_set(err, -EINVAL, "that is no tag");
	}
	*ret_tags = tags;
	return r;
}

static void remove_images(struct serve *serve, const struct strv *images)
{
	for (size_t i = 0; i < images->count; i++)
		snapshot_remove_image(serve, images->items[i]);
}

/* One of the tenant's own; else it was answered. */
static bool find_own(struct request *q, const char *word, struct template *t)
{
	int r = make_find_template(q->serve, q->tenant_name, word, t);

	if (r == 0 && str_equal(t->tenant, q->tenant_name) && t->kind == TEMPLATE_BUILT)
		return true;
	refuse(q, 404, "template \"%.128s\" does not exist, or is not yours", word);
	return false;
}

static int join_tags(struct template *t, const struct node *more)
{
	_cleanup_(node_freep) struct node *all = extra_json(t->tags);
	char *json;
	int r = 0;

	if (!all || all->kind != NODE_LIST)
		return -EINVAL;
	for (size_t i = 0; i < more->count && r == 0; i++)
		if (!template_has_tag(t, more->entries[i].value->text))
			r = node_add(all, node_copy(more->entries[i].value));
	json = r < 0 ? NULL : wish_json(all);
	if (!json)
		return -ENOMEM;
	free(t->tags);
	t->tags = json;
	return 0;
}

void template_add_tags(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(strv_done) struct strv old = { 0 };
	_cleanup_(node_freep) struct node *map = node_map();
	const struct node *tags = NULL;
	struct err err = ERR_NONE;
	char build[BUILD_ID_SIZE];
	int r = map ? read_tags(q, &tags, &err) : -ENOMEM;

	if (r == 0 && !find_own(q, body_text_of(q, "target", ""), &t))
		return;
	r = r < 0 ? r : join_tags(&t, tags);
	r = r < 0 ? r : store_put_template(q->serve->store, &t, &err);
	r = r < 0 ? r
		  : template_take_tags(q->serve->store, t.tenant, t.name, tags, t.id, &old, &err);
	if (r < 0) {
		refuse_err(q, err.code ? &err : (err_errno(&err, r, "tags"), &err));
		return;
	}
	remove_images(q->serve, &old);
	build_of(&t, build);
	r = node_set(map, "buildID", node_string(build));
	r = r < 0 ? r : node_set(map, "tags", node_copy(tags));
	answer_take_json(q, 201, r < 0 ? NULL : take_ptr(&map));
}

void template_delete_tags(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(strv_done) struct strv old = { 0 };
	const struct node *tags = NULL;
	struct err err = ERR_NONE;
	int r = read_tags(q, &tags, &err);

	if (r == 0 && !find_own(q, body_text_of(q, "name", ""), &t))
		return;
	r = r < 0 ? r
		  : template_take_tags(q->serve->store, t.tenant, t.name, tags, NULL, &old, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	remove_images(q->serve, &old);
	answer_empty(q, 204);
}

static int add_row(const struct template *t, struct node *list)
{
	_cleanup_(node_freep) struct node *tags = extra_json(t->tags);
	char build[BUILD_ID_SIZE];
	int r = 0;

	build_of(t, build);
	for (size_t i = 0; tags && i < tags->count && r == 0; i++) {
		_cleanup_(node_freep) struct node *map = node_map();

		r = map ? node_set(map, "tag", node_copy(tags->entries[i].value)) : -ENOMEM;
		r = r < 0 ? r : node_set(map, "buildID", node_string(build));
		r = r < 0 ? r : node_set(map, "createdAt", shape_time(t->updated));
		r = r < 0 ? r : node_add(list, take_ptr(&map));
	}
	return r;
}

/* Of all rows of that name. */
void template_tags(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(node_freep) struct node *list = node_list();
	struct template *all = NULL;
	size_t count = 0;
	int r;

	if (make_find_template(q->serve, q->tenant_name, q->parameter[0], &t) < 0) {
		refuse(q, 404, "template \"%.128s\" does not exist", q->parameter[0]);
		return;
	}
	r = list ? store_list_templates(q->serve->store, q->tenant_name, &all, &count) : -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (r == 0 && str_equal(all[i].tenant, t.tenant) && str_equal(all[i].name, t.name))
			r = add_row(&all[i], list);
		template_done(&all[i]);
	}
	free(all);
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&list));
}
