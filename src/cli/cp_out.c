#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/cp.h"
#include "jail/changes_tree.h"

#define UNSIZED_MAX (64 * MIB) /* of a file that says it has no bytes, as those in /proc */

/* The new file beside the place that it will have. */
#define FRESH_SIZE 24

/* What a directory gets when all is in it. */
struct late {
	char *path;
	mode_t mode;
	uint64_t modified;
};

/* A tree that is brought out. Paths are below its top; "" is the top itself. */
struct out {
	struct copy *copy;
	const char *from; /* of the top, inside */
	int root;         /* of the top, on the host */
	const char *name; /* of the top, for a person */
	char **todo;      /* directories */
	size_t todo_count, todo_room;
	struct late *lates;
	size_t late_count, late_room;
	struct err *err;
};

/* The entries of one directory. */
struct far_list {
	struct far_entry *items;
	size_t count, room;
};

static void far_list_done(struct far_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		far_entry_done(&list->items[i]);
	free(list->items);
}

static void out_done(struct out *out)
{
	for (size_t i = 0; i < out->todo_count; i++)
		free(out->todo[i]);
	for (size_t i = 0; i < out->late_count; i++)
		free(out->lates[i].path);
	free(out->todo);
	free(out->lates);
	fd_close(out->root);
}

/* Room for one more. */
static int grow(void **items, size_t count, size_t *room, size_t size)
{
	size_t wanted = *room ? *room * 2 : 16;
	void *more;

	if (count < *room)
		return 0;
	more = reallocarray(*items, wanted, size);
	if (!more)
		return -ENOMEM;
	*items = more;
	*room = wanted;
	return 0;
}

static int add_todo(struct out *out, const char *path)
{
	int r = grow((void **)&out->todo, out->todo_count, &out->todo_room, sizeof(*out->todo));
	char *copy = r < 0 ? NULL : strdup(path);

	if (!copy)
		return -ENOMEM;
	out->todo[out->todo_count++] = copy;
	return 0;
}

static int add_late(struct out *out, const char *path, const struct far_entry *entry)
{
	int r = grow((void **)&out->lates, out->late_count, &out->late_room, sizeof(*out->lates));
	char *copy = r < 0 ? NULL : strdup(path);

	if (!copy)
		return -ENOMEM;
	out->lates[out->late_count++] =
		(struct late){ copy, entry->mode & BITS_KEPT, entry->modified };
	return 0;
}

static void fresh_name(char name[static FRESH_SIZE])
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)getpid();
	snprintf(name, FRESH_SIZE, ".brig-%016llx", (unsigned long long)random);
}

/* Not every file system keeps every time: that is not worth a failure. */
static void set_time(int fd, uint64_t modified)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  { .tv_sec = (time_t)(modified / NS_PER_S),
					    .tv_nsec = (long)(modified % NS_PER_S) } };

	(void)!futimens(fd, times);
}

/* What is at the place already: a file and a link make room, everything else stays. */
static int check_place(int parent, const char *name, struct err *err)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(err, -errno, "it cannot be looked at");
	if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		return 0;
	return err_set(err, -EEXIST, "%s is there already",
		       S_ISDIR(st.st_mode) ? "a directory" : "a device, pipe or socket");
}

/* A file with holes may say any size; it would come with zeros in them. */
static int check_space(int dir, uint64_t size, struct err *err)
{
	struct statvfs fs;
	uint64_t room;

	if (fstatvfs(dir, &fs) < 0 || fs.f_blocks == 0)
		return 0;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (size <= room)
		return 0;
	return err_set(err, -ENOSPC, "it says it has %llu bytes, and there is room for %llu",
		       (unsigned long long)size, (unsigned long long)room);
}

static int read_into(struct copy *copy, const char *from, const struct far_entry *entry, int to,
		     struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_READ, client_number(&copy->client));

	copy_address(copy, &d, from);
	/* As it was when it was looked at: what is added meanwhile is not waited for. */
	if (entry->size > 0)
		draft_number(&d, FIELD_SIZE, entry->size);
	return move_out(copy, &d, to, entry->size > 0 ? entry->size : UNSIZED_MAX, err);
}

