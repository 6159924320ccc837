/*
 * v1_terminal.c - a shell in a sandbox over a WebSocket
 *
 *	binary, both ways	bytes of the terminal
 *	text, from the client	{"resize": {"rows": 40, "columns": 120}}
 *	text, from us		{"exited": {"exit_code": 0, "signal": null}}, then the end
 *
 * Output waits in the sandbox while the client is slow; input is bounded by what exec.h takes. The shell goes with its client.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/websocket.h"
#include "serve/v1.h"
#include "warden/result.h"

#define PROTOCOL      "brig.terminal"
#define MESSAGE_BYTES (64 * KIB)
#define PING_MS       30000

struct terminal {
	struct request *q;
	struct websocket ws;
	struct exec *exec;
	uint64_t process;
	call_id resize;
	unsigned int rows, columns; /* wanted while a change is under way; 0: none */
	loop_id timer;
	bool is_over, heard; /* heard: since the last ping */
};

static const struct doc_field size_fields[] = {
	{ "rows", DOC_WHOLE, .is_required = true, .min = 1, .max = 1000 },
	{ "columns", DOC_WHOLE, .is_required = true, .min = 1, .max = 1000 },
	DOC_END,
};
static const struct doc_field control_fields[] = {
	{ "resize", DOC_OBJECT, .is_required = true, .of = size_fields },
	DOC_END,
};

static void terminal_gone(struct request *q)
{
	struct terminal *t = q->of;

	t->timer = loop_cancel(q->serve->loop, t->timer);
	t->resize = call_cancel(q->serve->fleet, t->resize);
	if (t->exec) {
		exec_signal(t->exec, SIGHUP);
		exec_signal(t->exec, SIGKILL);
		exec_leave(t->exec);
	}
	websocket_done(&t->ws);
	free(t);
}

static void send_frame(struct terminal *t, enum websocket_kind kind, const void *data, size_t len)
{
	unsigned char head[WEBSOCKET_HEAD_MAX];

	if (t->is_over)
		return;
	exchange_write(t->q->x, head, websocket_head(kind, len, head));
	exchange_write(t->q->x, data, len);
}

static void say_goodbye(struct terminal *t, enum websocket_code code, const char *words)
{
	char content[WEBSOCKET_CONTROL_MAX];

	if (t->is_over)
		return;
	send_frame(t, WEBSOCKET_CLOSE, content, websocket_goodbye(code, words, content));
	t->is_over = true;
	exchange_end(t->q->x);
}

/* --- the process --- */

static void on_started(void *of, uint64_t process, uint64_t pid)
{
	struct terminal *t = of;

	(void)pid;
	t->process = process;
}

static void on_output(void *of, enum exec_stream stream, const char *data, size_t len)
{
	struct terminal *t = of;

	(void)stream;
	send_frame(t, WEBSOCKET_BINARY, data, len);
	if (exchange_is_full(t->q->x))
		exec_hold(t->exec);
}

static void on_ended(void *of, const struct exec_end *end)
{
	struct terminal *t = of;
	struct task task = { .outcome = end->outcome, .status = end->status };
	char text[128], name[16], quoted[24] = "null";
	int code, signal;

	t->exec = NULL;
	if (end->outcome != EXEC_EXITED) {
		say_goodbye(t, WEBSOCKET_FAILED,
			    end->err && end->err->text[0] ? end->err->text
							  : "the sandbox has ended");
		return;
	}
	code = task_exit_code(&task, &signal);
	if (signal)
		snprintf(quoted, sizeof(quoted), "\"%s\"", signal_name(signal, name, sizeof(name)));
	snprintf(text, sizeof(text), "{\"exited\":{\"exit_code\":%d,\"signal\":%s}}", code, quoted);
	send_frame(t, WEBSOCKET_TEXT, text, strlen(text));
	say_goodbye(t, WEBSOCKET_NORMAL, "the shell has ended");
}

/* --- the client --- */

static void resize_now(struct terminal *t);

static void on_resized(void *of, struct message *m, bool is_last)
{
	struct terminal *t = of;

	(void)m;
	if (!is_last)
		return;
	t->resize = 0;
	resize_now(t);
}

/* One at a time: of many changes in a row the last one counts. */
static void resize_now(struct terminal *t)
{
	struct draft d = DRAFT(MESSAGE_RESIZE, 0);
	struct err err = ERR_NONE;

	if (!t->rows || t->resize || !t->process) {
		draft_done(&d);
		return;
	}
	draft_number(&d, FIELD_PROCESS, t->process);
	draft_number(&d, FIELD_ROWS, t->rows);
	draft_number(&d, FIELD_COLUMNS, t->columns);
	t->rows = 0;
	if (call_start(t->q->serve->fleet, t->q->sandbox, &d, NULL, 0, on_resized, t, &t->resize,
		       &err) < 0)
		t->resize = 0;
}

