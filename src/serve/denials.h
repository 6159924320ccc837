/*
 * denials.h - what a sandbox was refused, and why it ended, out of its record
 *
 * Reads the stream of a sandbox that has ended, a piece at a time, so that nobody else waits:
 *
 *	r = denials_open(id, &denials);
 *	while ((r = denials_step(&denials)) > 0)        // one step a turn of the loop
 *		;
 *
 * Nothing of it is needed for a decision: a stream that cannot be read is one without refusals.
 */
#ifndef BRIG_SERVE_DENIALS_H
#define BRIG_SERVE_DENIALS_H

#include "serve/record.h"
#include "warden/result.h"

struct denials {
	struct recording record;
	struct denial items[RESULT_MAX_DENIALS];
	size_t count;
	uint64_t left_out;
	bool has_ended;
	enum reason reason; /* of the last line; has_ended */
};

[[nodiscard]] int denials_open(const char *id, struct denials *denials);
[[nodiscard]] int denials_step(struct denials *denials); /* 1: there is more */
void denials_done(struct denials *denials);

#endif