static int bring_file(struct copy *copy, const char *from, const struct far_entry *entry,
		      int parent, const char *name, struct err *err)
{
	_cleanup_close_ int to = -EBADF;
	char fresh[FRESH_SIZE];
	int r = check_place(parent, name, err);

	r = r < 0 ? r : check_space(parent, entry->size, err);
	if (r < 0)
		return r;
	fresh_name(fresh);
	to = openat(parent, fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_errno(err, -errno, "it cannot be made");
	r = read_into(copy, from, entry, to, err);
	if (r == 0) {
		set_time(to, entry->modified);
		if (fchmod(to, entry->mode & BITS_KEPT) < 0 ||
		    renameat(parent, fresh, parent, name) < 0)
			r = err_errno(err, -errno, "it cannot be made");
	}
	if (r < 0)
		(void)!unlinkat(parent, fresh, 0);
	return r;
}

static int bring_link(const struct far_entry *entry, int parent, const char *name, struct err *err)
{
	char fresh[FRESH_SIZE];
	int r = check_place(parent, name, err);

	if (r < 0)
		return r;
	fresh_name(fresh);
	if (symlinkat(entry->target, parent, fresh) < 0)
		return err_errno(err, -errno, "it cannot be made");
	if (renameat(parent, fresh, parent, name) == 0)
		return 0;
	r = err_errno(err, -errno, "it cannot be made");
	(void)!unlinkat(parent, fresh, 0);
	return r;
}

/* 1: it was there. */
static int make_directory(int parent, const char *name, struct err *err)
{
	struct stat st;

	if (mkdirat(parent, name, 0700) == 0)
		return 0;
	if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, -errno, "it cannot be made");
	return S_ISDIR(st.st_mode)
		       ? 1
		       : err_set(err, -EEXIST, "something that is no directory is there already");
}

static int bring_directory(struct out *out, const char *path, const struct far_entry *entry,
			   int parent, const char *name, struct err *err)
{
	int r = make_directory(parent, name, err);

	if (r == 0)
		r = add_late(out, path, entry);
	return r < 0 ? r : add_todo(out, path);
}

/* A path for a person: with the name of the top in front. NULL: no memory. */
static char *shown(const struct out *out, const char *path)
{
	return *path ? path_join(out->name, path) : strdup(out->name);
}

static int refuse(struct out *out, const char *path, const char *why)
{
	_cleanup_free_ char *text = shown(out, path);

	return text ? change_notes_add(&out->copy->outcome.notes, CHANGE_REFUSED, text, "%s", why)
		    : -ENOMEM;
}

static int note_dropped(struct copy *copy, const char *path, const struct far_entry *entry)
{
	if (S_ISLNK(entry->mode) || !(entry->mode & 06000))
		return 0;
	return change_notes_add(&copy->outcome.notes, CHANGE_DROPPED, path,
				"without its setuid or setgid bit");
}

static int done_with(struct out *out, const char *path, const struct far_entry *entry, int r,
		     const struct err *err)
{
	_cleanup_free_ char *text = shown(out, path);

	if (!text)
		return -ENOMEM;
	if (r < 0) {
		r = copy_failed(out->copy, text, r, err);
		if (r < 0)
			*out->err = *err;
		return r;
	}
	out->copy->outcome.applied++;
	copy_moved(out->copy, 0, 1);
	return note_dropped(out->copy, text, entry);
}

static int bring(struct out *out, const char *path, const struct far_entry *entry)
{
	_cleanup_free_ char *from = path_join(out->from, path);
	_cleanup_close_ int parent = -EBADF;
	struct err err = ERR_NONE;
	const char *name;
	int r = 0;

	if (!from)
		return -ENOMEM;
	if (S_ISLNK(entry->mode) && !(entry->target && link_stays_inside(path, entry->target)))
		return refuse(out, path, "a symbolic link that leads out of what is copied");
	if (!S_ISREG(entry->mode) && !S_ISLNK(entry->mode) && !S_ISDIR(entry->mode))
		return refuse(out, path, "a device, pipe or socket");
	if (strlen(path) >= PATH_MAX - 1 || strlen(from) >= PATH_MAX - 1)
		return refuse(out, path, "deeper than a path can say");
	parent = tree_open_parent(out->root, path, &name);
	if (parent < 0)
		r = err_errno(&err, parent, "it cannot be made");
	else if (S_ISREG(entry->mode))
		r = bring_file(out->copy, from, entry, parent, name, &err);
	else if (S_ISLNK(entry->mode))
		r = bring_link(entry, parent, name, &err);
	else
		r = bring_directory(out, path, entry, parent, name, &err);
	return done_with(out, path, entry, r, &err);
}

static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && !str_equal(name, ".") && !str_equal(name, "..");
}

static int list_add(struct far_list *list, const struct message *m)
{
	int r = grow((void **)&list->items, list->count, &list->room, sizeof(*list->items));

	r = r < 0 ? r : far_entry_take(m, &list->items[list->count]);
	if (r == 0)
		list->count++;
	return r;
}

