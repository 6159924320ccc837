/*
 * reader.c - ATTACH: somebody reads the output that is kept of a process
 *
 * A reader is an offset into the ring of the process, and goes at its own speed: what it has not read
 * when the ring needs the room is counted for it as dropped; or it is one for whom the process waits
 * (output.c). It writes to the descriptors that came with the call, or sends DATA within a window.
 */
#include "init/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct reader {
	struct call call; /* of ATTACH; not open: it is the first, whose call is the process's */
	struct process *process;
	uint64_t at, until; /* until: where it ends, if it does not follow */
	uint64_t dropped;   /* in all */
	uint64_t skipped;   /* of them, not told yet */
	bool follows, is_whole, until_closed, has_descriptors;
	bool cannot_move; /* no pipe, or the kernel does not like it */
	uint64_t window;
	struct sink {
		struct source to;
		struct reader *reader;
		bool is_stuck;
	} sinks[2]; /* output and error */
};

static uint32_t number_of(const struct reader *r)
{
	return r->call.kind ? r->call.number : r->process->call.number;
}

void reader_free(struct reader *r)
{
	struct process *p = r->process;
	struct init *init = p->init;

	for (size_t i = 0; i < init->reader_count; i++)
		if (init->readers[i] == r) {
			init->readers[i] = init->readers[--init->reader_count];
			break;
		}
	call_close(init, &r->call);
	for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++)
		source_close(init, &r->sinks[i].to);
	if (r->is_whole) {
		p->whole_count--;
		p->given = MAX(p->given, r->at);
	}
	if (p->first == r) {
		p->first = NULL;
		p->dropped = r->dropped;
		if (p->state == PROCESS_ENDED)
			process_tell_end(p);
	}
	free(r);
	process_listen(p);
	p->reader_count--;
	process_review(p);
}

static void finish(struct init *init, struct reader *r)
{
	const struct process *p = r->process;
	bool has_ended = r->follows && p->state == PROCESS_ENDED;
	struct draft d = DRAFT(has_ended ? MESSAGE_EXITED : MESSAGE_DONE, number_of(r));

	/* Who waits for the end of the pipes gets that first. */
	for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++)
		source_close(init, &r->sinks[i].to);
	if (p->first == r) {
		reader_free(r);
		return;
	}
	if (has_ended) {
		draft_number(&d, FIELD_STATUS, (unsigned int)p->status);
		draft_number(&d, FIELD_PROCESS, p->number);
	} else {
		draft_number(&d, FIELD_SIZE, r->at);
	}
	if (r->dropped > 0)
		draft_number(&d, FIELD_DROPPED, r->dropped);
	answer_send(init, &d);
	reader_free(r);
}

/* Nobody is at the other end of either. */
static bool is_alone(const struct reader *r)
{
	return r->has_descriptors && r->sinks[0].to.fd < 0 && r->sinks[1].to.fd < 0;
}

static void give_up(struct init *init, struct reader *r)
{
	if (r->call.kind)
		channel_answer_error(&init->channel, r->call.number, -EPIPE,
				     "nobody reads the output");
	reader_free(r);
}

static void stick(struct init *init, struct sink *sink)
{
	if (source_watch(init, &sink->to, EPOLLOUT) < 0)
		source_close(init, &sink->to);
	else
		sink->is_stuck = true;
}

/* Bytes that are done with, or 0 when they have to wait. */
static size_t write_piece(struct init *init, struct sink *sink, const unsigned char *data,
			  size_t len)
{
	ssize_t n;

	if (sink->is_stuck)
		return 0;
	/* Its reader went away; the other one may be there. */
	if (sink->to.fd < 0)
		return len;
	do
		n = write(sink->to.fd, data, len);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	if (errno == EAGAIN)
		stick(init, sink);
	else
		source_close(init, &sink->to);
	return sink->is_stuck ? 0 : len;
}

static size_t send_piece(struct init *init, struct reader *r, unsigned int stream,
			 const unsigned char *data, size_t len)
{
	struct draft d = DRAFT(MESSAGE_DATA, number_of(r));

	len = MIN(len, (size_t)r->window);
	len = MIN(len, (size_t)MESSAGE_DATA_MAX);
	if (len == 0 || init->is_congested)
		return 0;
	draft_number(&d, FIELD_STREAM, stream);
	draft_bytes(&d, FIELD_DATA, data, len);
	if (r->skipped > 0)
		draft_number(&d, FIELD_DROPPED, r->skipped);
	if (channel_send(&init->channel, &d, NULL, 0) < 0)
		len = 0;
	draft_done(&d);
	loop_check_queue(init);
	if (len > 0)
		r->skipped = 0;
	r->window -= len;
	return len;
}

