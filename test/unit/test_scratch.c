#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "jail/scratch.h"

#define NOBODY 65534

/*
 *	base/          0755
 *	  canary       a file, and
 *	  outside/     a folder with a file: what links in the private folder point to
 */
static char base[] = "/tmp/brig-test-scratch-XXXXXX", canary[60], outside[60], inside[70];

static int make_base(void **state)
{
	(void)state;
	if (!mkdtemp(base) || chmod(base, 0755) < 0)
		return -1;
	snprintf(canary, sizeof(canary), "%s/canary", base);
	snprintf(outside, sizeof(outside), "%s/outside", base);
	snprintf(inside, sizeof(inside), "%s/file", outside);
	if (mkdir(outside, 0750) < 0)
		return -1;
	fd_close(open(canary, O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
	fd_close(open(inside, O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
	return 0;
}

static int remove_base(void **state)
{
	(void)state;
	return unlink(inside) || rmdir(outside) || unlink(canary) || rmdir(base);
}

static bool has_mode(const char *path, mode_t mode)
{
	struct stat st;

	return lstat(path, &st) == 0 && (st.st_mode & 07777) == mode;
}

static int touch(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* A folder below dir, opened. */
static int make_dir(int dir, const char *name)
{
	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Each fills a private folder with what a hostile program may leave there. */

static int fill_nothing(int top)
{
	(void)top;
	return 0;
}

static int fill_deep(int top)
{
	_cleanup_close_ int dir = dup(top);

	for (int i = 0; i < 3000 && dir >= 0; i++) {
		int next =
			make_dir(dir, i % 2 ? "d" : "a folder with a longer name than the other");

		if (i % 100 == 0 && touch(dir, "file") < 0)
			return -EIO;
		close(dir);
		dir = next;
	}
	return dir < 0 ? dir : 0;
}

static int fill_modes(int top)
{
	static const mode_t modes[] = { 0, 0100, 0200, 0300, 0400, 0500, 0600, 07000 };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		_cleanup_close_ int dir = -EBADF, below = -EBADF;
		char name[16];

		snprintf(name, sizeof(name), "m%zu", i);
		dir = make_dir(top, name);
		below = dir < 0 ? dir : make_dir(dir, "below");
		if (below < 0 || touch(dir, "file") < 0 || touch(below, "file") < 0 ||
		    fchmod(below, modes[i]) < 0 || fchmod(dir, modes[i]) < 0)
			return -EIO;
		snprintf(name, sizeof(name), "e%zu", i);
		if (mkdirat(top, name, modes[i]) < 0)
			return -EIO;
	}
	return fchmod(top, 0);
}

static int fill_links(int top)
{
	_cleanup_close_ int dir = make_dir(top, "dir");
	const char *const targets[] = { canary,         outside, inside,    "/", "..",
					"../..",        ".",     "nowhere", "5", "../outside",
					"/proc/self/fd" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		char name[16];

		snprintf(name, sizeof(name), "%zu", i);
		if (symlinkat(targets[i], top, name) < 0 || symlinkat(targets[i], dir, name) < 0)
			return -EIO;
	}
	return 0;
}

static int fill_names(int top)
{
	static const char *const names[] = {
		"new\nline",
		"\n",
		" ",
		"-rf",
		"\xff\xfe",
		"*",
		"...",
		"\033[31m",
		"..\t",
		/* The names that the removal itself would use. */
		".brig-0",
		".brig-1",
		".brig-3",
		".brig-4294967295",
	};
	_cleanup_close_ int dir = -EBADF;
	char longest[256];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_close_ int next = make_dir(top, names[i]);
		_cleanup_close_ int below = next < 0 ? next : make_dir(next, names[i]);

		if (below < 0 || touch(below, names[i]) < 0)
			return -EIO;
	}
	memset(longest, 'x', 255);
	longest[255] = '\0';
	dir = make_dir(top, longest);
	return dir < 0 || touch(dir, longest) < 0 || touch(top, ".brig-2") < 0 ||
			       symlinkat(outside, top, ".brig-5") < 0
		       ? -EIO
		       : 0;
}

static int fill_kinds(int top)
{
	_cleanup_close_ int dir = make_dir(top, "dir");
	_cleanup_close_ int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (dir < 0 || s < 0 || mkfifoat(dir, "fifo", 0) < 0 || mkfifoat(top, "fifo", 0600) < 0)
		return -EIO;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/socket", dir);
	return bind(s, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static int fill_many(int top)
{
	for (int i = 0; i < 300; i++) {
		_cleanup_close_ int dir = -EBADF;
		char name[16];

		snprintf(name, sizeof(name), "dir%d", i);
		dir = make_dir(top, name);
		for (int k = 0; k < 20; k++) {
			snprintf(name, sizeof(name), "file%d", k);
			if (dir < 0 || touch(dir, name) < 0)
				return -EIO;
		}
		snprintf(name, sizeof(name), "file%d", i);
		if (touch(top, name) < 0 || mkdirat(dir, "sub", 0700) < 0 ||
		    mkdirat(dir, "sub/sub", 0700) < 0)
			return -EIO;
	}
	return 0;
}

static const struct {
	const char *name;
	int (*fill)(int top);
} fills[] = {
	{ "nothing", fill_nothing }, { "deep", fill_deep },   { "modes", fill_modes },
	{ "links", fill_links },     { "names", fill_names }, { "kinds", fill_kinds },
	{ "many", fill_many },
};

/* Without cmocka: it runs in a child too. 0, or the step that went wrong. */
static int make_fill_remove(const char *where, int (*fill)(int top))
{
	struct scratch scratch = SCRATCH_NONE;
	struct err err = ERR_NONE;

	if (scratch_make(where, "0123", &scratch, &err) < 0)
		return 1;
	if (!has_mode(scratch.path, 0700))
		return 2;
	if (fill(scratch.dir) < 0)
		return 3;
	if (scratch_remove(&scratch) < 0)
		return 4;
	scratch_done(&scratch);
	if (access(scratch.path, F_OK) == 0)
		return 5;
	if (!has_mode(canary, 0640) || !has_mode(outside, 0750))
		return 6;
	return 0;
}

static void anything_in_it_is_removed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fills); i++) {
		int step = make_fill_remove(base, fills[i].fill);

		if (step)
			fail_msg("%s: step %d", fills[i].name, step);
		assert_true(has_mode(inside, 0640));
	}
}

/* Modes mean nothing to root: an ordinary user has to change them first. */
static void also_by_an_ordinary_user(void **state)
{
	char own[60];

	(void)state;
	if (geteuid() != 0) {
		print_message("not root: the other test was that of an ordinary user\n");
		skip();
	}
	snprintf(own, sizeof(own), "%s/own", base);
	assert_int_equal(mkdir(own, 0700), 0);
	assert_int_equal(chown(own, NOBODY, NOBODY), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fills); i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			umask(0);
			if (setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			    setresuid(NOBODY, NOBODY, NOBODY) < 0)
				_exit(100);
			_exit(make_fill_remove(own, fills[i].fill));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("%s: status %d", fills[i].name, status);
		assert_true(has_mode(inside, 0640));
	}
	assert_int_equal(rmdir(own), 0);
}

static void refused(const char *where, const char *id, int code, const char *words)
{
	struct scratch scratch = SCRATCH_NONE;
	struct err err = ERR_NONE;
	int r = scratch_make(where, id, &scratch, &err);

	if (r != code || err.code != code || !strstr(err.text, words))
		fail_msg("%s: %d, %s", where, r, err.text);
	assert_int_equal(scratch.dir, -EBADF);
	assert_int_equal(scratch.parent, -EBADF);
}

static void bases(void **state)
{
	struct scratch scratch = SCRATCH_NONE;
	char own[60], link[60], through[70], id[100];

	(void)state;
	snprintf(own, sizeof(own), "%s/own", base);
	snprintf(link, sizeof(link), "%s/link", base);
	snprintf(through, sizeof(through), "%s/own", link);
	assert_int_equal(mkdir(own, 0700), 0);
	assert_int_equal(symlink(base, link), 0);
	refused(link, "1", -ELOOP, "goes through a symbolic link");
	refused(through, "1", -ELOOP, "goes through a symbolic link");
	refused(canary, "1", -ENOTDIR, "set TMPDIR");
	refused("/nowhere/at/all", "1", -ENOENT, "set TMPDIR");
	memset(id, 'x', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	refused(own, id, -ENAMETOOLONG, "too long");

	assert_int_equal(chmod(own, 0777), 0);
	refused(own, "1", -EPERM, "has no sticky bit");
	assert_int_equal(chmod(own, 0770), 0);
	refused(own, "1", -EPERM, "has no sticky bit");
	assert_int_equal(chmod(own, 01777), 0);
	assert_int_equal(make_fill_remove(own, fill_nothing), 0);

	/* A name that is taken is not taken over. */
	assert_int_equal(scratch_make(own, "1", &scratch, NULL), 0);
	refused(own, "1", -EEXIST, "set TMPDIR");
	assert_int_equal(scratch_remove(&scratch), 0);
	scratch_done(&scratch);
	scratch_done(&scratch);

	if (geteuid() == 0) {
		assert_int_equal(chown(own, NOBODY, NOBODY), 0);
		refused(own, "1", -EPERM, "belongs to another user");
	}
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(own), 0);
}

/* In a mount namespace of its own: a file system in the folder, with a file that must stay. */
static int remove_with_a_mount(void)
{
	struct scratch scratch = SCRATCH_NONE;
	char path[5000];
	int r;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 77;
	if (scratch_make(base, "mount", &scratch, NULL) < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/mnt", scratch.path);
	if (mkdir(path, 0700) < 0 || mount("none", path, "tmpfs", 0, NULL) < 0)
		return 77;
	snprintf(path, sizeof(path), "%s/mnt/file", scratch.path);
	fd_close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	r = scratch_remove(&scratch);
	if (r >= 0 || access(path, F_OK) < 0)
		return 2;
	snprintf(path, sizeof(path), "%s/mnt", scratch.path);
	return umount2(path, MNT_DETACH) < 0 || scratch_remove(&scratch) < 0 ? 3 : 0;
}

static void another_file_system_is_not_touched(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0) {
		print_message("not root: no mount can be made\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(remove_with_a_mount());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77) {
		print_message("this host lets nobody mount\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void nothing_made_is_nothing_to_remove(void **state)
{
	struct scratch scratch = SCRATCH_NONE;

	(void)state;
	assert_int_equal(scratch_remove(&scratch), 0);
	scratch_done(&scratch);
}

/* Only what has our kind of name, is closed to others, and is held by nobody. */
static void what_nobody_holds_is_swept(void **state)
{
	struct scratch held = SCRATCH_NONE, left = SCRATCH_NONE;
	char file[4200], other[80], open_one[80];

	(void)state;
	assert_int_equal(scratch_make(base, "held23456789", &held, NULL), 0);
	assert_int_equal(scratch_make(base, "left23456789", &left, NULL), 0);
	snprintf(file, sizeof(file), "%s/file", left.path);
	fd_close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	snprintf(other, sizeof(other), "%s/brig-other", base);
	snprintf(open_one, sizeof(open_one), "%s/brig-abcdefghijkl", base);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(mkdir(open_one, 0755), 0);
	assert_int_equal(scratch_sweep(base), 0);
	scratch_done(&left);
	assert_int_equal(scratch_sweep(base), 1);
	assert_int_equal(access(left.path, F_OK), -1);
	assert_int_equal(access(held.path, F_OK), 0);
	assert_int_equal(rmdir(other), 0);
	assert_int_equal(rmdir(open_one), 0);
	assert_int_equal(scratch_remove(&held), 0);
	scratch_done(&held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_holds_is_swept),
		cmocka_unit_test(anything_in_it_is_removed),
		cmocka_unit_test(also_by_an_ordinary_user),
		cmocka_unit_test(bases),
		cmocka_unit_test(another_file_system_is_not_touched),
		cmocka_unit_test(nothing_made_is_nothing_to_remove),
	};

	return cmocka_run_group_tests(tests, make_base, remove_base);
}
