/*
 * files.h - a policy's file rules as Landlock grants (private to tier/)
 *
 * Every rule's path is opened once, without following symbolic links. Where a link is on the way it
 * is resolved step by step, and refused if it lies in a tree that the sandbox may write: an earlier
 * run could have put it there to get its target opened.
 *
 * Landlock grants whole trees. Where a rule takes rights away inside a wider one, the wider tree gets
 * only what the narrower leaves, and the keeper carries out the rest (jail/carry.h).
 */
#ifndef BRIG_TIER_FILES_H
#define BRIG_TIER_FILES_H

#include <limits.h>

#include "jail/carry.h"
#include "jail/landlock.h"
#include "policy/policy.h"

/* What was granted, by canonical path: for the report, and for calls that Landlock does not see. */
struct files_granted {
	struct strv readable,
		writable;    /* trees; what is writable is readable too and stands in both */
	unsigned int absent; /* rules of files whose path does not exist here */

	struct strv paths;  /* of the places */
	struct carry carry; /* all rules as places */
	bool is_carried;    /* the keeper is needed for some of them */
	struct strv
		executable; /* where reads are carried: trees that Landlock opens all the same */
};

void files_granted_done(struct files_granted *granted);

/*
 * Opens the path of a rule, O_PATH; path is then the one without symbolic links. -ENOENT where it
 * does not exist, -EALREADY where it leads by a link to what another rule grants as well (/bin to
 * /usr/bin).
 */
[[nodiscard]] int files_open_rule(const struct path_rules *rules, const struct path_rule *rule,
				  char path[static PATH_MAX], struct err *err);

/* "where it was written: what is wrong with it" */
int files_rule_error(const struct path_rule *rule, int code, struct err *err, const char *text);

[[nodiscard]] int files_grant(const struct path_rules *rules, const struct landlock *ll,
			      struct files_granted *ret_granted, struct err *err);

/* The sandbox's own folder, which is granted already. */
[[nodiscard]] int files_add_own(struct files_granted *granted, const char *path);

#endif
