#include "warden/warden_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/execute.h"
#include "jail/pause.h"
#include "warden/watch.h"

#define GRACE_MS 400 /* between the signal that a program expects and the end of everything */
#define OVERDUE_MS \
	3000 /* for the keeper to finish after it was told to kill; then we do it ourselves */
#define DRAIN_MS  1000  /* for output that a slow reader has not taken when all is over */
#define KILL_CPUS 64000 /* thousandths: as good as no limit */

static void order(struct warden *w, enum keeper_order what, int signal)
{
	/* A keeper that is gone is noticed by its pidfd. */
	(void)!keeper_order(&w->keeper, what, signal);
}

/* The first reason counts: what follows from it is not another one. */
void warden_set_reason(struct warden *w, enum reason reason)
{
	if (w->was_ended_by_us || w->has_status)
		return;
	w->result->reason = reason;
	w->was_ended_by_us = true;
}

void warden_kill_now(struct warden *w)
{
	if (w->phase >= PHASE_KILLED)
		return;
	/* A thousand processes that share a tenth of a CPU take seconds to die. */
	if (cgroup_has(&w->tj->jail.cgroup, CGROUP_CPU))
		(void)!cgroup_limit(&w->tj->jail.cgroup, CGROUP_CPU, KILL_CPUS, NULL);
	if (w->is_frozen)
		(void)!pause_kill(&w->tj->jail.cgroup, &w->keeper, NULL);
	else
		order(w, KEEPER_KILL, 0);
	w->is_frozen = false;
	w->phase = PHASE_KILLED;
	w->phase_deadline = clock_ms() + OVERDUE_MS;
}

/* Tells the program first, then ends everything. */
void warden_end_softly(struct warden *w, enum reason reason, int signal)
{
	enum keeper_order all;

	warden_set_reason(w, reason);
	/* Asked twice, or who stands still: no grace. */
	if (w->phase != PHASE_RUNNING || w->is_frozen) {
		warden_kill_now(w);
		return;
	}
	/* Of init the signal would be no news: it is for what it started. */
	all = w->request->lives ? KEEPER_SIGNAL_ALL : KEEPER_SIGNAL;
	order(w, all, signal);
	order(w, all, SIGCONT);
	w->phase = PHASE_ENDING;
	w->phase_deadline = clock_ms() + GRACE_MS;
}

/*
 * Stops the whole sandbox, then ourselves, as Ctrl-Z does without brig. By SIGTSTP, which the
 * kernel drops where no shell would ever continue us. The keeper watches the time meanwhile.
 */
static void suspend(struct warden *w)
{
	sigset_t stop, before;

	order(w, KEEPER_SIGNAL_ALL, SIGSTOP);
	terminal_leave(&w->terminal);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	terminal_enter(&w->terminal);
	terminal_follow_size(&w->terminal);
	order(w, KEEPER_SIGNAL_ALL, SIGCONT);
}

/* Children but the keeper, whose number must stay its own until we are done with it. */
static void reap_others(const struct warden *w)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
	       info.si_pid != w->keeper.pid) {
		(void)waitpid(info.si_pid, NULL, WNOHANG);
		info.si_pid = 0;
	}
}

static void on_signal(struct warden *w, int signal)
{
	switch (signal) {
	case SIGCHLD:
		reap_others(w);
		break;
	case SIGCONT:
		/* From the background to the foreground: the terminal is ours again. */
		terminal_enter(&w->terminal);
		break;
	case SIGWINCH:
		terminal_follow_size(&w->terminal);
		break;
	case SIGTSTP:
		suspend(w);
		break;
	default:
		if (!w->cancel_signal)
			w->cancel_signal = signal;
		warden_end_softly(w, REASON_CANCELLED, signal);
	}
}

static void read_signals(struct warden *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == sizeof(info))
		on_signal(w, (int)info.ssi_signo);
}

