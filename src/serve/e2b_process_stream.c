/*
 * e2b_process_stream.c - Start and Connect: a process as a stream of events
 *
 * Whatever goes wrong is said in the last envelope, with status 200; only a sandbox that is gone is a broken
 * connection or a 502, so that the client asks for its health and learns why.
 *
 * Output is read in pieces and written as one envelope each, put together in one piece of memory that all
 * share: nothing is allocated for it. A client that reads slowly fills what the exchange may hold, then the
 * pipe, and then its process waits.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "http/decode.h"
#include "serve/e2b_process.h"

#define PING_DEFAULT_S 90
#define PING_MAX_S     86400
#define SLACK_MS       500 /* that init waits longer than we do: who is connected is told why first */
#define USER_MAX       256
#define FRAME_MAX      (CONNECT_HEAD + 64 + BASE64_SIZE(EXEC_PIECE))
#define FRAMES         8

struct stream {
	struct request *q;
	bool is_start;
	struct exec *exec;
	struct find find;
	loop_id deadline, ping;
	uint64_t ping_ms, written_at;
	char user[USER_MAX]; /* "": nobody named one */
	char *cwd;           /* as it was asked for, or NULL */
	struct strv argv, env;
};

static void stream_stop(struct stream *s)
{
	struct loop *loop = s->q->serve->loop;

	s->deadline = loop_cancel(loop, s->deadline);
	s->ping = loop_cancel(loop, s->ping);
	exec_leave(s->exec);
	s->exec = NULL;
	find_end(&s->find);
}

static void stream_gone(struct request *q)
{
	struct stream *s = q->of;

	stream_stop(s);
	strv_done(&s->argv);
	strv_done(&s->env);
	free(s->cwd);
	free(s);
}

/* --- what is sent --- */

static void begin(struct stream *s)
{
	if (!exchange_is_begun(s->q->x))
		exchange_begin(s->q->x, 200, "application/connect+json", -1);
}

static void put(struct stream *s, const void *data, size_t len)
{
	begin(s);
	s->written_at = loop_now(s->q->serve->loop);
	exchange_write(s->q->x, data, len);
}

static void put_event(struct stream *s, const struct buf *json)
{
	_cleanup_(buf_done) struct buf frame = BUF(64 * KIB);

	if (buf_failed(json) == 0 && connect_frame(&frame, 0, json->data, json->len) == 0)
		put(s, frame.data, frame.len);
}

static void finish(struct stream *s, enum connect_code code, const char *message)
{
	_cleanup_(buf_done) struct buf frame = BUF(64 * KIB);
	struct exchange *x = s->q->x;

	stream_stop(s);
	if (connect_end(&frame, code, message) < 0) {
		exchange_abort(x);
		return;
	}
	put(s, frame.data, frame.len);
	exchange_end(x);
}

static void lose(struct stream *s)
{
	struct request *q = s->q;

	stream_stop(s);
	if (exchange_is_begun(q->x))
		exchange_abort(q->x);
	else
		answer_gone(q, q->sandbox, 0);
}

#define DATA_BEGIN "{\"event\":{\"data\":{\""
#define DATA_END   "\"}}}"

static const struct {
	const char *text;
	size_t len;
} data_begins[] = {
	[EXEC_OUTPUT] = { DATA_BEGIN "stdout\":\"", sizeof(DATA_BEGIN "stdout\":\"") - 1 },
	[EXEC_ERROR] = { DATA_BEGIN "stderr\":\"", sizeof(DATA_BEGIN "stderr\":\"") - 1 },
	[EXEC_TERMINAL] = { DATA_BEGIN "pty\":\"", sizeof(DATA_BEGIN "pty\":\"") - 1 },
};

/* Envelopes that go out together; empty but between on_output() and on_paused(). */
static char frames[FRAMES * FRAME_MAX];
static size_t frames_len;

static void on_paused(void *of)
{
	struct stream *s = of;

	put(s, frames, frames_len);
	frames_len = 0;
	if (exchange_is_full(s->q->x))
		exec_hold(s->exec);
}

