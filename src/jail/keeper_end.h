/*
 * keeper_end.h - how the keeper reaps, and how it ends everything (private to keeper.c)
 */
#ifndef BRIG_JAIL_KEEPER_END_H
#define BRIG_JAIL_KEEPER_END_H

#include "jail/keeper.h"

/*
 * Reaps what has ended, a bounded number. 1: the first process ended; 0: others or none; -ECHILD: no
 * child is left. ret_more: there may be more, and no signal will say so.
 */
int keeper_reap(pid_t first, int control, struct keeper_event *ret_exit, bool *ret_more);

struct keeper_ending {
	const struct cgroup *cgroup; /* to be thawed; none in a container */
	bool scoped;                 /* what confines kill(-1) to the sandbox is there */
	int signals, control;
	pid_t first;
};

/* Ends everything and reaps it. 0, or -ETIME when a process does not die (it hangs in the kernel). */
int keeper_end_all(const struct keeper_ending *ending, struct keeper_event *ret_exit);

#endif
