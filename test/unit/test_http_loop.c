#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "http/loop.h"

static struct loop *loop;
static char said[64];

static int open_loop(void **state)
{
	(void)state;
	said[0] = '\0';
	return loop_new(&loop);
}

static int close_loop(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

/* Callbacks write down a letter each. */
static void note(void *of)
{
	strncat(said, of, 1);
}

static void *letter(char c)
{
	static char letters[128];

	letters[(int)c] = c;
	return &letters[(int)c];
}

static void stop(void *of)
{
	(void)of;
	loop_stop(loop);
}

struct end {
	int fds[2];
	loop_id watch;
	unsigned int count;
	uint32_t events;
	struct end *victim;
};

static void end_open(struct end *end)
{
	*end = (struct end){ 0 };
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, end->fds), 0);
}

static void end_close(struct end *end)
{
	end->watch = loop_forget(loop, end->watch);
	close(end->fds[0]);
	close(end->fds[1]);
}

static void on_ready(void *of, uint32_t events)
{
	struct end *end = of;

	end->count++;
	end->events = events;
	if (end->victim)
		end->victim->watch = loop_forget(loop, end->victim->watch);
}

static void watches(void **state)
{
	struct end end;

	(void)state;
	end_open(&end);
	assert_int_equal(loop_watch(loop, end.fds[0], EPOLLIN, on_ready, &end, &end.watch), 0);
	assert_true(end.watch != 0);
	assert_int_equal(loop_turn(loop, 0), 0);
	assert_int_equal(end.count, 0);
	assert_int_equal(write(end.fds[1], "x", 1), 1);
	assert_int_equal(loop_turn(loop, 1000), 0);
	assert_int_equal(end.count, 1);
	assert_int_equal(end.events, EPOLLIN);
	assert_int_equal(loop_change(loop, end.watch, EPOLLOUT), 0);
	assert_int_equal(loop_turn(loop, 1000), 0);
	assert_int_equal(end.events, EPOLLOUT);
	assert_int_equal(loop_change(loop, end.watch, 0), 0);
	assert_int_equal(loop_turn(loop, 0), 0);
	assert_int_equal(end.count, 2);
	/* A hang-up is told in any case. */
	end.fds[1] = fd_close(end.fds[1]);
	assert_int_equal(loop_turn(loop, 1000), 0);
	assert_true(end.events & EPOLLHUP);
	end_close(&end);
	assert_int_equal(loop_watch(loop, -1, EPOLLIN, on_ready, &end, &end.watch), -EBADF);
	assert_true(end.watch == 0);
}

static void names_of_nothing(void **state)
{
	struct end end;
	loop_id old;

	(void)state;
	assert_true(loop_forget(loop, 0) == 0);
	assert_true(loop_cancel(loop, 0) == 0);
	assert_int_equal(loop_change(loop, 0, EPOLLIN), 0);
	assert_true(loop_forget(loop, UINT64_MAX) == 0);
	assert_true(loop_cancel(loop, 77) == 0);
	/* One that is gone, whose place somebody else has. */
	end_open(&end);
	assert_int_equal(loop_watch(loop, end.fds[0], EPOLLIN, on_ready, &end, &end.watch), 0);
	old = end.watch;
	end.watch = loop_forget(loop, end.watch);
	assert_int_equal(loop_watch(loop, end.fds[0], EPOLLIN, on_ready, &end, &end.watch), 0);
	assert_true(end.watch != old);
	assert_true(loop_forget(loop, old) == 0);
	assert_true(loop_cancel(loop, end.watch) == 0);
	assert_int_equal(loop_change(loop, old, EPOLLOUT), -ENOENT);
	assert_int_equal(write(end.fds[1], "x", 1), 1);
	assert_int_equal(loop_turn(loop, 1000), 0);
	assert_int_equal(end.count, 1);
	end_close(&end);
}

/* Both are ready, and the first that is told forgets the other: which then is not told. */
static void forgotten_by_another(void **state)
{
	struct end a, b;

	(void)state;
	end_open(&a);
	end_open(&b);
	a.victim = &b;
	b.victim = &a;
	assert_int_equal(loop_watch(loop, a.fds[0], EPOLLIN, on_ready, &a, &a.watch), 0);
	assert_int_equal(loop_watch(loop, b.fds[0], EPOLLIN, on_ready, &b, &b.watch), 0);
	assert_int_equal(write(a.fds[1], "x", 1), 1);
	assert_int_equal(write(b.fds[1], "x", 1), 1);
	assert_int_equal(loop_turn(loop, 1000), 0);
	assert_int_equal(a.count + b.count, 1);
	assert_true((a.watch == 0) != (b.watch == 0));
	end_close(&a);
	end_close(&b);
}

