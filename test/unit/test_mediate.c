/*
 * Real calls of a child under a mediated filter, answered by this process. The verdicts come from
 * outside: what the child was told is compared, and then the files are looked at from here.
 *
 * Everything runs twice when started by root: as root without capabilities, which is what a keeper
 * started by root is, and as nobody.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/keeper.h"
#include "jail/mediate.h"
#include "jail/numbers.h"
#include "jail/target.h"

#define NOBODY         65534
#define ANSWERS_MAX    64
#define ROUNDS         20000
#define SWAP_ROUNDS    5000
#define THREADS        200
#define OLD_MODE       0640
#define NEW_MODE       0751
#define OLD_TIME       1000
#define NEW_TIME       12345
#define UNSET          (-1)
#define PROC_LINK_SIZE 40
#define PATH_SIZE      256
#define IOPRIO_CLASS   13 /* the class stands above these bits */

/* base/in is writable, base/look is readable, base/out and base/in-other are neither. */
static char base[64], in_dir[PATH_SIZE], look_dir[PATH_SIZE];
static bool has_xattrs;

/* What the child was told, in memory that both see: 0 or an errno for each attempt. */
static int *answers;

static const char *below(const char *name)
{
	static char paths[8][PATH_SIZE];
	static unsigned int next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	snprintf(path, PATH_SIZE, "%s/%s", base, name);
	return path;
}

static void make_file(const char *name)
{
	const struct timespec times[2] = { { .tv_sec = OLD_TIME }, { .tv_sec = OLD_TIME } };
	const char *path = below(name);
	int fd;

	unlink(path);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, OLD_MODE), 0);
	if (has_xattrs)
		assert_int_equal(fsetxattr(fd, "user.t", "old", 3, 0), 0);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static struct stat stat_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(below(name), &st), 0);
	return st;
}

/* Every change of an inode moves its ctime. */
static void assert_unchanged(const char *name, const struct stat *before)
{
	struct stat now = stat_of(name);

	assert_int_equal(now.st_mode, before->st_mode);
	assert_int_equal(now.st_ctim.tv_sec, before->st_ctim.tv_sec);
	assert_int_equal(now.st_ctim.tv_nsec, before->st_ctim.tv_nsec);
}

