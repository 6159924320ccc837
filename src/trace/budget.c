#include "trace/budget.h"

#include "base/macro.h"
#include "trace/event.h"

#define SECOND 1000000000ull
#define BURST  2 /* seconds' worth at once */

/* For the lines that count what was dropped, and the last one, whatever else was written. */
#define RESERVE (4 * TRACE_LINE_MAX)

static struct bucket bucket_full(uint64_t rate, uint64_t now)
{
	/* So that the arithmetic below stays within 64 bits. */
	rate = MIN(rate, (uint64_t)1000000);
	return (struct bucket){
		.rate = rate, .burst = rate * BURST, .level = rate * BURST * SECOND, .last = now
	};
}

void budget_init(struct budget *budget, uint64_t allowed_rate, uint64_t denied_rate, uint64_t bytes,
		 uint64_t now)
{
	bytes = MAX(bytes, 4 * RESERVE);
	*budget = (struct budget){
		.allowed = bucket_full(allowed_rate, now),
		.denied = bucket_full(denied_rate, now),
		.allowed_bytes = bytes / 4 * 3 - RESERVE,
		.denied_bytes = bytes - RESERVE,
	};
}

static bool bucket_take(struct bucket *b, uint64_t now)
{
	uint64_t passed = now > b->last ? MIN(now - b->last, BURST * SECOND) : 0;

	b->level = MIN(b->level + passed * b->rate, b->burst * SECOND);
	b->last = now;
	if (b->level < SECOND)
		return false;
	b->level -= SECOND;
	return true;
}

bool budget_take(struct budget *budget, bool is_denied, uint64_t length, uint64_t now)
{
	if (length >= (is_denied ? budget->denied_bytes : budget->allowed_bytes))
		return false;
	return bucket_take(is_denied ? &budget->denied : &budget->allowed, now);
}
