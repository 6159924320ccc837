/*
 * The end of a cgroup: killing what is in it and removing the directories.
 *
 * cgroup.kill does the first in one write, for everything below too. Without it the pids in
 * cgroup.procs are killed one by one. Between reading a pid and killing it, its process may have
 * ended and the number may belong to a stranger. So a pidfd is opened first and the list is read
 * again: a number that is still listed while the pidfd holds its process is that process, and if
 * the pidfd's process has ended the signal goes nowhere.
 *
 * A process with a kill pending cannot fork any more, but its children of a moment ago are not on
 * the list yet; the list is read until it is empty. Where there is a pids limit it is 0 meanwhile.
 */
#include "jail/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/cgroup_v2.h"

#define BATCH        16  /* pidfds open at a time */
#define PASSES       300 /* of a millisecond each */
#define DEPTH        16  /* of directories that the sandbox made */
#define PATIENCE_MS  1000
#define POPULATED_MS 10
#define NAP_MS       1

static void nap(void)
{
	(void)poll(NULL, 0, NAP_MS);
}

/* Reads cgroup.procs number by number, without holding the list. */
struct listing {
	int fd;
	size_t at, len;
	char text[4096];
};

static int listing_open(struct listing *list, int dir)
{
	list->at = list->len = 0;
	list->fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	return list->fd < 0 ? -errno : 0;
}

static void listing_close(struct listing *list)
{
	list->fd = fd_close(list->fd);
}

static int listing_char(struct listing *list)
{
	if (list->at == list->len) {
		ssize_t n;

		do
			n = read(list->fd, list->text, sizeof(list->text));
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return EOF;
		list->at = 0;
		list->len = (size_t)n;
	}
	return (unsigned char)list->text[list->at++];
}

/* The next pid, or 0 at the end. A process outside our pid namespace is listed as 0: passed over,
 * for there is no way to name it, and 0 would mean our own process group. */
static pid_t listing_next(struct listing *list)
{
	uint64_t pid = 0;
	int c;

	while ((c = listing_char(list)) != EOF) {
		if (c >= '0' && c <= '9' && pid < INT32_MAX / 10)
			pid = pid * 10 + (uint64_t)(c - '0');
		else if (c == '\n' && pid > 0)
			return (pid_t)pid;
	}
	return 0;
}

struct batch {
	size_t count;
	pid_t pids[BATCH];
	int pidfds[BATCH];
};

static int batch_open(struct batch *batch, int dir, size_t skip)
{
	_cleanup_(listing_close) struct listing list = { .fd = -EBADF };
	int r = listing_open(&list, dir);
	pid_t pid;

	batch->count = 0;
	while (r == 0 && batch->count < BATCH && (pid = listing_next(&list))) {
		int fd;

		if (skip > 0) {
			skip--;
			continue;
		}
		fd = sys_pidfd_open(pid);
		if (fd < 0 && fd != -ESRCH)
			return fd;
		batch->pids[batch->count] = pid;
		batch->pidfds[batch->count++] = fd;
	}
	return r;
}

static void batch_close(struct batch *batch)
{
	while (batch->count > 0)
		fd_close(batch->pidfds[--batch->count]);
}

/* Kills up to BATCH processes behind the first skip; returns how many were listed there. */
static int kill_batch(int dir, size_t skip)
{
	_cleanup_(batch_close) struct batch batch = { 0 };
	_cleanup_(listing_close) struct listing list = { .fd = -EBADF };
	int r = batch_open(&batch, dir, skip);
	pid_t pid;

	if (r < 0 || batch.count == 0)
		return r;
	r = listing_open(&list, dir);
	while (r == 0 && (pid = listing_next(&list)))
		for (size_t i = 0; i < batch.count; i++)
			if (batch.pids[i] == pid && batch.pidfds[i] >= 0) {
				int killed = sys_pidfd_send_signal(batch.pidfds[i], SIGKILL);

				if (killed < 0 && killed != -ESRCH)
					r = killed;
			}
	return r < 0 ? r : (int)batch.count;
}

/* Returns how many were listed, 0 when none is left. */
static int kill_listed(int dir)
{
	int total = 0, n;

	while ((n = kill_batch(dir, (size_t)total)) > 0)
		total += n;
	return n < 0 ? n : total;
}

/* Calls visit for every directory below dir, the deepest first; returns the sum, or the first
 * failure. */
static int walk(int dir, unsigned int depth, int (*visit)(int parent, const char *name, int child))
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sum = 0, r = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!list) {
		fd_close(fd);
		return -EBADF;
	}
	while (r >= 0 && (entry = readdir(list))) {
		_cleanup_close_ int child = -EBADF;

		if (entry->d_type != DT_DIR || str_equal(entry->d_name, ".") ||
		    str_equal(entry->d_name, ".."))
			continue;
		child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0)
			continue;
		r = depth > 0 ? walk(child, depth - 1, visit) : 0;
		sum += MAX(r, 0);
		if (r >= 0)
			r = visit(dir, entry->d_name, child);
		sum += MAX(r, 0);
	}
	closedir(list);
	return r < 0 ? r : sum;
}

