/*
 * files_move.c - MOVE: another name
 *
 * Mostly one rename. A directory of the image cannot be renamed as a whole in a container's view,
 * and nothing can across file systems; there the directories are made anew and what is in them is
 * moved one by one, files with their content where it must be.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "init/files_internal.h"

#define LEVELS 64
#define LOOK   64

struct level {
	DIR *from;
	int to;
	char from_name[NAME_MAX + 1];
	struct stat st;
};

struct move {
	struct task *task;
	struct place from, to;
	struct level levels[LEVELS];
	size_t count;
	unsigned int steps;
};

static void level_done(struct level *level)
{
	closedir(level->from);
	fd_close(level->to);
}

static void move_done(struct move *m)
{
	while (m->count > 0)
		level_done(&m->levels[--m->count]);
	place_done(&m->from);
	place_done(&m->to);
}

static int copy_bytes(struct task *t, int from, int to)
{
	_cleanup_free_ char *data = malloc(FILES_BUFFER);
	struct sink sink = { .fd = to };

	for (;;) {
		ssize_t n = data ? read(from, data, FILES_BUFFER) : -1;
		int r = task_look(t);

		if (n < 0 && data && errno == EINTR)
			continue;
		r = r < 0   ? r
		    : n < 0 ? (data ? -errno : -ENOMEM)
			    : sink_put(&sink, data, (size_t)n);
		if (r < 0)
			return r;
		if (n == 0)
			return sink_finish(&sink);
	}
}

static int keep_look(int fd, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	if (fchmod(fd, st->st_mode & 01777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int open_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_directory(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int look(int dir, const char *name, struct stat *ret_st)
{
	return fstatat(dir, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int remove_name(int dir, const char *name, int flags)
{
	return unlinkat(dir, name, flags) < 0 ? -errno : 0;
}

static int make_link(const char *target, const struct place *to)
{
	return symlinkat(target, to->dir, to->name) < 0 ? -errno : 0;
}

static int carry_file(struct move *m, int from_dir, const char *name, const struct place *to,
		      bool exclusive)
{
	_cleanup_(fresh_done) struct fresh fresh = FRESH_NONE;
	_cleanup_close_ int from = AS_EITHER(m->task, open_file(from_dir, name));
	struct stat st;
	int r;

	if (from < 0)
		return from;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EXDEV;
	r = fresh_make(m->task, to, &fresh);
	r = r < 0 ? r : copy_bytes(m->task, from, fresh.fd);
	if (r == 0 && files_copy_attributes(from, fresh.fd) == -ENOMEM)
		r = -ENOMEM;
	r = r < 0 ? r : keep_look(fresh.fd, &st);
	r = r < 0 ? r : fresh_keep(&fresh, exclusive);
	return r < 0 ? r : AS_EITHER(m->task, remove_name(from_dir, name, 0));
}

static int carry_link(struct move *m, int from_dir, const char *name, const struct place *to,
		      bool exclusive)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(from_dir, name, target, sizeof(target) - 1);
	int r;

	if (len < 0)
		return -errno;
	target[len] = '\0';
	if (!exclusive)
		(void)!AS_EITHER(m->task, remove_name(to->dir, to->name, 0));
	r = AS_EITHER(m->task, make_link(target, to));
	return r < 0 ? r : AS_EITHER(m->task, remove_name(from_dir, name, 0));
}

static int open_level(int dir, const char *name, struct level *level)
{
	level->from = files_open_directory(dir, name);
	return level->from && fstat(dirfd(level->from), &level->st) == 0 ? 0 : -errno;
}

/* A directory is made anew, and gone into. */
static int begin_directory(struct move *m, int from_dir, const char *name, const struct place *to)
{
	struct level level = { .to = -EBADF };
	int r;

	if (m->count == LEVELS)
		return -ELOOP;
	r = AS_EITHER(m->task, open_level(from_dir, name, &level));
	if (r < 0)
		return r;
	/* As rename would: an empty directory is replaced. */
	(void)!AS_EITHER(m->task, remove_name(to->dir, to->name, AT_REMOVEDIR));
	r = place_make_directory(m->task, to, 0700);
	if (r == 0) {
		level.to = AS_EITHER(m->task, open_directory(to->dir, to->name));
		r = MIN(level.to, 0);
	}
	if (r < 0) {
		level_done(&level);
		return r;
	}
	snprintf(level.from_name, sizeof(level.from_name), "%s", name);
	m->levels[m->count++] = level;
	return 0;
}

