#include "trace/spare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "trace/catalog.h"
#include "trace/home.h"

#define FOLDER "spares"
#define BELOW  (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	       st.st_uid == geteuid() && (st.st_mode & 07777) == 0600;
}

/* A file with nothing in it, for writing; -EBADMSG where it is none of ours. */
static int open_emptied(int home, const char *path, int flags)
{
	_cleanup_close_ int fd =
		sys_openat2(home, path,
			    (uint64_t)flags | O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0,
			    BELOW);
	struct stat st;

	if (fd < 0)
		return fd;
	if (!is_ours(fd) || fstat(fd, &st) < 0)
		return -EBADMSG;
	if (st.st_size > 0 && ftruncate(fd, 0) < 0)
		return -errno;
	return take_fd(&fd);
}

static int make_empty(int home, const char *path)
{
	int fd = open_emptied(home, path, 0);

	fd_close(fd);
	return MIN(fd, 0);
}

/* By the count of links, as each is a folder; where that says nothing there are none. */
static bool has_room(int home)
{
	struct stat st;

	if (mkdirat(home, FOLDER, 0700) < 0 && errno != EEXIST)
		return false;
	return fstatat(home, FOLDER, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_nlink >= 2 && st.st_nlink - 2 < SPARE_MAX;
}

/*
 * The folder goes first, and with it the stream from where anybody looks for it. Whoever takes it
 * before we are done finds the stream locked, and the head still missing.
 */
int spare_put(int home, const char *id, int stream)
{
	char path[TRACE_PATH_SIZE], head[TRACE_PATH_SIZE], spare[TRACE_PATH_SIZE];
	int r;

	if (!is_ours(stream) || !has_room(home))
		return -EMLINK;
	snprintf(path, sizeof(path), "sandboxes/%.15s", id);
	snprintf(spare, sizeof(spare), FOLDER "/%.15s", id);
	r = sys_rename_noreplace(home, path, home, spare);
	if (r < 0)
		return r;
	snprintf(spare, sizeof(spare), FOLDER "/%.15s/events.ndjson", id);
	r = make_empty(home, spare);
	trace_head_path(id, head);
	snprintf(spare, sizeof(spare), FOLDER "/%.15s/head", id);
	r = r < 0 ? r : sys_rename_noreplace(home, head, home, spare);
	return r < 0 ? r : make_empty(home, spare);
}

/* Gives the first that nobody else takes the name of a new sandbox. */
static int claim(int home, const char *id)
{
	_cleanup_(catalog_closep) DIR *dir = NULL;
	char path[TRACE_PATH_SIZE], spare[TRACE_PATH_SIZE];
	const struct dirent *entry;
	int r = catalog_open(home, FOLDER, &dir);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "sandboxes/%.15s", id);
	r = -ENOENT;
	while (r == -ENOENT && (entry = readdir(dir))) {
		if (!trace_id_is_valid(entry->d_name))
			continue;
		snprintf(spare, sizeof(spare), FOLDER "/%.15s", entry->d_name);
		r = sys_rename_noreplace(home, spare, home, path);
	}
	return r;
}

int spare_take(int home, const char *id)
{
	char path[TRACE_PATH_SIZE];
	int r = claim(home, id);

	if (r < 0)
		return r == -EEXIST ? r : -ENOENT;
	trace_stream_path(id, path);
	r = open_emptied(home, path, O_APPEND);
	if (r < 0)
		(void)unlinkat(home, path, 0);
	return r < 0 ? -EAGAIN : r;
}

/* By its time the folder says how old the stream is (trim.c): taking the head out of it sets that. */
static void set_time(int home, const char *id)
{
	char path[TRACE_PATH_SIZE];

	snprintf(path, sizeof(path), "sandboxes/%.15s", id);
	(void)!utimensat(home, path, NULL, AT_SYMLINK_NOFOLLOW);
}

int spare_take_head(int home, const char *id)
{
	_cleanup_close_ int fd = -EBADF;
	char path[TRACE_PATH_SIZE], head[TRACE_PATH_SIZE];
	int r;

	snprintf(path, sizeof(path), "sandboxes/%.15s/head", id);
	fd = open_emptied(home, path, 0);
	if (fd == -ENOENT) {
		set_time(home, id);
		return fd;
	}
	trace_head_path(id, head);
	r = fd < 0 ? fd : sys_rename_noreplace(home, path, home, head);
	if (r == 0)
		return take_fd(&fd);
	(void)unlinkat(home, path, 0);
	return r == -EEXIST ? r : -ENOENT;
}
