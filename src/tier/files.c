#include "tier/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

#define SYMLINKS_MAX 40 /* as the kernel */

int files_rule_error(const struct path_rule *rule, int code, struct err *err, const char *text)
{
	if (rule->origin.is_flag)
		return err_set(err, code, "%s \"%s\": %s", rule->origin.source, rule->path, text);
	return err_set(err, code, "%s:%u: fs: \"%s\": %s", rule->origin.source, rule->origin.line,
		       rule->path, text);
}

/* A path on its way from text with links to one without. */
struct walk {
	char done[PATH_MAX]; /* canonical so far, "" for the root */
	char rest[2 * PATH_MAX];
	unsigned int links;
};

/* Puts the target of the link at done/name before what is still to be walked. */
static int follow(struct walk *walk, const char *target)
{
	char rest[sizeof(walk->rest)];

	if (++walk->links > SYMLINKS_MAX)
		return -ELOOP;
	if ((size_t)snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest) >= sizeof(rest))
		return -ENAMETOOLONG;
	strcpy(walk->rest, rest);
	if (target[0] == '/')
		walk->done[0] = '\0';
	return 0;
}

/* Takes the next component off rest. 0 when there is none. */
static int next_component(struct walk *walk, char name[static NAME_MAX + 1])
{
	size_t skip = strspn(walk->rest, "/"), len = strcspn(walk->rest + skip, "/");

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (len == 0)
		return 0;
	memcpy(name, walk->rest + skip, len);
	name[len] = '\0';
	memmove(walk->rest, walk->rest + skip + len, strlen(walk->rest + skip + len) + 1);
	return 1;
}

/* Resolves every link of rule->path. What does not exist is taken as it is written. */
static int resolve(const struct path_rules *rules, const struct path_rule *rule,
		   char path[static PATH_MAX], struct err *err)
{
	struct walk walk = { 0 };
	char name[NAME_MAX + 1], target[PATH_MAX];
	int r;

	snprintf(walk.rest, sizeof(walk.rest), "%s", rule->path);
	while ((r = next_component(&walk, name)) > 0) {
		size_t len = strlen(walk.done);
		const struct path_rule *decisive;
		ssize_t n;

		if (str_equal(name, "."))
			continue;
		if (str_equal(name, "..")) {
			char *slash = strrchr(walk.done, '/');

			if (slash)
				*slash = '\0';
			continue;
		}
		if (len + strlen(name) + 2 > sizeof(walk.done))
			return files_rule_error(rule, -ENAMETOOLONG, err, "the path is too long");
		walk.done[len] = '/';
		strcpy(walk.done + len + 1, name);
		n = readlink(walk.done, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (policy_path_access(rules, walk.done, &decisive) == ACCESS_WRITE)
			return files_rule_error(
				rule, -ELOOP, err,
				"goes through a symbolic link that the sandbox could "
				"have made: name the "
				"real path");
		walk.done[len] = '\0';
		r = follow(&walk, target);
		if (r < 0)
			return files_rule_error(rule, r, err,
						"has too many or too long symbolic links");
	}
	if (r < 0)
		return files_rule_error(rule, r, err,
					"has a symbolic link to a name that is too long");
	strcpy(path, walk.done[0] ? walk.done : "/");
	return 0;
}

/* A link must not open what another rule closes, nor close what a wider tree has opened. */
static int check_resolved(const struct path_rules *rules, const struct path_rule *rule,
			  const char *path, struct err *err)
{
	const struct path_rule *above;
	enum access access = policy_path_access(rules, path, &above);

	if (above && above != rule && access != rule->access &&
	    (access == ACCESS_NONE || rule->access < access))
		return files_rule_error(
			rule, -EPERM, err,
			"leads by a symbolic link to a place that another rule treats differently");
	for (size_t i = 0; i < rules->count; i++)
		if (rules->items[i].access < rule->access &&
		    path_is_below(rules->items[i].path, path) && &rules->items[i] != rule)
			return files_rule_error(
				rule, -EPERM, err,
				"leads by a symbolic link to a folder with something "
				"that another rule "
				"closes");
	return 0;
}

int files_open_rule(const struct path_rules *rules, const struct path_rule *rule,
		    char path[static PATH_MAX], struct err *err)
{
	int fd = sys_openat2(AT_FDCWD, rule->path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS), r;
	const struct path_rule *above;

	strcpy(path, rule->path); /* a policy has no longer ones */
	if (fd == -ELOOP) {
		r = resolve(rules, rule, path, err);
		r = r < 0 ? r : check_resolved(rules, rule, path, err);
		if (r < 0)
			return r;
		if (policy_path_access(rules, path, &above) >= rule->access && above)
			return -EALREADY;
		fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
		if (fd == -ELOOP)
			return files_rule_error(rule, fd, err, "changed while it was looked up");
	}
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES) {
		if (rule->origin.is_flag && rule->access != ACCESS_NONE)
			return files_rule_error(rule, -EINVAL, err,
						fd == -EACCES
							? "cannot be looked up: permission denied"
							: "does not exist (create it first)");
		return -ENOENT;
	}
	return fd < 0 ? files_rule_error(rule, fd, err, strerror(-fd)) : fd;
}

