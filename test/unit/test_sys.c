/* What stands in for openat2 where a filter hides it answers as the kernel does. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

static char folder[] = "/tmp/brig-test-sys-XXXXXX";
static int dir = -EBADF;

static int make_tree(void **state)
{
	char name[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	assert_int_equal(mkdirat(dir, "d", 0755), 0);
	assert_int_equal(mkdirat(dir, "d/e", 0755), 0);
	fd = openat(dir, "d/e/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlinkat("d", dir, "to-d"), 0);
	assert_int_equal(symlinkat("file", dir, "d/e/to-file"), 0);
	snprintf(name, sizeof(name), "%s/d", folder);
	assert_int_equal(symlinkat(name, dir, "absolute"), 0);
	return 0;
}

static int remove_tree(void **state)
{
	static const char *const names[] = { "absolute", "d/e/to-file", "to-d", "d/e/file" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(unlinkat(dir, names[i], 0), 0);
	assert_int_equal(unlinkat(dir, "d/e", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(dir, "d", AT_REMOVEDIR), 0);
	close(dir);
	return rmdir(folder);
}

/* What came of it: the file's number, or -errno. */
static long long answer(const char *path, uint64_t flags, uint64_t resolve)
{
	_cleanup_close_ int fd = sys_openat2(dir, path, flags | O_CLOEXEC, 0, resolve);
	struct stat st;

	if (fd < 0)
		return fd;
	assert_int_equal(fstat(fd, &st), 0);
	return (long long)st.st_ino;
}

static void without_the_call(void **state)
{
	static const char *const paths[] = {
		"d",          "d/",          "d//e",   "./d/e/file", "d/e/file", "d/e/file/",
		"d/e/file/x", "d/e/to-file", "to-d",   "to-d/e",     "to-d/",    "absolute/e",
		"d/../d/e",   "..",          "../tmp", "none",       "none/x",   ".",
		"d/e/none",   "/",           "/proc",  "/proc/self", "/none/at",
	};
	static const uint64_t flags[] = { O_PATH, O_RDONLY, O_PATH | O_DIRECTORY,
					  O_RDONLY | O_DIRECTORY, O_PATH | O_NOFOLLOW };
	static const uint64_t resolve[] = { RESOLVE_NO_SYMLINKS,
					    RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t f = 0; f < ARRAY_SIZE(flags); f++)
			for (size_t r = 0; r < ARRAY_SIZE(resolve); r++) {
				long long kernel = answer(paths[i], flags[f], resolve[r]), ours;

				setenv("BRIG_TEST_FAIL", "openat2_call=38", 1);
				ours = answer(paths[i], flags[f], resolve[r]);
				unsetenv("BRIG_TEST_FAIL");
				/* ".." is never needed by us, and never let through; any refusal
				 * will do where it is refused. */
				if (strstr(paths[i], "..") && resolve[r] & RESOLVE_BENEATH)
					assert_true(ours < 0);
				else if (kernel != ours)
					fail_msg("\"%s\" with %llo and %llx: %lld, the kernel says "
						 "%lld",
						 paths[i], (unsigned long long)flags[f],
						 (unsigned long long)resolve[r], ours, kernel);
			}
}

/* What cannot be done by hand is refused, not done less strictly. */
static void what_stays_refused(void **state)
{
	(void)state;
	setenv("BRIG_TEST_FAIL", "openat2_call=38", 1);
	if (answer("d", O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV) > 0)
		skip(); /* not a test build */
	assert_int_equal(answer("d", O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV), -ENOSYS);
	assert_int_equal(answer("d", O_PATH, RESOLVE_IN_ROOT), -ENOSYS);
	assert_int_equal(answer("d", O_PATH, RESOLVE_BENEATH), -ENOSYS);
	assert_int_equal(answer("d", O_PATH, 0), -ENOSYS);
	unsetenv("BRIG_TEST_FAIL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_call),
		cmocka_unit_test(what_stays_refused),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
