#include "cli/hide.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "trace/home.h"

/* Where it really is, whatever links lead there: the rules are about that. */
static int find_state(const struct policy *policy, char path[static PATH_MAX], struct err *err)
{
	bool is_needed = policy->record != RECORD_OFF;
	_cleanup_close_ int fd = trace_home_open(NULL, true, is_needed ? err : NULL);
	char link[64];
	ssize_t len;

	/* Without a place for it there is nothing to hide; who needs one is told. */
	if (fd < 0)
		return is_needed ? fd : -ENOENT;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX);
	if (len < 0 || len >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the path of the state directory is too long");
	path[len] = '\0';
	return 0;
}

static int deny(struct policy *policy, const char *path, const struct policy_env *env,
		struct err *err)
{
	const struct path_rule *rule;

	if (policy_path_access(&policy->fs, path, &rule) == ACCESS_NONE)
		return 0;
	return policy_set_flag(policy, "deny", path, env, err);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The state directory, what is in it and above it. */
struct family {
	const char *path; /* of the directory itself */
	struct stat own, inner[TRACE_FOLDERS], above[PATH_MAX / 2];
	size_t inner_count, above_count;
	size_t lengths[PATH_MAX / 2]; /* of the paths above */
};

static void meet(struct family *family)
{
	char path[PATH_MAX + 16];

	family->inner_count = family->above_count = 0;
	for (size_t i = 0; i < TRACE_FOLDERS; i++) {
		snprintf(path, sizeof(path), "%s/%s", family->path, trace_folders[i]);
		if (stat(path, &family->inner[family->inner_count]) == 0)
			family->inner_count++;
	}
	snprintf(path, sizeof(path), "%s", family->path);
	for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
		*slash = '\0';
		if (stat(path[0] ? path : "/", &family->above[family->above_count]) == 0)
			family->lengths[family->above_count++] = (size_t)(slash - path);
	}
}

/* The name of the state directory below a tree that is shown; false when it is not there. */
static bool find_alias(const struct family *family, const char *tree, char alias[static PATH_MAX])
{
	struct stat st, found;

	if (stat(tree, &st) < 0)
		return false;
	snprintf(alias, PATH_MAX, "%s", tree);
	if (is_same(&st, &family->own))
		return true;
	for (size_t i = 0; i < family->inner_count; i++)
		if (is_same(&st, &family->inner[i]))
			return true;
	for (size_t i = 0; i < family->above_count; i++)
		if (is_same(&st, &family->above[i]) &&
		    snprintf(alias, PATH_MAX, "%s%s", tree, family->path + family->lengths[i]) <
			    PATH_MAX &&
		    stat(alias, &found) == 0 && is_same(&found, &family->own))
			return true;
	return false;
}

/* Of the shipped rules only the working directory could be anywhere. */
static bool could_be_anywhere(const struct path_rule *rule, const struct policy_env *env)
{
	return rule->access != ACCESS_NONE &&
	       (!rule->origin.is_shipped || (env->cwd && str_equal(rule->path, env->cwd)));
}

int hide_state(struct policy *policy, const struct policy_env *env, struct err *err)
{
	static struct family family;
	char path[PATH_MAX], alias[PATH_MAX];
	size_t i = 0;
	int r = find_state(policy, path, err);

	if (r < 0)
		return r == -ENOENT && policy->record == RECORD_OFF ? 0 : r;
	family.path = path;
	if (stat(path, &family.own) < 0)
		return err_errno(err, -errno, "the state directory \"%s\"", path);
	r = deny(policy, path, env, err);
	meet(&family);
	/* A rule that is added moves the others: none is seen twice, as the added ones show nothing. */
	while (r == 0 && i < policy->fs.count) {
		const struct path_rule *rule = &policy->fs.items[i];
		size_t count = policy->fs.count;

		if (could_be_anywhere(rule, env) && !path_is_below(path, rule->path) &&
		    find_alias(&family, rule->path, alias))
			r = deny(policy, alias, env, err);
		i = policy->fs.count == count ? i + 1 : 0;
	}
	return r;
}
