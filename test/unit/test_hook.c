#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hook.h"

/* In a build without hooks the environment says nothing, whatever is in it. */
static void ask_without(const char *list, const char *wall, bool expected)
{
	setenv("BRIG_TEST_WITHOUT", list, 1);
	assert_int_equal(hook_without(wall), expected && BRIG_HAS_TEST_HOOKS);
	unsetenv("BRIG_TEST_WITHOUT");
	assert_false(hook_without(wall));
}

static void ask_errno(const char *list, const char *call, int expected)
{
	setenv("BRIG_TEST_FAIL", list, 1);
	assert_int_equal(hook_errno(call), BRIG_HAS_TEST_HOOKS ? expected : 0);
	unsetenv("BRIG_TEST_FAIL");
	assert_int_equal(hook_errno(call), 0);
}

static void walls(void **state)
{
	(void)state;
	ask_without("files", "files", true);
	ask_without("files,signals", "signals", true);
	ask_without("files,signals,x", "signals", true);
	ask_without("files,,signals", "signals", true);
	ask_without("", "files", false);
	ask_without(",", "files", false);
	ask_without("file", "files", false);
	ask_without("filesystem", "files", false);
	ask_without("xfiles", "files", false);
	ask_without("signals,filesystem", "files", false);
	ask_without("FILES", "files", false);
}

static void calls(void **state)
{
	(void)state;
	ask_errno("openat2=38", "openat2", ENOSYS);
	ask_errno("seccomp=1,openat2=38", "openat2", ENOSYS);
	ask_errno("seccomp=1,openat2=38", "seccomp", EPERM);
	ask_errno("openat=38", "openat2", 0);
	ask_errno("openat2", "openat2", 0);
	ask_errno("openat2=", "openat2", 0);
	ask_errno("openat2=x", "openat2", 0);
	ask_errno("xopenat2=38", "openat2", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walls),
		cmocka_unit_test(calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
