/*
 * Real calls of a child under a filter with guarded names, answered by this process.
 *
 * An attack is run twice: without the filter, where it must bring the guarded path into existence,
 * and under it, where it must not; this process looks. What is no attack is run twice as well, and
 * must be told the same and leave the same tree behind.
 *
 * Everything runs twice when started by root: as root without capabilities, which is what a keeper
 * started by root is, and as nobody.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/guard.h"
#include "jail/mediate.h"
#include "jail/mediate_name.h"
#include "jail/scratch.h"
#include "jail/target.h"
#include "jail/waiter.h"

#define NOBODY        65534
#define ANSWERS_MAX   160
#define PATH_SIZE     256
#define UNSET         (-1)
#define RACE_MS       1000
#define CHILD_SECONDS 40                          /* what hangs has failed */
#define FLAGS_SHOWN   (~(O_NOFOLLOW | O_CLOEXEC)) /* of F_GETFL */

/* base/free is the world without a filter, base/held the one with. Both are "w" here. */
static char base[64], free_dir[PATH_SIZE], held_dir[PATH_SIZE], guards[3][2 * PATH_SIZE];
static const char *const guarded[] = { guards[0], guards[1], guards[2] };
static const char *const guard_names[] = { ".git/hooks", "a/b/c", "secret" };

/* What the child was told, in memory that both see. */
static int *answers;

/* Something that must never be seen to exist while a child is served, or NULL. */
static const char *canary;

static int make_world(void **state)
{
	(void)state;
	strcpy(base, "/tmp/brig-guard-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(free_dir, sizeof(free_dir), "%s/free", base);
	snprintf(held_dir, sizeof(held_dir), "%s/held", base);
	for (size_t i = 0; i < ARRAY_SIZE(guard_names); i++)
		snprintf(guards[i], sizeof(guards[i]), "%s/%s", held_dir, guard_names[i]);
	answers = mmap(NULL, ANSWERS_MAX * sizeof(int), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(answers != MAP_FAILED);
	return 0;
}

static void remove_tree(const char *path)
{
	struct scratch scratch = SCRATCH_NONE;
	char parent[PATH_SIZE];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	*slash = '\0';
	strcpy(scratch.name, slash + 1);
	scratch.parent = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	scratch.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scratch.dir >= 0)
		assert_int_equal(scratch_remove(&scratch), 0);
	scratch_done(&scratch);
}

static int remove_world(void **state)
{
	(void)state;
	remove_tree(base);
	return munmap(answers, ANSWERS_MAX * sizeof(int));
}

static void make_directories(void)
{
	remove_tree(free_dir);
	remove_tree(held_dir);
	assert_int_equal(mkdir(free_dir, 0755), 0);
	assert_int_equal(mkdir(held_dir, 0755), 0);
}

struct child {
	pid_t pid;
	int listener; /* -EBADF without a filter */
};

static void enter_filter(int ready, const struct filter *filter)
{
	int listener = -1;

	if (sys_no_new_privs() == 0 && sys_drop_capabilities(0) == 0)
		listener = filter_listen(filter);
	if (listener < 0 || write(ready, &listener, sizeof(listener)) != sizeof(listener))
		_exit(98);
	/* The other side takes it out of this process. */
	if (read(ready, &listener, sizeof(listener)) != sizeof(listener))
		_exit(97);
	close(listener);
	close(ready);
}

static struct child start_free(void (*body)(void))
{
	struct child child = { .pid = fork(), .listener = -EBADF };

	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		alarm(CHILD_SECONDS);
		if (chdir(free_dir) < 0)
			_exit(99);
		body();
		_exit(0);
	}
	return child;
}

static struct child start_held(void (*body)(void))
{
	struct err err = ERR_NONE;
	struct filter filter;
	struct child child;
	int pair[2], number;

	assert_int_equal(filter_build(&(struct filter_spec){ .mediation = MEDIATE_NAMES,
							     .sockets = SOCKETS_UNIX },
				      &filter, &err),
			 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		alarm(CHILD_SECONDS);
		close(pair[0]);
		if (chdir(held_dir) < 0)
			_exit(99);
		enter_filter(pair[1], &filter);
		body();
		_exit(0);
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], &number, sizeof(number)), sizeof(number));
	child.listener = target_duplicate(child.pid, number);
	assert_true(child.listener >= 0);
	assert_int_equal(write(pair[0], &number, sizeof(number)), sizeof(number));
	close(pair[0]);
	return child;
}

static struct mediator mediator_of(int listener)
{
	return (struct mediator){ .listener = listener,
				  .mediation = MEDIATE_NAMES,
				  .guarded = guarded,
				  .guarded_count = ARRAY_SIZE(guarded) };
}

static bool exists(const char *dir, const char *name)
{
	char path[2 * PATH_SIZE];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return lstat(path, &st) == 0;
}

/* Answers until the child has ended; its wait status. How many questions there were. */
static int serve(struct child child, unsigned int *ret_questions)
{
	struct mediator m = mediator_of(child.listener);
	_cleanup_close_ int pidfd = sys_pidfd_open(child.pid);
	unsigned int questions = 0;
	int status;

	assert_true(pidfd >= 0);
	for (;;) {
		struct pollfd fds[] = { { .fd = m.listener, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN } };
		int r;

		assert_true(poll(fds, 2, 60000) > 0);
		if (fds[0].revents & POLLIN) {
			questions++;
			r = mediator_answer(&m, fds[0].revents);
			assert_true(r == 0 || r == -ENOENT || r == -EAGAIN || r == -EPIPE);
			assert_false(canary && exists(held_dir, canary));
		}
		if (fds[1].revents)
			break;
	}
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	fd_close(child.listener);
	if (ret_questions)
		*ret_questions = questions;
	return status;
}

static void forget(void)
{
	for (int i = 0; i < ANSWERS_MAX; i++)
		answers[i] = UNSET;
}

static unsigned int run_free(void (*body)(void))
{
	forget();
	assert_int_equal(serve(start_free(body), NULL), 0);
	return 0;
}

static unsigned int run_held(void (*body)(void))
{
	unsigned int questions;

	forget();
	assert_int_equal(serve(start_held(body), &questions), 0);
	return questions;
}

