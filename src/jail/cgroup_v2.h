/*
 * cgroup_v2.h - the place for a sandbox's directory in the v2 tree; private to src/jail/cgroup*.c
 *
 * What the kernel asks for, and what follows from it:
 *
 * - A directory has the controllers that its parent's cgroup.subtree_control names, and a parent
 *   can name only what its own parent gave it (cgroup.controllers).
 * - A cgroup other than the root of the tree cannot name controllers while processes are in it. Our
 *   own cgroup has at least one, us; so the sandbox becomes our sibling, or that of an ancestor.
 * - To move a process one needs write access to cgroup.procs of the destination and of the nearest
 *   common ancestor of source and destination, which is the parent that was chosen here.
 * - Controllers that an ancestor could give but does not yet are switched on there if the kernel
 *   lets us, and stay on: another sandbox may rely on them by the time this one ends.
 *
 * A cgroup that was delegated to us alone has no usable ancestor: there we step into a directory of
 * our own, "brig-leaf", which empties the delegated one, and the sandbox is made beside it. The
 * last sandbox that ends undoes that, so whoever started us finds the delegated cgroup as it was.
 */
#ifndef BRIG_JAIL_CGROUP_V2_H
#define BRIG_JAIL_CGROUP_V2_H

#include "base/err.h"
#include "jail/cgroup_find.h"

#define CGROUP_LEAF "brig-leaf" /* where we go when our own cgroup is to have children */

struct cgroup_spot {
	int parent, dir; /* both owned by the caller */
	bool by_leaf;    /* the parent has our brig-leaf in it */
};

/*
 * Makes the directory name, in that of a slice unless it is "", with the controllers of needs, a bit set of enum cgroup_control (only
 * those that are controllers; 0: a bare directory). -EOPNOTSUPP comes with the remedy, behind the
 * controller that is missing, or behind label where it is not a question of one.
 */
[[nodiscard]] int cgroup_v2_make(const struct cgroup_tree *tree, uint32_t needs, const char *slice,
				 const char *name, const char *label, struct cgroup_spot *ret_spot,
				 struct err *err);

/* Steps back out of brig-leaf if nobody but us is left below home. */
void cgroup_v2_leave_leaf(int home);

/* Makes and opens a directory, on v1 too. What was there before is never taken: -EEXIST. */
[[nodiscard]] int cgroup_dir_make(int parent, const char *name);

/* The same in the directory of a slice below parent, unless slice is "": *parent is that one then, and the one
 * before is closed. */
[[nodiscard]] int cgroup_dir_make_in(int *parent, const char *slice, const char *name);

/* Whether a failure to make a directory only says that this place is not ours. */
bool cgroup_is_refusal(int r);

#endif
