#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy_case.h"
#include "policy/types.h"

static void every_row_is_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];
		const struct type_ops *ops = type_ops_of(key->type);

		assert_true(key->type < KEY_TYPE_COUNT);
		assert_true(key->offset < sizeof(struct policy));
		assert_true(key->initial && key->initial[0] && key->summary && key->summary[0]);
		assert_true(ops->parse && ops->merge && ops->narrow && ops->to_node &&
			    ops->schema && ops->is_set && ops->init && ops->done);
		assert_ptr_equal(key_find(key->name), key);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(key->name, policy_keys[k].name);
			assert_int_not_equal(key->offset, policy_keys[k].offset);
		}
		/* One dot at most: a section has no sections. */
		assert_ptr_equal(strchr(key->name, '.'), strrchr(key->name, '.'));
	}
	assert_null(key_find(""));
	assert_null(key_find("limits"));
	assert_null(key_find("limits."));
	assert_null(key_find("limits.memoryx"));
}

static void every_flag_sets_one_key(void **state)
{
	const struct key_flag *found;

	(void)state;
	for (size_t i = 0; i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++) {
			const struct key_flag *flag = &policy_keys[i].flags[k];

			assert_ptr_equal(key_of_flag(flag->name, &found), &policy_keys[i]);
			assert_ptr_equal(found, flag);
			assert_true(flag->argument && flag->summary);
			assert_int_equal(policy_keys[i].type == KEY_PATHS, flag->value != NULL);
		}
	assert_null(key_of_flag("", &found));
	assert_null(key_of_flag("--env", &found));
	assert_null(key_of_flag("allow-", &found));
}

/* A good and a bad word for every flag of the table. */
static const struct {
	const char *flag, *good, *bad;
} words[] = {
	{ "isolation", "process", "proces" },
	{ "floor", "vm", "strong" },
	{ "image", "host", "" },
	{ "allow-read", "/a", "/a/.." },
	{ "allow-write", ".", "~other" },
	{ "overlay", "~", "" },
	{ "system", "own", "mine" },
	{ "deny", "..", "a/../b" },
	{ "allow-net", "a:443", "a" },
	{ "ask-net", "*.a:*", "**:443" },
	{ "deny-net", "10.0.0.0/8:22", "10.0.0.0/33:22" },
	{ "publish", "8080:80", "80:" },
	{ "env", "A=1", "=1" },
	{ "wall", "30s", "30" },
	{ "cpu", "0.5", "half" },
	{ "cpu-time", "1m", "0s" },
	{ "memory", "512M", "512m" },
	{ "pids", "64", "0" },
	{ "disk", "1G", "-1" },
	{ "files", "100", "1.5" },
	{ "output", "1M", "M" },
	{ "allow", "debug", "root" },
	{ "on-deny", "fail", "cry" },
	{ "record", "all", "none" },
};

static void every_flag_takes_good_words_only(void **state)
{
	size_t flags = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const struct key_flag *flag;
		const struct key *key = key_of_flag(words[i].flag, &flag);
		struct policy policy;
		char prefix[40];

		assert_non_null(key);
		policy_init(&policy);
		assert_false(type_ops_of(key->type)->is_set(key_field(key, &policy)));
		case_flag(&policy, words[i].flag, words[i].good);
		assert_true(type_ops_of(key->type)->is_set(key_field(key, &policy)));
		for (size_t k = 0; k < policy_key_count; k++)
			if (&policy_keys[k] != key)
				assert_false(type_ops_of(policy_keys[k].type)
						     ->is_set(key_field(&policy_keys[k], &policy)));
		policy_done(&policy);
		snprintf(prefix, sizeof(prefix), "--%s: ", words[i].flag);
		case_flag_refused(words[i].flag, words[i].bad, prefix);
	}
	for (size_t i = 0; i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++)
			flags++;
	assert_int_equal(flags, ARRAY_SIZE(words));
	case_flag_refused("nonsense", "x", "unknown flag \"--nonsense\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_whole),
		cmocka_unit_test(every_flag_sets_one_key),
		cmocka_unit_test(every_flag_takes_good_words_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
