#include "jail/changes_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/layer.h"
#include "jail/tarball.h"

#define BITS_DROPPED 06000

struct export
{
	int upper;
	int target;          /* the directory, when there is no tar */
	struct tarball *tar; /* or NULL */
	const char *prefix;
	const struct changes_export *how;
	struct changes_outcome *outcome;
	uint64_t left;     /* bytes of content */
	struct todo todo;  /* directories of the upper layer */
	struct todo modes; /* of the directories that were made, set at the end */
};

/* One thing in the upper layer, and where it goes. */
struct entry {
	const char *path, *out;
	struct stat st;
};

#define note(export, what, path, ...) \
	change_notes_add(&(export)->outcome->notes, what, path, __VA_ARGS__)

static mode_t mode_out(const struct entry *entry)
{
	return entry->st.st_mode & 07777 & ~BITS_DROPPED;
}

static int dir_to_dir(struct export *export, const struct entry *entry)
{
	_cleanup_close_ int parent = -EBADF;
	const char *name;
	struct stat st;

	parent = tree_open_parent(export->target, entry->out, &name);
	if (parent < 0)
		return parent;
	if (mkdirat(parent, name, 0700) == 0)
		return todo_add(&export->modes, entry->out, true, mode_out(entry));
	if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

static int fill_file(struct export *export, const struct entry *entry, int from, int to)
{
	int r = content_copy(from, to, (uint64_t)entry->st.st_size, &export->left);

	if (r < 0)
		return r;
	if (fchmod(to, mode_out(entry)) < 0 ||
	    futimens(to,
		     (const struct timespec[]){ { .tv_nsec = UTIME_OMIT }, entry->st.st_mtim }) < 0)
		return -errno;
	return 0;
}

static int file_to_dir(struct export *export, const struct entry *entry, int from)
{
	_cleanup_close_ int parent = -EBADF, to = -EBADF;
	const char *name;
	int r;

	parent = tree_open_parent(export->target, entry->out, &name);
	if (parent < 0)
		return parent;
	to = openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = fill_file(export, entry, from, to);
	if (r < 0)
		unlinkat(parent, name, 0);
	return r;
}

static int file_to_tar(struct export *export, const struct entry *entry, int from)
{
	uint64_t size = (uint64_t)entry->st.st_size;

	if (size > export->how->max_file || size > export->left)
		return -EFBIG;
	export->left -= size;
	return tarball_file(export->tar, entry->out, mode_out(entry), &entry->st.st_mtim, size,
			    from);
}

static int link_to_dir(struct export *export, const struct entry *entry, const char *target)
{
	_cleanup_close_ int parent = -EBADF;
	const char *name;

	parent = tree_open_parent(export->target, entry->out, &name);
	if (parent < 0)
		return parent;
	return symlinkat(target, parent, name) < 0 ? -errno : 0;
}

static int export_file(struct export *export, const struct entry *entry)
{
	_cleanup_close_ int from = -EBADF;
	struct stat st;

	from = upper_open_file(export->upper, entry->path, &st);
	if (from < 0)
		return from;
	return export->tar ? file_to_tar(export, entry, from) : file_to_dir(export, entry, from);
}

/* 1: refused and noted. */
static int export_link(struct export *export, const struct entry *entry)
{
	_cleanup_free_ char *target = NULL;
	int r = upper_readlink(export->upper, entry->path, &target);

	if (r < 0)
		return r;
	if (!link_stays_inside(entry->out, target)) {
		r = note(export, CHANGE_REFUSED, entry->out,
			 "a symbolic link that leads out of what is exported");
		return r < 0 ? r : 1;
	}
	return export->tar ? tarball_symlink(export->tar, entry->out, target, &entry->st.st_mtim)
			   : link_to_dir(export, entry, target);
}

static int export_dir(struct export *export, const struct entry *entry)
{
	int r = export->tar
			? tarball_dir(export->tar, entry->out, mode_out(entry), &entry->st.st_mtim)
			: dir_to_dir(export, entry);

	return r < 0 ? r : todo_add(&export->todo, entry->path, false, 0);
}

static int note_failure(struct export *export, const char *path, int code)
{
	/* These end the export. */
	if (code == -ENOMEM || code == -E2BIG || (export->tar && export->tar->failure))
		return code;
	if (code == -EEXIST)
		return note(export, CHANGE_CONFLICT, path, "exists already");
	if (code == -EFBIG)
		return note(export, CHANGE_REFUSED, path, "over the size limit of the export");
	return note(export, CHANGE_FAILED, path, "%s", strerror(-code));
}

static int export_entry(struct export *export, const struct entry *entry)
{
	int r;

	switch (entry->st.st_mode & S_IFMT) {
	case S_IFREG:
		r = export_file(export, entry);
		break;
	case S_IFLNK:
		r = export_link(export, entry);
		break;
	case S_IFDIR:
		r = export_dir(export, entry);
		break;
	default:
		return note(export, CHANGE_REFUSED, entry->out, "a device, pipe or socket");
	}
	if (r < 0)
		return note_failure(export, entry->out, r);
	if (r > 0)
		return 0;
	export->outcome->applied++;
	if (export->how->progress)
		export->how->progress->tell(export->how->progress->arg,
					    export->how->max_total - export->left,
					    export->outcome->applied);
	if (!S_ISLNK(entry->st.st_mode) && (entry->st.st_mode & BITS_DROPPED))
		return note(export, CHANGE_DROPPED, entry->out, "without its setuid or setgid bit");
	return 0;
}

static bool is_skipped(const struct export *export, const char *path)
{
	for (const char *const *skip = export->how->skip; skip && *skip; skip++)
		if (str_equal(path, *skip))
			return true; /* what is in it is not visited */
	return false;
}

static int visit(struct export *export, const char *path)
{
	_cleanup_(names_done) struct names names = { 0 };
	_cleanup_close_ int dir = -EBADF;
	enum mark mark;
	struct stat st;
	int r;

	dir = upper_open(export->upper, path, OPEN_DIR, &st);
	r = dir < 0 ? dir : names_list(dir, &names);
	if (r < 0) {
		_cleanup_free_ char *out = path_join(export->prefix, path);

		return out && *path ? note_failure(export, out, r) : r;
	}
	mark = upper_mark(dir);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *below = path_join(path, names.items[i]), *out = NULL;
		struct entry entry = { .path = below };

		out = below ? path_join(export->prefix, below) : NULL;
		if (!out)
			return -ENOMEM;
		entry.out = out;
		if (is_skipped(export, below))
			continue;
		if (strlen(out) >= PATH_MAX - 1)
			r = note_failure(export, out, -ENAMETOOLONG);
		else if (fstatat(dir, names.items[i], &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
			r = note_failure(export, out, -errno);
		else if (!upper_is_whiteout(export->upper, below, &entry.st, mark))
			r = export_entry(export, &entry);
	}
	return r;
}

static int finish_modes(struct export *export)
{
	for (size_t i = export->modes.count; i-- > 0;) {
		const struct todo_item *item = &export->modes.items[i];
		_cleanup_close_ int dir = tree_open(export->target, item->path, OPEN_DIR);
		int r = dir < 0 ? dir : fchmod(dir, item->mode) < 0 ? -errno : 0;

		if (r < 0)
			r = note_failure(export, item->path, r);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The directories that lead to what is exported. */
static int make_prefix(struct export *export)
{
	const struct timespec epoch = { 0 };

	for (const char *end = export->prefix; *end; end += *end == '/') {
		_cleanup_free_ char *path = NULL;
		_cleanup_close_ int parent = -EBADF;
		const char *name;
		int r;

		end += strcspn(end, "/");
		path = strndup(export->prefix, (size_t)(end - export->prefix));
		if (!path)
			return -ENOMEM;
		if (export->tar) {
			r = tarball_dir(export->tar, path, 0755, &epoch);
			if (r < 0)
				return r;
			continue;
		}
		parent = tree_open_parent(export->target, path, &name);
		if (parent < 0)
			return parent;
		if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* What was there already must be a directory, too. */
static int check_prefix(struct export *export)
{
	_cleanup_close_ int dir = -EBADF;

	if (export->tar)
		return 0;
	dir = tree_open(export->target, export->prefix, OPEN_DIR);
	return dir < 0 ? dir : 0;
}

/* "a/b/c": names with one slash between them. */
static bool is_clean(const char *prefix)
{
	while (*prefix) {
		size_t len = strcspn(prefix, "/");

		if (len == 0 || (prefix[len] == '/' && prefix[len + 1] == '\0') ||
		    (len == 1 && *prefix == '.') || (len == 2 && memcmp(prefix, "..", 2) == 0))
			return false;
		prefix += len + (prefix[len] == '/');
	}
	return true;
}

static int run(struct export *export, struct err *err)
{
	int r;

	if (!is_clean(export->prefix))
		return err_set(err, -EINVAL, "\"%s\" is not a relative path without \"..\"",
			       export->prefix);
	export->left = export->how->max_total;
	r = make_prefix(export);
	r = r < 0 ? r : check_prefix(export);
	r = r < 0 ? r : todo_add(&export->todo, "", false, 0);
	while (r == 0 && export->todo.count > 0) {
		char *path = export->todo.items[--export->todo.count].path;

		r = visit(export, path);
		free(path);
	}
	if (r == 0)
		r = finish_modes(export);
	todo_done(&export->todo);
	todo_done(&export->modes);
	return r < 0 ? err_errno(err, r, "the files of the sandbox cannot be exported") : 0;
}

int changes_export_dir(int upper, const char *prefix, int target, const struct changes_export *how,
		       struct changes_outcome *outcome, struct err *err)
{
	struct export export = {
		.upper = upper,
		.target = target,
		.prefix = prefix,
		.how = how,
		.outcome = outcome,
	};

	return run(&export, err);
}

int changes_export_tar(int upper, const char *prefix, struct tarball *tar,
		       const struct changes_export *how, struct changes_outcome *outcome,
		       struct err *err)
{
	struct export export = {
		.upper = upper,
		.target = -EBADF,
		.tar = tar,
		.prefix = prefix,
		.how = how,
		.outcome = outcome,
	};

	return run(&export, err);
}
