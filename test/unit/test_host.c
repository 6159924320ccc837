/*
 * The answers depend on the host, so most of these tests ask twice in two ways, or make a host of a
 * known kind around a child: a user without rights, a container's filter, a chroot, a limit of
 * zero. A child has no use for cmocka's jumps; it says what failed and exits.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "base/sys.h"
#include "host/host.h"
#include "host/probe.h"

#define NOBODY 65534

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			return 1;                                                       \
		}                                                                       \
	} while (0)

/* 0 when fn returned 0 in a child of its own. */
static int in_fork(int (*fn)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static bool same_fact(const struct host_fact *a, const struct host_fact *b)
{
	return a->ok == b->ok && a->value == b->value && str_equal(a->detail, b->detail) &&
	       str_equal(a->remedy, b->remedy);
}

static bool ok(const struct host *host, enum host_feature feature)
{
	return host->facts[feature].ok;
}

static void every_feature_is_described(void **state)
{
	(void)state;
	for (int i = 0; i < HOST_FEATURE_COUNT; i++) {
		assert_non_null(host_features[i].name);
		assert_non_null(host_features[i].title);
		assert_non_null(host_features[i].why);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(host_features[i].name, host_features[k].name);
	}
}

static void asking_twice_gives_the_same_answers(void **state)
{
	struct host first, second;

	(void)state;
	host_probe(&first);
	host_probe(&second);
	for (int i = 0; i < HOST_FEATURE_COUNT; i++) {
		struct host_fact one;

		host_probe_one((enum host_feature)i, &one);
		assert_true(same_fact(&first.facts[i], &second.facts[i]));
		assert_true(same_fact(&first.facts[i], &one));
	}
	assert_string_equal(first.kernel, second.kernel);
	assert_true(strlen(first.kernel) > 0);
	assert_int_equal(first.root, geteuid() == 0);
}

/* Every fact speaks, and none was cut short. */
static int facts_are_complete(const struct host *host)
{
	for (int i = 0; i < HOST_FEATURE_COUNT; i++) {
		const struct host_fact *fact = &host->facts[i];

		CHECK(strlen(fact->detail) > 0);
		CHECK(strlen(fact->detail) < sizeof(fact->detail) - 1);
		CHECK(strlen(fact->remedy) < sizeof(fact->remedy) - 1);
		CHECK(!fact->ok || strlen(fact->remedy) == 0);
		CHECK(fact->ok || fact->value == 0);
	}
	return 0;
}

static void what_is_missing_says_why(void **state)
{
	struct host host;

	(void)state;
	host_probe(&host);
	assert_int_equal(facts_are_complete(&host), 0);
}

static size_t count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Directories of this name are counted: others may probe at the same time. */
static char left_name[32];
static int left_over;

static int is_left_over(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	left_over += str_starts(path + at->base, left_name);
	return 0;
}

static int count_left_over(const char *below)
{
	left_over = 0;
	nftw(below, is_left_over, 32, FTW_PHYS);
	return left_over;
}

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	(void)signal;
	signals++;
}

static void read_text(const char *path, struct buf *buf)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_read_all(fd, buf), 0);
}

static void leaves_nothing_behind(void **state)
{
	_cleanup_(buf_done) struct buf mounts = BUF(1 * MIB);
	char name_before[65] = "", name_after[65] = "";
	size_t descriptors = count_descriptors();
	struct sigaction act = { .sa_handler = on_signal }, was;
	sigset_t mask, mask_before;
	struct host host;

	(void)state;
	sigaction(SIGCHLD, &act, &was);
	signals = 0;
	/* A known mask, so that one left by an earlier test does not hide behind itself. */
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, &mask_before);
	gethostname(name_before, sizeof(name_before) - 1);
	host_probe(&host);
	gethostname(name_after, sizeof(name_after) - 1);
	read_text("/proc/self/mountinfo", &mounts);
	sigprocmask(SIG_SETMASK, &mask_before, &mask);
	sigaction(SIGCHLD, &was, NULL);

	assert_int_equal(count_descriptors(), descriptors);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(signals, 0);
	assert_int_equal(sigismember(&mask, SIGUSR2), 1);
	assert_int_equal(sigismember(&mask, SIGCHLD), 0);
	assert_int_equal(sigismember(&mask, SIGINT), 0);
	assert_string_equal(name_before, name_after);
	assert_null(strstr(buf_text(&mounts), "brig-probe"));
	snprintf(left_name, sizeof(left_name), "brig-probe-%d-", getpid());
	assert_int_equal(count_left_over("/sys/fs/cgroup"), 0);
}

