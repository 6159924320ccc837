#include "warden/environment.h"

#include <errno.h>
#include <stdio.h>

#include "base/hook.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static bool has_name(const struct strv *env, const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (size_t i = 0; i < env->count; i++)
		if (strncmp(env->items[i], entry, len) == 0 && env->items[i][len] == '=')
			return true;
	return false;
}

static int add_once(struct strv *env, const char *entry)
{
	return has_name(env, entry) ? 0 : strv_add(env, entry);
}

static int add_pair(struct strv *env, const char *name, const char *value)
{
	_cleanup_free_ char *entry = NULL;

	if (asprintf(&entry, "%s=%s", name, value) < 0) {
		entry = NULL;
		return -ENOMEM;
	}
	return add_once(env, entry);
}

/* What the policy sets comes first and wins; then what the sandbox is; then the caller's. */
int environment_make(const struct policy *policy, char *const *environ,
		     const struct environment_own *own, struct strv *ret_env)
{
	struct strv env = { 0 };
	int r = 0;

	for (size_t i = 0; i < policy->env.list.count && r == 0; i++)
		if (strchr(policy->env.list.items[i], '='))
			r = add_once(&env, policy->env.list.items[i]);
	/* The name of the caller means nothing where the user is another one. */
	if (own->user && r == 0)
		r = add_pair(&env, "USER", own->user);
	if (own->user && r == 0)
		r = add_pair(&env, "LOGNAME", own->user);
	for (char *const *entry = environ; *entry && r == 0; entry++)
		if (strchr(*entry, '=') &&
		    (policy_env_allows(&policy->env, *entry) || hook_without("environment")))
			r = add_once(&env, *entry);
	r = r < 0 ? r : add_pair(&env, "HOME", own->home);
	r = r < 0 ? r : add_pair(&env, "TMPDIR", own->temporary);
	r = r < 0 ? r : add_pair(&env, "PATH", DEFAULT_PATH);
	if (r < 0) {
		strv_done(&env);
		return r;
	}
	*ret_env = env;
	return 0;
}

const char *environment_get(const struct strv *env, const char *name, const char *fallback)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->count; i++)
		if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
			return env->items[i] + len + 1;
	return fallback;
}