static void on_output(void *of, enum exec_stream stream, const char *data, size_t len)
{
	char *frame, *at;

	if (sizeof(frames) - frames_len < FRAME_MAX)
		on_paused(of);
	frame = frames + frames_len;
	at = frame + CONNECT_HEAD;
	memcpy(at, data_begins[stream].text, data_begins[stream].len);
	at += data_begins[stream].len;
	at += base64_write(data, len, at);
	memcpy(at, DATA_END, sizeof(DATA_END) - 1);
	at += sizeof(DATA_END) - 1;
	connect_head(0, (size_t)(at - frame) - CONNECT_HEAD, (unsigned char *)frame);
	frames_len += (size_t)(at - frame);
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct stream *s = q->of;

	if (s->exec)
		exec_go_on(s->exec);
}

static void on_started(void *of, uint64_t process, uint64_t pid)
{
	_cleanup_(buf_done) struct buf json = BUF(KIB);
	struct stream *s = of;

	(void)process;
	(void)buf_printf(&json, "{\"event\":{\"start\":{\"pid\":%u}}}", (unsigned int)pid);
	put_event(s, &json);
}

static void put_end(struct stream *s, int status)
{
	_cleanup_(buf_done) struct buf json = BUF(KIB);
	bool exited = WIFEXITED(status);
	int code = exited ? WEXITSTATUS(status) : -1;
	char words[64];

	status_words(status, words, sizeof(words));
	(void)buf_printf(&json,
			 "{\"event\":{\"end\":{\"exitCode\":%d,\"exited\":%s,\"status\":\"%s\"",
			 code, exited ? "true" : "false", words);
	if (code != 0)
		(void)buf_printf(&json, ",\"error\":\"%s\"", words);
	(void)buf_str(&json, "}}}");
	put_event(s, &json);
}

/* --- how it ends --- */

static void refuse(struct stream *s, const struct err *err)
{
	char words[1024];

	switch (err->code) {
	case -EINVAL:
	case -EPERM:
		if (!s->user[0])
			break;
		snprintf(words, sizeof(words), "invalid username: '%s'", s->user);
		finish(s, CONNECT_UNAUTHENTICATED, words);
		return;
	case -ENOTDIR:
		snprintf(words, sizeof(words), "cwd '%.900s' does not exist", s->cwd ?: "");
		finish(s, CONNECT_INVALID_ARGUMENT, words);
		return;
	case -ENOENT:
	case -EACCES:
	case -ENOEXEC:
	case -ELOOP:
	case -EISDIR:
	case -E2BIG:
	case -ENAMETOOLONG:
		finish(s, CONNECT_INVALID_ARGUMENT, err->text);
		return;
	case -EBUSY:
		finish(s, CONNECT_UNAVAILABLE, err->text);
		return;
	default:
		break;
	}
	finish(s, connect_of_errno(err->code), err->text);
}

static void on_ended(void *of, const struct exec_end *end)
{
	struct stream *s = of;
	char words[256];

	s->exec = NULL;
	switch (end->outcome) {
	case EXEC_EXITED:
		put_end(s, end->status);
		finish(s, CONNECT_OK, NULL);
		break;
	case EXEC_LOST:
		lose(s);
		break;
	case EXEC_FAILED:
	default:
		if (end->err->code == -ESRCH && !s->is_start) {
			find_explain(&s->find, words, sizeof(words));
			finish(s, CONNECT_NOT_FOUND, words);
		} else {
			refuse(s, end->err);
		}
		break;
	}
}

static const struct exec_ops ops = {
	.started = on_started, .output = on_output, .paused = on_paused, .ended = on_ended
};

/* The time is that of the process where it was started, and else that of the call alone. */
static void on_deadline(void *of)
{
	struct stream *s = of;

	s->deadline = 0;
	if (s->is_start && s->exec)
		exec_signal(s->exec, SIGKILL);
	finish(s, CONNECT_DEADLINE_EXCEEDED, "the time for this call is over");
}

