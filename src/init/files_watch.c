/*
 * files_watch.c - WATCH: what changes in a directory or a tree, or on one file
 *
 * Told by inotify, one watch for each directory. A directory that appears is watched first and then
 * read, and what is in it is told as made: nothing is missed, but what is made in that moment may
 * be told twice. The two halves of a move are put together by their cookie. When more happens than
 * the kernel keeps, the tree is watched anew, and then SEEN_LOST is said: who looks after that sees
 * all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/str.h"
#include "init/files_watch_tree.h"

#define EVENTS_SIZE (64 * KIB)
#define PARTNER_MS  20 /* until the second half of a move is given up */
#define LOOK        256

struct watcher {
	struct task *task;
	bool is_recursive, is_gone;
	struct watch_tree tree;
	struct buf path, to, last; /* last: the file of the last SEEN_CHANGED */
	size_t at, len;            /* of events */
	unsigned int steps;
	uint32_t fresh; /* cookie of the last file that WRITE gave its name */
	_Alignas(struct inotify_event) char events[EVENTS_SIZE];
};

static void watcher_done(struct watcher *w)
{
	watch_tree_done(&w->tree);
	buf_done(&w->path);
	buf_done(&w->to);
	buf_done(&w->last);
}

static int fail(struct watcher *w, int code)
{
	struct err *err = &w->task->err;
	const char *path = task_path(w->task);

	if (w->task->is_over || err->code < 0)
		return code;
	if (code == -ENOSPC && w->tree.count >= files_bounds.directories)
		return err_set(err, code,
			       "\"%.300s\" has more than %llu directories: watch a part of it",
			       path, (unsigned long long)files_bounds.directories);
	if (code == -ENOSPC)
		return err_set(err, code,
			       "\"%.300s\": this host has no more watches "
			       "(sysctl fs.inotify.max_user_watches)",
			       path);
	if (code == -EMFILE)
		return err_set(err, code,
			       "\"%.300s\": too many watches at once (limits.files, or sysctl "
			       "fs.inotify.max_user_instances)",
			       path);
	if (code == -ENAMETOOLONG)
		return err_set(err, code, "\"%.300s\": what is in it lies too deep to be watched",
			       path);
	if (code == -EACCES)
		return err_set(err, code,
			       "\"%.300s\" cannot be watched: the sandbox may not read it", path);
	return task_fail(w->task, code, path);
}

/* path and to as they are in the watcher. */
static int say(struct watcher *w, enum change_seen seen, bool is_directory)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CHANGE_IS, w->task->call.call);

	if (seen != SEEN_CHANGED)
		buf_reset(&w->last);
	draft_number(&d, FIELD_CHANGE, seen);
	draft_text(&d, FIELD_PATH, buf_text(&w->path));
	if (seen == SEEN_MOVED)
		draft_text(&d, FIELD_TO, buf_text(&w->to));
	if (is_directory)
		draft_number(&d, FIELD_MODE, S_IFDIR);
	return task_send(w->task, &d);
}

static int say_at(struct watcher *w, enum change_seen seen, const struct node *node,
		  const char *name, bool is_directory)
{
	int r = watch_tree_path(node, name, &w->path);

	return r < 0 ? fail(w, r) : say(w, seen, is_directory);
}

/* A file that is written tells of every piece: once in a row is enough. */
static int say_changed(struct watcher *w, const struct node *node, const char *name)
{
	int r = watch_tree_path(node, name, &w->path);

	if (r < 0)
		return fail(w, r);
	if (w->last.len > 0 && str_equal(buf_text(&w->last), buf_text(&w->path)))
		return 0;
	buf_reset(&w->last);
	buf_str(&w->last, buf_text(&w->path));
	return say(w, SEEN_CHANGED, false);
}

