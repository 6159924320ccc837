/*
 * living.h - sandboxes that live while others are started
 */
#ifndef BRIG_BENCH_LIVING_H
#define BRIG_BENCH_LIVING_H

#include "cases.h"

struct living {
	size_t count;
	/* Of the host's available memory, for each: what was gone when they lived, and what came
	 * back. 0 when too few live to tell. */
	long taken_kib, returned_kib;
};

/* Starts so many of the case and returns when they all run. After a failure none is left. */
[[nodiscard]] int living_start(const struct bench_case *item, size_t count,
			       struct living *ret_living, struct err *err);

/* Ends them all. -EBUSY when something of them is still there: what holds their output. */
[[nodiscard]] int living_end(struct living *living, struct err *err);

#endif
