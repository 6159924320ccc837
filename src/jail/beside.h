/*
 * beside.h - a second process on the same memory, for calls that mostly wait
 *
 * Making a network namespace and taking a tree of mounts apart keep a process waiting for the rest
 * of the machine for longer than all other steps of a set-up together. They depend on nothing that
 * the others do, so they run beside them: a child that shares memory, descriptors and directories
 * with the keeper, and ends by itself.
 *
 * The child uses no memory of the libc but errno, and that only in calls whose failure is the end
 * of the start; the calls that both make at once leave errno alone (sys.h). It raises no signal at
 * its end and is not seen by an ordinary wait; beside_is_left() takes it.
 */
#ifndef BRIG_JAIL_BESIDE_H
#define BRIG_JAIL_BESIDE_H

#include <stdbool.h>
#include <sys/types.h>

struct beside {
	int (*run)(struct beside *beside); /* what it does: 0 or positive, or -errno */
	int result;
	int is_done; /* a futex */
	pid_t pid;   /* or -errno */
	char stack[65536] __attribute__((aligned(16)));
};

/* Starts it. Where no child can be had nothing is done: whoever waits must be able to do it. */
void beside_start(struct beside *beside, int (*run)(struct beside *beside));

/* A word that one process waits for and the other sets; soon, so that a moment is spent looking. */
void beside_signal(int *word);
void beside_await(int *word);

/* The same for a word that the child sets. -ECHILD when it ended before that. */
[[nodiscard]] int beside_await_errand(struct beside *beside, int *word);

/* Takes the children that have ended; true while one is left. */
bool beside_is_left(void);

#endif
