/*
 * e2b_download.c - GET /files: a file of a sandbox, whole or in part
 *
 * init writes the file into a pipe of ours, and what comes out of it goes to the client, as fast as he takes it.
 * How long it is was found out before; if it is another length then, the connection breaks, so that nobody takes
 * half a file for a whole one. What says that it is empty (as all of /proc does) is read to its end.
 *
 * A browser that is led to such an address must not run what is in it: it would be of the same origin as the
 * dashboard. So types are those that do nothing, and the rest is bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "http/range.h"
#include "serve/e2b_files.h"
#include "serve/entry.h"
#include "serve/turns.h"

#define PIECE    (256 * KIB)
#define PER_TURN 4 /* pieces, before others have their turn */
#define PIPE     (1 * MIB)
#define STALL_MS 60000 /* without a byte from the sandbox */

struct download {
	struct request *q;
	struct agent_place place;
	struct turn *call;
	int pipe;
	loop_id watch, timer;
	uint64_t moved_at;
	struct range range;
	unsigned int status;
	bool is_open_ended; /* its length is not known */
	bool is_done;       /* init says so */
	bool is_empty;      /* the pipe is at its end */
	uint64_t given;
};

static void download_gone(struct request *q)
{
	struct download *d = q->of;

	d->call = turn_cancel(d->call);
	d->watch = loop_forget(q->serve->loop, d->watch);
	d->timer = loop_cancel(q->serve->loop, d->timer);
	fd_close(d->pipe);
	free(d);
}

static void fail(struct download *d, const struct err *err)
{
	d->call = turn_cancel(d->call);
	d->watch = loop_forget(d->q->serve->loop, d->watch);
	d->timer = loop_cancel(d->q->serve->loop, d->timer);
	agent_fail(d->q, err, d->place.user);
}

