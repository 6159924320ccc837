#include "init/files_watch_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/str.h"

#define SEEN                                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_DELETE_SELF | IN_EXCL_UNLINK)
#define OPEN_FLAGS (O_DIRECTORY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Where there is no /proc: from within it. The working directory is what our path begins at. */
static int watch_here(const struct watch_tree *w, int fd, uint32_t mask)
{
	_cleanup_close_ int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (here < 0 || fchdir(fd) < 0)
		return -errno;
	r = inotify_add_watch(w->inotify, ".", mask);
	r = r < 0 ? -errno : r;
	return fchdir(here) < 0 ? -errno : r;
}

/* Through its descriptor, so that it is what was opened. */
static int watch(const struct watch_tree *w, int fd, uint32_t mask)
{
	char link[40];
	int wd;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = hook_without("proc") ? -1 : inotify_add_watch(w->inotify, link, mask);
	if (wd < 0 && (hook_without("proc") || errno == ENOENT))
		return watch_here(w, fd, mask);
	return wd < 0 ? -errno : wd;
}

static int watch_root(const struct watch_tree *w)
{
	_cleanup_close_ int fd = open(w->path, O_PATH | O_CLOEXEC);
	int wd = fd < 0 ? -errno : watch(w, fd, SEEN | IN_MOVE_SELF);

	/* A file, where there is no /proc. */
	if (fd >= 0 && wd == -ENOTDIR) {
		wd = inotify_add_watch(w->inotify, w->path, SEEN | IN_MOVE_SELF);
		wd = wd < 0 ? -errno : wd;
	}
	return wd;
}

static void enter_bucket(struct watch_tree *w, struct node *node, int wd)
{
	struct node **bucket = &w->buckets[(unsigned int)wd % WATCH_BUCKETS];

	node->wd = wd;
	node->same_bucket = *bucket;
	*bucket = node;
}

static void leave_bucket(struct watch_tree *w, struct node *node)
{
	struct node **at = &w->buckets[(unsigned int)node->wd % WATCH_BUCKETS];

	if (node->wd < 0)
		return;
	while (*at && *at != node)
		at = &(*at)->same_bucket;
	if (*at)
		*at = node->same_bucket;
	node->wd = -1;
}

int watch_tree_begin(struct watch_tree *w, const char *path)
{
	int wd;

	*w = (struct watch_tree){ .path = path };
	w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->inotify < 0)
		return -errno;
	wd = watch_root(w);
	if (wd < 0)
		return wd;
	w->root = calloc(1, sizeof(*w->root));
	if (!w->root)
		return -ENOMEM;
	enter_bucket(w, w->root, wd);
	w->count = 1;
	return 0;
}

bool watch_tree_is_there(struct watch_tree *w)
{
	int wd = watch_root(w);

	/* The kernel gives one number for one file, whatever its name. */
	if (wd >= 0 && wd != w->root->wd)
		inotify_rm_watch(w->inotify, wd);
	return wd >= 0 && wd == w->root->wd;
}

struct node *watch_tree_find(const struct watch_tree *w, int wd)
{
	struct node *node = wd < 0 ? NULL : w->buckets[(unsigned int)wd % WATCH_BUCKETS];

	while (node && node->wd != wd)
		node = node->same_bucket;
	return node;
}

struct node *watch_tree_child(const struct node *parent, const char *name)
{
	struct node *node = parent->children;

	while (node && !str_equal(node->name, name))
		node = node->next;
	return node;
}

int watch_tree_add(struct watch_tree *w, struct node *parent, const char *name,
		   struct node **ret_node)
{
	struct node *node;

	if (w->count >= files_bounds.directories)
		return -ENOSPC;
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct node){ .wd = -1, .name = strdup(name), .parent = parent };
	if (!node->name) {
		free(node);
		return -ENOMEM;
	}
	node->next = parent->children;
	parent->children = node;
	node->next_pending = w->pending;
	w->pending = node;
	w->count++;
	*ret_node = node;
	return 0;
}

static void unlink_child(struct node *node)
{
	struct node **at = &node->parent->children;

	while (*at && *at != node)
		at = &(*at)->next;
	if (*at)
		*at = node->next;
}

static void unlink_pending(struct watch_tree *w, const struct node *node)
{
	struct node **at = &w->pending;

	while (*at && *at != node)
		at = &(*at)->next_pending;
	if (*at)
		*at = node->next_pending;
}

/* One without children. */
static void free_node(struct watch_tree *w, struct node *node)
{
	if (node->wd >= 0 && w->inotify >= 0)
		inotify_rm_watch(w->inotify, node->wd);
	leave_bucket(w, node);
	unlink_pending(w, node);
	if (node->parent)
		unlink_child(node);
	free(node->name);
	free(node);
	w->count--;
}

