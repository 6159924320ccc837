#include "tier/facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

/* Where no files of users are, and no ids have to be mapped. */
static const char *const system_trees[] = { "/usr",   "/bin",   "/sbin", "/lib",
					    "/lib32", "/lib64", "/opt",  "/etc",
					    "/proc",  "/sys",   "/dev",  "/var/lib/dpkg" };

static bool is_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_trees); i++)
		if (path_is_below(path, system_trees[i]))
			return true;
	return false;
}

static int add_rule(struct facts *facts, struct view_rule rule)
{
	if (facts->count == facts->room) {
		size_t room = facts->room ? facts->room * 2 : 128;
		struct view_rule *rules = realloc(facts->rules, room * sizeof(*rules));

		if (!rules)
			return -ENOMEM;
		facts->rules = rules;
		facts->room = room;
	}
	facts->rules[facts->count++] = rule;
	return 0;
}

/* The namespace that maps an owner's files to the sandbox's user, made once for each owner. */
static int mapping_for(struct facts *facts, const struct stat *st, bool whole)
{
	struct mapping *m;
	int fd;

	for (size_t i = 0; i < facts->mapping_count; i++) {
		m = &facts->mappings[i];
		if (m->owner == st->st_uid && m->group == st->st_gid && m->whole == whole)
			return m->fd;
	}
	if (facts->mapping_count == MAPPINGS_MAX)
		return -E2BIG;
	fd = ids_mapping(&facts->tj->jail.ids, st->st_uid, st->st_gid, whole);
	facts->mapping_failed = fd < 0;
	if (fd >= 0)
		facts->mappings[facts->mapping_count++] =
			(struct mapping){ st->st_uid, st->st_gid, whole, fd };
	return fd;
}

/* A tree with its owner's ids mapped; 1 + its descriptor. */
static int map_tree(struct facts *facts, int fd, const struct stat *st, bool is_read_only,
		    bool whole)
{
	uint64_t attributes =
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (is_read_only ? MOUNT_ATTR_RDONLY : 0);
	_cleanup_close_ int tree = -EBADF;
	int mapping = mapping_for(facts, st, whole), r;

	if (mapping < 0)
		return mapping;
	tree = sys_open_tree(fd, "");
	if (tree < 0)
		return tree;
	r = sys_mount_attributes(tree, attributes, 0, mapping);
	return r < 0 ? r : 1 + take_fd(&tree);
}

bool facts_owns_system(const struct facts *facts)
{
	return facts->request->policy->system == SYSTEM_OWN;
}

/*
 * A folder of the system that root of the sandbox may change: its files belong to the same numbers
 * inside as outside. Where that cannot be it is read-only, and the report says so; a person who asks
 * for it now is told.
 */
static int map_system(struct facts *facts, const struct path_rule *rule, int fd,
		      struct view_rule *vr, struct err *err)
{
	static const struct stat root = { 0 };
	int r = facts->tj->jail.ids.first ? 0 : -EPERM;

	if (vr->kind == VIEW_FILE) {
		vr->is_copied = true;
		return 0;
	}
	if (r == 0)
		r = map_tree(facts, fd, &root, true, true);
	if (r > 0) {
		vr->tree = r;
		vr->is_veiled = true;
		return 0;
	}
	if (r != -EPERM && r != -EINVAL)
		return err_errno(err, r, "the sandbox was not started: \"%s\" with ids mapped",
				 rule->path);
	if (!rule->origin.is_shipped)
		return files_rule_error(
			rule, r, err,
			facts->tj->jail.ids.first
				? "its file system cannot map ids: leave it out, or say read"
				: "only a sandbox of root's has users that could change it");
	vr->access = ACCESS_READ;
	vr->is_system = str_equal(vr->source, rule->path);
	facts->sealed++;
	return 0;
}