static void times_in_order(void **state)
{
	loop_id timers[5], stopper;

	(void)state;
	assert_int_equal(loop_after(loop, 30, note, letter('d'), &timers[0]), 0);
	assert_int_equal(loop_after(loop, 10, note, letter('b'), &timers[1]), 0);
	assert_int_equal(loop_after(loop, 20, note, letter('c'), &timers[2]), 0);
	assert_int_equal(loop_after(loop, 0, note, letter('a'), &timers[3]), 0);
	assert_int_equal(loop_after(loop, 15, note, letter('x'), &timers[4]), 0);
	assert_int_equal(loop_after(loop, 60, stop, NULL, &stopper), 0);
	timers[4] = loop_cancel(loop, timers[4]);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(said, "abcd");
	loop_cancel(loop, timers[0]);
}

/* Many, cancelled in any order: the rest comes in order and at its time. */
static uint64_t last_time;
static unsigned int come;

struct expected {
	uint64_t from, to; /* due between them: by the clock before and after it was set */
	loop_id timer;
};

static void on_expected(void *of)
{
	struct expected *e = of;

	assert_true(e->timer != 0);
	assert_true(e->to >= last_time);
	assert_true(clock_ms() >= e->from);
	last_time = MAX(last_time, e->from);
	e->timer = 0;
	come++;
}

static void many_times(void **state)
{
	static struct expected all[2000];
	unsigned int seed = 7, left = 0;

	(void)state;
	last_time = 0;
	come = 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t ms = (seed = seed * 1103515245 + 12345) >> 16 & 127;

		all[i].from = clock_ms() + ms;
		assert_int_equal(loop_after(loop, ms, on_expected, &all[i], &all[i].timer), 0);
		all[i].to = clock_ms() + ms;
	}
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if ((seed = seed * 1103515245 + 12345) >> 16 & 1)
			all[i].timer = loop_cancel(loop, all[i].timer);
		else
			left++;
	}
	for (int i = 0; i < 1000 && come < left; i++)
		assert_int_equal(loop_turn(loop, 10), 0);
	assert_int_equal(come, left);
}

static void soon_again(void *of)
{
	loop_id id;

	note(of);
	assert_int_equal(loop_soon(loop, note, letter('2'), &id), 0);
	assert_int_equal(loop_soon(loop, stop, NULL, &id), 0);
}

static void soon(void **state)
{
	loop_id a, b, c;

	(void)state;
	assert_int_equal(loop_soon(loop, soon_again, letter('1'), &a), 0);
	assert_int_equal(loop_soon(loop, note, letter('x'), &b), 0);
	assert_int_equal(loop_soon(loop, note, letter('y'), &c), 0);
	b = loop_cancel(loop, b);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(said, "1y2");
	assert_true(loop_cancel(loop, a) == 0);
}

/* One that always asks for another turn must not keep descriptors from being told. */
static void soon_for_ever(void *of)
{
	loop_id id;

	assert_int_equal(loop_soon(loop, soon_for_ever, of, &id), 0);
}

static void nobody_starves(void **state)
{
	struct end end;
	loop_id id;

	(void)state;
	end_open(&end);
	assert_int_equal(loop_watch(loop, end.fds[0], EPOLLIN, on_ready, &end, &end.watch), 0);
	assert_int_equal(write(end.fds[1], "x", 1), 1);
	assert_int_equal(loop_soon(loop, soon_for_ever, NULL, &id), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_turn(loop, -1), 0);
	assert_int_equal(end.count, 3);
	end_close(&end);
}

static void on_many(void *of, uint32_t events)
{
	unsigned int *count = of;

	(void)events;
	(*count)++;
}

/* More than come with one look; the table grows under the feet of those who are called. */
static void many_watches(void **state)
{
	enum { COUNT = 400 };
	static struct end ends[COUNT];
	unsigned int count = 0;

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		end_open(&ends[i]);
		assert_int_equal(loop_watch(loop, ends[i].fds[0], EPOLLOUT, on_many, &count,
					    &ends[i].watch),
				 0);
	}
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_turn(loop, 0), 0);
	assert_true(count >= COUNT);
	for (size_t i = 0; i < COUNT; i++)
		end_close(&ends[i]);
}

#define LOOP(test) cmocka_unit_test_setup_teardown(test, open_loop, close_loop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP(watches),        LOOP(names_of_nothing), LOOP(forgotten_by_another),
		LOOP(times_in_order), LOOP(many_times),       LOOP(soon),
		LOOP(nobody_starves), LOOP(many_watches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
