/*
 * e2b_upload.c - POST /files: one file as it is, or several in a form
 *
 *	body -> [gunzip] -> [form] -> pipe -> init
 *
 * Each stage is pulled by the next. What came of the body is kept here until it was used up, and no more is read
 * meanwhile; so an upload costs some hundred kilobytes, whatever its length, and goes as fast as the sandbox
 * writes.
 *
 * init writes under another name and renames at the end, when DATA_END has come. Whatever breaks off before that
 * leaves nothing: the client, the sandbox's disk, this daemon. Files of a form are written one after the other,
 * and those before the one that failed stay.
 *
 * Clients send all of a body before they look at the answer. So after a failure the rest is still read, up to a
 * bound, and thrown away: else they would be told of a broken connection, and not of a full disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "http/gunzip.h"
#include "http/multipart.h"
#include "serve/e2b_files.h"
#include "serve/entry.h"
#include "serve/turns.h"

#define PIPE         (1 * MIB)
#define STALL_MS     60000      /* while the sandbox takes nothing */
#define DISCARD      (64 * MIB) /* of a body whose fate is known already */
#define RESULTS_MAX  (4 * MIB)
#define METADATA_MAX (16 * KIB)
#define METADATA     "x-metadata-"

struct upload_file {
	int pipe; /* our end; -EBADF: no more goes in */
	loop_id watch;
	struct turn *call;
	char path[PATH_MAX];
};

struct put {
	struct request *q;
	char user[AGENT_USER];
	char path[PATH_MAX];  /* as it was given; "": the form has the names */
	struct strv metadata; /* "user.e2b.key=value" */

	char *in; /* of the body, as it came */
	size_t in_room;
	struct text rest;  /* of that, not used yet */
	struct text plain; /* unpacked, not used yet */
	struct text piece; /* for the pipe */
	bool is_all;       /* the body has ended */
	bool is_finished;  /* and so has everything behind it */
	struct gunzip *gunzip;
	struct multipart *form;
	bool is_skipped; /* this part is no file */

	struct upload_file file;
	bool is_waiting; /* for init, until the file is whole */
	struct buf results;
	struct strv written;

	loop_id timer;
	uint64_t moved_at;
	uint64_t discarded;
	struct err failure; /* to be told when the body was read */
};

static void close_file(struct put *u)
{
	struct serve *serve = u->q->serve;

	u->file.watch = loop_forget(serve->loop, u->file.watch);
	u->file.pipe = fd_close(u->file.pipe);
}

static void put_gone(struct request *q)
{
	struct put *u = q->of;

	u->file.call = turn_cancel(u->file.call);
	close_file(u);
	loop_cancel(q->serve->loop, u->timer);
	gunzip_free(u->gunzip);
	if (u->form)
		multipart_done(u->form);
	free(u->form);
	free(u->in);
	strv_done(&u->metadata);
	strv_done(&u->written);
	buf_done(&u->results);
	free(u);
}

/* --- the end --- */

static void tell_failure(struct put *u)
{
	if (!exchange_is_begun(u->q->x))
		agent_fail(u->q, &u->failure, u->user);
}

/* Nothing more goes to the sandbox; what is being written there vanishes. */
static void fail(struct put *u, int code, const char *fmt, ...) _printf_(3, 4);
static void fail(struct put *u, int code, const char *fmt, ...)
{
	va_list ap;

	if (u->failure.code < 0)
		return;
	u->failure.code = code;
	va_start(ap, fmt);
	vsnprintf(u->failure.text, sizeof(u->failure.text), fmt, ap);
	va_end(ap);
	u->file.call = turn_cancel(u->file.call);
	close_file(u);
	u->rest.len = u->plain.len = u->piece.len = 0;
	u->is_waiting = false;
	/* A body in doubt is not read any further. */
	if (u->is_all || code == -EPROTO)
		tell_failure(u);
	else
		exchange_go_on(u->q->x);
}

static int add_result(struct put *u, const char *path)
{
	struct buf *b = &u->results;
	size_t skip = strlen(ENTRY_ATTRIBUTES);

	buf_str(b, b->len > 0 ? ",{\"name\":" : "{\"name\":");
	(void)!json_write_string(entry_name(path), strlen(entry_name(path)), b);
	buf_str(b, ",\"path\":");
	(void)!json_write_string(path, strlen(path), b);
	buf_str(b, ",\"type\":\"file\"");
	for (size_t i = 0; i < u->metadata.count; i++) {
		const char *key = u->metadata.items[i] + skip, *equals = strchr(key, '=');

		buf_str(b, i ? "," : ",\"metadata\":{");
		(void)!json_write_string(key, (size_t)(equals - key), b);
		buf_char(b, ':');
		(void)!json_write_string(equals + 1, strlen(equals + 1), b);
	}
	if (u->metadata.count > 0)
		buf_char(b, '}');
	buf_char(b, '}');
	return buf_failed(b);
}

