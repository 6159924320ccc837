#include "jail/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

#define PREFIX    "brig-"
#define ID_LENGTH 12 /* of a sandbox */

static int check_base(const char *base, int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, -errno, "\"%s\"", base);
	/* Whoever may rename our folder could put another in its place before it is opened again.
	 */
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "\"%s\" belongs to another user: set TMPDIR to a folder of yours",
			       base);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return err_set(err, -EPERM,
			       "\"%s\" can be written by others and has no sticky bit: set TMPDIR "
			       "to a folder of "
			       "yours",
			       base);
	return 0;
}

int scratch_make(const char *base, const char *id, struct scratch *ret_scratch, struct err *err)
{
	_cleanup_close_ int parent = -EBADF, dir = -EBADF;
	struct scratch s = SCRATCH_NONE;
	struct stat st;
	int r;

	if (snprintf(s.name, sizeof(s.name), PREFIX "%s", id) >= (int)sizeof(s.name) ||
	    snprintf(s.path, sizeof(s.path), "%s/%s", base, s.name) >= (int)sizeof(s.path))
		return err_set(err, -ENAMETOOLONG,
			       "\"%s\": the path is too long: set TMPDIR to another folder", base);
	parent = sys_openat2(AT_FDCWD, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			     RESOLVE_NO_SYMLINKS);
	if (parent == -ELOOP)
		return err_set(err, parent,
			       "\"%s\" goes through a symbolic link: set TMPDIR to the real folder",
			       base);
	if (parent < 0)
		return err_errno(err, parent,
				 "no private folder in \"%s\" (set TMPDIR to another one)", base);
	r = check_base(base, parent, err);
	if (r < 0)
		return r;
	if (mkdirat(parent, s.name, 0700) < 0)
		return err_errno(err, -errno,
				 "no private folder in \"%s\" (set TMPDIR to another one)", base);
	dir = openat(parent, s.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0) {
		r = -errno;
		unlinkat(parent, s.name, AT_REMOVEDIR);
		return err_errno(err, r, "\"%s\"", s.path);
	}
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, -EPERM, "\"%s\" was changed by someone else while it was made",
			       s.path);
	/* Held by us and the keeper, for whoever looks for what nobody has any more. */
	r = flock(dir, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
	if (r == -EWOULDBLOCK || fstat(dir, &st) < 0 || st.st_nlink == 0)
		return err_set(err, -EAGAIN, "\"%s\" was taken for a leftover: try again", s.path);
	s.parent = take_fd(&parent);
	s.dir = take_fd(&dir);
	*ret_scratch = s;
	return 0;
}

struct entry {
	uint64_t inode;
	int64_t offset;
	unsigned short len;
	unsigned char type;
	char name[];
};

/*
 * Removes what it can of one directory's entries; the name of a directory that is not empty is left
 * in subdir, and the search stops there. Returns 1 for that, 0 when the directory is empty now.
 */
static int empty_one(int dir, char subdir[static 256])
{
	_Alignas(struct entry) char block[4096];
	long len;

	if (lseek(dir, 0, SEEK_SET) < 0)
		return -errno;
	while ((len = syscall(SYS_getdents64, dir, block, sizeof(block))) > 0)
		for (long at = 0; at < len;) {
			const struct entry *entry = (const struct entry *)(block + at);

			at += entry->len;
			if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
				continue;
			if (unlinkat(dir, entry->name, 0) == 0)
				continue;
			if (errno != EISDIR && errno != EPERM && errno != EACCES)
				return -errno;
			if (unlinkat(dir, entry->name, AT_REMOVEDIR) == 0)
				continue;
			if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES)
				return -errno;
			memcpy(subdir, entry->name, strnlen(entry->name, 255) + 1);
			return 1;
		}
	return len < 0 ? -errno : 0;
}