static int probe_with_children_ignored(void)
{
	struct host before, after;

	host_probe(&before);
	signal(SIGCHLD, SIG_IGN);
	host_probe(&after);
	for (int i = 0; i < HOST_FEATURE_COUNT; i++)
		CHECK(same_fact(&before.facts[i], &after.facts[i]));
	return 0;
}

static void works_where_the_caller_ignores_children(void **state)
{
	(void)state;
	assert_int_equal(in_fork(probe_with_children_ignored), 0);
}

static int plain_userns(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWUTS) < 0)
		return 1;
	return sethostname("test", 4) < 0;
}

static int plain_pidns(void)
{
	return unshare(CLONE_NEWPID) < 0;
}

static void agrees_with_asking_the_kernel(void **state)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct host host;
	int kvm;

	(void)state;
	host_probe(&host);
	assert_int_equal(ok(&host, HOST_LANDLOCK), abi > 0);
	assert_int_equal(host.facts[HOST_LANDLOCK].value, abi > 0 ? abi : 0);
	assert_int_equal(ok(&host, HOST_LANDLOCK_SCOPE), abi >= 6);
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	assert_int_equal(ok(&host, HOST_KVM), kvm >= 0);
	fd_close(kvm);
	assert_int_equal(ok(&host, HOST_USERNS), in_fork(plain_userns) == 0);
	if (geteuid() == 0) {
		assert_int_equal(ok(&host, HOST_PIDNS), in_fork(plain_pidns) == 0);
		assert_int_equal(ok(&host, HOST_SUBIDS), 1);
	}
}

static int each_hook_acts(void)
{
	for (int i = 0; i < HOST_FEATURE_COUNT; i++) {
		struct host_fact fact;
		char fail[64];

		snprintf(fail, sizeof(fail), "host_%s=%d", host_features[i].name, EXDEV);
		setenv("BRIG_TEST_FAIL", fail, 1);
		host_probe_one((enum host_feature)i, &fact);
		CHECK(!fact.ok);
		CHECK(str_starts(fact.detail, "refused: "));
		CHECK(strstr(fact.detail, strerror(EXDEV)));
	}
	return 0;
}

static void each_feature_can_be_switched_off(void **state)
{
	(void)state;
	if (!BRIG_HAS_TEST_HOOKS)
		skip();
	assert_int_equal(in_fork(each_hook_acts), 0);
}

