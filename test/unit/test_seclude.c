/* What the warden can still do once it has shut itself in, tried in a process of its own. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "warden/seclude.h"

static char folder[] = "/tmp/brig-test-seclude-XXXXXX";

static int try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? -errno : 0;
}

static int try_exec(void)
{
	char *const argv[] = { (char *)(uintptr_t) "true", NULL };

	execv("/bin/true", argv);
	return -errno;
}

static int try_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	close(fd);
	return fd < 0 ? -errno : 0;
}

static int failed(long r)
{
	return r < 0 ? -errno : 0;
}

/* Exits with the number of the line where it was not as it should be. */
#define SHOULD(condition)                          \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void run(bool keeps_files)
{
	const struct cgroup cgroup = CGROUP_NONE;
	const struct seclusion seclusion = { .cgroup = &cgroup,
					     .scratch = -EBADF,
					     .keeps_files = keeps_files };
	char inside[64], state[64];

	snprintf(inside, sizeof(inside), "%s/file", folder);
	snprintf(state, sizeof(state), "%s/state/brig/file", folder);
	SHOULD(seclude(&seclusion) == 0);
	SHOULD(try_open("/etc/passwd", O_RDONLY) == 0);
	SHOULD(try_open("/proc/self/status", O_RDONLY) == 0);
	SHOULD(try_open(state, O_RDWR | O_CREAT) == 0);
	SHOULD(try_open(inside, O_RDONLY) == (keeps_files ? 0 : -EACCES));
	SHOULD(try_open(inside, O_WRONLY) == (keeps_files ? 0 : -EACCES));
	SHOULD(try_open("/etc/brig-test", O_WRONLY | O_CREAT) == -EACCES);
	SHOULD(try_exec() == -EPERM);
	SHOULD(try_socket() == 0);
	SHOULD(kill(getpid(), 0) == 0);
	SHOULD(failed(mount("none", folder, "tmpfs", 0, NULL)) == -EPERM);
	SHOULD(failed(unshare(CLONE_NEWUSER)) == -EPERM);
	SHOULD(failed(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) == -EPERM);
	_exit(0);
}

static void shut_in(bool keeps_files)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		run(keeps_files);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("line %d (of each 250) was not as it should be, status %x",
			 WEXITSTATUS(status) - 1, status);
}

static void without_files(void **state)
{
	(void)state;
	shut_in(false);
}

/* As --commit needs it. /etc is not written to, if only because nobody may. */
static void with_files(void **state)
{
	(void)state;
	if (geteuid() == 0)
		skip();
	shut_in(true);
}

static int make_folder(void **state)
{
	char path[64];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/state", folder);
	setenv("XDG_STATE_HOME", path, 1);
	if (mkdir(path, 0700) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/state/brig", folder);
	if (mkdir(path, 0700) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	return try_open(path, O_RDWR | O_CREAT);
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "file", "state/brig/file", "state/brig", "state", "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		(void)!remove(path);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_files),
		cmocka_unit_test(with_files),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
