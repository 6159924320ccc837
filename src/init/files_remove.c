/*
 * files_remove.c - REMOVE: a file, or a tree
 *
 * A tree is removed from its leaves, with one open directory for each level. Names are only ever
 * looked up in a directory that is held, so a program that moves directories around meanwhile
 * cannot lead us out of the tree. What lies deeper than there are levels is first moved up into the top of
 * the tree; so no depth is too much.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "init/files_internal.h"

#define LEVELS 48
#define PASSES 64 /* over one directory in which somebody makes new names all the while */
#define LOOK   64

struct removal {
	struct task *task;
	int parent; /* of the tree; borrowed */
	struct level {
		DIR *dir;
		char name[NAME_MAX + 1];
		unsigned int passes;
	} levels[LEVELS];
	size_t count;
	unsigned int steps;
};

static void removal_done(struct removal *rm)
{
	while (rm->count > 0)
		closedir(rm->levels[--rm->count].dir);
}

/* The directory that the i-th level is a name in. */
static int above(const struct removal *rm, size_t i)
{
	return i == 0 ? rm->parent : dirfd(rm->levels[i - 1].dir);
}

/* Words with the name that failed, as deep as it lies. */
static int fail(struct removal *rm, int code, const char *name)
{
	char path[LEVELS * (NAME_MAX + 1) + PATH_MAX];
	size_t len = (size_t)snprintf(path, PATH_MAX, "%s", task_path(rm->task));

	len = MIN(len, (size_t)PATH_MAX - 1);
	for (size_t i = 1; i < rm->count; i++)
		len += (size_t)snprintf(path + len, sizeof(path) - len, "/%s", rm->levels[i].name);
	if (name)
		snprintf(path + len, sizeof(path) - len, "/%s", name);
	return task_fail(rm->task, code, path);
}

/* 1: it is a directory that has something in it. */
static int remove_one(int dir, const char *name)
{
	int r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	r = -errno;
	if (r != -EISDIR && r != -EPERM)
		return r;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	/* It was no directory after all: the first answer counts. */
	if (errno == ENOTDIR)
		return r;
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

static int open_level(struct level *level, int dir, const char *name)
{
	*level = (struct level){ .dir = files_open_directory(dir, name) };
	return level->dir ? 0 : -errno;
}

static int push(struct removal *rm, int dir, const char *name)
{
	struct level *level = &rm->levels[rm->count];
	int r = AS_EITHER(rm->task, open_level(level, dir, name));

	if (r < 0)
		return r;
	snprintf(level->name, sizeof(level->name), "%s", name);
	rm->count++;
	return 0;
}

static int rename_up(int dir, const char *name, int top, const char *fresh)
{
	return renameat(dir, name, top, fresh) < 0 ? -errno : 0;
}

static int move_up(struct removal *rm, int dir, const char *name)
{
	char fresh[FRESH_SIZE];
	int r;

	files_fresh_name(fresh);
	r = AS_EITHER(rm->task, rename_up(dir, name, dirfd(rm->levels[0].dir), fresh));
	if (r < 0)
		return r;
	/* It is found there in another pass, which is not one in vain. */
	rm->levels[0].passes = 0;
	return 0;
}

static int take_entry(struct removal *rm, const char *name)
{
	int dir = dirfd(rm->levels[rm->count - 1].dir);
	int r = AS_EITHER(rm->task, remove_one(dir, name));

	if (r == 1)
		r = rm->count < LEVELS ? push(rm, dir, name) : move_up(rm, dir, name);
	/* Removed, or made into something else, by somebody else: the next pass sees it. */
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		r = 0;
	return r < 0 ? fail(rm, r, name) : 0;
}

static int remove_directory(int dir, const char *name)
{
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* All names of the lowest level were read. */
static int leave(struct removal *rm)
{
	struct level *level = &rm->levels[rm->count - 1];
	int dir = above(rm, rm->count - 1);
	int r = AS_EITHER(rm->task, remove_directory(dir, level->name));

	if (r == -ENOTEMPTY && level->passes++ < PASSES) {
		rewinddir(level->dir);
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return fail(rm, r, NULL);
	closedir(level->dir);
	rm->count--;
	return 0;
}

static int remove_tree(struct removal *rm, const char *name)
{
	int r = push(rm, rm->parent, name);

	if (r < 0)
		return fail(rm, r, NULL);
	while (r >= 0 && rm->count > 0) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(rm->levels[rm->count - 1].dir);
		if (!entry)
			r = errno != 0 && errno != ENOENT ? fail(rm, -errno, NULL) : leave(rm);
		else if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
			r = take_entry(rm, entry->d_name);
		if (r >= 0 && ++rm->steps % LOOK == 0)
			r = task_look(rm->task);
	}
	return r;
}

/* "a/" is the directory a, also where it is a link to one. */
static const char *without_slashes(const char *path, char text[static PATH_MAX])
{
	size_t len = strnlen(path, PATH_MAX);

	while (len > 1 && path[len - 1] == '/')
		len--;
	snprintf(text, PATH_MAX, "%.*s", (int)MIN(len, (size_t)PATH_MAX - 1), path);
	return strlen(path) >= PATH_MAX ? path : text;
}

static int look(const struct place *place)
{
	return faccessat(place->dir, place->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int files_remove(struct task *t)
{
	_cleanup_(place_done) struct place place = PLACE_NONE;
	_cleanup_(removal_done) struct removal rm = { .task = t };
	char text[PATH_MAX];
	int r = AS_EITHER(t, place_find(without_slashes(task_path(t), text), false, &place));

	if (r == -EISDIR)
		return err_set(&t->err, -EINVAL, "\"%.300s\" cannot be removed by this name",
			       task_path(t));
	if (r == 0)
		r = AS_EITHER(t, look(&place));
	if (r == -ENOENT && (task_flags(t) & TREE_OPTIONAL))
		return 0;
	rm.parent = place.dir;
	r = r < 0 ? r : AS_EITHER(t, remove_one(place.dir, place.name));
	if (r == 1 && (task_flags(t) & TREE_RECURSIVE))
		return remove_tree(&rm, place.name);
	r = r == 1 ? -ENOTEMPTY : r;
	return r < 0 ? task_fail(t, r, task_path(t)) : 0;
}