static void on_news(struct warden *w, const struct keeper_event *event)
{
	switch (event->news) {
	case KEEPER_TERMINAL:
		terminal_replace(&w->terminal, event->descriptor);
		w->has_terminal = true;
		break;
	case KEEPER_STORE:
		fd_close(w->tj->store);
		w->tj->store = event->descriptor;
		return;
	case KEEPER_STARTED:
		/* A number of another pid namespace means nothing here; the group in front is it. */
		w->first = w->tj->is_contained ? tcgetpgrp(w->terminal.master) : event->pid;
		break;
	case KEEPER_FAILED:
		w->failure = *event;
		break;
	case KEEPER_STOPPED:
		/* Only at a terminal: elsewhere a program could stop the clock by stopping itself.
		 */
		if (w->terminal.is_raw)
			suspend(w);
		break;
	case KEEPER_EXITED:
		w->status = event->code;
		w->has_status = true;
		if (w->phase < PHASE_KILLED) {
			w->phase = PHASE_KILLED;
			w->phase_deadline = clock_ms() + OVERDUE_MS;
		}
		break;
	case KEEPER_EMPTY:
		w->ended = clock_ms();
		w->phase = PHASE_KILLED;
		w->phase_deadline = UINT64_MAX;
		break;
	case KEEPER_FINISHED:
		if (event->is_late)
			warden_set_reason(w, REASON_TIMEOUT);
		if (event->is_lost)
			warden_set_reason(w, REASON_LOST);
		if (event->has_status) {
			w->status = event->status;
			w->has_status = true;
		}
		w->usage = event->usage;
		w->phase = PHASE_FINISHED;
		w->phase_deadline = clock_ms() + DRAIN_MS;
		break;
	default:
		break;
	}
	fd_close(event->descriptor);
}

/* The keeper should never go before it has said that all is over; if it does, its work is ours. */
static void keeper_lost(struct warden *w)
{
	if (w->phase == PHASE_FINISHED)
		return;
	(void)!cgroup_kill(&w->tj->jail.cgroup);
	/* A pid namespace has died with it; and the janitor is a child of ours. */
	if (!w->tj->is_contained)
		(void)!descendants_kill(OVERDUE_MS);
	(void)!scratch_remove(&w->tj->jail.scratch);
	w->phase = PHASE_FINISHED;
	w->phase_deadline = clock_ms() + DRAIN_MS;
}

void warden_kill_keeper(struct warden *w)
{
	(void)!kill(w->keeper.pid, SIGKILL);
	keeper_lost(w);
}

static void read_news(struct warden *w)
{
	struct keeper_event event;
	int r;

	while ((r = keeper_next(&w->keeper, &event)) == 0)
		on_news(w, &event);
	if (r != -EAGAIN)
		keeper_lost(w);
}

static void check_deadlines(struct warden *w, uint64_t now)
{
	if (w->phase == PHASE_RUNNING && now >= w->wall_deadline)
		warden_end_softly(w, REASON_TIMEOUT, SIGTERM);
	else if (w->phase == PHASE_ENDING && now >= w->phase_deadline)
		warden_kill_now(w);
	else if (w->phase == PHASE_KILLED && now >= w->phase_deadline)
		warden_kill_keeper(w);
}

static void check_watch(struct warden *w, uint64_t now)
{
	const struct tier_watch *watch = &w->tj->watch;

	if (w->phase >= PHASE_KILLED || now < w->next_watch)
		return;
	w->next_watch = warden_next_watch(w, now);
	if (watch->memory && watch_memory_is_over(watch, w->keeper.pid)) {
		warden_set_reason(w, REASON_MEMORY);
		warden_kill_now(w);
	} else if (watch->cpu_time &&
		   watch_cpu_is_over(watch, &w->tj->jail.cgroup, w->keeper.pid)) {
		warden_set_reason(w, REASON_CPU);
		warden_kill_now(w);
	}
}

static int poll_timeout(const struct warden *w, uint64_t now)
{
	uint64_t next = w->wall_deadline;

	if (w->phase != PHASE_RUNNING)
		next = w->phase_deadline;
	if ((w->tj->watch.memory || w->tj->watch.cpu_time) && w->phase < PHASE_KILLED)
		next = MIN(next, w->next_watch);
	if (w->witness.trace && w->witness.failure == 0 && trace_due_ms(w->witness.trace) >= 0)
		next = MIN(next, now + (uint64_t)trace_due_ms(w->witness.trace));
	if (door_timeout(&w->door) >= 0)
		next = MIN(next, now + (uint64_t)door_timeout(&w->door));
	if (publish_timeout(&w->publish) >= 0)
		next = MIN(next, now + (uint64_t)publish_timeout(&w->publish));
	if (w->phase == PHASE_RUNNING)
		next = MIN(next, w->idle_deadline);
	if (desk_timeout(&w->desk) >= 0)
		next = MIN(next, now + (uint64_t)desk_timeout(&w->desk));
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)MIN(next - now + 1, (uint64_t)1000000);
}

void warden_read_record(struct warden *w)
{
	static struct record_taken taken;
	uint64_t count;
	int r = 0;

	if (!w->ring)
		return;
	(void)!read(record_ring_fd(w->ring), &count, sizeof(count));
	while ((r = record_take(w->ring, &taken)) > 0)
		if (w->witness.failure == 0)
			witness_take(&w->witness, &taken);
	if (w->witness.failure == 0)
		w->witness.failure = r;
}