static void on_ping(void *of)
{
	static const char json[] = "{\"event\":{\"keepalive\":{}}}";
	struct stream *s = of;
	struct loop *loop = s->q->serve->loop;
	uint64_t due = s->written_at + s->ping_ms, now = loop_now(loop);
	struct buf event = { .data = (char *)(uintptr_t)json, .len = sizeof(json) - 1 };

	s->ping = 0;
	if (now >= due) {
		if (exchange_is_begun(s->q->x) && !exchange_is_full(s->q->x))
			put_event(s, &event);
		due = now + s->ping_ms;
	}
	(void)!loop_after(loop, due - now, on_ping, s, &s->ping);
}

/* --- how it begins --- */

static uint64_t ping_interval(const struct request *q)
{
	const struct text *field = head_find(&q->x->head, "keepalive-ping-interval");
	uint64_t s = 0;

	for (size_t i = 0; field && i < field->len && i < 6; i++) {
		if (field->data[i] < '0' || field->data[i] > '9')
			return (uint64_t)PING_DEFAULT_S * 1000;
		s = s * 10 + (uint64_t)(field->data[i] - '0');
	}
	if (s == 0)
		s = PING_DEFAULT_S;
	return MIN(s, (uint64_t)PING_MAX_S) * 1000;
}

/* Authorization: Basic of "user:". Another scheme is somebody else's business. */
static int read_user(struct stream *s)
{
	const struct text *field = head_find(&s->q->x->head, "authorization");
	char text[USER_MAX * 2], *colon;
	long len;

	if (!field || field->len < 6 || strncasecmp(field->data, "basic ", 6) != 0)
		return 0;
	if (field->len - 6 > sizeof(text) / 4 * 3)
		return -EINVAL;
	len = base64_read(field->data + 6, field->len - 6, true, text);
	if (len < 0 || memchr(text, '\0', (size_t)len))
		return -EINVAL;
	text[len] = '\0';
	colon = strchr(text, ':');
	if (colon)
		*colon = '\0';
	if (strlen(text) >= sizeof(s->user))
		return -EINVAL;
	memcpy(s->user, text, strlen(text) + 1);
	return 0;
}

/* The one envelope of the request; NULL: it was refused. */
static struct node *read_message(struct stream *s, const char *data, size_t len)
{
	struct connect_reader reader;
	struct text message = { "", 0 };
	struct node *node = NULL;
	struct err err = ERR_NONE;
	int r;

	connect_reader_init(&reader, RPC_BODY_MAX);
	r = connect_read(&reader, &data, &len, &message);
	if (r == 0)
		err_set(&err, -EINVAL, "the request has no whole message");
	else if (r < 0 || len > 0)
		err_set(&err, -EINVAL, "the request is not one message");
	else
		(void)!json_read(message.data, message.len, NULL, &node, &err);
	connect_reader_done(&reader);
	if (node && node->kind != NODE_MAP) {
		err_set(&err, -EINVAL, "the message is not a JSON object");
		node_free(node);
		node = NULL;
	}
	if (!node)
		finish(s, CONNECT_INVALID_ARGUMENT, err.text);
	return node;
}