/* There is nothing more at the moment: will there be? */
static bool is_over(const struct reader *r)
{
	const struct process *p = r->process;

	if (!r->follows)
		return r->at >= r->until;
	return process_is_dry(p) && (!r->until_closed || p->was_killed || process_is_closed(p));
}

/* One piece. Whether there may be another; the reader is gone if not, or waits. */
static bool step(struct init *init, struct reader *r)
{
	const struct ring *ring = &r->process->ring;
	const unsigned char *data = NULL;
	unsigned int stream = STREAM_OUTPUT;
	size_t len;

	if (r->at < ring->begin) {
		r->dropped += ring->begin - r->at;
		r->skipped += ring->begin - r->at;
		r->at = ring->begin;
	}
	len = ring_piece(ring, r->at, &stream, &data);
	if (!r->follows)
		len = r->at >= r->until ? 0 : MIN(len, (size_t)(r->until - r->at));
	if (len == 0) {
		if (is_over(r))
			finish(init, r);
		return false;
	}
	if (r->has_descriptors)
		len = write_piece(init, &r->sinks[stream == STREAM_ERROR], data, len);
	else
		len = send_piece(init, r, stream, data, len);
	r->at += len;
	if (!is_alone(r))
		return len > 0;
	give_up(init, r);
	return false;
}

static void pump(struct init *init, struct reader *r)
{
	while (step(init, r))
		;
}

/* The same, and what follows from it for the process, which may be gone afterwards. */
static bool advance(struct init *init, struct reader *r, bool once)
{
	struct process *p = r->process;
	bool has_more = false;

	p->reader_count++;
	if (once)
		has_more = step(init, r);
	else
		pump(init, r);
	process_listen(p);
	p->reader_count--;
	process_review(p);
	return has_more;
}

void readers_pump(struct process *p)
{
	struct init *init = p->init;

	/* Backwards: one that ends is replaced by the last. */
	for (size_t i = init->reader_count; i-- > 0;)
		if (i < init->reader_count && init->readers[i]->process == p)
			pump(init, init->readers[i]);
}

static bool is_behind(const struct reader *r)
{
	return r->at < r->process->ring.end || r->sinks[0].is_stuck || r->sinks[1].is_stuck;
}

bool readers_hold(const struct process *p)
{
	const struct init *init = p->init;

	for (size_t i = 0; p->whole_count > 0 && i < init->reader_count; i++)
		if (init->readers[i]->process == p && init->readers[i]->is_whole &&
		    is_behind(init->readers[i]))
			return true;
	return false;
}

/* The one reader that a process has; NULL: there are more, or none. */
static struct reader *only_reader(const struct process *p)
{
	const struct init *init = p->init;
	struct reader *found = NULL;

	for (size_t i = 0; i < init->reader_count; i++)
		if (init->readers[i]->process == p) {
			if (found)
				return NULL;
			found = init->readers[i];
		}
	return found;
}

size_t readers_move(struct process *p, struct stream *stream, size_t len)
{
	struct reader *r = only_reader(p);
	struct sink *sink = r ? &r->sinks[stream->number == STREAM_ERROR] : NULL;
	ssize_t n;

	if (!r || !r->is_whole || r->cannot_move || sink->to.fd < 0 || is_behind(r))
		return 0;
	n = splice(stream->from.fd, NULL, sink->to.fd, NULL, len,
		   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n > 0) {
		r->at += (size_t)n;
		return (size_t)n;
	}
	if (n < 0 && errno == EAGAIN)
		stick(p->init, sink);
	else if (n < 0 && errno == EPIPE)
		source_close(p->init, &sink->to);
	else
		r->cannot_move = true;
	return 0;
}

/* In turn, a message each: the first must not have all of the room. */
void readers_resume(struct init *init)
{
	bool has_more = true;

	while (has_more && !init->is_congested) {
		has_more = false;
		for (size_t i = init->reader_count; i-- > 0;)
			if (i < init->reader_count)
				has_more |= advance(init, init->readers[i], true);
	}
}