/* What sys.h can be made to fail is reported as a fact, too. */
static int failing_calls_are_noticed(void)
{
	static const struct {
		const char *fail;
		enum host_feature feature;
	} cases[] = {
		{ "landlock_abi=38", HOST_LANDLOCK },
		{ "landlock_abi=38", HOST_LANDLOCK_SCOPE },
		{ "landlock_create_ruleset=1", HOST_LANDLOCK },
		{ "landlock_restrict_self=1", HOST_LANDLOCK },
		{ "landlock_restrict_self=7", HOST_LANDLOCK_SCOPE },
		{ "no_new_privs=1", HOST_SECCOMP },
		{ "seccomp=22", HOST_SECCOMP },
		{ "seccomp=22", HOST_SECCOMP_NOTIFY },
		{ "seccomp=16", HOST_SECCOMP_NOTIFY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_fact fact;

		setenv("BRIG_TEST_FAIL", cases[i].fail, 1);
		host_probe_one(cases[i].feature, &fact);
		CHECK(!fact.ok);
		CHECK(strlen(fact.detail) > 0);
	}
	return 0;
}

static void a_failing_call_is_a_missing_feature(void **state)
{
	(void)state;
	if (!BRIG_HAS_TEST_HOOKS)
		skip();
	assert_int_equal(in_fork(failing_calls_are_noticed), 0);
}

static int become_nobody(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return -errno;
	/* As after an exec. Without it our /proc files would stay root's. */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int probe_as_nobody(void)
{
	static const enum host_feature inside[] = { HOST_MOUNTNS, HOST_PIDNS, HOST_NETNS,
						    HOST_IPCNS,   HOST_UTSNS, HOST_CGROUPNS };
	struct host host, again;
	pid_t pid;
	int status = 1;

	CHECK(become_nobody() == 0);
	host_probe(&host);
	host_probe(&again);
	for (int i = 0; i < HOST_FEATURE_COUNT; i++)
		CHECK(same_fact(&host.facts[i], &again.facts[i]));
	CHECK(facts_are_complete(&host) == 0);
	CHECK(!host.root);
	CHECK(ok(&host, HOST_SECCOMP));
	CHECK(ok(&host, HOST_SECCOMP_NOTIFY));
	pid = fork();
	if (pid == 0)
		_exit(plain_userns());
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(ok(&host, HOST_USERNS) == (status == 0));
	for (size_t i = 0; i < ARRAY_SIZE(inside) && status == 0; i++)
		CHECK(ok(&host, inside[i]));
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
	return 0;
}

static void works_for_a_user_without_rights(void **state)
{
	(void)state;
	assert_int_equal(in_fork(probe_as_nobody), 0);
}

/* Without a user namespace nothing of the container tier is left to nobody. */
static int userns_takes_the_others_along(void)
{
	struct host host;

	CHECK(become_nobody() == 0);
	setenv("BRIG_TEST_FAIL", "host_userns=28", 1);
	host_probe(&host);
	for (int i = HOST_USERNS; i <= HOST_OVERLAY; i++)
		CHECK(!ok(&host, (enum host_feature)i));
	CHECK(ok(&host, HOST_SECCOMP));
	return 0;
}

static void namespaces_stand_on_the_user_namespace(void **state)
{
	(void)state;
	if (!BRIG_HAS_TEST_HOOKS)
		skip();
	assert_int_equal(in_fork(userns_takes_the_others_along), 0);
}

static int probe_undumpable(void)
{
	struct host_fact fact;

	CHECK(become_nobody() == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	host_probe_one(HOST_USERNS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "dumpable"));
	return 0;
}

static void a_process_that_cannot_map_itself_is_told(void **state)
{
	(void)state;
	if (in_fork(plain_userns) != 0)
		skip();
	assert_int_equal(in_fork(probe_undumpable), 0);
}

/* What a container's profile does to those who have no CAP_SYS_ADMIN. */
static int load_container_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 7, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	const struct sock_fprog prog = { .len = ARRAY_SIZE(code), .filter = code };
	int r = sys_no_new_privs();

	return r < 0 ? r : sys_seccomp_set_filter(0, &prog);
}

static int refused_by_container(void)
{
	struct host before, host;

	setenv("container", "docker", 1);
	host_probe(&before);
	CHECK(load_container_filter() == 0);
	CHECK(unshare(CLONE_NEWUTS) < 0 && errno == EPERM);
	host_probe(&host);
	CHECK(host.container);
	CHECK(facts_are_complete(&host) == 0);
	for (int i = HOST_LANDLOCK; i <= HOST_SECCOMP_NOTIFY; i++)
		CHECK(same_fact(&before.facts[i], &host.facts[i]));
	CHECK(ok(&host, HOST_SECCOMP));
	for (int i = HOST_USERNS; i <= HOST_OVERLAY; i++) {
		CHECK(!ok(&host, (enum host_feature)i));
		CHECK(strstr(host.facts[i].detail, "seccomp"));
		CHECK(strstr(host.facts[i].remedy, "container"));
		CHECK(strstr(host.facts[i].remedy, "--isolation process"));
	}
	return 0;
}

static int refused_by_container_as_nobody(void)
{
	CHECK(become_nobody() == 0);
	return refused_by_container();
}

static void a_container_profile_is_recognised(void **state)
{
	(void)state;
	assert_int_equal(in_fork(refused_by_container), 0);
	assert_int_equal(in_fork(refused_by_container_as_nobody), 0);
}

/* A filter of ours with a listener: only one may have one. */
static int under_a_supervisor(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_fprog prog = { .len = ARRAY_SIZE(code), .filter = code };
	struct host_fact fact;
	int listener;

	CHECK(sys_no_new_privs() == 0);
	listener = sys_seccomp_set_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	CHECK(listener >= 0);
	host_probe_one(HOST_SECCOMP_NOTIFY, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "supervisor"));
	host_probe_one(HOST_SECCOMP, &fact);
	CHECK(fact.ok);
	return 0;
}

