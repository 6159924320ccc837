/* e2b_process_input.c - SendInput and StreamInput: what a client gives a process to read */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/decode.h"
#include "serve/e2b_process.h"
#include "serve/exec_input.h"

#define STREAM_MESSAGE_MAX (4 * MIB)
#define STREAM_REST_MAX    (4 * MIB)   /* of what came at once, before the client could be held */
#define STREAM_FULL        (256 * KIB) /* that waits for the process: the client waits, too */

struct feeding {
	struct request *q;
	bool is_stream;
	struct find find;
	struct exec_found process; /* once found */
	bool is_found, has_failed;
	struct input input;
	loop_id deadline;

	/* Of a stream. */
	struct connect_reader reader;
	bool has_begun; /* the message that names the process has come */
	bool has_all;   /* the end of the body has come */
	bool is_held;
	struct buf rest; /* of the body: it came behind what has to be done first */
};

static void feeding_stop(struct feeding *f)
{
	find_end(&f->find);
	input_done(&f->input);
	f->deadline = loop_cancel(f->q->serve->loop, f->deadline);
}

static void feeding_gone(struct request *q)
{
	struct feeding *f = q->of;

	feeding_stop(f);
	connect_reader_done(&f->reader);
	buf_done(&f->rest);
	free(f);
}

/* --- the answer --- */

static void finish(struct feeding *f, enum connect_code code, const char *message)
{
	_cleanup_(buf_done) struct buf frames = BUF(64 * KIB);
	struct request *q = f->q;
	int r = 0;

	f->has_failed = true;
	feeding_stop(f);
	if (!f->is_stream) {
		if (code == CONNECT_OK)
			rpc_done(q);
		else
			rpc_error(q, code, "%s", message);
		return;
	}
	if (code == CONNECT_OK)
		r = connect_frame(&frames, 0, "{}", 2);
	r = r < 0 ? r : connect_end(&frames, code, message);
	if (r < 0) {
		exchange_abort(q->x);
		return;
	}
	/* What is still on its way here is of no interest. */
	if (!f->has_all)
		exchange_close(q->x);
	exchange_answer(q->x, 200, "application/connect+json", frames.data, frames.len);
}

static void fail(struct feeding *f, const struct err *err)
{
	char words[256];

	if (err->code == -ESRCH && !registry_find(f->q->serve->registry, f->q->sandbox, NULL)) {
		f->has_failed = true;
		feeding_stop(f);
		answer_gone(f->q, f->q->sandbox, 0);
	} else if (err->code == -ESRCH) {
		find_explain(&f->find, words, sizeof(words));
		finish(f, CONNECT_NOT_FOUND, words);
	} else {
		finish(f, err->code == -EPIPE ? CONNECT_INTERNAL : connect_of_errno(err->code),
		       err->text);
	}
}

static void on_failed(void *of, const struct err *err)
{
	fail(of, err);
}

static void take_rest(struct feeding *f);

static void on_input_drained(void *of)
{
	struct feeding *f = of;

	if (f->is_stream)
		take_rest(f);
	else
		finish(f, CONNECT_OK, NULL);
}

static void on_deadline(void *of)
{
	struct feeding *f = of;

	f->deadline = 0;
	finish(f, CONNECT_DEADLINE_EXCEEDED, "the time for this call is over");
}

/* --- what is given --- */

/* {"stdin": ...} or {"pty": ...}, which has to be what the process has. */
static int add_input(struct feeding *f, const struct node *input, struct err *err)
{
	const char *key = f->process.has_terminal ? "pty" : "stdin";
	const struct node *data = rpc_get(input, key);
	_cleanup_free_ void *bytes = NULL;
	long len;
	int r;

	if (!data && rpc_get(input, f->process.has_terminal ? "stdin" : "pty"))
		return err_set(err, -EPIPE, "the process has %s terminal",
			       f->process.has_terminal ? "a" : "no");
	if (!data || data->kind != NODE_STRING)
		return err_set(err, -EINVAL, "input has stdin or pty, in base64");
	bytes = malloc(data->len / 4 * 3 + 3);
	if (!bytes)
		return err_set(err, -ENOMEM, "out of memory");
	len = base64_read(data->text, data->len, true, bytes);
	if (len < 0)
		return err_set(err, -EINVAL, "input.%s is not base64", key);
	r = input_add(&f->input, bytes, (size_t)len);
	return r < 0 ? err_set(err, r, "more input waits than can be kept") : 0;
}

static void on_found(void *of, const struct exec_found *found, const struct err *err)
{
	struct feeding *f = of;
	struct request *q = f->q;
	struct err failure = *err;

	if (!found) {
		if (err->code == 0)
			err_set(&failure, -ESRCH, "not found");
		fail(f, &failure);
		return;
	}
	f->is_found = true;
	f->process = *found;
	input_init(&f->input, q->serve, q->sandbox, found->process, RPC_INPUT_MAX);
	f->input.drained = on_input_drained;
	f->input.failed = on_failed;
	f->input.of = f;
	if (f->is_stream) {
		take_rest(f);
		return;
	}
	if (add_input(f, rpc_get(q->parsed, "input"), &failure) < 0)
		fail(f, &failure);
	else if (input_waiting(&f->input) == 0)
		finish(f, CONNECT_OK, NULL);
}

