#include "jail/mediate_walk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/target.h"

#define LINKS_MAX       40 /* as in the kernel */
#define PROC_ROOT_INODE 1
#define NO_SYMFOLLOW    0x2000 /* ST_NOSYMFOLLOW: a mount whose links are not followed */

bool is_on_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC;
}

static bool is_proc_root(int fd)
{
	struct stat st;

	return is_on_proc(fd) && fstat(fd, &st) == 0 && st.st_ino == PROC_ROOT_INODE;
}

/* Goes on from another directory, which is ours from now on. */
static int enter(struct walk *w, int dir)
{
	fd_close(w->dir);
	w->dir = dir;
	return 0;
}

/* The same, for one that no component of a path led to. */
static int enter_pinned(struct walk *w, int dir)
{
	if (is_on_proc(dir) && !is_proc_root(dir)) {
		fd_close(dir);
		return -EACCES;
	}
	return enter(w, dir);
}

int walk_take(struct walk *w, pid_t tid, int fd, uint64_t address, bool may_be_empty)
{
	int r = may_be_empty && !address ? 0
					 : target_string(tid, address, w->path, sizeof(w->path));

	w->tid = tid;
	if (r < 0 || (w->path[0] == '\0' && !may_be_empty))
		return r < 0 ? r : -ENOENT;
	if (w->path[0] == '/')
		return 0;
	r = target_open(tid, fd);
	if (r < 0)
		return r;
	if (w->path[0] != '\0')
		return enter_pinned(w, r);
	w->object = r;
	return is_on_proc(r) ? -EACCES : 0;
}

/* How much of a path stands before its last component. */
static size_t parent_length(const char *path)
{
	size_t len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	while (len > 0 && path[len - 1] != '/')
		len--;
	return len;
}

static void drop(struct walk *w, size_t len)
{
	memmove(w->path, w->path + len, strlen(w->path + len) + 1);
}

static int enter_root(struct walk *w)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	drop(w, strspn(w->path, "/"));
	if (w->path[0] == '\0')
		strcpy(w->path, ".");
	return enter(w, root);
}

/* Puts text in place of the component that rest stands behind. */
static int splice_text(struct walk *w, const char *text, size_t len, const char *rest)
{
	size_t rest_len = strlen(rest);

	if (len + rest_len >= sizeof(w->path))
		return -ENAMETOOLONG;
	memmove(w->path + len, rest, rest_len + 1);
	memcpy(w->path, text, len);
	return w->path[0] == '/' ? enter_root(w) : 0;
}

/* What "self" says to the target. False when name is something else. */
static bool self_text(const struct walk *w, const char *name, char *text, size_t size)
{
	pid_t pid;

	if (!str_equal(name, "self") && !str_equal(name, "thread-self"))
		return false;
	if (target_process(w->tid, &pid) < 0)
		pid = w->tid;
	if (str_equal(name, "self"))
		snprintf(text, size, "%d", pid);
	else
		snprintf(text, size, "%d/task/%d", pid, w->tid);
	return true;
}

/* The kernel follows such a link to an object, not along a text. */
static bool is_magic(const struct walk *w, const char *name)
{
	int fd = sys_openat2(w->dir, name, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);

	fd_close(fd);
	return fd == -ELOOP;
}

static int jump(struct walk *w, const char *name, const char *rest)
{
	int fd = openat(w->dir, name, O_PATH | O_CLOEXEC | (*rest ? O_DIRECTORY : 0));

	if (fd < 0)
		return -errno;
	if (*rest) {
		drop(w, (size_t)(rest - w->path) + strspn(rest, "/"));
		if (w->path[0] == '\0')
			strcpy(w->path, ".");
		return enter_pinned(w, fd);
	}
	w->object = fd;
	return is_on_proc(fd) ? -EACCES : 0;
}

/* One step along the link called name, with rest standing behind it in w->path. */
static int follow(struct walk *w, const char *name, const char *rest)
{
	struct statfs fs;
	char text[PATH_MAX];
	ssize_t len;

	if (++w->links > LINKS_MAX || fstatfs(w->dir, &fs) < 0 || (fs.f_flags & NO_SYMFOLLOW))
		return -ELOOP;
	if (fs.f_type == PROC_SUPER_MAGIC) {
		if (is_proc_root(w->dir) && self_text(w, name, text, sizeof(text)))
			return splice_text(w, text, strlen(text), rest);
		if (is_magic(w, name))
			return jump(w, name, rest);
	}
	len = readlinkat(w->dir, name, text, sizeof(text));
	if (len < 0)
		return errno == EINVAL ? -ENOTDIR : -errno;
	if (len == 0 || len == sizeof(text))
		return len == 0 ? -ENOENT : -ENAMETOOLONG;
	return splice_text(w, text, (size_t)len, rest);
}

/* A number in the root of /proc is a process, and must be the target's own. */
static int check_process(const struct walk *w, const char *name)
{
	char *end;
	long number;
	pid_t pid;

	if (name[0] < '0' || name[0] > '9' || !is_proc_root(w->dir))
		return 0;
	number = strtol(name, &end, 10);
	if (*end != '\0' || number == w->tid)
		return 0;
	return target_process(w->tid, &pid) == 0 && number == pid ? 0 : -EACCES;
}

static int step(struct walk *w)
{
	size_t len = strcspn(w->path, "/");
	char name[NAME_MAX + 1];
	int fd, r;

	if (len == 0)
		return enter_root(w);
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, w->path, len);
	name[len] = '\0';
	r = check_process(w, name);
	if (r < 0)
		return r;
	fd = openat(w->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? follow(w, name, w->path + len) : -errno;
	drop(w, len + strspn(w->path + len, "/"));
	return enter(w, fd);
}

/* All of the parent's path in one call. An error may be that of the keeper's own /proc/self: then
 * nothing is known. */
static int leap(struct walk *w, size_t len)
{
	char parent[PATH_MAX];
	int fd;

	memcpy(parent, w->path, len);
	parent[len] = '\0';
	fd = sys_openat2(w->dir, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
			 RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	if (is_on_proc(fd)) {
		fd_close(fd);
		return -EACCES;
	}
	drop(w, len);
	return enter(w, fd);
}

int walk_parent(struct walk *w)
{
	size_t len = parent_length(w->path);
	int r = w->path[0] == '/' && len == 0 ? enter_root(w) : 0;

	if (len == 0 || leap(w, len) == 0)
		return r;
	while (r == 0 && parent_length(w->path) > 0)
		r = step(w);
	return r;
}

int walk_follow(struct walk *w)
{
	size_t len = strcspn(w->path, "/");
	char name[NAME_MAX + 1];

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, w->path, len);
	name[len] = '\0';
	return follow(w, name, w->path + len);
}

int walk_object(struct walk *w)
{
	for (;;) {
		struct stat st;
		int fd, r = walk_parent(w);

		if (r < 0 || w->object >= 0)
			return r;
		fd = openat(w->dir, w->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode)) {
			w->object = fd;
			return 0;
		}
		fd_close(fd);
		r = walk_follow(w);
		if (r < 0)
			return r;
	}
}

void walk_done(struct walk *w)
{
	w->dir = fd_close(w->dir);
	w->object = fd_close(w->object);
}
