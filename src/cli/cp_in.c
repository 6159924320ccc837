#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "cli/cp.h"
#include "jail/changes_tree.h"

/* A tree of the host that goes in. Paths are below its top; "" is the top itself. */
struct in {
	struct copy *copy;
	int root;
	const char *to;   /* the top's, inside */
	const char *name; /* the top's, for a person */
	struct strv todo; /* directories */
	struct late {
		char *path;
		struct stat st;
	} * lates; /* directories, whose mode and time come last */
	size_t late_count, late_room;
	struct err *err;
};

static void in_done(struct in *in)
{
	for (size_t i = 0; i < in->late_count; i++)
		free(in->lates[i].path);
	free(in->lates);
	strv_done(&in->todo);
	fd_close(in->root);
}

/* Links on the way are not followed; other file systems are, as cp does. */
static int open_below(int root, const char *path, int flags)
{
	return sys_openat2(root, *path ? path : ".", (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC), 0,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

static uint64_t modified_of(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0
		       ? 0
		       : (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

static int put_file(struct copy *copy, int from, const struct stat *st, const char *to,
		    struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_WRITE, client_number(&copy->client));

	copy_address(copy, &d, to);
	if (st) {
		draft_number(&d, FIELD_MODE, st->st_mode & BITS_KEPT);
		draft_number(&d, FIELD_FLAGS, WRITE_MODE);
		draft_number(&d, FIELD_MODIFIED, modified_of(st));
		/* A pipe that ends early is not taken for all of it. */
		draft_number(&d, FIELD_SIZE, (uint64_t)st->st_size);
	} else {
		draft_number(&d, FIELD_FLAGS, WRITE_ENDED);
	}
	return move_in(copy, &d, from, !st, err);
}

static int make(struct copy *copy, const char *to, const char *target, mode_t mode, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_MAKE, client_number(&copy->client));

	copy_address(copy, &d, to);
	draft_text(&d, FIELD_TARGET, target);
	if (!target) {
		draft_number(&d, FIELD_MODE, mode);
		draft_number(&d, FIELD_FLAGS, TREE_OPTIONAL);
	}
	return client_do(&copy->client, &d, NULL, 0, err);
}

static int remove_far(struct copy *copy, const char *to, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_REMOVE, client_number(&copy->client));

	copy_address(copy, &d, to);
	return client_do(&copy->client, &d, NULL, 0, err);
}

/* A link or file in its place goes, as when a file is copied; a directory stays. */
static int put_link(struct copy *copy, int dir, const char *name, const char *to, struct err *err)
{
	_cleanup_(far_entry_done) struct far_entry old = { 0 };
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);
	int r;

	if (len < 0)
		return err_errno(err, -errno, "it cannot be read");
	target[len] = '\0';
	r = copy_stat(copy, to, false, &old, err);
	if (r == 0 && S_ISDIR(old.mode))
		return err_set(err, -EEXIST, "a directory is there already");
	if (r == 0)
		r = remove_far(copy, to, err);
	if (r < 0 && r != -ENOENT)
		return r;
	*err = ERR_NONE;
	return make(copy, to, target, 0, err);
}

/* Fits also where its owner may not write to it: what is in it comes first. */
static int put_directory(struct in *in, const char *path, const struct stat *st, const char *to,
			 struct err *err)
{
	struct late *lates;
	int r = make(in->copy, to, NULL, (st->st_mode & BITS_KEPT) | 0700, err);

	if (r < 0)
		return r;
	if (in->late_count == in->late_room) {
		size_t room = in->late_room ? in->late_room * 2 : 16;

		lates = reallocarray(in->lates, room, sizeof(*lates));
		if (!lates)
			return -ENOMEM;
		in->lates = lates;
		in->late_room = room;
	}
	in->lates[in->late_count] = (struct late){ .path = strdup(path), .st = *st };
	if (!in->lates[in->late_count].path)
		return -ENOMEM;
	in->late_count++;
	return strv_add(&in->todo, path);
}

static int put_regular(struct in *in, int dir, const char *name, const char *to, struct err *err)
{
	_cleanup_close_ int from =
		openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return err_errno(err, -errno, "it cannot be read");
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBUSY, "it was replaced meanwhile");
	return put_file(in->copy, from, &st, to, err);
}

static char *shown(const struct in *in, const char *path)
{
	return *path ? path_join(in->name, path) : strdup(in->name);
}

static int done_with(struct in *in, const char *path, int r, const struct err *err)
{
	_cleanup_free_ char *text = shown(in, path);

	if (!text)
		return -ENOMEM;
	if (r < 0) {
		r = copy_failed(in->copy, text, r, err);
		if (r < 0)
			*in->err = *err;
		return r;
	}
	in->copy->outcome.applied++;
	copy_moved(in->copy, 0, 1);
	return 0;
}

