#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/macro.h"
#include "base/sys.h"
#include "jail/landlock.h"

/* base/{read,write,closed}, each with a file */
static char base[] = "/tmp/brig-test-landlock-XXXXXX";
static const char *const names[] = { "read", "write", "closed" };

static void path_of(char *path, size_t size, const char *name, const char *file)
{
	snprintf(path, size, "%s/%s%s", base, name, file);
}

static int make_base(void **state)
{
	char path[100];

	(void)state;
	if (!mkdtemp(base))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		path_of(path, sizeof(path), names[i], "");
		if (mkdir(path, 0700) < 0)
			return -1;
		path_of(path, sizeof(path), names[i], "/file");
		fd_close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	return 0;
}

static int remove_base(void **state)
{
	char path[100];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		path_of(path, sizeof(path), names[i], "/made");
		unlink(path);
		path_of(path, sizeof(path), names[i], "/file");
		unlink(path);
		path_of(path, sizeof(path), names[i], "");
		rmdir(path);
	}
	return rmdir(base);
}

static void open_or_skip(unsigned int parts, struct landlock *ret_ll)
{
	struct err err = ERR_NONE;

	if (landlock_open(parts, ret_ll, &err) < 0) {
		print_message("%s\n", err.text);
		skip();
	}
}

static void grant(const struct landlock *ll, const char *name, const char *file,
		  enum landlock_grant what)
{
	char path[100];
	struct stat st = { 0 };
	int fd;

	path_of(path, sizeof(path), name, file);
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_int_equal(landlock_grant(ll, fd, S_ISDIR(st.st_mode), what), 0);
	close(fd);
}

