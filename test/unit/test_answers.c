#include "unit.h"

#include <stdio.h>

#include "egress/answers.h"
#include "egress_case.h"

static struct answers answers;

static void names_of_an_address(void **state)
{
	struct address a = case_address("8.8.8.8", 0), b = case_address("8.8.4.4", 0);
	size_t cursor = 0;

	(void)state;
	answers_init(&answers);
	assert_null(answers_next(&answers, a.ip, 0, &cursor));
	answers_add(&answers, a.ip, "one.example", 5, 1000);
	answers_add(&answers, a.ip, "two.example", 5, 1000);
	answers_add(&answers, a.ip, "one.example", 5, 2000);
	assert_int_equal(answers.count, 2);
	assert_true(answers_has(&answers, a.ip, "one.example", 2000));
	assert_true(answers_has(&answers, a.ip, "two.example", 2000));
	assert_false(answers_has(&answers, a.ip, "three.example", 2000));
	assert_false(answers_has(&answers, b.ip, "one.example", 2000));
}

static void answers_end(void **state)
{
	struct address a = case_address("8.8.8.8", 0);

	(void)state;
	answers_init(&answers);
	answers_add(&answers, a.ip, "short.example", 0, 0);
	answers_add(&answers, a.ip, "long.example", UINT32_MAX, 0);
	assert_true(answers_has(&answers, a.ip, "short.example", ANSWERS_HOLD_MIN_MS - 1));
	assert_false(answers_has(&answers, a.ip, "short.example", ANSWERS_HOLD_MIN_MS));
	assert_true(answers_has(&answers, a.ip, "long.example", ANSWERS_HOLD_MAX_MS - 1));
	assert_false(answers_has(&answers, a.ip, "long.example", ANSWERS_HOLD_MAX_MS));
}

/* A full table forgets what ends first, and never holds a pair that was not added. */
static void full_table(void **state)
{
	struct address a = case_address("8.8.8.8", 0), b = case_address("9.9.9.9", 0);
	char name[32];

	(void)state;
	answers_init(&answers);
	answers_add(&answers, b.ip, "kept.example", 86400, 0);
	for (int i = 0; i < 3 * ANSWERS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d.example", i);
		answers_add(&answers, a.ip, name, 0, (uint64_t)i);
	}
	assert_int_equal(answers.count, ANSWERS_MAX);
	assert_true(answers_has(&answers, b.ip, "kept.example", 5000));
	assert_true(answers_has(&answers, a.ip, name, 5000));
	assert_false(answers_has(&answers, a.ip, "n0.example", 5000));
	assert_false(answers_has(&answers, a.ip, "kept.example", 5000));
	assert_false(answers_has(&answers, b.ip, name, 5000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_an_address),
		cmocka_unit_test(answers_end),
		cmocka_unit_test(full_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
