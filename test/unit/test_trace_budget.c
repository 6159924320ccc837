#include "unit.h"

#include "base/macro.h"
#include "trace/budget.h"

#define SECOND 1000000000ull

static unsigned int take_all(struct budget *budget, bool is_denied, uint64_t now)
{
	unsigned int count = 0;

	while (budget_take(budget, is_denied, 0, now))
		count++;
	return count;
}

static void a_burst_and_then_the_rate(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, 100, 10, 64 * MIB, 5 * SECOND);
	assert_int_equal(take_all(&budget, false, 5 * SECOND), 200);
	assert_int_equal(take_all(&budget, false, 5 * SECOND), 0);
	assert_int_equal(take_all(&budget, false, 5 * SECOND + SECOND / 2), 50);
	/* However long it was quiet, and also when the clock was set back. */
	assert_int_equal(take_all(&budget, false, 1000000 * SECOND), 200);
	assert_int_equal(take_all(&budget, false, 1), 0);
}

static void one_does_not_use_up_the_other(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, 100, 10, 64 * MIB, 0);
	assert_int_equal(take_all(&budget, false, 0), 200);
	assert_int_equal(take_all(&budget, true, 0), 20);
}

static void refusals_have_bytes_of_their_own(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, 100, 10, 64 * MIB, 0);
	assert_true(budget_take(&budget, false, 40 * MIB, 0));
	assert_false(budget_take(&budget, false, 48 * MIB, 0));
	assert_true(budget_take(&budget, true, 48 * MIB, 0));
	assert_false(budget_take(&budget, true, 64 * MIB, 0));
}

static void huge_numbers_do_not_overflow(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0);
	for (int i = 0; i < 1000; i++)
		assert_true(budget_take(&budget, i & 1, 1ull << 40, (uint64_t)i * SECOND));
	/* Too few bytes for even the first and last lines are more. */
	budget_init(&budget, 1, 1, 1, 0);
	assert_true(budget_take(&budget, true, 0, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_and_then_the_rate),
		cmocka_unit_test(one_does_not_use_up_the_other),
		cmocka_unit_test(refusals_have_bytes_of_their_own),
		cmocka_unit_test(huge_numbers_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
