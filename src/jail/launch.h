/*
 * launch.h - the first process of the workload, from vfork to execve
 *
 * It runs on the keeper's memory until it executes the program (vfork: an address space is not
 * copied for a few system calls), so a failure is simply left in the keeper's variable. The order
 * of the steps is the design: identity and limits first, while files can still be opened, the file
 * rules last, then nothing but execve.
 */
#ifndef BRIG_JAIL_LAUNCH_H
#define BRIG_JAIL_LAUNCH_H

#include "jail/keeper.h"

struct launch_failure {
	enum keeper_step step;
	int code; /* -errno; 0 when the program runs */
};

/* The pid of the first process, or what failed. */
pid_t launch(const struct jail *jail, const struct jail_command *command,
	     struct launch_failure *failure);

#endif