/* Terminals are the one kind of device that programs control by ioctl. */
static bool is_terminal_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && (major(st->st_rdev) == 5 ||
					(major(st->st_rdev) >= 136 && major(st->st_rdev) <= 143));
}

static int grant_rule(const struct path_rule *rule, int fd, const struct landlock *ll,
		      struct err *err)
{
	enum landlock_grant grant = rule->access == ACCESS_WRITE ? LANDLOCK_WRITE : LANDLOCK_READ;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return files_rule_error(rule, -errno, err, strerror(errno));
	if (grant == LANDLOCK_WRITE && is_terminal_device(&st))
		grant = LANDLOCK_WRITE_DEVICE;
	r = landlock_grant(ll, fd, S_ISDIR(st.st_mode), grant);
	return r < 0 ? files_rule_error(rule, r, err, strerror(-r)) : 0;
}

static int refuse_what_landlock_cannot(const struct path_rules *rules, struct err *err)
{
	const struct path_rule *wider, *narrower = policy_path_conflict(rules, &wider);

	if (narrower)
		return err_set(err, -EOPNOTSUPP,
			       "fs: \"%s\" (%s) lies inside \"%s\" (%s, %s): the process tier "
			       "grants whole trees "
			       "and cannot take a part out; the container tier can (--isolation "
			       "container)",
			       narrower->path, access_names[narrower->access], wider->path,
			       access_names[wider->access], wider->origin.source);
	for (size_t i = 0; i < rules->count; i++)
		if (rules->items[i].access == ACCESS_OVERLAY)
			return files_rule_error(&rules->items[i], -EOPNOTSUPP, err,
						"overlay needs the container tier (--isolation "
						"container)");
	return 0;
}

void files_granted_done(struct files_granted *granted)
{
	strv_done(&granted->readable);
	strv_done(&granted->writable);
}

static int remember(struct files_granted *granted, const char *path, enum access access,
		    struct err *err)
{
	int r = strv_add(&granted->readable, path);

	if (r == 0 && access == ACCESS_WRITE)
		r = strv_add(&granted->writable, path);
	return r < 0 ? err_errno(err, r, "\"%s\"", path) : 0;
}

static int grant_one(const struct path_rules *rules, const struct path_rule *rule,
		     const struct landlock *ll, struct files_granted *granted, struct err *err)
{
	char path[PATH_MAX];
	_cleanup_close_ int fd = files_open_rule(rules, rule, path, err);
	int r;

	if (fd == -ENOENT)
		granted->absent += rule->access != ACCESS_NONE;
	if (fd == -ENOENT || fd == -EALREADY || (fd >= 0 && rule->access == ACCESS_NONE))
		return 0;
	if (fd < 0)
		return fd;
	r = grant_rule(rule, fd, ll, err);
	return r < 0 ? r : remember(granted, path, rule->access, err);
}

int files_grant(const struct path_rules *rules, const struct landlock *ll,
		struct files_granted *ret_granted, struct err *err)
{
	struct files_granted granted = { 0 };
	int r = refuse_what_landlock_cannot(rules, err);

	for (size_t i = 0; i < rules->count && r == 0; i++)
		r = grant_one(rules, &rules->items[i], ll, &granted, err);
	if (r < 0) {
		files_granted_done(&granted);
		return r;
	}
	*ret_granted = granted;
	return 0;
}
