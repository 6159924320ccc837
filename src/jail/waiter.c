#include "jail/waiter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/sys.h"

/* A place for one more; NULL when all are taken. */
static int *free_place(void)
{
	static int waiters[WAITERS_MAX]; /* pidfds; 0 is not one */

	for (size_t i = 0; i < ARRAY_SIZE(waiters); i++) {
		struct pollfd ended = { .fd = waiters[i], .events = POLLIN };

		if (waiters[i] > 0 && poll(&ended, 1, 0) == 1) {
			fd_close(waiters[i]);
			waiters[i] = 0;
		}
		if (waiters[i] == 0)
			return &waiters[i];
	}
	return NULL;
}

pid_t waiter_fork(void)
{
	int *place = free_place();
	pid_t pid;

	if (!place)
		return -EAGAIN;
	pid = sys_fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Not to be looked into: it holds the listener, and the workload sees it. */
		prctl(PR_SET_DUMPABLE, 0);
	}
	/* Our child, not yet waited for: the number is its own. */
	if (pid > 0)
		*place = MAX(sys_pidfd_open(pid), 0);
	return pid;
}