static void answer(struct put *u)
{
	_cleanup_(buf_done) struct buf body = BUF(RESULTS_MAX + 2);

	u->is_finished = true;
	buf_char(&body, '[');
	buf_add(&body, buf_text(&u->results), u->results.len);
	if (buf_char(&body, ']') < 0)
		fail(u, -ENOMEM, "out of memory");
	else
		exchange_answer(u->q->x, 200, "application/json", body.data, body.len);
}

/* --- one file --- */

static void pump(struct put *u);

static void on_written(void *of, struct message *m, bool is_last)
{
	struct put *u = of;
	struct err err = ERR_NONE;
	const char *path = message_text(m, FIELD_PATH, u->file.path);

	if (m->type == MESSAGE_CREDIT)
		return;
	if (is_last)
		u->file.call = NULL;
	if (m->type != MESSAGE_DONE || !u->is_waiting) {
		if (m->type == MESSAGE_DONE)
			err_set(&err, -EPROTO,
				"the sandbox's init has done what it was not told to");
		else
			(void)agent_error(m, &err);
		fail(u, err.code == -EPROTO ? -EIO : err.code, "%s", err.text);
		return;
	}
	u->is_waiting = false;
	u->moved_at = loop_now(u->q->serve->loop);
	if (strv_add(&u->written, path) < 0 || add_result(u, path) < 0)
		fail(u, -ENOMEM, "out of memory");
	else
		pump(u);
}

static int open_pipe(struct put *u, int *ret_theirs)
{
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	(void)!fcntl(pair[1], F_SETPIPE_SZ, (int)PIPE);
	r = fd_set_nonblock(pair[1], 1);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	u->file.pipe = pair[1];
	*ret_theirs = pair[0];
	return 0;
}

static void begin_file(struct put *u, const char *given)
{
	struct draft d = DRAFT(MESSAGE_WRITE, 0);
	struct agent_place place;
	struct err err = ERR_NONE;
	int theirs = -EBADF, r = agent_path(u->q, given, place.path, &err);

	if (r == 0 && strv_has(&u->written, place.path))
		r = err_set(
			&err, -EINVAL,
			"you cannot upload multiple files to the same path '%.200s' in one upload "
			"request, only the first specified file was uploaded",
			place.path);
	if (r == 0) {
		r = open_pipe(u, &theirs);
		if (r < 0)
			err_errno(&err, r, "cannot make a pipe");
	}
	if (r < 0) {
		draft_done(&d);
		fail(u, r, "%s", err.text);
		return;
	}
	memcpy(place.user, u->user, sizeof(place.user));
	snprintf(u->file.path, sizeof(u->file.path), "%s", place.path);
	agent_address(&d, &place);
	draft_number(&d, FIELD_FLAGS, WRITE_PARENTS | WRITE_ENDED);
	draft_text(&d, FIELD_NAME, ENTRY_ATTRIBUTES);
	for (size_t i = 0; i < u->metadata.count; i++)
		draft_text(&d, FIELD_VARIABLE, u->metadata.items[i]);
	if (turn_start(u->q->serve, u->q->sandbox, &d, theirs, on_written, u, &u->file.call, &err) <
	    0)
		fail(u, err.code, "%s", err.text);
}

static void end_file(struct put *u)
{
	int r;

	close_file(u);
	u->is_waiting = true;
	r = turn_end(u->file.call);
	if (r < 0)
		fail(u, r, "the sandbox cannot be told that the file is whole");
}

static void on_pipe(void *of, uint32_t events)
{
	struct put *u = of;

	(void)events;
	pump(u);
}

/* True: the piece is in the pipe. */
static bool write_piece(struct put *u)
{
	struct loop *loop = u->q->serve->loop;

	while (u->piece.len > 0) {
		ssize_t n = write(u->file.pipe, u->piece.data, u->piece.len);

		if (n > 0) {
			u->piece.data += n;
			u->piece.len -= (size_t)n;
			u->moved_at = loop_now(loop);
		} else if (errno == EAGAIN) {
			if (!u->file.watch && loop_watch(loop, u->file.pipe, EPOLLOUT, on_pipe, u,
							 &u->file.watch) < 0)
				fail(u, -ENOMEM, "out of memory");
			return false;
		} else if (errno != EINTR) {
			/* Nobody reads any more: why, init says itself. */
			u->file.watch = loop_forget(loop, u->file.watch);
			return false;
		}
	}
	u->file.watch = loop_forget(loop, u->file.watch);
	return true;
}