static void another_supervisor_is_recognised(void **state)
{
	struct host_fact fact;

	(void)state;
	host_probe_one(HOST_SECCOMP_NOTIFY, &fact);
	if (!fact.ok)
		skip();
	assert_int_equal(in_fork(under_a_supervisor), 0);
}

static int inside_landlock(void)
{
	const struct sys_landlock_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_DIR };
	int ruleset = sys_landlock_create_ruleset(&attr, sizeof(attr), 0);
	struct host_fact fact;

	CHECK(ruleset >= 0);
	CHECK(sys_no_new_privs() == 0);
	CHECK(sys_landlock_restrict_self(ruleset, 0) == 0);
	close(ruleset);
	host_probe_one(HOST_LANDLOCK, &fact);
	CHECK(fact.ok);
	/* Sixteen layers are all there are. */
	for (int i = 0; i < 16; i++) {
		ruleset = sys_landlock_create_ruleset(&attr, sizeof(attr), 0);
		(void)!sys_landlock_restrict_self(ruleset, 0);
		close(ruleset);
	}
	host_probe_one(HOST_LANDLOCK, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "layers"));
	return 0;
}

static void landlock_in_landlock(void **state)
{
	(void)state;
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <= 0)
		skip();
	assert_int_equal(in_fork(inside_landlock), 0);
}

/* A directory with a proc in it, in a mount namespace of our own, as our root. */
static int inside_chroot(void)
{
	struct host_fact fact;

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0);
	CHECK(mkdir("/mnt/root", 0755) == 0 && mkdir("/mnt/root/proc", 0755) == 0);
	CHECK(mount("proc", "/mnt/root/proc", "proc", 0, NULL) == 0);
	CHECK(chroot("/mnt/root") == 0 && chdir("/") == 0);
	host_probe_one(HOST_USERNS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "chroot"));
	CHECK(become_nobody() == 0);
	host_probe_one(HOST_NETNS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "chroot"));
	return 0;
}

static void a_chroot_is_recognised(void **state)
{
	struct host_fact fact;

	(void)state;
	host_probe_one(HOST_MOUNTNS, &fact);
	if (geteuid() != 0 || !fact.ok || access("/mnt", F_OK) < 0)
		skip();
	assert_int_equal(in_fork(inside_chroot), 0);
}

/* The limit can be set for a user namespace and those below it. */
static int with_a_limit_of_zero(void)
{
	struct host_fact fact;

	CHECK(unshare(CLONE_NEWUSER) == 0);
	CHECK(file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0);
	CHECK(file_write_at(AT_FDCWD, "/proc/self/uid_map", "0 0 1") == 0);
	CHECK(file_write_at(AT_FDCWD, "/proc/self/gid_map", "0 0 1") == 0);
	CHECK(file_write_at(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0") == 0);
	host_probe_one(HOST_USERNS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.remedy, "user.max_user_namespaces="));
	/* Its root makes the others without one. */
	host_probe_one(HOST_UTSNS, &fact);
	CHECK(fact.ok);
	return 0;
}

static void a_limit_of_zero_is_recognised(void **state)
{
	(void)state;
	if (geteuid() != 0 || in_fork(plain_userns) != 0)
		skip();
	assert_int_equal(in_fork(with_a_limit_of_zero), 0);
}

/* A cgroup that was given to nobody, as systemd gives one to a user. */
static char delegated[256];

static int inside_delegated(void)
{
	struct host_fact fact;
	char path[300], pid[16];

	snprintf(path, sizeof(path), "%s/cgroup.procs", delegated);
	snprintf(pid, sizeof(pid), "%d", getpid());
	CHECK(chown(delegated, NOBODY, NOBODY) == 0 && chown(path, NOBODY, NOBODY) == 0);
	CHECK(file_write_at(AT_FDCWD, path, pid) == 0);
	CHECK(become_nobody() == 0);
	host_probe_one(HOST_CGROUP_KILL, &fact);
	CHECK(fact.ok);
	CHECK(strstr(fact.detail, "delegated"));
	return 0;
}

/* As in a container: only our own part of the tree is mounted, and at another place. */
static int inside_bound(void)
{
	struct host_fact fact;
	char path[300];

	snprintf(path, sizeof(path), "%s/cgroup.procs", delegated);
	CHECK(file_write_at(AT_FDCWD, path, "0") == 0);
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0);
	CHECK(mkdir("/mnt/a tree", 0755) == 0);
	CHECK(mount(delegated, "/mnt/a tree", NULL, MS_BIND, NULL) == 0);
	CHECK(umount2("/sys/fs/cgroup", MNT_DETACH) == 0);
	host_probe_one(HOST_CGROUP_KILL, &fact);
	CHECK(fact.ok);
	host_probe_one(HOST_CGROUP_MEMORY, &fact);
	CHECK(!fact.ok);
	CHECK(mount(NULL, "/mnt/a tree", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	host_probe_one(HOST_CGROUP_KILL, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.remedy, "writable cgroup"));
	CHECK(umount2("/mnt/a tree", MNT_DETACH) == 0);
	host_probe_one(HOST_CGROUP_KILL, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.remedy, "mount -t cgroup2"));
	return 0;
}

