/*
 * mediate.h - the keeper answers for calls that no wall of the kernel judges
 *
 * Landlock knows nothing of modes, owners, times, attributes, watches and scheduling. A sandbox
 * without mounts of its own would have all of these on every file and process of its user: chmod
 * 0644 ~/.ssh/id_rsa, as root chmod 0666 /etc/shadow. Refusing the calls breaks linkers, tar,
 * pip and npm. So the filter lets them wait (seccomp.h, MEDIATE_METADATA), and the keeper
 * carries them out in the caller's place, on what lies below the trees that the sandbox may
 * write:
 *
 *	target                      keeper
 *	chmod("x/y", 0755) waits    copies "x/y" out of the target's memory, opens its cwd
 *	                            is the notification still valid?
 *	                            openat2(cwd, "x/y", O_PATH) pins the object
 *	                            where is it? /proc/self/fd/N says: below a writable tree
 *	returns 0                   chmod("/proc/self/fd/N", 0755)
 *
 * The target can rewrite its memory, exchange directories for links and swap descriptors at any
 * moment: the verdict and the act are both on the pinned object. The call is never let through
 * ("continue") after a pointer was read; that is for the scheduling calls alone, where the verdict
 * depends on the number of a process.
 *
 *  - Below a tree: changes of mode, owner, times, "user." attributes and POSIX ACLs, with the
 *    keeper's rights, which are the target's (one user, no capabilities). An ACL gives others no
 *    more than chmod 0777 could.
 *  - Never: setuid, and setgid on anything but a directory (the file would stay on the host, owned
 *    by the caller), other attributes, devices (/dev/null is writable and the host's), anything of
 *    /proc.
 *  - Pipes, sockets and memfds that the target holds have no place, and nobody else's either.
 *  - A file with a second name outside is inside: as when it is written to.
 *  - Watches (inotify) need a readable tree; a name that cannot be watched is EACCES.
 *
 * A path through /proc/self would mean the keeper. The spellings that libcs use for a descriptor,
 * /proc/self/fd/N and its like, are taken for the target's descriptor N; the rest is refused.
 *
 * A container has mounts for all of that, and asks the keeper for two things only.
 * MEDIATE_MODES: a chmod to a mode with setuid or setgid, done for setgid on a directory and
 * refused otherwise. There the lists are not looked at: where the mounts let the keeper, they
 * let the target. MEDIATE_NAMES: also the calls that make a name, of which some are guarded
 * (mediate_name.h, guard.h).
 *
 * Where the sandbox is recorded, more calls wait: mediate_record.h. And where a narrower rule lies
 * inside a wider one: carry.h, which then also says what is writable and readable.
 *
 * One at a time, in fixed buffers. Nothing here waits for the target: it may be killed at any
 * moment, and the answer then goes nowhere. What can wait is the kernel: for an inode that the
 * target keeps locked by writing to it, for a network file system of the host that hangs.
 */
#ifndef BRIG_JAIL_MEDIATE_H
#define BRIG_JAIL_MEDIATE_H

#include <stdbool.h>
#include "base/macro.h"
#include "jail/carry.h"
#include "jail/mediate_record.h"
#include "jail/outlet.h"
#include "policy/policy.h"
#include "jail/seccomp.h"

/* The lists are canonical absolute paths; readable includes the writable ones. They stay the
 * caller's, who must be an ancestor of all that the filter holds, of the same user and, for guarded
 * names, with the same root. */
struct mediator {
	int listener;
	enum mediation mediation; /* as the filter was built */
	const char *const *writable;
	size_t writable_count;
	const char *const *readable;
	size_t readable_count;
	const char *const *guarded; /* names that must not come into existence: MEDIATE_NAMES */
	size_t guarded_count;
	const struct carry *carry; /* NULL: Landlock grants all that the rules do (carry.h) */
	bool scoped;               /* we are in a domain that confines signals to the sandbox */
	unsigned int conditions;   /* of the filter (syscalls.h) */
	struct recorder *recorder; /* NULL: nothing is recorded */
	struct outlet *outlet;     /* NULL: no gate */
	const struct published *published; /* where a program may listen (shared.h) */
	size_t published_count;
	int control; /* whose end means that nobody reads the record any more */
};

/* Answers one notification, where poll() said this of the listener; once it said POLLIN, to receive
 * does not wait, even if the target has gone by then. -EAGAIN when none is pending, -ENOENT when the
 * target went away, -EPIPE when nobody is left under the filter. */
[[nodiscard]] int mediator_answer(const struct mediator *mediator, short revents);

#endif