/* Opens a directory of the sandbox below dir, on the same device, and makes it ours to empty. */
static int open_below(int dir, const char *name, dev_t device)
{
	_cleanup_close_ int path = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char self[40];
	int fd;

	if (path < 0 || fstat(path, &st) < 0)
		return -errno;
	if (st.st_dev != device)
		return -EXDEV;
	if ((st.st_mode & 0700) != 0700) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
		if (chmod(self, 0700) < 0)
			return -errno;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Moves a directory from dir into the top folder, under a name that is free there. */
static int lift(int dir, const char *name, const struct scratch *scratch, unsigned int *serial)
{
	char moved[32];
	int r;

	do {
		snprintf(moved, sizeof(moved), ".brig-%u", (*serial)++);
		r = sys_rename_noreplace(dir, name, scratch->dir, moved);
	} while (r == -EEXIST);
	return r;
}

/* Empties the directory name of the top folder; what is not empty in it is lifted to the top and
 * comes up later. */
static int flatten(const struct scratch *scratch, const char *name, dev_t device,
		   unsigned int *serial)
{
	_cleanup_close_ int dir = open_below(scratch->dir, name, device);
	char below[256];
	int r;

	if (dir < 0)
		return dir;
	while ((r = empty_one(dir, below)) > 0) {
		_cleanup_close_ int deep = open_below(dir, below, device);

		r = deep < 0 ? deep : lift(dir, below, scratch, serial);
		if (r < 0)
			break;
	}
	return r;
}

/*
 * Without recursion and with a handful of descriptors, whatever the depth: a directory that is not
 * empty is moved up into the top folder and emptied there. Nobody is left to move things meanwhile:
 * the workload is dead before this is called.
 */
int scratch_remove(const struct scratch *scratch)
{
	unsigned int serial = 0;
	char name[256];
	struct stat top;
	int r;

	if (scratch->dir < 0 || unlinkat(scratch->parent, scratch->name, AT_REMOVEDIR) == 0 ||
	    errno == ENOENT)
		return 0;
	if (fstat(scratch->dir, &top) < 0 || fchmod(scratch->dir, 0700) < 0)
		return -errno;
	while ((r = empty_one(scratch->dir, name)) > 0) {
		r = flatten(scratch, name, top.st_dev, &serial);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	return unlinkat(scratch->parent, scratch->name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

void scratch_done(struct scratch *scratch)
{
	scratch->parent = fd_close(scratch->parent);
	scratch->dir = fd_close(scratch->dir);
}

/* One of ours that nobody holds: both the warden and the keeper were killed. */
static bool remove_left(int parent, const char *name)
{
	struct scratch s = { .parent = parent, .dir = -EBADF };
	struct stat st;
	bool is_removed = false;

	s.dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s.dir < 0)
		return false;
	snprintf(s.name, sizeof(s.name), "%s", name);
	if (fstat(s.dir, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077) &&
	    flock(s.dir, LOCK_EX | LOCK_NB) == 0)
		is_removed = scratch_remove(&s) == 0;
	close(s.dir);
	return is_removed;
}

static bool is_ours(const char *name)
{
	size_t len = strlen(PREFIX);

	return strncmp(name, PREFIX, len) == 0 &&
	       strspn(name + len, "abcdefghijklmnopqrstuvwxyz0123456789") == ID_LENGTH &&
	       name[len + ID_LENGTH] == '\0';
}

size_t scratch_sweep(const char *base)
{
	int parent = sys_openat2(AT_FDCWD, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
				 RESOLVE_NO_SYMLINKS);
	DIR *dir = parent < 0 ? NULL : fdopendir(parent);
	const struct dirent *entry;
	size_t removed = 0;

	if (!dir) {
		fd_close(parent);
		return 0;
	}
	if (check_base(base, parent, NULL) == 0)
		while ((entry = readdir(dir)))
			removed += is_ours(entry->d_name) && remove_left(parent, entry->d_name);
	closedir(dir);
	return removed;
}
