#include "jail/lineage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/target.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

#define ANCESTORS_MAX 32
#define RECENT_NS     1000000

static bool is_alive(int pidfd)
{
	struct pollfd fd = { .fd = pidfd, .events = POLLIN };

	return poll(&fd, 1, 0) == 0;
}

static unsigned int slot_of(pid_t tid)
{
	return (unsigned int)tid % LINEAGE_SLOTS;
}

static bool find(const struct lineage *lineage, pid_t tid, uint32_t *ret_exec)
{
	unsigned int i = slot_of(tid);

	if (lineage->slots[i].tid != tid || lineage->slots[i].pidfd <= 0 ||
	    !is_alive(lineage->slots[i].pidfd))
		return false;
	*ret_exec = lineage->slots[i].exec;
	return true;
}

/* Where a thread cannot be held by a descriptor it is looked up each time. */
static void keep(struct lineage *lineage, pid_t tid, uint32_t exec)
{
	unsigned int i = slot_of(tid);
	int pidfd = (int)syscall(SYS_pidfd_open, tid, 0);

	if (pidfd < 0)
		pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	if (lineage->slots[i].pidfd > 0)
		close(lineage->slots[i].pidfd);
	if (lineage->fd_end && pidfd >= lineage->fd_end) {
		close(pidfd);
		pidfd = -EBADF;
	}
	lineage->slots[i].tid = tid;
	lineage->slots[i].pidfd = pidfd < 0 ? 0 : pidfd;
	lineage->slots[i].exec = exec;
}

static uint32_t look_up(struct lineage *lineage, pid_t tid)
{
	pid_t at = tid, self = getpid();
	uint32_t exec = 0;

	for (int i = 0; i < ANCESTORS_MAX && at > 1 && at != self; i++) {
		pid_t process;

		if (find(lineage, at, &exec))
			break;
		/* A thread is asked about by its process, a process by its parent. */
		if (target_process(at, &process) < 0)
			break;
		if (process == at && target_parent(at, &process) < 0)
			break;
		at = process;
	}
	if (at != tid)
		keep(lineage, tid, exec);
	return exec;
}

uint32_t lineage_of(struct lineage *lineage, pid_t tid, uint64_t now_ns)
{
	if (lineage->recent != tid || now_ns - lineage->recent_ns > RECENT_NS) {
		lineage->recent_exec = look_up(lineage, tid);
		lineage->recent = tid;
		lineage->recent_ns = now_ns;
	}
	return lineage->recent_exec;
}

uint32_t lineage_exec(struct lineage *lineage, pid_t tid)
{
	pid_t process;

	/* What executes takes the number of its process over. */
	if (target_process(tid, &process) < 0)
		process = tid;
	lineage->recent = 0;
	keep(lineage, process, ++lineage->last);
	if (process != tid)
		keep(lineage, tid, lineage->last);
	return lineage->last;
}
