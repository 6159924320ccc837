/*
 * files_list.c - STAT and LIST: what is there
 *
 * A list goes down with one open directory for each level and never holds more than one entry, so
 * neither wide nor deep trees cost memory. A directory that cannot be gone into, or lies deeper
 * than the bound, is marked in its entry; the rest is listed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "init/files_internal.h"

#define LEVELS 64 /* the stack has room for no more, whatever the bound says */

int files_stat(struct task *t)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ENTRY, t->call.call);
	const char *path = task_path(t);
	int flags = task_flags(t) & STAT_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW;
	struct seen seen = { .dir = AT_FDCWD, .name = path, .path = path };
	char absolute[PATH_MAX];

	if (fstatat(AT_FDCWD, path, &seen.st, flags) < 0)
		return task_fail(t, -errno, path);
	if (!(task_flags(t) & STAT_LEADS))
		draft_text(&d, FIELD_PATH, path);
	else if (task_absolute(path, absolute))
		draft_text(&d, FIELD_PATH, absolute);
	else
		return task_fail(t, -ENAMETOOLONG, path);
	files_describe(t, &d, &seen);
	return task_send(t, &d);
}

struct list {
	struct task *task;
	uint64_t depth, count;
	struct level {
		DIR *dir;
		size_t len; /* of the path that leads to its entries */
	} levels[LEVELS];
	size_t level_count;
	char path[LEVELS * (NAME_MAX + 1) + 1];
};

static void list_done(struct list *l)
{
	while (l->level_count > 0)
		closedir(l->levels[--l->level_count].dir);
}

static void push(struct list *l, DIR *dir, size_t len)
{
	l->levels[l->level_count++] = (struct level){ dir, len };
}

static int say_entry(struct list *l, int dir, const char *name, const struct stat *st, bool closed)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ENTRY, l->task->call.call);
	struct seen seen = { .dir = dir, .name = name, .path = "", .st = *st };
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", task_path(l->task), l->path) < PATH_MAX)
		seen.path = path;
	draft_text(&d, FIELD_PATH, l->path);
	files_describe(l->task, &d, &seen);
	if (closed)
		draft_number(&d, FIELD_FLAGS, ENTRY_CLOSED);
	return task_send(l->task, &d);
}

static int take_entry(struct list *l, const struct dirent *entry)
{
	const char *name = entry->d_name;
	const struct level *level = &l->levels[l->level_count - 1];
	int dir = dirfd(level->dir);
	size_t len = strlen(name);
	bool goes_down;
	DIR *below;
	struct stat st;
	int r;

	if (level->len + len + 2 > sizeof(l->path))
		return task_fail(l->task, -ENAMETOOLONG, l->path);
	/* It is gone again, or its name alone can be seen. */
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != EACCES)
			return 0;
		st = (struct stat){ .st_mode = DTTOIF(entry->d_type) };
	}
	if (++l->count > files_bounds.entries)
		return err_set(&l->task->err, -E2BIG,
			       "\"%s\" has more than %llu entries: list a part of it",
			       task_path(l->task), (unsigned long long)files_bounds.entries);
	memcpy(l->path + level->len, name, len + 1);
	goes_down = S_ISDIR(st.st_mode) && l->level_count < l->depth;
	below = goes_down && l->level_count < MIN(files_bounds.depth, (uint64_t)LEVELS)
			? files_open_directory(dir, name)
			: NULL;
	r = say_entry(l, dir, name, &st, goes_down && !below);
	if (below && r < 0) {
		closedir(below);
	} else if (below) {
		memcpy(l->path + level->len + len, "/", 2);
		push(l, below, level->len + len + 1);
	}
	return r;
}

static int walk(struct list *l)
{
	int r = 0;

	while (r >= 0 && l->level_count > 0) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(l->levels[l->level_count - 1].dir);
		if (entry) {
			if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
				r = take_entry(l, entry);
			continue;
		}
		/* One that was removed meanwhile is at its end; so is one below that fails. */
		if (errno != 0 && errno != ENOENT && l->level_count == 1)
			r = task_fail(l->task, -errno, task_path(l->task));
		closedir(l->levels[--l->level_count].dir);
	}
	return r;
}

int files_list(struct task *t)
{
	_cleanup_(list_done) struct list l = { .task = t };
	const char *path = task_path(t);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		int r = task_fail(t, -errno, path);

		fd_close(fd);
		return r;
	}
	l.depth = message_number(&t->call, FIELD_DEPTH, 1);
	push(&l, dir, 0);
	return walk(&l);
}
