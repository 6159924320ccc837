/*
 * Cgroups that stand still, once by the freezer of v2 and once by that of v1 where the host has both.
 * What stands still is judged by a counter in shared memory that its processes move.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/cgroup.h"
#include "jail/tree.h"

#define BIT(control) (1u << CGROUP_##control)
#define ROUNDS       20
#define TRIES        5000 /* of a millisecond: only a test that fails waits that long */

static atomic_ulong *counter;

static void use_v1(bool yes)
{
	if (yes)
		setenv("BRIG_TEST_FAIL", "cgroup2=2", 1);
	else
		unsetenv("BRIG_TEST_FAIL");
}

static struct cgroup cg = CGROUP_NONE;
static int freezer = -EBADF; /* its directory once more */

/* With the freezer of one version; skips where it is not to be had. */
static void make(bool v1, uint32_t others)
{
	struct err err = ERR_NONE;
	char id[40];
	int r;

	if (v1 && !BRIG_HAS_TEST_HOOKS) {
		print_message("SKIP: built without test hooks\n");
		skip();
	}
	snprintf(id, sizeof(id), "test-freeze-%d", getpid());
	use_v1(v1);
	r = cgroup_make(BIT(FREEZE) | others, id, &cg, &err);
	use_v1(false);
	if (r == -EOPNOTSUPP) {
		print_message("SKIP: %s\n", err.text);
		skip();
	}
	if (r < 0)
		fail_msg("%s", err.text);
	assert_int_equal(cg.is_v2[CGROUP_FREEZE], !v1);
	freezer = dup(cg.dir[CGROUP_FREEZE]);
}

static int clean_up(void **state)
{
	(void)state;
	use_v1(false);
	/* What a test has failed to thaw would stay for good. */
	(void)!file_write_at(freezer, "freezer.state", "THAWED");
	freezer = fd_close(freezer);
	cgroup_done(&cg);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

static bool is_v1(void **state)
{
	return *(const bool *)*state;
}

static void freeze(bool frozen)
{
	struct err err = ERR_NONE;

	if (cgroup_freeze(&cg, frozen, &err) < 0)
		fail_msg("%s", err.text);
}

static pid_t start(void (*f)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (cgroup_enter(&cg) == 0)
			f();
		_exit(99);
	}
	return pid;
}

/* Forks all the time, and every process counts. */
static void fork_on(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		if (fork() == 0) {
			for (int i = 0; i < 100; i++)
				(*counter)++;
			_exit(0);
		}
		(*counter)++;
	}
}

static void count_on(void)
{
	for (;;)
		(*counter)++;
}

static void assert_moves(void)
{
	unsigned long before = *counter;

	for (int i = 0; i < TRIES && *counter == before; i++)
		usleep(1000);
	assert_true(*counter != before);
}

static void assert_stands(void)
{
	unsigned long before = *counter;

	for (int i = 0; i < ROUNDS; i++) {
		usleep(1000);
		assert_int_equal(*counter, before);
	}
}

static size_t listed(void)
{
	char text[8192];
	size_t count = 0;

	assert_int_equal(file_read_at(cg.dir[CGROUP_FREEZE], "cgroup.procs", text, sizeof(text)),
			 0);
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
		count++;
	return count;
}

static void who_forks_stands_still_and_goes_on(void **state)
{
	pid_t pid;

	make(is_v1(state), 0);
	pid = start(fork_on);
	for (int i = 0; i < ROUNDS; i++) {
		assert_moves();
		freeze(true);
		assert_stands();
		assert_true(tree_is_in(pid, "SD"));
		assert_true(listed() > 0);
		freeze(false);
	}
	assert_moves();
	/* Asked twice, it is as after once. */
	freeze(false);
	freeze(true);
	freeze(true);
	assert_stands();
}

static void an_empty_one_freezes_who_enters(void **state)
{
	make(is_v1(state), 0);
	freeze(true);
	(void)start(count_on);
	for (int i = 0; i < TRIES && listed() == 0; i++)
		usleep(1000);
	assert_int_equal(listed(), 1);
	assert_stands();
	freeze(false);
	assert_moves();
}

