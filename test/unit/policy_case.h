/* policy_case.h - policies out of text and flags, with a working directory and a home that do not
 * exist: nothing in policy/ looks at the file system for a path */
#ifndef BRIG_TEST_POLICY_CASE_H
#define BRIG_TEST_POLICY_CASE_H

#include "unit.h"

#include <errno.h>

#include "policy/policy.h"

static const struct policy_env case_env = { .cwd = "/srv/project", .home = "/home/u" };

/* Must be valid; the caller releases it. */
static inline void case_parse(const char *text, struct policy *ret_policy)
{
	struct err err = ERR_NONE;

	if (policy_parse("test", text, strlen(text), &case_env, ret_policy, &err) < 0)
		fail_msg("%s\n%s", err.text, text);
}

/* Must be refused, with words that contain expected. */
static inline void case_refused(const char *text, const char *expected)
{
	struct policy policy;
	struct err err = ERR_NONE;
	int r = policy_parse("test", text, strlen(text), &case_env, &policy, &err);

	if (r == 0)
		policy_done(&policy);
	if (r >= 0)
		fail_msg("accepted: %s", text);
	assert_int_equal(err.code, r);
	if (!strstr(err.text, expected))
		fail_msg("\"%s\" instead of \"%s\" for:\n%s", err.text, expected, text);
}

static inline void case_flag(struct policy *policy, const char *flag, const char *text)
{
	struct err err = ERR_NONE;

	if (policy_set_flag(policy, flag, text, &case_env, &err) < 0)
		fail_msg("--%s %s: %s", flag, text, err.text);
}

static inline void case_flag_refused(const char *flag, const char *text, const char *expected)
{
	struct policy policy;
	struct err err = ERR_NONE;
	int r;

	policy_init(&policy);
	r = policy_set_flag(&policy, flag, text, &case_env, &err);
	policy_done(&policy);
	if (r != -EINVAL || err.code != r)
		fail_msg("--%s %s: %d, \"%s\"", flag, text, r, err.text);
	if (!strstr(err.text, expected))
		fail_msg("\"%s\" instead of \"%s\" for --%s %s", err.text, expected, flag, text);
}

static inline void case_narrow(struct policy *policy, const struct policy *by)
{
	struct err err = ERR_NONE;

	assert_int_equal(policy_narrow(policy, by, &err), 0);
}

#endif
