/* make_bounds.c - the policy that is above a tenant's sandboxes, and how large they may be */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "serve/make_internal.h"

#define OPERATOR_POLICY "/etc/brig/policy.yaml"

/* What a sandbox gets where the tenant has a quota of it, and nobody said how much. */
#define SHARE_CPU    1.0
#define SHARE_MEMORY (512 * MIB)
#define SHARE_DISK   (1 * GIB)

const char *make_policy_name(const struct serve *serve, const struct tenant *tenant)
{
	if (tenant->policy[0])
		return tenant->policy;
	return serve->settings.policy[0] ? serve->settings.policy : MAKE_POLICY;
}

/* As the program that makes the sandbox sees it. */
static void policy_env_of_daemon(struct policy_env *ret_env)
{
	static char cwd[PATH_MAX], home[PATH_MAX], config[PATH_MAX];
	const char *value = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");

	if (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/')
		strcpy(cwd, "/");
	snprintf(home, sizeof(home), "%s", value && value[0] == '/' ? value : "/root");
	if (xdg && xdg[0] == '/')
		snprintf(config, sizeof(config), "%.4000s/brig", xdg);
	else
		snprintf(config, sizeof(config), "%.4000s/.config/brig", home);
	*ret_env = (struct policy_env){ .cwd = cwd, .home = home, .config_home = config };
}

static int load_ceiling(const struct serve *serve, const struct tenant *tenant,
			struct policy *ret_policy, struct err *err)
{
	struct policy policy, by;
	struct policy_env env;
	int r;

	policy_env_of_daemon(&env);
	r = policy_load(make_policy_name(serve, tenant), &env, &policy, err);
	if (r < 0)
		return r;
	/* Absent is absent; what cannot be read must not be passed over. */
	if (access(OPERATOR_POLICY, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
		r = policy_load(OPERATOR_POLICY, &env, &by, err);
		if (r == 0) {
			r = policy_narrow(&policy, &by, err);
			policy_done(&by);
		}
	}
	if (r < 0)
		policy_done(&policy);
	else
		*ret_policy = policy;
	return r;
}

/* What is wrong with the daemon's own policy is nothing that the client did. */
int make_ceiling(const struct serve *serve, const struct tenant *tenant, struct policy *ret_policy,
		 struct err *err)
{
	int r = load_ceiling(serve, tenant, ret_policy, err);

	if (r < 0)
		err->code = -EIO;
	return r < 0 ? -EIO : 0;
}

/*
 * What was asked for, at most what the policy allows. Where nobody asked it is what the policy allows, or a share
 * where a quota has to be counted, and no more than the whole quota.
 */
static double size_of(double asked, double limit, double quota, double share)
{
	if (asked > 0)
		return limit > 0 ? MIN(asked, limit) : asked;
	if (quota <= 0)
		return limit;
	return MIN(limit > 0 ? limit : share, quota);
}

static double limit_of(uint64_t limit, double unit)
{
	return limit == LIMIT_UNSET ? 0 : (double)limit / unit;
}

static void set_sizes(struct held *held, const struct limits *limits, const struct tenant *tenant)
{
	held->cpu = size_of(held->cpu, limit_of(limits->cpu, 1000), tenant->max_cpu, SHARE_CPU);
	held->memory = (uint64_t)size_of((double)held->memory, limit_of(limits->memory, 1),
					 (double)tenant->max_memory, SHARE_MEMORY);
	held->disk = (uint64_t)size_of((double)held->disk, limit_of(limits->disk, 1),
				       (double)tenant->max_disk, SHARE_DISK);
}

int make_sizes(const struct serve *serve, const struct tenant *tenant, struct held *held,
	       struct err *err)
{
	struct policy ceiling;
	int r = make_ceiling(serve, tenant, &ceiling, err);

	if (r < 0)
		return r;
	set_sizes(held, &ceiling.limits, tenant);
	policy_done(&ceiling);
	return 0;
}

/* What bounds this sandbox: the ceiling, or the smaller of it and the policy that was asked for. */
static int find_bounds(const struct make *make, const struct tenant *tenant,
		       struct policy *ret_policy, struct err *err)
{
	const char *own = make->order.policy;
	struct policy policy, ceiling;
	struct policy_env env;
	int r = make_ceiling(make->serve, tenant, &ceiling, err);

	if (r < 0 || !own || !own[0]) {
		if (r >= 0)
			*ret_policy = ceiling;
		return r;
	}
	policy_env_of_daemon(&env);
	r = policy_load(own, &env, &policy, err);
	if (r >= 0) {
		r = policy_narrow(&policy, &ceiling, err);
		if (r < 0)
			policy_done(&policy);
		else
			*ret_policy = policy;
	}
	policy_done(&ceiling);
	return r;
}

int make_bound(struct make *make, const struct tenant *tenant, struct err *err)
{
	struct policy ceiling;
	int r = find_bounds(make, tenant, &ceiling, err);

	if (r < 0)
		return r;
	set_sizes(&make->order.held, &ceiling.limits, tenant);
	if (make->order.has_rules)
		r = rules_within(&make->order.rules, &ceiling, err);
	/* A sandbox that has no network has no gate that could be told so. */
	if (r == 0 && make->order.has_rules && rules_are_of(&make->order.rules, &ceiling))
		make->order.has_rules = false;
	policy_done(&ceiling);
	return r < 0 ? r : make_fill_held(&make->order);
}
