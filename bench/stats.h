/*
 * stats.h - order statistics of a sample, and how sure a median is
 *
 * Nothing is dropped from a sample and nothing is averaged: start-up times have long tails, and a
 * mean mostly tells how busy the machine was.
 */
#ifndef BRIG_BENCH_STATS_H
#define BRIG_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

/* A number below limit, from a generator that gives the same sequence for the same seed. */
size_t random_below(struct random *random, size_t limit);

/* The value at a rank of per_mille (0 is the least, 500 the median, 1000 the greatest) of values
 * that are sorted. */
double stats_rank(const double *sorted, size_t count, unsigned int per_mille);

void stats_sort(double *values, size_t count);

struct interval {
	double median, low, high;
};

/* The median of values with a 95 % interval by the bootstrap. Sorts values. -ENOMEM. */
[[nodiscard]] int stats_median(double *values, size_t count, struct random *random,
			       struct interval *ret_interval);

#endif
