/* random.h - numbers for tests with many cases: the same in every run, so that a failure can be
 * seen again */
#ifndef BRIG_TEST_RANDOM_H
#define BRIG_TEST_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state; /* not 0 */
};

/* A number below bound. */
static inline unsigned int random_below(struct random *random, unsigned int bound)
{
	random->state ^= random->state << 13;
	random->state ^= random->state >> 7;
	random->state ^= random->state << 17;
	return (unsigned int)((random->state >> 24) % bound);
}

#endif
