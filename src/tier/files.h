/*
 * files.h - a policy's file rules as Landlock grants (private to tier/)
 *
 * Every rule's path is opened once, without following symbolic links. Where a link is on the way it
 * is resolved step by step, and refused if it lies in a tree that the sandbox may write: an earlier
 * run could have put it there to get its target opened. Landlock grants whole trees, so a rule that
 * takes rights away inside a wider one is refused too.
 */
#ifndef BRIG_TIER_FILES_H
#define BRIG_TIER_FILES_H

#include "jail/landlock.h"
#include "policy/policy.h"

/* What was granted, by canonical path: for the report, and for calls that Landlock does not see. */
struct files_granted {
	struct strv readable,
		writable;    /* trees; what is writable is readable too and stands in both */
	unsigned int absent; /* rules of files whose path does not exist here */
};

void files_granted_done(struct files_granted *granted);

[[nodiscard]] int files_grant(const struct path_rules *rules, const struct landlock *ll,
			      struct files_granted *ret_granted, struct err *err);

#endif
