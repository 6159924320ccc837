/* exec_list.c - what runs in a sandbox, and what its processes find in their environment */
#include <errno.h>
#include <string.h>

#include "serve/exec.h"

#define LIST_MAX 4096 /* init knows of fewer, if it is the one that we sent there */

static void on_listed(void *of, struct message *m, bool is_last)
{
	struct exec_list *list = of;
	struct err err = ERR_NONE;

	if (m->type == MESSAGE_PROCESS_IS && ++list->count > LIST_MAX) {
		exec_list_cancel(list);
		err_set(&err, -EPROTO, "the sandbox tells of more processes than there can be");
		list->done(list->of, &err);
		return;
	}
	if (m->type == MESSAGE_PROCESS_IS) {
		uint64_t flags = message_number(m, FIELD_FLAGS, 0);
		const struct exec_found found = {
			.process = message_number(m, FIELD_PROCESS, 0),
			.pid = message_number(m, FIELD_PID, 0),
			.has_terminal = flags & PROCESS_TERMINAL,
			.is_running = flags & PROCESS_RUNNING,
			.is_kept = flags & PROCESS_KEPT,
			.ended = message_number(m, FIELD_ENDED, 0),
			.label = message_text(m, FIELD_LABEL, ""),
		};

		list->found(list->of, &found);
		return;
	}
	if (!is_last)
		return;
	list->call = 0;
	if (m->type == MESSAGE_ERROR)
		err_set(&err, -(int)MIN(message_number(m, FIELD_CODE, EIO), (uint64_t)4095), "%s",
			message_text(m, FIELD_TEXT, ""));
	list->done(list->of, &err);
}

int exec_list(struct serve *serve, const char *sandbox, struct exec_list *list, struct err *err)
{
	struct draft d = DRAFT(MESSAGE_PROCESSES, 0);

	list->serve = serve;
	list->count = 0;
	return call_start(serve->fleet, sandbox, &d, NULL, 0, on_listed, list, &list->call, err);
}

void exec_list_cancel(struct exec_list *list)
{
	if (list->serve)
		list->call = call_cancel(list->serve->fleet, list->call);
}

int exec_environment(struct serve *serve, const struct held *held, struct strv *env)
{
	_cleanup_(node_freep) struct node *map = NULL;
	struct err err;
	int r = 0;

	(void)serve;
	if (!held->env[0])
		return 0;
	r = json_read(held->env, strlen(held->env), NULL, &map, &err);
	for (size_t i = 0; r == 0 && i < map->count; i++) {
		const struct node_entry *entry = &map->entries[i];
		_cleanup_(buf_done) struct buf text = BUF(MESSAGE_MAX);

		if (!entry->key || entry->value->kind != NODE_STRING)
			continue;
		r = buf_printf(&text, "%s=%s", entry->key, entry->value->text);
		r = r < 0 ? r : strv_add(env, text.data);
	}
	return r;
}