/* Files of users, shown to ids that are not theirs. */
static int map_rule(struct facts *facts, const struct path_rule *rule, int fd,
		    const struct stat *st, struct view_rule *vr, struct err *err)
{
	int r;

	/* A copy keeps its owner, and only our own ids exist inside. */
	if (facts_owns_system(facts) && is_system(vr->path) && rule->access == ACCESS_OVERLAY)
		return map_system(facts, rule, fd, vr, err);
	if (!facts->tj->jail.ids.first && rule->access == ACCESS_OVERLAY &&
	    (st->st_uid != geteuid() || st->st_gid != getegid()))
		return files_rule_error(
			rule, -EPERM, err,
			"belongs to another user or group, and copies would have to "
			"as well: chown or chgrp it to yourself, or run brig as root");
	if (!facts->tj->jail.ids.first || rule->access == ACCESS_NONE || is_system(vr->path) ||
	    vr->kind == VIEW_DEVICE)
		return 0;
	r = map_tree(facts, fd, st, rule->access != ACCESS_WRITE, false);
	if (r >= 0) {
		vr->tree = r;
		return 0;
	}
	/* What everybody may read can still be read. */
	if (rule->access == ACCESS_READ && r == -EINVAL) {
		facts->unmapped++;
		return 0;
	}
	if (r == -E2BIG)
		return files_rule_error(rule, r, err,
					"the trees of the policy have too many owners");
	if (r == -EINVAL)
		return files_rule_error(
			rule, r, err,
			"its file system cannot map ids: run brig as the owner of the "
			"folder, or use --isolation process");
	if (facts->mapping_failed)
		return err_errno(err, r,
				 "the sandbox was not started: \"make namespaces: user\" failed");
	return err_errno(err, r,
			 "the sandbox was not started: \"bind %s with its ids mapped\" failed",
			 rule->path);
}

static enum view_kind kind_of(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return VIEW_DIRECTORY;
	return S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? VIEW_DEVICE : VIEW_FILE;
}

/* A rule whose last name is a link: the link shows as it is, and its target where that is. */
static int add_link(struct facts *facts, const struct path_rule *rule)
{
	struct plan *plan = &facts->tj->plan;
	char text[PATH_MAX];
	ssize_t n = readlink(rule->path, text, sizeof(text) - 1);

	if (n < 0)
		return -EINVAL;
	text[n] = '\0';
	return add_rule(facts, (struct view_rule){ .path = rule->path,
						   .source = rule->path,
						   .link = plan_text(plan, "%s", text),
						   .access = rule->access,
						   .kind = VIEW_LINK,
						   .is_shipped = rule->origin.is_shipped });
}

/* Where a link leads by its text alone; false when that cannot be said. */
static bool link_target(const char *link, const char *text, char target[static PATH_MAX])
{
	char parent[PATH_MAX];

	snprintf(parent, sizeof(parent), "%s", link);
	do {
		char *slash = strrchr(parent, '/');

		if (!slash)
			return false;
		*slash = '\0';
	} while (str_starts(text, "../") && (text += 3));
	return !strstr(text, "..") &&
	       snprintf(target, PATH_MAX, "%s%s%s", text[0] == '/' ? "" : parent,
			text[0] == '/' ? "" : "/", text) < PATH_MAX;
}

/* The links of a system that lead to what is shown anyway: /bin to usr/bin. */
static bool look_at_system_link(struct facts *facts, const struct path_rule *rule,
				struct view_rule *vr)
{
	const struct path_rule *above;
	char text[PATH_MAX], target[PATH_MAX];
	ssize_t n = readlink(rule->path, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	if (!link_target(rule->path, text, target) || !is_system(target) ||
	    policy_path_access(&facts->request->policy->fs, target, &above) < rule->access ||
	    !above || above == rule)
		return false;
	vr->kind = VIEW_LINK;
	vr->link = plan_text(&facts->tj->plan, "%s", text);
	return true;
}

/* What only root can change can be looked at by its name. */
static bool look_at_system(struct facts *facts, const struct path_rule *rule, struct view_rule *vr)
{
	struct stat st;

	if (!rule->origin.is_shipped || !is_system(rule->path))
		return false;
	if (lstat(rule->path, &st) < 0)
		return errno == ENOENT; /* absent */
	if (S_ISLNK(st.st_mode))
		return look_at_system_link(facts, rule, vr);
	/* What its root may change is opened by descriptor, or copied. */
	if (facts_owns_system(facts) && rule->access == ACCESS_OVERLAY && S_ISDIR(st.st_mode))
		return false;
	vr->kind = kind_of(&st);
	vr->is_system = vr->kind != VIEW_DEVICE;
	vr->is_copied =
		facts_owns_system(facts) && rule->access == ACCESS_OVERLAY && S_ISREG(st.st_mode);
	return true;
}

/* What the rules say about the directory that a rule's path is in. */
static enum access access_around(const struct path_rules *rules, const struct path_rule *rule,
				 const struct path_rule **ret_around)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(rule->path, '/');

