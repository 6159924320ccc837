/*
 * environment.h - the variables that a sandbox gets (private to warden/)
 *
 * Those of the caller that the policy lets through, those that it sets, and HOME and TMPDIR of the
 * sandbox unless the policy names them.
 */
#ifndef BRIG_WARDEN_ENVIRONMENT_H
#define BRIG_WARDEN_ENVIRONMENT_H

#include "policy/policy.h"

/* What a sandbox has of its own. */
struct environment_own {
	const char *home, *temporary;
	const char *user; /* NULL: it is the caller's */
};

[[nodiscard]] int environment_make(const struct policy *policy, char *const *environ,
				   const struct environment_own *own, struct strv *ret_env);

/* The value of a variable in a made environment, or the fallback. */
const char *environment_get(const struct strv *env, const char *name, const char *fallback);

#endif
