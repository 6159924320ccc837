/*
 * v1_events.c - the record of a sandbox: pages of it, or as it grows
 *
 * The stream is a file that the warden appends to. It is read in slices, as it may be long. A follower that has read all
 * looks again after a moment; when the sandbox has ended, it reads what is left and is told so.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/record.h"
#include "serve/v1.h"

#define PAGE_DEFAULT 100
#define PAGE_BYTES   (4 * MIB)
#define LOOK_MS      200
#define FOLLOWERS    512  /* at once: each holds a buffer of 128 KiB */
#define REST_MS      3000 /* for the last lines of a sandbox that is being ended */

static size_t followers;

struct follower {
	struct request *q;
	struct recording record;
	char verdict[8];
	bool is_stream, is_full;
	uint64_t ended;      /* loop_now(), when the registry said so; 0 */
	size_t left;         /* of a page */
	struct buf page;     /* lines with commas between them */
	uint64_t last, told; /* seq; loop_now() of the last byte */
	loop_id timer;
	registry_watch watch;
};

static void follower_gone(struct request *q)
{
	struct follower *f = q->of;

	f->timer = loop_cancel(q->serve->loop, f->timer);
	f->watch = registry_forget(q->serve->registry, f->watch);
	record_done(&f->record);
	buf_done(&f->page);
	free(f);
	followers--;
}

/* --- a page --- */

static void answer_page(struct follower *f, bool is_last)
{
	_cleanup_(buf_done) struct buf text = BUF(PAGE_BYTES + 1024);
	int r = buf_printf(&text, "{\"events\":[%s],\"next\":", buf_text(&f->page));

	if (r == 0 && is_last)
		r = buf_str(&text, "null}");
	else if (r == 0)
		r = buf_printf(&text, "%" PRIu64 "}", f->last);
	if (r < 0)
		answer_error(f->q, 503, "out of memory");
	else
		exchange_answer(f->q->x, 200, "application/json", text.data, text.len);
}

/* 1: the page is full. */
static int add_to_page(struct follower *f, const char *line, size_t len, uint64_t seq)
{
	if (f->left == 0 || f->page.len + len + 1 > PAGE_BYTES)
		return 1;
	if ((f->page.len && buf_char(&f->page, ',') < 0) || buf_add(&f->page, line, len) < 0)
		return -ENOMEM;
	f->left--;
	f->last = seq;
	return 0;
}

/* --- as it grows --- */

static void end_stream(struct follower *f)
{
	sse_send_line(f->q->x, "end", 0, "{}", 2);
	exchange_end(f->q->x);
}

/* --- both --- */

static void go_on(void *of);

static void again(struct follower *f, uint64_t ms)
{
	struct request *q = f->q;

	if (f->timer)
		return;
	if (loop_after(q->serve->loop, ms, go_on, f, &f->timer) < 0)
		answer_error(q, 503, "out of memory");
}

static void at_end(struct follower *f)
{
	if (!f->is_stream) {
		answer_page(f, true);
	} else if (f->ended &&
		   (f->record.has_ended || loop_now(f->q->serve->loop) - f->ended > REST_MS)) {
		end_stream(f);
	} else {
		if (loop_now(f->q->serve->loop) - f->told > SSE_QUIET_MS) {
			sse_comment(f->q->x);
			f->told = loop_now(f->q->serve->loop);
		}
		again(f, LOOK_MS);
	}
}

/* 0: go on reading; 1: the page is full, or the client's buffer. */
static int take(struct follower *f, const char *line, size_t len, uint64_t seq)
{
	if (!f->is_stream)
		return add_to_page(f, line, len, seq);
	sse_send_line(f->q->x, NULL, seq, line, len);
	f->told = loop_now(f->q->serve->loop);
	return exchange_is_full(f->q->x);
}

static void go_on(void *of)
{
	struct follower *f = of;
	const char *line;
	uint64_t seq;
	size_t len;
	int r, full = 0;

	f->timer = 0;
	record_new_slice(&f->record);
	while (full == 0 && (r = record_next(&f->record, &line, &len, &seq)) > 0)
		full = take(f, line, len, seq);
	if (full < 0)
		answer_error(f->q, 503, "out of memory");
	else if (full && f->is_stream)
		f->is_full = true; /* until drained() */
	else if (full)
		answer_page(f, false);
	else if (r == -EAGAIN)
		again(f, 0);
	else if (r < 0)
		answer_error(f->q, 500, "the record cannot be read: %s", strerror(-r));
	else
		at_end(f);
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct follower *f = q->of;

	if (!f->is_full)
		return;
	f->is_full = false;
	go_on(f);
}

static void on_end(void *of)
{
	struct follower *f = of;

	f->watch = 0;
	f->ended = loop_now(f->q->serve->loop);
}

static void choose(struct follower *f)
{
	struct request *q = f->q;
	const struct text *seen = head_find(&q->x->head, "Last-Event-ID");
	char kind[16], number[24] = "";

	if (doc_query_text(q, "verdict", f->verdict, sizeof(f->verdict)))
		f->record.verdict = f->verdict;
	if (doc_query_text(q, "kind", kind, sizeof(kind)))
		for (unsigned int i = 0; i < TRACE_KIND_COUNT; i++)
			if (str_equal(kind, trace_kind_names[i]))
				f->record.kinds |= 1u << i;
	f->record.after = (uint64_t)doc_query_number(q, "after", 0);
	f->left = (size_t)doc_query_number(q, "limit", PAGE_DEFAULT);
	if (seen)
		snprintf(number, sizeof(number), "%.*s", (int)MIN(seen->len, sizeof(number) - 1),
			 seen->data);
	if (number[0])
		f->record.after = strtoull(number, NULL, 10);
}

static int open_stream(struct follower *f, struct err *err)
{
	struct request *q = f->q;

	sse_begin(q);
	q->x->drained = on_drained;
	/* So that the client knows that it is heard, also while nothing happens. */
	sse_comment(q->x);
	f->told = loop_now(q->serve->loop);
	return registry_on_end(q->serve->registry, q->sandbox, on_end, f, &f->watch) < 0
		       ? err_set(err, -ESRCH, "the sandbox ended meanwhile")
		       : 0;
}

void v1_events(struct request *q)
{
	struct follower *f = followers < FOLLOWERS ? calloc(1, sizeof(*f)) : NULL;
	struct err err = ERR_NONE;
	int r;

	if (!f) {
		exchange_header(q->x, "Retry-After", "5");
		answer_error(q, 503, "too many read records at once");
		return;
	}
	followers++;
	*f = (struct follower){ .q = q, .record = RECORDING_NONE, .page = BUF(PAGE_BYTES + 1) };
	f->is_stream = sse_is_wanted(q);
	q->of = f;
	q->gone = follower_gone;
	r = record_open(q->sandbox, &f->record, &err);
	if (r == -ENOENT) {
		answer_error(q, 404, "this sandbox has no record (record: off)");
		return;
	}
	if (r == 0) {
		choose(f);
		r = f->is_stream ? open_stream(f, &err) : 0;
	}
	if (r < 0)
		v1_refuse(q, &err);
	else if (f->is_stream && q->x->head.method == METHOD_HEAD)
		exchange_end(q->x); /* there is nothing to wait for */
	else
		go_on(f);
}
