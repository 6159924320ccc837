#include "tier/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"
#include "tier/files_inside.h"

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

static int grant_rule(const struct path_rule *rule, int fd, enum access access,
		      const struct landlock *ll, struct err *err)
{
	enum landlock_grant grant = access == ACCESS_WRITE ? LANDLOCK_WRITE : LANDLOCK_READ;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return files_rule_error(rule, -errno, err, strerror(errno));
	if (grant == LANDLOCK_WRITE && is_terminal_device(&st))
		grant = LANDLOCK_WRITE_DEVICE;
	r = landlock_grant(ll, fd, S_ISDIR(st.st_mode), grant);
	return r < 0 ? files_rule_error(rule, r, err, strerror(-r)) : 0;
}

static int refuse_overlays(const struct path_rules *rules, struct err *err)
{
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
	strv_done(&granted->paths);
	strv_done(&granted->executable);
	free(granted->carry.places);
	free(granted->carry.guarded);
	granted->carry = (struct carry){ 0 };
}

static int remember(struct files_granted *granted, const char *path, enum access access,
		    struct err *err)
{
	int r = access == ACCESS_NONE ? 0 : strv_add(&granted->readable, path);

	if (r == 0 && access == ACCESS_WRITE)
		r = strv_add(&granted->writable, path);
	return r < 0 ? err_errno(err, r, "\"%s\"", path) : 0;
}

/* Adds a place; there is room. */
static int add_place(struct files_granted *granted, const char *path, enum access access,
		     bool exists)
{
	int r = strv_add(&granted->paths, path);

	if (r == 0)
		granted->carry.places[granted->carry.count++] = (struct carry_place){
			.path = granted->paths.items[granted->paths.count - 1],
			.len = strlen(path),
			.access = access,
			.grant = access,
			.sure = access,
			.exists = exists,
		};
	return r;
}

/*
 * A rule that takes rights away from a name that is a link, where the sandbox could have made it:
 * the name is protected, and where it leads is no matter of this rule. A person who names it now is
 * told.
 */
static int take_link(const struct path_rules *rules, const struct path_rule *rule,
		     struct files_granted *granted, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	if (rule->access >= ACCESS_WRITE || policy_path_around(rules, rule) != ACCESS_WRITE)
		return 0;
	fd = sys_openat2(AT_FDCWD, rule->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
			 RESOLVE_NO_SYMLINKS);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode))
		return 0;
	if (rule->origin.is_flag)
		return files_rule_error(rule, -ELOOP, err,
					"is a symbolic link that the sandbox could have made: name "
					"the real path");
	return add_place(granted, rule->path, rule->access, false) < 0
		       ? err_errno(err, -ENOMEM, "\"%s\"", rule->path)
		       : 1;
}

/* Opens a rule's path and makes it a place. */
static int open_one(const struct path_rules *rules, const struct path_rule *rule,
		    struct files_granted *granted, int *ret_fd, struct err *err)
{
	int r = take_link(rules, rule, granted, err);
	_cleanup_close_ int fd = -EBADF;
	char path[PATH_MAX];

