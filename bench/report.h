/*
 * report.h - the result of a bench run, as a table and as one line of JSON
 */
#ifndef BRIG_BENCH_REPORT_H
#define BRIG_BENCH_REPORT_H

#include <stdio.h>

#include "cases.h"
#include "living.h"

/* What else the machine did meanwhile. */
struct machine {
	double load;           /* of the last minute */
	uint64_t ticks, steal; /* of all processors since boot: all, and taken by the hypervisor */
};

void machine_read(struct machine *ret_machine);

struct conditions {
	size_t rounds, warmup, ahead;
	size_t callers, slice_ms; /* 0, or starts per second are measured in such slices */
	bool until_gone;
	struct living living;
	uint64_t seed;
	struct machine before, after;
};

/* Of the cases that can be the peer the one with the best median: nobody compares with the slower.
 */
[[nodiscard]] int report_choose_peer(struct cases *cases, const struct conditions *conditions,
				     struct err *err);

[[nodiscard]] int report_table(FILE *out, const struct cases *cases,
			       const struct conditions *conditions, struct err *err);
[[nodiscard]] int report_json(FILE *out, const struct cases *cases,
			      const struct conditions *conditions, struct err *err);

/* The table of a memory run. */
void report_memory(FILE *out, const struct cases *cases);
void report_memory_json(FILE *out, const struct cases *cases);

#endif
