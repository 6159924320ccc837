#include "unit.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/beside.h"

/* Static, as the process beside goes on using it. */
static struct beside beside;
static int ours, theirs, seen;

static int exchange(struct beside *self)
{
	(void)self;
	beside_await(&ours);
	seen = 1;
	beside_signal(&theirs);
	return 42;
}

static void both_work_on_one_memory(void **state)
{
	(void)state;
	beside_start(&beside, exchange);
	assert_true(beside.pid > 0);
	assert_int_equal(seen, 0);
	beside_signal(&ours);
	assert_int_equal(beside_await_from(&beside, &theirs), 0);
	assert_int_equal(seen, 1);
	assert_int_equal(beside_await_from(&beside, &beside.is_done), 0);
	assert_int_equal(beside.result, 42);
	while (beside_is_left())
		usleep(1000);
	/* An ordinary wait has never seen it. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static int end_early(struct beside *self)
{
	(void)self;
	_exit(3);
}

/* Whoever waits is told that nothing will come. */
static void a_death_is_noticed(void **state)
{
	static int never;

	(void)state;
	beside_start(&beside, end_early);
	assert_int_equal(beside_await_from(&beside, &never), -ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_work_on_one_memory),
		cmocka_unit_test(a_death_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