void watch_tree_drop(struct watch_tree *w, struct node *node)
{
	struct node *at = node;

	/* From the leaves, as a tree may be as deep as it is large. */
	for (;;) {
		struct node *parent = at->parent;
		bool is_last = at == node && !at->children;

		if (at->children) {
			at = at->children;
			continue;
		}
		free_node(w, at);
		if (is_last)
			return;
		at = parent;
	}
}

void watch_tree_done(struct watch_tree *w)
{
	/* All watches go with the descriptor. */
	w->inotify = fd_close(w->inotify);
	if (w->root)
		watch_tree_drop(w, w->root);
	w->root = NULL;
}

int watch_tree_path(const struct node *node, const char *name, struct buf *path)
{
	size_t len = name ? strlen(name) : 0, at;

	for (const struct node *n = node; n->parent; n = n->parent)
		len += strlen(n->name) + 1;
	buf_reset(path);
	if (len == 0)
		return buf_str(path, ".");
	/* Filled from its end: room first. */
	for (size_t i = 0; i < len; i++)
		if (buf_char(path, '/') < 0)
			return buf_failed(path) == -ENOSPC ? -ENAMETOOLONG : buf_failed(path);
	at = len - (name ? strlen(name) : 0);
	if (name)
		memcpy(path->data + at, name, strlen(name));
	for (const struct node *n = node; n->parent; n = n->parent) {
		at -= strlen(n->name) + 1;
		memcpy(path->data + at, n->name, strlen(n->name));
	}
	if (!name)
		path->data[--path->len] = '\0';
	return 0;
}

/* A path may be longer than the kernel takes in one piece. */
static int open_long(int dir, char *path)
{
	_cleanup_close_ int at = dup(dir);

	while (at >= 0 && strlen(path) >= PATH_MAX) {
		char *cut = path + PATH_MAX - 1;
		int next;

		while (*cut != '/')
			cut--;
		*cut = '\0';
		next = openat(at, path, O_PATH | OPEN_FLAGS);
		fd_close(at);
		at = next;
		path = cut + 1;
	}
	return at < 0 ? -errno : openat(at, path, O_RDONLY | O_NOFOLLOW | OPEN_FLAGS);
}

static int open_node(const struct watch_tree *w, const struct node *node)
{
	_cleanup_(buf_done) struct buf path = BUF(files_bounds.path);
	_cleanup_close_ int root = open(w->path, O_PATH | OPEN_FLAGS);
	int r = root < 0 ? -errno : watch_tree_path(node, NULL, &path);
	int fd;

	if (r < 0)
		return r;
	fd = open_long(root, path.data);
	return fd < 0 ? -errno : fd;
}

/* Another node had it under another name: it was moved, and what is seen now counts. */
static void take_over(struct watch_tree *w, struct node *node, int wd)
{
	struct node *other = watch_tree_find(w, wd);

	if (other && other != w->root) {
		leave_bucket(w, other);
		watch_tree_drop(w, other);
	}
	enter_bucket(w, node, wd);
}

static bool is_below(const struct node *node, const struct node *above)
{
	while (node && node != above)
		node = node->parent;
	return node;
}

/* Gone again, or not ours to look at; both are as if it were not there. */
static bool is_nothing(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -EACCES ||
	       code == -EPERM;
}

int watch_tree_next(struct watch_tree *w, struct node **ret_node, int *ret_dir)
{
	struct node *node = w->pending, *other;
	int fd, wd;

	if (!node)
		return 0;
	w->pending = node->next_pending;
	node->next_pending = NULL;
	fd = open_node(w, node);
	wd = fd < 0 ? fd : watch(w, fd, SEEN | IN_ONLYDIR);
	other = watch_tree_find(w, wd);
	*ret_node = node;
	*ret_dir = fd;
	/* The root cannot lie in itself, nor a directory in one below it. */
	if (wd >= 0 && other && is_below(node, other))
		wd = -ENOENT;
	if (wd >= 0) {
		take_over(w, node, wd);
		return 1;
	}
	*ret_dir = fd_close(fd);
	if (is_nothing(wd)) {
		watch_tree_drop(w, node);
		*ret_node = NULL;
	}
	return is_nothing(wd) ? 1 : wd;
}

int watch_tree_move(struct watch_tree *w, struct node *node, struct node *parent, const char *name)
{
	struct node *there = watch_tree_child(parent, name);
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	if (there && there != node && !is_below(node, there) && !is_below(parent, there))
		watch_tree_drop(w, there);
	unlink_child(node);
	free(node->name);
	node->name = copy;
	node->parent = parent;
	node->next = parent->children;
	parent->children = node;
	return 0;
}
