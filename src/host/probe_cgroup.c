/*
 * Control groups: can a directory be made in which a controller acts?
 *
 * Three kinds of hosts: v2 alone, v1 alone, and hybrid, where v1 has the controllers and a v2 tree
 * without any lies beside it (its cgroup.kill works all the same). On v2 a cgroup with processes in
 * it cannot hand controllers to its children, so ours is seldom the place: the nearest ancestor
 * that we may write and that has the controller enabled for its children is. On v1 it is our own.
 *
 * The directory is made and removed with signals blocked, so that none can part the two.
 */
#include "host/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

static const struct control {
	const char *controller; /* NULL: any tree of v2 will do */
	const char *v2_file, *v1_file;
} controls[HOST_FEATURE_COUNT] = {
	[HOST_CGROUP_MEMORY] = { "memory", "memory.max", "memory.limit_in_bytes" },
	[HOST_CGROUP_PIDS] = { "pids", "pids.max", "pids.max" },
	[HOST_CGROUP_CPU] = { "cpu", "cpu.max", "cpu.cfs_quota_us" },
	[HOST_CGROUP_KILL] = { NULL, "cgroup.kill", NULL },
};

/* A mounted tree, and our own place in it. */
struct tree {
	bool found;
	char point[PATH_MAX]; /* where it is mounted */
	char below[PATH_MAX]; /* our own cgroup, relative to that; "" for the top itself */
};

/* The two files that tell, read once per probe. */
struct files {
	struct buf mounts, own;
};

static void files_done(struct files *files)
{
	buf_done(&files->mounts);
	buf_done(&files->own);
}

static int read_whole(const char *path, struct buf *buf)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_all(fd, buf);
}

/* Whether word is one of those that separators part. */
static bool list_has(const char *list, const char *word, const char *separators)
{
	size_t len = strlen(word);

	for (;;) {
		size_t n;

		list += strspn(list, separators);
		n = strcspn(list, separators);
		if (n == 0)
			return false;
		if (n == len && memcmp(list, word, len) == 0)
			return true;
		list += n;
	}
}

static bool is_octal(const char *digits)
{
	return strspn(digits, "01234567") >= 3;
}

/* mountinfo writes blanks and backslashes of a path as three octal digits. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' && is_octal(p + 1)) {
			*to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* Our path in the hierarchy of a controller ("4:memory:/a"), or in v2's ("0::/a"). */
static bool own_path(const char *own, const char *controller, char path[static PATH_MAX])
{
	_cleanup_free_ char *copy = strdup(own);
	char *rest = copy, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *names = strchr(line, ':');
		char *where = names ? strchr(names + 1, ':') : NULL;
		bool is_it;

		if (!where)
			continue;
		*where++ = '\0';
		names++;
		is_it = controller ? list_has(names, controller, ",") : str_starts(line, "0:");
		if (!is_it || strlen(where) >= PATH_MAX)
			continue;
		memcpy(path, where, strlen(where) + 1);
		return true;
	}
	return false;
}

/* The part of path that lies below root (the part of the tree that is mounted); NULL when outside.
 */
static const char *path_below(const char *path, const char *root)
{
	size_t len = str_equal(root, "/") ? 0 : strlen(root);

	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	return path + strspn(path, "/");
}

/* One line of mountinfo: is it the tree, and does it show our own place in it? */
static bool is_mount_of(char *line, const char *controller, const char *path, struct tree *tree)
{
	char *fields[6] = { NULL }, *tail = strstr(line, " - ");
	const char *below;
	char *type, *options;

	if (!tail)
		return false;
	*tail = '\0';
	tail += 3;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		fields[i] = strsep(&line, " ");
	type = strsep(&tail, " ");
	strsep(&tail, " ");
	options = tail;
	if (!fields[5] || !options || !str_equal(type, controller ? "cgroup" : "cgroup2"))
		return false;
	if (controller && !list_has(options, controller, ","))
		return false;
	unescape(fields[3]);
	unescape(fields[4]);
	below = path_below(path, fields[3]);
	if (!below)
		return false;
	snprintf(tree->point, sizeof(tree->point), "%s", fields[4]);
	snprintf(tree->below, sizeof(tree->below), "%s", below);
	tree->found = true;
	return true;
}

