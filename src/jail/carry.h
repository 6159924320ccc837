/*
 * carry.h - a narrower rule inside a wider one, where Landlock is the only wall for files
 *
 * A policy may say ".: write", ".git/hooks: read", "secret: none". Landlock can only add rights on
 * the way down: what it grants on "." it grants on "secret" too. So it grants on "." no more than
 * the narrowest rule inside leaves (here: nothing), and the calls that need more wait for the
 * keeper, which carries them out:
 *
 *	target                        keeper
 *	open("x/f", O_WRONLY) waits   copies "x/f", pins x (mediate_walk.h), then f
 *	                              where is it? /proc/self/fd/N says: below ".", and no
 *	                              nearer rule takes that back
 *	gets a descriptor             opens what it pinned, and hands it over
 *
 * The kernel refuses by itself whatever the keeper does not do. So every question that the keeper
 * cannot answer, and every verdict against the caller, is "go on": Landlock grants nowhere more than
 * the policy says, whatever the caller's memory holds by then. What the keeper does, it does on what
 * it pinned and judged, with the last component never followed.
 *
 *	struct carry_place   one per rule: what the policy says there, and what Landlock grants
 *	carry_plan()         works out the second from the first
 *	carry_place_of()     the place that decides about a path: the nearest, as in the policy
 *	carry_answer()       a call that waits
 *
 * What must hold, so that a path keeps its place:
 *
 *  - No name in a carried tree moves but by the keeper, which does one thing at a time. A directory
 *    on the way to a guarded place (narrower than what is around it) is neither moved nor removed:
 *    EBUSY, as a mount point. A guarded name that does not exist cannot be brought along with its parent (guard.h).
 *  - A link is made only where both ends may be written: what is linked from a narrower place into
 *    a wider one could be written there.
 *  - Letters are compared without regard to case where that takes rights away: a directory may not
 *    know the difference.
 *
 * Only files, directories and fifos are opened by the keeper, nothing in /proc. A program that lies
 * directly in a tree whose reads are carried can be executed only if it was there at the start:
 * Landlock must grant that (tier/files_inside.h). Not seen: a tree of the host that is mounted at a
 * second place, and a second name that the host gave a file; paths longer than PATH_MAX are the
 * kernel's, and refused. A program cannot put a Landlock of its own around itself: the keeper would
 * act past it.
 */
#ifndef BRIG_JAIL_CARRY_H
#define BRIG_JAIL_CARRY_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "policy/policy.h"

struct mediator;

struct carry_place {
	const char *path; /* absolute, canonical; the owner's */
	size_t len;       /* of it: most comparisons need not look further */
	enum access access;
	enum access grant; /* what Landlock gives */
	enum access sure;  /* and still does should the sandbox replace it; the rest is carried */
	bool exists;
	bool is_guarded; /* less than what is around it */
};

struct carry {
	struct carry_place *places; /* sorted by policy_path_order() */
	size_t count;
	const char **guarded; /* paths of those that are */
	size_t guarded_count;
	bool reads, changes; /* what is carried somewhere */
};

/*
 * Works out grants and guards of sorted places, and drops those that do not count: what does not
 * exist has no grant of its own, and matters only where it takes rights away. True when something
 * has to be carried. guarded has room for all places.
 */
bool carry_plan(struct carry *carry);

/* NULL when no rule covers the path. */
const struct carry_place *carry_place_of(const struct carry *carry, const char *path);

/* What may be done at a path. */
enum access carry_access(const struct carry *carry, const char *path);

/* The narrowest that is left anywhere at or below a path. */
enum access carry_floor(const struct carry *carry, const char *path);

/* Whether a guarded place is at the path or below it. */
bool carry_leads_to_guard(const struct carry *carry, const char *path);

/* What is gone stays where it was: takes "(deleted)" off the path that the kernel shows for it. */
void carry_strip(char *path, const struct stat *st);

/* Whether this is one of the calls that may have to be carried out. */
bool carry_handles(int number);

/* Carries it out and answers, lets it go on, or leaves the answer to a process that waits. */
[[nodiscard]] int carry_answer(const struct mediator *mediator, const struct seccomp_notif *notif);

#endif
