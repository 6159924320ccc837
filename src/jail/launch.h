/*
 * launch.h - the first process of the workload, from vfork to execve
 *
 * It runs on the keeper's memory until it executes the program (vfork: an address space is not
 * copied for a few system calls), so a failure is simply left in the keeper's variable. The order
 * of the steps is the design: identity first, while files can still be opened, then the file rules
 * and the filter, then only what both allow.
 */
#ifndef BRIG_JAIL_LAUNCH_H
#define BRIG_JAIL_LAUNCH_H

#include "jail/keeper.h"

struct launch_failure {
	enum keeper_step step;
	int op;   /* of the plan, or -1 */
	int code; /* -errno; 0 when the program runs */
};

struct executor;

/*
 * Before the set-up of a container: the process that works beside the keeper goes on to become the
 * first process. It gives up its rights and loads its filter while the keeper still mounts, and
 * waits for launch().
 */
void launch_beside(const struct jail *jail, const struct jail_command *command,
		   struct executor *executor);

/*
 * The pid of the first process, or what failed. executor: where one waits beside us, else NULL. The
 * listener is that of a mediated filter, else -EBADF.
 */
pid_t launch(const struct jail *jail, const struct jail_command *command,
	     const struct executor *executor, int *ret_listener, struct launch_failure *failure);

#endif
