/*
 * seccomp.h - the filter that a workload runs under
 *
 * Default deny. syscalls.h has one row per system call; a filter is made from the rows and a spec
 *in one go:
 *
 *	struct filter filter;
 *	r = filter_build(&(struct filter_spec){ .sockets = SOCKETS_NONE }, &filter, err);
 *	r = filter_load(&filter);
 *
 * Verdicts, in this order: a call of a foreign ABI (i386, x32) kills the process; a call that is
 *allowed, perhaps by its arguments, goes through; a call that is known and not allowed gets EPERM,
 *or ENOSYS where a libc has a fallback; a number newer than the table gets ENOSYS, so that a libc
 *falls back as on an older kernel; a socket family that is not allowed gets EAFNOSUPPORT.
 *
 * The program is a binary search over ranges of numbers: the kernel runs the filter once per number
 *when it is loaded to build its bitmap, so a linear list would cost 0.4 ms a start and a tree costs
 *0.06.
 *
 * 32-bit arguments (ioctl commands, socket families, clone flags ...) are compared by their low
 *half only, because the kernel drops the high half; 64-bit arguments by both halves.
 */
#ifndef BRIG_JAIL_SECCOMP_H
#define BRIG_JAIL_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/macro.h"

/* Named extensions of the allowed set; the policy key "allow" and the flag --allow take these
 * names. */
enum extension {
	EXT_DEBUG,  /* ptrace and process_vm_* of the sandbox's own processes, perf stays closed */
	EXT_NESTED, /* namespaces and mounts, for a sandbox inside the sandbox */
	EXT_MEMFD_EXEC, /* execveat of a descriptor without a path */
	EXTENSION_COUNT,
};

struct extension_info {
	const char *name, *summary;
};
extern const struct extension_info extensions[EXTENSION_COUNT];

enum sockets {
	SOCKETS_NONE, /* no socket() at all; socketpair(AF_UNIX) stays */
	SOCKETS_UNIX, /* AF_UNIX as well: only where the sandbox sees no socket of the host */
	SOCKETS_INET, /* and AF_INET, AF_INET6 stream and datagram, NETLINK_ROUTE */
};

struct filter_spec {
	uint32_t extensions; /* bit 1 << EXT_... */
	enum sockets sockets;
	bool private_ipc;    /* System V IPC and POSIX queues are the sandbox's own: allowed */
	bool fixed_affinity; /* sched_setaffinity is refused: the CPU limit stands on it */
};

#define FILTER_MAX 4096 /* the kernel's bound, BPF_MAXINSNS */

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short len;
	unsigned int allowed; /* how many calls of the native ABI go through, always or by their
				 arguments */
};

[[nodiscard]] int filter_build(const struct filter_spec *spec, struct filter *ret_filter,
			       struct err *err);

/* Loads it for this thread and all it will start; no_new_privs must be on. */
[[nodiscard]] int filter_load(const struct filter *filter);

#endif