	if (!slash || slash == rule->path || (size_t)(slash - rule->path) >= sizeof(parent))
		return ACCESS_NONE;
	memcpy(parent, rule->path, (size_t)(slash - rule->path));
	parent[slash - rule->path] = '\0';
	return policy_path_access(rules, parent, ret_around);
}

/* Nothing around it is open, so there is nothing to close. */
static bool is_closed_anyway(const struct path_rules *rules, const struct path_rule *rule)
{
	const struct path_rule *around;

	return rule->access == ACCESS_NONE && strrchr(rule->path, '/') != rule->path &&
	       access_around(rules, rule, &around) == ACCESS_NONE;
}

/* A rule that takes rights away from what the sandbox could change otherwise. */
static bool is_inside_writable(const struct path_rules *rules, const struct path_rule *rule)
{
	const struct path_rule *around;
	enum access access = access_around(rules, rule, &around);

	return access >= ACCESS_OVERLAY && rule->access < access;
}

/* With an image, what is hidden is the image's, unless a tree of the host is around it. */
static bool hides_in_image(const struct facts *facts, const struct path_rule *rule)
{
	const struct policy *policy = facts->request->policy;
	const struct path_rule *around = NULL;

	if (!policy_has_image(policy) || rule->origin.is_shipped || rule->access != ACCESS_NONE)
		return false;
	access_around(&policy->fs, rule, &around);
	return !around ||
	       (around->origin.is_shipped && !str_equal(around->path, facts->request->env->cwd));
}

static int look_at_rule(struct facts *facts, const struct path_rule *rule, struct err *err)
{
	const struct path_rules *rules = &facts->request->policy->fs;
	struct view_rule vr = { .path = rule->path,
				.source = rule->path,
				.access = rule->access,
				.is_shipped = rule->origin.is_shipped };
	_cleanup_close_ int fd = -EBADF;
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (hides_in_image(facts, rule))
		return add_rule(facts, vr);
	if (is_closed_anyway(rules, rule) && !view_has_own(rule->path))
		return 0;
	/*
	 * A link that the sandbox could have made leads nowhere. A policy names places to protect,
	 * and this one is; a person who names it now is told.
	 */
	if (is_inside_writable(rules, rule)) {
		r = add_link(facts, rule);
		if (r == 0 && rule->origin.is_flag)
			return files_rule_error(rule, -ELOOP, err,
						"is a symbolic link that the sandbox could have "
						"made: name the real path");
		if (r != -EINVAL)
			return r;
	}
	if (look_at_system(facts, rule, &vr))
		return add_rule(facts, vr);
	fd = files_open_rule(rules, rule, path, err);
	if (fd == -ENOENT)
		return add_rule(facts, vr);
	if (fd == -EALREADY) {
		/* By a link further up there is nothing more to show. */
		r = add_link(facts, rule);
		return r == -EINVAL ? 0 : r;
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno(err, -errno, "\"%s\"", rule->path);
	if (!str_equal(path, rule->path)) {
		vr.source = plan_text(&facts->tj->plan, "%s", path);
		r = add_link(facts, rule);
		if (r == 0)
			vr.path = vr.source;
		else if (r != -EINVAL)
			return r;
	}
	vr.kind = kind_of(&st);
	r = map_rule(facts, rule, fd, &st, &vr, err);
	return r < 0 ? r : add_rule(facts, vr);
}

static bool has_rule(const struct path_rules *rules, const char *path)
{
	const struct path_rule *rule;

	policy_path_access(rules, path, &rule);
	return rule && str_equal(rule->path, path);
}

/* A rule for "/": each of the host's top directories, but for what the sandbox has of its own. */
static int look_at_root(struct facts *facts, const struct path_rule *root, struct err *err)
{
	static const char *const own[] = { ".", "..", "proc", "dev", "tmp" };
	DIR *dir = opendir("/");
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return err_errno(err, -errno, "\"/\"");
	while (r == 0 && (entry = readdir(dir))) {
		struct path_rule rule = { .access = root->access, .origin = root->origin };
		bool skip = false;

		for (size_t i = 0; i < ARRAY_SIZE(own); i++)
			skip |= str_equal(entry->d_name, own[i]);
		rule.path = (char *)(uintptr_t)plan_text(&facts->tj->plan, "/%s", entry->d_name);
		if (!skip && !has_rule(&facts->request->policy->fs, rule.path))
			r = look_at_rule(facts, &rule, err);
	}
	closedir(dir);
	return r;
}

static int order_rules(const void *a, const void *b)
{
	const struct view_rule *x = a, *y = b;

	return policy_path_order(x->path, y->path);
}

int facts_look_at_rules(struct facts *facts, struct err *err)
{
	const struct path_rules *rules = &facts->request->policy->fs;
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < rules->count && r == 0; i++)
		r = str_equal(rules->items[i].path, "/")
			    ? look_at_root(facts, &rules->items[i], err)
			    : look_at_rule(facts, &rules->items[i], err);
	if (r < 0)
		return r;
	if (facts->count)
		qsort(facts->rules, facts->count, sizeof(*facts->rules), order_rules);
	/* Two links can lead to one place. */
	for (size_t i = 0; i < facts->count; i++)
		if (kept == 0 || !str_equal(facts->rules[kept - 1].path, facts->rules[i].path))
			facts->rules[kept++] = facts->rules[i];
	facts->count = kept;
	return 0;
}