static int put_entry(struct in *in, int dir, const char *name, const char *path)
{
	_cleanup_free_ char *to = path_join(in->to, path), *text = NULL;
	struct err err = ERR_NONE;
	struct stat st;
	int r;

	if (!to)
		return -ENOMEM;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		r = err_errno(&err, -errno, "it cannot be looked at");
	} else if (S_ISREG(st.st_mode)) {
		r = put_regular(in, dir, name, to, &err);
	} else if (S_ISLNK(st.st_mode)) {
		r = put_link(in->copy, dir, name, to, &err);
	} else if (S_ISDIR(st.st_mode)) {
		r = put_directory(in, path, &st, to, &err);
	} else {
		text = shown(in, path);
		return text ? change_notes_add(&in->copy->outcome.notes, CHANGE_REFUSED, text,
					       "a device, pipe or socket")
			    : -ENOMEM;
	}
	return done_with(in, path, r, &err);
}

static int visit(struct in *in, const char *path)
{
	_cleanup_close_ int dir = open_below(in->root, path, O_RDONLY | O_DIRECTORY);
	_cleanup_(names_done) struct names names = { 0 };
	struct err err = ERR_NONE;
	int r = dir < 0 ? dir : names_list(dir, &names);

	if (r < 0) {
		err_errno(&err, r, "it cannot be read");
		in->copy->outcome.applied--; /* it counts as one that failed */
		return done_with(in, path, r, &err);
	}
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *below = path_join(path, names.items[i]);

		r = below ? put_entry(in, dir, names.items[i], below) : -ENOMEM;
	}
	return r;
}

/* Their own mode and time, children before parents. */
static int finish_directories(struct in *in)
{
	int r = 0;

	for (size_t i = in->late_count; i-- > 0 && r == 0 && !copy_is_over(in->copy);) {
		struct copy *copy = in->copy;
		const struct late *late = &in->lates[i];
		_cleanup_(draft_done) struct draft d =
			DRAFT(MESSAGE_MAKE, client_number(&copy->client));
		_cleanup_free_ char *to =
			*late->path ? path_join(in->to, late->path) : strdup(in->to);
		_cleanup_free_ char *text = shown(in, late->path);
		struct err err = ERR_NONE;

		if (!to || !text)
			return -ENOMEM;
		copy_address(copy, &d, to);
		draft_number(&d, FIELD_MODE, late->st.st_mode & BITS_KEPT);
		draft_number(&d, FIELD_MODIFIED, modified_of(&late->st));
		draft_number(&d, FIELD_FLAGS, TREE_OPTIONAL | TREE_MODE);
		r = client_do(&copy->client, &d, NULL, 0, &err);
		r = r < 0 ? copy_failed(copy, text, r, &err) : 0;
		if (r < 0)
			*in->err = err;
	}
	return r;
}

static int put_tree(struct in *in, const struct stat *st)
{
	struct err err = ERR_NONE;
	int r = put_directory(in, "", st, in->to, &err), late;

	r = done_with(in, "", r, &err);
	while (r == 0 && in->todo.count > 0) {
		_cleanup_free_ char *path = in->todo.items[--in->todo.count];

		in->todo.items[in->todo.count] = NULL;
		r = visit(in, path);
	}
	late = finish_directories(in);
	return r < 0 ? r : late;
}

int copy_in(struct copy *copy, const char *from, const char *to, struct err *err)
{
	_cleanup_(in_done) struct in in = {
		.copy = copy, .root = -EBADF, .to = to, .name = from, .err = err
	};
	struct stat st;
	int r;

	/* What was named is followed; links in it are not. */
	if (stat(from, &st) < 0)
		return copy_failed(copy, from, err_errno(err, -errno, "it cannot be read"), err);
	if (!S_ISDIR(st.st_mode)) {
		_cleanup_close_ int fd = open(from, O_RDONLY | O_NOCTTY | O_CLOEXEC);

		if (fd < 0 || fstat(fd, &st) < 0)
			r = err_errno(err, -errno, "it cannot be read");
		else
			r = put_file(copy, fd, S_ISREG(st.st_mode) ? &st : NULL, to, err);
		return done_with(&in, "", r, err);
	}
	in.root = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in.root < 0)
		return copy_failed(copy, from, err_errno(err, -errno, "it cannot be read"), err);
	r = put_tree(&in, &st);
	return r < 0 && !err->code ? err_errno(err, r, "cannot copy") : r;
}

int copy_in_stdin(struct copy *copy, const char *to, struct err *err)
{
	int r = put_file(copy, 0, NULL, to, err);

	if (r < 0)
		return copy_failed(copy, to, r, err);
	copy->outcome.applied++;
	return 0;
}
