#include "jail/keeper_end.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "jail/tree.h"

/* How long the end may take before the keeper says that something is left. */
#define END_TIMEOUT_MS 5000

#define REAP_MAX 256 /* in one go */

int keeper_reap(pid_t first, int control, struct keeper_event *ret_exit, bool *ret_more)
{
	int found = 0;

	*ret_more = false;
	/* Bounded: whoever makes orphans as fast as they are reaped must not keep the keeper from
	 * its other duties. */
	for (int i = 0; i < REAP_MAX; i++) {
		siginfo_t info = { 0 };
		struct keeper_event event = { .pid = first };
		int status;

		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) < 0)
			return errno == EINTR ? found : found ? found : -errno;
		if (info.si_pid == 0)
			return found;
		/* Taken by its pid: a second waitid for all could return another child. */
		if (waitpid(info.si_pid, &status, WNOHANG | WUNTRACED) <= 0)
			return found;
		if (info.si_pid != first)
			continue;
		if (WIFSTOPPED(status)) {
			event.news = KEEPER_STOPPED;
			event.code = WSTOPSIG(status);
			/* A warden that does not listen must not keep us from our duties. */
			(void)!send(control, &event, sizeof(event), MSG_NOSIGNAL | MSG_DONTWAIT);
			continue;
		}
		event.news = KEEPER_EXITED;
		event.code = status;
		*ret_exit = event;
		found = 1;
	}
	/* What is left raises no signal of its own: the caller comes back by himself. */
	*ret_more = true;
	return found;
}

int keeper_end_all(const struct keeper_ending *ending, struct keeper_event *ret_exit)
{
	uint64_t deadline = clock_ms() + END_TIMEOUT_MS;
	struct signalfd_siginfo drop[8];
	bool more;

	if (!ending->scoped) {
		/* They are stopped by signals first, which have to arrive. */
		cgroup_thaw_killed(ending->cgroup);
		return descendants_kill(END_TIMEOUT_MS);
	}
	for (;;) {
		struct pollfd poll_signals = { .fd = ending->signals, .events = POLLIN };
		int r = keeper_reap(ending->first, ending->control, ret_exit, &more);

		if (r == -ECHILD)
			return 0;
		if (clock_ms() > deadline)
			return -ETIME;
		kill(-1, SIGKILL);
		cgroup_thaw_killed(ending->cgroup);
		/* Where the first process was found, its signal has been, and there may be no other. */
		if (poll(&poll_signals, 1, more || r > 0 ? 0 : 100) > 0 &&
		    read(ending->signals, drop, sizeof(drop)) < 0 && errno != EINTR)
			return -errno;
	}
}

int descendants_kill(uint64_t timeout_ms)
{
	static pid_t pids[TREE_MAX];
	uint64_t deadline = clock_ms() + timeout_ms;

	for (;;) {
		const struct timespec pause = { .tv_nsec = 2000000 };
		size_t count = tree_below(getpid(), pids);

		/* Stopped first: what is stopped does not fork while the others are still to be
		 * reached. */
		for (size_t i = 0; i < count; i++)
			kill(pids[i], SIGSTOP);
		for (size_t i = 0; i < count; i++)
			kill(pids[i], SIGKILL);
		for (int i = 0; i < REAP_MAX; i++)
			if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
				return 0;
		if (clock_ms() > deadline)
			return -ETIME;
		nanosleep(&pause, NULL);
	}
}
