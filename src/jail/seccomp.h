/*
 * seccomp.h - the filter that a workload runs under
 *
 * Default deny. syscalls.h has one row per system call; a filter is made from the rows and a spec
 * in one go:
 *
 *	struct filter filter;
 *	r = filter_build(&(struct filter_spec){ .sockets = SOCKETS_NONE }, &filter, err);
 *	r = filter_load(&filter);
 *
 * Verdicts, in this order: a call of a foreign ABI (i386, x32) kills the process; a call that is
 * allowed, perhaps by its arguments, goes through; a call that is known and not allowed gets EPERM,
 * or ENOSYS where a libc has a fallback; a number newer than the table gets ENOSYS, so that a libc
 * falls back as on an older kernel; a socket family that is not allowed gets EAFNOSUPPORT.
 *
 * The program is a binary search over ranges of numbers: the kernel runs the filter once per number
 * when it is loaded to build its bitmap, so a linear list would cost 0.4 ms a start and a tree
 * costs 0.06.
 *
 * A filter for a mediated sandbox has a fifth verdict: the call waits for an answer from whoever
 * holds the listener (mediate.h). Which calls do is said by the spec, and by registers alone where
 * that is enough: a chmod without setuid and setgid bits, an open that makes nothing go at full
 * speed in a container. The filter itself refuses to add another listener, and what it closes never
 * reaches the first.
 */
#ifndef BRIG_JAIL_SECCOMP_H
#define BRIG_JAIL_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/macro.h"
#include "policy/extension.h"
#include "policy/policy.h"

enum sockets {
	SOCKETS_NONE, /* no socket() at all; pairs that stay connected to each other */
	SOCKETS_UNIX, /* AF_UNIX as well: only where the sandbox sees no socket of the host */
	SOCKETS_INET, /* and AF_INET, AF_INET6 stream and datagram, NETLINK_ROUTE */
	/*
	 * Those without AF_UNIX, on the network of the host: whatever sends to an address, binds or
	 * listens waits for the keeper (mediate_send.h), and opens that might be of resolv.conf do.
	 */
	SOCKETS_SHARED,
};

/*
 * Which calls wait for the keeper's answer. With any mediation no setuid or setgid file is made.
 * With guarded names there is no Landlock inside, and EXT_NESTED is refused: both would be walls
 * with a hole.
 */
enum mediation {
	MEDIATE_NOTHING,
	MEDIATE_MODES,    /* changes to a mode with such a bit: a container, mounts hold the rest */
	MEDIATE_NAMES,    /* and what makes a name: a container with guarded names (guard.h) */
	MEDIATE_METADATA, /* the process tier: what Landlock does not know */
};

struct filter_spec {
	uint32_t extensions; /* bit 1 << EXT_... */
	enum sockets sockets;
	bool private_ipc;    /* System V IPC and POSIX queues are the sandbox's own: allowed */
	bool fixed_affinity; /* sched_setaffinity is refused: the CPU limit stands on it */
	enum mediation mediation;
	enum record record; /* what waits for the keeper only to be recorded */
	bool carries,
		carries_reads; /* what changes files, or opens them, may be the keeper's to do */
	bool has_gate;         /* connect waits for the gate's answer (outlet.h) */
	uint64_t pass;         /* of the one execve that is not; 0: none */
};

#define FILTER_MAX 1024 /* three times what is needed; the kernel would take 4096 */

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short len;
	unsigned int allowed; /* how many calls of the native ABI go through: always, by their
				 arguments or by the keeper's verdict */
};

/* The conditions of syscalls.h that a spec comes to. */
unsigned int filter_conditions(const struct filter_spec *spec);

[[nodiscard]] int filter_build(const struct filter_spec *spec, struct filter *ret_filter,
			       struct err *err);

/* Loads it for this thread and all it will start; no_new_privs must be on. */
[[nodiscard]] int filter_load(const struct filter *filter);

/* The same for a mediated sandbox: returns the listener, close-on-exec. */
[[nodiscard]] int filter_listen(const struct filter *filter);

#endif
