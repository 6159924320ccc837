/*
 * landlock.h - Landlock rulesets: which trees a sandbox may read or write, and how far its signals
 * reach
 *
 * A ruleset grants trees and cannot take a part out again. It is built by the warden before the
 * fork (every path is looked up once, outside) and entered by the sandbox's first process:
 *
 *	struct landlock ll = LANDLOCK_NONE;
 *	r = landlock_open(LANDLOCK_FILES | LANDLOCK_SIGNALS, &ll, err);
 *	r = landlock_grant(&ll, path_fd, LANDLOCK_READ, err);
 *	... in the child: r = landlock_enter(&ll);
 *
 * A process in a domain that scopes signals can signal only its own domain and those nested in it.
 * The keeper stands in an outer domain and the workload in one inside it: the keeper reaches the
 * whole workload, the workload reaches neither the keeper nor anything else.
 */
#ifndef BRIG_JAIL_LANDLOCK_H
#define BRIG_JAIL_LANDLOCK_H

#include <errno.h>
#include <stdbool.h>

#include "base/err.h"

enum landlock_part {
	LANDLOCK_FILES = 1,         /* all of the file system */
	LANDLOCK_SIGNALS = 2,       /* and abstract UNIX sockets: ABI 6 */
	LANDLOCK_TCP = 4,           /* bind and connect, where the kernel knows them */
	LANDLOCK_BEHIND_MOUNTS = 8, /* the second wall: what an older ABI lacks, mounts hold */
};

enum landlock_grant { LANDLOCK_READ, LANDLOCK_WRITE, LANDLOCK_WRITE_DEVICE };

#define LANDLOCK_ABI_MOVES   2 /* files can be moved between directories from here on */
#define LANDLOCK_ABI_FILES   3 /* and truncating is covered */
#define LANDLOCK_ABI_TCP     4
#define LANDLOCK_ABI_IOCTL   5
#define LANDLOCK_ABI_SIGNALS 6

struct landlock {
	int fd;
	int abi;
	uint64_t handled;
};

#define LANDLOCK_NONE ((struct landlock){ .fd = -EBADF })

/* -EOPNOTSUPP with the remedy when the kernel cannot give a part that was asked for. */
[[nodiscard]] int landlock_open(unsigned int parts, struct landlock *ret_ll, struct err *err);

/* Grants the tree (or the file) behind a descriptor. */
[[nodiscard]] int landlock_grant(const struct landlock *ll, int path_fd, bool is_directory,
				 enum landlock_grant grant);

/* Enters the domain for good; no_new_privs must be on. Async-signal-safe. */
[[nodiscard]] int landlock_enter(const struct landlock *ll);

void landlock_done(struct landlock *ll);

#endif