static void on_sink(struct init *init, struct source *source, uint32_t events)
{
	struct sink *sink = container_of(source, struct sink, to);
	struct reader *r = sink->reader;

	sink->is_stuck = false;
	if (events & (EPOLLERR | EPOLLHUP))
		source_close(init, source);
	else
		(void)!source_watch(init, source, EPOLLERR);
	if (is_alone(r))
		give_up(init, r);
	else
		advance(init, r, false);
}

void reader_credit(struct reader *r, const struct message *m)
{
	r->window = window_with(r->window, m);
	advance(r->process->init, r, false);
}

static void receive(struct init *init, struct call *call, struct message *m)
{
	(void)init;
	if (m->type == MESSAGE_CREDIT)
		reader_credit(container_of(call, struct reader, call), m);
}

static void cancel(struct init *init, struct call *call)
{
	(void)init;
	reader_free(container_of(call, struct reader, call));
}

static const struct call_kind reader_call = { .receive = receive, .cancel = cancel };

static int make_room(struct init *init, struct err *err)
{
	size_t room = init->reader_room ? init->reader_room * 2 : 4;
	struct reader **more;

	if (init->reader_count == READERS_MAX)
		return err_set(err, -EAGAIN, "%d readers are attached already", READERS_MAX);
	if (init->reader_count < init->reader_room)
		return 0;
	more = realloc(init->readers, room * sizeof(struct reader *));
	if (!more)
		return err_set(err, -ENOMEM, "out of memory");
	init->readers = more;
	init->reader_room = room;
	return 0;
}

/* How far somebody got who must lose nothing; nobody else needs to be told that. */
static uint64_t given(const struct process *p)
{
	uint64_t at = p->given;

	for (size_t i = 0; i < p->init->reader_count; i++) {
		const struct reader *r = p->init->readers[i];

		if (r->process == p && r->is_whole)
			at = MAX(at, r->at);
	}
	return at;
}

static struct reader *reader_new(struct process *p, struct message *m, unsigned int flags,
				 uint64_t offset, struct err *err)
{
	const uint64_t at = MIN(offset, p->ring.end);
	struct init *init = p->init;
	struct reader *r;

	if (init_has_room(err) < 0 || make_room(init, err) < 0)
		return NULL;
	r = malloc(sizeof(*r));
	if (!r) {
		err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	*r = (struct reader){ .process = p,
			      .at = at,
			      .until = p->ring.end,
			      .follows = flags & ATTACH_FOLLOW,
			      .is_whole = (flags & ATTACH_FOLLOW) && (flags & ATTACH_WHOLE),
			      .until_closed = flags & ATTACH_CLOSED,
			      .has_descriptors = m->descriptor_count > 0,
			      .window = MESSAGE_WINDOW };
	r->cannot_move = !r->has_descriptors;
	for (size_t i = 0; i < ARRAY_SIZE(r->sinks); i++) {
		struct sink *sink = &r->sinks[i];

		*sink = (struct sink){ .to = SOURCE(on_sink), .reader = r };
		sink->to.fd = message_take_descriptor(m, i);
		if (sink->to.fd < 0)
			continue;
		(void)!fd_set_nonblock(sink->to.fd, 1);
		/* That nobody reads it any more is told, also while there is nothing to write. */
		(void)!source_watch(init, &sink->to, EPOLLERR);
	}
	p->reader_count++;
	p->whole_count += r->is_whole;
	init->readers[init->reader_count++] = r;
	return r;
}

int reader_start(struct process *p, struct message *m, struct err *err)
{
	unsigned int flags = ATTACH_FOLLOW | ATTACH_WHOLE;

	if (p->flags & START_CLOSED)
		flags |= ATTACH_CLOSED;
	p->first = reader_new(p, m, flags, 0, err);
	return p->first ? 0 : err->code;
}

void reader_attach(struct init *init, struct message *m)
{
	struct process *p = process_find(init, m);
	unsigned int flags = (unsigned int)message_number(m, FIELD_FLAGS, 0);
	uint64_t offset = message_number(m, FIELD_OFFSET, 0);
	struct err err = ERR_NONE;
	struct reader *r = NULL;

	if (!p)
		return;
	if (!(p->flags & START_KEPT))
		err_set(&err, -EINVAL, "the output of process %llu is not kept",
			(unsigned long long)p->number);
	else
		r = reader_new(p, m, flags, flags & ATTACH_REST ? given(p) : offset, &err);
	if (!r) {
		answer_err(init, m->call, &err);
		return;
	}
	call_open(init, &r->call, m->call, &reader_call);
	advance(init, r, false);
}
