/*
 * calls.h - the calls that the daemon has open at wardens (private to fleet.c)
 *
 * A call is named by a place and a generation. The number on the wire is the lower half of that name, so
 * an answer that comes late for a call that was cancelled meets no other; places are used again in turn,
 * the one that was given back longest ago first.
 */
#ifndef BRIG_SERVE_CALLS_H
#define BRIG_SERVE_CALLS_H

#include "proto/answer.h"
#include "serve/fleet.h"

#define CALLS_MAX 65536

struct line;

struct call {
	call_id id; /* 0: the place is free */
	struct line *line;
	struct answering answering;
	call_message on_message;
	void *of;
	uint32_t next_free; /* place; 0: none */
};

struct calls {
	struct call *items; /* the first place is never used: no number is 0 */
	uint32_t room, first_free, last_free;
	uint64_t generation;
};

/* NULL when there are too many, or no memory. Good until the next one is begun. */
struct call *calls_begin(struct calls *calls);
void calls_end(struct calls *calls, struct call *call);

struct call *calls_find(struct calls *calls, call_id id);
struct call *calls_numbered(struct calls *calls, uint32_t number); /* as on the wire */
void calls_done(struct calls *calls);

#endif