static int visit_kill(int parent, const char *name, int child)
{
	(void)parent;
	(void)name;
	return kill_listed(child);
}

static int visit_remove(int parent, const char *name, int child)
{
	(void)child;
	(void)unlinkat(parent, name, AT_REMOVEDIR);
	return 0;
}

static int kill_one_by_one(int dir)
{
	for (int pass = 0; pass < PASSES; pass++) {
		int above = kill_listed(dir), below = walk(dir, DEPTH, visit_kill);

		if (above < 0)
			return above;
		if (above == 0 && below <= 0)
			return below;
		nap();
	}
	return -ETIMEDOUT;
}

int cgroup_kill(const struct cgroup *cg)
{
	int pids = cg->dir[CGROUP_PIDS], dir = cgroup_v2_fd(cg), r;
	char limit[32];
	bool stopped;

	if (dir >= 0) {
		r = file_write_at(dir, "cgroup.kill", "1");
		if (r != -ENOENT)
			return r;
	}
	for (size_t i = 0; dir < 0 && i < CGROUP_CONTROL_COUNT; i++)
		dir = cg->dir[i];
	if (dir < 0)
		return 0;
	stopped = pids >= 0 && file_read_at(pids, "pids.max", limit, sizeof(limit)) == 0 &&
		  file_write_at(pids, "pids.max", "0") == 0;
	r = kill_one_by_one(dir);
	if (stopped)
		(void)file_write_at(pids, "pids.max", limit);
	return r;
}

/* Until something may have changed: v2 tells when the last process has left. */
static void wait_a_little(int dir, bool is_v2)
{
	_cleanup_close_ int fd =
		is_v2 ? openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC) : -EBADF;
	struct pollfd events = { .fd = fd, .events = POLLPRI };
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n > 0) {
		text[n] = '\0';
		if (strstr(text, "populated 1")) {
			(void)poll(&events, 1, POPULATED_MS);
			return;
		}
	}
	nap();
}

/* Whether the name still means the directory that we made. */
static bool is_ours(int parent, const char *name, int dir)
{
	struct stat named, made;

	return fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &made) == 0 &&
	       named.st_dev == made.st_dev && named.st_ino == made.st_ino;
}

/* The same descriptors stand behind every control that shares the directory. */
static void forget(struct cgroup *cg, size_t i)
{
	int parent = cg->parent[i], dir = cg->dir[i];

	for (size_t j = 0; j < CGROUP_CONTROL_COUNT; j++)
		if (cg->dir[j] == dir)
			cg->dir[j] = cg->parent[j] = -EBADF;
	fd_close(dir);
	fd_close(parent);
}

static int remove_dir(const struct cgroup *cg, size_t i)
{
	int r;

	if (!is_ours(cg->parent[i], cg->name, cg->dir[i]))
		return 0;
	r = unlinkat(cg->parent[i], cg->name, AT_REMOVEDIR) < 0 ? -errno : 0;
	if (r == 0 && cg->by_leaf && cg->is_v2[i])
		cgroup_v2_leave_leaf(cg->parent[i]);
	return r == -EBUSY || r == -ENOTEMPTY ? -EBUSY : 0;
}

static bool remove_all(struct cgroup *cg)
{
	bool gone = true;

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		if (cg->dir[i] < 0)
			continue;
		if (remove_dir(cg, i) == 0)
			forget(cg, i);
		else
			gone = false;
	}
	return gone;
}

void cgroup_done(struct cgroup *cg)
{
	uint64_t end = clock_ms() + PATIENCE_MS;
	bool gone = remove_all(cg);

	if (!gone)
		(void)cgroup_kill(cg);
	for (gone = remove_all(cg); !gone && clock_ms() < end; gone = remove_all(cg))
		for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
			if (cg->dir[i] < 0)
				continue;
			/* Whoever was caught half way in is only in a v1 hierarchy. */
			if (!cg->is_v2[i])
				(void)kill_listed(cg->dir[i]);
			(void)walk(cg->dir[i], DEPTH, visit_remove);
			wait_a_little(cg->dir[i], cg->is_v2[i]);
			break;
		}
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (cg->dir[i] >= 0)
			forget(cg, i);
	*cg = CGROUP_NONE;
}

#define STALE_S 10

/* The kernel removes none that somebody is in. */
static void sweep_one(int parent, const char *name, time_t now)
{
	struct stat st;

	if (!str_starts(name, "brig-") || str_equal(name, CGROUP_LEAF))
		return;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_ctime < now - STALE_S)
		(void)!unlinkat(parent, name, AT_REMOVEDIR);
}

void cgroup_sweep(const struct cgroup *cg)
{
	time_t now = time(NULL);

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		int fd = cg->parent[i] < 0
				 ? -1
				 : openat(cg->parent[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *entry;

		if (!dir) {
			fd_close(fd);
			continue;
		}
		while ((entry = readdir(dir)))
			sweep_one(fd, entry->d_name, now);
		closedir(dir);
	}
}
