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

/* Has what was asked for happened? Whoever asked and does something else is sure that it has not. */
static void settle(struct slot *slot, pid_t caller)
{
	uint64_t image;

	if (target_image(slot->tid, &image) < 0)
		return;
	if (image == slot->image && caller != slot->asker)
		return;
	if (image != slot->image)
		slot->exec = slot->asked;
	slot->image = image;
	slot->asked = 0;
}

/* The number of a thread or an ancestor of it, for one that makes a call. */
static bool find(struct lineage *lineage, pid_t tid, pid_t caller, uint32_t *ret_exec)
{
	struct slot *slot = &lineage->slots[slot_of(tid)];

	if (slot->tid != tid || slot->pidfd <= 0 || !is_alive(slot->pidfd))
		return false;
	if (slot->asked)
		settle(slot, caller);
	*ret_exec = slot->exec;
	return true;
}

/* Where a thread cannot be held by a descriptor it is looked up each time. */
static struct slot *keep(struct lineage *lineage, pid_t tid, uint32_t exec)
{
	struct slot *slot = &lineage->slots[slot_of(tid)];
	int pidfd = (int)syscall(SYS_pidfd_open, tid, 0);

	if (pidfd < 0)
		pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	if (slot->pidfd > 0)
		close(slot->pidfd);
	if (lineage->fd_end && pidfd >= lineage->fd_end) {
		close(pidfd);
		pidfd = -EBADF;
	}
	*slot = (struct slot){ .tid = tid, .pidfd = pidfd < 0 ? 0 : pidfd, .exec = exec };
	return slot;
}

static uint32_t look_up(struct lineage *lineage, pid_t tid)
{
	pid_t at = tid;
	uint32_t exec = 0;

	if (lineage->self == 0)
		lineage->self = getpid();
	for (int i = 0; i < ANCESTORS_MAX && at > 1 && at != lineage->self; i++) {
		pid_t process, parent;

		/* A thread is asked about by its process, a process by its parent. */
		if (find(lineage, at, tid, &exec) || target_origin(at, &process, &parent) < 0)
			break;
		at = process == at ? parent : process;
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
	uint32_t exec = look_up(lineage, tid);
	struct slot *slot;
	pid_t process, parent;

	/* What executes takes the number of its process over. */
	if (target_origin(tid, &process, &parent) < 0)
		process = tid;
	lineage->recent = 0;
	slot = &lineage->slots[slot_of(process)];
	/* Most have been looked up just now. */
	if (slot->tid != process || slot->pidfd <= 0 || process != tid)
		slot = keep(lineage, process, exec);
	++lineage->last;
	if (slot->image == 0 && target_image(process, &slot->image) < 0)
		return lineage->last;
	slot->asked = lineage->last;
	slot->asker = tid;
	return lineage->last;
}
