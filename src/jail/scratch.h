/*
 * scratch.h - the private folder of a sandbox: its HOME and TMPDIR, gone when it ends
 *
 * Made outside, in the caller's folder for temporary files, with a name that cannot be guessed and
 * mode 0700. Its content is hostile when it is removed: removal goes through descriptors only,
 * never follows a symbolic link, never leaves the folder's file system, and copes with any depth
 * and any mode that the owner can change.
 */
#ifndef BRIG_JAIL_SCRATCH_H
#define BRIG_JAIL_SCRATCH_H

#include <errno.h>

#include "base/err.h"

struct scratch {
	char path[4096]; /* absolute */
	char name[64];   /* last component */
	int parent;      /* the folder that it was made in */
	int dir;         /* the folder itself */
};

#define SCRATCH_NONE ((struct scratch){ .parent = -EBADF, .dir = -EBADF })

/* base: an absolute path. A symbolic link in it, or a folder where others could rename ours, is
 * refused. */
[[nodiscard]] int scratch_make(const char *base, const char *id, struct scratch *ret_scratch,
			       struct err *err);

/* Removes the folder with all that is in it. Async-signal-safe, no allocation: the keeper calls it.
 */
[[nodiscard]] int scratch_remove(const struct scratch *scratch);

/*
 * Removes folders of ours that nobody holds any more: those of sandboxes whose warden and keeper were
 * both killed. How many it was.
 */
size_t scratch_sweep(const char *base);

void scratch_done(struct scratch *scratch); /* closes the descriptors only */

#endif
