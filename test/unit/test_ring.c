#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "init/ring.h"
#include "random.h"

/* All that is kept from an offset on, and the stream of each byte. */
static size_t collect(const struct ring *ring, uint64_t at, unsigned char *bytes,
		      unsigned char *streams)
{
	const unsigned char *data;
	unsigned int stream;
	size_t len, all = 0;

	while ((len = ring_piece(ring, at, &stream, &data)) > 0) {
		memcpy(bytes + all, data, len);
		memset(streams + all, (int)stream, len);
		all += len;
		at += len;
	}
	assert_true(at == ring->end || all == 0);
	return all;
}

static void empty(void **state)
{
	struct ring ring = { 0 };
	const unsigned char *data;
	unsigned int stream;
	size_t bytes = 0;

	(void)state;
	assert_int_equal(ring_piece(&ring, 0, &stream, &data), 0);
	assert_int_equal(ring_piece(&ring, 5, &stream, &data), 0);
	ring_add(&ring, 1, "", 0, &bytes, MIB);
	assert_true(ring.end == 0 && ring.begin == 0);
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

static void keeps_the_order(void **state)
{
	struct ring ring = { 0 };
	unsigned char got[64], streams[64];
	size_t bytes = 0;

	(void)state;
	ring_add(&ring, 1, "one ", 4, &bytes, MIB);
	ring_add(&ring, 1, "two ", 4, &bytes, MIB);
	ring_add(&ring, 2, "three ", 6, &bytes, MIB);
	ring_add(&ring, 1, "four", 4, &bytes, MIB);
	assert_int_equal(collect(&ring, 0, got, streams), 18);
	assert_memory_equal(got, "one two three four", 18);
	assert_memory_equal(streams, "\1\1\1\1\1\1\1\1\2\2\2\2\2\2\1\1\1\1", 18);
	assert_int_equal(collect(&ring, 13, got, streams), 5);
	assert_memory_equal(streams, "\2\1\1\1\1", 5);
	assert_true(bytes > 0);
	/* A few bytes do not take what many would. */
	assert_true(bytes < 8 * KIB);
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

static void what_was_not_kept(void **state)
{
	struct ring ring = { 0 };
	unsigned char got[64], streams[64];
	size_t bytes = 0;

	(void)state;
	/* Before there is any memory, too. */
	ring_skip(&ring, 5);
	assert_true(ring.begin == 5 && ring.end == 5 && bytes == 0);
	ring_add(&ring, 1, "one", 3, &bytes, MIB);
	ring_add(&ring, 2, "two", 3, &bytes, MIB);
	ring_skip(&ring, 1000000);
	assert_true(ring.begin == 1000011 && ring.end == 1000011);
	assert_int_equal(collect(&ring, 5, got, streams), 0);
	ring_add(&ring, 2, "four", 4, &bytes, MIB);
	ring_add(&ring, 1, "five", 4, &bytes, MIB);
	assert_int_equal(collect(&ring, ring.begin, got, streams), 8);
	assert_memory_equal(got, "fourfive", 8);
	assert_memory_equal(streams, "\2\2\2\2\1\1\1\1", 8);
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

static void the_newest_stay(void **state)
{
	static unsigned char block[1000], got[RING_MAX], streams[RING_MAX];
	struct ring ring = { 0 };
	size_t bytes = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		memset(block, i, sizeof(block));
		ring_add(&ring, 1, block, sizeof(block), &bytes, MIB);
		assert_true(ring.end - ring.begin <= RING_MAX);
		assert_true(bytes <= RING_MAX + RING_MARKS_MAX * sizeof(struct ring_mark));
	}
	assert_true(ring.end == 1000000 && ring.begin == ring.end - RING_MAX);
	assert_int_equal(collect(&ring, ring.begin, got, streams), RING_MAX);
	for (size_t i = 0; i < RING_MAX; i++)
		assert_int_equal(got[i], (unsigned char)((ring.begin + i) / 1000));
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

static void one_that_is_larger(void **state)
{
	static unsigned char block[RING_MAX + 10], got[RING_MAX], streams[RING_MAX];
	struct ring ring = { 0 };
	size_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (unsigned char)(i * 7);
	ring_add(&ring, 1, "x", 1, &bytes, MIB);
	ring_add(&ring, 2, block, sizeof(block), &bytes, MIB);
	assert_true(ring.end == sizeof(block) + 1 && ring.end - ring.begin == RING_MAX);
	assert_int_equal(collect(&ring, ring.begin, got, streams), RING_MAX);
	assert_memory_equal(got, block + 10, RING_MAX);
	assert_int_equal(streams[0], 2);
	ring_done(&ring, &bytes);
}

/* Streams that alternate with every byte cost marks, of which there are so many. */
static void marks_have_a_bound(void **state)
{
	static unsigned char got[RING_MAX], streams[RING_MAX];
	struct ring ring = { 0 };
	size_t bytes = 0, count;

	(void)state;
	for (unsigned int i = 0; i < 3 * RING_MARKS_MAX; i++) {
		unsigned char byte = (unsigned char)i;

		ring_add(&ring, 1 + i % 2, &byte, 1, &bytes, MIB);
		assert_true(ring.mark_count <= RING_MARKS_MAX);
	}
	assert_true(ring.end == 3 * RING_MARKS_MAX);
	count = collect(&ring, ring.begin, got, streams);
	assert_int_equal(count, RING_MARKS_MAX);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(got[i], (unsigned char)(ring.begin + i));
		assert_int_equal(streams[i], 1 + (ring.begin + i) % 2);
	}
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

/* Without memory for more, less is kept; without any, all is counted and nothing kept. */
static void with_little_memory(void **state)
{
	static unsigned char block[10000], got[RING_MAX], streams[RING_MAX];
	struct ring ring = { 0 };
	size_t bytes = 0;

	(void)state;
	ring_add(&ring, 1, block, 100, &bytes, 1000);
	assert_true(ring.begin == 100 && ring.end == 100 && bytes == 0);
	ring_add(&ring, 1, block, 100, &bytes, 4 * KIB + 64);
	assert_true(ring.begin == 100 && ring.end == 200);
	memset(block, 'x', sizeof(block));
	ring_add(&ring, 1, block, sizeof(block), &bytes, 4 * KIB + 64);
	assert_true(ring.end == 10200 && ring.end - ring.begin == 4 * KIB);
	assert_int_equal(collect(&ring, ring.begin, got, streams), 4 * KIB);
	assert_int_equal(got[0], 'x');
	assert_true(bytes <= 4 * KIB + 64);
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

/* Against the simplest ring that there is: everything, ever. */
static void as_the_simple_one(void **state)
{
	static unsigned char all[4 * MIB], all_streams[4 * MIB];
	static unsigned char got[RING_MAX], streams[RING_MAX];
	struct random random = { .state = 42 };
	struct ring ring = { 0 };
	size_t bytes = 0, end = 0;

	(void)state;
	while (end < sizeof(all) - 20000) {
		size_t len = random_below(&random, random_below(&random, 4) ? 50 : 20000);
		unsigned int stream = 1 + (unsigned int)random_below(&random, 2);

		for (size_t i = 0; i < len; i++)
			all[end + i] = (unsigned char)random_below(&random, 256);
		memset(all_streams + end, (int)stream, len);
		ring_add(&ring, stream, all + end, len, &bytes, MIB);
		end += len;
		assert_true(ring.end == end);
		if (random_below(&random, 20) == 0) {
			size_t kept = collect(&ring, ring.begin, got, streams);

			assert_int_equal(kept, ring.end - ring.begin);
			assert_memory_equal(got, all + ring.begin, kept);
			assert_memory_equal(streams, all_streams + ring.begin, kept);
		}
	}
	ring_done(&ring, &bytes);
	assert_int_equal(bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(keeps_the_order),
		cmocka_unit_test(what_was_not_kept),
		cmocka_unit_test(the_newest_stay),
		cmocka_unit_test(one_that_is_larger),
		cmocka_unit_test(marks_have_a_bound),
		cmocka_unit_test(with_little_memory),
		cmocka_unit_test(as_the_simple_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
