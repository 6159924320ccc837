/*
 * budget.h - how many events a second, and how many bytes
 *
 * Allowed events and refusals have a budget each: a flood of one cannot push out the other. Each is
 * a bucket that fills at the rate and holds the burst; and allowed events may use three quarters of
 * the bytes, refusals all but what the last lines need. Pure arithmetic: time is an argument.
 */
#ifndef BRIG_TRACE_BUDGET_H
#define BRIG_TRACE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint64_t rate;  /* a second */
	uint64_t burst; /* at once */
	uint64_t level; /* in billionths of an event */
	uint64_t last;  /* ns */
};

struct budget {
	struct bucket allowed, denied;
	uint64_t allowed_bytes, denied_bytes; /* no more once the stream is as long as this */
};

/* All buckets full at time now. bytes is raised to what a stream needs at least. */
void budget_init(struct budget *budget, uint64_t allowed_rate, uint64_t denied_rate, uint64_t bytes,
		 uint64_t now);

/* Takes one event, or says that there is no room for it. */
bool budget_take(struct budget *budget, bool is_denied, uint64_t length, uint64_t now);

#endif
