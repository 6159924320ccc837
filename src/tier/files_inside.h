/*
 * files_inside.h - what can be executed in a tree whose reads are carried (private to tier/)
 *
 * ".: write" with "secret: none": nothing is granted on ".", and the keeper opens files there for the
 * sandbox (jail/carry.h). But it cannot execute one for it: that the kernel must grant. So what is
 * in "." at the start, and does not lead to "secret", is granted by itself, to read and execute:
 * every folder, and every file with an x bit. A folder that leads there is gone into instead. What
 * is made later directly in such a folder can be written and read, not executed.
 */
#ifndef BRIG_TIER_FILES_INSIDE_H
#define BRIG_TIER_FILES_INSIDE_H

#include "tier/files.h"

#define INSIDE_MAX 4096 /* names that are granted, of all trees together */

[[nodiscard]] int files_grant_inside(int tree, const char *path, const struct landlock *ll,
				     struct files_granted *granted, struct err *err);

#endif