/* The first tree of v2 that is mounted; "" without. */
static void find_v2(char *path, size_t size)
{
	_cleanup_(buf_done) struct buf text = BUF(1 * MIB);
	char point[200];

	*path = '\0';
	read_text("/proc/self/mountinfo", &text);
	for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, " - cgroup2 ") &&
		    sscanf(line, "%*s %*s %*s %*s %199s", point) == 1) {
			snprintf(path, size, "%s", point);
			return;
		}
}

/* Runs fn with a cgroup of v2 made for it. */
static void with_cgroup(int (*fn)(void))
{
	struct host_fact cgroup, mounts;
	char point[200];
	int status, left;

	find_v2(point, sizeof(point));
	host_probe_one(HOST_CGROUP_KILL, &cgroup);
	host_probe_one(HOST_MOUNTNS, &mounts);
	if (geteuid() != 0 || !cgroup.ok || !mounts.ok || access("/mnt", F_OK) < 0)
		skip();
	snprintf(delegated, sizeof(delegated), "%s/brig-test-%d", point, getpid());
	assert_int_equal(mkdir(delegated, 0755), 0);
	status = in_fork(fn);
	snprintf(left_name, sizeof(left_name), "brig-probe-");
	left = count_left_over(delegated);
	assert_int_equal(rmdir(delegated), 0);
	assert_int_equal(status, 0);
	assert_int_equal(left, 0);
}

static void a_delegated_cgroup_is_used(void **state)
{
	(void)state;
	with_cgroup(inside_delegated);
}

static void a_part_of_the_tree_is_found_where_it_is_mounted(void **state)
{
	(void)state;
	with_cgroup(inside_bound);
}

static int put_file(const char *path, mode_t mode, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0 || fchmod(fd, mode) < 0)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

/* Each step gives nobody one thing more of what is needed. */
static int with_subordinate_ids(void)
{
	struct host_fact fact;

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", "/mnt", "tmpfs", 0, "mode=755") == 0);
	CHECK(put_file("/mnt/ids", 0644, "someone:100000:65536\nbroken:x:1\nbroken\n::\n") == 0);
	CHECK(mount("/mnt/ids", "/etc/subuid", NULL, MS_BIND, NULL) == 0);
	CHECK(mount("/mnt/ids", "/etc/subgid", NULL, MS_BIND, NULL) == 0);
	setenv("PATH", "/mnt:relative", 1);
	CHECK(seteuid(NOBODY) == 0);
	host_probe_one(HOST_SUBIDS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.remedy, "--add-subuids 170000-235535 --add-subgids 170000-235535"));

	CHECK(seteuid(0) == 0 && put_file("/mnt/ids", 0644, "65534:200000:65536\n") == 0);
	CHECK(put_file("/mnt/newuidmap", 0755, "") == 0);
	CHECK(put_file("/mnt/newgidmap", 0755, "") == 0);
	CHECK(seteuid(NOBODY) == 0);
	host_probe_one(HOST_SUBIDS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.remedy, "uidmap"));

	CHECK(seteuid(0) == 0 && chmod("/mnt/newuidmap", 04755) == 0);
	CHECK(chmod("/mnt/newgidmap", 04755) == 0 && seteuid(NOBODY) == 0);
	host_probe_one(HOST_SUBIDS, &fact);
	CHECK(fact.ok);
	CHECK(fact.value == 65536);

	CHECK(sys_no_new_privs() == 0);
	host_probe_one(HOST_SUBIDS, &fact);
	CHECK(!fact.ok);
	CHECK(strstr(fact.detail, "no_new_privs"));
	return 0;
}

