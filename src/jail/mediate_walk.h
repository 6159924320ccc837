/*
 * mediate_walk.h - the way along a path of the target, by descriptors
 *
 * The path is copied once, and the directory it starts from is pinned. Then the keeper goes
 * along it, with its own rights, which are the target's, and from its own root, which is the
 * target's too:
 *
 *	_cleanup_(walk_done) struct walk walk = WALK_NONE;
 *	r = walk_take(&walk, tid, fd, address, false);
 *	...is the notification still valid?
 *	r = walk_parent(&walk);                 walk.dir is pinned, walk.path the last component
 *	r = mkdirat(walk.dir, walk.path, mode);
 *
 * The last component keeps the slashes behind it, and may be "." or "..": what they mean is for the
 * call on the pinned directory to say. Calls that make a name never follow it; whoever wants what a
 * link there leads to asks walk_follow() for one step, and then for the parent again.
 *
 * Most paths take one openat2. What goes through /proc is taken step by step, because "self" there
 * would be the keeper: it becomes the target, the links of the target's own process (its
 * descriptors, cwd, root) lead where they lead for the target, and the directories of every other
 * process are refused (EACCES). The kernel would let the keeper into its own memory, and into that
 * of its descendants, where it would not let the target. For the same reason a descriptor or
 * working directory inside /proc is no place to start from, or to arrive at by a link. (Should the
 * target die on the way, its number may be another's: of the sandbox too, and the way leads
 * nowhere that it could not have gone by itself.)
 */
#ifndef BRIG_JAIL_MEDIATE_WALK_H
#define BRIG_JAIL_MEDIATE_WALK_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct walk {
	pid_t tid;
	int dir;    /* O_PATH; where path starts */
	int object; /* O_PATH; what a link of /proc led to, or walk_object() found */
	unsigned int links;
	char path[PATH_MAX];
};

#define WALK_NONE                                          \
	{                                                  \
		.tid = 0, .dir = -EBADF, .object = -EBADF, \
	}

/* Everything that comes from the target. An empty path is -ENOENT, unless it may be empty: then the
 * object is what fd is open on. */
[[nodiscard]] int walk_take(struct walk *walk, pid_t tid, int fd, uint64_t address,
			    bool may_be_empty);

[[nodiscard]] int walk_parent(struct walk *walk);

/* The last component, a link: walk->path is what it says, or walk->object what it leads to. */
[[nodiscard]] int walk_follow(struct walk *walk);

/* To the end, following a link there: walk->object is pinned. */
[[nodiscard]] int walk_object(struct walk *walk);

void walk_done(struct walk *walk);

/* Whether what fd is open on belongs to a proc file system; also when nobody can tell. */
bool is_on_proc(int fd);

#endif
