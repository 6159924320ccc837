/*
 * layer.h - trees of files that sandboxes wrote, kept for others to start from
 *
 * A layer is a folder with one tree for each place that a sandbox may write (its home, /tmp, every
 * overlay). Each tree is what overlayfs takes as a lower layer: whiteouts (character device 0:0) for
 * what was deleted, user.overlay.opaque on directories that hide what is below them.
 *
 *	struct layer_how how = { .ids = LAYER_IDS_SHIFT, .first = 0x70000000, .is_plain = true };
 *	r = layer_copy(store, "home", layer, "home", &how, err);
 *
 * The source is hostile, and must stand still: the sandbox has ended or is frozen. Names are any
 * bytes, and the depth is whatever the file system takes: the way goes down by one name and up by
 * "..", checked by device and inode, two descriptors at a time, without recursion. No link is
 * followed and nothing is opened but regular files and directories. Where a mode keeps its owner out,
 * the owner lends himself the rights, and gives them back.
 *
 * Kept: owners (see below), modes with setuid and setgid bits (a layer lies in a folder that is closed
 * to others and is mounted nosuid), times, attributes of the user's kind, symbolic links, pipes, hard
 * links, holes. Left out: sockets and devices. Content is shared with the source where the file system
 * can (reflink).
 *
 * Nothing is removed when a copy fails: the caller has made the folder that it goes to, and
 * removes that as a whole (layer_remove).
 */
#ifndef BRIG_JAIL_LAYER_H
#define BRIG_JAIL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define LAYER_DEPTH_MAX 1000000 /* directories in each other */

/*
 * Whom the copies belong to. Of an ordinary user all of them are its own, whatever is asked. A
 * layer that root stores has the ids that the sandbox saw, from 0 on, so that it can be mounted
 * for any range.
 */
enum layer_ids {
	LAYER_IDS_SAME,  /* as in the source */
	LAYER_IDS_SHIFT, /* less first; what is not of that range becomes 65534 */
	LAYER_IDS_ONE,   /* first, all of them */
};

struct layer_progress {
	void (*tell)(void *arg, uint64_t bytes, uint64_t files);
	void *arg;
};

struct layer_how {
	enum layer_ids ids;
	uint32_t first;
	/*
	 * The source was no upper layer of an overlay: what looks like a mark of overlayfs is the
	 * sandbox's own. Attributes are kept under the names that overlayfs shows again as they were
	 * (user.overlay.overlay.*), whiteouts are devices that mean nothing.
	 */
	bool is_plain;
	/* The target is a newer layer: what is there stays, and hides what it hides in an overlay. */
	bool is_below;
	bool keeps_top; /* the target's own directory keeps its owner, mode and times */
	const struct layer_progress *progress; /* or NULL */
	uint64_t bytes, files, left_out;       /* are added to */
};

/* The tree from, in from_dir, to the directory to, in to_dir (".": that itself), which is made
 * where it is missing. -errno with err. */
[[nodiscard]] int layer_copy(int from_dir, const char *from, int to_dir, const char *to,
			     struct layer_how *how, struct err *err);

/* Takes the marks of overlayfs and whiteouts out of a tree that nothing is below of, and gives
 * attributes of the sandbox their names back. */
[[nodiscard]] int layer_prune(int dir, const char *name, struct err *err);

/* Removes a folder with all that is in it, at any depth. The name is one of ours: below 64 bytes. */
[[nodiscard]] int layer_remove(int dir, const char *name);

/* Whether there is anything in a tree, or its mode is another; -errno where it cannot be read. */
[[nodiscard]] int layer_is_written(int dir, const char *name, uint32_t mode);

#endif
