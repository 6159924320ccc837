/*
 * changes_case.h - an upper and a lower layer made by hand, for the tests of jail/changes.h
 *
 * Everything is in a private folder (jail/scratch.h), which also removes whatever a test leaves.
 * Whiteouts can be made by anybody since Linux 5.8.
 */
#ifndef BRIG_TEST_CHANGES_CASE_H
#define BRIG_TEST_CHANGES_CASE_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/changes.h"
#include "jail/scratch.h"

struct layers {
	struct scratch scratch;
	int upper, lower, outside;
	struct timespec since;
};

static struct layers t;

static inline int make_dir(int at, const char *path, mode_t mode)
{
	int fd;

	assert_int_equal(mkdirat(at, path, 0700), 0);
	fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	return fd;
}

static inline void add_dir(int at, const char *path, mode_t mode)
{
	close(make_dir(at, path, mode));
}

static inline void add_file(int at, const char *path, const char *text, mode_t mode)
{
	int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static inline void add_whiteout(int at, const char *path)
{
	assert_int_equal(mknodat(at, path, S_IFCHR | 0600, 0), 0);
}

/* Returns whether the file system takes such attributes. */
static inline bool add_mark(int at, const char *path, const char *name, const char *value)
{
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (fsetxattr(fd, name, value, strlen(value), 0) == 0)
		return true;
	assert_int_equal(errno, EOPNOTSUPP);
	print_message("no user attributes on the file system of /tmp\n");
	return false;
}

static inline const char *read_text(int at, const char *path)
{
	static char text[256];
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return "(none)";
	text[n] = '\0';
	return text;
}

static inline struct stat stat_of(int at, const char *path)
{
	struct stat st = { 0 };

	(void)fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW);
	return st;
}

static inline bool exists(int at, const char *path)
{
	struct stat st;

	return fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int layers_make(void **state)
{
	struct err err = ERR_NONE;
	char id[32];

	(void)state;
	umask(0);
	snprintf(id, sizeof(id), "changes-%d", (int)getpid());
	if (scratch_make("/tmp", id, &t.scratch, &err) < 0) {
		print_message("%s\n", err.text);
		return -1;
	}
	t.upper = make_dir(t.scratch.dir, "upper", 0755);
	t.lower = make_dir(t.scratch.dir, "lower", 0755);
	t.outside = make_dir(t.scratch.dir, "outside", 0755);
	add_file(t.outside, "canary", "alive", 0644);
	return 0;
}

static int layers_remove(void **state)
{
	int r;

	(void)state;
	close(t.upper);
	close(t.lower);
	close(t.outside);
	r = scratch_remove(&t.scratch);
	scratch_done(&t.scratch);
	return r;
}

/* Everything on the host so far is from before the sandbox; what follows is from after. The kernel
 * counts in ticks of up to ten milliseconds. */
static inline void start_now(void)
{
	usleep(25000);
	clock_gettime(CLOCK_REALTIME_COARSE, &t.since);
	usleep(25000);
}

static inline char *note_text(const struct change_notes *notes)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	change_notes_print(file, notes);
	fclose(file);
	return text;
}

#endif
