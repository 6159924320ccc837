/* e2b_process.c - process.Process: its routes, and the calls that are no streams */
#include "serve/e2b_process.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* --- what all of them need --- */

void rpc_done(struct request *q)
{
	exchange_answer(q->x, 200, "application/json", "{}", 2);
}

void rpc_error(struct request *q, enum connect_code code, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf body = BUF(16 * KIB);
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (connect_error(&body, code, text) < 0)
		answer_error(q, 500, "out of memory");
	else
		exchange_answer(q->x, connect_status(code), "application/json", body.data,
				body.len);
}

/* Without what may stand behind a semicolon. */
bool rpc_has_type(struct request *q, const char *type)
{
	const struct text *field = head_find(&q->x->head, "content-type");
	struct text given = field ? *field : (struct text){ "", 0 };
	const char *end = memchr(given.data, ';', given.len);

	if (end)
		given.len = (size_t)(end - given.data);
	while (given.len > 0 && given.data[given.len - 1] == ' ')
		given.len--;
	if (text_is_nocase(&given, type))
		return true;
	exchange_header(q->x, "Accept-Post", type);
	answer_error(q, 415, "this takes %s", type);
	return false;
}

int rpc_timeout(const struct request *q, uint64_t *ret_ms)
{
	const struct text *field = head_find(&q->x->head, "connect-timeout-ms");
	uint64_t ms = 0;

	*ret_ms = 0;
	if (!field)
		return 0;
	if (field->len == 0 || field->len > 10)
		return -EINVAL;
	for (size_t i = 0; i < field->len; i++) {
		if (field->data[i] < '0' || field->data[i] > '9')
			return -EINVAL;
		ms = ms * 10 + (uint64_t)(field->data[i] - '0');
	}
	*ret_ms = ms;
	return 0;
}

const struct node *rpc_get(const struct node *map, const char *key)
{
	const struct node *value = node_get(map, key);

	return value && value->kind != NODE_NULL ? value : NULL;
}

int rpc_number(const struct node *map, const char *key, uint32_t fallback, uint32_t *ret)
{
	const struct node *value = rpc_get(map, key);
	uint64_t number;
	struct err err;

	*ret = fallback;
	if (!value)
		return 0;
	if (value->kind == NODE_INT && value->number >= 0 && value->number <= UINT32_MAX)
		*ret = (uint32_t)value->number;
	else if (value->kind == NODE_STRING && parse_count(value->text, &number, &err) == 0 &&
		 number <= UINT32_MAX)
		*ret = (uint32_t)number;
	else
		return -EINVAL;
	return 0;
}

/* --- calls about one process: find it, then ask init --- */

struct unary {
	struct request *q;
	struct find find;
	loop_id deadline;
	call_id call;
	void (*draft)(struct unary *u, struct draft *d); /* without the process */
	enum message_type type;
};

static void unary_gone(struct request *q)
{
	struct unary *u = q->of;

	find_end(&u->find);
	loop_cancel(q->serve->loop, u->deadline);
	call_cancel(q->serve->fleet, u->call);
	free(u);
}

static void unary_stop(struct unary *u)
{
	find_end(&u->find);
	u->deadline = loop_cancel(u->q->serve->loop, u->deadline);
	u->call = call_cancel(u->q->serve->fleet, u->call);
}

static void on_deadline(void *of)
{
	struct unary *u = of;

	u->deadline = 0;
	unary_stop(u);
	rpc_error(u->q, CONNECT_DEADLINE_EXCEEDED, "the time for this call is over");
}

/* Of what init refused: a process that is not there any more is not found. */
static void unary_fail(struct unary *u, int code, const char *text)
{
	char words[256];

	if (code == -ESRCH && registry_find(u->q->serve->registry, u->q->sandbox, NULL)) {
		find_explain(&u->find, words, sizeof(words));
		unary_stop(u);
		rpc_error(u->q, CONNECT_NOT_FOUND, "%s", words);
		return;
	}
	unary_stop(u);
	if (code == -ESRCH)
		answer_gone(u->q, u->q->sandbox, 0);
	else if (code == -ENOTTY)
		rpc_error(u->q, CONNECT_FAILED_PRECONDITION, "%s", text);
	else
		rpc_error(u->q, code == -EPIPE ? CONNECT_INTERNAL : connect_of_errno(code), "%s",
			  text);
}

static void on_answer(void *of, struct message *m, bool is_last)
{
	struct unary *u = of;

	if (!is_last)
		return;
	u->call = 0;
	if (m->type == MESSAGE_ERROR) {
		unary_fail(u, -(int)MIN(message_number(m, FIELD_CODE, EIO), (uint64_t)4095),
			   message_text(m, FIELD_TEXT, ""));
		return;
	}
	unary_stop(u);
	rpc_done(u->q);
}