/* What waits in the stream's buffer is written when nothing new comes. */
static void flush_record(struct warden *w)
{
	if (w->witness.trace && w->witness.failure == 0 && trace_due_ms(w->witness.trace) == 0)
		w->witness.failure = trace_flush(w->witness.trace);
}

/* What cannot be recorded any more cannot go on, whoever found out. */
static void check_record(struct warden *w)
{
	if (w->witness.failure == 0)
		return;
	warden_set_reason(w, REASON_RECORD);
	warden_kill_now(w);
}

static void check_output(struct warden *w)
{
	const char *keys;
	size_t len = streams_typed(&w->streams, &keys);

	if (w->streams.over_limit) {
		warden_set_reason(w, REASON_OUTPUT);
		warden_kill_now(w);
	}
	if (len > 0 && w->phase == PHASE_RUNNING && w->first &&
	    terminal_interrupt_is_ignored(&w->terminal, w->first, keys, len)) {
		w->cancel_signal = SIGINT;
		warden_end_softly(w, REASON_CANCELLED, SIGINT);
	}
}

/* Who broke the rules has the workload behind him, and is not worth another word. */
static void check_desk(struct warden *w, short revents)
{
	if (revents || desk_timeout(&w->desk) == 0)
		desk_poll(&w->desk);
	if (!w->desk.broken)
		return;
	warden_set_reason(w, REASON_INIT);
	warden_kill_now(w);
}

static bool is_over(const struct warden *w, uint64_t now)
{
	return w->phase == PHASE_FINISHED &&
	       ((streams_drained(&w->streams) && publish_is_drained(&w->publish)) ||
		now >= w->phase_deadline);
}

#define OWN_FDS 4

void warden_supervise(struct warden *w)
{
	for (uint64_t now = clock_ms(); !is_over(w, now); now = clock_ms()) {
		struct pollfd fds[OWN_FDS + STREAM_COUNT + DOOR_FDS + PUBLISH_FDS] = {
			{ .fd = w->keeper.control, .events = POLLIN },
			{ .fd = w->signals, .events = POLLIN },
			{ .fd = w->ring ? record_ring_fd(w->ring) : -1, .events = POLLIN },
			{ .fd = w->desk.epoll, .events = POLLIN },
		};
		size_t count, doors, ports;

		/* In the background keys are not ours: reading them would stop us. */
		w->streams.keys_are_ours = w->terminal.is_raw;
		count = streams_fds(&w->streams, fds + OWN_FDS);

		if (w->phase == PHASE_FINISHED) {
			fds[0].fd = -1;
			publish_close(&w->publish);
		}
		doors = door_fds(&w->door, fds + OWN_FDS + count);
		ports = publish_fds(&w->publish, fds + OWN_FDS + count + doors);
		if (poll(fds, OWN_FDS + count + doors + ports, poll_timeout(w, now)) < 0 &&
		    errno != EINTR)
			break;
		streams_poll(&w->streams, fds + OWN_FDS, count);
		door_poll(&w->door, fds + OWN_FDS + count, doors);
		publish_poll(&w->publish, fds + OWN_FDS + count + doors, ports);
		check_output(w);
		check_desk(w, fds[3].revents);
		if (fds[1].revents)
			read_signals(w);
		if (fds[2].revents)
			warden_read_record(w);
		if (fds[0].revents)
			read_news(w);
		flush_record(w);
		check_record(w);
		now = clock_ms();
		check_deadlines(w, now);
		check_watch(w, now);
		if (now >= w->idle_deadline)
			warden_check_idle(w, now);
	}
}

void warden_wait(struct warden *w, uint64_t until)
{
	struct pollfd fds[] = { { .fd = w->keeper.control, .events = POLLIN },
				{ .fd = w->signals, .events = POLLIN },
				{ .fd = w->desk.epoll, .events = POLLIN } };
	uint64_t now = clock_ms();

	if (poll(fds, ARRAY_SIZE(fds), until <= now ? 0 : (int)MIN(until - now, (uint64_t)60000)) <
		    0 &&
	    errno != EINTR)
		return;
	if (fds[1].revents)
		read_signals(w);
	if (fds[0].revents)
		read_news(w);
	if (fds[2].revents)
		desk_poll(&w->desk);
	check_deadlines(w, clock_ms());
}

void warden_await_terminal(struct warden *w)
{
	while (w->tj->is_contained && w->terminal.master >= 0 && !w->has_terminal &&
	       w->failure.news != KEEPER_FAILED && w->phase == PHASE_RUNNING) {
		uint64_t now = clock_ms();
		int left = poll_timeout(w, now);

		warden_wait(w, left < 0 ? UINT64_MAX : now + (uint64_t)left);
	}
}
