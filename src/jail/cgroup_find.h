/*
 * cgroup_find.h - where this process stands in the cgroup trees; private to src/jail/cgroup*.c
 *
 * /proc/self/cgroup has one line per hierarchy, "id:controllers:path": v1 hierarchies name their
 * controllers, the one v2 tree is "0::path". The path is seen from the root of our cgroup
 * namespace. Where the hierarchy is mounted, and from which of its directories on, only mountinfo
 * tells; that file grows with every container of the host, so it is read only where the usual
 * places under /sys/fs/cgroup do not settle the question by themselves.
 */
#ifndef BRIG_JAIL_CGROUP_FIND_H
#define BRIG_JAIL_CGROUP_FIND_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>

#include "base/macro.h"

/* The name of the v2 tree wherever a controller is asked for. */
#define CGROUP_UNIFIED ""

/* Enough for a path of the longest kind in several hierarchies; more is refused. */
#define CGROUP_SELF_SIZE (16 * KIB)

struct cgroup_line {
	unsigned int id;     /* of the hierarchy: equal where controllers are mounted together */
	char path[PATH_MAX]; /* begins with '/', has no ".." */
};

/* Our line for a controller in the text of /proc/self/cgroup, or -ENOENT. Broken lines are passed
 * over. A path outside our cgroup namespace is -EXDEV: it cannot be reached by name. */
[[nodiscard]] int cgroup_line_find(const char *text, const char *controller,
				   struct cgroup_line *ret_line);

struct cgroup_mount {
	bool is_v2;
	char root[PATH_MAX];  /* the directory of the hierarchy that is mounted */
	char point[PATH_MAX]; /* where */
	char options[256];    /* of the superblock: the controllers on v1 */
};

/* One line of mountinfo. -ENOENT: another file system; -EINVAL: not a line of mountinfo. */
[[nodiscard]] int cgroup_mount_parse(const char *line, struct cgroup_mount *ret_mount);

/* Whether the mount carries the controller (CGROUP_UNIFIED: is the v2 tree). */
bool cgroup_mount_has(const struct cgroup_mount *mount, const char *controller);

/* What is left of path below root, without a slash in front ("" when they are equal), or NULL. */
const char *cgroup_path_below(const char *path, const char *root);

/* A hierarchy as this process can reach it. */
struct cgroup_tree {
	int mount;          /* O_PATH descriptor of the mount point */
	char own[PATH_MAX]; /* our own cgroup below it, "" where it is the mount point itself */
};

#define CGROUP_TREE_NONE ((struct cgroup_tree){ .mount = -EBADF })

/* The tree of a controller in which our own cgroup has the path of /proc/self/cgroup. -ENOENT when
 * it is not mounted where we could reach it. */
[[nodiscard]] int cgroup_tree_find(const char *controller, const char *path,
				   struct cgroup_tree *ret_tree);

void cgroup_tree_done(struct cgroup_tree *tree);

#endif
