#include "jail/cgroup_v2.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/cgroup.h"

#define LEAF CGROUP_LEAF

/* Neither made nor failed: the next place may do. */
#define NOT_HERE 1

#define SLICE_TRIES 10

static const char *const controllers[] = {
	[CGROUP_MEMORY] = "memory",
	[CGROUP_PIDS] = "pids",
	[CGROUP_CPU] = "cpu",
};

/* Why there is no place, from the least to the most telling: the last one is reported. */
enum why { WHY_READ_ONLY, WHY_NOT_GIVEN, WHY_NOT_ALONE, WHY_COUNT };

struct attempt {
	const char *slice, *name; /* slice: "" where there is none */
	uint32_t needs;
	enum why why;
	size_t missing; /* the controller, with WHY_NOT_GIVEN */
};

#define START_DELEGATED "'systemd-run --user --scope -p Delegate=yes brig ...'"

static const char *const remedies[WHY_COUNT][2] = {
	[WHY_READ_ONLY] = { "no cgroup is writable: start with " START_DELEGATED " or as root",
			    "no cgroup is writable, even for root: this container needs "
			    "/sys/fs/cgroup mounted read-write" },
	[WHY_NOT_GIVEN] = { "no cgroup that we may write has the controller: set "
			    "'Delegate=cpu memory pids' for user@.service, or start as root",
			    "no cgroup above ours has the controller: switch it on in their "
			    "cgroup.subtree_control, or boot without cgroup_disable" },
	[WHY_NOT_ALONE] = { "other processes share our cgroup, so it cannot have limited ones in "
			    "it: start with " START_DELEGATED,
			    "other processes share our cgroup, so it cannot have limited ones in "
			    "it: start brig in a cgroup of its own" },
};

bool cgroup_is_refusal(int r)
{
	return r == -EACCES || r == -EPERM || r == -EROFS;
}

int cgroup_dir_make(int parent, const char *name)
{
	int dir, r;

	if (mkdirat(parent, name, 0755) < 0)
		return -errno;
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		return dir;
	r = -errno;
	(void)unlinkat(parent, name, AT_REMOVEDIR);
	return r;
}