static void on_found(void *of, const struct exec_found *found, const struct err *err)
{
	struct unary *u = of;
	struct draft d = DRAFT(u->type, 0);
	struct err failure = ERR_NONE;

	if (!found) {
		unary_fail(u, err->code ? err->code : -ESRCH, err->text);
		return;
	}
	draft_number(&d, FIELD_PROCESS, found->process);
	if (u->draft)
		u->draft(u, &d);
	if (call_start(u->q->serve->fleet, u->q->sandbox, &d, NULL, 0, on_answer, u, &u->call,
		       &failure) < 0)
		unary_fail(u, failure.code, failure.text);
}

static void unary_begin(struct request *q, enum message_type type,
			void (*draft)(struct unary *u, struct draft *d))
{
	struct unary *u = calloc(1, sizeof(*u));
	struct err err = ERR_NONE;
	uint64_t timeout;
	int r;

	if (!u) {
		rpc_error(q, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*u = (struct unary){ .q = q, .type = type, .draft = draft };
	u->find.done = on_found;
	u->find.of = u;
	u->find.running = type != MESSAGE_SIGNAL;
	q->of = u;
	q->gone = unary_gone;
	r = rpc_timeout(q, &timeout);
	if (r < 0)
		err_set(&err, r, "Connect-Timeout-Ms is not a number of milliseconds");
	else if (timeout && loop_after(q->serve->loop, timeout, on_deadline, u, &u->deadline) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	r = r < 0 ? r : find_begin(&u->find, q, rpc_get(q->body, "process"), &err);
	if (r < 0)
		unary_fail(u, r, err.text);
}

/* --- SendSignal --- */

static const struct {
	const char *name;
	int signal;
} signals[] = { { "SIGNAL_SIGKILL", SIGKILL }, { "SIGNAL_SIGTERM", SIGTERM } };

static int wanted_signal(const struct request *q)
{
	const struct node *value = rpc_get(q->body, "signal");

	for (size_t i = 0; value && i < ARRAY_SIZE(signals); i++)
		if (value->kind == NODE_STRING
			    ? str_equal(value->text, signals[i].name)
			    : value->kind == NODE_INT && value->number == signals[i].signal)
			return signals[i].signal;
	return 0;
}

/* A kill is for its group: what a shell started for it must not be left behind. To be asked to end is the
 * business of the process itself, and of whom it asks. */
static void draft_signal(struct unary *u, struct draft *d)
{
	int wanted = wanted_signal(u->q);

	draft_number(d, FIELD_SIGNAL, (uint64_t)wanted);
	if (wanted == SIGKILL)
		draft_number(d, FIELD_FLAGS, SIGNAL_GROUP);
}

static void send_signal(struct request *q)
{
	if (!rpc_has_type(q, "application/json"))
		return;
	if (!wanted_signal(q))
		rpc_error(q, CONNECT_UNIMPLEMENTED, "a signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM");
	else
		unary_begin(q, MESSAGE_SIGNAL, draft_signal);
}

/* --- CloseStdin --- */

static void close_stdin(struct request *q)
{
	if (rpc_has_type(q, "application/json"))
		unary_begin(q, MESSAGE_INPUT_END, NULL);
}

/* --- Update --- */

static int wanted_size(const struct request *q, uint32_t *ret_rows, uint32_t *ret_columns)
{
	const struct node *size = rpc_get(rpc_get(q->body, "pty"), "size");

	if (!size || rpc_number(size, "rows", 0, ret_rows) < 0 ||
	    rpc_number(size, "cols", 0, ret_columns) < 0 || *ret_rows > UINT16_MAX ||
	    *ret_columns > UINT16_MAX)
		return -EINVAL;
	return 0;
}

static void draft_size(struct unary *u, struct draft *d)
{
	uint32_t rows = 0, columns = 0;

	(void)!wanted_size(u->q, &rows, &columns);
	draft_number(d, FIELD_ROWS, rows);
	draft_number(d, FIELD_COLUMNS, columns);
}

static void update(struct request *q)
{
	uint32_t rows, columns;

	if (!rpc_has_type(q, "application/json"))
		return;
	if (wanted_size(q, &rows, &columns) < 0)
		rpc_error(q, CONNECT_INVALID_ARGUMENT, "pty.size has cols and rows, up to 65535");
	else
		unary_begin(q, MESSAGE_RESIZE, draft_size);
}

/* --- List --- */

#define LIST_MAX (16 * MIB)

struct listing {
	struct request *q;
	struct exec_list list;
	struct buf text;
	size_t count;
};

static void listing_gone(struct request *q)
{
	struct listing *l = q->of;

	exec_list_cancel(&l->list);
	buf_done(&l->text);
	free(l);
}

/* What stands in a label is init's word by now: it is read, and written anew. */
static void on_listed(void *of, const struct exec_found *found)
{
	struct listing *l = of;
	_cleanup_(node_freep) struct node *label = NULL;
	struct node *entry;
	const struct node *config, *tag;
	int r;

	if (!found->is_running || !label_is_ours(found->label))
		return;
	label = label_read(found->label);
	config = rpc_get(label, "config");
	tag = rpc_get(label, "tag");
	entry = node_map();
	r = node_set(entry, "config", config ? node_copy(config) : node_map());
	r = r < 0 ? r : node_set(entry, "pid", node_int((int64_t)found->pid));
	if (r == 0 && tag)
		r = node_set(entry, "tag", node_copy(tag));
	if (r == 0)
		r = buf_str(&l->text, l->count++ ? "," : "{\"processes\":[");
	if (r == 0)
		(void)!json_write(entry, true, &l->text);
	node_free(entry);
}

static void on_all_listed(void *of, const struct err *err)
{
	struct listing *l = of;

	if (err->code == -ESRCH) {
		answer_gone(l->q, l->q->sandbox, 0);
		return;
	}
	(void)buf_str(&l->text, l->count ? "]}" : "{\"processes\":[]}");
	if (err->code < 0)
		rpc_error(l->q, connect_of_errno(err->code), "%s", err->text);
	else if (buf_failed(&l->text) < 0)
		rpc_error(l->q, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	else
		exchange_answer(l->q->x, 200, "application/json", l->text.data, l->text.len);
}

static void list(struct request *q)
{
	struct listing *l;
	struct err err = ERR_NONE;

	if (!rpc_has_type(q, "application/json"))
		return;
	l = calloc(1, sizeof(*l));
	if (!l) {
		rpc_error(q, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*l = (struct listing){ .q = q,
			       .text = BUF(LIST_MAX),
			       .list = { .found = on_listed, .done = on_all_listed, .of = l } };
	q->of = l;
	q->gone = listing_gone;
	if (exec_list(q->serve, q->sandbox, &l->list, &err) < 0)
		on_all_listed(l, &err);
}

/* --- how it ended --- */

/* The words of the field's servers, which are written in Go. */
static const char *const signal_words[] = {
	[SIGHUP] = "hangup",
	[SIGINT] = "interrupt",
	[SIGQUIT] = "quit",
	[SIGILL] = "illegal instruction",
	[SIGTRAP] = "trace/breakpoint trap",
	[SIGABRT] = "aborted",
	[SIGBUS] = "bus error",
	[SIGFPE] = "floating point exception",
	[SIGKILL] = "killed",
	[SIGUSR1] = "user defined signal 1",
	[SIGSEGV] = "segmentation fault",
	[SIGUSR2] = "user defined signal 2",
	[SIGPIPE] = "broken pipe",
	[SIGALRM] = "alarm clock",
	[SIGTERM] = "terminated",
	[SIGSTKFLT] = "stack fault",
	[SIGCHLD] = "child exited",
	[SIGCONT] = "continued",
	[SIGSTOP] = "stopped (signal)",
	[SIGTSTP] = "stopped",
	[SIGTTIN] = "stopped (tty input)",
	[SIGTTOU] = "stopped (tty output)",
	[SIGURG] = "urgent I/O condition",
	[SIGXCPU] = "CPU time limit exceeded",
	[SIGXFSZ] = "file size limit exceeded",
	[SIGVTALRM] = "virtual timer expired",
	[SIGPROF] = "profiling timer expired",
	[SIGWINCH] = "window changed",
	[SIGIO] = "I/O possible",
	[SIGPWR] = "power failure",
	[SIGSYS] = "bad system call",
};

void status_words(int status, char *ret, size_t size)
{
	size_t number = WIFSIGNALED(status) ? (size_t)WTERMSIG(status) : 0;
	const char *dump = WIFSIGNALED(status) && WCOREDUMP(status) ? " (core dumped)" : "";

	if (!number)
		snprintf(ret, size, "exit status %d", WEXITSTATUS(status));
	else if (number < ARRAY_SIZE(signal_words) && signal_words[number])
		snprintf(ret, size, "signal: %s%s", signal_words[number], dump);
	else
		snprintf(ret, size, "signal: signal %zu%s", number, dump);
}

#define RPC(name, function)                                                            \
	.method = METHOD_POST, .path = "/process.Process/" name, .need = NEED_SANDBOX, \
	.handle = (function)

const struct route process_routes[] = {
	{ RPC("Start", process_start), .streams = true },
	{ RPC("Connect", process_connect), .streams = true },
	{ RPC("List", list), .body = RPC_BODY_MAX, .body_is_optional = true },
	{ RPC("SendInput", process_send_input), .streams = true },
	{ RPC("StreamInput", process_stream_input), .streams = true },
	{ RPC("CloseStdin", close_stdin), .body = RPC_BODY_MAX },
	{ RPC("SendSignal", send_signal), .body = RPC_BODY_MAX },
	{ RPC("Update", update), .body = RPC_BODY_MAX },
	{ 0 },
};