/* In the child: keeps the outcome of the next attempt. */
static unsigned int next_answer;

static long told(long r)
{
	answers[next_answer++] = r < 0 ? errno : 0;
	return r;
}

static void noted(int value)
{
	answers[next_answer++] = value;
}

#define TOLD(...) told(syscall(__VA_ARGS__))

#define CREATE (O_CREAT | O_RDWR | O_CLOEXEC)

static void put(const char *name)
{
	close(open(name, CREATE, 0644));
}

/* Attacks. Each brings .git/hooks, or a/b/c where it says so, into existence if nobody objects. */
static void by_mkdir(void)
{
	mkdir(".git", 0755);
	syscall(__NR_mkdirat, AT_FDCWD, ".git/hooks", 0755);
}

static void by_open(void)
{
	mkdir(".git", 0755);
	put(".git/hooks");
}

static void by_open_exclusive(void)
{
	mkdir(".git", 0755);
	close(open(".git/hooks", CREATE | O_EXCL, 0644));
}

static void by_openat2(void)
{
	struct open_how how = { .flags = O_CREAT | O_RDWR, .mode = 0644 };

	mkdir(".git", 0755);
	syscall(__NR_openat2, AT_FDCWD, ".git/hooks", &how, sizeof(how));
}

static void by_fifo(void)
{
	mkdir(".git", 0755);
	syscall(__NR_mknodat, AT_FDCWD, ".git/hooks", S_IFIFO | 0600, 0);
}

static void by_symlink(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	(void)!symlink("../x", ".git/hooks");
}

static void by_link(void)
{
	mkdir(".git", 0755);
	put("f");
	(void)!link("f", ".git/hooks");
}

static void by_rename(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	rename("x", ".git/hooks");
}

static void by_a_subtree(void)
{
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	rename("x", ".git");
}

static void by_a_subtree_on_an_empty_directory(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	rename("x", ".git");
}

static void by_a_deep_subtree(void)
{
	mkdir("x", 0755);
	mkdir("x/b", 0755);
	mkdir("x/b/c", 0755);
	rename("x", "a");
}

static void by_a_subtree_in_the_middle(void)
{
	mkdir("a", 0755);
	mkdir("x", 0755);
	mkdir("x/c", 0755);
	rename("x", "a/b");
}

static void by_moving_away_and_back(void)
{
	mkdir(".git", 0755);
	rename(".git", "z");
	mkdir("z/hooks", 0755);
	rename("z", ".git");
}

static void by_a_link_on_the_way(void)
{
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	(void)!symlink("x", ".git");
}

static void by_a_link_moved_on_the_way(void)
{
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	(void)!symlink("x", "s");
	rename("s", ".git");
}

static void by_a_link_to_a_link(void)
{
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	(void)!symlink("x", "s");
	syscall(__NR_linkat, AT_FDCWD, "s", AT_FDCWD, ".git", 0);
}

static void by_a_dangling_link(void)
{
	mkdir(".git", 0755);
	(void)!symlink(".git/hooks", "x");
	put("x");
}

static void by_dangling_links(void)
{
	mkdir(".git", 0755);
	mkdir("d", 0755);
	(void)!symlink("d/y", "x");
	(void)!symlink("../z", "d/y");
	(void)!symlink(".git/../.git/hooks", "z");
	put("x");
}

static void by_a_link_to_the_directory(void)
{
	mkdir(".git", 0755);
	(void)!symlink(".git", "x");
	mkdir("x/hooks", 0755);
}

static void by_exchange(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	syscall(__NR_renameat2, AT_FDCWD, "x", AT_FDCWD, ".git", RENAME_EXCHANGE);
}

static void by_exchange_the_other_way(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	mkdir("x/hooks", 0755);
	syscall(__NR_renameat2, AT_FDCWD, ".git", AT_FDCWD, "x", RENAME_EXCHANGE);
}

static void with_a_slash_behind(void)
{
	mkdir(".git", 0755);
	mkdir(".git/hooks///", 0755);
}

static void with_dots(void)
{
	mkdir(".git", 0755);
	mkdir("x", 0755);
	mkdir("./x/.././/.git/./hooks", 0755);
}

static void by_a_descriptor(void)
{
	mkdir(".git", 0755);
	syscall(__NR_mkdirat, open(".git", O_RDONLY | O_DIRECTORY), "hooks", 0755);
}

static void by_a_descriptor_that_moves(void)
{
	int fd;

	mkdir("x", 0755);
	fd = open("x", O_PATH | O_DIRECTORY);
	rename("x", ".git");
	syscall(__NR_mkdirat, fd, "hooks", 0755);
}

static void from_inside(void)
{
	mkdir(".git", 0755);
	(void)!chdir(".git");
	mkdir("hooks", 0755);
}

static void by_an_absolute_path(void)
{
	char path[PATH_MAX];

	mkdir(".git", 0755);
	(void)!getcwd(path, sizeof(path) - sizeof("/.git/hooks"));
	strcat(path, "/.git/hooks");
	mkdir(path, 0755);
}

static void through_own_cwd(void)
{
	mkdir(".git", 0755);
	mkdir("/proc/self/cwd/.git/hooks", 0755);
}

static void through_own_cwd_of_a_thread(void)
{
	mkdir(".git", 0755);
	put("/proc/thread-self/cwd/.git/hooks");
}

static void through_own_descriptor(void)
{
	char path[64];

	mkdir(".git", 0755);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/hooks", open(".git", O_PATH));
	mkdir(path, 0755);
}

static void through_own_root(void)
{
	char cwd[PATH_MAX / 2], path[PATH_MAX];

	mkdir(".git", 0755);
	snprintf(path, sizeof(path), "/proc/%d/root%s/.git/hooks", getpid(),
		 getcwd(cwd, sizeof(cwd)));
	mkdir(path, 0755);
}

static void through_a_link_to_proc(void)
{
	mkdir(".git", 0755);
	(void)!symlink("/proc/self/cwd/.git", "x");
	put("x/hooks");
}

