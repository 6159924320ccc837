#include "tier/tier.h"

#include <errno.h>

#include "tier/container.h"
#include "tier/process.h"

const struct tier tiers[] = {
	{
		.isolation = ISOLATION_VM,
		.walls = "own guest kernel under KVM, the machine itself jailed",
		.purpose = "arbitrary code of strangers, regulated tenants",
		.needs = { HOST_KVM, HOST_FEATURE_COUNT },
	},
	{
		.isolation = ISOLATION_GVISOR,
		.walls = "the same policy given to runsc",
		.purpose = "a second kernel without KVM",
		.needs = { HOST_RUNSC, HOST_FEATURE_COUNT },
	},
	{
		.isolation = ISOLATION_CONTAINER,
		.walls = "all namespaces, own root, Landlock, seccomp, limits",
		.purpose = "the default",
		.prepare = container_prepare,
		.needs = { HOST_USERNS, HOST_MOUNTNS, HOST_PIDNS, HOST_PROCFS, HOST_NETNS,
			   HOST_IPCNS, HOST_UTSNS, HOST_CGROUPNS, HOST_TIMENS, HOST_OVERLAY,
			   HOST_LANDLOCK, HOST_SECCOMP, HOST_FEATURE_COUNT },
	},
	{
		.isolation = ISOLATION_PROCESS,
		.walls = "Landlock, seccomp, no privileges, limits; no namespaces needed",
		.purpose = "an agent in your own tree; hosts where nothing else starts",
		.prepare = process_prepare,
		.needs = { HOST_LANDLOCK, HOST_LANDLOCK_SCOPE, HOST_SECCOMP, HOST_FEATURE_COUNT },
	},
	{
		.isolation = ISOLATION_WASM,
		.walls = "WebAssembly with fuel, inside a process jail",
		.purpose = "pure functions, tools compiled to WASI",
		.needs = { HOST_LANDLOCK, HOST_SECCOMP, HOST_FEATURE_COUNT },
	},
	{
		.isolation = ISOLATION_SCRIPT,
		.walls = "an interpreter without authority, inside a process jail",
		.purpose = "expressions, rules, small glue",
		.needs = { HOST_LANDLOCK, HOST_SECCOMP, HOST_FEATURE_COUNT },
	},
};

const size_t tier_count = ARRAY_SIZE(tiers);

const struct tier *tier_find(enum isolation isolation)
{
	for (size_t i = 0; i < tier_count; i++)
		if (tiers[i].isolation == isolation)
			return &tiers[i];
	return NULL;
}

enum host_feature tier_missing(const struct tier *tier, const struct host *host)
{
	for (size_t i = 0; i < TIER_MAX_NEEDS && tier->needs[i] != HOST_FEATURE_COUNT; i++)
		if (!host->facts[tier->needs[i]].ok)
			return tier->needs[i];
	return HOST_FEATURE_COUNT;
}

static const struct tier *strongest_built(enum isolation floor)
{
	for (size_t i = 0; i < tier_count; i++)
		if (tiers[i].prepare && tiers[i].isolation >= floor)
			return &tiers[i];
	return NULL;
}

static bool is_free_to_choose(const struct policy *policy)
{
	return policy->isolation == ISOLATION_UNSET || policy->isolation == ISOLATION_AUTO;
}

int tier_choose(const struct policy *policy, const struct tier **ret_tier, const char **ret_why,
		struct err *err)
{
	enum isolation floor = policy->floor == ISOLATION_AUTO ? ISOLATION_UNSET : policy->floor;
	const struct tier *tier;

	if (is_free_to_choose(policy)) {
		tier = strongest_built(floor);
		if (!tier)
			return err_set(err, -EOPNOTSUPP,
				       "the policy's floor is %s, and this version of brig has no "
				       "tier that is as "
				       "strong",
				       isolation_names[floor]);
		*ret_why = "auto: the strongest tier that this version has";
	} else {
		tier = tier_find(policy->isolation);
		if (tier->isolation < floor)
			return err_set(err, -EPERM, "the %s tier is below the policy's floor, %s",
				       isolation_names[tier->isolation], isolation_names[floor]);
		if (!tier->prepare)
			return err_set(err, -EOPNOTSUPP,
				       "this version of brig does not have the %s tier yet (it "
				       "has: container, process)",
				       isolation_names[tier->isolation]);
		*ret_why = "asked for";
	}
	*ret_tier = tier;
	return 0;
}

const struct tier *tier_instead(const struct policy *policy, const struct tier *failed,
				const struct host *host, enum host_feature *ret_missing)
{
	enum isolation floor = policy->floor == ISOLATION_AUTO ? ISOLATION_UNSET : policy->floor;

	*ret_missing = tier_missing(failed, host);
	if (*ret_missing == HOST_FEATURE_COUNT || !is_free_to_choose(policy))
		return NULL;
	for (size_t i = 0; i < tier_count; i++)
		if (tiers[i].prepare && tiers[i].isolation < failed->isolation &&
		    tiers[i].isolation >= floor &&
		    tier_missing(&tiers[i], host) == HOST_FEATURE_COUNT)
			return &tiers[i];
	return NULL;
}
