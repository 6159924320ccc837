#include "jail/ids.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sha256.h"
#include "base/sys.h"

/* 0x70000000 to 0x7ffdffff: above what systemd gives to containers, below what the kernel treats
 * as negative. */
#define FIRST_ID  0x70000000u
#define BLOCK     8u /* ranges that belong to one owner */
#define BLOCKS    511u
#define RANGES    (BLOCK * BLOCKS)
#define OWN_TRIES 4
#define NO_SLICE  1ull /* the owner of what belongs to nobody in particular */
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

uint64_t ids_owner(const char *home, const char *slice)
{
	char text[PATH_MAX + 128], digest[SHA256_HEX_SIZE];

	snprintf(text, sizeof(text), "%s:%s", home, slice);
	sha256_hex(text, strlen(text), digest);
	digest[16] = '\0';
	return strtoull(digest, NULL, 16) | NO_SLICE << 1;
}

/*
 * The table of owners, one number a block (0: nobody's yet), and where a search begins: with a thousand
 * sandboxes alive it would else begin with a thousand locks.
 */
struct search {
	int fd;
	uint64_t owner;
	uint64_t owners[BLOCKS];
	uint32_t start;
};

static int set_lock(int fd, short type, uint32_t at, uint32_t count)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = count };

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool is_taken(int r)
{
	return r == -EAGAIN || r == -EACCES;
}

/* What is behind the end of the file is nobody's. */
static int read_owners(int fd, uint64_t *owners, uint32_t first, uint32_t count)
{
	memset(owners, 0, count * sizeof(*owners));
	return pread(fd, owners, count * sizeof(*owners), (off_t)(first * sizeof(*owners))) < 0
		       ? -errno
		       : 0;
}

/*
 * A range of a block that is the owner's. Whoever changes the owner holds the locks of all its ranges; so what
 * is read behind our own lock holds. 1: none is free.
 */
static int take_from_block(struct search *s, uint32_t block, uint32_t *ret_range)
{
	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t range = block * BLOCK + (s->start + i) % BLOCK;
		int r = set_lock(s->fd, F_WRLCK, range, 1);

		if (is_taken(r))
			continue;
		r = r < 0 ? r : read_owners(s->fd, &s->owners[block], block, 1);
		if (r < 0)
			return r;
		if (s->owners[block] != s->owner)
			return set_lock(s->fd, F_UNLCK, range, 1) < 0 ? -EIO : 1;
		*ret_range = range;
		return 0;
	}
	return 1;
}

/* A block in which nobody is becomes the owner's. 1: somebody is. */
static int claim_block(struct search *s, uint32_t block, uint64_t before, uint32_t *ret_range)
{
	uint32_t first = block * BLOCK;
	int r = set_lock(s->fd, F_WRLCK, first, BLOCK);

	if (is_taken(r))
		return 1;
	r = r < 0 ? r : read_owners(s->fd, &s->owners[block], block, 1);
	if (r == 0 && s->owners[block] != before && s->owners[block] != s->owner) {
		r = set_lock(s->fd, F_UNLCK, first, BLOCK);
		return r < 0 ? r : 1;
	}
	if (r == 0 && pwrite(s->fd, &s->owner, sizeof(s->owner),
			     (off_t)(block * sizeof(s->owner))) != sizeof(s->owner))
		r = -EIO;
	r = r < 0 ? r : set_lock(s->fd, F_UNLCK, first + 1, BLOCK - 1);
	*ret_range = first;
	return r;
}

/* From some of the owner's blocks, or all. 1: none of them has a free range. */
static int take_own(struct search *s, uint32_t tries, uint32_t *ret_range)
{
	int r = 1;

	for (uint32_t i = 0; i < BLOCKS && tries > 0 && r == 1; i++) {
		uint32_t block = (s->start / BLOCK + i) % BLOCKS;

		if (s->owners[block] != s->owner)
			continue;
		r = take_from_block(s, block, ret_range);
		tries--;
	}
	return r;
}

static int claim_any(struct search *s, bool of_others, uint32_t *ret_range)
{
	int r = 1;

	for (uint32_t i = 0; i < BLOCKS && r == 1; i++) {
		uint32_t block = (s->start / BLOCK + i) % BLOCKS;

		if (s->owners[block] != s->owner && (of_others || s->owners[block] == 0))
			r = claim_block(s, block, s->owners[block], ret_range);
	}
	return r;
}

/* A new block is cheaper than a look into many that are full; when there is none, all of them are looked at. */
static int find_range(struct search *s, uint32_t *ret_range)
{
	int r = read_owners(s->fd, s->owners, 0, BLOCKS);

	r = r < 0 ? r : take_own(s, OWN_TRIES, ret_range);
	r = r != 1 ? r : claim_any(s, false, ret_range);
	r = r != 1 ? r : take_own(s, BLOCKS, ret_range);
	return r != 1 ? r : claim_any(s, true, ret_range);
}

int ids_take(uint64_t owner, struct ids *ret_ids, struct err *err)
{
	_cleanup_close_ int folder = open_folder(err), fd = -EBADF;
	struct search search = { .owner = owner ?: NO_SLICE };
	uint32_t range = 0;
	int r;

	if (folder < 0)
		return folder;
	fd = openat(folder, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, -errno, "\"%s/%s\"", FOLDER, LOCK_FILE);
	if (getrandom(&search.start, sizeof(search.start), 0) != sizeof(search.start))
		return err_errno(err, -errno, "cannot get random numbers");
	search.fd = fd;
	r = find_range(&search, &range);
	if (r == 1)
		return err_set(err, -EUSERS,
			       "the ranges of ids are in use, all %u of them: end a sandbox first",
			       RANGES);
	if (r < 0)
		return err_errno(err, r, "\"%s/%s\" cannot be locked", FOLDER, LOCK_FILE);
	*ret_ids = (struct ids){ .first = FIRST_ID + range * IDS_COUNT, .lock = take_fd(&fd) };
	return 0;
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