static int make_world(void **state)
{
	int fd;

	(void)state;
	strcpy(base, "/tmp/brig-mediate-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(in_dir, sizeof(in_dir), "%s/in", base);
	snprintf(look_dir, sizeof(look_dir), "%s/look", base);
	assert_int_equal(mkdir(in_dir, 0755), 0);
	assert_int_equal(mkdir(look_dir, 0755), 0);
	assert_int_equal(mkdir(below("out"), 0755), 0);
	assert_int_equal(mkdir(below("in-other"), 0755), 0);
	fd = open(below("in/probe"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	has_xattrs = fsetxattr(fd, "user.t", "x", 1, 0) == 0;
	close(fd);
	if (!has_xattrs)
		print_message("no user attributes on this file system: not tested\n");
	answers = mmap(NULL, ANSWERS_MAX * sizeof(int), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(answers != MAP_FAILED);
	return 0;
}

static int remove_world(void **state)
{
	struct scratch scratch = SCRATCH_NONE;

	(void)state;
	strcpy(scratch.name, strrchr(base, '/') + 1);
	scratch.parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	scratch.dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(scratch_remove(&scratch), 0);
	scratch_done(&scratch);
	return munmap(answers, ANSWERS_MAX * sizeof(int));
}

/* Of the filters that children get, and of the mediator. */
static struct filter_spec spec = { .mediation = MEDIATE_METADATA };

static struct mediator mediator_of(int listener)
{
	static const char *writable[2], *readable[3];

	writable[0] = in_dir;
	writable[1] = "/dev/null";
	readable[0] = look_dir;
	readable[1] = in_dir;
	readable[2] = "/proc";
	return (struct mediator){ .listener = listener,
				  .mediation = spec.mediation,
				  .writable = writable,
				  .writable_count = ARRAY_SIZE(writable),
				  .readable = readable,
				  .readable_count = ARRAY_SIZE(readable) };
}

/* A child that runs body in base/in under the filter. */
struct child {
	pid_t pid;
	int listener;
};

static void child_main(int ready, void (*body)(void), const struct filter *filter)
{
	int listener;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	if (chdir(in_dir) < 0 || sys_no_new_privs() < 0)
		_exit(99);
	listener = filter_listen(filter);
	if (listener < 0 || write(ready, &listener, sizeof(listener)) != sizeof(listener))
		_exit(98);
	/* The other side takes it out of this process. */
	if (read(ready, &listener, sizeof(listener)) != sizeof(listener))
		_exit(97);
	close(listener);
	body();
	_exit(0);
}

static struct child start(void (*body)(void))
{
	struct err err = ERR_NONE;
	struct filter filter;
	struct child child;
	int pair[2], number;

	for (int i = 0; i < ANSWERS_MAX; i++)
		answers[i] = UNSET;
	assert_int_equal(filter_build(&spec, &filter, &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0)
		child_main(pair[1], body, &filter);
	close(pair[1]);
	assert_int_equal(read(pair[0], &number, sizeof(number)), sizeof(number));
	child.listener = target_duplicate(child.pid, number);
	assert_true(child.listener >= 0);
	assert_int_equal(write(pair[0], &number, sizeof(number)), sizeof(number));
	close(pair[0]);
	return child;
}

/* Answers until the child has ended well; how many questions there were. */
static unsigned int serve(struct child child)
{
	unsigned int questions = 0;
	struct mediator m = mediator_of(child.listener);
	_cleanup_close_ int pidfd = sys_pidfd_open(child.pid);
	int status;

	assert_true(pidfd >= 0);
	for (;;) {
		struct pollfd fds[] = { { .fd = m.listener, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN } };
		int r;

		assert_true(poll(fds, 2, 60000) > 0);
		if (fds[0].revents & POLLIN) {
			r = mediator_answer(&m, fds[0].revents);
			questions += r == 0;
			assert_true(r == 0 || r == -ENOENT || r == -EAGAIN || r == -EPIPE);
		}
		if (fds[1].revents)
			break;
	}
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	assert_int_equal(status, 0);
	close(child.listener);
	return questions;
}

static unsigned int run(void (*body)(void))
{
	return serve(start(body));
}

/* In the child: keeps the outcome of attempt number i. */
static void told(unsigned int i, long r)
{
	answers[i] = r < 0 ? errno : 0;
}

#define TOLD(i, ...) told(i, syscall(__VA_ARGS__))

static void assert_told(unsigned int i, int error)
{
	if (answers[i] != error)
		fail_msg("attempt %u: %s, not %s", i,
			 answers[i] == UNSET ? "not made" : strerror(answers[i]), strerror(error));
}

/* A file in every spelling that a call can take. */
struct place {
	const char *absolute, *relative;
	int dir, fd; /* dir holds a file "f" */
	char own[6][PROC_LINK_SIZE];
};

enum effect { MODE, OWNER, TIMES, ATTRIBUTE, REMOVAL };

struct form {
	const char *what;
	long (*call)(const struct place *p);
	enum effect effect;
};

static const struct timespec new_times[2] = { { .tv_sec = NEW_TIME }, { .tv_sec = NEW_TIME } };

#define FORM(name, ...)                                \
	static long form_##name(const struct place *p) \
	{                                              \
		return syscall(__VA_ARGS__);           \
	}

FORM(fchmod, __NR_fchmod, p->fd, NEW_MODE)
FORM(fchmodat, __NR_fchmodat, p->dir, "f", NEW_MODE)
FORM(fchmodat_absolute, __NR_fchmodat, -1, p->absolute, NEW_MODE)
FORM(fchmodat_cwd, __NR_fchmodat, AT_FDCWD, p->relative, NEW_MODE)
FORM(fchmodat_self, __NR_fchmodat, AT_FDCWD, p->own[0], NEW_MODE)
FORM(fchmodat_thread, __NR_fchmodat, AT_FDCWD, p->own[1], NEW_MODE)
FORM(fchmodat_dev, __NR_fchmodat, AT_FDCWD, p->own[2], NEW_MODE)
FORM(fchmodat_pid, __NR_fchmodat, AT_FDCWD, p->own[3], NEW_MODE)
FORM(fchmodat_below_self, __NR_fchmodat, AT_FDCWD, p->own[4], NEW_MODE)
FORM(fchmodat2, __NR_fchmodat2, p->dir, "f", NEW_MODE, AT_SYMLINK_NOFOLLOW)
FORM(fchmodat2_empty, __NR_fchmodat2, p->fd, "", NEW_MODE, AT_EMPTY_PATH)
FORM(fchown, __NR_fchown, p->fd, getuid(), getgid())
FORM(fchownat, __NR_fchownat, p->dir, "f", getuid(), getgid(), AT_SYMLINK_NOFOLLOW)
FORM(fchownat_empty, __NR_fchownat, p->fd, "", getuid(), getgid(), AT_EMPTY_PATH)
FORM(utimensat, __NR_utimensat, p->dir, "f", new_times, 0)
FORM(utimensat_nofollow, __NR_utimensat, AT_FDCWD, p->relative, new_times, AT_SYMLINK_NOFOLLOW)
FORM(futimens, __NR_utimensat, p->fd, NULL, new_times, 0)
FORM(setxattr, __NR_setxattr, p->absolute, "user.t", "new", 3, 0)
FORM(lsetxattr, __NR_lsetxattr, p->relative, "user.t", "new", 3, XATTR_REPLACE)
FORM(fsetxattr, __NR_fsetxattr, p->fd, "user.t", "new", 3, 0)
FORM(removexattr, __NR_removexattr, p->absolute, "user.t")
FORM(lremovexattr, __NR_lremovexattr, p->relative, "user.t")
FORM(fremovexattr, __NR_fremovexattr, p->fd, "user.t")
FORM(removexattrat, __NR_removexattrat, p->dir, "f", 0, "user.t")

static long form_setxattrat(const struct place *p)
{
	struct {
		uint64_t value;
		uint32_t size, flags;
	} how = { (uint64_t)(uintptr_t) "new", 3, 0 };

	return syscall(__NR_setxattrat, p->dir, "f", 0, "user.t", &how, sizeof(how));
}

#ifdef __x86_64__
static const long new_timevals[4] = { NEW_TIME, 0, NEW_TIME, 999999 };

FORM(chmod, __NR_chmod, p->absolute, NEW_MODE)
FORM(chown, __NR_chown, p->absolute, getuid(), getgid())
FORM(lchown, __NR_lchown, p->relative, getuid(), getgid())
FORM(utime, __NR_utime, p->absolute, ((const long[]){ NEW_TIME, NEW_TIME }))
FORM(utimes, __NR_utimes, p->relative, new_timevals)
FORM(futimesat, __NR_futimesat, p->dir, "f", new_timevals)
FORM(futimesat_null, __NR_futimesat, p->fd, NULL, new_timevals)
#endif

#define ROW(name, effect)                  \
	{                                  \
#name, form_##name, effect \
	}

static const struct form forms[] = {
	ROW(fchmod, MODE),
	ROW(fchmodat, MODE),
	ROW(fchmodat_absolute, MODE),
	ROW(fchmodat_cwd, MODE),
	ROW(fchmodat_self, MODE),
	ROW(fchmodat_thread, MODE),
	ROW(fchmodat_dev, MODE),
	ROW(fchmodat_pid, MODE),
	ROW(fchmodat_below_self, MODE),
	ROW(fchmodat2, MODE),
	ROW(fchmodat2_empty, MODE),
	ROW(fchown, OWNER),
	ROW(fchownat, OWNER),
	ROW(fchownat_empty, OWNER),
	ROW(utimensat, TIMES),
	ROW(utimensat_nofollow, TIMES),
	ROW(futimens, TIMES),
	ROW(setxattr, ATTRIBUTE),
	ROW(lsetxattr, ATTRIBUTE),
	ROW(fsetxattr, ATTRIBUTE),
	ROW(setxattrat, ATTRIBUTE),
	ROW(removexattr, REMOVAL),
	ROW(lremovexattr, REMOVAL),
	ROW(fremovexattr, REMOVAL),
	ROW(removexattrat, REMOVAL),
#ifdef __x86_64__
	ROW(chmod, MODE),
	ROW(chown, OWNER),
	ROW(lchown, OWNER),
	ROW(utime, TIMES),
	ROW(utimes, TIMES),
	ROW(futimesat, TIMES),
	ROW(futimesat_null, TIMES),
#endif
};

static const struct form *tried;

static struct place open_place(const char *dir, const char *relative)
{
	struct place p = { .relative = relative };
	char name[32];

	snprintf(name, sizeof(name), "%s/f", dir);
	p.absolute = below(name);
	p.dir = open(below(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p.fd = open(p.absolute, O_RDONLY | O_CLOEXEC);
	snprintf(p.own[0], sizeof(p.own[0]), "/proc/self/fd/%d", p.fd);
	snprintf(p.own[1], sizeof(p.own[1]), "/proc/thread-self/fd/%d", p.fd);
	snprintf(p.own[2], sizeof(p.own[2]), "/dev/fd/%d", p.fd);
	snprintf(p.own[3], sizeof(p.own[3]), "/proc/%d/fd/%d", getpid(), p.fd);
	snprintf(p.own[4], sizeof(p.own[4]), "/proc/self/fd/%d/f", p.dir);
	return p;
}

static void try_form(void)
{
	const struct place inside = open_place("in", "f"), outside = open_place("out", "../out/f");

	told(0, tried->call(&inside));
	told(1, tried->call(&outside));
}

static bool took_effect(enum effect effect, const char *name, const struct stat *before)
{
	struct stat st = stat_of(name);
	char value[8] = "";
	ssize_t len = getxattr(below(name), "user.t", value, sizeof(value));

	switch (effect) {
	case MODE:
		return (st.st_mode & 07777) == NEW_MODE;
	case OWNER:
		return st.st_ctim.tv_sec != before->st_ctim.tv_sec ||
		       st.st_ctim.tv_nsec != before->st_ctim.tv_nsec;
	case TIMES:
		return st.st_mtim.tv_sec == NEW_TIME && st.st_atim.tv_sec == NEW_TIME;
	case ATTRIBUTE:
		return len == 3 && memcmp(value, "new", 3) == 0;
	case REMOVAL:
		return len < 0 && errno == ENODATA;
	}
	return false;
}

static void every_call_in_every_spelling(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct stat in, out;

		tried = &forms[i];
		if (!has_xattrs && tried->effect >= ATTRIBUTE)
			continue;
		make_file("in/f");
		make_file("out/f");
		in = stat_of("in/f");
		out = stat_of("out/f");
		/* More than a tick of the clock that ctime is made of. */
		usleep(12000);
		run(try_form);
		if (answers[0] != 0)
			fail_msg("%s inside: %s", tried->what, strerror(answers[0]));
		if (!took_effect(tried->effect, "in/f", &in))
			fail_msg("%s inside: no effect", tried->what);
		if (answers[1] != EPERM)
			fail_msg("%s outside: %s", tried->what, strerror(answers[1]));
		assert_unchanged("out/f", &out);
	}
}

/* Links and dots: what counts is the object. */
static void try_links(void)
{
	TOLD(0, __NR_fchmodat, AT_FDCWD, "out-link", 0777);
	TOLD(1, __NR_fchmodat, AT_FDCWD, "out-dir/f", 0777);
	TOLD(2, __NR_fchmodat, AT_FDCWD, "../out/in-link", NEW_MODE);
	TOLD(3, __NR_fchownat, AT_FDCWD, "out-link", getuid(), getgid(), AT_SYMLINK_NOFOLLOW);
	TOLD(4, __NR_utimensat, AT_FDCWD, "out-link", new_times, AT_SYMLINK_NOFOLLOW);
	TOLD(5, __NR_fchmodat2, AT_FDCWD, "out-link", 0777, AT_SYMLINK_NOFOLLOW);
	TOLD(6, __NR_lsetxattr, "out-link", "user.t", "new", 3, 0);
	TOLD(7, __NR_fchmodat, AT_FDCWD, "../in/../out/f", 0777);
	TOLD(8, __NR_fchmodat, AT_FDCWD, "../out/../in/g", NEW_MODE);
	TOLD(9, __NR_fchmodat, AT_FDCWD, "../in-other/f", 0777);
	TOLD(10, __NR_fchmodat, AT_FDCWD, "../in", 0755);
	TOLD(11, __NR_fchmodat, AT_FDCWD, "..", 0777);
	TOLD(12, __NR_fchmodat, AT_FDCWD, "hard", NEW_MODE);
	TOLD(13, __NR_fchmodat, AT_FDCWD, "../out/hard", 0777);
	TOLD(14, __NR_fchmodat, AT_FDCWD, "proc-link/cwd/../out/f", 0777);
	TOLD(15, __NR_fchmodat2, AT_FDCWD, "", 0755, AT_EMPTY_PATH);
	TOLD(16, __NR_utimensat, AT_FDCWD, "../out/in-link", new_times, AT_SYMLINK_NOFOLLOW);
}

static void links_and_dots_do_not_lead_out(void **state)
{
	static const int errors[] = { EPERM, EPERM, 0,     0, 0,     EOPNOTSUPP, EPERM, EPERM, 0,
				      EPERM, 0,     EPERM, 0, EPERM, ELOOP,      0,     EPERM };
	struct stat out, other, top, to_in;

	(void)state;
	make_file("in/f");
	make_file("in/g");
	make_file("out/f");
	make_file("out/hard");
	make_file("in-other/f");
	assert_int_equal(symlink("../out/f", below("in/out-link")), 0);
	assert_int_equal(symlink("../out", below("in/out-dir")), 0);
	assert_int_equal(symlink("../in/f", below("out/in-link")), 0);
	assert_int_equal(symlink("/proc/self", below("in/proc-link")), 0);
	assert_int_equal(link(below("out/hard"), below("in/hard")), 0);
	out = stat_of("out/f");
	other = stat_of("in-other/f");
	top = stat_of(".");
	to_in = stat_of("out/in-link");
	run(try_links);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	assert_unchanged("out/f", &out);
	assert_unchanged("in-other/f", &other);
	assert_unchanged(".", &top);
	assert_unchanged("out/in-link", &to_in);
	assert_int_equal(stat_of("in/f").st_mode & 07777, NEW_MODE);
	assert_int_equal(stat_of("in/g").st_mode & 07777, NEW_MODE);
	/* One inode with a name inside: as it can be written to, so it can be changed. */
	assert_int_equal(stat_of("out/hard").st_mode & 07777, NEW_MODE);
	assert_int_equal(stat_of("in/out-link").st_mtim.tv_sec, NEW_TIME);
}

/* Descriptors of what has no path any more, never had one, or is everybody's. */
static void try_descriptors(void)
{
	int in = open("gone", O_CREAT | O_RDWR | O_CLOEXEC, 0600), pipes[2], pair[2];
	int out = open("../out/gone", O_RDONLY | O_CLOEXEC);
	int name = (int)syscall(__NR_memfd_create, "in", 0);
	int tmp = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	told(0, unlink("gone"));
	told(1, unlink("../out/gone"));
	TOLD(2, __NR_fchmod, in, NEW_MODE);
	TOLD(3, __NR_fchmod, out, NEW_MODE);
	TOLD(4, __NR_fchmod, name, NEW_MODE);
	told(5, pipe2(pipes, O_CLOEXEC));
	/* It might be the caller's, and its mode what keeps the other end closed. */
	TOLD(6, __NR_fchmod, pipes[0], 0600);
	told(7, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	TOLD(8, __NR_fchown, pair[0], getuid(), getgid());
	/* With modes that they have: if this ever succeeds, nothing is broken but the test. */
	TOLD(9, __NR_fchmod, eventfd(0, 0), 0600);
	TOLD(10, __NR_fchmod, open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), 0444);
	TOLD(11, __NR_fchmod, open("/dev/null", O_RDWR | O_CLOEXEC), 0666);
	TOLD(12, __NR_utimensat, AT_FDCWD, "/dev/null", NULL, 0);
	TOLD(13, __NR_fchmod, open("/proc/self/comm", O_RDONLY | O_CLOEXEC), 0);
	TOLD(14, __NR_fchmod, tmp, NEW_MODE);
}

static void descriptors_without_a_place(void **state)
{
	static const int errors[] = { 0, 0,     0,     EPERM, 0,     0,     EPERM, 0,
				      0, EPERM, EPERM, EPERM, EPERM, EPERM, 0 };
	struct stat null_before, null_after;

	(void)state;
	make_file("out/gone");
	assert_int_equal(stat("/dev/null", &null_before), 0);
	run(try_descriptors);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	assert_int_equal(stat("/dev/null", &null_after), 0);
	assert_int_equal(null_after.st_ctim.tv_sec, null_before.st_ctim.tv_sec);
	assert_int_equal(null_after.st_ctim.tv_nsec, null_before.st_ctim.tv_nsec);
}

static void try_set_id(void)
{
	TOLD(0, __NR_fchmodat, AT_FDCWD, "f", 04755);
	TOLD(1, __NR_fchmodat, AT_FDCWD, "f", 02755);
	TOLD(2, __NR_fchmodat, AT_FDCWD, "d", 02755);
	TOLD(3, __NR_openat, AT_FDCWD, "new", O_CREAT | O_RDWR, 04755);
	TOLD(4, __NR_openat, AT_FDCWD, ".", O_TMPFILE | O_RDWR, 02755);
	TOLD(5, __NR_mknodat, AT_FDCWD, "new", S_IFREG | 06755, 0);
	TOLD(6, __NR_openat, AT_FDCWD, "f", O_RDONLY, 04755);
	TOLD(7, __NR_openat2, AT_FDCWD, "f", NULL, 0);
	TOLD(8, __NR_openat, AT_FDCWD, "plain", O_CREAT | O_RDWR, 0755);
	TOLD(9, __NR_fchmodat, AT_FDCWD, "f", 01755);
	TOLD(10, __NR_fchmodat, AT_FDCWD, "d", 04755);
}

static void no_setuid_file_is_left_behind(void **state)
{
	static const int errors[] = {
		EPERM, EPERM, 0, EPERM, EPERM, EPERM, 0, ENOSYS, 0, 0, EPERM
	};

	(void)state;
	make_file("in/f");
	assert_int_equal(mkdir(below("in/d"), 0755), 0);
	run(try_set_id);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	assert_int_equal(stat_of("in/f").st_mode & 07777, 01755);
	assert_int_equal(stat_of("in/d").st_mode & 07777, 02755);
	assert_int_equal(access(below("in/new"), F_OK), -1);
}

/* Without a place in any list: a container's mounts judge. */
static void try_container_modes(void)
{
	int dir = open("../out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file = open("../out/f", O_RDONLY | O_CLOEXEC);
	char own[PROC_LINK_SIZE];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", dir);
	TOLD(0, __NR_fchmodat, AT_FDCWD, "../out/f", 04755);
	TOLD(1, __NR_fchmodat, AT_FDCWD, below("out/f"), 02755);
	TOLD(2, __NR_fchmod, file, 06755);
	TOLD(3, __NR_fchmodat2, dir, "f", 04755, AT_SYMLINK_NOFOLLOW);
	TOLD(4, __NR_fchmodat, AT_FDCWD, "../out/d", 04755);
	TOLD(5, __NR_fchmodat, AT_FDCWD, "../out/link", 02755);
	TOLD(6, __NR_fchmodat, AT_FDCWD, "none", 02755);
	TOLD(7, __NR_fchmodat, AT_FDCWD, "../out/d", 02711);
	TOLD(8, __NR_fchmodat, AT_FDCWD, below("out"), 02755);
	TOLD(9, __NR_fchmod, dir, 02750);
	TOLD(10, __NR_fchmodat, AT_FDCWD, own, 02755);
	/* These do not ask. */
	TOLD(11, __NR_fchmodat, AT_FDCWD, "../out/f", 01711);
	TOLD(12, __NR_fchownat, AT_FDCWD, "../out/f", getuid(), getgid(), 0);
	TOLD(13, __NR_utimensat, AT_FDCWD, "../out/f", new_times, 0);
	TOLD(14, __NR_openat, AT_FDCWD, "new", O_CREAT | O_RDWR, 04755);
	TOLD(15, __NR_openat, AT_FDCWD, "plain-in-container", O_CREAT | O_RDWR, 0755);
	TOLD(16, __NR_setpriority, PRIO_PROCESS, getppid(), getpriority(PRIO_PROCESS, 0));
}

static void a_container_asks_for_set_id_only(void **state)
{
	static const int errors[] = { EPERM, EPERM, EPERM, EPERM, EPERM, EPERM, ENOENT, 0, 0,
				      0,     0,     0,     0,     0,     EPERM, 0,      0 };

	(void)state;
	make_file("out/f");
	assert_int_equal(mkdir(below("out/d"), 0755), 0);
	assert_int_equal(symlink("f", below("out/link")), 0);
	spec.mediation = MEDIATE_MODES;
	assert_int_equal(run(try_container_modes), 11);
	spec.mediation = MEDIATE_METADATA;
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	assert_int_equal(stat_of("out/f").st_mode & 07777, 01711);
	assert_int_equal(stat_of("out/f").st_mtim.tv_sec, NEW_TIME);
	assert_int_equal(stat_of("out/d").st_mode & 07777, 02711);
	assert_int_equal(stat_of("out").st_mode & 07777, 02755);
	assert_int_equal(chmod(below("out"), 0755), 0);
}

static void try_attributes(void)
{
	/* Version 2; user rwx, group r-x, others r-x. */
	static const uint32_t acl[] = { 2, 0x70001, ~0u, 0x50004, UINT32_MAX, 0x50020, ~0u };
	static char large[64 * 1024 + 1], name[300] = "user.";

	memset(name + 5, 'n', sizeof(name) - 6);
	TOLD(0, __NR_setxattr, "f", "security.brig", "x", 1, 0);
	TOLD(1, __NR_setxattr, "f", "trusted.brig", "x", 1, 0);
	TOLD(2, __NR_removexattr, "f", "security.capability");
	TOLD(3, __NR_setxattr, "f", name, "x", 1, 0);
	TOLD(4, __NR_setxattr, "f", "", "x", 1, 0);
	TOLD(5, __NR_setxattr, "f", "user.large", large, sizeof(large), 0);
	TOLD(6, __NR_setxattr, "f", "user.t", (char *)1, 4, 0);
	TOLD(7, __NR_setxattr, "f", "user.t", "x", 1, XATTR_CREATE);
	TOLD(8, __NR_setxattr, "f", "user.empty", NULL, 0, 0);
	TOLD(9, __NR_setxattr, "f", "system.posix_acl_access", acl, sizeof(acl), 0);
	TOLD(10, __NR_setxattrat, AT_FDCWD, "f", 0, "user.t", acl, (size_t)8);
	/* Some file system's own, where the kernel would say that it is not supported. */
	TOLD(11, __NR_setxattr, "f", "brig.own", "x", 1, 0);
}

static void attributes_keep_to_their_namespaces(void **state)
{
	static const int errors[] = {
		EPERM, EPERM, EPERM, ERANGE, ERANGE, E2BIG, EFAULT, EEXIST, 0
	};

	(void)state;
	if (!has_xattrs)
		skip();
	make_file("in/f");
	run(try_attributes);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	assert_true(answers[9] == 0 || answers[9] == EOPNOTSUPP);
	if (answers[9] == 0)
		assert_int_equal(stat_of("in/f").st_mode & 0777, 0755);
	assert_told(10, EINVAL);
	assert_told(11, EPERM);
}

/* Of base/in/f, in the parent and the child. */
static int shared_fd;

/* What the kernel would say. */
static void try_mistakes(void)
{
	static char endless[PATH_MAX + 1], others_link[PROC_LINK_SIZE];
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(page + 4096, 4096, PROT_NONE);
	memset(endless, 'a', sizeof(endless) - 1);
	snprintf(others_link, sizeof(others_link), "/proc/%d/fd/%d", getppid(), shared_fd);
	TOLD(0, __NR_fchmodat, AT_FDCWD, "none", 0700);
	TOLD(1, __NR_fchmodat, AT_FDCWD, "f/x", 0700);
	TOLD(2, __NR_fchmodat, AT_FDCWD, "loop", 0700);
	TOLD(3, __NR_fchmodat, AT_FDCWD, endless, 0700);
	TOLD(4, __NR_fchmod, 999, 0700);
	TOLD(5, __NR_fchmodat, 999, "f", 0700);
	TOLD(6, __NR_fchmodat, AT_FDCWD, (char *)1, 0700);
	TOLD(7, __NR_fchmodat, AT_FDCWD, NULL, 0700);
	TOLD(8, __NR_fchmodat2, AT_FDCWD, "f", 0700, 0x8000);
	TOLD(9, __NR_fchmodat, AT_FDCWD, "", 0700);
	TOLD(10, __NR_fchmodat, AT_FDCWD, "/proc/self/cwd/f", 0700);
	TOLD(11, __NR_fchmodat, AT_FDCWD, "/proc/self/comm", 0700);
	TOLD(12, __NR_fchmodat, AT_FDCWD, "/proc/self/fd/999", 0700);
	TOLD(13, __NR_fchmodat, AT_FDCWD, others_link, 0700);
	TOLD(14, __NR_utimensat, AT_FDCWD, NULL, NULL, 0);
	TOLD(15, __NR_utimensat, AT_FDCWD, "f", (void *)8, 0);
	memcpy(page + 4096 - 2, "f", 2);
	TOLD(16, __NR_fchmodat, AT_FDCWD, page + 4096 - 2, NEW_MODE);
	memset(page + 4096 - 2, 'f', 2);
	TOLD(17, __NR_fchmodat, AT_FDCWD, page + 4096 - 2, 0700);
	TOLD(18, __NR_fchmod, -1, 0700);
	TOLD(19, __NR_fchmodat, open("f", O_RDONLY | O_CLOEXEC), "f", 0700);
	prctl(PR_SET_DUMPABLE, 0);
	TOLD(20, __NR_fchmodat, AT_FDCWD, "f", NEW_MODE);
}

static void mistakes_get_the_errno_of_the_kernel(void **state)
{
	static const int errors[] = { ENOENT, ENOTDIR, ELOOP,  ENAMETOOLONG, EBADF, EBADF, EFAULT,
				      EFAULT, EINVAL,  ENOENT, ELOOP,        EPERM, EBADF };

	(void)state;
	make_file("in/f");
	assert_int_equal(symlink("loop", below("in/loop")), 0);
	shared_fd = open(below("in/f"), O_RDONLY | O_CLOEXEC);
	run(try_mistakes);
	close(shared_fd);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
	/* Of another process, although the object is inside: the link is not the target's own. */
	assert_told(13, ELOOP);
	assert_told(14, EFAULT);
	assert_told(15, EFAULT);
	assert_told(16, 0);
	assert_told(17, EFAULT);
	assert_told(18, EBADF);
	assert_told(19, ENOTDIR);
	/* It asked for its memory to be closed, and nothing came of it. */
	assert_told(20, 0);
	assert_int_equal(stat_of("in/f").st_mode & 07777, NEW_MODE);
}

/* The watch must be the child's own: an event comes out of its descriptor. */
static void try_watches(void)
{
	int watcher = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char event[512];
	int fd;

	TOLD(0, __NR_inotify_add_watch, watcher, "../look", IN_CREATE);
	fd = open("../look/new", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	close(fd);
	told(1, read(watcher, event, sizeof(event)));
	TOLD(2, __NR_inotify_add_watch, watcher, "../out", IN_CREATE);
	TOLD(3, __NR_inotify_add_watch, watcher, "../out/f", IN_ACCESS);
	TOLD(4, __NR_inotify_add_watch, watcher, "f", IN_ACCESS | IN_ONLYDIR);
	TOLD(5, __NR_inotify_add_watch, watcher, "to-out", IN_ACCESS);
	TOLD(6, __NR_inotify_add_watch, watcher, "to-out", IN_ATTRIB | IN_DONT_FOLLOW);
	TOLD(7, __NR_inotify_add_watch, 999, "f", IN_ACCESS);
	TOLD(8, __NR_inotify_add_watch, fd = open("f", O_RDONLY | O_CLOEXEC), "f", IN_ACCESS);
	TOLD(9, __NR_inotify_add_watch, watcher, "f", 0);
	TOLD(10, __NR_inotify_add_watch, watcher, "/proc/self/comm", IN_ACCESS);
	close(open("../out/f", O_RDONLY | O_CLOEXEC));
	told(11, read(watcher, event, sizeof(event)));
}

static void watches_need_a_readable_tree(void **state)
{
	static const int errors[] = { 0, 0,     EACCES, EACCES, ENOTDIR, EACCES,
				      0, EBADF, EINVAL, EINVAL, EACCES,  EAGAIN };

	(void)state;
	make_file("in/f");
	make_file("out/f");
	assert_int_equal(symlink("../out/f", below("in/to-out")), 0);
	run(try_watches);
	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++)
		assert_told(i, errors[i]);
}

static pid_t foreign;

static void *hold_still(void *arg)
{
	*(_Atomic pid_t *)arg = (pid_t)syscall(__NR_gettid);
	for (;;)
		pause();
	return NULL;
}

static void try_scheduling(void)
{
	const struct sched_param param = { 0 };
	const uint64_t attr[6] = { 48 | (uint64_t)SCHED_BATCH << 32, 0, 7 };
	const unsigned long cpus = 1;
	_Atomic pid_t tid = 0;
	pthread_t thread;
	pid_t child;

	TOLD(0, __NR_setpriority, PRIO_PROCESS, foreign, 5);
	TOLD(1, __NR_ioprio_set, 1, foreign, 3 << IOPRIO_CLASS);
	TOLD(2, __NR_sched_setscheduler, foreign, SCHED_BATCH, &param);
	TOLD(3, __NR_sched_setattr, foreign, attr, 0);
	TOLD(4, __NR_sched_setaffinity, foreign, sizeof(cpus), &cpus);
	TOLD(5, __NR_sched_setparam, foreign, &param);
	TOLD(6, __NR_setpriority, PRIO_PGRP, 0, 5);
	TOLD(7, __NR_setpriority, PRIO_USER, 0, 5);
	TOLD(8, __NR_setpriority, PRIO_PROCESS, getppid(), 5);
	TOLD(9, __NR_setpriority, PRIO_PROCESS, 0x3ffffff, 5);
	TOLD(10, __NR_setpriority, PRIO_PROCESS, 0, 1);
	TOLD(11, __NR_setpriority, PRIO_PROCESS, getpid(), 2);
	pthread_create(&thread, NULL, hold_still, &tid);
	while (!tid)
		sched_yield();
	TOLD(12, __NR_setpriority, PRIO_PROCESS, tid, 3);
	answers[13] = getpriority(PRIO_PROCESS, (id_t)tid) == 3 ? 0 : EINVAL;
	TOLD(14, __NR_sched_setaffinity, tid, sizeof(cpus), &cpus);
	child = fork();
	if (child == 0)
		pause();
	TOLD(15, __NR_sched_setscheduler, child, SCHED_BATCH, &param);
	kill(child, SIGKILL);
}

/* A process of the same user that does not descend from us. */
static pid_t start_foreign(void)
{
	int ends[2];
	pid_t pid, middle;

	assert_int_equal(pipe(ends), 0);
	middle = fork();
	if (middle == 0) {
		pid = fork();
		if (pid == 0) {
			close(ends[1]);
			/* Until the end of the test, whatever it is. */
			prctl(PR_SET_NAME, "foreign");
			alarm(60);
			pause();
			_exit(0);
		}
		_exit(write(ends[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	assert_int_equal(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void scheduling_stays_in_the_family(void **state)
{
	cpu_set_t before, after;

	(void)state;
	foreign = start_foreign();
	/* Without the filter it works. */
	assert_int_equal(setpriority(PRIO_PROCESS, (id_t)foreign, 1), 0);
	assert_int_equal(sched_getaffinity(foreign, sizeof(before), &before), 0);
	run(try_scheduling);
	for (unsigned int i = 0; i < 9; i++)
		assert_told(i, EPERM);
	assert_told(9, ESRCH);
	for (unsigned int i = 10; i < 16; i++)
		assert_told(i, 0);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)foreign), 1);
	assert_int_equal(sched_getscheduler(foreign), SCHED_OTHER);
	assert_int_equal(sched_getaffinity(foreign, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	assert_int_equal(getpriority(PRIO_PROCESS, 0), 0);
	kill(foreign, SIGKILL);
}

/* A path that changes under the keeper's eyes, and what it goes through. */
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
		write_path("../in/ff");
		write_path("../out/f");
	}
	return NULL;
}

static void *swap_directory(void *arg)
{
	(void)arg;
	while (!stop)
		syscall(__NR_renameat2, AT_FDCWD, "real", AT_FDCWD, "fake", 2 /* exchange */);
	return NULL;
}

static void race(void *(*other)(void *), const char *path, unsigned int rounds)
{
	pthread_t thread;

	answers[0] = answers[1] = answers[2] = 0;
	pthread_create(&thread, NULL, other, NULL);
	for (unsigned int i = 0; i < rounds; i++) {
		long r = syscall(__NR_fchmodat, AT_FDCWD, path, 0700 + (i & 7));

		answers[r == 0 ? 0 : errno == EPERM ? 1 : 2]++;
	}
	stop = true;
	pthread_join(thread, NULL);
}

static void race_path(void)
{
	write_path("../in/ff");
	race(rewrite_path, (const char *)(uintptr_t)shared_path, ROUNDS);
}

static void race_directory(void)
{
	race(swap_directory, "real/f", SWAP_ROUNDS);
}

static void a_race_is_not_won(void **state)
{
	struct stat out;

	(void)state;
	make_file("in/ff");
	make_file("out/f");
	assert_int_equal(mkdir(below("in/real"), 0755), 0);
	make_file("in/real/f");
	assert_int_equal(symlink("../out", below("in/fake")), 0);
	out = stat_of("out/f");
	run(race_path);
	print_message("path: %d inside, %d refused, %d torn\n", answers[0], answers[1], answers[2]);
	assert_int_equal(answers[0] + answers[1] + answers[2], ROUNDS);
	assert_true(answers[0] > 0 && answers[1] > 0);
	assert_unchanged("out/f", &out);
	run(race_directory);
	print_message("directory: %d inside, %d refused\n", answers[0], answers[1]);
	assert_true(answers[0] > 0 && answers[1] > 0);
	assert_unchanged("out/f", &out);
}

static void one_call(void)
{
	TOLD(0, __NR_fchmodat, AT_FDCWD, "f", NEW_MODE);
}

static void a_waiting_target_can_be_killed(void **state)
{
	struct child child;
	struct mediator m;
	struct pollfd fd;
	int status;

	(void)state;
	make_file("in/f");
	child = start(one_call);
	m = mediator_of(child.listener);
	fd = (struct pollfd){ .fd = child.listener, .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 10000), 1);
	kill(child.pid, SIGKILL);
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	assert_true(WIFSIGNALED(status));
	/* As poll() said before it was killed, and says now. */
	assert_int_equal(mediator_answer(&m, fd.revents), -ENOENT);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(mediator_answer(&m, fd.revents), -EPIPE);
	assert_int_equal(stat_of("in/f").st_mode & 07777, OLD_MODE);
	close(child.listener);
}

static void idle(void)
{
	usleep(50000);
}

static void nothing_to_answer_is_said(void **state)
{
	struct child child = start(idle);
	struct mediator m = mediator_of(child.listener);

	(void)state;
	assert_int_equal(mediator_answer(&m, 0), -EAGAIN);
	serve(child);
}

static void *chmod_own(void *arg)
{
	char name[16];
	int *failures = answers;

	snprintf(name, sizeof(name), "t%ld", (long)(intptr_t)arg);
	close(open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	for (int i = 0; i < 5; i++)
		if (syscall(__NR_fchmodat, AT_FDCWD, name, NEW_MODE) < 0)
			__atomic_fetch_add(failures, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void many_threads(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	answers[0] = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)256 * 1024);
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &attr, chmod_own, (void *)i) != 0)
			_exit(96);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static unsigned int open_descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void two_hundred_threads_at_once(void **state)
{
	unsigned int before = open_descriptors();
	char name[16];

	(void)state;
	run(many_threads);
	assert_told(0, 0);
	for (int i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "in/t%d", i);
		assert_int_equal(stat_of(name).st_mode & 07777, NEW_MODE);
	}
	assert_int_equal(open_descriptors(), before);
}

/* The whole way: the keeper gets the listener from the first process and answers for it, from an
 * outer Landlock domain. */
static int run_in_jail(const char *script)
{
	static const enum keeper_step steps[] = { STEP_PRIVILEGES, STEP_SESSION, STEP_TERMINAL,
						  STEP_STDIO,      STEP_FILES,   STEP_FILTER,
						  STEP_RLIMITS,    STEP_EXEC };
	_cleanup_(plan_done) struct plan plan = { 0 };
	struct jail jail = { .plan = &plan,
			     .ids = IDS_NONE,
			     .outer = LANDLOCK_NONE,
			     .inner = LANDLOCK_NONE,
			     .cgroup = CGROUP_NONE,
			     .scratch = SCRATCH_NONE,
			     .outlet = -EBADF,
			     .supply = -EBADF,
			     .mediation = MEDIATE_METADATA };
	char *const argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t)script, NULL };
	char *const envp[] = { (char *)(uintptr_t) "PATH=/bin:/usr/bin", NULL };
	const struct jail_command command = { .argv = argv,
					      .envp = envp,
					      .search = "/bin",
					      .stdio = { -EBADF, -EBADF, -EBADF },
					      .terminal = -EBADF,
					      .program = -EBADF,
					      .channel = -EBADF };
	const struct mediator lists = mediator_of(-EBADF);
	_cleanup_close_ int root = open("/", O_PATH | O_CLOEXEC);
	struct keeper keeper = KEEPER_NONE;
	struct keeper_event event = { .news = -1 };
	struct err err = ERR_NONE;
	struct filter filter;
	int status = -1;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		plan_add(&plan,
			 (struct op){ .kind = OP_STEP, .stage = STAGE_FIRST, .value = steps[i] });
	jail.writable = lists.writable;
	jail.writable_count = lists.writable_count;
	jail.filter = &filter;
	assert_int_equal(filter_build(&spec, &filter, &err), 0);
	assert_int_equal(landlock_open(LANDLOCK_SIGNALS, &jail.outer, &err), 0);
	assert_int_equal(landlock_open(LANDLOCK_FILES | LANDLOCK_SIGNALS, &jail.inner, &err), 0);
	assert_int_equal(landlock_grant(&jail.inner, root, true, LANDLOCK_WRITE), 0);
	assert_int_equal(keeper_start(&jail, &command, &keeper, &err), 0);
	while (event.news != KEEPER_FINISHED) {
		struct pollfd fd = { .fd = keeper.control, .events = POLLIN };

		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(keeper_next(&keeper, &event), 0);
		if (event.news == KEEPER_FAILED)
			fail_msg("%s: %s", keeper_steps[event.step], strerror(-event.code));
		if (event.news == KEEPER_EXITED)
			status = event.code;
	}
	assert_int_equal(event.code, 0);
	waitpid(keeper.pid, NULL, 0);
	close(keeper.control);
	landlock_done(&jail.outer);
	landlock_done(&jail.inner);
	return status;
}

static void the_keeper_answers_for_its_workload(void **state)
{
	char script[512];
	struct stat out;

	(void)state;
	if (sys_landlock_abi() < LANDLOCK_ABI_SIGNALS)
		skip();
	make_file("in/f");
	make_file("out/f");
	out = stat_of("out/f");
	snprintf(script, sizeof(script),
		 "cd %s/in && chmod %o f && cp -p f copy && touch -d @%d copy && "
		 "! chmod 0777 ../out/f && ! touch ../out/f && (sleep 60 & exit 7)",
		 base, NEW_MODE, NEW_TIME);
	assert_int_equal(run_in_jail(script), 7 << 8);
	assert_int_equal(stat_of("in/f").st_mode & 07777, NEW_MODE);
	assert_int_equal(stat_of("in/copy").st_mode & 07777, NEW_MODE);
	assert_int_equal(stat_of("in/copy").st_mtim.tv_sec, NEW_TIME);
	assert_unchanged("out/f", &out);
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_in_every_spelling),
		cmocka_unit_test(links_and_dots_do_not_lead_out),
		cmocka_unit_test(descriptors_without_a_place),
		cmocka_unit_test(no_setuid_file_is_left_behind),
		cmocka_unit_test(a_container_asks_for_set_id_only),
		cmocka_unit_test(attributes_keep_to_their_namespaces),
		cmocka_unit_test(mistakes_get_the_errno_of_the_kernel),
		cmocka_unit_test(watches_need_a_readable_tree),
		cmocka_unit_test(scheduling_stays_in_the_family),
		cmocka_unit_test(a_race_is_not_won),
		cmocka_unit_test(a_waiting_target_can_be_killed),
		cmocka_unit_test(nothing_to_answer_is_said),
		cmocka_unit_test(two_hundred_threads_at_once),
		cmocka_unit_test(the_keeper_answers_for_its_workload),
	};

	return cmocka_run_group_tests(tests, make_world, remove_world);
}

static int run_as(uid_t uid)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (uid && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
			    setresuid(uid, uid, uid) < 0))
			exit(99);
		if (sys_no_new_privs() < 0 || sys_drop_capabilities(0) < 0 ||
		    prctl(PR_SET_DUMPABLE, 1) < 0)
			exit(99);
		exit(run_all());
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(void)
{
	int failed;

	if (geteuid() != 0)
		return run_all();
	failed = run_as(0);
	failed |= run_as(NOBODY);
	return failed != 0;
}