static void by_a_file_without_a_name(void)
{
	char path[64];
	int fd = open(".", O_TMPFILE | O_RDWR, 0644);

	mkdir(".git", 0755);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	syscall(__NR_linkat, AT_FDCWD, path, AT_FDCWD, ".git/hooks", AT_SYMLINK_FOLLOW);
}

#ifdef __x86_64__
static void by_old_calls(void)
{
	syscall(__NR_mkdir, ".git", 0755);
	syscall(__NR_creat, ".git/hooks", 0644);
	syscall(__NR_open, ".git/hooks", O_CREAT | O_RDWR, 0644);
	syscall(__NR_mkdir, ".git/hooks", 0755);
	syscall(__NR_mknod, ".git/hooks", S_IFIFO | 0644, 0);
	syscall(__NR_symlink, "x", ".git/hooks");
	syscall(__NR_creat, "f", 0644);
	syscall(__NR_link, "f", ".git/hooks");
	syscall(__NR_rename, "f", ".git/hooks");
}
#endif

/* clang-format off */
#define ROW(name) { #name, name, ".git/hooks" }

static const struct attack {
	const char *what;
	void (*body)(void);
	const char *guard;
} attacks[] = {
	ROW(by_mkdir), ROW(by_open), ROW(by_open_exclusive), ROW(by_openat2), ROW(by_fifo),
	ROW(by_symlink), ROW(by_link), ROW(by_rename), ROW(by_a_subtree),
	ROW(by_a_subtree_on_an_empty_directory),
	{ "by_a_deep_subtree", by_a_deep_subtree, "a/b/c" },
	{ "by_a_subtree_in_the_middle", by_a_subtree_in_the_middle, "a/b/c" },
	ROW(by_moving_away_and_back), ROW(by_a_link_on_the_way), ROW(by_a_link_moved_on_the_way),
	ROW(by_a_link_to_a_link), ROW(by_a_dangling_link), ROW(by_dangling_links),
	ROW(by_a_link_to_the_directory), ROW(by_exchange), ROW(by_exchange_the_other_way),
	ROW(with_a_slash_behind), ROW(with_dots), ROW(by_a_descriptor),
	ROW(by_a_descriptor_that_moves), ROW(from_inside), ROW(by_an_absolute_path),
	ROW(through_own_cwd), ROW(through_own_cwd_of_a_thread), ROW(through_own_descriptor),
	ROW(through_own_root), ROW(through_a_link_to_proc), ROW(by_a_file_without_a_name),
#ifdef __x86_64__
	ROW(by_old_calls),
#endif
};
/* clang-format on */

static void no_attack_makes_a_guarded_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(attacks); i++) {
		const struct attack *a = &attacks[i];

		make_directories();
		run_free(a->body);
		if (!exists(free_dir, a->guard))
			fail_msg("%s does not work without guards either", a->what);
		canary = a->guard;
		run_held(a->body);
		canary = NULL;
		if (exists(held_dir, a->guard))
			fail_msg("%s: %s exists", a->what, a->guard);
	}
}

/* What an attack is told, and what stays free next to a guarded name. */
static void try_around(void)
{
	told(mkdir(".git", 0755));
	told(mkdir(".git/hooks", 0755));
	told(mkdir(".git/HOOKS", 0755));
	told(mkdir(".git/hooks.d", 0755));
	told(mkdir(".git/hook", 0755));
	told(mkdir("hooks", 0755));
	told(mkdir(".git/hooks.d/hooks", 0755));
	told(mkdir("a", 0755));
	told(mkdir("a/b", 0755));
	told(mkdir("a/b/c", 0755));
	told(mkdir("a/b/d", 0755));
	told(rename("a", "moved"));
	told(mkdir("moved/b/c", 0755));
	told(rename("moved", "a"));
	told(open("a", CREATE, 0644));
	told(unlink("a"));
	told(symlink("moved", "a"));
	told(open("secret", CREATE, 0600));
	told(rename("hooks", "secret"));
	told(rename("hooks", "public"));
	told(syscall(__NR_renameat2, AT_FDCWD, ".git", AT_FDCWD, "public", RENAME_EXCHANGE));
	told(rename(".git/hooks.d", ".git/hooks"));
	told(symlink("/", "moved/b/e"));
}

static void only_the_guarded_names_are_refused(void **state)
{
	static const int errors[] = { 0,      EACCES, EACCES, 0, 0,      0,      0, 0,
				      0,      EACCES, 0,      0, 0,      EACCES, 0, 0,
				      EACCES, EACCES, EACCES, 0, EACCES, EACCES, 0 };

	(void)state;
	make_directories();
	run_held(try_around);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		if (answers[i] != errors[i])
			fail_msg("attempt %u: error %d, not %d", i, answers[i], errors[i]);
	assert_int_equal(answers[ARRAY_SIZE(errors)], UNSET);
}

/* What the host makes at a guarded path is not the sandbox's to fill. */
static void try_below(void)
{
	told(open("secret/f", CREATE, 0600));
	told(mkdir("secret/d", 0700));
	told(mkdir("secret/there/d", 0700));
	told(rename("secret/there", "out"));
}

static void nothing_is_made_below_a_guarded_name(void **state)
{
	char path[3 * PATH_SIZE];

	(void)state;
	make_directories();
	assert_int_equal(mkdir(guards[2], 0755), 0);
	snprintf(path, sizeof(path), "%s/there", guards[2]);
	assert_int_equal(mkdir(path, 0755), 0);
	run_held(try_below);
	for (int i = 0; i < 3; i++)
		assert_int_equal(answers[i], EACCES);
	assert_int_equal(answers[3], 0);
}

