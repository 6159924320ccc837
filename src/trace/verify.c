#include "trace/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/fd.h"
#include "base/str.h"
#include "trace/home.h"
#include "trace/reader.h"

const char *const verify_state_names[VERIFY_STATE_COUNT] = {
	[VERIFY_COMPLETE] = "complete",       [VERIFY_RUNNING] = "running",
	[VERIFY_INTERRUPTED] = "interrupted", [VERIFY_FAILED] = "failed",
	[VERIFY_BROKEN] = "broken",
};

void verify_init(struct verify *v, const char *sandbox, const struct head *head, bool is_alive)
{
	*v = (struct verify){ .sandbox = sandbox, .head = head, .is_alive = is_alive };
	memcpy(v->hash, HEAD_ZERO, sizeof(HEAD_ZERO));
}

/* The first break counts. Always false, for whoever has to say so. */
_printf_(3, 4) static bool broken(struct verify *v, uint64_t line, const char *fmt, ...)
{
	va_list ap;

	if (v->is_broken)
		return false;
	v->is_broken = true;
	v->result.state = VERIFY_BROKEN;
	v->result.line = line;
	v->result.lines = line ? line - 1 : 0;
	va_start(ap, fmt);
	vsnprintf(v->result.text, sizeof(v->result.text), fmt, ap);
	va_end(ap);
	str_make_printable(v->result.text);
	return false;
}

static bool check_order(struct verify *v, const struct node *line)
{
	uint64_t seq = (uint64_t)trace_number(line, "seq"), at = v->seq + 1;
	const char *prev = trace_text(line, "prev");

	if (!str_equal(trace_text(line, "sandbox"), v->sandbox))
		return broken(v, at, "it is of another sandbox (\"%s\")",
			      trace_text(line, "sandbox"));
	if (seq > at)
		return broken(v, at,
			      "the line with number %" PRIu64 " stands here: %" PRIu64
			      " lines are missing, or they stand in another order",
			      seq, seq - at);
	if (seq < at)
		return broken(v, at,
			      "the line with number %" PRIu64
			      " stands here, once more or in the wrong place",
			      seq);
	if (str_equal(prev, v->hash))
		return true;
	if (v->seq == 0)
		return broken(v, at, "it was changed: the first line follows no other");
	return broken(v, at - 1,
		      "it was changed, or the line behind it: they do not belong together");
}

static bool check_place(struct verify *v, const struct head_place *place)
{
	if (v->seq != place->seq)
		return true;
	if (v->bytes == place->bytes && str_equal(v->hash, place->hash))
		return true;
	return broken(v, v->seq, "it was changed: its hash is not the one in the head");
}

bool verify_line(struct verify *v, const char *text, size_t len)
{
	_cleanup_(node_freep) struct node *line = NULL;
	struct err err = ERR_NONE;
	uint64_t at = v->seq + 1;

	if (v->is_broken)
		return false;
	if (v->head && v->seq >= v->head->next.seq)
		return broken(v, at, "it was added: the head knows %" PRIu64 " lines", v->seq);
	if (v->is_ended)
		return broken(v, at, "it was added behind the last one");
	if (!text)
		return broken(v, at, "it was changed: it is longer than any event");
	if (trace_line_parse(text, len, &line, &err) < 0)
		return broken(v, at, "it was changed: %s", err.text);
	if (!check_order(v, line))
		return false;
	if (at == 1 && !trace_is(line, "sandbox", "start"))
		return broken(v, at, "it is not the beginning of a stream");
	v->seq = at;
	v->bytes += len + 1;
	v->is_ended = trace_is(line, "sandbox", "end");
	sha256_hex(text, len, v->hash);
	return !v->head || (check_place(v, &v->head->acked) && check_place(v, &v->head->next));
}

static void say(struct verify *v, enum verify_state state, const char *text)
{
	v->result.state = state;
	v->result.lines = v->seq;
	snprintf(v->result.text, sizeof(v->result.text), "%s", text);
}

/* Of a head that says open, with no writer: what a crash leaves, and nothing else. */
static void end_interrupted(struct verify *v, uint64_t tail)
{
	const struct head *head = v->head;

	uint64_t size = v->bytes + tail;

	if (v->seq == head->next.seq ? tail > 0 : size >= head->next.bytes)
		broken(v, v->seq + 1, "it was changed or added: the head knows of no such end");
	else if (v->is_ended && v->seq == head->next.seq)
		say(v, VERIFY_COMPLETE, "complete");
	else if (v->is_ended)
		broken(v, v->seq, "it is the end of a stream, but the head knows of more lines");
	else if (v->seq == head->next.seq)
		say(v, VERIFY_INTERRUPTED, "the warden was killed before it could end the stream");
	else
		say(v, VERIFY_INTERRUPTED,
		    "the warden was killed while it was writing, and the last lines are missing");
}

