#include "cli/grant.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/hide.h"
#include "trace/home.h"

#define OPERATOR_POLICY "/etc/brig/policy.yaml"
#define PROJECT_POLICY  ".brig.yaml"
#define DEFAULT_POLICY  "base"

static int set_weaken(struct grant *grant, const char *wall, struct err *err)
{
	if (!str_equal(wall, "signals"))
		return err_set(err, -EINVAL, "--weaken: \"%s\" cannot be given up (only: signals)",
			       wall);
	grant->weaken |= WEAKEN_SIGNALS;
	return 0;
}

static int set_within(struct grant *grant, const char *name, struct err *err)
{
	if (grant->within_count == ARRAY_SIZE(grant->within))
		return err_set(err, -E2BIG, "--within: more than %zu", grant->within_count);
	grant->within[grant->within_count++] = name;
	return 0;
}

static int set_at_least(struct grant *grant, const char *tier, struct err *err)
{
	for (enum isolation i = ISOLATION_UNSET + 1; i < ISOLATION_AUTO; i++)
		if (str_equal(tier, isolation_names[i])) {
			grant->at_least = MAX(grant->at_least, i);
			return 0;
		}
	return err_set(err, -EINVAL, "--at-least: \"%s\" is no tier (process, container, vm, ...)",
		       tier);
}

static bool exists(const char *path)
{
	struct stat st;

	/* Only a clean "not there" counts as absent: a policy that cannot be looked at must not be
	 * skipped. */
	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* The person's choice: --policy, or the user's file, or base. */
static int load_granted(const struct grant *grant, const struct policy_env *env,
			struct policy *ret_policy, struct err *err)
{
	char path[PATH_MAX];

	if (grant->policy_name)
		return policy_load(grant->policy_name, env, ret_policy, err);
	if (env->config_home) {
		snprintf(path, sizeof(path), "%.4000s/policy.yaml", env->config_home);
		if (exists(path))
			return policy_load(path, env, ret_policy, err);
	}
	return policy_load(DEFAULT_POLICY, env, ret_policy, err);
}

static int narrow_by(struct policy *policy, const char *name, const struct policy_env *env,
		     struct err *err)
{
	struct policy by;
	int r = policy_load(name, env, &by, err);

	if (r < 0)
		return r;
	r = policy_narrow(policy, &by, err);
	policy_done(&by);
	return r;
}

static int narrow_by_file(struct policy *policy, const char *path, const struct policy_env *env,
			  struct err *err)
{
	return exists(path) ? narrow_by(policy, path, env, err) : 0;
}

int grant_narrow(struct policy *policy, const struct policy_env *env, struct err *err)
{
	int r = narrow_by_file(policy, OPERATOR_POLICY, env, err);

	return r < 0 ? r : narrow_by_file(policy, "./" PROJECT_POLICY, env, err);
}

int grant_load(const struct grant *grant, const struct policy_env *env, struct policy *ret_policy,
	       struct err *err)
{
	struct policy policy;
	int r = load_granted(grant, env, &policy, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < grant->flag_count && r == 0; i++)
		r = policy_set_flag(&policy, grant->flags[i].name, grant->flags[i].value, env, err);
	for (size_t i = 0; i < grant->within_count && r == 0; i++)
		r = narrow_by(&policy, grant->within[i], env, err);
	/* As two floors are narrowed: "auto" is none. */
	if (policy.floor == ISOLATION_AUTO || policy.floor < grant->at_least)
		policy.floor = grant->at_least ?: policy.floor;
	r = r < 0 ? r : grant_narrow(&policy, env, err);
	r = r < 0 ? r : policy_check_built(&policy, err);
	r = r < 0 ? r : hide_state(&policy, env, err);
	if (r < 0) {
		policy_done(&policy);
		return err->code ? r : err_errno(err, r, "policy");
	}
	*ret_policy = policy;
	return 0;
}

const char *grant_temporary(void)
{
	const char *named = getenv("TMPDIR");
	struct statvfs fs;

	if (named && named[0] == '/')
		return named;
	if (statvfs("/dev/shm", &fs) == 0 && !(fs.f_flag & ST_NOEXEC) &&
	    (uint64_t)fs.f_bavail * fs.f_frsize >= 1 * GIB)
		return "/dev/shm";
	return "/tmp";
}

const struct tier *grant_instead(const struct policy *policy, const struct tier *failed,
				 struct err *err)
{
	static struct host host;
	enum host_feature missing;
	const struct tier *instead;

	host_probe(&host);
	instead = tier_instead(policy, failed, &host, &missing);
	if (missing == HOST_FEATURE_COUNT)
		return NULL;
	if (instead)
		fprintf(stderr,
			"brig: %s tier instead of %s: this host does not give %s (%s; brig doctor "
			"tells more)\n",
			isolation_names[instead->isolation], isolation_names[failed->isolation],
			host_features[missing].title, host.facts[missing].detail);
	else
		err_set(err, -EOPNOTSUPP,
			"the %s tier needs %s, which this host does not give: %s%s%s",
			isolation_names[failed->isolation], host_features[missing].title,
			host.facts[missing].detail, host.facts[missing].remedy[0] ? "; " : "",
			host.facts[missing].remedy);
	return instead;
}

int grant_set(struct grant *grant, const char *name, const char *value, struct err *err)
{
	if (str_equal(name, "weaken"))
		return set_weaken(grant, value, err);
	if (str_equal(name, "within"))
		return set_within(grant, value, err);
	if (str_equal(name, "at-least"))
		return set_at_least(grant, value, err);
	if (str_equal(name, "policy")) {
		grant->policy_name = value;
		return 0;
	}
	if (grant->flag_count == ARRAY_SIZE(grant->flags))
		return err_set(err, -E2BIG, "more than %zu options: write a policy file",
			       grant->flag_count);
	/* The name is in args_next's own memory; the copy lives on. */
	grant->flags[grant->flag_count++] = (struct grant_flag){ strdup(name), value };
	return grant->flags[grant->flag_count - 1].name ? 0 : -ENOMEM;
}

int grant_from(const char *name, struct image_layers *ret_layers, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, true, err);

	return home < 0 ? home : image_open(home, name, ret_layers, err);
}

void grant_done(struct grant *grant)
{
	for (size_t i = 0; i < grant->flag_count; i++)
		free(grant->flags[i].name);
	grant->flag_count = 0;
}
