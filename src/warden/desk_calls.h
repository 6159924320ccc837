/*
 * desk_calls.h - which calls are open, and whose they are (private to desk.c)
 *
 * A number is a place in the table and a generation, so that an answer that comes late never meets
 * another call.
 */
#ifndef BRIG_WARDEN_DESK_CALLS_H
#define BRIG_WARDEN_DESK_CALLS_H

#include "proto/answer.h"
#include "warden/desk.h"

#define GUEST_CALLS_MAX 2048 /* the daemon is one client, with the calls of many */

struct guest {
	struct channel channel;
	uint32_t place, expected; /* in the table; events of the epoll */
	size_t calls;
	bool awaits_end; /* it asked for the end of the sandbox */
	uint32_t end_call, hold_call;
	unsigned int holds;
};

struct desk_call {
	uint32_t number, theirs; /* 0: the place is free */
	struct guest *guest;
	struct answering answering;
};

/* NULL when there are too many. */
struct desk_call *desk_call_begin(struct desk *desk, struct guest *guest, const struct message *m);
void desk_call_end(struct desk *desk, struct desk_call *call);

struct desk_call *desk_call_find(struct desk *desk, uint32_t number);
struct desk_call *desk_call_of(struct desk *desk, const struct guest *guest, uint32_t theirs);

#endif
