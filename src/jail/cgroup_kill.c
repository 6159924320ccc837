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
 *
 * What a v1 freezer holds dies only when it is thawed: so that is done after the kill, never before,
 * and what was frozen does not run again.
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
#include "jail/cgroup_list.h"
#include "jail/cgroup_v2.h"

#define BATCH        16  /* pidfds open at a time */
#define PASSES       300 /* of a millisecond each */
#define PATIENCE_MS  1000
#define POPULATED_MS 10
#define NAP_MS       1

static void nap(void)
{
	(void)poll(NULL, 0, NAP_MS);
}

struct batch {
	size_t count;
	pid_t pids[BATCH];
	int pidfds[BATCH];
};

static int batch_open(struct batch *batch, int dir, size_t skip)
{
	_cleanup_(cgroup_list_close) struct cgroup_list list = CGROUP_LIST_NONE;
	int r = cgroup_list_open(&list, dir);
	pid_t pid;

	batch->count = 0;
	while (r == 0 && batch->count < BATCH && (pid = cgroup_list_next(&list))) {
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
	_cleanup_(cgroup_list_close) struct cgroup_list list = CGROUP_LIST_NONE;
	int r = batch_open(&batch, dir, skip);
	pid_t pid;

	if (r < 0 || batch.count == 0)
		return r;
	r = cgroup_list_open(&list, dir);
	while (r == 0 && (pid = cgroup_list_next(&list)))
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

static int kill_one_by_one(const struct cgroup *cg, int dir)
{
	for (int pass = 0; pass < PASSES; pass++) {
		int above = kill_listed(dir), below = cgroup_walk(dir, visit_kill);

		cgroup_thaw_killed(cg);
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
		cgroup_thaw_killed(cg);
		if (r != -ENOENT)
			return r;
	}
	for (size_t i = 0; dir < 0 && i < CGROUP_CONTROL_COUNT; i++)
		dir = cg->dir[i];
	if (dir < 0)
		return 0;
	stopped = pids >= 0 && file_read_at(pids, "pids.max", limit, sizeof(limit)) == 0 &&
		  file_write_at(pids, "pids.max", "0") == 0;
	r = kill_one_by_one(cg, dir);
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

/* The last of a slice takes its directory along; and the last of all steps back out of brig-leaf. */
static void leave_above(const struct cgroup *cg, size_t i)
{
	_cleanup_close_ int above = -EBADF;
	int home = cg->parent[i];

	if (cg->slice[0]) {
		above = openat(home, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		home = above;
		if (above < 0 || unlinkat(above, cg->slice, AT_REMOVEDIR) < 0)
			return;
	}
	if (cg->by_leaf && cg->is_v2[i])
		cgroup_v2_leave_leaf(home);
}

static int remove_dir(const struct cgroup *cg, size_t i)
{
	int r;

	if (!is_ours(cg->parent[i], cg->name, cg->dir[i]))
		return 0;
	r = unlinkat(cg->parent[i], cg->name, AT_REMOVEDIR) < 0 ? -errno : 0;
	if (r == 0)
		leave_above(cg, i);
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
			cgroup_thaw_killed(cg);
			(void)cgroup_walk(cg->dir[i], visit_remove);
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