static void subordinate_ids_need_a_range_and_a_mapper(void **state)
{
	struct host_fact fact;

	(void)state;
	host_probe_one(HOST_MOUNTNS, &fact);
	if (geteuid() != 0 || !fact.ok || access("/mnt", F_OK) < 0 ||
	    access("/etc/subuid", F_OK) < 0 || access("/etc/subgid", F_OK) < 0)
		skip();
	assert_int_equal(in_fork(with_subordinate_ids), 0);
}

/* What PATH offers: not what lies in the working directory, and only what can be run. */
static int with_programs(void)
{
	struct host_fact fact;
	char dir[] = "/tmp/brig-test-XXXXXX", path[64];
	int r;

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	CHECK(put_file("runsc", 0644, "") == 0);
	snprintf(path, sizeof(path), "/nowhere::.:%s", dir);
	setenv("PATH", path, 1);
	host_probe_one(HOST_RUNSC, &fact);
	r = fact.ok;
	(void)!chmod("runsc", 0755);
	setenv("PATH", "::.", 1);
	host_probe_one(HOST_RUNSC, &fact);
	r |= fact.ok;
	setenv("PATH", path, 1);
	host_probe_one(HOST_RUNSC, &fact);
	unlink("runsc");
	rmdir(dir);
	CHECK(r == 0);
	CHECK(fact.ok && str_starts(fact.detail, dir));
	return 0;
}

static void programs_are_found_in_absolute_directories(void **state)
{
	(void)state;
	assert_int_equal(in_fork(with_programs), 0);
}

static int hang(const void *arg, struct probe_answer *answer)
{
	(void)arg;
	(void)answer;
	while (getpid() > 0)
		pause();
	return 0;
}

static int crash(const void *arg, struct probe_answer *answer)
{
	(void)arg;
	(void)answer;
	return (int)syscall(SYS_kill, getpid(), SIGKILL);
}

static int has_settled(const void *arg, struct probe_answer *answer)
{
	sigset_t mask;
	int death = 0;

	(void)arg;
	answer->step = 7;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	return sigismember(&mask, SIGINT) && death == SIGKILL ? 0 : -ENOANO;
}

static void a_probe_that_hangs_or_dies_is_no_answer(void **state)
{
	struct probe_answer answer = { .step = 42 };
	size_t descriptors = count_descriptors();
	struct host_fact fact = { 0 };

	(void)state;
	assert_int_equal(probe_in_child(hang, NULL, &answer), -ETIMEDOUT);
	assert_int_equal(probe_in_child(crash, NULL, &answer), -ECHILD);
	assert_int_equal(answer.step, 42);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(count_descriptors(), descriptors);
	assert_int_equal(probe_in_child(has_settled, NULL, &answer), 0);
	assert_int_equal(answer.step, 7);
	assert_int_equal(answer.error, 0);
	fact_untried(&fact, -ETIMEDOUT);
	assert_non_null(strstr(fact.detail, "no answer within"));
	fact_untried(&fact, -EAGAIN);
	assert_non_null(strstr(fact.detail, strerror(EAGAIN)));
}

static void foreign_text_is_made_printable(void **state)
{
	struct host_fact fact = { 0 };

	(void)state;
	fact_ok(&fact, "%s", "/opt/\033[2Jrunsc");
	assert_string_equal(fact.detail, "/opt/?[2Jrunsc");
}