static struct feeding *feeding_new(struct request *q, bool is_stream)
{
	struct feeding *f = calloc(1, sizeof(*f));
	uint64_t timeout = 0;

	if (!f || rpc_timeout(q, &timeout) < 0) {
		rpc_error(q, f ? CONNECT_INVALID_ARGUMENT : CONNECT_RESOURCE_EXHAUSTED,
			  f ? "Connect-Timeout-Ms is not a number of milliseconds"
			    : "out of memory");
		free(f);
		return NULL;
	}
	f->q = q;
	f->is_stream = is_stream;
	f->find.done = on_found;
	f->find.of = f;
	f->find.running = true;
	f->rest = BUF(STREAM_REST_MAX);
	connect_reader_init(&f->reader, STREAM_MESSAGE_MAX);
	q->of = f;
	q->gone = feeding_gone;
	if (timeout)
		(void)!loop_after(q->serve->loop, timeout, on_deadline, f, &f->deadline);
	return f;
}

/* --- SendInput --- */

static void on_send_body(struct exchange *x, const char *data, size_t len)
{
	static const struct json_bounds bounds = { .bytes = RPC_INPUT_MAX,
						   .values = 1000,
						   .depth = 16 };
	struct request *q = x->of;
	struct feeding *f = q->of;
	struct err err = ERR_NONE;

	if (json_read(data, len, &bounds, &q->parsed, &err) < 0 ||
	    find_begin(&f->find, q, rpc_get(q->parsed, "process"), &err) < 0)
		fail(f, &err);
}

void process_send_input(struct request *q)
{
	if (rpc_has_type(q, "application/json") && feeding_new(q, false))
		exchange_collect(q->x, RPC_INPUT_MAX, on_send_body);
}

/* --- StreamInput --- */

static int take_message(struct feeding *f, const struct text *text, struct err *err)
{
	static const struct json_bounds bounds = { .bytes = STREAM_MESSAGE_MAX,
						   .values = 1000,
						   .depth = 16 };
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *start, *data;
	int r = json_read(text->data, text->len, &bounds, &node, err);

	if (r < 0)
		return r;
	start = rpc_get(node, "start");
	data = rpc_get(node, "data");
	if (!f->has_begun) {
		if (!start)
			return err_set(err, -EINVAL, "the first message is start");
		f->has_begun = true;
		return find_begin(&f->find, f->q, rpc_get(start, "process"), err);
	}
	if (start)
		return err_set(err, -EINVAL, "start is the first message only");
	return data ? add_input(f, rpc_get(data, "input"), err) : 0;
}

/* Not before it is known for whom it is, nor while much of what came before waits for the process. */
static bool must_wait(const struct feeding *f)
{
	return f->has_begun && (!f->is_found || input_waiting(&f->input) >= STREAM_FULL);
}

/* As many messages as may be; how many bytes are left. */
static size_t take_messages(struct feeding *f, const char *data, size_t len)
{
	struct err err = ERR_NONE;
	struct text message;
	int r = 1;

	while (r > 0 && !must_wait(f) && !f->has_failed) {
		r = connect_read(&f->reader, &data, &len, &message);
		if (r < 0)
			err_set(&err, -EINVAL, "the request is not a row of messages");
		else if (r > 0 && take_message(f, &message, &err) < 0)
			r = -1;
		if (r < 0)
			fail(f, &err);
	}
	return f->has_failed ? 0 : len;
}

/* Held back, or all of it is here. */
static void look_at_rest(struct feeding *f)
{
	bool is_held = f->rest.len > 0 || must_wait(f);

	struct err err = ERR_NONE;

	if (f->has_failed)
		return;
	if (f->has_all && f->rest.len == 0 && (!f->has_begun || connect_finish(&f->reader) < 0)) {
		err_set(&err, -EINVAL,
			"the request ends in the midst of a message, or without one");
		fail(f, &err);
		return;
	}
	if (f->has_all && f->rest.len == 0 && f->is_found && input_waiting(&f->input) == 0) {
		finish(f, CONNECT_OK, NULL);
		return;
	}
	if (is_held != f->is_held && is_held)
		exchange_hold(f->q->x);
	if (is_held != f->is_held && !is_held)
		exchange_go_on(f->q->x);
	f->is_held = is_held;
}

static void take_rest(struct feeding *f)
{
	size_t left = take_messages(f, f->rest.data, f->rest.len);

	if (f->has_failed)
		return;
	if (left > 0)
		memmove(f->rest.data, f->rest.data + f->rest.len - left, left);
	f->rest.len = left;
	look_at_rest(f);
}

static void on_stream_data(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct feeding *f = q->of;
	size_t left = f->rest.len > 0 ? len : take_messages(f, data, len);
	struct err err = ERR_NONE;

	if (f->has_failed)
		return;
	if (left > 0 && buf_add(&f->rest, data + len - left, left) < 0) {
		err_set(&err, -ENOMEM, "out of memory");
		fail(f, &err);
		return;
	}
	look_at_rest(f);
}

static void on_stream_end(struct exchange *x)
{
	struct request *q = x->of;
	struct feeding *f = q->of;

	f->has_all = true;
	look_at_rest(f);
}

void process_stream_input(struct request *q)
{
	if (!rpc_has_type(q, "application/connect+json") || !feeding_new(q, true))
		return;
	exchange_be_patient(q->x);
	exchange_stream(q->x, on_stream_data, on_stream_end);
}