static bool is_directory(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int add_directory(struct watcher *w, struct node *parent, const char *name, bool is_new,
			 bool is_told)
{
	struct node *node = watch_tree_child(parent, name);
	int r;

	if (node)
		return 0;
	r = watch_tree_add(&w->tree, parent, name, &node);
	if (r < 0)
		return fail(w, r);
	node->is_new = is_new;
	node->is_told = is_told;
	return 0;
}

static int take_name(struct watcher *w, struct node *node, int dir, const struct dirent *entry)
{
	bool below = is_directory(dir, entry);
	bool is_new = node->is_new;
	int r = 0;

	if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
		return 0;
	if (is_new)
		r = say_at(w, SEEN_MADE, node, entry->d_name, below);
	if (r >= 0 && below)
		r = add_directory(w, node, entry->d_name, is_new, is_new);
	if (r >= 0 && ++w->steps % LOOK == 0)
		r = task_look(w->task);
	return r;
}

static int read_directory(struct watcher *w, struct node *node, int fd)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		fd_close(fd);
		return fail(w, -errno);
	}
	while (r >= 0 && (entry = readdir(dir)))
		r = take_name(w, node, fd, entry);
	closedir(dir);
	return r;
}

static int watch_pending(struct watcher *w)
{
	struct node *node;
	int fd, r;

	while ((r = watch_tree_next(&w->tree, &node, &fd)) > 0) {
		r = node ? read_directory(w, node, fd) : 0;
		if (r < 0)
			return r;
	}
	return r < 0 ? fail(w, r) : 0;
}

static int begin(struct watcher *w)
{
	const char *path = task_path(w->task);
	int r = watch_tree_begin(&w->tree, path);
	int fd;

	w->at = w->len = 0;
	if (r < 0)
		return r;
	if (!w->is_recursive)
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR ? 0 : -errno;
	r = read_directory(w, w->tree.root, fd);
	return r < 0 ? r : watch_pending(w);
}

static int end(struct watcher *w)
{
	w->is_gone = true;
	return say_at(w, SEEN_GONE, w->tree.root, NULL, false);
}

/* Events were dropped, so what we know of the tree may be wrong too. */
static int begin_anew(struct watcher *w)
{
	int r;

	if (!watch_tree_is_there(&w->tree))
		return end(w);
	watch_tree_done(&w->tree);
	r = begin(w);
	if (r < 0)
		return fail(w, r);
	return say_at(w, SEEN_LOST, w->tree.root, NULL, false);
}

/* More events behind those that are there: 1; 0 when none came in that time. */
static int read_events(struct watcher *w, int ms)
{
	ssize_t n;
	int r;

	memmove(w->events, w->events + w->at, w->len - w->at);
	w->len -= w->at;
	w->at = 0;
	r = task_wait(w->task, w->tree.inotify, POLLIN, ms);
	if (r <= 0)
		return r;
	n = read(w->tree.inotify, w->events + w->len, sizeof(w->events) - w->len);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == EINVAL ? 0 : fail(w, -errno);
	w->len += (size_t)n;
	return n > 0;
}

static struct inotify_event *event_at(struct watcher *w, size_t at)
{
	return (struct inotify_event *)(void *)(w->events + at);
}

static struct inotify_event *find_partner(struct watcher *w, uint32_t cookie)
{
	for (size_t at = w->at; at < w->len;) {
		struct inotify_event *e = event_at(w, at);

		if ((e->mask & IN_MOVED_TO) && e->cookie == cookie)
			return e;
		at += sizeof(*e) + e->len;
	}
	return NULL;
}

/* A directory under its new name. Where it was not known, it is watched, but not told. */
static int follow_directory(struct watcher *w, struct node *node, struct node *parent,
			    const char *name)
{
	int r = node ? watch_tree_move(&w->tree, node, parent, name)
		     : add_directory(w, parent, name, false, false);

	return r < 0 ? fail(w, r) : watch_pending(w);
}

static int take_move(struct watcher *w, struct node *node, const char *name, uint32_t cookie,
		     bool directory)
{
	struct node *child = directory ? watch_tree_child(node, name) : NULL, *parent;
	struct inotify_event *partner = find_partner(w, cookie);
	int r = partner ? 0 : read_events(w, PARTNER_MS);

	if (r < 0)
		return r;
	partner = find_partner(w, cookie);
	parent = partner ? watch_tree_find(&w->tree, partner->wd) : NULL;
	if (!parent) {
		if (child)
			watch_tree_drop(&w->tree, child);
		return say_at(w, SEEN_REMOVED, node, name, directory);
	}
	partner->mask = 0;
	r = watch_tree_path(node, name, &w->path);
	r = r < 0 ? r : watch_tree_path(parent, partner->name, &w->to);
	r = r < 0 ? fail(w, r) : say(w, SEEN_MOVED, directory);
	if (r < 0 || !directory || !w->is_recursive)
		return r;
	return follow_directory(w, child, parent, partner->name);
}

