/* The ring between keeper and warden: nothing is lost, nothing is believed. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/record.h"

static struct record_taken taken;

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static int put(struct record_ring *ring, uint32_t number, const char *path)
{
	const struct record_entry entry = { .number = number, .answer = RECORD_CONTINUED };

	return record_put(ring, &entry, (const char *const[]){ NULL, path, "", "two" });
}

static void in_and_out(void **state)
{
	struct record_ring *ring;

	(void)state;
	assert_int_equal(record_ring_new(&ring), 0);
	assert_int_equal(record_take(ring, &taken), 0);
	assert_int_equal(put(ring, 7, "/a/path"), 0);
	assert_true(record_is_waiting(ring));
	assert_false(is_readable(record_ring_fd(ring)));
	record_push(ring);
	assert_false(record_is_waiting(ring));
	assert_true(is_readable(record_ring_fd(ring)));
	assert_int_equal(record_take(ring, &taken), 1);
	assert_int_equal(taken.entry.number, 7);
	assert_int_equal(taken.entry.answer, RECORD_CONTINUED);
	assert_string_equal(taken.texts[RECORD_BASE], "");
	assert_string_equal(taken.texts[RECORD_PATH], "/a/path");
	assert_string_equal(taken.texts[RECORD_PATH_TWO], "two");
	assert_int_equal(record_take(ring, &taken), 0);
	record_ring_free(ring);
}

/* A long text is cut at its bound, and no NUL is needed to end it. */
static void long_texts(void **state)
{
	char text[RECORD_TEXT_MAX + 100];
	struct record_ring *ring;

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(record_ring_new(&ring), 0);
	assert_int_equal(put(ring, 1, text), 0);
	assert_int_equal(record_take(ring, &taken), 1);
	assert_int_equal(strlen(taken.texts[RECORD_PATH]), RECORD_TEXT_MAX - 1);
	record_ring_free(ring);
}

/* Around the end of the ring many times, with lengths that never fit evenly; full means wait. */
static void around_and_full(void **state)
{
	struct record_ring *ring;
	uint32_t written = 0, read = 0;
	char path[600];

	(void)state;
	assert_int_equal(record_ring_new(&ring), 0);
	for (int round = 0; round < 20; round++) {
		for (;;) {
			memset(path, 'a' + (int)(written % 26), sizeof(path));
			path[written * 7 % (sizeof(path) - 1)] = '\0';
			if (put(ring, written, path) == -EAGAIN)
				break;
			written++;
		}
		assert_true(is_readable(record_ring_fd(ring)));
		/* Not all of it, so that the next round begins elsewhere. */
		while (read + 3 < written) {
			assert_int_equal(record_take(ring, &taken), 1);
			assert_int_equal(taken.entry.number, read);
			assert_int_equal(strlen(taken.texts[RECORD_PATH]),
					 read * 7 % (sizeof(path) - 1));
			for (const char *p = taken.texts[RECORD_PATH]; *p; p++)
				assert_int_equal(*p, 'a' + (int)(read % 26));
			read++;
		}
	}
	assert_true(written > 10000);
	record_ring_free(ring);
}

/* One process writes, another reads, both as fast as they can. */
static void two_processes(void **state)
{
	enum { COUNT = 50000 };
	struct record_ring *ring;
	uint32_t read = 0;
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(record_ring_new(&ring), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (uint32_t i = 0; i < COUNT;) {
			char path[64];

			snprintf(path, sizeof(path), "/%u", i);
			if (put(ring, i, path) == 0)
				i++;
		}
		_exit(0);
	}
	while (read < COUNT) {
		char path[64];
		int r = record_take(ring, &taken);

		assert_true(r >= 0);
		if (r == 0)
			continue;
		snprintf(path, sizeof(path), "/%u", read);
		assert_int_equal(taken.entry.number, read);
		assert_string_equal(taken.texts[RECORD_PATH], path);
		read++;
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	record_ring_free(ring);
}

/* A writer that is no longer ours: any bytes give an entry that can be used, or -EBADMSG. */
static void hostile_rings(void **state)
{
	size_t size = 4096;
	unsigned int bad = 0;

	(void)state;
	srandom(1);
	for (int round = 0; round < 3000; round++) {
		struct record_ring *ring;
		unsigned char *bytes;
		int event;

		assert_int_equal(record_ring_new(&ring), 0);
		assert_int_equal(put(ring, 1, "/a"), 0);
		event = record_ring_fd(ring);
		bytes = record_ring_memory(ring);
		for (int i = 0; i < 1 + round % 40; i++)
			bytes[(size_t)random() % size] ^= (unsigned char)random();
		for (int i = 0; i < 10; i++) {
			int r = record_take(ring, &taken);

			assert_true(r == 0 || r == 1 || r == -EBADMSG);
			bad += r == -EBADMSG;
			if (r != 1)
				break;
			for (int t = 0; t < RECORD_TEXTS; t++)
				assert_true(strlen(taken.texts[t]) < RECORD_TEXT_MAX);
		}
		assert_int_equal(record_ring_fd(ring), event);
		record_ring_free(ring);
	}
	assert_true(bad > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_and_out),      cmocka_unit_test(long_texts),
		cmocka_unit_test(around_and_full), cmocka_unit_test(two_processes),
		cmocka_unit_test(hostile_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
