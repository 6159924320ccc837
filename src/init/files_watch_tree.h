/*
 * files_watch_tree.h - the directories of a watched tree, by watch and by name
 *
 * inotify tells of a change by the number of a watch and a name. Each watched directory is a node
 * that knows the one it lies in, so that a directory that moves takes all below it along with one
 * change. Nothing is held open: a directory that somebody removes must not stay because of us.
 */
#ifndef BRIG_INIT_FILES_WATCH_TREE_H
#define BRIG_INIT_FILES_WATCH_TREE_H

#include "init/files_internal.h"

#define WATCH_BUCKETS 4096

struct node {
	int wd; /* -1 while it is not watched yet */
	char *name;
	struct node *parent, *children, *next; /* next: another child of the same parent */
	struct node *same_bucket, *next_pending;
	bool is_new;  /* its content is told, as made */
	bool is_told; /* it was itself told so, before the kernel does */
};

struct watch_tree {
	const char *path; /* of the root; borrowed */
	int inotify;
	struct node *root;
	struct node *buckets[WATCH_BUCKETS];
	struct node *pending; /* not watched yet */
	size_t count;
};

[[nodiscard]] int watch_tree_begin(struct watch_tree *w, const char *path);
void watch_tree_done(struct watch_tree *w);

/* Whether the root is still what its path leads to. */
bool watch_tree_is_there(struct watch_tree *w);

struct node *watch_tree_find(const struct watch_tree *w, int wd);
struct node *watch_tree_child(const struct node *parent, const char *name);

/* A directory that is not watched yet. -ENOSPC: there are too many. */
[[nodiscard]] int watch_tree_add(struct watch_tree *w, struct node *parent, const char *name,
				 struct node **ret_node);

/* Watches the next pending node: 1 with its directory open, or -EBADF in place of it where there is
 * nothing to be seen; 0 when none is pending; -errno. */
[[nodiscard]] int watch_tree_next(struct watch_tree *w, struct node **ret_node, int *ret_dir);

[[nodiscard]] int watch_tree_move(struct watch_tree *w, struct node *node, struct node *parent,
				  const char *name);
void watch_tree_drop(struct watch_tree *w, struct node *node); /* with all below it */

/* The path of a name in a node, below the root; "." for the root itself (name NULL). */
[[nodiscard]] int watch_tree_path(const struct node *node, const char *name, struct buf *path);

#endif
