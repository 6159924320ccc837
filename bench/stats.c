#include "stats.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macro.h"

#define RESAMPLES 2000

size_t random_below(struct random *random, size_t limit)
{
	/* xorshift64*: small and good enough to shuffle with; the upper bits are the better ones.
	 */
	random->state ^= random->state >> 12;
	random->state ^= random->state << 25;
	random->state ^= random->state >> 27;
	return (size_t)((random->state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % limit;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void stats_sort(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
}

double stats_rank(const double *sorted, size_t count, unsigned int per_mille)
{
	size_t rank = (count * per_mille + 999) / 1000; /* the nearest rank, counted from one */

	return sorted[rank > 0 ? rank - 1 : 0];
}

int stats_median(double *values, size_t count, struct random *random, struct interval *ret_interval)
{
	_cleanup_free_ double *sample = calloc(count, sizeof(*sample));
	_cleanup_free_ double *medians = calloc(RESAMPLES, sizeof(*medians));

	if (!sample || !medians)
		return -ENOMEM;
	for (size_t i = 0; i < RESAMPLES; i++) {
		for (size_t k = 0; k < count; k++)
			sample[k] = values[random_below(random, count)];
		stats_sort(sample, count);
		medians[i] = stats_rank(sample, count, 500);
	}
	stats_sort(medians, RESAMPLES);
	stats_sort(values, count);
	*ret_interval = (struct interval){ stats_rank(values, count, 500),
					   stats_rank(medians, RESAMPLES, 25),
					   stats_rank(medians, RESAMPLES, 975) };
	return 0;
}