/* Hosts that are not at hand. */
static void the_cause_of_a_refusal_is_told_apart(void **state)
{
	static const struct {
		struct probe_signs signs;
		const char *remedy;
	} cases[] = {
		/* Ubuntu 24.04: it is made, and then nothing is allowed inside. */
		{ { .step = STEP_MAP, .error = EPERM, .apparmor = true }, "/etc/apparmor.d/brig" },
		{ { .step = STEP_CAPABILITY, .error = EPERM, .apparmor = true },
		  "apparmor_restrict_unprivileged_userns=0" },
		/* Ubuntu 23.10 without the profile for it. */
		{ { .step = STEP_USERNS, .error = EACCES, .apparmor = true },
		  "apparmor_parser -r" },
		{ { .step = STEP_USERNS, .error = EPERM, .apparmor = true }, "apparmor_parser -r" },
		/* A container on Ubuntu: its filter comes first. */
		{ { .step = STEP_USERNS,
		    .error = EPERM,
		    .apparmor = true,
		    .seccomp = true,
		    .container = true },
		  "--security-opt seccomp=" },
		{ { .step = STEP_USERNS, .error = EPERM, .seccomp = true },
		  "RestrictNamespaces=no" },
		{ { .step = STEP_USERNS, .error = EPERM, .clone_off = true },
		  "kernel.unprivileged_userns_clone=1" },
		/* It does not bind root, so it is not the reason. */
		{ { .step = STEP_NAMESPACE, .error = EPERM, .clone_off = true, .root = true },
		  "--isolation process" },
		{ { .step = STEP_USERNS, .error = ENOSPC, .no_namespaces = true },
		  "user.max_user_namespaces=" },
		{ { .step = STEP_USERNS, .error = ENOSPC }, "lsns" },
		{ { .step = STEP_USERNS, .error = EINVAL }, "a kernel that has it" },
		{ { .step = STEP_USERNS, .error = EPERM, .chroot = true },
		  "outside of the chroot" },
		{ { .step = STEP_MAP, .error = ENOENT, .no_proc = true }, "mount -t proc" },
		{ { .step = STEP_MOUNT, .error = EACCES, .container = true, .root = true },
		  "apparmor=unconfined" },
		{ { .step = STEP_USE, .error = EPERM, .container = true, .seccomp = true },
		  "systempaths=unconfined" },
		{ { .step = STEP_MOUNT, .error = ENODEV }, "modprobe overlay" },
		{ { .step = STEP_NAMESPACE, .error = EIO }, "--isolation process" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct probe_cause *cause = probe_cause(&cases[i].signs);

		if (!strstr(cause->remedy, cases[i].remedy))
			fail_msg("case %zu: \"%s\" instead of \"%s\"", i, cause->remedy,
				 cases[i].remedy);
		assert_true(strlen(cause->remedy) < sizeof(((struct host_fact *)0)->remedy));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_feature_is_described),
		cmocka_unit_test(asking_twice_gives_the_same_answers),
		cmocka_unit_test(what_is_missing_says_why),
		cmocka_unit_test(leaves_nothing_behind),
		cmocka_unit_test(works_where_the_caller_ignores_children),
		cmocka_unit_test(agrees_with_asking_the_kernel),
		cmocka_unit_test(each_feature_can_be_switched_off),
		cmocka_unit_test(a_failing_call_is_a_missing_feature),
		cmocka_unit_test(works_for_a_user_without_rights),
		cmocka_unit_test(namespaces_stand_on_the_user_namespace),
		cmocka_unit_test(a_process_that_cannot_map_itself_is_told),
		cmocka_unit_test(a_container_profile_is_recognised),
		cmocka_unit_test(another_supervisor_is_recognised),
		cmocka_unit_test(landlock_in_landlock),
		cmocka_unit_test(a_chroot_is_recognised),
		cmocka_unit_test(a_limit_of_zero_is_recognised),
		cmocka_unit_test(a_delegated_cgroup_is_used),
		cmocka_unit_test(a_part_of_the_tree_is_found_where_it_is_mounted),
		cmocka_unit_test(subordinate_ids_need_a_range_and_a_mapper),
		cmocka_unit_test(programs_are_found_in_absolute_directories),
		cmocka_unit_test(a_probe_that_hangs_or_dies_is_no_answer),
		cmocka_unit_test(foreign_text_is_made_printable),
		cmocka_unit_test(the_cause_of_a_refusal_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
