#include "jail/changes_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

int tree_open(int root, const char *path, int flags)
{
	int fd = -EAGAIN;

	/* The kernel says EAGAIN when something was renamed while it looked. */
	for (int i = 0; i < 16 && fd == -EAGAIN; i++)
		fd = sys_openat2(root, *path ? path : ".",
				 (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC), 0,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
					 RESOLVE_NO_XDEV);
	return fd;
}

int tree_open_parent(int root, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *parent = NULL;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return tree_open(root, "", O_PATH | O_DIRECTORY);
	parent = strndup(path, (size_t)(slash - path));
	return parent ? tree_open(root, parent, O_PATH | O_DIRECTORY) : -ENOMEM;
}

/* An O_PATH descriptor cannot be given to fchmod, but its name in /proc leads to it and nowhere
 * else. */
static int chmod_held(int fd, mode_t mode)
{
	char self[40];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return chmod(self, mode & 07777) < 0 ? -errno : 0;
}

int upper_open(int upper, const char *path, int flags, struct stat *ret_st)
{
	_cleanup_close_ int held = tree_open(upper, path, O_PATH);
	mode_t need, mode;
	bool lend;
	int fd, r;

	if (held < 0)
		return held;
	if (fstat(held, ret_st) < 0)
		return -errno;
	mode = ret_st->st_mode;
	need = S_ISDIR(mode) ? 0700 : 0400;
	lend = geteuid() != 0 && geteuid() == ret_st->st_uid && (S_ISDIR(mode) || S_ISREG(mode)) &&
	       (mode & need & 0500) != (need & 0500);
	if (lend) {
		r = chmod_held(held, mode | need);
		if (r < 0)
			return r;
	}
	fd = tree_open(upper, path, flags);
	if (lend && !S_ISDIR(mode))
		(void)chmod_held(held, mode);
	return fd;
}

int upper_open_file(int upper, const char *path, struct stat *ret_st)
{
	_cleanup_close_ int fd = -EBADF;
	const char *name;
	struct stat st;

	/* Asked before it is opened: opening a device does things. */
	fd = tree_open_parent(upper, path, &name);
	if (fd < 0)
		return fd;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? upper_open(upper, path, OPEN_FILE, ret_st) : -EBADMSG;
}

