/*
 * mediate_name.h - calls that make a name, where there are guarded ones (guard.h)
 *
 * Each is carried out in the target's place: paths are copied and their parents pinned
 * (mediate_walk.h), the guards are asked about the new name in its pinned parent, and the call is
 * made there, by the last component alone, under the target's umask. So nearly every errno is the
 * kernel's own, for the same reason.
 *
 * For an open, which here always has O_CREAT, the target gets a descriptor of what the keeper
 * opened. It is opened by somebody else, and that shows where it must not:
 *
 *  - A link at the end is followed step by step, so that the guards see where a file would be made.
 *  - /dev/tty is the terminal of whoever opens it. A target of the keeper's session has the
 *    keeper's; one of another session has the one in /dev/pts with the number that its process
 *    shows. By such an open no terminal becomes a controlling one.
 *  - A fifo waits for its other end. The keeper does not wait: a process that it starts for this
 *    one call does, and answers. At most WAITERS_MAX at a time (waiter.h, EAGAIN).
 *  - Everything is opened without waiting; a file under a lease of the host's is EAGAIN.
 *  - F_GETFL shows O_NOFOLLOW; a target that has no descriptor left (EMFILE) finds the file made.
 *
 * The keeper must stand behind every wall for files that the workload stands behind: a Landlock
 * domain that only the workload is in would not hold for these calls. A process that made itself
 * undumpable cannot make names (EPERM, target.h). Needs Linux 5.14; before 5.19 a signal at the
 * wrong moment makes a call be carried out twice (seccomp.c).
 */
#ifndef BRIG_JAIL_MEDIATE_NAME_H
#define BRIG_JAIL_MEDIATE_NAME_H

#include <linux/seccomp.h>
#include <stdbool.h>

#include "jail/guard.h"
#include "jail/mediate.h"
#include "jail/mediate_walk.h"

struct name_call;

struct name_request {
	const struct mediator *mediator;
	const struct name_call *call;
	const unsigned long long *args; /* of the call, as the kernel copied them */
	uint64_t id;
	pid_t tid;
	struct walk new, old;
	char text[PATH_MAX]; /* of a new link */
	mode_t umask;
	int flags;   /* of an open, a move or a link; the first has O_CREAT */
	mode_t mode; /* of an open */
};

/* NULL when the call makes no name. */
const struct name_call *name_call_find(int number);

/* Carries it out and answers, or leaves the answer to a process that waits. */
[[nodiscard]] int name_answer(const struct mediator *mediator, const struct name_call *call,
			      const struct seccomp_notif *notif);

/* The opening itself, with everything taken from the target: a descriptor, or -errno;
 * -EINPROGRESS when somebody else answers (mediate_open.c). */
[[nodiscard]] int name_open(struct name_request *request);

/* The same for an object that is there and pinned: a file, a directory or a fifo. */
[[nodiscard]] int name_reopen(const struct name_request *request, int object);

/* Whether something may appear at the end of a walk. */
[[nodiscard]] int name_check(const struct name_request *request, const struct walk *walk,
			     enum appearance appearance);

#endif