static bool image_has(int image, const char *path)
{
	_cleanup_close_ int fd = sys_openat2(image, path, O_PATH | O_CLOEXEC, 0,
					     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	return fd >= 0;
}

/*
 * What we put into an image must not be a link in it: a program would be led elsewhere than we
 * think, and a file of ours would hide what the image means.
 */
static int check_mount_points(int image, const char *name, struct err *err)
{
	static const char *const points[] = { "dev",  "dev/pts",   "dev/shm",
					      "proc", "sys",       "tmp",
					      "etc",  "etc/hosts", "etc/hostname",
					      "run",  "home",      "home/user",
					      "var",  "var/tmp",   "etc/resolv.conf" };

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		_cleanup_close_ int fd =
			sys_openat2(image, points[i], O_PATH | O_CLOEXEC | O_NOFOLLOW, 0,
				    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

		if (fd == -ELOOP || fd == -EXDEV)
			return err_set(err, -ELOOP,
				       "image \"%s\": /%s is a symbolic link, or goes through one: "
				       "make it a plain directory or file",
				       name, points[i]);
	}
	return 0;
}

static bool is_directory_at(int image, const char *path)
{
	_cleanup_close_ int fd =
		sys_openat2(image, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_IN_ROOT);

	return fd >= 0;
}

int facts_look_at_image(struct facts *facts, struct view_request *view, struct err *err)
{
	const char *name = facts->request->policy->image;
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *path = NULL;
	struct stat st;
	int r;

	if (!policy_has_image(facts->request->policy))
		return 0;
	path = realpath(name, NULL);
	if (!path)
		return err_errno(err, -errno, "image \"%s\"", name);
	fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, fd < 0 ? fd : -errno, "image \"%s\"", name);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR,
			       "image \"%s\" is not a directory: unpack it and name the folder",
			       name);
	if (!is_directory_at(fd, "bin") && !is_directory_at(fd, "usr/bin"))
		return err_set(err, -ENOENT,
			       "image \"%s\" has no /bin: name the root of an unpacked system",
			       name);
	r = check_mount_points(fd, name, err);
	if (r < 0)
		return r;
	if (facts->tj->jail.ids.first) {
		view->image_tree = map_tree(facts, fd, &st, true, st.st_uid == 0);
		if (view->image_tree < 0)
			return err_errno(
				err, view->image_tree,
				"image \"%s\": its file system cannot map ids (run brig as "
				"its owner)",
				name);
	}
	view->image = plan_text(&facts->tj->plan, "%s", path);
	facts->tj->image = view->image;
	view->image_has_home = image_has(fd, "home/user");
	view->image_has_users = image_has(fd, "etc/passwd");
	return 0;
}

