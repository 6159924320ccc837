/* e2b_process_find.c - which process a request means, and what is known of those that Start started */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/e2b_process.h"

static const char ours[] = "e2b ";

/* --- labels --- */

bool label_is_ours(const char *label)
{
	return str_starts(label, ours);
}

struct node *label_read(const char *label)
{
	struct node *node = NULL;
	struct err err;

	if (!label_is_ours(label))
		return NULL;
	label += sizeof(ours) - 1;
	if (json_read(label, strlen(label), NULL, &node, &err) < 0)
		return NULL;
	if (node->kind == NODE_MAP)
		return node;
	node_free(node);
	return NULL;
}

/* The first so many fields of config. */
static int write_label(struct buf *buf, const struct node *config, const char *tag, int fields)
{
	static const char *const names[] = { "cmd", "cwd", "args", "envs" };
	_cleanup_(node_freep) struct node *label = node_map();
	struct node *copy = node_map();
	int r = label && copy ? 0 : -ENOMEM;

	for (int i = 0; i < fields && r == 0; i++) {
		const struct node *value = rpc_get(config, names[i]);

		if (value)
			r = node_set(copy, names[i], node_copy(value));
	}
	if (r < 0) {
		node_free(copy);
		return r;
	}
	r = node_set(label, "config", copy);
	if (r == 0 && tag)
		r = node_set(label, "tag", node_string(tag));
	r = r < 0 ? r : buf_str(buf, ours);
	return r < 0 ? r : json_write(label, true, buf);
}

int label_write(struct buf *buf, const struct node *config, const char *tag)
{
	int r = -ENOSPC;

	for (int fields = 4; fields >= 0 && r == -ENOSPC; fields--) {
		buf_done(buf);
		*buf = BUF(EXEC_LABEL_MAX - 1);
		r = write_label(buf, config, tag, fields);
	}
	return r;
}

/* --- looking for one --- */

static bool has_tag(const char *label, const char *tag)
{
	_cleanup_(node_freep) struct node *node = label_read(label);
	const struct node *value = node_get(node, "tag");

	return value && value->kind == NODE_STRING && str_equal(value->text, tag);
}

/* One that has ended is there for a while. What init says of the time is about its own sandbox only. */
static bool is_recent(const struct exec_found *found)
{
	return found->is_running || time_now() < found->ended + EXIT_KEPT_MS;
}

/* A pid can be that of an older one as well: who runs comes first, then who is newer. */
static bool is_better(const struct exec_found *found, const struct find *find)
{
	if (!find->is_found || found->is_running != find->best.is_running)
		return !find->is_found || found->is_running;
	return found->process > find->best.process;
}

static void on_found(void *of, const struct exec_found *found)
{
	struct find *find = of;

	if (!label_is_ours(found->label) || !is_recent(found) ||
	    (find->running && !found->is_running))
		return;
	if (find->tag ? !has_tag(found->label, find->tag) : found->pid != find->pid)
		return;
	if (!is_better(found, find))
		return;
	find->is_found = true;
	find->best = *found;
	find->best.label = "";
}

static void on_listed(void *of, const struct err *err)
{
	struct find *find = of;

	find->done(find->of, find->is_found && err->code == 0 ? &find->best : NULL, err);
}

int find_begin(struct find *find, struct request *q, const struct node *selector, struct err *err)
{
	const struct node *tag = rpc_get(selector, "tag");
	uint32_t pid;

	if (tag && tag->kind == NODE_STRING) {
		find->tag = strdup(tag->text);
		if (!find->tag)
			return err_set(err, -ENOMEM, "out of memory");
	} else if (rpc_number(selector, "pid", 0, &pid) == 0 && rpc_get(selector, "pid")) {
		find->pid = pid;
	} else {
		return err_set(err, -EINVAL, "a process is named by its pid or its tag");
	}
	find->list = (struct exec_list){ .found = on_found, .done = on_listed, .of = find };
	return exec_list(q->serve, q->sandbox, &find->list, err);
}

void find_end(struct find *find)
{
	exec_list_cancel(&find->list);
	free(find->tag);
	find->tag = NULL;
}

void find_explain(const struct find *find, char *ret, size_t size)
{
	if (find->tag)
		snprintf(ret, size, "process with tag %s not found", find->tag);
	else
		snprintf(ret, size, "process with pid %llu not found",
			 (unsigned long long)find->pid);
}