	if (r != 0)
		return MIN(r, 0);
	fd = files_open_rule(rules, rule, path, err);
	if (fd == -EALREADY)
		return 0;
	if (fd < 0 && fd != -ENOENT)
		return fd;
	if (fd == -ENOENT)
		granted->absent += rule->access != ACCESS_NONE;
	else
		r = remember(granted, path, rule->access, err);
	if (r < 0)
		return r;
	r = add_place(granted, path, rule->access, fd >= 0);
	if (r < 0)
		return err_errno(err, r, "\"%s\"", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct carry_place *one = a, *two = b;

	return policy_path_order(one->path, two->path);
}

/* What is granted by Landlock alone, and what needs the keeper. */
static bool plan_carrying(struct files_granted *granted)
{
	struct carry *carry = &granted->carry;

	qsort(carry->places, carry->count, sizeof(*carry->places), compare_places);
	/* Knocked out in a test build, whole trees are granted. */
	if (carry_plan(carry) && hook_without("narrower"))
		for (size_t i = 0; i < carry->count; i++)
			carry->places[i].grant = carry->places[i].access;
	return carry->reads || carry->changes;
}

/* A rule, its descriptor, and the path that was found for it. */
struct opened {
	const struct path_rule *rule;
	size_t path; /* of granted->paths */
	int fd;
};

static int grant_all(const struct opened *opened, size_t count, const struct landlock *ll,
		     struct files_granted *granted, struct err *err)
{
	granted->is_carried = plan_carrying(granted);
	for (size_t i = 0; i < count; i++) {
		const struct path_rule *rule = opened[i].rule;
		const struct carry_place *place;
		const char *path;
		enum access grant;
		int r;

		if (opened[i].fd < 0)
			continue;
		path = granted->paths.items[opened[i].path];
		place = carry_place_of(&granted->carry, path);
		grant = !granted->is_carried ? rule->access : place ? place->grant : ACCESS_NONE;
		r = grant == ACCESS_NONE ? 0 : grant_rule(rule, opened[i].fd, grant, ll, err);
		if (r == 0 && granted->carry.reads && grant != ACCESS_NONE &&
		    strv_add(&granted->executable, path) < 0)
			r = err_errno(err, -ENOMEM, "\"%s\"", path);
		if (r == 0 && grant < ACCESS_READ && rule->access >= ACCESS_READ)
			r = files_grant_inside(opened[i].fd, path, ll, granted, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_all(const struct path_rules *rules, struct opened *opened,
		    struct files_granted *granted, struct err *err)
{
	int r = refuse_overlays(rules, err);

	for (size_t i = 0; i < rules->count && r == 0; i++) {
		opened[i] = (struct opened){ &rules->items[i], granted->paths.count, -EBADF };
		r = open_one(rules, &rules->items[i], granted, &opened[i].fd, err);
	}
	return r;
}

/* With room for everything. */
static int open_and_grant(const struct path_rules *rules, struct opened *opened,
			  const struct landlock *ll, struct files_granted *granted, struct err *err)
{
	int r;

	for (size_t i = 0; i < rules->count; i++)
		opened[i].fd = -EBADF;
	r = open_all(rules, opened, granted, err);
	r = r < 0 ? r : grant_all(opened, rules->count, ll, granted, err);
	for (size_t i = 0; i < rules->count; i++)
		fd_close(opened[i].fd);
	return r;
}

int files_grant(const struct path_rules *rules, const struct landlock *ll,
		struct files_granted *ret_granted, struct err *err)
{
	size_t room = rules->count + 1; /* one more is the sandbox's own folder */
	struct opened *opened = calloc(room, sizeof(*opened));
	struct carry_place *places = calloc(room, sizeof(*places));
	const char **guarded = calloc(room, sizeof(*guarded));
	struct files_granted granted = { .carry = { .places = places, .guarded = guarded } };
	int r = -ENOMEM;

	if (opened && places && guarded)
		r = open_and_grant(rules, opened, ll, &granted, err);
	else
		err_errno(err, r, "cannot take the rules for files");
	free(opened);
	if (r < 0) {
		files_granted_done(&granted);
		return r;
	}
	*ret_granted = granted;
	return 0;
}

int files_add_own(struct files_granted *granted, const char *path)
{
	int r = strv_add(&granted->writable, path);

	r = r < 0 ? r : strv_add(&granted->readable, path);
	if (r == 0 && granted->carry.reads)
		r = strv_add(&granted->executable, path);
	r = r < 0 ? r : add_place(granted, path, ACCESS_WRITE, true);
	if (r == 0)
		qsort(granted->carry.places, granted->carry.count, sizeof(*granted->carry.places),
		      compare_places);
	return r;
}