void verify_end(struct verify *v, uint64_t tail, struct verdict_of_stream *ret_verdict)
{
	const struct head *head = v->head;

	if (v->is_broken)
		;
	else if (!head && v->seq == 0 && tail == 0)
		say(v, VERIFY_INTERRUPTED,
		    "the warden was killed before it could begin the stream");
	else if (!head)
		broken(v, 0, "the head is missing or empty");
	else if (v->seq < head->acked.seq)
		broken(v, v->seq + 1,
		       "it is missing: the stream was cut, the head knows %" PRIu64 " lines",
		       head->acked.seq);
	else if (v->is_alive)
		say(v, VERIFY_RUNNING, "complete so far, the sandbox is running");
	else if (head->state == HEAD_OPEN)
		end_interrupted(v, tail);
	else if (tail != head->tail)
		broken(v, v->seq + 1, "something was added or cut behind the last line");
	else if (head->state == HEAD_FAILED)
		say(v, VERIFY_FAILED,
		    "the disk was full or failed, and the rest could not be written");
	else if (head->state == HEAD_CLOSED && !v->is_ended)
		broken(v, v->seq, "it is not the end of a stream, though the head says so");
	else
		say(v, VERIFY_COMPLETE, "complete");
	if (!v->is_broken && head && head->state == HEAD_FAILED)
		v->result.lost = head->lost;
	*ret_verdict = v->result;
}

static int feed(struct verify *v, int stream)
{
	_cleanup_(reader_done) struct reader reader = { 0 };
	struct verdict_of_stream ignored;
	const char *line;
	size_t len = 0;
	int r = reader_init(&reader, stream);

	if (r < 0)
		return r;
	/* What a living writer adds behind is the next one's business. Otherwise one byte more than
	 * there may be is enough to know, however large the file was made. */
	if (!v->head)
		reader.limit = 1;
	else if (v->is_alive)
		reader.limit = v->head->acked.bytes;
	else
		reader.limit = v->head->next.bytes + v->head->tail + 1;
	while ((r = reader_next(&reader, &line, &len)) != 0) {
		if (r < 0 && r != -EMSGSIZE)
			return r;
		if (!verify_line(v, r > 0 ? line : NULL, len))
			break;
	}
	verify_end(v, reader_tail(&reader), &ignored);
	return 0;
}

static int no_stream(int home, const char *id, struct verify *v, struct err *err)
{
	struct head head;

	if (head_read(home, id, &head, NULL) < 0)
		return err_set(err, -ENOENT,
			       "there are no events of a sandbox \"%s\" (see \"brig events list\")",
			       id);
	if (head.state == HEAD_REMOVED)
		say(v, VERIFY_COMPLETE, "removed: there were too many streams");
	else
		broken(v, 1, "the stream was removed, its head is still there");
	return 0;
}

/* What could not be opened: gone, or replaced by something that is no stream. */
static int verify_without(int home, const char *id, int code, struct verify *v, struct err *err)
{
	switch (code) {
	case -ENOENT:
		return no_stream(home, id, v, err);
	case -ELOOP:
	case -EXDEV:
	case -ENOTDIR:
	case -ENXIO:
	case -EBADMSG:
		broken(v, 1, "the stream was replaced by something that is no plain file of yours");
		return 0;
	default:
		return code;
	}
}

/* The head that the lines are held against; false: nothing more need be looked at. */
static bool find_head(int home, struct verify *v, struct head *head)
{
	struct err why = ERR_NONE;
	int r = head_read(home, v->sandbox, head, &why);

	if (r == 0 && !str_equal(head->sandbox, v->sandbox))
		r = err_set(&why, -EBADMSG, "the head is of another sandbox");
	if (r == 0) {
		v->head = head;
		return true;
	}
	if (r != -ENOENT && r != -ENODATA)
		return broken(v, 0, "%s", why.text);
	if (!v->is_alive)
		return true;
	say(v, VERIFY_RUNNING, "it has just begun");
	return false;
}

int verify_stream(int home, const char *id, struct verdict_of_stream *ret_verdict, struct err *err)
{
	_cleanup_close_ int stream = -EBADF;
	char path[TRACE_PATH_SIZE];
	struct head head;
	struct verify v;
	int r = 0;

	trace_stream_path(id, path);
	verify_init(&v, id, NULL, false);
	stream = trace_file_open(home, path, err);
	if (stream < 0) {
		r = verify_without(home, id, stream, &v, err);
		if (r < 0)
			return r;
		*ret_verdict = v.result;
		return 0;
	}
	/* Held to the end: a stream that is being verified is not removed. */
	v.is_alive = flock(stream, LOCK_SH | LOCK_NB) < 0;
	if (find_head(home, &v, &head))
		r = feed(&v, stream);
	if (r < 0)
		return err_errno(err, r, "cannot read the events of \"%s\"", id);
	*ret_verdict = v.result;
	return 0;
}