static void what_is_frozen_is_killed(void **state)
{
	make(is_v1(state), 0);
	for (int i = 0; i < 2; i++) {
		pid_t pid = start(fork_on), ended = 0;
		int status;

		assert_moves();
		freeze(true);
		assert_int_equal(cgroup_kill(&cg), 0);
		for (int n = 0; n < TRIES && ended == 0; n++, usleep(1000))
			ended = waitpid(pid, &status, WNOHANG);
		assert_int_equal(ended, pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		for (int n = 0; n < TRIES && listed() > 0; n++)
			usleep(1000);
		assert_int_equal(listed(), 0);
		freeze(false);
	}
}

static void the_end_takes_what_is_frozen(void **state)
{
	char name[sizeof(cg.name)];
	struct stat st;
	int parent;
	pid_t pid;

	make(is_v1(state), 0);
	pid = start(count_on);
	assert_moves();
	freeze(true);
	memcpy(name, cg.name, sizeof(name));
	parent = dup(cg.parent[CGROUP_FREEZE]);
	/* What was killed while it stood still does not run again. */
	signal(SIGCHLD, SIG_IGN);
	*counter = 0;
	cgroup_done(&cg);
	signal(SIGCHLD, SIG_DFL);
	assert_int_equal(*counter, 0);
	/* Who dies is out of the cgroup before its number is free. */
	for (int i = 0; i < 1000 && kill(pid, 0) == 0; i++)
		usleep(1000);
	assert_true(kill(pid, 0) < 0 && errno == ESRCH);
	assert_true(fstatat(parent, name, &st, 0) < 0 && errno == ENOENT);
	fd_close(parent);
}

/* As a process that waits for its keeper: only a fatal signal would interrupt it. */
static int channel[2];

static void ask_keeper(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	int listener;

	if (sys_no_new_privs() < 0)
		_exit(90);
	listener = sys_seccomp_set_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER | 1u << 5, &program);
	if (listener < 0 || fd_send(channel[1], "l", 1, &listener, 1) < 0)
		_exit(91);
	(void)syscall(SYS_getppid);
	count_on();
}