static void process_stream(struct request *q, bool is_start,
			   void (*body)(struct exchange *x, const char *data, size_t len))
{
	struct stream *s;

	if (!rpc_has_type(q, "application/connect+json"))
		return;
	s = calloc(1, sizeof(*s));
	if (!s) {
		rpc_error(q, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	s->q = q;
	s->is_start = is_start;
	q->of = s;
	q->gone = stream_gone;
	exchange_collect(q->x, RPC_BODY_MAX + CONNECT_HEAD, body);
}

/* Times and drains; false: it was refused. */
static bool prepare(struct stream *s, uint64_t *ret_timeout)
{
	struct request *q = s->q;
	int r = rpc_timeout(q, ret_timeout);

	if (r < 0 || read_user(s) < 0) {
		finish(s, r < 0 ? CONNECT_INVALID_ARGUMENT : CONNECT_UNAUTHENTICATED,
		       r < 0 ? "Connect-Timeout-Ms is not a number of milliseconds"
			     : "invalid username");
		return false;
	}
	q->x->drained = on_drained;
	s->ping_ms = ping_interval(q);
	s->written_at = loop_now(q->serve->loop);
	if ((*ret_timeout &&
	     loop_after(q->serve->loop, *ret_timeout, on_deadline, s, &s->deadline) < 0) ||
	    loop_after(q->serve->loop, s->ping_ms, on_ping, s, &s->ping) < 0) {
		finish(s, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return false;
	}
	return true;
}

/* --- Start --- */

static int read_words(struct stream *s, const struct node *config, struct err *err)
{
	const struct node *cmd = rpc_get(config, "cmd"), *args = rpc_get(config, "args");
	int r;

	if (!cmd || cmd->kind != NODE_STRING || cmd->len == 0)
		return err_set(err, -EINVAL, "process.cmd is what should run");
	if (args && args->kind != NODE_LIST)
		return err_set(err, -EINVAL, "process.args is a list of texts");
	r = strv_add(&s->argv, cmd->text);
	for (size_t i = 0; args && i < args->count && r == 0; i++) {
		const struct node *word = args->entries[i].value;

		if (word->kind != NODE_STRING)
			return err_set(err, -EINVAL, "process.args is a list of texts");
		r = strv_add(&s->argv, word->text);
	}
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

static int read_variables(struct stream *s, const struct node *config, struct err *err)
{
	const struct node *envs = rpc_get(config, "envs");
	int r = exec_environment(s->q->serve, s->q->held, &s->env);

	if (r < 0)
		return err_set(err, r, "out of memory");
	if (envs && envs->kind != NODE_MAP)
		return err_set(err, -EINVAL, "process.envs is a map of texts");
	for (size_t i = 0; envs && i < envs->count && r == 0; i++) {
		const struct node_entry *entry = &envs->entries[i];
		_cleanup_(buf_done) struct buf text = BUF(MESSAGE_MAX);

		if (entry->value->kind != NODE_STRING || !entry->key[0] || strchr(entry->key, '='))
			return err_set(err, -EINVAL,
				       "process.envs is a map of texts, by names of variables");
		r = buf_printf(&text, "%s=%s", entry->key, entry->value->text);
		r = r < 0 ? r : strv_add(&s->env, text.data);
	}
	return r < 0 ? err_set(err, r == -ENOSPC ? -E2BIG : r, "the variables are too long") : 0;
}

/* What the template says, where the request does not. */
static const char *of_template(const struct node *extra, const char *key)
{
	const struct node *value = rpc_get(extra, key);

	return value && value->kind == NODE_STRING ? value->text : "";
}

/* Absolute, or below the home of the user. */
static int read_directory(struct stream *s, const struct node *config, const struct node *extra,
			  struct err *err)
{
	const struct node *given = rpc_get(config, "cwd");
	const char *cwd = given && given->kind == NODE_STRING ? given->text : "";
	bool is_below_home;

	if (given && given->kind != NODE_STRING)
		return err_set(err, -EINVAL, "process.cwd is a text");
	if (!cwd[0])
		cwd = of_template(extra, "workdir");
	/* Another user than the usual one begins in a home of its own. */
	if (!cwd[0])
		cwd = s->user[0] ? "~" : "";
	is_below_home = cwd[0] && cwd[0] != '/' && cwd[0] != '~';
	if (asprintf(&s->cwd, "%s%s", is_below_home ? "~/" : "", cwd) < 0) {
		s->cwd = NULL;
		return err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int read_terminal(const struct node *message, struct exec_plan *plan, struct err *err)
{
	const struct node *pty = rpc_get(message, "pty"), *size = rpc_get(pty, "size");
	uint32_t rows = 0, columns = 0;

	if (!pty)
		return 0;
	if (rpc_number(size, "rows", 0, &rows) < 0 || rpc_number(size, "cols", 0, &columns) < 0 ||
	    rows > UINT16_MAX || columns > UINT16_MAX)
		return err_set(err, -EINVAL, "pty.size has cols and rows, up to 65535");
	plan->has_terminal = true;
	plan->until_closed = false;
	plan->rows = rows;
	plan->columns = columns;
	return 0;
}

static int start(struct stream *s, const struct node *message, uint64_t timeout, struct err *err)
{
	struct held *held = registry_find(s->q->serve->registry, s->q->sandbox, NULL);
	const struct node *config = rpc_get(message, "process"), *input = rpc_get(message, "stdin"),
			  *tag = rpc_get(message, "tag");
	_cleanup_(node_freep) struct node *extra = NULL;
	_cleanup_(buf_done) struct buf label = BUF(EXEC_LABEL_MAX - 1);
	struct exec_plan plan = { .until_closed = true };
	struct err ignored;
	int r;

	if (!held)
		return err_set(err, -ESRCH, "the sandbox has ended");
	s->q->held = held;
	if (tag && (tag->kind != NODE_STRING || tag->len > TAG_MAX))
		return err_set(err, -EINVAL, "tag is a text of at most %d bytes", TAG_MAX);
	if (held->extra[0])
		(void)!json_read(held->extra, strlen(held->extra), NULL, &extra, &ignored);
	r = read_words(s, config, err);
	r = r < 0 ? r : read_variables(s, config, err);
	r = r < 0 ? r : read_directory(s, config, extra, err);
	r = r < 0 ? r : read_terminal(message, &plan, err);
	if (r == 0 && label_write(&label, config, tag ? tag->text : NULL) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	plan.argv = s->argv.items;
	plan.env = s->env.items;
	plan.cwd = s->cwd;
	plan.user = s->user[0] ? s->user : of_template(extra, "user");
	plan.label = buf_text(&label);
	/* Older clients do not say, and mean it. */
	plan.has_input = !input || input->kind != NODE_BOOL || input->number;
	plan.timeout_ms = timeout ? timeout + SLACK_MS : 0;
	return exec_start(s->q->serve, s->q->sandbox, &plan, &ops, s, &s->exec, err);
}

static void on_start(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct stream *s = q->of;
	_cleanup_(node_freep) struct node *message = read_message(s, data, len);
	struct err err = ERR_NONE;
	uint64_t timeout;

	if (!message || !prepare(s, &timeout) || start(s, message, timeout, &err) == 0)
		return;
	if (err.code == -ESRCH)
		lose(s);
	else if (err.code == -EINVAL)
		finish(s, CONNECT_INVALID_ARGUMENT, err.text);
	else
		refuse(s, &err);
}

void process_start(struct request *q)
{
	process_stream(q, true, on_start);
}

/* --- Connect --- */

static void on_found(void *of, const struct exec_found *found, const struct err *err)
{
	struct stream *s = of;
	struct err failure = *err;
	char words[256];

	if (!found &&
	    (err->code == 0 ||
	     (err->code == -ESRCH && registry_find(s->q->serve->registry, s->q->sandbox, NULL)))) {
		find_explain(&s->find, words, sizeof(words));
		finish(s, CONNECT_NOT_FOUND, words);
		return;
	}
	if (found && exec_attach(s->q->serve, s->q->sandbox, found, !found->has_terminal, &ops, s,
				 &s->exec, &failure) == 0)
		return;
	if (failure.code == -ESRCH)
		lose(s);
	else
		refuse(s, &failure);
}

static void on_connect(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct stream *s = q->of;
	_cleanup_(node_freep) struct node *message = read_message(s, data, len);
	struct err err = ERR_NONE;
	uint64_t timeout;

	if (!message || !prepare(s, &timeout))
		return;
	s->find.done = on_found;
	s->find.of = s;
	/* Who is connected to is who runs: the user is nobody's business here. */
	s->user[0] = '\0';
	if (find_begin(&s->find, q, rpc_get(message, "process"), &err) == 0)
		return;
	if (err.code == -ESRCH)
		lose(s);
	else
		refuse(s, &err);
}

void process_connect(struct request *q)
{
	process_stream(q, false, on_connect);
}
