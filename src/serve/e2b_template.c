/* e2b_template.c - templates as the field's clients see them: which path is whose, and those that only look */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/e2b_build.h"
#include "serve/e2b_control.h"

static void build_of(const struct template *t, char ret_id[static BUILD_ID_SIZE])
{
	char words[64];

	snprintf(words, sizeof(words), "%s %" PRIu64, t->id, t->updated);
	build_uuid(words, ret_id);
}

static int add_sizes(const struct template *t, struct node *map)
{
	const struct held held = { .cpu = t->cpu, .memory = t->memory, .disk = t->disk };
	int r = node_set(map, "cpuCount", node_int(shape_cpus(&held)));

	r = r < 0 ? r : node_set(map, "memoryMB", node_int((int64_t)(shape_memory(&held) / MIB)));
	r = r < 0 ? r : node_set(map, "diskSizeMB", node_int((int64_t)(shape_disk(&held) / MIB)));
	r = r < 0 ? r : node_set(map, "envdVersion", node_string(E2B_VERSION));
	r = r < 0 ? r : node_set(map, "createdAt", shape_time(t->created));
	return r < 0 ? r : node_set(map, "updatedAt", shape_time(t->updated));
}

static struct node *shape_template(const struct template *t)
{
	_cleanup_(node_freep) struct node *map = node_map(), *names = node_list();
	char build[BUILD_ID_SIZE];
	int r = map && names ? node_add(names, node_string(t->name)) : -ENOMEM;

	build_of(t, build);
	r = r < 0 ? r : node_set(map, "templateID", node_string(t->id));
	r = r < 0 ? r : node_set(map, "buildID", node_string(build));
	r = r < 0 ? r : node_set(map, "public", node_bool(!t->tenant[0]));
	r = r < 0 ? r : node_set(map, "names", node_copy(names));
	r = r < 0 ? r : node_set(map, "aliases", take_ptr(&names));
	r = r < 0 ? r : add_sizes(t, map);
	r = r < 0 ? r : node_set(map, "createdBy", node_null());
	r = r < 0 ? r : node_set(map, "lastSpawnedAt", node_null());
	r = r < 0 ? r : node_set(map, "spawnCount", node_int(0));
	r = r < 0 ? r : node_set(map, "buildCount", node_int(1));
	r = r < 0 ? r : node_set(map, "buildStatus", node_string("ready"));
	return r < 0 ? NULL : take_ptr(&map);
}

static struct node *shape_build(const struct template *t)
{
	_cleanup_(node_freep) struct node *map = node_map();
	char build[BUILD_ID_SIZE];
	int r;

	build_of(t, build);
	r = map ? node_set(map, "buildID", node_string(build)) : -ENOMEM;
	r = r < 0 ? r : node_set(map, "status", node_string("ready"));
	r = r < 0 ? r : add_sizes(t, map);
	r = r < 0 ? r : node_set(map, "finishedAt", shape_time(t->updated));
	return r < 0 ? NULL : take_ptr(&map);
}

/* Snapshots have a list of their own. */
static struct node *shape_list(struct request *q)
{
	_cleanup_(node_freep) struct node *list = node_list();
	struct template *all = NULL;
	size_t count = 0;
	int r = list ? store_list_templates(q->serve->store, q->tenant_name, &all, &count)
		     : -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		if (r == 0 && all[i].kind == TEMPLATE_BUILT)
			r = node_add(list, shape_template(&all[i]));
		template_done(&all[i]);
	}
	free(all);
	return r < 0 ? NULL : take_ptr(&list);
}

static void list_templates(struct request *q)
{
	answer_take_json(q, 200, shape_list(q));
}

static int find(struct request *q, struct template *ret_template)
{
	int r = make_find_template(q->serve, q->tenant_name, q->parameter[0], ret_template);

	if (r < 0)
		refuse(q, 404, "template \"%.128s\" does not exist", q->parameter[0]);
	return r;
}

static void show_template(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(node_freep) struct node *map = NULL, *builds = node_list();
	int r;

	if (find(q, &t) < 0)
		return;
	map = shape_template(&t);
	r = map && builds ? node_add(builds, shape_build(&t)) : -ENOMEM;
	r = r < 0 ? r : node_set(map, "builds", take_ptr(&builds));
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&map));
}

static void show_alias(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(node_freep) struct node *map = node_map();
	int r;

	if (find(q, &t) < 0)
		return;
	r = map ? node_set(map, "templateID", node_string(t.id)) : -ENOMEM;
	r = r < 0 ? r : node_set(map, "public", node_bool(!t.tenant[0]));
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&map));
}

/* A tenant's own is its own: one for all is made by who runs the daemon ("brig template build"). */
static void change_template(struct request *q)
{
	_cleanup_(template_done) struct template t = { 0 };
	_cleanup_(node_freep) struct node *map = NULL, *names = node_list();
	const struct node *is_public = node_get(q->body, "public");
	int r;

	if (find(q, &t) < 0)
		return;
	if (!str_equal(t.tenant, q->tenant_name)) {
		refuse(q, 404, "template \"%.128s\" is not yours", q->parameter[0]);
		return;
	}
	if (is_public && is_public->kind == NODE_BOOL && is_public->number) {
		refuse(q, 403, "a template for all tenants is made by \"brig template build\"");
		return;
	}
	map = node_map();
	r = map && names ? node_add(names, node_string(t.name)) : -ENOMEM;
	r = r < 0 ? r : node_set(map, "names", take_ptr(&names));
	answer_take_json(q, 200, r < 0 ? NULL : take_ptr(&map));
}

/* clang-format off */
#define ROW(verb, where, who)  .method = METHOD_##verb, .path = (where), .need = NEED_KEY, .handle = (who)
#define TAKES_BODY             .body = SERVE_JSON_MAX

/* A word stands before the braces that would match it. */
const struct route template_routes[] = {
	{ ROW(POST, "/v3/templates", template_begin), TAKES_BODY },
	{ ROW(POST, "/v2/templates/{id}/builds/{build}", template_start), .body = 4 * SERVE_JSON_MAX },
	{ ROW(GET, "/templates/{id}/builds/{build}/status", template_status), .is_quiet = true },
	{ ROW(GET, "/templates/{id}/builds/{build}/logs", template_logs) },
	{ ROW(GET, "/templates/{id}/files/{hash}", template_files) },
	{ .method = METHOD_PUT, .path = "/templates/files/{hash}/upload", .need = NEED_NOTHING, .handle = template_upload,
	  .streams = true },

	{ ROW(POST, "/templates/tags", template_add_tags), TAKES_BODY },
	{ ROW(DELETE, "/templates/tags", template_delete_tags), TAKES_BODY },
	{ ROW(GET, "/templates/{id}/tags", template_tags) },

	{ ROW(GET, "/templates", list_templates) },
	{ ROW(GET, "/v2/templates", list_templates) },
	{ ROW(GET, "/templates/aliases/{alias}", show_alias) },
	{ ROW(GET, "/templates/{id}", show_template) },
	{ ROW(DELETE, "/templates/{id}", control_delete_template) },
	{ ROW(PATCH, "/templates/{id}", change_template), TAKES_BODY },
	{ ROW(PATCH, "/v2/templates/{id}", change_template), TAKES_BODY },
	{ 0 },
};
/* clang-format on */
