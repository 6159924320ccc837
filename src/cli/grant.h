/*
 * grant.h - what the person at the keyboard grants a sandbox: a policy, options on top, a tier
 *
 * The same for every verb that starts one (run, create). The person's choice is --policy, or the
 * user's file, or the shipped policy "base"; options add to it; the operator's and the project's file
 * can only narrow the result, and so can --within and --at-least: whoever starts sandboxes for others
 * says there what those can get at most, whatever else they may ask for.
 */
#ifndef BRIG_CLI_GRANT_H
#define BRIG_CLI_GRANT_H

#include "cli/cli.h"
#include "tier/image.h"
#include "tier/tier.h"

struct grant_flag {
	char *name; /* owned */
	const char *value;
};

struct grant {
	const char *policy_name;
	const char *within[4]; /* policies that narrow the result */
	size_t within_count;
	enum isolation at_least; /* the weakest tier, whatever the policy says; 0: the policy's */
	unsigned int weaken;
	struct grant_flag flags[128]; /* of the policy's keys, in their order */
	size_t flag_count;
};

/* Rows for the options of a verb. */
#define GRANT_POLICY                                                                  \
	{                                                                             \
		0, "policy", "FILE|NAME",                                             \
			"policy to start from (default: your policy.yaml, else base)" \
	}
#define GRANT_WEAKEN                                                                       \
	{                                                                                  \
		0, "weaken", "WALL", "start although this host cannot give WALL (signals)" \
	}

#define GRANT_BOUNDS                                                                      \
	{ 0, "within", "FILE|NAME",                                                       \
	  "grant no more than this policy does, whatever else is asked for" },            \
	{                                                                                 \
		0, "at-least", "TIER",                                                    \
			"no weaker tier than this, whatever the policy says of its floor" \
	}

/* An option that is none of the verb's own. */
[[nodiscard]] int grant_set(struct grant *grant, const char *name, const char *value,
			    struct err *err);

[[nodiscard]] int grant_load(const struct grant *grant, const struct policy_env *env,
			     struct policy *ret_policy, struct err *err);

/* No more than the operator's file and the project's grant. */
[[nodiscard]] int grant_narrow(struct policy *policy, const struct policy_env *env,
			       struct err *err);

/*
 * The start failed. If it was because this host lacks what the tier needs, the person is told the
 * remedy; and where the policy left the choice to us and the floor allows it, the weaker tier that
 * takes over, in words; else NULL.
 */
const struct tier *grant_instead(const struct policy *policy, const struct tier *failed,
				 struct err *err);

/*
 * Where the private folder goes: the caller's TMPDIR; else memory, which is ten times as fast to
 * make and remove, if there is enough of it and programs may run there; else /tmp.
 */
const char *grant_temporary(void);

/* The image to start from, held until image_layers_done(): nobody removes what a sandbox stands on. */
[[nodiscard]] int grant_from(const char *name, struct image_layers *ret_layers, struct err *err);

void grant_done(struct grant *grant);

#endif