/* All of one directory, before the next call is made. */
static int list_directory(struct out *out, const char *path, struct far_list *list, struct err *err)
{
	struct copy *copy = out->copy;
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_LIST, client_number(&copy->client));
	_cleanup_free_ char *from = *path ? path_join(out->from, path) : strdup(out->from);
	struct message m;
	int r = from ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	copy_address(copy, &d, from);
	draft_number(&d, FIELD_DEPTH, 1);
	r = client_call(&copy->client, &d, NULL, 0, &m, err);
	while (r == 0 && m.type == MESSAGE_ENTRY) {
		r = ++copy->entries > CHANGES_MAX
			    ? err_set(err, -E2BIG,
				      "there are more than %d entries: copy a part of it",
				      CHANGES_MAX)
			    : list_add(list, &m);
		message_done(&m);
		r = r < 0 ? r : client_next(&copy->client, d.call, &m, err);
	}
	return r < 0 ? r : client_expect_done(&m, err);
}

static int visit(struct out *out, const char *path)
{
	_cleanup_(far_list_done) struct far_list list = { 0 };
	struct err err = ERR_NONE;
	int r = list_directory(out, path, &list, &err);

	if (r < 0) {
		_cleanup_free_ char *text = shown(out, path);

		r = text ? copy_failed(out->copy, text, r, &err) : -ENOMEM;
		if (r < 0)
			*out->err = err;
	}
	for (size_t i = 0; i < list.count && r == 0; i++) {
		_cleanup_free_ char *below = path_join(path, list.items[i].name);

		if (!below)
			r = -ENOMEM;
		else if (!is_name(list.items[i].name))
			r = refuse(out, below, "a name that no file can have");
		else
			r = bring(out, below, &list.items[i]);
	}
	return r;
}

/* Children before their parents, so that these stay open until then. */
static int finish_directories(struct out *out)
{
	for (size_t i = out->late_count; i-- > 0;) {
		const struct late *late = &out->lates[i];
		_cleanup_close_ int dir = tree_open(out->root, late->path, O_RDONLY | O_DIRECTORY);
		_cleanup_free_ char *text = NULL;
		int r = 0;

		if (dir >= 0)
			set_time(dir, late->modified);
		if (dir < 0 || fchmod(dir, late->mode) < 0) {
			text = shown(out, late->path);
			r = !text ? -ENOMEM
				  : change_notes_add(&out->copy->outcome.notes, CHANGE_FAILED, text,
						     "its mode and time cannot be set");
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int bring_tree(struct out *out)
{
	int r = add_todo(out, ""), late;

	while (r == 0 && out->todo_count > 0) {
		_cleanup_free_ char *path = out->todo[--out->todo_count];

		r = visit(out, path);
	}
	/* Also of what was brought before it came to an end. */
	late = finish_directories(out);
	return r < 0 ? r : late;
}

static int copy_out_tree(struct copy *copy, const char *from, const struct far_entry *entry,
			 int dir, const char *name, struct err *err)
{
	_cleanup_(out_done) struct out out = {
		.copy = copy, .from = from, .name = name, .root = -EBADF, .err = err
	};
	bool is_there;
	int r = make_directory(dir, name, err);

	if (r < 0)
		return copy_failed(copy, name, r, err);
	is_there = r > 0;
	out.root = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out.root < 0)
		return copy_failed(copy, name, err_errno(err, -errno, "it cannot be opened"), err);
	r = is_there ? 0 : add_late(&out, "", entry);
	r = r < 0 ? r : bring_tree(&out);
	copy->outcome.applied++;
	return r < 0 && !err->code ? err_errno(err, r, "cannot copy") : r;
}

int copy_out(struct copy *copy, const char *from, const struct far_entry *entry, int dir,
	     const char *name, struct err *err)
{
	int r;

	if (S_ISDIR(entry->mode))
		return copy_out_tree(copy, from, entry, dir, name, err);
	if (!S_ISREG(entry->mode))
		return change_notes_add(&copy->outcome.notes, CHANGE_REFUSED, from,
					"a device, pipe or socket");
	r = bring_file(copy, from, entry, dir, name, err);
	if (r < 0)
		return copy_failed(copy, name, r, err);
	copy->outcome.applied++;
	copy_moved(copy, 0, 1);
	return note_dropped(copy, name, entry);
}

int copy_out_to(struct copy *copy, const char *from, int to, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_READ, client_number(&copy->client));
	int r;

	copy_address(copy, &d, from);
	r = move_out(copy, &d, to, UINT64_MAX, err);
	if (r < 0)
		return copy_failed(copy, from, r, err);
	copy->outcome.applied++;
	return 0;
}
