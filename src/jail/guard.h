/*
 * guard.h - names that must not come into existence
 *
 * A policy may say ".: write" and ".git/hooks: read" where .git/hooks does not exist. A mount can
 * protect only what exists; so in a container with such rules the calls that make names wait for
 * the keeper (mediate_name.h), which asks here before it makes one:
 *
 *	r = guard_check(guarded, count, parent, "hooks", APPEARS_DIRECTORY);
 *
 * A guarded path is absolute and canonical, in the sandbox's view. What is refused (EACCES):
 *
 *  - the path itself, whatever would appear there, and anything below it should the host make it
 *  - on the way to it, all but a fresh empty directory and what has nothing below it: a directory
 *    that is moved there, or a link, could bring the rest of the path along
 *    (mkdir -p x/hooks; mv x .git). To move such a directory away is free, to move it back is not.
 *
 * A directory is compared by its place and by what it is (device and inode), against what the
 * guarded path leads through at this moment: the same tree may be mounted at a second place, and
 * the host may move directories. Only guards that have the new name among their components need
 * that, so making main.o costs nothing beyond the question where it is.
 *
 * Nothing of the sandbox comes between the question and the act: every call that could make,
 * move or exchange a name waits for the one keeper, which handles one at a time. Taking a name
 * away goes on meanwhile, and brings nothing to a guarded path. A process of the host that moves
 * directories at that moment can make the answer that of the moment before, but not the act go
 * elsewhere: it is done on the pinned directory that was asked about.
 *
 * Letters are compared without regard to case (ASCII): a directory may not know the difference.
 * Names that a file system takes for the same by other rules (other alphabets, DOS short names),
 * and a tree that is also mounted under another device number (as the layer of an overlay), are
 * not seen. Neither is what the host makes at a guarded path while the sandbox runs, except that
 * no name can be made below it.
 */
#ifndef BRIG_JAIL_GUARD_H
#define BRIG_JAIL_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* What is about to appear under a name. */
enum appearance {
	APPEARS_LEAF,      /* a file, fifo or socket: nothing can be below it */
	APPEARS_DIRECTORY, /* fresh and empty */
	APPEARS_ANYTHING,  /* a directory with content, or a link to one */
};

/* 0 or -EACCES. dir is a descriptor of a directory (O_PATH is enough), name the last component of a
 * path, perhaps with slashes behind it. */
[[nodiscard]] int guard_check(const char *const *guarded, size_t count, int dir, const char *name,
			      enum appearance appearance);

#endif