/* The directory of a slice is everybody's who has sandboxes in it, and may be there already. */
static int slice_open(int parent, const char *slice)
{
	int fd;

	if (mkdirat(parent, slice, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, slice, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Between the two steps the last sandbox of the slice may end and take the directory along. */
static int make_in_slice(int parent, const char *slice, const char *name, int *ret_slice)
{
	int dir = -ENOENT;

	for (int left = SLICE_TRIES; left > 0 && (dir == -ENOENT || dir == -ENODEV); left--) {
		_cleanup_close_ int fd = slice_open(parent, slice);

		dir = fd < 0 ? fd : cgroup_dir_make(fd, name);
		if (dir >= 0)
			*ret_slice = take_fd(&fd);
	}
	return dir;
}

int cgroup_dir_make_in(int *parent, const char *slice, const char *name)
{
	int dir, fd = -EBADF;

	if (!*slice)
		return cgroup_dir_make(*parent, name);
	dir = make_in_slice(*parent, slice, name, &fd);
	if (dir >= 0) {
		fd_close(*parent);
		*parent = fd;
	}
	return dir;
}

/* Opening asks the kernel the question that writing would: effective ids, capabilities, mount. */
static bool is_writable(int dir, const char *file)
{
	_cleanup_close_ int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

	return fd >= 0;
}

/* Which of the wanted controllers a list of names separated by spaces does not have. */
static int missing_in(int dir, const char *file, uint32_t needs, uint32_t *ret_missing)
{
	char text[512];
	int r = file_read_at(dir, file, text, sizeof(text));

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		size_t len = strlen(controllers[i]);

		for (const char *p = text; *p && needs & 1u << i; p += *p == ' ') {
			size_t word = strcspn(p, " ");

			if (word == len && memcmp(p, controllers[i], len) == 0)
				needs &= ~(1u << i);
			p += word;
		}
	}
	*ret_missing = needs;
	return 0;
}

static int write_controllers(int parent, uint32_t wanted)
{
	char text[64] = "";
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		if (wanted & 1u << i)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "+%s ",
						controllers[i]);
	return wanted ? file_write_at(parent, "cgroup.subtree_control", text) : 0;
}

static int switch_on(int parent, uint32_t needs)
{
	uint32_t missing = 0;
	int r = needs ? missing_in(parent, "cgroup.subtree_control", needs, &missing) : 0;

	return r < 0 ? r : write_controllers(parent, missing);
}

/* NOT_HERE; the attempt remembers why. */
static int refuse(struct attempt *attempt, enum why why)
{
	if (why > attempt->why)
		attempt->why = why;
	return NOT_HERE;
}

/* Whether a file of dir names all controllers that are needed. */
static int is_given(struct attempt *attempt, int dir, const char *file)
{
	uint32_t missing = 0;

	if (attempt->needs && missing_in(dir, file, attempt->needs, &missing) < 0)
		return refuse(attempt, WHY_READ_ONLY);
	if (!missing)
		return 0;
	attempt->missing = (size_t)__builtin_ctz(missing);
	return refuse(attempt, WHY_NOT_GIVEN);
}

/*
 * Only when the directory is there: what cannot be used is not switched on. It gets them at once. In a slice that
 * was just made, another may be switching them on: the kernel says that they are on before the files are there. Our
 * own write waits for his.
 */
static void switch_on_above(const struct attempt *attempt, int above, int parent)
{
	(void)switch_on(above, attempt->needs);
	if (parent != above)
		(void)write_controllers(parent, attempt->needs);
}

/* Makes the directory below parent and keeps the descriptor of the parent, or of the slice, for the spot. */
static int make_below(struct attempt *attempt, int *parent, struct cgroup_spot *ret_spot)
{
	_cleanup_close_ int dir = -EBADF, slice = -EBADF;
	int r, *above;

	if (!is_writable(*parent, "cgroup.procs"))
		return refuse(attempt, WHY_READ_ONLY);
	r = is_given(attempt, *parent, "cgroup.controllers");
	if (r != 0)
		return r;
	dir = *attempt->slice ? make_in_slice(*parent, attempt->slice, attempt->name, &slice)
			      : cgroup_dir_make(*parent, attempt->name);
	if (dir < 0)
		return cgroup_is_refusal(dir) ? refuse(attempt, WHY_READ_ONLY) : dir;
	above = slice >= 0 ? &slice : parent;
	switch_on_above(attempt, *parent, *above);
	r = is_given(attempt, dir, "cgroup.controllers");
	if (r != 0) {
		(void)unlinkat(*above, attempt->name, AT_REMOVEDIR);
		if (slice >= 0)
			(void)unlinkat(*parent, attempt->slice, AT_REMOVEDIR);
		return r;
	}
	*ret_spot = (struct cgroup_spot){ .parent = take_fd(above), .dir = take_fd(&dir) };
	return 0;
}

/* Whether this process is the only one in the cgroup; those we cannot see count, as pid 0. */
static bool is_alone_in(int dir, const char *file)
{
	char text[64], self[16];

	if (file_read_at(dir, file, text, sizeof(text)) < 0)
		return false;
	snprintf(self, sizeof(self), "%d", getpid());
	return str_equal(text, self);
}

static bool has_children(int home, const char *path, const char *except)
{
	int fd = openat(home, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool found = false;

	if (!list) {
		fd_close(fd);
		return true;
	}
	while (!found && (entry = readdir(list)))
		found = entry->d_type == DT_DIR && !str_equal(entry->d_name, ".") &&
			!str_equal(entry->d_name, "..") && !str_equal(entry->d_name, except);
	closedir(list);
	return found;
}

void cgroup_v2_leave_leaf(int home)
{
	/* Nobody else is in the leaf and no sandbox beside it: so nobody else is below home at all,
	 * and nobody can lose his limits by what follows. */
	if (!is_alone_in(home, LEAF "/cgroup.procs") || has_children(home, ".", LEAF) ||
	    has_children(home, LEAF, ""))
		return;
	/* While we were in home itself none of them can have been on. */
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		char text[16];

		snprintf(text, sizeof(text), "-%s", controllers[i]);
		(void)file_write_at(home, "cgroup.subtree_control", text);
	}
	if (file_write_at(home, "cgroup.procs", "0") == 0)
		(void)unlinkat(home, LEAF, AT_REMOVEDIR);
}

static int make_beside_leaf(struct attempt *attempt, int *own, struct cgroup_spot *ret_spot)
{
	_cleanup_close_ int leaf = -EBADF, home = -EBADF;
	int r;

	if (!is_writable(*own, "cgroup.procs") || !is_writable(*own, "cgroup.subtree_control"))
		return refuse(attempt, WHY_READ_ONLY);
	r = is_given(attempt, *own, "cgroup.controllers");
	if (r != 0)
		return r;
	if (!is_alone_in(*own, "cgroup.procs"))
		return refuse(attempt, WHY_NOT_ALONE);
	leaf = cgroup_dir_make(*own, LEAF);
	if (leaf < 0)
		return cgroup_is_refusal(leaf) ? refuse(attempt, WHY_READ_ONLY) : leaf;
	home = fcntl(*own, F_DUPFD_CLOEXEC, 0);
	r = home < 0 ? -errno : file_write_at(leaf, "cgroup.procs", "0");
	if (r < 0) {
		(void)unlinkat(*own, LEAF, AT_REMOVEDIR);
		return cgroup_is_refusal(r) ? refuse(attempt, WHY_READ_ONLY) : r;
	}
	r = make_below(attempt, own, ret_spot);
	if (r != 0)
		cgroup_v2_leave_leaf(home);
	else
		ret_spot->by_leaf = true;
	return r;
}

/* systemd marks what it has handed over: inside it is ours, while above it may change its mind. */
static bool is_marked_delegated(int dir)
{
	char mark;

	return fgetxattr(dir, "user.delegate", &mark, 1) == 1 && mark == '1';
}

static bool is_root_of_tree(int dir)
{
	return faccessat(dir, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

static int make_in_own(struct attempt *attempt, const struct cgroup_tree *tree, bool only_marked,
		       struct cgroup_spot *ret_spot)
{
	_cleanup_close_ int own = openat(tree->mount, *tree->own ? tree->own : ".",
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (own < 0)
		return refuse(attempt, WHY_READ_ONLY);
	/* Without controllers, or at the root, processes and directories may stand side by side. */
	if (!attempt->needs || is_root_of_tree(own))
		return make_below(attempt, &own, ret_spot);
	if (only_marked && !is_marked_delegated(own))
		return NOT_HERE;
	return make_beside_leaf(attempt, &own, ret_spot);
}

static int make_below_ancestor(struct attempt *attempt, const struct cgroup_tree *tree,
			       struct cgroup_spot *ret_spot)
{
	char path[PATH_MAX];
	bool first = true;

	memcpy(path, tree->own, strlen(tree->own) + 1);
	while (*path) {
		_cleanup_close_ int parent = -EBADF;
		char *slash = strrchr(path, '/');
		bool by_leaf = first && str_equal(slash ? slash + 1 : path, LEAF);
		int r = NOT_HERE;

		*(slash ? slash : path) = '\0';
		parent = openat(tree->mount, *path ? path : ".",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (parent >= 0)
			r = make_below(attempt, &parent, ret_spot);
		if (r == 0)
			ret_spot->by_leaf = by_leaf;
		if (r != NOT_HERE)
			return r;
		first = false;
	}
	return NOT_HERE;
}

int cgroup_v2_make(const struct cgroup_tree *tree, uint32_t needs, const char *slice,
		   const char *name, const char *label, struct cgroup_spot *ret_spot,
		   struct err *err)
{
	struct attempt attempt = { .slice = slice, .name = name, .needs = needs };
	int r = make_in_own(&attempt, tree, true, ret_spot);

	if (r == NOT_HERE)
		r = make_below_ancestor(&attempt, tree, ret_spot);
	if (r == NOT_HERE && needs)
		r = make_in_own(&attempt, tree, false, ret_spot);
	if (r == 0)
		return 0;
	if (r == -EEXIST)
		return err_set(err, r, "cgroup \"%s\" is already there", name);
	if (r != NOT_HERE)
		return err_errno(err, r, "cgroup \"%s\" cannot be made", name);
	return err_set(err, -EOPNOTSUPP, "%s: %s",
		       attempt.why == WHY_NOT_GIVEN ? controllers[attempt.missing] : label,
		       remedies[attempt.why][geteuid() == 0]);
}