/* Whose the files of the layers are must be what the sandbox has, and so must what they lie on. */
static int check_from(const struct facts *facts, const struct image_layers *from, struct err *err)
{
	const struct policy *policy = facts->request->policy;
	_cleanup_free_ char *base = policy_has_image(policy) ? realpath(policy->image, NULL) : NULL;

	if (from->has_range != (facts->tj->jail.ids.first != 0))
		return err_set(err, -EPERM,
			       "image \"%s\" was made where sandboxes %s a range of ids, and this "
			       "one %s: make it anew",
			       from->name, from->has_range ? "get" : "do not get",
			       from->has_range ? "does not" : "does");
	if (!image_newest_tree(from, "/"))
		return 0;
	if (from->base && (!base || !str_equal(from->base, base)))
		return err_set(err, -EINVAL,
			       "image \"%s\" has changes of the system \"%s\": start it with "
			       "--image %s",
			       from->name, from->base, from->base);
	if (!from->base && (base || !facts_owns_system(facts)))
		return err_set(err, -EINVAL,
			       "image \"%s\" has changes of the host's system: start it with "
			       "--system own, and without --image",
			       from->name);
	return 0;
}

/* Layers have the ids that their sandbox saw: mapped as a whole, as the files of an image are. */
int facts_look_at_from(struct facts *facts, struct view_request *view, struct err *err)
{
	const struct image_layers *from = facts->request->from;
	const struct stat root = { 0 };
	int r = from ? check_from(facts, from, err) : 0;

	for (size_t i = 0; from && i < from->count && r == 0; i++) {
		r = strv_add(&facts->tj->layers, from->items[i].id);
		if (r < 0 || !facts->tj->jail.ids.first)
			continue;
		r = map_tree(facts, from->items[i].dir, &root, true, true);
		if (r < 0)
			return err_errno(
				err, r,
				"image \"%s\": the file system of the state directory "
				"cannot map ids (set XDG_STATE_HOME to a folder on another "
				"one)",
				from->name);
		view->from_trees[i] = r;
		r = 0;
	}
	view->from = from;
	return r;
}

/*
 * Opened here where the keeper is somebody else, who may not get to where brig is. Nobody inside can
 * change the file, though he may own it: the mount is read-only.
 */
int facts_look_at_sudo(struct facts *facts, struct view_request *view, struct err *err)
{
	const char *path = facts->request->sudo;
	_cleanup_free_ char *real = NULL;
	_cleanup_close_ int tree = -EBADF;
	int r;

	if (!facts_owns_system(facts) || !facts->request->lives || !path)
		return 0;
	real = realpath(path, NULL);
	if (!real)
		return err_errno(err, -errno, "\"%s\"", path);
	view->sudo = plan_text(&facts->tj->plan, "%s", real);
	if (!facts->tj->jail.ids.first)
		return 0;
	tree = sys_open_tree(AT_FDCWD, real);
	r = tree < 0
		    ? tree
		    : sys_mount_attributes(tree,
					   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY,
					   0, -EBADF);
	if (r < 0)
		return err_errno(err, r, "the sandbox was not started: \"bind %s\" failed", real);
	view->sudo_tree = 1 + take_fd(&tree);
	return 0;
}

void facts_done(struct facts *facts, bool is_planned)
{
	for (size_t i = 0; i < facts->mapping_count; i++)
		close(facts->mappings[i].fd);
	for (size_t i = 0; !is_planned && i < facts->count; i++)
		if (facts->rules[i].tree > 0)
			close(facts->rules[i].tree - 1);
	free(facts->rules);
}