/* --- what the body says --- */

static const char *words_of(int code)
{
	return code == -ENOMEM ? "out of memory"
			       : "the body is not what Content-Encoding says: gzip";
}

/* More to be used, out of what came; false when there is none. */
static bool refill(struct put *u)
{
	int r;

	if (!u->gunzip) {
		u->plain = u->rest;
		u->rest.len = 0;
		return u->plain.len > 0;
	}
	r = gunzip_next(u->gunzip, &u->rest.data, &u->rest.len, &u->plain);
	if (r < 0)
		fail(u, r == -ENOMEM ? r : -EINVAL, "%s", words_of(r));
	return r > 0;
}

static void take_event(struct put *u, int event, struct text piece)
{
	switch (event) {
	case MULTIPART_PART:
		u->is_skipped = !str_equal(u->form->name, "file");
		if (u->is_skipped)
			return;
		if (!u->path[0] && !u->form->filename[0])
			fail(u, -EINVAL, "a file of the form has no name, and there is no path");
		else
			begin_file(u, u->path[0] ? u->path : u->form->filename);
		return;
	case MULTIPART_DATA:
		if (!u->is_skipped)
			u->piece = piece;
		return;
	case MULTIPART_PART_END:
		if (!u->is_skipped)
			end_file(u);
		return;
	default:
		return;
	}
}

static void read_form(struct put *u)
{
	struct text piece = { 0 };
	int event = multipart_next(u->form, &u->plain.data, &u->plain.len, &piece);

	if (event < 0)
		fail(u, event == -EMSGSIZE ? -E2BIG : -EINVAL, "error parsing multipart form: %s",
		     u->form->why);
	else
		take_event(u, event, piece);
}

/* All of the body was used. */
static void finish(struct put *u)
{
	if (u->gunzip && gunzip_finish(u->gunzip) < 0)
		fail(u, -EINVAL, "the body ends in the midst of what is packed in it");
	else if (u->form && multipart_finish(u->form) < 0)
		fail(u, -EINVAL, "error parsing multipart form: %s", u->form->why);
	else if (u->form && u->written.count == 0)
		fail(u, -EINVAL, "there is no file in the form (a part named \"file\")");
	else if (!u->form && u->file.pipe >= 0)
		end_file(u);
	else
		answer(u);
}

/* As far as it goes: until the pipe is full, init has to be waited for, or nothing is there. */
static void pump(struct put *u)
{
	while (u->failure.code == 0 && !u->is_finished) {
		if (u->piece.len > 0 && !write_piece(u))
			return;
		if (u->is_waiting || u->failure.code < 0)
			return;
		if (u->plain.len == 0 && !refill(u)) {
			if (u->failure.code < 0)
				return;
			if (!u->is_all) {
				exchange_go_on(u->q->x);
				return;
			}
			finish(u);
			continue;
		}
		if (u->form) {
			read_form(u);
		} else {
			u->piece = u->plain;
			u->plain.len = 0;
		}
	}
}

/* --- the body, as it comes --- */

static void discard(struct put *u, size_t len)
{
	u->discarded += len;
	if (u->discarded > DISCARD) {
		exchange_close(u->q->x);
		tell_failure(u);
	}
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct put *u = q->of;

	if (u->failure.code < 0) {
		discard(u, len);
		return;
	}
	if (len > u->in_room) {
		char *in = realloc(u->in, len);

		if (!in) {
			fail(u, -ENOMEM, "out of memory");
			return;
		}
		u->in = in;
		u->in_room = len;
	}
	memcpy(u->in, data, len);
	u->rest = (struct text){ u->in, len };
	/* Until it was used up, which may be at once. */
	exchange_hold(x);
	pump(u);
}

static void on_end(struct exchange *x)
{
	struct request *q = x->of;
	struct put *u = q->of;

	u->is_all = true;
	if (u->failure.code < 0)
		tell_failure(u);
	else
		pump(u);
}

/* A sandbox that takes nothing: it stands still, or its disk does. A client that sends nothing is the server's. */
static void on_timer(void *of)
{
	struct put *u = of;
	struct loop *loop = u->q->serve->loop;

	u->timer = 0;
	if (loop_now(loop) - u->moved_at >= STALL_MS && (u->is_waiting || u->piece.len > 0) &&
	    u->failure.code == 0)
		fail(u, -ETIMEDOUT, "the sandbox takes nothing");
	(void)!loop_after(loop, STALL_MS, on_timer, u, &u->timer);
}