static int take_made(struct watcher *w, struct node *node, const char *name, bool directory)
{
	struct node *child = directory ? watch_tree_child(node, name) : NULL;
	int r;

	if (child && child->is_told)
		return 0;
	r = say_at(w, SEEN_MADE, node, name, directory);
	if (r < 0 || !directory || !w->is_recursive)
		return r;
	r = add_directory(w, node, name, true, false);
	return r < 0 ? r : watch_pending(w);
}

static int take_removed(struct watcher *w, struct node *node, const char *name, bool directory)
{
	struct node *child = directory ? watch_tree_child(node, name) : NULL;

	if (child)
		watch_tree_drop(&w->tree, child);
	return say_at(w, SEEN_REMOVED, node, name, directory);
}

/* A name in a watched directory. */
static int take_named(struct watcher *w, struct node *node, const struct inotify_event *e)
{
	bool directory = e->mask & IN_ISDIR;
	char name[NAME_MAX + 1];

	/* A copy, as more events may be read. */
	snprintf(name, sizeof(name), "%s", e->name);
	/* What WRITE makes is seen when it gets its name: it is made then, and has changed. */
	if (files_is_fresh_name(name)) {
		if (e->mask & IN_MOVED_FROM)
			w->fresh = e->cookie;
		return 0;
	}
	if (e->mask & IN_MOVED_FROM)
		return take_move(w, node, name, e->cookie, directory);
	if ((e->mask & IN_MOVED_TO) && !directory && w->fresh && e->cookie == w->fresh) {
		int r = take_made(w, node, name, directory);

		return r < 0 ? r : say_changed(w, node, name);
	}
	if (e->mask & (IN_CREATE | IN_MOVED_TO))
		return take_made(w, node, name, directory);
	if (e->mask & IN_DELETE)
		return take_removed(w, node, name, directory);
	if (e->mask & IN_MODIFY)
		return say_changed(w, node, name);
	return e->mask & IN_ATTRIB ? say_at(w, SEEN_ATTRIBUTES, node, name, directory) : 0;
}

/* The watched file or directory itself. */
static int take_own(struct watcher *w, struct node *node, uint32_t mask)
{
	if (node != w->tree.root) {
		if (mask & (IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT))
			watch_tree_drop(&w->tree, node);
		return 0;
	}
	if (mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
		return end(w);
	if (mask & IN_MODIFY)
		return say_changed(w, node, NULL);
	if (!(mask & IN_ATTRIB))
		return 0;
	/* The last name of a file that is still open goes without another word. */
	if (!watch_tree_is_there(&w->tree))
		return end(w);
	return say_at(w, SEEN_ATTRIBUTES, node, NULL, mask & IN_ISDIR);
}

static int take_event(struct watcher *w)
{
	const struct inotify_event *e = event_at(w, w->at);
	struct node *node = watch_tree_find(&w->tree, e->wd);

	w->at += sizeof(*e) + e->len;
	if (e->mask & IN_Q_OVERFLOW)
		return begin_anew(w);
	if (!node)
		return 0;
	return e->len > 0 ? take_named(w, node, e) : take_own(w, node, e->mask);
}

static int follow(struct watcher *w)
{
	int r = 0;

	while (r >= 0 && !w->is_gone) {
		if (w->at == w->len)
			buf_reset(&w->last);
		r = w->at == w->len ? read_events(w, -1) : take_event(w);
	}
	return MIN(r, 0);
}

int files_watch(struct task *t)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DONE, t->call.call);
	_cleanup_free_ struct watcher *storage = calloc(1, sizeof(*storage));
	int r;

	if (!storage)
		return task_fail(t, -ENOMEM, task_path(t));
	storage->task = t;
	storage->is_recursive = task_flags(t) & TREE_RECURSIVE;
	storage->tree.inotify = -EBADF;
	storage->path = storage->to = storage->last = BUF(files_bounds.path);
	r = begin(storage);
	r = r < 0 ? fail(storage, r) : task_send(t, &d);
	r = r < 0 ? r : follow(storage);
	watcher_done(storage);
	return r;
}
