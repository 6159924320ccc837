/*
 * throughput.h - how many starts per second several callers get at once
 */
#ifndef BRIG_BENCH_THROUGHPUT_H
#define BRIG_BENCH_THROUGHPUT_H

#include "cases.h"

/* So many callers, each a process, start the case back to back for so long. */
[[nodiscard]] int throughput_slice(struct bench_case *item, size_t callers, size_t slice_ms,
				   double *ret_per_second, struct err *err);

#endif
