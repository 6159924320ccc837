/*
 * exec_input.h - bytes on their way to the standard input of a process
 *
 * One INPUT is on the way at a time, as init answers it when the process has taken it: so what a client
 * sends waits here, bounded, and not inside of the sandbox. Where others send to the same process as well,
 * each INPUT is whole, and their order is nobody's.
 */
#ifndef BRIG_SERVE_EXEC_INPUT_H
#define BRIG_SERVE_EXEC_INPUT_H

#include "serve/serve.h"

struct input {
	struct serve *serve;
	char sandbox[TRACE_ID_SIZE];
	uint64_t process;
	struct buf pending;
	size_t taken,
		under_way; /* bytes of it that the process has; and of the INPUT that is sent */
	call_id call;
	loop_id retry;
	bool ends, has_ended; /* the end is to be told; and was */
	/* All that was given so far is with the process; or never will be. Neither within input_add() and the
	 * others; the input may be done with there. */
	void (*drained)(void *of);
	void (*failed)(void *of, const struct err *err);
	void *of;
};

void input_init(struct input *in, struct serve *serve, const char *sandbox, uint64_t process,
		size_t max);
/* Copies. -ENOSPC beyond the maximum, -ENOMEM: nothing was taken. */
[[nodiscard]] int input_add(struct input *in, const void *data, size_t len);
void input_end(struct input *in); /* after all that was added */
size_t input_waiting(const struct input *in);
void input_done(struct input *in); /* what is under way arrives; the rest is forgotten */

#endif
