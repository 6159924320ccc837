/* events_verify.c - brig events verify: is what was recorded still what was written? */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/events.h"
#include "trace/catalog.h"
#include "trace/verify.h"

static int add_verdict(const char *id, const struct verdict_of_stream *v, struct node *list)
{
	_cleanup_(node_freep) struct node *map = node_map();
	bool is_broken = v->state == VERIFY_BROKEN;
	int r = map ? node_set(map, "sandbox", node_string(id)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "ok", node_bool(!is_broken));
	r = r < 0 ? r : node_set(map, "state", node_string(verify_state_names[v->state]));
	r = r < 0 ? r : node_set(map, "lines", node_int((int64_t)v->lines));
	r = r < 0 ? r : node_set(map, "line", is_broken ? node_int((int64_t)v->line) : node_null());
	r = r < 0 ? r : node_set(map, "lost", node_int((int64_t)v->lost));
	r = r < 0 ? r : node_set(map, "reason", node_string(v->text));
	return r < 0 ? r : node_add(list, take_ptr(&map));
}

static void print_verdict(const char *id, const struct verdict_of_stream *v)
{
	if (v->state == VERIFY_BROKEN && v->line)
		printf("%s: broken at line %" PRIu64 ": %s\n", id, v->line, v->text);
	else if (v->state == VERIFY_BROKEN)
		printf("%s: broken: %s\n", id, v->text);
	else if (v->lost)
		printf("%s: ok, %" PRIu64 " lines: %s (%" PRIu64 " events)\n", id, v->lines,
		       v->text, v->lost);
	else
		printf("%s: ok, %" PRIu64 " lines: %s\n", id, v->lines, v->text);
}

/* Every id that has a stream or a head: a stream that was removed by hand is found by its head. */
static int find_ids(const struct events_request *request, struct strv *ids, struct err *err)
{
	_cleanup_(strv_done) struct strv heads = { 0 };
	char id[TRACE_ID_SIZE];
	int r;

	if (request->home < 0)
		return 0;
	r = catalog_ids(request->home, "heads", &heads);
	if (r == 0 && request->sandbox && strv_has(&heads, request->sandbox))
		return strv_add(ids, request->sandbox);
	if (r == 0 && request->sandbox) {
		r = catalog_find(request->home, request->sandbox, id, err);
		return r < 0 ? r : strv_add(ids, id);
	}
	r = r < 0 ? r : catalog_ids(request->home, "sandboxes", ids);
	for (size_t i = 0; i < heads.count && r == 0; i++)
		if (!strv_has(ids, heads.items[i]))
			r = strv_add(ids, heads.items[i]);
	return r < 0 ? err_errno(err, r, "cannot read the state directory") : 0;
}

static int print_all(struct node *list, bool is_ok)
{
	_cleanup_(node_freep) struct node *root = node_map();
	int r = root ? node_set(root, "ok", node_bool(is_ok)) : -ENOMEM;

	r = r < 0 ? r : node_set(root, "sandboxes", node_copy(list));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

int events_verify(const struct events_request *request)
{
	_cleanup_(node_freep) struct node *list = node_list();
	_cleanup_(strv_done) struct strv ids = { 0 };
	struct err err = ERR_NONE;
	bool is_ok = true;
	int r = list ? find_ids(request, &ids, &err) : -ENOMEM;

	for (size_t i = 0; i < ids.count && r == 0; i++) {
		struct verdict_of_stream verdict;

		r = verify_stream(request->home, ids.items[i], &verdict, &err);
		/* Removed by another brig since the list was read. */
		if (r == -ENOENT && !request->sandbox) {
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		is_ok &= verdict.state != VERIFY_BROKEN;
		if (request->is_json)
			r = add_verdict(ids.items[i], &verdict, list);
		else
			print_verdict(ids.items[i], &verdict);
	}
	if (r < 0)
		return err.code ? complain(&err) : complain_text("out of memory");
	if (request->is_json && (r = print_all(list, is_ok)) != 0)
		return r;
	return is_ok ? 0 : 1;
}
