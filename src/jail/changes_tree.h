/*
 * changes_tree.h - trees that somebody hostile had his hands in, by descriptors
 *
 * What changes.h is built on, for others who bring files out of a sandbox by the same rules.
 */
#ifndef BRIG_JAIL_CHANGES_TREE_H
#define BRIG_JAIL_CHANGES_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "jail/changes.h"

/* A path below root, "" for root itself: no links, no mount points, no way up. */
int tree_open(int root, const char *path, int flags);

/* The directory that path is in; ret_name points to its last component. Good for looking things up
 * and changing entries, not for listing. */
int tree_open_parent(int root, const char *path, const char **ret_name);

/* The names in a directory, sorted. */
struct names {
	char **items;
	size_t count, room;
};
int names_list(int dir, struct names *ret_names); /* -E2BIG: more than CHANGES_MAX */
bool names_has(const struct names *names, const char *name);
void names_done(struct names *names);

/* dir + "/" + name, or name alone when dir is "". NULL: no memory. */
char *path_join(const char *dir, const char *name);

/* Whether a symbolic link at path with this target stays below the top, whatever the links are that
 * it leads through, as long as those do. */
bool link_stays_inside(const char *path, const char *target);

int change_notes_add(struct change_notes *notes, enum change_what what, const char *path,
		     const char *fmt, ...) _printf_(4, 5);

#endif