/* The v1 tree of a controller, or that of v2 (NULL). */
static void find_tree(const struct files *files, const char *controller, struct tree *tree)
{
	_cleanup_free_ char *copy = strdup(buf_text(&files->mounts));
	char *rest = copy, *line;
	char path[PATH_MAX];

	tree->found = false;
	if (!own_path(buf_text(&files->own), controller, path))
		return;
	while (rest && (line = strsep(&rest, "\n")))
		if (is_mount_of(line, controller, path, tree))
			return;
}

static int mkdir_unique(int parent, char *name, size_t size)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = (uint64_t)(uintptr_t)&random;
	snprintf(name, size, "brig-probe-%d-%016llx", getpid(), (unsigned long long)random);
	return mkdirat(parent, name, 0755) < 0 ? -errno : 0;
}

/* Makes a cgroup below parent, looks for the file that would take the limit, removes it again. */
static int try_directory(int parent, const char *file)
{
	char name[64], path[128];
	sigset_t all, before;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	r = mkdir_unique(parent, name, sizeof(name));
	if (r == 0) {
		snprintf(path, sizeof(path), "%s/%s", name, file);
		r = faccessat(parent, path, W_OK, AT_EACCESS) < 0 ? -errno : 0;
		if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && r == 0)
			r = -errno;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* Nobody is in dir, or nobody but us, who could step aside into a child. The root of all, the only
 * one without a type, may have both processes and children with controllers. */
static int v2_can_be_emptied(int dir)
{
	char text[64], self[16];
	int r;

	if (faccessat(dir, "cgroup.type", F_OK, 0) < 0)
		return 0;
	r = file_read_at(dir, "cgroup.procs", text, sizeof(text));
	if (r < 0)
		return r;
	snprintf(self, sizeof(self), "%d", getpid());
	return text[0] == '\0' || str_equal(text, self) ? 0 : -EBUSY;
}

/*
 * Could a cgroup below dir have the controller? 1 when it is enabled for dir's children, 0 when dir
 * has it and could enable it.
 */
static int v2_offers(int dir, const char *controller)
{
	char text[256];
	int r;

	r = file_read_at(dir, "cgroup.subtree_control", text, sizeof(text));
	if (r < 0)
		return r;
	if (list_has(text, controller, " "))
		return 1;
	r = file_read_at(dir, "cgroup.controllers", text, sizeof(text));
	if (r < 0)
		return r;
	if (!list_has(text, controller, " "))
		return -EOPNOTSUPP;
	r = v2_can_be_emptied(dir);
	if (r < 0)
		return r;
	return faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* At one place: 0 when a limit could be set there. */
static int try_v2_at(int dir, const struct control *control)
{
	int r = 1;

	/* Whoever is moved from our cgroup into a child of dir passes the file of both's ancestor.
	 */
	if (faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		return -errno;
	if (control->controller)
		r = v2_offers(dir, control->controller);
	if (r < 0)
		return r;
	/* Not enabled yet: that the directory can be made must do, enabling would be seen by
	 * others. */
	return try_directory(dir, r == 1 ? control->v2_file : "cgroup.procs");
}

/* From our own cgroup upwards to where the tree is mounted. Ours gives the reason of a failure. */
static int try_v2(const struct tree *tree, const struct control *control)
{
	_cleanup_close_ int dir = -EBADF;
	char below[PATH_MAX], path[2 * PATH_MAX];
	int first = 0;

	snprintf(below, sizeof(below), "%s", tree->below);
	for (;;) {
		char *slash = strrchr(below, '/');
		int r;

		snprintf(path, sizeof(path), "%s/%s", tree->point, below);
		dir = fd_close(dir);
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = dir < 0 ? -errno : try_v2_at(dir, control);
		if (r == 0)
			return 0;
		/* No permission says more than what it would have shown. */
		if (first == 0 || r == -EROFS || r == -EACCES)
			first = r;
		if (below[0] == '\0')
			return first;
		*(slash ? slash : below) = '\0';
	}
}

static int try_v1(const struct tree *tree, const struct control *control)
{
	_cleanup_close_ int dir = -EBADF;
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", tree->point, tree->below);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : try_directory(dir, control->v1_file);
}

/* Who may make cgroups is arranged differently in each. */
#define V2_ROOT_REMEDY "give the service a subtree of its own (systemd: Delegate=yes in the unit)"
#define V2_USER_REMEDY                                                                       \
	"systemd-run --user --scope -p Delegate=yes brig ...; if that is not enough, once: " \
	"printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo install -D -m 644 "         \
	"/dev/stdin /etc/systemd/system/user@.service.d/brig.conf && sudo systemctl "        \
	"daemon-reload, and log in again; or run as root"
#define V1_REMEDY                                                                         \
	"run as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1 on the " \
	"kernel command line), which users can be given"
#define READ_ONLY_REMEDY                                                                  \
	"give the container a writable cgroup tree (containerd: cgroup_writable = true; " \
	"docker run --privileged)"

static void fact_no_cgroup(int error, const char *version, const char *remedy,
			   struct host_fact *fact)
{
	if (error == -EROFS)
		remedy = READ_ONLY_REMEDY;
	if (error == -EOPNOTSUPP || error == -EBUSY || error == -ENOENT)
		fact_missing(fact, remedy, "%s, but not enabled where we may make a cgroup",
			     version);
	else
		fact_missing(fact, remedy, "%s, refused: %s", version, strerror(-error));
}

static void fact_no_tree(const struct control *control, bool has_v2, struct host_fact *fact)
{
	if (!control->controller)
		fact_missing(fact, "mount -t cgroup2 cgroup2 /sys/fs/cgroup (Linux 5.14 or later)",
			     "no cgroup v2 tree is mounted here");
	else if (has_v2)
		fact_missing(
			fact,
			"allow it on the kernel command line (for memory: cgroup_enable=memory; "
			"no cgroup_disable=)",
			"v2, without the %s controller", control->controller);
	else
		fact_missing(fact, "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
			     "no cgroup tree with the %s controller is mounted here",
			     control->controller);
}

/* Whether v2's tree has the controller anywhere: what the mounted top offers. */
static bool v2_has(const struct tree *tree, const char *controller)
{
	char path[PATH_MAX + 32], text[256];

	if (!tree->found)
		return false;
	snprintf(path, sizeof(path), "%s/cgroup.controllers", tree->point);
	return file_read_at(AT_FDCWD, path, text, sizeof(text)) == 0 &&
	       list_has(text, controller, " ");
}

static void probe_v1(const struct control *control, const struct tree *tree, bool hybrid,
		     struct host_fact *fact)
{
	const char *version = hybrid ? "hybrid: v1 controllers" : "v1";
	int r = try_v1(tree, control);

	if (r < 0)
		fact_no_cgroup(r, version, V1_REMEDY, fact);
	else
		fact_ok(fact, "%s", version);
}

static void probe_v2(const struct probe *probe, const struct control *control,
		     const struct tree *tree, bool hybrid, struct host_fact *fact)
{
	const char *version = hybrid ? "hybrid: v2 without controllers" : "v2";
	int r = try_v2(tree, control);

	if (r == -ENOENT && !control->controller)
		fact_missing(fact, "Linux 5.14 or later", "%s, without cgroup.kill", version);
	else if (r < 0)
		fact_no_cgroup(r, version, probe->root ? V2_ROOT_REMEDY : V2_USER_REMEDY, fact);
	else
		fact_ok(fact, "%s%s", version, probe->root ? "" : ", delegated");
}

void probe_cgroup(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	_cleanup_(files_done) struct files files = { BUF(4 * MIB), BUF(64 * KIB) };
	const struct control *control = &controls[feature];
	struct tree v1, v2;
	int r;

	r = read_whole("/proc/self/mountinfo", &files.mounts);
	if (r == 0)
		r = read_whole("/proc/self/cgroup", &files.own);
	if (r < 0) {
		fact_missing(fact, r == -ENOENT ? "mount -t proc proc /proc" : "",
			     "our own cgroup is not told: %s", strerror(-r));
		return;
	}
	/* The memory tree stands for all: a host moves its controllers together. */
	find_tree(&files, control->controller ? control->controller : "memory", &v1);
	find_tree(&files, NULL, &v2);
	if (!control->controller ? v2.found : v2_has(&v2, control->controller))
		probe_v2(probe, control, &v2, v1.found, fact);
	else if (control->controller && v1.found)
		probe_v1(control, &v1, v2.found, fact);
	else
		fact_no_tree(control, v2.found, fact);
}