int upper_readlink(int upper, const char *path, char **ret_target)
{
	_cleanup_close_ int parent = -EBADF;
	char target[PATH_MAX];
	const char *name;
	char *copy;
	ssize_t n;

	parent = tree_open_parent(upper, path, &name);
	if (parent < 0)
		return parent;
	n = readlinkat(parent, name, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	copy = strndup(target, (size_t)n);
	if (!copy)
		return -ENOMEM;
	*ret_target = copy;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_add(struct names *names, const char *name)
{
	if (names->count >= CHANGES_MAX)
		return -E2BIG;
	if (names->count == names->room) {
		size_t room = names->room ? names->room * 2 : 16;
		char **items = reallocarray(names->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		names->items = items;
		names->room = room;
	}
	names->items[names->count] = strdup(name);
	return names->items[names->count++] ? 0 : -ENOMEM;
}

void names_done(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
	*names = (struct names){ 0 };
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

int names_list(int dir, struct names *ret_names)
{
	_cleanup_(names_done) struct names names = { 0 };
	_cleanup_(close_dirp) DIR *stream = NULL;
	_cleanup_close_ int own = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	const struct dirent *entry;
	int r;

	stream = own < 0 ? NULL : fdopendir(own);
	if (!stream)
		return -errno;
	take_fd(&own);
	rewinddir(stream);
	for (errno = 0; (entry = readdir(stream)); errno = 0) {
		if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
			continue;
		r = names_add(&names, entry->d_name);
		if (r < 0)
			return r;
	}
	if (errno)
		return -errno;
	if (names.count)
		qsort(names.items, names.count, sizeof(*names.items), compare_names);
	*ret_names = names;
	names = (struct names){ 0 };
	return 0;
}

bool names_has(const struct names *names, const char *name)
{
	return names->count &&
	       bsearch(&name, names->items, names->count, sizeof(*names->items), compare_names);
}

int todo_add(struct todo *todo, const char *path, bool is_new, mode_t mode)
{
	size_t len = strlen(path);
	char *copy;

	if (todo->count >= CHANGES_MAX || len > CHANGES_NAMES_MAX - todo->bytes)
		return -E2BIG;
	if (todo->count == todo->room) {
		size_t room = todo->room ? todo->room * 2 : 16;
		struct todo_item *items = reallocarray(todo->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		todo->items = items;
		todo->room = room;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	todo->items[todo->count++] =
		(struct todo_item){ .path = copy, .is_new = is_new, .mode = mode };
	todo->bytes += len;
	return 0;
}

void todo_done(struct todo *todo)
{
	for (size_t i = 0; i < todo->count; i++)
		free(todo->items[i].path);
	free(todo->items);
	*todo = (struct todo){ 0 };
}

enum mark upper_mark(int dir)
{
	/* "user." with the option userxattr, "trusted." without. */
	static const char *const names[] = { "user.overlay.opaque", "trusted.overlay.opaque" };
	char value;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (fgetxattr(dir, names[i], &value, 1) == 1)
			return value == 'y'   ? MARK_OPAQUE
			       : value == 'x' ? MARK_WHITEOUTS
					      : MARK_NONE;
	return MARK_NONE;
}

bool upper_is_whiteout(int upper, const char *path, const struct stat *st, enum mark mark)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat again;

	if (S_ISCHR(st->st_mode))
		return st->st_rdev == 0;
	if (mark != MARK_WHITEOUTS || !S_ISREG(st->st_mode) || st->st_size != 0)
		return false;
	fd = upper_open_file(upper, path, &again);
	return fd >= 0 && (fgetxattr(fd, "user.overlay.whiteout", NULL, 0) >= 0 ||
			   fgetxattr(fd, "trusted.overlay.whiteout", NULL, 0) >= 0);
}

char *path_join(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", name) < 0 ? NULL : path;
}

bool link_stays_inside(const char *path, const char *target)
{
	size_t depth = 0;
	bool named = false;

	if (*target == '/' || *target == '\0')
		return false;
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	while (*target) {
		size_t len = strcspn(target, "/");

		if (len == 2 && memcmp(target, "..", 2) == 0) {
			/* Behind a name, ".." goes up from wherever that name leads to. */
			if (named || depth == 0)
				return false;
			depth--;
		} else if (len > 0 && !(len == 1 && *target == '.')) {
			named = true;
		}
		target += len + (target[len] == '/');
	}
	return true;
}

/* Where the next bytes are that were written, at or behind from; size when there are none. */
static uint64_t next_data(int fd, uint64_t from, uint64_t size)
{
	off_t at = lseek(fd, (off_t)from, SEEK_DATA);

	if (at < 0)
		return errno == ENXIO ? size : from;
	return MIN((uint64_t)at, size);
}

static ssize_t read_at(int fd, char *data, size_t len, uint64_t offset)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, data + got, len - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int content_equal(int a, int b, uint64_t size, uint64_t *budget)
{
	char left[32 * KIB], right[32 * KIB];

	for (uint64_t at = 0; at < size;) {
		uint64_t next = MIN(next_data(a, at, size), next_data(b, at, size));
		size_t len = (size_t)MIN(size - next, (uint64_t)sizeof(left));
		ssize_t n, m;

		if (budget && *budget < len)
			return -EDQUOT;
		if (budget)
			*budget -= len;
		n = read_at(a, left, len, next);
		m = read_at(b, right, len, next);
		if (n < 0 || m < 0)
			return n < 0 ? (int)n : (int)m;
		/* Shorter than it was a moment ago: not what it was. */
		if ((size_t)n != len || n != m || memcmp(left, right, len) != 0)
			return 0;
		at = next + len;
	}
	return 1;
}

static int write_at(int fd, const char *data, size_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int content_copy(int from, int to, uint64_t size, uint64_t *room)
{
	char block[64 * KIB];
	uint64_t at = 0;

	while ((at = next_data(from, at, size)) < size) {
		off_t hole = lseek(from, (off_t)at, SEEK_HOLE);
		uint64_t end = hole < 0 ? size : MIN((uint64_t)hole, size);

		/* Always on: a hole where there was data is not going to happen twice. */
		end = MAX(end, at + 1);
		while (at < end) {
			ssize_t n = read_at(from, block, (size_t)MIN(end - at, sizeof(block)), at);
			int r;

			if (n <= 0)
				return n < 0 ? (int)n : -EIO;
			if (room && *room < (uint64_t)n)
				return -EFBIG;
			if (room)
				*room -= (uint64_t)n;
			r = write_at(to, block, (size_t)n, at);
			if (r < 0)
				return r;
			at += (uint64_t)n;
		}
	}
	return ftruncate(to, (off_t)size) < 0 ? -errno : 0;
}
