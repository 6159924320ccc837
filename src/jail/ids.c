#include "jail/ids.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"

/* 0x70000000 to 0x7ffdffff: above what systemd gives to containers, below what the kernel treats
 * as negative. */
#define FIRST_ID  0x70000000u
#define RANGES    4094u
#define FOLDER    "/run/brig"
#define LOCK_FILE "ids"

/* The map of our own namespace must reach to the end of the ranges. */
static bool maps_all(const char *path)
{
	char text[4096];
	unsigned long inside, outside, count;

	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
	       count >= FIRST_ID + (unsigned long)RANGES * IDS_COUNT;
}

bool ids_possible(void)
{
	return geteuid() == 0 && !hook_without("ids") && maps_all("/proc/self/uid_map") &&
	       maps_all("/proc/self/gid_map");
}

/* Ours alone: whoever could write here could take every range, or be given the file to hold. */
static int open_folder(struct err *err)
{
	struct stat st;
	int fd;

	if (mkdir(FOLDER, 0755) < 0 && errno != EEXIST)
		return err_errno(err, -errno, "\"%s\" cannot be made", FOLDER);
	fd = open(FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "\"%s\"", FOLDER);
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		close(fd);
		return err_set(err, -EPERM, "\"%s\" can be written by others: remove it", FOLDER);
	}
	return fd;
}

static int lock_byte(int fd, uint32_t at)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

int ids_take(struct ids *ret_ids, struct err *err)
{
	_cleanup_close_ int folder = open_folder(err), fd = -EBADF;
	uint32_t start = 0;

	if (folder < 0)
		return folder;
	fd = openat(folder, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, -errno, "\"%s/%s\"", FOLDER, LOCK_FILE);
	/* From anywhere: with a thousand sandboxes alive the search would begin with a thousand
	 * locks. */
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return err_errno(err, -errno, "cannot get random numbers");
	for (uint32_t i = 0; i < RANGES; i++) {
		uint32_t range = (start + i) % RANGES;
		int r = lock_byte(fd, range);

		if (r == 0) {
			*ret_ids = (struct ids){ .first = FIRST_ID + range * IDS_COUNT,
						 .lock = take_fd(&fd) };
			return 0;
		}
		if (r != -EAGAIN && r != -EACCES)
			return err_errno(err, r, "\"%s/%s\" cannot be locked", FOLDER, LOCK_FILE);
	}
	return err_set(err, -EUSERS, "all %u ranges of ids are in use: end a sandbox first",
		       RANGES);
}

void ids_done(struct ids *ids)
{
	ids->lock = fd_close(ids->lock);
}

static int write_map(pid_t pid, const char *name, uint32_t inside, uint32_t outside, uint32_t count)
{
	char path[48], text[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	snprintf(text, sizeof(text), "%u %u %u", inside, outside, count);
	return file_write_at(AT_FDCWD, path, text);
}

static int write_maps(const struct ids *ids, pid_t pid, uid_t owner, gid_t group, bool whole)
{
	uint32_t to = whole ? ids->first : ids->first + IDS_USER, count = whole ? IDS_COUNT : 1;
	int r = write_map(pid, "uid_map", whole ? 0 : owner, to, count);

	return r < 0 ? r : write_map(pid, "gid_map", whole ? 0 : group, to, count);
}

/* A namespace lives as long as a process is in it or a descriptor holds it: the process is there
 * only until it is open. */
int ids_mapping(const struct ids *ids, uid_t owner, gid_t group, bool whole)
{
	pid_t self = getpid(), pid = sys_fork_into(CLONE_NEWUSER, -EBADF);
	char path[40];
	int r;

	if (pid < 0)
		return pid;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == self)
			pause();
		_exit(0);
	}
	r = write_maps(ids, pid, owner, group, whole);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	if (r == 0) {
		r = open(path, O_RDONLY | O_CLOEXEC);
		r = r < 0 ? -errno : r;
	}
	/* Its end takes as long as everything before it; whoever asked reaps it later. */
	kill(pid, SIGKILL);
	return r;
}