/* Links of /proc that are somebody else's, the keeper's first of all. */
static void try_proc(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	told(open(path, O_RDWR | O_CREAT, 0600));
	fd = open(path, O_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	told(open(path, O_RDWR | O_CREAT, 0600));
	snprintf(path, sizeof(path), "/proc/%d/cwd/made", getppid());
	told(mkdir(path, 0755));
	snprintf(path, sizeof(path), "/proc/%d", getppid());
	fd = open(path, O_RDONLY | O_DIRECTORY);
	told(openat(fd, "mem", O_RDWR | O_CREAT, 0600));
	snprintf(path, sizeof(path), "/proc/self/fd/%d/mem", fd);
	told(open(path, O_RDWR | O_CREAT, 0600));
	(void)!chdir("/proc/self");
	told(open("mem", O_RDWR | O_CREAT, 0600));
}

static void other_processes_are_refused(void **state)
{
	(void)state;
	make_directories();
	run_held(try_proc);
	for (int i = 0; i < 6; i++)
		if (answers[i] != EACCES)
			fail_msg("attempt %d: %s", i, strerror(answers[i]));
	assert_int_equal(answers[6], UNSET);
}

/* Twins: told the same with and without. */
static char long_name[NAME_MAX + 2], long_path[PATH_MAX + 1];

static void open_twin(const char *name, int flags)
{
	long fd = TOLD(__NR_openat, AT_FDCWD, name, flags, 0666);

	noted((int)fd);
	if (fd < 0)
		return;
	noted(fcntl((int)fd, F_GETFL) & FLAGS_SHOWN);
	noted(fcntl((int)fd, F_GETFD));
	if ((flags & O_ACCMODE) != O_RDONLY)
		told(write((int)fd, "xy", 2));
	close((int)fd);
}

static void twin_opens(void)
{
	/* clang-format off */
	static const struct {
		const char *name;
		int flags;
	} opens[] = {
		{ "new", O_RDWR }, { "new", O_RDWR | O_EXCL }, { "new", O_WRONLY | O_APPEND },
		{ "new", O_RDONLY }, { "cloexec", O_RDWR | O_CLOEXEC | O_EXCL },
		{ "nonblock", O_RDWR | O_NONBLOCK | O_SYNC }, { "full", O_WRONLY | O_TRUNC },
		{ "readonly", O_WRONLY }, { "readonly", O_RDONLY }, { "d", O_RDWR },
		{ "d", O_RDONLY }, { "d/", O_RDONLY }, { "d", O_RDONLY | O_DIRECTORY },
		{ "newdir", O_RDONLY | O_DIRECTORY }, { "new/", O_RDWR }, { "none/", O_RDWR },
		{ ".", O_RDONLY }, { "d/..", O_RDONLY | O_EXCL }, { "/", O_RDONLY },
		{ "", O_RDWR }, { "none/x", O_RDWR }, { "full/x", O_RDWR },
		{ "closed/x", O_RDWR }, { "closed/none/x", O_RDWR }, { "shut/x", O_RDWR },
		{ "shut/../through", O_RDWR }, { "to-full", O_WRONLY },
		{ "to-full", O_WRONLY | O_NOFOLLOW }, { "to-full", O_WRONLY | O_EXCL },
		{ "to-none", O_WRONLY }, { "to-nowhere", O_WRONLY },
		{ "to-nowhere", O_WRONLY | O_NOFOLLOW }, { "to-d", O_RDONLY },
		{ "to-d/inside", O_RDWR }, { "to-d/", O_RDWR }, { "loop", O_RDWR },
		{ "loop/x", O_RDWR }, { "via-self", O_RDWR }, { "/dev/null", O_RDWR | O_TRUNC },
		{ "/dev/full", O_WRONLY }, { "/proc/self/comm", O_WRONLY | O_TRUNC },
		{ "/proc/thread-self/comm", O_WRONLY }, { "/proc/self/none", O_WRONLY },
		{ "/proc/self/fd/99", O_WRONLY }, { "/proc/self", O_RDONLY },
		{ "/proc/none", O_RDWR }, { "/proc/self/exe", O_WRONLY },
		{ "/proc/self/root", O_WRONLY }, { "path", O_PATH },
		{ "tmp", O_TMPFILE | O_RDWR }, { "access", O_ACCMODE },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(opens); i++)
		open_twin(opens[i].name, opens[i].flags | O_CREAT);
}

static void twin_modes(void)
{
	umask(027);
	told(open("u1", CREATE, 0777));
	told(mkdir("u2", 01777));
	told(mknod("u3", S_IFIFO | 0666, 0));
	umask(0);
	told(open("u4", CREATE, 0666));
	told(mkdir("u5", 0777));
	told(open("g/file", CREATE, 0666));
	told(mkdir("g/dir", 0777));
	told(open("u6", CREATE, 01666));
}

static void twin_mistakes(void)
{
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = open("full", O_RDONLY);
	struct rlimit none;

	told(open(long_name, CREATE, 0666));
	told(open(long_path, CREATE, 0666));
	told(mkdir(long_name, 0777));
	TOLD(__NR_openat, 99, "x", O_CREAT, 0666);
	TOLD(__NR_openat, file, "x", O_CREAT, 0666);
	TOLD(__NR_openat, -1, "x", O_CREAT, 0666);
	TOLD(__NR_openat, AT_FDCWD, page, O_CREAT, 0666);
	TOLD(__NR_openat, AT_FDCWD, NULL, O_CREAT, 0666);
	TOLD(__NR_mkdirat, 99, "x", 0777);
	TOLD(__NR_mkdirat, AT_FDCWD, page, 0777);
	TOLD(__NR_symlinkat, page, AT_FDCWD, "x");
	getrlimit(RLIMIT_NOFILE, &none);
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	TOLD(__NR_openat, AT_FDCWD, "full", O_CREAT | O_RDWR, 0666);
}

static void twin_directories(void)
{
	static const char *const names[] = { "m1",      "m1",       "m2///",  "full",   "full/",
					     "to-none", "to-none/", "to-d",   "to-d/",  ".",
					     "..",      "d/.",      "/",      "",       "none/x",
					     "full/x",  "closed/x", "shut/x", "loop/x", "/dev/null",
					     "/proc/x", "d/../m3",  "to-d/m4" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		told(mkdir(names[i], 0755));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		told(mknod(names[i], S_IFREG | 0644, 0));
	told(mknod("n1", S_IFIFO | 0644, 0));
	told(mknod("n2/", S_IFREG | 0644, 0));
	told(mknod("n3", S_IFSOCK | 0644, 0));
}

static void twin_links(void)
{
	int tmp = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
	char own[32];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", tmp);
	told(symlink("anything", "s1"));
	told(symlink("anything", "s1"));
	told(symlink("", "s2"));
	told(symlink("x", "s3/"));
	told(symlink("x", "none/s"));
	told(symlink(long_path, "s4"));
	told(link("full", "l1"));
	told(link("full", "l1"));
	told(link("none", "l2"));
	told(link("d", "l3"));
	told(link("full/", "l4"));
	told(link("full", "l5/"));
	told(link("to-full", "l6"));
	told(linkat(AT_FDCWD, "to-full", AT_FDCWD, "l7", AT_SYMLINK_FOLLOW));
	told(linkat(AT_FDCWD, "to-nowhere", AT_FDCWD, "l8", AT_SYMLINK_FOLLOW));
	told(linkat(AT_FDCWD, "full", AT_FDCWD, "l9", 0x8000));
	told(linkat(AT_FDCWD, own, AT_FDCWD, "l10", AT_SYMLINK_FOLLOW));
	told(linkat(tmp, "", AT_FDCWD, "l11", 0));
	told(linkat(AT_FDCWD, "/proc/self/comm", AT_FDCWD, "l12", 0));
	told(linkat(AT_FDCWD, "full", AT_FDCWD, "/dev/shm/none/x", 0));
	told(linkat(AT_FDCWD, "to-d/", AT_FDCWD, "l13", 0));
	told(linkat(AT_FDCWD, "to-d/", AT_FDCWD, "l14", AT_SYMLINK_FOLLOW));
	told(linkat(AT_FDCWD, "loop", AT_FDCWD, "l15", AT_SYMLINK_FOLLOW));
}

static void twin_moves(void)
{
	put("r1");
	told(rename("r1", "r2"));
	told(rename("r1", "r2"));
	told(rename("r2", "r2"));
	told(rename("r2", "d"));
	told(rename("d", "r2"));
	told(rename("d", "g"));
	told(rename("d", "g/d2"));
	told(rename("g/d2", "d"));
	told(rename("d", "d/d"));
	told(rename("d/.", "x"));
	told(rename("..", "x"));
	told(rename("d", "x/."));
	told(rename("r2/", "r3"));
	told(rename("r2", "r3/"));
	told(rename("d/", "d3/"));
	told(rename("d3", "d"));
	told(rename("to-nowhere", "moved-link"));
	put("r4");
	told(rename("r4", "to-full"));
	told(rename("r2", "closed/x"));
	told(rename("closed/x", "r9"));
	told(rename("", "x"));
	told(rename("r2", ""));
	told(rename("/", "x"));
	told(rename("r2", "/dev/null/x"));
	TOLD(__NR_renameat2, AT_FDCWD, "r2", AT_FDCWD, "full", RENAME_NOREPLACE);
	TOLD(__NR_renameat2, AT_FDCWD, "r2", AT_FDCWD, "none", RENAME_EXCHANGE);
	TOLD(__NR_renameat2, AT_FDCWD, "r2", AT_FDCWD, "d", RENAME_EXCHANGE);
	TOLD(__NR_renameat2, AT_FDCWD, "r2", AT_FDCWD, "d", 0x80);
	TOLD(__NR_renameat2, AT_FDCWD, "r2", AT_FDCWD, "d", RENAME_EXCHANGE | RENAME_NOREPLACE);
	TOLD(__NR_renameat2, 99, "r2", AT_FDCWD, "x", 0);
	TOLD(__NR_renameat2, AT_FDCWD, "r2", 99, "x", 0);
}

/* Descriptors of one's own in all their spellings, with a pipe, a file and a name behind them. */
static void twin_descriptors(void)
{
	char text[8] = "", name[32];
	int ends[2], fd;

	told(pipe2(ends, 0));
	told(dup2(ends[1], 1));
	open_twin("/dev/stdout", O_CREAT | O_WRONLY | O_TRUNC);
	told(read(ends[0], text, sizeof(text)));
	noted(memcmp(text, "xy", 2));
	snprintf(name, sizeof(name), "/dev/fd/%d", ends[1]);
	open_twin(name, O_CREAT | O_WRONLY);
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", getpid(), ends[1]);
	open_twin(name, O_CREAT | O_WRONLY);
	open_twin(name, O_CREAT | O_WRONLY | O_NOFOLLOW);
	open_twin(name, O_CREAT | O_WRONLY | O_EXCL);
	noted((int)read(ends[0], text, sizeof(text)));
	fd = open("gone", CREATE, 0600);
	told(unlink("gone"));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	open_twin(name, O_CREAT | O_WRONLY);
	noted((int)lseek(fd, 0, SEEK_END));
	open_twin(name, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND);
	noted((int)lseek(fd, 0, SEEK_END));
	told(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[0]);
	open_twin(name, O_CREAT | O_WRONLY);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", open("d", O_RDONLY));
	open_twin(name, O_CREAT | O_RDONLY);
	strcat(name, "/below");
	open_twin(name, O_CREAT | O_RDWR);
	setsid();
	open_twin("/dev/tty", O_CREAT | O_RDWR);
}

/* A terminal of a session of one's own. */
static void twin_terminal(void)
{
	int master, slave, unlock = 0, number = -1, tty;
	char name[32], text[8] = "";

	setsid();
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CREAT, 0600);
	told(master);
	told(ioctl(master, TIOCSPTLCK, &unlock));
	told(ioctl(master, TIOCGPTN, &number));
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	slave = open(name, O_RDWR);
	told(slave);
	tty = open("/dev/tty", O_RDWR | O_CREAT, 0600);
	told(tty);
	told(write(tty, "mine", 4));
	told(read(master, text, 4));
	noted(memcmp(text, "mine", 4));
}

static void twin_fifo(void)
{
	char text[8] = "";
	pid_t reader;
	int fd;

	told(mkfifo("p", 0600));
	open_twin("p", O_CREAT | O_WRONLY | O_NONBLOCK);
	open_twin("p", O_CREAT | O_RDONLY | O_NONBLOCK);
	open_twin("p", O_CREAT | O_RDWR);
	open_twin("p", O_CREAT | O_RDWR | O_EXCL);
	reader = fork();
	if (reader == 0) {
		alarm(CHILD_SECONDS / 4);
		/* Made while the other waits: the keeper does not. */
		usleep(200000);
		told(mkdir("meanwhile", 0755));
		fd = open("p", O_RDONLY);
		_exit(fd < 0 || read(fd, text, 4) != 4 || memcmp(text, "word", 4) != 0);
	}
	fd = open("p", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
	next_answer++;
	told(fd);
	noted(fcntl(fd, F_GETFL) & FLAGS_SHOWN);
	noted(fcntl(fd, F_GETFD));
	told(write(fd, "word", 4));
	waitpid(reader, answers + next_answer++, 0);
}

static void make_twin(const char *dir)
{
	char path[PATH_SIZE];
	int fd;

	assert_int_equal(chdir(dir), 0);
	fd = open("full", CREATE, 0644);
	assert_int_equal(write(fd, "content", 7), 7);
	close(fd);
	put("readonly");
	assert_int_equal(chmod("readonly", 0444), 0);
	assert_int_equal(mkdir("d", 0755), 0);
	assert_int_equal(mkdir("g", 0755), 0);
	assert_int_equal(chmod("g", 02755), 0);
	put("g/inside");
	assert_int_equal(mkdir("closed", 0755), 0);
	assert_int_equal(chmod("closed", 0555), 0);
	assert_int_equal(mkdir("shut", 0), 0);
	snprintf(path, sizeof(path), "%s/to-none-made", dir);
	assert_int_equal(symlink("full", "to-full"), 0);
	assert_int_equal(symlink(path, "to-none"), 0);
	assert_int_equal(symlink("none/at/all", "to-nowhere"), 0);
	assert_int_equal(symlink("d", "to-d"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(symlink("/proc/self/cwd/via-self-made", "via-self"), 0);
	assert_int_equal(chdir("/"), 0);
}

/* Modes, sizes and names of all that is there. */
static void list_tree(const char *dir, char *text, size_t size)
{
	char command[2 * PATH_SIZE];
	size_t len;
	FILE *f;

	snprintf(command, sizeof(command),
		 "cd %s && find . -printf '%%p %%m %%y %%s %%n %%G\\n' 2>/dev/null | "
		 "sed 's/^\\(.* d\\) [0-9]* /\\1 /; s/^\\(\\.\\/to-none.* l\\) [0-9]* /\\1 /' | "
		 "sort",
		 dir);
	f = popen(command, "r");
	assert_non_null(f);
	len = fread(text, 1, size - 1, f);
	text[len] = '\0';
	pclose(f);
}

static const struct twin {
	const char *what;
	void (*body)(void);
} twins[] = {
	{ "opens", twin_opens },
	{ "modes", twin_modes },
	{ "mistakes", twin_mistakes },
	{ "directories", twin_directories },
	{ "links", twin_links },
	{ "moves", twin_moves },
	{ "descriptors", twin_descriptors },
	{ "terminal", twin_terminal },
	{ "fifo", twin_fifo },
};

static void run_twin(const struct twin *twin)
{
	static char free_list[65536], held_list[65536];
	int free_answers[ANSWERS_MAX];

	make_directories();
	make_twin(free_dir);
	make_twin(held_dir);
	run_free(twin->body);
	memcpy(free_answers, answers, sizeof(free_answers));
	assert_true(run_held(twin->body) > 0);
	for (int i = 0; i < ANSWERS_MAX; i++)
		if (answers[i] != free_answers[i])
			fail_msg("%s, answer %d: %d, not %d", twin->what, i, answers[i],
				 free_answers[i]);
	assert_int_equal(answers[ANSWERS_MAX - 1], UNSET);
	list_tree(free_dir, free_list, sizeof(free_list));
	list_tree(held_dir, held_list, sizeof(held_list));
	assert_string_equal(held_list, free_list);
	assert_true(strlen(held_list) > 100);
}

static void twins_are_told_the_same(void **state)
{
	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	memset(long_path, 'p', sizeof(long_path) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(twins); i++)
		run_twin(&twins[i]);
}

/* Everyday programs; every line must succeed. */
static const char everyday[] =
	"set -e\n"
	"mkdir -p deep/er/est .git; echo text > file; echo more >> file; cat file > /dev/null\n"
	"echo out > /dev/stdout; echo err > /dev/stderr; echo x | tee copy > /dev/null\n"
	"cp -a file deep/; mv deep/file deep/moved; ln deep/moved hard; ln -s hard soft\n"
	"sed -i s/text/TEXT/ file; grep -q TEXT file; cp soft through; test -s through\n"
	"tar cf t.tar deep file; mkdir un; tar xf t.tar -C un; cmp un/file file\n"
	"install -m 2755 -d shared; touch -d @1 stamp; mktemp -d -p . >/dev/null; mktemp -p . "
	">tmp\n"
	"mkfifo pipe; (echo through > pipe) & read line < pipe; test \"$line\" = through; wait\n"
	"if command -v python3 >tmp; then python3 -c 'import sqlite3, tempfile, shutil, os\n"
	"c = sqlite3.connect(\"db\"); c.execute(\"create table t(x)\"); c.commit(); c.close()\n"
	"shutil.copytree(\"deep\", \"again\"); os.replace(\"db\", \"db2\")\n"
	"d = tempfile.mkdtemp(dir=\".\"); open(d + \"/f\", \"x\").close(); shutil.rmtree(d)'; fi\n"
	"if command -v git >tmp; then (mkdir repo; cd repo; git init -q . 2>../tmp; : > f\n"
	"git add f; git -c user.name=n -c user.email=e@x commit -qm m; git gc -q; git status); fi "
	">tmp\n"
	"if command -v gcc >tmp; then echo 'int main(void){return 0;}' > m.c; gcc m.c -o m; ./m; "
	"fi\n"
	"if mkdir .git/hooks 2>tmp; then exit 11; fi; if true 2>tmp >secret; then exit 12; fi\n"
	"if mkdir -p a/b/c 2>tmp; then exit 13; fi; test -d a/b\n"
	"if mv deep/er .git/hooks 2>tmp; then exit 14; fi; if ln -s x secret 2>tmp; then exit 15; "
	"fi\n";

static void run_script(void)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 1);
	if (!getenv("BRIG_TEST_LOUD"))
		dup2(null, 2);
	setenv("HOME", ".", 1);
	setenv("TMPDIR", ".", 1);
	execl("/bin/sh", "sh", "-c", everyday, (char *)NULL);
	_exit(96);
}

static void everyday_programs_work(void **state)
{
	unsigned int questions;

	(void)state;
	make_directories();
	questions = run_held(run_script);
	print_message("%u questions\n", questions);
	for (size_t i = 0; i < ARRAY_SIZE(guard_names); i++)
		assert_false(exists(held_dir, guard_names[i]));
}

/* Waiters: as many as may, an end to them when the target is gone. */
static void *wait_for_reader(void *arg)
{
	int fd = open("p", O_CREAT | O_WRONLY, 0600);

	(void)arg;
	if (fd < 0)
		__atomic_fetch_add(&answers[errno == EAGAIN ? 0 : 1], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void many_waiters(void)
{
	pthread_t threads[WAITERS_MAX + 4];

	answers[0] = answers[1] = 0;
	mkfifo("p", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, wait_for_reader, NULL);
	while (__atomic_load_n(&answers[0], __ATOMIC_SEQ_CST) < 4)
		usleep(1000);
	/* The rest is still waiting when this process ends. */
	usleep(50000);
}

static void waiters_are_bounded_and_end(void **state)
{
	int waiters = 0;
	pid_t pid = 0;

	(void)state;
	make_directories();
	run_held(many_waiters);
	assert_int_equal(answers[0], 4);
	assert_int_equal(answers[1], 0);
	for (int i = 0; i < 500 && pid >= 0; i++) {
		pid = waitpid(-1, NULL, WNOHANG);
		waiters += pid > 0;
		if (pid == 0)
			usleep(10000);
	}
	/* All are gone, and some may be from before. */
	assert_int_equal(pid, -1);
	assert_true(waiters >= WAITERS_MAX);
	/* And there is room again. */
	run_twin(&(const struct twin){ "fifo", twin_fifo });
}

/* Races. The canary is looked for after every answer. */
static volatile char shared_path[PATH_SIZE];
static _Atomic bool stop;

static void write_path(const char *path)
{
	for (size_t i = 0; i == 0 || path[i - 1]; i++)
		shared_path[i] = path[i];
}

static void *rewrite_path(void *arg)
{
	(void)arg;
	while (!stop) {
		write_path("./xy/hooks");
		write_path(".git/hooks");
	}
	return NULL;
}

static void *make_by_path(void *arg)
{
	(void)arg;
	while (!stop) {
		if (mkdir((const char *)(uintptr_t)shared_path, 0755) == 0)
			answers[0]++;
		else if (errno == EACCES)
			answers[1]++;
		rmdir("xy/hooks");
	}
	return NULL;
}

static void *flip_link(void *arg)
{
	(void)arg;
	while (!stop) {
		(void)!symlink("xy", "l.new");
		rename("l.new", "l");
		(void)!symlink(".git", "l.new");
		rename("l.new", "l");
	}
	return NULL;
}

static void *make_through_link(void *arg)
{
	(void)arg;
	while (!stop) {
		int fd = open("l/hooks", CREATE, 0600);

		if (fd >= 0) {
			answers[2]++;
			close(fd);
		} else if (errno == EACCES) {
			answers[3]++;
		}
		unlink("xy/hooks");
	}
	return NULL;
}

static void *move_and_fill(void *arg)
{
	(void)arg;
	while (!stop) {
		if (rename(".git", "away") == 0)
			answers[4]++;
		if (mkdir("away/hooks", 0755) == 0)
			answers[5]++;
		rename("away", ".git");
		syscall(__NR_renameat2, AT_FDCWD, "away", AT_FDCWD, ".git", RENAME_EXCHANGE);
		mkdir(".git", 0755);
		rmdir("away/hooks");
		rmdir("away");
	}
	return NULL;
}

static void race(void)
{
	void *(*const runners[])(void *) = { rewrite_path, make_by_path, flip_link,
					     make_through_link, move_and_fill };
	pthread_t threads[ARRAY_SIZE(runners)];

	memset(answers, 0, 6 * sizeof(*answers));
	mkdir(".git", 0755);
	mkdir("xy", 0755);
	write_path("./xy/hooks");
	for (size_t i = 0; i < ARRAY_SIZE(runners); i++)
		pthread_create(&threads[i], NULL, runners[i], NULL);
	usleep(RACE_MS * 1000);
	stop = true;
	for (size_t i = 0; i < ARRAY_SIZE(runners); i++)
		pthread_join(threads[i], NULL);
}

static void a_race_is_not_won(void **state)
{
	(void)state;
	make_directories();
	canary = ".git/hooks";
	run_held(race);
	canary = NULL;
	print_message("by path %d made, %d refused; through a link %d made, %d refused; moved %d, "
		      "filled %d\n",
		      answers[0], answers[1], answers[2], answers[3], answers[4], answers[5]);
	for (int i = 0; i < 6; i++)
		assert_true(answers[i] > 0);
	assert_false(exists(held_dir, ".git/hooks"));
}

static void *make_forever(void *arg)
{
	(void)arg;
	for (;;) {
		put("f");
		mkdir("d", 0755);
		rmdir("d");
	}
	return NULL;
}

static void die_busy(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, make_forever, NULL);
	usleep(20000);
	raise(SIGKILL);
}

static unsigned int open_descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void a_target_may_die_at_any_moment(void **state)
{
	unsigned int before = open_descriptors();

	(void)state;
	make_directories();
	for (int i = 0; i < 20; i++) {
		forget();
		assert_int_equal(serve(start_held(die_busy), NULL), SIGKILL);
	}
	assert_int_equal(open_descriptors(), before);
}

static void shut_itself(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	told(mkdir("d", 0755));
	told(open("f", CREATE, 0644));
}

static void nobody_shuts_himself(void **state)
{
	(void)state;
	make_directories();
	run_held(shut_itself);
	assert_int_equal(answers[0], 0);
	assert_int_equal(answers[1], 0);
	assert_true(exists(held_dir, "d") && exists(held_dir, "f"));
}

/* In a mount namespace: base/alias is base/held, base/inner is base/held/.git. */
static void through_aliases(void)
{
	char path[PATH_SIZE];

	told(mkdir("../alias/.git/hooks", 0755));
	told(mkdir("../inner/hooks", 0755));
	told(open("../inner/hooks", CREATE, 0644));
	told(mkdir("../alias/x", 0755));
	told(mkdir("../alias/x/b", 0755));
	told(mkdir("../alias/x/b/c", 0755));
	told(rename("../alias/x", "../alias/a"));
	told(symlink("x", "../alias/a"));
	told(open("../alias/secret", CREATE, 0644));
	told(mkdir("../inner/other", 0755));
	/* Out of reach by its own path, not by the other. */
	told(chmod(".", 0));
	snprintf(path, sizeof(path), "%s/inner/hooks", base);
	told(mkdir(path, 0755));
	snprintf(path, sizeof(path), "%s/inner/others", base);
	told(mkdir(path, 0755));
}

static void a_second_mount_is_no_way_around(void **state)
{
	static const int errors[] = { EACCES, EACCES, EACCES, 0, 0,      0, EACCES,
				      EACCES, EACCES, 0,      0, EACCES, 0 };
	char alias[PATH_SIZE], inner[PATH_SIZE], git[PATH_SIZE + 8];

	(void)state;
	make_directories();
	snprintf(alias, sizeof(alias), "%s/alias", base);
	snprintf(inner, sizeof(inner), "%s/inner", base);
	snprintf(git, sizeof(git), "%s/.git", held_dir);
	assert_int_equal(mkdir(alias, 0755), 0);
	assert_int_equal(mkdir(inner, 0755), 0);
	assert_int_equal(mkdir(git, 0755), 0);
	assert_int_equal(mount(held_dir, alias, NULL, MS_BIND, NULL), 0);
	assert_int_equal(mount(git, inner, NULL, MS_BIND, NULL), 0);
	/* As a keeper, whom a mode of 0 stops. */
	assert_int_equal(sys_drop_capabilities(1ull << CAP_SYS_ADMIN), 0);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
	run_held(through_aliases);
	assert_int_equal(chmod(held_dir, 0755), 0);
	assert_int_equal(sys_raise_capabilities(1ull << CAP_SYS_ADMIN), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		if (answers[i] != errors[i])
			fail_msg("attempt %u: error %d, not %d", i, answers[i], errors[i]);
	assert_false(exists(held_dir, ".git/hooks") || exists(held_dir, "a") ||
		     exists(held_dir, "secret"));
	assert_true(exists(held_dir, ".git/other"));
	assert_int_equal(umount2(alias, MNT_DETACH), 0);
	assert_int_equal(umount2(inner, MNT_DETACH), 0);
}

/* The keeper and its child share a session and its terminal. */
static int master_of_ours = -EBADF;

static void write_to_terminal(void)
{
	int tty = open("/dev/tty", O_RDWR | O_CREAT | O_TRUNC, 0600);

	told(tty);
	told(write(tty, "ours", 4));
}

static void the_terminal_of_the_session(void **state)
{
	char text[8] = "";

	(void)state;
	make_directories();
	run_held(write_to_terminal);
	assert_int_equal(answers[0], 0);
	assert_int_equal(answers[1], 0);
	assert_int_equal(read(master_of_ours, text, 4), 4);
	assert_string_equal(text, "ours");
}

static bool get_terminal(void)
{
	int unlock = 0, number, slave;
	char name[32];

	master_of_ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (setsid() < 0 || master_of_ours < 0 || ioctl(master_of_ours, TIOCSPTLCK, &unlock) < 0 ||
	    ioctl(master_of_ours, TIOCGPTN, &number) < 0)
		return false;
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	slave = open(name, O_RDWR | O_CLOEXEC);
	return slave >= 0 && ioctl(slave, TIOCSCTTY, 0) == 0;
}

static int run_with_terminal(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_terminal_of_the_session) };

	if (!get_terminal()) {
		print_message("no pseudo terminals here: not tested\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, make_world, remove_world);
}

static bool write_map(const char *name, unsigned int id)
{
	char text[32];

	snprintf(text, sizeof(text), "%u %u 1", id, id);
	return file_write_at(AT_FDCWD, name, text) == 0;
}

static int run_with_mounts(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_second_mount_is_no_way_around) };
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !write_map("/proc/self/uid_map", uid) ||
	    file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
	    !write_map("/proc/self/gid_map", gid)) {
		print_message("no user namespaces here: a second mount is not tested\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, make_world, remove_world);
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_attack_makes_a_guarded_name),
		cmocka_unit_test(only_the_guarded_names_are_refused),
		cmocka_unit_test(nothing_is_made_below_a_guarded_name),
		cmocka_unit_test(other_processes_are_refused),
		cmocka_unit_test(twins_are_told_the_same),
		cmocka_unit_test(everyday_programs_work),
		cmocka_unit_test(waiters_are_bounded_and_end),
		cmocka_unit_test(a_race_is_not_won),
		cmocka_unit_test(a_target_may_die_at_any_moment),
		cmocka_unit_test(nobody_shuts_himself),
	};

	return cmocka_run_group_tests(tests, make_world, remove_world);
}

static int run_as(uid_t uid, int (*group)(void))
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (uid != geteuid() && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
					 setresuid(uid, uid, uid) < 0))
			exit(99);
		if (sys_no_new_privs() < 0 || sys_drop_capabilities(0) < 0 ||
		    prctl(PR_SET_DUMPABLE, 1) < 0)
			exit(99);
		exit(group());
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(void)
{
	int (*const groups[])(void) = { run_all, run_with_terminal, run_with_mounts };
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		failed |= run_as(geteuid(), groups[i]);
		if (geteuid() == 0)
			failed |= run_as(NOBODY, groups[i]);
	}
	return failed != 0;
}