static int rename_one(int from_dir, const char *name, const struct place *to, bool exclusive)
{
	int r = -EINVAL;

	if (exclusive)
		r = sys_rename_noreplace(from_dir, name, to->dir, to->name);
	if (exclusive && (r == -EINVAL || r == -ENOSYS)) {
		/* Not known there: what is between the two looks is a moment. */
		if (faccessat(to->dir, to->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return -EEXIST;
		exclusive = false;
	}
	if (!exclusive)
		r = renameat(from_dir, name, to->dir, to->name) < 0 ? -errno : 0;
	return r;
}

static int move_one(struct move *m, int from_dir, const char *name, const struct place *to,
		    bool exclusive)
{
	struct stat st;
	int r = AS_EITHER(m->task, rename_one(from_dir, name, to, exclusive));

	if (r != -EXDEV)
		return r;
	r = AS_EITHER(m->task, look(from_dir, name, &st));
	if (r < 0)
		return r;
	if (exclusive && faccessat(to->dir, to->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (S_ISDIR(st.st_mode))
		return begin_directory(m, from_dir, name, to);
	if (S_ISLNK(st.st_mode))
		return carry_link(m, from_dir, name, to, exclusive);
	return S_ISREG(st.st_mode) ? carry_file(m, from_dir, name, to, exclusive) : -EXDEV;
}

static int fail(struct move *m, int code, const char *name)
{
	char path[PATH_MAX + NAME_MAX];

	if (code == -ELOOP && m->count == LEVELS)
		return err_set(&m->task->err, code, "\"%.300s\" is too deep to be moved there",
			       task_path(m->task));
	snprintf(path, sizeof(path), "%.*s%s%s", PATH_MAX - 3, task_path(m->task),
		 name ? " ... " : "", name ?: "");
	return task_fail(m->task, code, path);
}

/* What was in it is elsewhere. */
static int leave(struct move *m)
{
	struct level *level = &m->levels[m->count - 1];
	int above = m->count == 1 ? m->from.dir : dirfd(m->levels[m->count - 2].from);
	int r = AS_EITHER(m->task, keep_look(level->to, &level->st));

	r = r < 0 ? r : AS_EITHER(m->task, remove_name(above, level->from_name, AT_REMOVEDIR));
	if (r < 0)
		return fail(m, r, level->from_name);
	level_done(level);
	m->count--;
	return 0;
}

static int take_entry(struct move *m, const char *name)
{
	const struct level *level = &m->levels[m->count - 1];
	struct place to = { .dir = level->to };
	int r;

	snprintf(to.name, sizeof(to.name), "%s", name);
	r = move_one(m, dirfd(level->from), name, &to, false);
	if (r < 0 && r != -ENOENT)
		return fail(m, r, name);
	return 0;
}

static int move_rest(struct move *m)
{
	int r = 0;

	while (r >= 0 && m->count > 0) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(m->levels[m->count - 1].from);
		if (!entry)
			r = errno ? fail(m, -errno, NULL) : leave(m);
		else if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
			r = take_entry(m, entry->d_name);
		if (r >= 0 && ++m->steps % LOOK == 0)
			r = task_look(m->task);
	}
	return r;
}

/* As in a place, without slashes behind, which a directory may have. */
static int find(const char *path, struct place *ret_place)
{
	char text[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, path, len + 1);
	while (len > 1 && text[len - 1] == '/')
		text[--len] = '\0';
	return place_find(text, false, ret_place);
}

/* It may be either that is meant. */
static int fail_both(struct move *m, int code)
{
	char paths[2 * PATH_MAX + 8];

	snprintf(paths, sizeof(paths), "%.120s\" to \"%.120s", task_path(m->task),
		 message_text(&m->task->call, FIELD_TO, ""));
	return task_fail(m->task, code, paths);
}

int files_move(struct task *t)
{
	_cleanup_(move_done) struct move m = { .task = t, .from = PLACE_NONE, .to = PLACE_NONE };
	const char *to = message_text(&t->call, FIELD_TO, "");
	int r = task_flags(t) & MOVE_PARENTS ? files_make_parents(t, to) : 0;

	if (r < 0)
		return task_fail(t, r, to);
	r = AS_EITHER(t, find(task_path(t), &m.from));
	if (r < 0)
		return task_fail(t, r, task_path(t));
	r = AS_EITHER(t, find(to, &m.to));
	if (r < 0)
		return task_fail(t, r, to);
	r = move_one(&m, m.from.dir, m.from.name, &m.to, task_flags(t) & MOVE_EXCLUSIVE);
	if ((r == -EACCES || r == -EPERM) && t->is_lent && m.count == 0)
		r = lend_move(t, &m.from, &m.to, task_flags(t) & MOVE_EXCLUSIVE);
	if (r == -EEXIST || r == -ENOTEMPTY || r == -EISDIR || r == -ENOTDIR)
		return task_fail(t, r, to);
	if (r == -EINVAL)
		return err_set(&t->err, r, "\"%.300s\" cannot be moved into itself", task_path(t));
	if (r == -ENOENT)
		return task_fail(t, r, task_path(t));
	return r < 0 ? fail_both(&m, r) : move_rest(&m);
}
