/*
 * make_start.c - the start command of a template, and the one that says when it is ready
 *
 * A template is files: what it has running when it is built does not run in what is made from it, so its start
 * command is started anew in each sandbox, and goes on there. The ready command is tried until it succeeds; when
 * it never does, the sandbox is given to the client as it is, since a client can look for itself. One that does not
 * even end is no answer at all: nobody waits for it longer than the sandbox would live.
 */
#include <errno.h>
#include <sys/wait.h>

#include "serve/agent.h"
#include "serve/make_internal.h"

#define READY_AGAIN_MS 250

static void add_variables(struct draft *d, const char *json)
{
	_cleanup_(node_freep) struct node *env = NULL;
	_cleanup_(buf_done) struct buf text = BUF(MESSAGE_MAX);
	struct err err = ERR_NONE;

	if (!json[0] || json_read(json, strlen(json), NULL, &env, &err) < 0)
		return;
	for (size_t i = 0; i < env->count; i++) {
		const struct node *value = env->entries[i].value;

		if (value->kind != NODE_STRING)
			continue;
		buf_reset(&text);
		if (buf_printf(&text, "%s=%s", env->entries[i].key, value->text) == 0)
			draft_text(d, FIELD_VARIABLE, buf_text(&text));
	}
}

static bool is_set(const char *text)
{
	return text && text[0];
}

static int start_shell(struct make *make, const char *command, call_message answer, struct err *err)
{
	static const char *const shell[] = { "/bin/bash", "-l", "-c" };
	struct draft d = DRAFT(MESSAGE_START, 0);

	for (size_t i = 0; i < ARRAY_SIZE(shell); i++)
		draft_text(&d, FIELD_ARGUMENT, shell[i]);
	draft_text(&d, FIELD_ARGUMENT, command);
	add_variables(&d, make->order.held.env);
	if (is_set(make->order.workdir))
		draft_text(&d, FIELD_DIRECTORY, make->order.workdir);
	if (is_set(make->order.user))
		draft_text(&d, FIELD_USER, make->order.user);
	draft_number(&d, FIELD_FLAGS, START_KEPT);
	return call_start(make->serve->fleet, make->id, &d, NULL, 0, answer, make, &make->call,
			  err);
}

static void fail_with(struct make *make, const char *what, struct message *m)
{
	struct err err = ERR_NONE;

	(void)agent_error(m, &err);
	err_prefix(&err, "%s", what);
	make_fail(make, &err);
}

static void try_ready(void *of);

static void on_ready(void *of, struct message *m, bool is_last)
{
	struct make *make = of;
	uint64_t status;

	if (!is_last)
		return;
	make->call = 0;
	if (m->type == MESSAGE_ERROR) {
		fail_with(make, "the template's ready command cannot be started", m);
		return;
	}
	status = message_number(m, FIELD_STATUS, 1);
	if (!make->done || (WIFEXITED((int)status) && WEXITSTATUS((int)status) == 0) ||
	    loop_now(make->serve->loop) >= make->ready_end ||
	    loop_after(make->serve->loop, READY_AGAIN_MS, try_ready, make, &make->timer) < 0)
		make_finish(make);
}

static void try_ready(void *of)
{
	struct make *make = of;
	struct err err = ERR_NONE;

	make->timer = 0;
	if (!make->done || start_shell(make, make->order.ready, on_ready, &err) < 0)
		make_fail(make, &err);
}

static void on_started(void *of, struct message *m, bool is_last)
{
	struct make *make = of;

	if (m->type == MESSAGE_ERROR) {
		make->call = 0;
		fail_with(make, "the template's start command cannot be started", m);
		return;
	}
	/* It goes on by itself: nobody waits for its end. */
	if (is_last)
		make->call = 0;
	else
		make->call = call_cancel(make->serve->fleet, make->call);
	if (is_set(make->order.ready))
		try_ready(make);
	else
		make_finish(make);
}

static uint64_t bound_of(const struct make *make)
{
	return MIN(make->order.timeout_ms, (uint64_t)MAKE_START_MS);
}

static void on_bound(void *of)
{
	struct make *make = of;
	struct err err = ERR_NONE;

	make->bound = 0;
	err_set(&err, -ETIMEDOUT,
		"the template's ready command did not end within %llu s: the sandbox was ended",
		(unsigned long long)bound_of(make) / 1000);
	make_fail(make, &err);
}

void make_start(struct make *make)
{
	struct loop *loop = make->serve->loop;
	struct err err = ERR_NONE;

	if (!is_set(make->order.start)) {
		make_finish(make);
		return;
	}
	make->ready_end = loop_now(loop) + MAKE_READY_MS;
	if (loop_after(loop, bound_of(make), on_bound, make, &make->bound) < 0) {
		err_set(&err, -ENOMEM, "out of memory");
		make_fail(make, &err);
	} else if (start_shell(make, make->order.start, on_started, &err) < 0) {
		make_fail(make, &err);
	}
}
