#include "jail/changes_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

struct find {
	int upper, lower;
	bool by_marks; /* there is no lower layer to look at, and what overlayfs wrote counts */
	struct changes *changes;
	struct todo todo;
	size_t bytes;
};

static int add(struct find *find, enum change_kind kind, const char *path, const struct stat *old,
	       const struct stat *new)
{
	struct changes *changes = find->changes;
	size_t len = strlen(path);
	char *copy;

	if (changes->count >= CHANGES_MAX || len > CHANGES_NAMES_MAX - find->bytes)
		return -E2BIG;
	if (changes->count == changes->room) {
		size_t room = changes->room ? changes->room * 2 : 64;
		struct change *items = reallocarray(changes->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		changes->items = items;
		changes->room = room;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	find->bytes += len;
	changes->items[changes->count++] = (struct change){
		.kind = kind,
		.path = copy,
		.old_mode = old ? old->st_mode : 0,
		.new_mode = new ? new->st_mode : 0,
		.size = (uint64_t)(new ? new : old)->st_size,
	};
	return 0;
}

static int problem(struct find *find, const char *path, int code, const char *text)
{
	return change_notes_add(&find->changes->problems, CHANGE_PROBLEM, path, "%s: %s", text,
				code == -EXDEV ? "on another file system" : strerror(-code));
}

static int files_equal(struct find *find, const char *path, uint64_t size)
{
	_cleanup_close_ int upper = -EBADF, lower = -EBADF;
	struct stat st, below;

	upper = upper_open_file(find->upper, path, &st);
	if (upper < 0)
		return upper;
	lower = tree_open(find->lower, path, OPEN_FILE);
	if (lower < 0)
		return lower;
	if (fstat(lower, &below) < 0)
		return -errno;
	return S_ISREG(below.st_mode) ? content_equal(upper, lower, size, NULL) : 0;
}

static int links_equal(struct find *find, const char *path, int lower_dir, const char *name)
{
	_cleanup_free_ char *target = NULL;
	char below[PATH_MAX];
	ssize_t n;
	int r = upper_readlink(find->upper, path, &target);

	if (r < 0)
		return r;
	n = readlinkat(lower_dir, name, below, sizeof(below) - 1);
	if (n < 0)
		return -errno;
	below[n] = '\0';
	return str_equal(target, below);
}

/* Both exist and are of one type, which is not a directory. */
static int compare(struct find *find, const char *path, int lower_dir, const char *name,
		   const struct stat *old, const struct stat *new)
{
	int same;

	if (S_ISREG(new->st_mode))
		same = new->st_size == old->st_size
			       ? files_equal(find, path, (uint64_t) new->st_size)
			       : 0;
	else if (S_ISLNK(new->st_mode))
		same = links_equal(find, path, lower_dir, name);
	else
		same = new->st_rdev == old->st_rdev;
	if (same < 0) {
		int r = problem(find, path, same, "cannot be compared");

		/* Behind a mount point of the host there is nothing that the sandbox saw. */
		if (r < 0 || same == -EXDEV)
			return r;
		same = 0;
	}
	if (!same)
		return add(find, CHANGE_CHANGED, path, old, new);
	if ((old->st_mode & 07777) != (new->st_mode & 07777))
		return add(find, CHANGE_MODE, path, old, new);
	return 0;
}

/* Whether overlayfs copied it from below, by the mark that it leaves on files and directories. */
static bool is_copied_up(struct find *find, const char *path, const struct stat *st)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat again;

	if (S_ISDIR(st->st_mode))
		fd = upper_open(find->upper, path, OPEN_DIR, &again);
	else if (S_ISREG(st->st_mode))
		fd = upper_open_file(find->upper, path, &again);
	return fd >= 0 && (fgetxattr(fd, "user.overlay.origin", NULL, 0) >= 0 ||
			   fgetxattr(fd, "trusted.overlay.origin", NULL, 0) >= 0);
}

static int visit_marked(struct find *find, const char *path, const struct stat *new, enum mark mark)
{
	static const struct stat unknown;
	bool is_changed;
	int r;

	if (upper_is_whiteout(find->upper, path, new, mark))
		return add(find, CHANGE_DELETED, path, &unknown, NULL);
	is_changed = is_copied_up(find, path, new);
	if (!S_ISDIR(new->st_mode))
		return add(find, is_changed ? CHANGE_CHANGED : CHANGE_ADDED, path, NULL, new);
	r = is_changed ? 0 : add(find, CHANGE_ADDED, path, NULL, new);
	return r < 0 ? r : todo_add(&find->todo, path, true, 0);
}

/* One entry of a directory of the upper layer. lower_dir is negative where there is none. */
static int visit_entry(struct find *find, const char *path, const char *name, int upper_dir,
		       int lower_dir, enum mark mark)
{
	struct stat old, new;
	bool existed = false;
	int r;

	if (strlen(path) >= PATH_MAX)
		return problem(find, path, -ENAMETOOLONG, "too deep to be looked at");
	if (fstatat(upper_dir, name, &new, AT_SYMLINK_NOFOLLOW) < 0)
		return problem(find, path, -errno, "cannot be looked at");
	if (find->by_marks)
		return visit_marked(find, path, &new, mark);
	if (lower_dir >= 0) {
		existed = fstatat(lower_dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
		if (!existed && errno != ENOENT)
			return problem(find, path, -errno, "cannot be compared");
	}

	if (upper_is_whiteout(find->upper, path, &new, mark))
		return existed ? add(find, CHANGE_DELETED, path, &old, NULL) : 0;
	if (existed && (old.st_mode & S_IFMT) == (new.st_mode &S_IFMT))
		return S_ISDIR(new.st_mode) ? todo_add(&find->todo, path, false, 0)
					    : compare(find, path, lower_dir, name, &old, &new);
	r = existed ? add(find, CHANGE_DELETED, path, &old, NULL) : 0;
	r = r < 0 ? r : add(find, CHANGE_ADDED, path, NULL, &new);
	return r == 0 && S_ISDIR(new.st_mode) ? todo_add(&find->todo, path, true, 0) : r;
}

/* What the lower layer has in an opaque directory, and the upper one does not, is gone. */
static int visit_hidden(struct find *find, const char *dir, int lower_dir,
			const struct names *shown)
{
	_cleanup_(names_done) struct names below = { 0 };
	_cleanup_close_ int fd = tree_open(find->lower, dir, OPEN_DIR);
	int r;

	r = fd < 0 ? fd : names_list(fd, &below);
	if (r < 0)
		return r == -ENOMEM ? r : problem(find, dir, r, "cannot be compared");
	for (size_t i = 0; i < below.count; i++) {
		_cleanup_free_ char *path = path_join(dir, below.items[i]);
		struct stat old;

		if (!path)
			return -ENOMEM;
		if (names_has(shown, below.items[i]) ||
		    fstatat(lower_dir, below.items[i], &old, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = strlen(path) >= PATH_MAX
			    ? problem(find, path, -ENAMETOOLONG, "too deep to be looked at")
			    : add(find, CHANGE_DELETED, path, &old, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The directory of the lower layer in ret_dir, -EBADF where there is none. 1: leave this one out.
 */
static int open_lower(struct find *find, const struct todo_item *dir, const struct stat *new,
		      int *ret_dir)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat old;
	int r;

	if (find->lower < 0 || dir->is_new)
		return 0;
	fd = tree_open(find->lower, dir->path, O_PATH | O_DIRECTORY);
	if (fd < 0) {
		r = problem(find, dir->path, fd, "cannot be compared");
		return r < 0 ? r : 1;
	}
	if (fstat(fd, &old) < 0)
		return -errno;
	*ret_dir = take_fd(&fd);
	if (*dir->path && (old.st_mode & 07777) != (new->st_mode & 07777))
		return add(find, CHANGE_MODE, dir->path, &old, new);
	return 0;
}

static int visit(struct find *find, const struct todo_item *dir)
{
	_cleanup_(names_done) struct names names = { 0 };
	_cleanup_close_ int upper_dir = -EBADF, lower_dir = -EBADF;
	struct stat st;
	enum mark mark;
	int r;

	upper_dir = upper_open(find->upper, dir->path, OPEN_DIR, &st);
	r = upper_dir < 0 ? upper_dir : names_list(upper_dir, &names);
	if (r < 0 && (r == -ENOMEM || !*dir->path))
		return r;
	if (r < 0)
		return problem(find, dir->path, r, "cannot be read");
	r = open_lower(find, dir, &st, &lower_dir);
	if (r != 0)
		return r < 0 ? r : 0;
	mark = upper_mark(upper_dir);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = path_join(dir->path, names.items[i]);

		r = path ? visit_entry(find, path, names.items[i], upper_dir, lower_dir, mark)
			 : -ENOMEM;
		if (r < 0)
			return r;
	}
	return mark == MARK_OPAQUE && lower_dir >= 0
		       ? visit_hidden(find, dir->path, lower_dir, &names)
		       : 0;
}

static int compare_changes(const void *a, const void *b)
{
	const struct change *left = a, *right = b;
	int r = strcmp(left->path, right->path);

	return r ? r : (right->kind == CHANGE_DELETED) - (left->kind == CHANGE_DELETED);
}

static int find_all(int upper, int lower, bool by_marks, struct changes *ret_changes,
		    struct err *err)
{
	_cleanup_(changes_done) struct changes changes = CHANGES_NONE;
	struct find find = {
		.upper = upper, .lower = lower, .by_marks = by_marks, .changes = &changes
	};
	int r = todo_add(&find.todo, "", false, 0);

	while (r == 0 && find.todo.count > 0) {
		struct todo_item dir = find.todo.items[--find.todo.count];

		r = visit(&find, &dir);
		free(dir.path);
	}
	todo_done(&find.todo);
	if (r == -E2BIG) {
		changes.truncated = true;
		r = change_notes_add(
			&changes.problems, CHANGE_PROBLEM, "",
			"more than %d changes, or more than %lu MiB of names: the rest "
			"is not listed",
			CHANGES_MAX, CHANGES_NAMES_MAX >> 20);
	}
	if (r < 0)
		return err_errno(err, r, "the changes of the sandbox cannot be read");
	if (changes.count)
		qsort(changes.items, changes.count, sizeof(*changes.items), compare_changes);
	r = lower >= 0 && !changes.truncated ? changes_pair(upper, lower, &changes) : 0;
	if (r < 0)
		return err_errno(err, r, "the changes of the sandbox cannot be compared");
	*ret_changes = changes;
	changes = CHANGES_NONE;
	return 0;
}

int changes_find(int upper, int lower, struct changes *ret_changes, struct err *err)
{
	return find_all(upper, lower, false, ret_changes, err);
}

int changes_find_marked(int upper, struct changes *ret_changes, struct err *err)
{
	return find_all(upper, -EBADF, true, ret_changes, err);
}

void changes_done(struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		free(changes->items[i].path);
		free(changes->items[i].from);
	}
	free(changes->items);
	change_notes_done(&changes->problems);
	*changes = CHANGES_NONE;
}