/* 0, or the errno of opening it. */
static int try_open(const char *name, const char *file, int flags)
{
	char path[100];
	int fd;

	path_of(path, sizeof(path), name, file);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_connect(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	address.sin_port = htons(1);
	r = connect(s, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	close(s);
	return r;
}

/* In the domain: 0, or the number of the first line that does not hold. */
static int check_files(const struct landlock *ll)
{
	if (sys_no_new_privs() < 0 || landlock_enter(ll) < 0)
		return 1;
	if (try_open("read", "/file", O_RDONLY) || try_open("read", "", O_RDONLY | O_DIRECTORY))
		return 2;
	if (try_open("read", "/file", O_WRONLY) != EACCES ||
	    try_open("read", "/made", O_WRONLY | O_CREAT) != EACCES)
		return 3;
	if (try_open("write", "/file", O_RDWR | O_TRUNC) ||
	    try_open("write", "/made", O_WRONLY | O_CREAT))
		return 4;
	if (try_open("closed", "/file", O_RDONLY) != EACCES ||
	    try_open("closed", "", O_RDONLY | O_DIRECTORY) != EACCES ||
	    try_open("", "", O_RDONLY | O_DIRECTORY) != EACCES)
		return 5;
	if (ll->abi >= 4 && try_connect() != EACCES)
		return 6;
	return 0;
}

/* Forks, for a domain is for good. */
static int in_child(int (*check)(const struct landlock *ll), const struct landlock *ll)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(check(ll));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void files(void **state)
{
	struct landlock ll = LANDLOCK_NONE;

	(void)state;
	open_or_skip(LANDLOCK_FILES | LANDLOCK_TCP, &ll);
	grant(&ll, "read", "", LANDLOCK_READ);
	grant(&ll, "write", "", LANDLOCK_WRITE);
	/* Without the wall each of them would work. */
	assert_int_equal(try_open("closed", "/file", O_WRONLY), 0);
	assert_int_equal(try_open("read", "/file", O_WRONLY), 0);
	assert_int_not_equal(try_connect(), EACCES);
	assert_int_equal(in_child(check_files, &ll), 0);
	landlock_done(&ll);
	landlock_done(&ll);
}

static int check_single_file(const struct landlock *ll)
{
	if (sys_no_new_privs() < 0 || landlock_enter(ll) < 0)
		return 1;
	if (try_open("read", "/file", O_RDONLY) || try_open("read", "/file", O_WRONLY) != EACCES)
		return 2;
	if (try_open("write", "/file", O_RDWR | O_TRUNC))
		return 3;
	return try_open("write", "", O_RDONLY | O_DIRECTORY) == EACCES ? 0 : 4;
}

static void single_files(void **state)
{
	struct landlock ll = LANDLOCK_NONE;

	(void)state;
	open_or_skip(LANDLOCK_FILES, &ll);
	grant(&ll, "read", "/file", LANDLOCK_READ);
	grant(&ll, "write", "/file", LANDLOCK_WRITE);
	assert_int_equal(in_child(check_single_file, &ll), 0);
	landlock_done(&ll);
}

static int check_signals(const struct landlock *ll)
{
	if (kill(getppid(), 0) < 0)
		return 1;
	if (sys_no_new_privs() < 0 || landlock_enter(ll) < 0)
		return 2;
	if (kill(getppid(), 0) == 0 || errno != EPERM)
		return 3;
	/* The files are not its business. */
	return kill(getpid(), 0) < 0 || try_open("closed", "/file", O_RDONLY) ? 4 : 0;
}

static void signals(void **state)
{
	struct landlock ll = LANDLOCK_NONE;

	(void)state;
	open_or_skip(LANDLOCK_SIGNALS, &ll);
	assert_int_equal(in_child(check_signals, &ll), 0);
	landlock_done(&ll);
}

/* Older kernels, by the hook of the test build. */
static void what_an_old_kernel_cannot(void **state)
{
	static const struct {
		const char *abi;
		unsigned int parts;
		const char *words; /* NULL: it can */
	} rows[] = {
		{ "landlock_abi=38", LANDLOCK_FILES, "no Landlock" },
		{ "landlock_abi=1", LANDLOCK_FILES, "an old Landlock" },
		{ "landlock_abi=2", LANDLOCK_FILES, "an old Landlock" },
		{ "landlock_abi=3", LANDLOCK_FILES, NULL },
		{ "landlock_abi=1", LANDLOCK_FILES | LANDLOCK_BEHIND_MOUNTS, "from 5.19 on" },
		{ "landlock_abi=2", LANDLOCK_FILES | LANDLOCK_BEHIND_MOUNTS, NULL },
		{ "landlock_abi=4", LANDLOCK_FILES, NULL },
		{ "landlock_abi=5", LANDLOCK_FILES, NULL },
		{ "landlock_abi=5", LANDLOCK_FILES | LANDLOCK_SIGNALS, "--weaken signals" },
		{ "landlock_abi=3", LANDLOCK_SIGNALS, "cannot confine signals" },
		{ "landlock_create_ruleset=1", LANDLOCK_FILES, "landlock_create_ruleset" },
	};
	struct landlock now = LANDLOCK_NONE;

	(void)state;
	if (!BRIG_HAS_TEST_HOOKS) {
		print_message("a build without hooks\n");
		skip();
	}
	open_or_skip(LANDLOCK_FILES | LANDLOCK_SIGNALS, &now);
	landlock_done(&now);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct landlock ll = LANDLOCK_NONE;
		struct err err = ERR_NONE;
		int r;

		setenv("BRIG_TEST_FAIL", rows[i].abi, 1);
		r = landlock_open(rows[i].parts, &ll, &err);
		unsetenv("BRIG_TEST_FAIL");
		if ((r < 0) != (rows[i].words != NULL) ||
		    (r < 0 && !strstr(err.text, rows[i].words)))
			fail_msg("%s: %d, %s", rows[i].abi, r, err.text);
		/* Untouched where it failed, and a right that the kernel does not know is not
		 * handled. */
		assert_int_equal(ll.fd >= 0, r == 0);
		if (r == 0 && ll.abi < LANDLOCK_ABI_FILES)
			assert_false(ll.handled & LANDLOCK_ACCESS_FS_TRUNCATE);
		if (r == 0 && ll.abi < LANDLOCK_ABI_IOCTL)
			assert_false(ll.handled & LANDLOCK_ACCESS_FS_IOCTL_DEV);
		landlock_done(&ll);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files),
		cmocka_unit_test(single_files),
		cmocka_unit_test(signals),
		cmocka_unit_test(what_an_old_kernel_cannot),
	};

	return cmocka_run_group_tests(tests, make_base, remove_base);
}
