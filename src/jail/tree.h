/*
 * tree.h - the processes below one, as /proc shows them
 *
 * For hosts where neither a cgroup nor a pid namespace holds a sandbox together. Children are
 * listed by the thread that started them, so every thread is asked. The picture is as good as the
 * moment: whoever acts on it comes back until nothing is left.
 */
#ifndef BRIG_JAIL_TREE_H
#define BRIG_JAIL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TREE_MAX 32768 /* processes; what is beyond is found in the next round */

/* Fills pids (room for TREE_MAX) with all that is below root, without root, parents first. Returns
 * how many. */
size_t tree_below(pid_t root, pid_t *pids);

/*
 * Whether every thread of the process is in one of these states, by their letters in its file
 * "stat". A process that is gone is in any. "Z" alone asks whether it has ended.
 */
bool tree_is_in(pid_t pid, const char *states);

/* All but running: in a sleep, in the kernel, stopped, ended. */
#define TREE_RESTS "SDTtZXI"

#endif
