#include "unit.h"

#include <stdlib.h>

#include "policy_case.h"
#include "warden/environment.h"

static void make(const char *policy_text, const char *const *caller, struct strv *ret_env)
{
	static const struct environment_own own = { "/scratch", "/scratch", NULL };
	char *entries[16] = { NULL };
	struct policy policy;
	size_t count = 0;

	for (; caller[count]; count++)
		entries[count] = (char *)(uintptr_t)caller[count];
	case_parse(policy_text, &policy);
	assert_int_equal(environment_make(&policy, entries, &own, ret_env), 0);
	policy_done(&policy);
}

static size_t times(const struct strv *env, const char *start)
{
	size_t count = 0;

	for (size_t i = 0; i < env->count; i++)
		count += str_starts(env->items[i], start);
	return count;
}

static void nothing_passes_by_itself(void **state)
{
	static const char *const caller[] = { "SECRET=1",     "HOME=/home/u", "TMPDIR=/tmp",
					      "LD_PRELOAD=x", "PATH=/evil",   NULL };
	struct strv env;

	(void)state;
	make("version: 1\n", caller, &env);
	assert_int_equal(env.count, 3);
	assert_true(strv_has(&env, "HOME=/scratch"));
	assert_true(strv_has(&env, "TMPDIR=/scratch"));
	assert_int_equal(times(&env, "PATH=/usr"), 1);
	assert_null(env.items[env.count]);
	strv_done(&env);
}

static void what_is_named_passes(void **state)
{
	static const char *const caller[] = { "A=1",     "AB=2",     "A=3", "LC_ALL=C", "LC=x",
					      "PATH=/p", "nonsense", "=x",  "EMPTY=",   NULL };
	struct strv env;

	(void)state;
	make("version: 1\nenv: [A, LC_*, PATH, EMPTY, nonsense, MISSING]\n", caller, &env);
	assert_true(strv_has(&env, "A=1"));
	assert_int_equal(times(&env, "A="), 1);
	assert_true(strv_has(&env, "LC_ALL=C"));
	assert_true(strv_has(&env, "PATH=/p"));
	assert_true(strv_has(&env, "EMPTY="));
	assert_int_equal(env.count, 6);
	strv_done(&env);
}

static void what_is_set_wins(void **state)
{
	static const char *const caller[] = { "A=caller", "HOME=/home/u", "B=caller", NULL };
	struct strv env;

	(void)state;
	make("version: 1\nenv: [A, A=policy, HOME, TMPDIR=/elsewhere, B*, B=]\n", caller, &env);
	assert_true(strv_has(&env, "A=policy"));
	assert_int_equal(times(&env, "A="), 1);
	assert_true(strv_has(&env, "HOME=/home/u"));
	assert_true(strv_has(&env, "TMPDIR=/elsewhere"));
	assert_true(strv_has(&env, "B="));
	assert_int_equal(env.count, 5);
	strv_done(&env);
}

static void looking_up(void **state)
{
	static const char *const caller[] = { "AB=1", "A=2", NULL };
	struct strv env;

	(void)state;
	make("version: 1\nenv: [A*]\n", caller, &env);
	assert_string_equal(environment_get(&env, "A", "none"), "2");
	assert_string_equal(environment_get(&env, "AB", "none"), "1");
	assert_string_equal(environment_get(&env, "ABC", "none"), "none");
	assert_string_equal(environment_get(&env, "", "none"), "none");
	strv_done(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_passes_by_itself),
		cmocka_unit_test(what_is_named_passes),
		cmocka_unit_test(what_is_set_wins),
		cmocka_unit_test(looking_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
