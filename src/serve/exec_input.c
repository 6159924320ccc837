#include "serve/exec_input.h"

#include <errno.h>
#include <string.h>

#define PIECE    (64 * KIB)
#define RETRY_MS 20 /* the process does not read, and others wait for it, too */

static void send_next(struct input *in);

void input_init(struct input *in, struct serve *serve, const char *sandbox, uint64_t process,
		size_t max)
{
	*in = (struct input){ .serve = serve, .process = process, .pending = BUF(max) };
	memcpy(in->sandbox, sandbox, MIN(strlen(sandbox) + 1, sizeof(in->sandbox)));
	in->sandbox[sizeof(in->sandbox) - 1] = '\0';
}

void input_done(struct input *in)
{
	if (!in->serve)
		return;
	/* Cancelling does not take back what init has. */
	in->call = call_cancel(in->serve->fleet, in->call);
	in->retry = loop_cancel(in->serve->loop, in->retry);
	buf_done(&in->pending);
	in->serve = NULL;
}

size_t input_waiting(const struct input *in)
{
	return in->pending.len - in->taken;
}

static void fail(struct input *in, const struct err *err)
{
	buf_reset(&in->pending);
	in->taken = in->under_way = 0;
	in->ends = false;
	if (in->failed)
		in->failed(in->of, err);
}

static void on_retry(void *of)
{
	struct input *in = of;

	in->retry = 0;
	send_next(in);
}

static void on_refused(struct input *in, const struct message *m)
{
	struct err err = ERR_NONE;
	int code = -(int)MIN(message_number(m, FIELD_CODE, EIO), (uint64_t)4095);

	if (code == -EAGAIN && loop_after(in->serve->loop, RETRY_MS, on_retry, in, &in->retry) == 0)
		return;
	err_set(&err, code, "%s", message_text(m, FIELD_TEXT, ""));
	fail(in, &err);
}

static void on_answer(void *of, struct message *m, bool is_last)
{
	struct input *in = of;

	if (!is_last)
		return;
	in->call = 0;
	if (m->type == MESSAGE_ERROR) {
		on_refused(in, m);
		return;
	}
	in->taken += in->under_way;
	in->under_way = 0;
	if (input_waiting(in) == 0) {
		in->taken = 0;
		buf_reset(&in->pending);
	}
	if (input_waiting(in) > 0 || (in->ends && !in->has_ended))
		send_next(in);
	else if (in->drained)
		in->drained(in->of);
}

static void on_unsent(void *of)
{
	struct input *in = of;
	struct err err = ERR_NONE;

	in->retry = 0;
	err_set(&err, -ESRCH, "the sandbox does not listen");
	fail(in, &err);
}

static void send_next(struct input *in)
{
	size_t len = MIN(input_waiting(in), (size_t)PIECE);
	struct draft d = DRAFT(len > 0 ? MESSAGE_INPUT : MESSAGE_INPUT_END, 0);
	struct err err = ERR_NONE;

	draft_number(&d, FIELD_PROCESS, in->process);
	if (len > 0)
		draft_bytes(&d, FIELD_DATA, in->pending.data + in->taken, len);
	else
		in->has_ended = true;
	in->under_way = len;
	if (call_start(in->serve->fleet, in->sandbox, &d, NULL, 0, on_answer, in, &in->call, &err) <
	    0)
		(void)!loop_soon(in->serve->loop, on_unsent, in, &in->retry);
}

static void go_on(struct input *in)
{
	if (!in->call && !in->retry)
		send_next(in);
}

int input_add(struct input *in, const void *data, size_t len)
{
	int r;

	if (in->taken > 0 && in->taken >= in->pending.len / 2) {
		memmove(in->pending.data, in->pending.data + in->taken, input_waiting(in));
		in->pending.len -= in->taken;
		in->taken = 0;
	}
	r = buf_add(&in->pending, data, len);
	in->pending.failure = 0;
	if (r < 0)
		return r;
	if (len > 0)
		go_on(in);
	return 0;
}

void input_end(struct input *in)
{
	if (in->ends)
		return;
	in->ends = true;
	go_on(in);
}