/* --- the request --- */

/* X-Metadata-Key: value, to "user.e2b.key=value". */
static int take_metadata(struct put *u, const struct head_field *field, size_t *used)
{
	size_t skip = strlen(METADATA), len = field->name.len - skip;
	char text[METADATA_MAX];
	int n;

	*used += len + field->value.len + strlen(ENTRY_ATTRIBUTES) + 1;
	if (len == 0 || *used >= sizeof(text))
		return -E2BIG;
	for (size_t i = 0; i < field->value.len; i++)
		if (field->value.data[i] < ' ' || field->value.data[i] > '~')
			return -EINVAL;
	n = snprintf(text, sizeof(text), ENTRY_ATTRIBUTES "%.*s=%.*s", (int)len,
		     field->name.data + skip, (int)field->value.len, field->value.data);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -E2BIG;
	for (size_t i = strlen(ENTRY_ATTRIBUTES); i < strlen(ENTRY_ATTRIBUTES) + len; i++)
		if (text[i] >= 'A' && text[i] <= 'Z')
			text[i] |= 0x20;
	return strv_add(&u->metadata, text);
}

static int read_metadata(struct put *u)
{
	const struct head *head = &u->q->x->head;
	size_t used = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < head->field_count; i++) {
		const struct head_field *field = &head->fields[i];

		if (field->name.len >= strlen(METADATA) &&
		    strncasecmp(field->name.data, METADATA, strlen(METADATA)) == 0)
			r = take_metadata(u, field, &used);
	}
	return r;
}

static bool begins_with(const struct text *text, const char *word)
{
	size_t len = strlen(word);

	return text && text->len >= len && strncasecmp(text->data, word, len) == 0;
}

/* How the body is packed and put together. 0, or a failure that was said. */
static int read_kind(struct put *u, const struct head *head)
{
	const struct text *type = head_find(head, "content-type");
	const struct text *coding = head_find(head, "content-encoding");

	if (coding && (text_is_nocase(coding, "gzip") || text_is_nocase(coding, "x-gzip"))) {
		if (gunzip_new(&u->gunzip) < 0)
			return -ENOMEM;
	} else if (coding && !text_is_nocase(coding, "identity")) {
		answer_error(u->q, 415, "Content-Encoding: only gzip is known here");
		return -EINVAL;
	}
	/* What is put somewhere is what it is, whatever it is called. */
	if (head->method == METHOD_PUT || begins_with(type, "application/octet-stream")) {
		if (u->path[0])
			return 0;
		answer_error(u->q, 400, "a path is needed for application/octet-stream");
		return -EINVAL;
	}
	if (!begins_with(type, "multipart/form-data")) {
		answer_error(u->q, 400,
			     "a file comes as multipart/form-data or application/octet-stream");
		return -EINVAL;
	}
	u->form = malloc(sizeof(*u->form));
	if (!u->form)
		return -ENOMEM;
	if (multipart_init(u->form, type) < 0) {
		answer_error(u->q, 400, "error parsing multipart form: no boundary that is one");
		return -EINVAL;
	}
	return 0;
}

static struct put *put_new(struct request *q, const char *user, const char *path)
{
	struct put *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->q = q;
	snprintf(u->user, sizeof(u->user), "%s", user);
	snprintf(u->path, sizeof(u->path), "%s", path);
	u->file.pipe = -EBADF;
	u->results = BUF(RESULTS_MAX);
	u->moved_at = loop_now(q->serve->loop);
	q->of = u;
	q->gone = put_gone;
	return u;
}

void e2b_upload(struct request *q, const char *user, const char *path)
{
	struct put *u = put_new(q, user, path);
	int r = u ? read_kind(u, &q->x->head) : -ENOMEM;

	if (r == -ENOMEM)
		agent_refuse(q, r, "out of memory");
	if (r < 0)
		return;
	r = read_metadata(u);
	if (r < 0) {
		agent_refuse(q, -EINVAL,
			     r == -E2BIG ? "there is too much metadata"
					 : "metadata must be printable US-ASCII");
		return;
	}
	r = loop_after(q->serve->loop, STALL_MS, on_timer, u, &u->timer);
	if (r < 0) {
		agent_refuse(q, -ENOMEM, "out of memory");
		return;
	}
	exchange_stream(q->x, on_data, on_end);
	if (!u->form)
		begin_file(u, u->path);
}
