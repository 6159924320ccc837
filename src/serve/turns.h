/*
 * turns.h - calls for the files of a sandbox: some at once, the others in their turn
 *
 * Each is a process inside, and init has no room for more than a few; a client that writes two hundred files at once
 * is no fault of his. So those that do not fit wait here, in their order, with their descriptors: a file can be
 * written into its pipe before anybody reads it. From the outside a turn is a call (fleet.h): it is ended by its
 * last message, or by turn_cancel().
 */
#ifndef BRIG_SERVE_TURNS_H
#define BRIG_SERVE_TURNS_H

#include "serve/serve.h"

/* At once, of one sandbox. With watches (e2b_watch.c) that leaves a few of init's 64 for others. */
#define TURNS_MAX 32

struct turn;

/* As call_start(): takes draft and descriptor (-EBADF: none) in any case. */
[[nodiscard]] int turn_start(struct serve *serve, const char *sandbox, struct draft *d,
			     int descriptor, call_message on_message, void *of,
			     struct turn **ret_turn, struct err *err);
struct turn *turn_cancel(struct turn *turn); /* NULL allowed, and given, to be stored */

/* DATA_END: what is in the pipe is all. */
[[nodiscard]] int turn_end(struct turn *turn);

void turns_done(struct serve *serve); /* at the end of the daemon, when no request is left */

#endif