static void who_waits_for_an_answer_is_no_obstacle(void **state)
{
	struct seccomp_notif_resp answer = { 0 };
	struct seccomp_notif notif = { 0 };
	int passed[FD_PASS_MAX], r = -EAGAIN;
	char byte;
	pid_t pid;

	make(is_v1(state), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
	pid = start(ask_keeper);
	for (int i = 0; i < TRIES && r == -EAGAIN; i++, usleep(1000))
		r = fd_receive(channel[0], &byte, 1, passed);
	assert_int_equal(r, 0);
	assert_int_equal(ioctl(passed[0], SECCOMP_IOCTL_NOTIF_RECV, &notif), 0);
	(void)start(count_on);
	assert_moves();
	freeze(true);
	assert_stands();
	/* Its call is answered, and still it does not come back from it. */
	answer.id = notif.id;
	assert_int_equal(ioctl(passed[0], SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
	assert_stands();
	freeze(false);
	assert_moves();
	assert_int_equal(kill(pid, SIGKILL), 0);
	fd_close(passed[0]);
	fd_close(channel[0]);
	fd_close(channel[1]);
}

/* Somebody else has frozen all of it. */
static void what_stays_frozen_is_told(void **state)
{
	struct cgroup inner = CGROUP_NONE;
	struct err err = ERR_NONE;

	make(is_v1(state), 0);
	assert_int_equal(mkdirat(cg.dir[CGROUP_FREEZE], "inner", 0755), 0);
	inner.is_v2[CGROUP_FREEZE] = cg.is_v2[CGROUP_FREEZE];
	inner.dir[CGROUP_FREEZE] = openat(cg.dir[CGROUP_FREEZE], "inner", O_DIRECTORY | O_CLOEXEC);
	freeze(true);
	assert_int_equal(cgroup_freeze(&inner, false, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "a cgroup above"));
	freeze(false);
	assert_int_equal(cgroup_freeze(&inner, false, NULL), 0);
	fd_close(inner.dir[CGROUP_FREEZE]);
}

#define CACHED (64 * MIB)
#define HELD   (16 * MIB)

static int cached_fd = -EBADF;

static void hold_memory(void)
{
	static char block[MIB], held[HELD];

	memset(block, 'x', sizeof(block));
	memset(held, 'x', sizeof(held));
	for (size_t i = 0; i < CACHED / sizeof(block); i++)
		if (fd_write_all(cached_fd, block, sizeof(block)) < 0)
			_exit(90);
	/* What is not on the disk cannot be given back without waiting for it. */
	if (fsync(cached_fd) < 0)
		_exit(91);
	count_on();
}

static void memory_of_files_is_given_back(void **state)
{
	char cached[] = "/var/tmp/brig-test-freeze-XXXXXX";
	uint64_t before = 0, after = 0, unlimited = 7;
	struct statfs fs;

	make(is_v1(state), BIT(MEMORY));
	cached_fd = mkstemp(cached);
	assert_true(cached_fd >= 0);
	unlink(cached);
	assert_int_equal(fstatfs(cached_fd, &fs), 0);
	if (fs.f_type == TMPFS_MAGIC) {
		cached_fd = fd_close(cached_fd);
		print_message("SKIP: no disk here\n");
		skip();
	}
	(void)start(hold_memory);
	*counter = 0;
	for (int i = 0; i < TRIES * 10 && *counter == 0; i++)
		usleep(1000);
	assert_true(*counter > 0);
	freeze(true);
	assert_int_equal(cgroup_memory_limit(&cg, &unlimited), 0);
	assert_int_equal(unlimited, UINT64_MAX);
	assert_int_equal(cgroup_memory_used(&cg, &before), 0);
	assert_true(before >= CACHED + HELD);
	/* As long as it takes: here it is a question of whether, not of when. */
	cgroup_reclaim(&cg, 60000);
	assert_int_equal(cgroup_memory_used(&cg, &after), 0);
	assert_true(after < before - CACHED / 2);
	/* No child is left of it. */
	assert_stands();
	freeze(false);
	assert_moves();
	cached_fd = fd_close(cached_fd);
}

static void without_a_freezer_nothing_is_frozen(void **state)
{
	struct cgroup none = CGROUP_NONE;
	struct err err = ERR_NONE;
	uint64_t value;

	(void)state;
	assert_int_equal(cgroup_freeze(&none, true, &err), -EINVAL);
	assert_false(cgroup_freezes(&none, getpid()));
	assert_int_equal(cgroup_memory_used(&none, &value), -ENODATA);
	assert_int_equal(cgroup_memory_limit(&none, &value), -ENODATA);
	assert_int_equal(cgroup_tasks(&none, &value), -ENODATA);
	cgroup_thaw_killed(&none);
	cgroup_reclaim(&none, 1);
}

static void who_is_in_it_is_told(void **state)
{
	pid_t pid;

	make(is_v1(state), 0);
	pid = start(count_on);
	assert_moves();
	assert_true(cgroup_freezes(&cg, pid));
	assert_false(cgroup_freezes(&cg, getpid()));
}

static bool v1 = true, v2 = false;

#define TEST(f, version)                                          \
	{                                                         \
#f " on " #version, f, NULL, clean_up, &(version) \
	}
#define BOTH(f) TEST(f, v2), TEST(f, v1)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(who_forks_stands_still_and_goes_on),
		BOTH(an_empty_one_freezes_who_enters),
		BOTH(what_is_frozen_is_killed),
		BOTH(the_end_takes_what_is_frozen),
		BOTH(who_waits_for_an_answer_is_no_obstacle),
		BOTH(what_stays_frozen_is_told),
		BOTH(memory_of_files_is_given_back),
		BOTH(who_is_in_it_is_told),
		cmocka_unit_test(without_a_freezer_nothing_is_frozen),
	};

	counter = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	return counter == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
