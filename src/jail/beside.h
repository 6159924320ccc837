/*
 * beside.h - a second process on the same memory, while the keeper sets up
 *
 * Making a network namespace takes as long as all mounts together, and taking the host's mounts
 * apart waits for every processor of the machine. Both run beside the rest: a child that shares
 * memory, descriptors and directories with the keeper. One of them goes on to become the first
 * process (launch.h); the other ends by itself.
 *
 * errno is shared too. What runs at the same time goes through sys.h, which leaves it alone, or
 * fails only where that is the end of the start.
 *
 * A child raises no signal at its end and is not seen by an ordinary wait; beside_is_left() takes
 * it.
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
[[nodiscard]] int beside_await_from(const struct beside *beside, int *word);

/* Whether it has ended without executing a program. Leaves it to be taken. */
bool beside_has_ended(const struct beside *beside);

/* Takes the children that have ended; true while one is left. */
bool beside_is_left(void);

#endif
