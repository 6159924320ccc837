#include "init/init.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

#define CONGESTED        (256 * KIB) /* bytes that wait for the warden */
#define PARKED_MANY      (CHANNEL_PARKED_MAX / 2)
#define MESSAGES_MAX     64 /* in one turn */
#define FREE_DESCRIPTORS 16

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT, "the channel speaks in poll's words");

int source_watch(struct init *init, struct source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	int op = !source->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (source->fd < 0 || source->events == events)
		return 0;
	/* Removed, not set to nothing: the end would be told again and again. */
	if (epoll_ctl(init->epoll, op, source->fd, &event) < 0)
		return -errno;
	source->events = events;
	return 0;
}

void source_close(struct init *init, struct source *source)
{
	/* Others may have the same open file, and epoll would go on to tell of it. */
	source_watch(init, source, 0);
	source->fd = fd_close(source->fd);
	source->events = 0;
}

/*
 * The highest numbers have to be free: the kernel gives the lowest, so those are taken last. A message
 * whose descriptors do not fit would be the end of the channel.
 */
int init_has_room(struct err *err)
{
	struct pollfd highest[FREE_DESCRIPTORS];
	struct rlimit limit;
	int first, n;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_errno(err, -errno, "cannot tell how much may be open");
	first = (int)MIN(limit.rlim_cur, (rlim_t)INT_MAX) - FREE_DESCRIPTORS;
	first = MAX(first, 0);
	for (int i = 0; i < FREE_DESCRIPTORS; i++)
		highest[i] = (struct pollfd){ .fd = first + i };
	n = poll(highest, FREE_DESCRIPTORS, 0);
	for (int i = 0; n == FREE_DESCRIPTORS && i < FREE_DESCRIPTORS; i++)
		n -= !(highest[i].revents & POLLNVAL);
	return n == FREE_DESCRIPTORS
		       ? 0
		       : err_set(err, -EMFILE, "too much is open in the sandbox at once");
}

static bool is_full(const struct channel *ch)
{
	return channel_waiting(ch) > CONGESTED || ch->parked_count > PARKED_MANY;
}

void loop_check_queue(struct init *init)
{
	init->is_congested |= is_full(&init->channel);
}

static void receive(struct init *init)
{
	int r = 1;

	for (int i = 0; r > 0 && i < MESSAGES_MAX && !init->is_congested; i++) {
		struct message m;

		r = channel_receive(&init->channel, &m);
		if (r > 0) {
			call_handle(init, &m);
			message_done(&m);
			loop_check_queue(init);
		}
	}
	init->has_messages = r > 0;
}

static void on_warden(struct init *init, struct source *source, uint32_t events)
{
	(void)source;
	if (events & EPOLLOUT)
		(void)!channel_flush(&init->channel);
	if (events & ~(uint32_t)EPOLLOUT)
		receive(init);
}

static void on_children(struct init *init, struct source *source, uint32_t events)
{
	struct signalfd_siginfo drop[4];

	(void)events;
	while (read(source->fd, drop, sizeof(drop)) > 0)
		;
	init->has_children = true;
}

int loop_open(struct init *init)
{
	sigset_t children;
	int r;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	init->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (init->epoll < 0)
		return -errno;
	init->rest = SOURCE(processes_listen);
	init->children = SOURCE(on_children);
	init->children.fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	if (init->children.fd < 0)
		return -errno;
	init->warden = SOURCE(on_warden);
	init->warden.fd = init->channel.fd;
	r = source_watch(init, &init->children, EPOLLIN);
	return r < 0 ? r : source_watch(init, &init->warden, EPOLLIN);
}

/* What is left from the turn before, and nobody tells about. */
static void go_on(struct init *init)
{
	bool was_congested = init->is_congested;

	if (init->has_children)
		process_reap(init);
	init->is_congested = is_full(&init->channel);
	if (was_congested && !init->is_congested) {
		processes_resume(init);
		readers_resume(init);
		dials_resume(init);
		errands_resume(init);
	}
	if (init->has_messages && !init->is_congested)
		receive(init);
	if (init->has_news && !init->is_congested)
		errands_resume(init);
	errands_end(init);
	sudo_end_late(init);
	processes_end(init);
	loop_check_queue(init);
}

/* The sooner of two, where -1 is never. */
static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : MIN(a, b);
}

static int time_left(const struct init *init)
{
	int left = sooner(errand_time_left(init), sudo_time_left(init));
	uint64_t now;

	if (init->has_children || ((init->has_messages || init->has_news) && !init->is_congested))
		return 0;
	if (!init->first_deadline)
		return left;
	now = clock_ms();
	return sooner(left, init->first_deadline > now
				    ? (int)MIN(init->first_deadline - now, (uint64_t)INT_MAX)
				    : 0);
}

/* One event, or none: then there is something else to do. */
static int take_event(struct init *init)
{
	struct epoll_event event;
	int n = epoll_wait(init->epoll, &event, 1, time_left(init));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n > 0) {
		struct source *source = event.data.ptr;

		source->ready(init, source, event.events);
	}
	return 0;
}

int loop_run(struct init *init)
{
	while (init->channel.failure == 0) {
		uint32_t events = (uint32_t)channel_events(&init->channel);
		int r;

		if (init->is_congested)
			events &= ~(uint32_t)EPOLLIN;
		r = source_watch(init, &init->warden, events);
		r = r < 0 ? r : take_event(init);
		if (r < 0)
			return r;
		go_on(init);
	}
	return init->channel.failure == -EPIPE ? 0 : init->channel.failure;
}