static const char *type_of(const char *path)
{
	static const struct {
		const char *ending, *type;
	} types[] = {
		{ ".txt", "text/plain; charset=utf-8" },
		{ ".csv", "text/csv; charset=utf-8" },
		{ ".json", "application/json" },
		{ ".png", "image/png" },
		{ ".jpg", "image/jpeg" },
		{ ".jpeg", "image/jpeg" },
		{ ".gif", "image/gif" },
		{ ".webp", "image/webp" },
		{ ".mp4", "video/mp4" },
		{ ".mp3", "audio/mpeg" },
		{ ".wav", "audio/wav" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_ends(path, types[i].ending))
			return types[i].type;
	return "application/octet-stream";
}

/* A name that a header can have: bytes that are special, or none of ASCII, are percent-coded. */
static void say_name(struct download *d)
{
	const char *name = entry_name(d->place.path);
	char text[3 * NAME_MAX + 64];
	size_t len = (size_t)snprintf(text, sizeof(text), "inline; filename*=utf-8''");

	for (; *name && len + 4 < sizeof(text); name++) {
		unsigned char c = (unsigned char)*name;
		bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
				(c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';

		len += (size_t)snprintf(text + len, sizeof(text) - len, is_plain ? "%c" : "%%%02X",
					c);
	}
	exchange_header(d->q->x, "Content-Disposition", text);
}

static void say_headers(struct download *d)
{
	struct exchange *x = d->q->x;

	exchange_header(x, "X-Content-Type-Options", "nosniff");
	exchange_header(x, "Content-Security-Policy", "sandbox; default-src 'none'");
	exchange_header(x, "Vary", "Accept-Encoding");
	say_name(d);
	if (d->is_open_ended)
		return;
	exchange_header(x, "Accept-Ranges", "bytes");
	exchange_header(x, "ETag", d->range.etag);
	exchange_header(x, "Last-Modified", d->range.last_modified);
	if (d->range.content_range[0])
		exchange_header(x, "Content-Range", d->range.content_range);
}

static void begin(struct download *d)
{
	bool has_length = !d->is_open_ended || (d->is_done && d->is_empty && d->given == 0);

	if (exchange_is_begun(d->q->x))
		return;
	say_headers(d);
	exchange_begin(d->q->x, d->status, type_of(d->place.path),
		       has_length ? (int64_t)d->range.len : -1);
}

/* Both have said their last: the pipe is at its end, and init has answered. */
static void finish(struct download *d)
{
	if (!d->is_done || !d->is_empty)
		return;
	d->timer = loop_cancel(d->q->serve->loop, d->timer);
	begin(d);
	if (!d->is_open_ended && d->given != d->range.len)
		exchange_abort(d->q->x);
	else
		exchange_end(d->q->x);
}

static void on_pipe(void *of, uint32_t events);

/* True: there may be more at once. */
static bool move_piece(struct download *d)
{
	static char piece[PIECE];
	ssize_t n = read(d->pipe, piece, sizeof(piece));

	if (n < 0)
		return errno == EINTR;
	d->moved_at = loop_now(d->q->serve->loop);
	if (n == 0) {
		d->is_empty = true;
		d->watch = loop_forget(d->q->serve->loop, d->watch);
		d->pipe = fd_close(d->pipe);
		return false;
	}
	/* More than was said breaks the connection, too. */
	d->given += (size_t)n;
	begin(d);
	exchange_write(d->q->x, piece, (size_t)n);
	return true;
}

static void pump(struct download *d)
{
	struct loop *loop = d->q->serve->loop;
	bool is_full = false;

	for (int i = 0; i < PER_TURN && d->pipe >= 0; i++) {
		is_full = exchange_is_full(d->q->x);
		if (is_full || !move_piece(d))
			break;
	}
	if (d->pipe < 0)
		finish(d);
	else if (is_full)
		/* A pipe that was closed would be told of all the time. */
		d->watch = loop_forget(loop, d->watch);
	else if (!d->watch && loop_watch(loop, d->pipe, EPOLLIN, on_pipe, d, &d->watch) < 0)
		exchange_abort(d->q->x);
}

static void on_pipe(void *of, uint32_t events)
{
	(void)events;
	pump(of);
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct download *d = q->of;

	if (d->pipe >= 0 && !d->watch)
		pump(d);
}

static void on_read(void *of, struct message *m, bool is_last)
{
	struct download *d = of;
	struct err err = ERR_NONE;

	if (is_last)
		d->call = NULL;
	if (m->type == MESSAGE_DONE) {
		d->is_done = true;
		finish(d);
		return;
	}
	(void)agent_error(m, &err);
	fail(d, &err);
}

/* A sandbox that stands still, or a disk that does. A client that does is the server's. */
static void on_timer(void *of)
{
	struct download *d = of;
	struct loop *loop = d->q->serve->loop;
	struct err err = ERR_NONE;

	d->timer = 0;
	if (loop_now(loop) - d->moved_at >= STALL_MS && !exchange_is_full(d->q->x)) {
		err_set(&err, -ETIMEDOUT, "the sandbox does not answer");
		fail(d, &err);
	} else {
		(void)!loop_after(loop, STALL_MS, on_timer, d, &d->timer);
	}
}

static int open_pipe(struct download *d, int *ret_theirs)
{
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	(void)!fcntl(pair[0], F_SETPIPE_SZ, (int)PIPE);
	r = fd_set_nonblock(pair[0], 1);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	d->pipe = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

static void start_read(struct download *d)
{
	struct draft draft = DRAFT(MESSAGE_READ, 0);
	struct err err = ERR_NONE;
	struct loop *loop = d->q->serve->loop;
	int theirs = -EBADF, r = open_pipe(d, &theirs);

	if (r < 0) {
		draft_done(&draft);
		err_errno(&err, r, "cannot make a pipe");
		fail(d, &err);
		return;
	}
	agent_address(&draft, &d->place);
	if (!d->is_open_ended) {
		draft_number(&draft, FIELD_OFFSET, d->range.first);
		draft_number(&draft, FIELD_SIZE, d->range.len);
	}
	r = turn_start(d->q->serve, d->q->sandbox, &draft, theirs, on_read, d, &d->call, &err);
	r = r < 0 ? r : loop_watch(loop, d->pipe, EPOLLIN, on_pipe, d, &d->watch);
	d->moved_at = loop_now(loop);
	r = r < 0 ? r : loop_after(loop, STALL_MS, on_timer, d, &d->timer);
	if (r < 0) {
		if (err.code == 0)
			err_errno(&err, r, "cannot wait for the file");
		fail(d, &err);
	}
}

/* What the client gets, once it is known what is there. */
static void judge(struct download *d, const struct message *m)
{
	struct exchange *x = d->q->x;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	range_init(&d->range, message_number(m, FIELD_SIZE, 0),
		   message_number(m, FIELD_MODIFIED, 0),
		   (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	d->status = range_judge(&d->range, &x->head);
	d->is_open_ended = d->range.size == 0 && d->status == RANGE_WHOLE;
	if (d->status == RANGE_CHANGED || d->status == RANGE_NONE) {
		if (d->status == RANGE_NONE)
			exchange_header(x, "Content-Range", d->range.content_range);
		answer_error(d->q, d->status, "%s",
			     d->status == RANGE_NONE ? "the file has no such part"
						     : "the file is not what the condition says");
	} else if (d->status == RANGE_UNCHANGED || x->head.method == METHOD_HEAD) {
		say_headers(d);
		exchange_begin(x, d->status,
			       d->status == RANGE_WHOLE ? type_of(d->place.path) : NULL,
			       (int64_t)d->range.len);
		exchange_end(x);
	} else {
		x->drained = on_drained;
		start_read(d);
	}
}

static void on_stat(void *of, struct message *m, bool is_last)
{
	struct download *d = of;
	struct err err = ERR_NONE;
	uint64_t mode = message_number(m, FIELD_MODE, 0);

	if (is_last)
		d->call = NULL;
	if (m->type != MESSAGE_ENTRY)
		(void)agent_error(m, &err);
	else if (S_ISDIR(mode))
		err_set(&err, -EISDIR, "path '%.300s' is a directory", d->place.path);
	else if (!S_ISREG(mode))
		err_set(&err, -EINVAL, "path '%.300s' is not a regular file", d->place.path);
	if (err.code < 0)
		fail(d, &err);
	else
		judge(d, m);
}

/* "identity;q=0" or "*;q=0" without a word of identity: then nothing here is good enough. */
static bool refuses_plain(const struct head *head)
{
	const struct text *field = head_find(head, "accept-encoding");
	static const char *const words[] = { "identity;q=0", "*;q=0" };

	for (size_t i = 0; field && i < ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i]);
		const char *at = memmem(field->data, field->len, words[i], len);

		/* "q=0.5" is no refusal. */
		if (at &&
		    (at + len == field->data + field->len || at[len] == ',' || at[len] == ' '))
			return i == 0 || !memmem(field->data, field->len, "identity", 8);
	}
	return false;
}

void e2b_download(struct request *q, const struct agent_place *place)
{
	struct draft draft = DRAFT(MESSAGE_STAT, 0);
	struct download *d = NULL;
	struct err err = ERR_NONE;

	if (refuses_plain(&q->x->head)) {
		draft_done(&draft);
		answer_error(q, 406, "files are sent as they are: the request refuses that");
		return;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		draft_done(&draft);
		agent_refuse(q, -ENOMEM, "out of memory");
		return;
	}
	d->q = q;
	d->place = *place;
	d->pipe = -EBADF;
	q->of = d;
	q->gone = download_gone;
	agent_address(&draft, place);
	draft_number(&draft, FIELD_FLAGS, STAT_FOLLOW);
	if (turn_start(q->serve, q->sandbox, &draft, -EBADF, on_stat, d, &d->call, &err) < 0)
		fail(d, &err);
}
