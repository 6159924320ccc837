/*
 * answer.h - which messages answer which call, and which of them is the last
 *
 * Client and warden both keep a table of open calls, and both must know when one is over: the warden so
 * that init says nothing of a call that is gone, a client so that it waits no longer. One table for both.
 * A type that has no row is answered by DONE. Any call may be answered by ERROR, which ends it.
 */
#ifndef BRIG_PROTO_ANSWER_H
#define BRIG_PROTO_ANSWER_H

#include "proto/message.h"

/* A call that is open. */
struct answering {
	enum message_type type; /* of the call */
	bool is_confirmed;      /* STARTED has come; a watch stands */
};

/* Whether this call may be answered so, now. */
bool answer_fits(const struct answering *call, const struct message *m);

/* Whether it is the last answer; notes what it confirms. */
bool answer_is_last(struct answering *call, const struct message *m);

#endif