static void take_control(struct terminal *t, const struct websocket_message *m)
{
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *size;
	struct err err = ERR_NONE;

	if (json_read(m->data, m->len, NULL, &node, &err) < 0 ||
	    doc_check(control_fields, node, &err) < 0) {
		say_goodbye(t, WEBSOCKET_REFUSED, err.text);
		return;
	}
	size = node_get(node, "resize");
	t->rows = (unsigned int)doc_number(size, "rows", 24);
	t->columns = (unsigned int)doc_number(size, "columns", 80);
	resize_now(t);
}

static void take_message(struct terminal *t, const struct websocket_message *m)
{
	switch (m->kind) {
	case WEBSOCKET_BINARY:
		/* What nobody inside reads is bounded there. */
		if (t->exec && exec_write(t->exec, m->data, m->len) < 0)
			say_goodbye(t, WEBSOCKET_TOO_BIG, "nobody reads what was typed");
		break;
	case WEBSOCKET_TEXT:
		take_control(t, m);
		break;
	case WEBSOCKET_PING:
		send_frame(t, WEBSOCKET_PONG, m->data, m->len);
		break;
	case WEBSOCKET_CLOSE:
		say_goodbye(t, WEBSOCKET_NORMAL, "");
		break;
	case WEBSOCKET_PONG:
	case WEBSOCKET_MORE:
		break;
	}
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct terminal *t = q->of;
	struct websocket_message m;
	int r = 0;

	t->heard = true;
	while (!t->is_over && (r = websocket_next(&t->ws, &data, &len, &m)) > 0)
		take_message(t, &m);
	if (r < 0)
		say_goodbye(t, websocket_code(r), "");
}

static void on_end(struct exchange *x)
{
	struct request *q = x->of;

	exchange_abort(q->x);
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct terminal *t = q->of;

	if (t->exec)
		exec_go_on(t->exec);
}

/* A client that says nothing, not even that it is there, is gone. */
static void on_ping(void *of)
{
	struct terminal *t = of;

	t->timer = 0;
	if (!t->heard) {
		exchange_abort(t->q->x);
		return;
	}
	t->heard = false;
	send_frame(t, WEBSOCKET_PING, "", 0);
	if (loop_after(t->q->serve->loop, PING_MS, on_ping, t, &t->timer) < 0)
		t->timer = 0;
}

static int start(struct terminal *t, struct err *err)
{
	static const struct exec_ops ops = { .started = on_started,
					     .output = on_output,
					     .ended = on_ended };
	_cleanup_(strv_done) struct strv env = { 0 };
	struct request *q = t->q;
	char program[256], user[64];
	char *const argv[] = { program, (char[]){ "-l" }, NULL };
	const struct exec_plan plan = {
		.argv = argv,
		.user = doc_query_text(q, "user", user, sizeof(user)),
		.has_terminal = true,
		.rows = (unsigned int)doc_query_number(q, "rows", 24),
		.columns = (unsigned int)doc_query_number(q, "columns", 80),
	};
	struct exec_plan filled = plan;
	int r = exec_environment(q->serve, q->held, &env);

	r = r < 0 ? r : strv_add(&env, "TERM=xterm-256color");
	if (r < 0)
		return err_errno(err, r, "the environment");
	filled.env = env.items;
	if (!doc_query_text(q, "shell", program, sizeof(program)))
		snprintf(program, sizeof(program), "bash");
	return exec_start(q->serve, q->sandbox, &filled, &ops, t, &t->exec, err);
}

static void accept_socket(struct terminal *t, const char *accept)
{
	struct exchange *x = t->q->x;

	exchange_header(x, "Upgrade", "websocket");
	exchange_header(x, "Sec-WebSocket-Accept", accept);
	if (websocket_offers(&x->head, PROTOCOL))
		exchange_header(x, "Sec-WebSocket-Protocol", PROTOCOL);
	x->drained = on_drained;
	exchange_tunnel(x, 101, on_data, on_end);
}

void v1_terminal(struct request *q)
{
	char accept[WEBSOCKET_ACCEPT_SIZE];
	struct terminal *t;
	struct err err = ERR_NONE;
	const char *why;
	int r = websocket_check(&q->x->head, accept, &why);

	if (r < 0) {
		exchange_header(q->x, "Sec-WebSocket-Version", "13");
		exchange_header(q->x, "Upgrade", "websocket");
		answer_error(q, 426, "%s", why);
		return;
	}
	if (q->held->state == HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is paused: resume it first");
		return;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		answer_error(q, 503, "out of memory");
		return;
	}
	t->q = q;
	t->heard = true;
	websocket_init(&t->ws, MESSAGE_BYTES);
	q->of = t;
	q->gone = terminal_gone;
	if (start(t, &err) < 0 || loop_after(q->serve->loop, PING_MS, on_ping, t, &t->timer) < 0) {
		v1_refuse(q, &err);
		return;
	}
	accept_socket(t, accept);
}
