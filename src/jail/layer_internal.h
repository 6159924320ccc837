/*
 * layer_internal.h - what the parts of layer.h share
 *
 * layer_trail.c goes up and down, layer_content.c copies one file, layer_marks.c attributes,
 * layer.c puts them together.
 */
#ifndef BRIG_JAIL_LAYER_INTERNAL_H
#define BRIG_JAIL_LAYER_INTERNAL_H

#include <stdbool.h>
#include <sys/stat.h>

#include "jail/changes_internal.h"
#include "jail/layer.h"

/* Where a walk is. The way back up is not remembered by name, but known again when it is seen. */
struct trail {
	int dir; /* where it is; -EBADF before and after */
	struct trail_step {
		dev_t device;
		ino_t inode;
		mode_t mode;  /* that the directory had */
		bool is_lent; /* and gets back */
	} * steps;
	size_t count, room;
};

#define TRAIL_NONE ((struct trail){ .dir = -EBADF })

/* Into the directory name of dir, or of where the trail is. Writing: with the right to add to it. */
int trail_begin(struct trail *trail, int dir, const char *name, bool writes, struct stat *ret_st);
int trail_down(struct trail *trail, const char *name, bool writes, struct stat *ret_st);

/*
 * Back up; -ESTALE when the way up leads elsewhere. From the top: the end. The mode of the directory
 * that was left is given back, unless that is wanted: then it is still open, and as it was lent.
 */
int trail_up(struct trail *trail, int *ret_left);
void trail_done(struct trail *trail); /* gives all modes back that can be reached */

/* What the target's file system cannot do need not be tried twice. */
struct content_ways {
	bool no_clone, no_range;
};

/* Copies with holes; counts into how, and tells. */
int layer_content(int from, int to, uint64_t size, struct content_ways *ways,
		  struct layer_how *how);

/* Attributes from one file or directory to another. */
int layer_marks_copy(int from, int to, bool is_plain, bool is_directory);
int layer_mark_opaque(int dir);
int layer_mark_whiteouts(int dir); /* that there are some in it */
int layer_marks_prune(int fd);

void layer_tell(const struct layer_how *how);

#endif
