/*
 * output.c - from the pipes of a process into its ring, or past it
 *
 * Output goes into the ring, and readers take it from there. A reader that must not lose anything
 * (ATTACH_WHOLE) holds the process up instead: while it is behind, nobody reads the pipes, they fill, and
 * the process waits. Much at once for one such reader is moved from pipe to pipe by the kernel and never
 * is in our memory; the ring has a gap then, which is counted for others as dropped.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "init/process.h"

#define READ_SIZE  (16 * KIB)
#define BULK       (32 * KIB)  /* from here on it is moved, not copied */
#define PIPE_LARGE (512 * KIB) /* of a process that writes much; or as much as may be */
#define REST_NS    200000

void process_close_streams(struct process *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->streams); i++)
		source_close(p->init, &p->streams[i].from);
}

bool process_is_closed(const struct process *p)
{
	return p->streams[0].from.fd < 0 && p->streams[1].from.fd < 0;
}

static bool is_wet(const struct stream *stream)
{
	return stream->from.fd >= 0 && stream->left > 0;
}

bool process_is_dry(const struct process *p)
{
	return p->state == PROCESS_ENDED && !is_wet(&p->streams[0]) && !is_wet(&p->streams[1]);
}

void process_listen(struct process *p)
{
	bool is_held = readers_hold(p);

	if (p->state == PROCESS_STARTING)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(p->streams); i++) {
		struct stream *stream = &p->streams[i];

		(void)!source_watch(p->init, &stream->from,
				    is_held || stream->is_resting ? 0 : EPOLLIN);
	}
}

void processes_listen(struct init *init, struct source *source, uint32_t events)
{
	uint64_t times;

	(void)events;
	(void)!read(source->fd, &times, sizeof(times));
	(void)!source_watch(init, source, 0);
	for (size_t i = 0; i < init->process_count; i++) {
		struct process *p = init->processes[i];

		if (!p->streams[0].is_resting && !p->streams[1].is_resting)
			continue;
		p->streams[0].is_resting = p->streams[1].is_resting = false;
		process_listen(p);
	}
}

/* Who writes much is listened to again when there is more of it, not with each piece: a change of process
 * costs more than to move one. */
static void rest(struct stream *stream)
{
	const struct itimerspec soon = { .it_value.tv_nsec = REST_NS };
	struct init *init = stream->process->init;

	if (init->rest.fd < 0)
		init->rest.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (init->rest.fd < 0)
		return;
	if (!init->rest.events && (timerfd_settime(init->rest.fd, 0, &soon, NULL) < 0 ||
				   source_watch(init, &init->rest, EPOLLIN) < 0))
		return;
	stream->is_resting = true;
}

static size_t copy_some(struct stream *stream)
{
	struct process *p = stream->process;
	char bytes[READ_SIZE];
	ssize_t n = read(stream->from.fd, bytes, sizeof(bytes));

	if (n > 0) {
		ring_add(&p->ring, stream->number, bytes, (size_t)n, &p->init->ring_bytes,
			 RINGS_MAX + (p->whole_count > 0 ? RINGS_SPARE : 0));
		return (size_t)n;
	}
	/* EIO: the other side of a terminal is closed. */
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		source_close(p->init, &stream->from);
	if (n == 0 || errno != EINTR)
		stream->left = 0;
	return 0;
}

static size_t move_some(struct stream *stream)
{
	struct process *p = stream->process;
	int there = 0;
	size_t n;

	if (p->whole_count != 1 || p->leader || ioctl(stream->from.fd, FIONREAD, &there) < 0 ||
	    there < (int)BULK)
		return 0;
	n = readers_move(p, stream, (size_t)there);
	if (n == 0)
		return 0;
	ring_skip(&p->ring, n);
	rest(stream);
	if (!stream->is_large) {
		stream->is_large = true;
		(void)!fcntl(stream->from.fd, F_SETPIPE_SZ, PIPE_LARGE);
	}
	return n;
}

/* What came, 0 at the end or when nothing is there, or nobody could take it. */
static size_t take_some(struct stream *stream)
{
	size_t n = move_some(stream);

	if (n == 0 && !readers_hold(stream->process))
		n = copy_some(stream);
	if (stream->left != STREAM_ENDLESS)
		stream->left -= MIN(stream->left, n);
	return n;
}

void process_take_output(struct init *init, struct source *source, uint32_t events)
{
	struct stream *stream = container_of(source, struct stream, from);
	struct process *p = stream->process;

	(void)events;
	/* Held, as it may be the one itself that has ended. */
	p->reader_count++;
	take_some(stream);
	readers_pump(p);
	process_listen(p);
	processes_shrink(init);
	p->reader_count--;
	process_review(p);
}

/* All that the process itself can have written, and no more: another may still be writing. Its state is
 * ENDED. */
void process_drain(struct process *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->streams); i++) {
		struct stream *stream = &p->streams[i];
		int left = 0;

		if (stream->from.fd < 0)
			continue;
		/* A terminal does not know what is on the way. */
		if (p->leader || ioctl(stream->from.fd, FIONREAD, &left) < 0)
			left = MIB;
		stream->left = (size_t)left;
		while (is_wet(stream) && take_some(stream) > 0)
			readers_pump(p);
	}
	process_listen(p);
}
