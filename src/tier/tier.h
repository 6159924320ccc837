/*
 * tier.h - the ways to wall off a sandbox, and which one a policy gets
 *
 * One row per tier. Choosing is a question of the policy (what it asks for, its floor), of this
 * version (what is built) and of the host (what is ready); the answer says why in words.
 */
#ifndef BRIG_TIER_TIER_H
#define BRIG_TIER_TIER_H

#include "host/host.h"
#include "policy/policy.h"
#include "tier/jail.h"

#define TIER_MAX_NEEDS 14

struct tier {
	enum isolation isolation;
	const char *walls;   /* half a line: what it consists of */
	const char *purpose; /* whom it is for */
	/* Everything that does not need to know the command; NULL: not in this version. */
	int (*prepare)(const struct tier_request *request, struct tier_jail *ret_tj,
		       struct err *err);
	enum host_feature needs[TIER_MAX_NEEDS]; /* up to HOST_FEATURE_COUNT */
};

/* In the order of preference of "auto". */
extern const struct tier tiers[];
extern const size_t tier_count;

const struct tier *tier_find(enum isolation isolation);

/* The first feature that the tier needs and the host lacks; HOST_FEATURE_COUNT when it is ready. */
enum host_feature tier_missing(const struct tier *tier, const struct host *host);

/*
 * The tier for a policy. ret_why: why this one, for the person ("auto: the strongest tier in this
 * version"). What this host lacks is found out by the start itself.
 */
[[nodiscard]] int tier_choose(const struct policy *policy, const struct tier **ret_tier,
			      const char **ret_why, struct err *err);

/*
 * After a start failed: the next weaker tier that the policy leaves a choice of, if this host
 * cannot give the one that was tried. NULL when it can, or nothing else is allowed; then missing
 * tells the feature that is missing, or HOST_FEATURE_COUNT.
 */
const struct tier *tier_instead(const struct policy *policy, const struct tier *failed,
				const struct host *host, enum host_feature *ret_missing);

#endif
