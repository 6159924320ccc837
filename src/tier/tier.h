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

#define TIER_MAX_NEEDS 12

struct tier {
	enum isolation isolation;
	const char *walls;   /* half a line: what it consists of */
	const char *purpose; /* whom it is for */
	bool is_built;
	enum host_feature needs[TIER_MAX_NEEDS]; /* up to HOST_FEATURE_COUNT */
};

/* In the order of preference of "auto". */
extern const struct tier tiers[];
extern const size_t tier_count;

const struct tier *tier_find(enum isolation isolation);

/* The first feature that the tier needs and the host lacks; HOST_FEATURE_COUNT when it is ready. */
enum host_feature tier_missing(const struct tier *tier, const struct host *host);

/*
 * The tier for a policy. Without a host the tier's own start finds out what is missing. ret_why:
 * why this one, for the person ("auto: the strongest tier in this version").
 */
[[nodiscard]] int tier_choose(const struct policy *policy, const struct tier **ret_tier,
			      const char **ret_why, struct err *err);

#endif
