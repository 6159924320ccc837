#include "jail/execute.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mount.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"

#define INSIDE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define PLAIN  (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Of sys/mount.h, which does not go together with the kernel's own header. */
#ifndef MS_NOSUID
#define MS_RDONLY 1
#define MS_NOSUID 2
#define MS_NODEV  4
#define MS_NOEXEC 8
#endif

#define COPY_MAX        (4 * MIB)
#define STRANGER        65535   /* no file has it: -1 in sixteen bits. 65534, nobody, has some */
#define EMPTY_DIRECTORY "empty" /* in the store: below a veil */
#define MASK_DIRECTORY  "mask"  /* in the store: empty, closed for everybody */
#define MASK_FILE       "mask-file" /* the same for what is no directory */
#define ROOT_NAME       "root" /* in the store: where the root is mounted until it is the root */

void executor_init(struct executor *executor)
{
	for (int i = 0; i < PLACE_COUNT; i++)
		executor->place[i] = -EBADF;
	executor->grants = LANDLOCK_NONE;
	executor->users_id = -1;
	executor->proc = -EBADF;
	executor->network.sockets = (struct network){ -EBADF, -EBADF };
}

/* What the target of an operation is, pinned. */
static int open_target(const struct executor *ex, const struct op *op)
{
	int dir = ex->place[op->place];

	if (op->target[0] == '\0')
		return fcntl(dir, F_DUPFD_CLOEXEC, 3);
	return sys_openat2(dir, op->target, O_PATH | O_CLOEXEC, 0, INSIDE);
}

static int attach(const struct executor *ex, const struct op *op, int tree)
{
	_cleanup_close_ int target = open_target(ex, op);

	return target < 0 ? target : sys_move_mount(tree, target);
}

/* From the root, where we work, the store is one up. */
#define STORE_PATH_SIZE 300
static const char *store_path(const char *name, char text[static STORE_PATH_SIZE])
{
	snprintf(text, STORE_PATH_SIZE, "../%.255s", name);
	return text;
}

static int do_ids(struct executor *ex, const struct op *op)
{
	int r = file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");

	(void)ex;
	/* Already denied by the namespace that we come from. */
	r = r == -EPERM || r == -EACCES ? 0 : r;
	r = r < 0 ? r : file_write_at(AT_FDCWD, "/proc/self/uid_map", op->source);
	return r < 0 ? r : file_write_at(AT_FDCWD, "/proc/self/gid_map", op->text);
}

int execute_user(const struct op *op)
{
	return sys_become((unsigned int)op->value);
}

static int do_master(struct executor *ex, const struct op *op)
{
	ex->users_id = (int)op->value;
	return execute_user(&(struct op){ .value = 0 });
}

static int do_own_cgroups(struct executor *ex, const struct op *op)
{
	(void)ex, (void)op;
	return sys_unshare(CLONE_NEWCGROUP);
}

/* Takes effect for what is started next. The clocks of the sandbox begin near zero, as after a
 * boot. */
static int do_clock(struct executor *ex, const struct op *op)
{
	struct timespec monotonic, boot;
	char text[96];
	int r = sys_unshare(CLONE_NEWTIME);

	(void)ex, (void)op;
	if (r < 0)
		return r;
	if (clock_gettime(CLOCK_MONOTONIC, &monotonic) < 0 ||
	    clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return -errno;
	snprintf(text, sizeof(text), "monotonic -%jd 0\nboottime -%jd 0\n",
		 (intmax_t)monotonic.tv_sec, (intmax_t)boot.tv_sec);
	return file_write_at(AT_FDCWD, "/proc/self/timens_offsets", text);
}

static int do_hostname(struct executor *ex, const struct op *op)
{
	(void)ex;
	return sethostname(op->text, strlen(op->text)) < 0 || setdomainname("", 0) < 0 ? -errno : 0;
}

static int make_network(struct executor *ex)
{
	int r = network_make(ex->network.own_address, &ex->network.sockets);

	if (r == 0 && ex->network.opens_low_ports)
		network_open_low_ports(ex->proc);
	return r;
}

/*
 * This process becomes the first one, and is in the network that it makes here. /proc/self is this
 * child, not the keeper.
 */
static int run_beside(struct beside *beside)
{
	struct executor *ex =
		(struct executor *)((char *)beside - offsetof(struct executor, beside));
	int r = make_network(ex), fd = -EBADF;

	if (r == 0)
		fd = openat(ex->proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
	ex->network.result = r < 0 ? r : fd < 0 ? -errno : fd;
	beside_signal(&ex->network.is_done);
	return r == 0 && fd >= 0 && ex->afterwards ? ex->afterwards(ex->afterwards_arg) : 0;
}

static int do_network(struct executor *ex, const struct op *op)
{
	ex->network.own_address = op->text;
	ex->network.opens_low_ports = op->value;
	ex->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ex->proc < 0)
		return -errno;
	beside_start(&ex->beside, run_beside);
	return 0;
}

static int do_network_is(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	(void)op;
	if (ex->beside.pid < 0)
		return make_network(ex);
	r = beside_await_from(&ex->beside, &ex->network.is_done);
	fd = r < 0 ? r : ex->network.result;
	if (fd < 0)
		return fd;
	return setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

static int do_private(struct executor *ex, const struct op *op)
{
	(void)ex, (void)op;
	return sys_mount_private();
}

static int do_store(struct executor *ex, const struct op *op)
{
	char data[96] = "mode=0755";
	int fd;

	if (op->value)
		snprintf(data, sizeof(data), "mode=0755,size=%" PRIu64 ",nr_inodes=%" PRIu64,
			 op->value, op->nodes);
	/*
	 * On top of the root of the host as we see it: paths still lead below it, but ".." of the
	 * root directory goes up to what is mounted on it.
	 */
	fd = sys_mount("tmpfs", "/", MS_NOSUID | MS_NODEV, data);
	if (fd < 0)
		return fd;
	fd = open("/..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ex->place[PLACE_STORE] = fd;
	if (mkdirat(fd, MASK_DIRECTORY, 0) < 0 || mknodat(fd, MASK_FILE, S_IFREG, 0) < 0)
		return -errno;
	/* Names of overlays are relative: nothing of the host stands in the sandbox's mountinfo. */
	return fchdir(fd) < 0 ? -errno : 0;
}

static int do_base(struct executor *ex, const struct op *op)
{
	(void)op;
	if (mkdir("base", 0755) < 0)
		return -errno;
	ex->place[PLACE_BASE] = open("base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ex->place[PLACE_BASE] < 0 ? -errno : 0;
}

static int give_to_user(const struct executor *ex, const struct op *op)
{
	uid_t id = (uid_t)ex->users_id;

	if (!op->is_users || ex->users_id < 0)
		return 0;
	return fchownat(ex->place[op->place], op->target, id, id, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
											   : 0;
}

static int do_directory(struct executor *ex, const struct op *op)
{
	if (mkdirat(ex->place[op->place], op->target, op->mode) < 0)
		return -errno;
	return give_to_user(ex, op);
}

static int do_file(struct executor *ex, const struct op *op)
{
	int dir = ex->place[op->place];
	_cleanup_close_ int fd = -EBADF;

	if (!op->text)
		return mknodat(dir, op->target, S_IFREG | op->mode, 0) < 0 ? -errno : 0;
	fd = openat(dir, op->target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    op->mode);
	return fd < 0 ? -errno : fd_write_all(fd, op->text, strlen(op->text));
}

/*
 * With our own rights, as everything: what others may not read on the host is not there. A pipe in
 * the place of a file would make us wait.
 */
static int do_copy(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int from = -EBADF, to = -EBADF;
	struct stat st;
	ssize_t n;

	from = open(op->source, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (from < 0)
		return errno == EACCES || errno == ENOENT ? 0 : -errno;
	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)COPY_MAX)
		return 0;
	to = openat(ex->place[op->place], op->target,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, st.st_mode & 0777);
	if (to < 0)
		return -errno;
	do
		n = sendfile(to, from, NULL, COPY_MAX);
	while (n > 0);
	return n < 0 ? -errno : 0;
}

static int do_link(struct executor *ex, const struct op *op)
{
	return symlinkat(op->text, ex->place[op->place], op->target) < 0 ? -errno : 0;
}

/*
 * xattrs of the user's kind: in a user namespace no other marks can be kept on the upper layer. Its
 * names are those of the store; afterwards the root is where we work.
 */
static int do_overlay(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int target = -EBADF;
	char data[LOWERS_MAX + 160], link[32];
	unsigned int number = (unsigned int)op->value;
	int r;

	if (strlen(op->source) >= LOWERS_MAX)
		return -E2BIG;
	if (op->text)
		snprintf(data, sizeof(data),
			 "lowerdir=%s,upperdir=%.32s,workdir=" WORK_PREFIX "-%.32s,userxattr",
			 op->source, op->text, op->text);
	else
		snprintf(data, sizeof(data),
			 "lowerdir=%s,upperdir=" UPPER_PREFIX "%u,workdir=" WORK_PREFIX
			 "%u,userxattr",
			 op->source, number, number);
	if (fchdir(ex->place[PLACE_STORE]) < 0)
		return -errno;
	if (op->target[0] == '\0') {
		if (mkdir(ROOT_NAME, 0755) < 0)
			return -errno;
		r = sys_mount("overlay", ROOT_NAME, MS_NOSUID | MS_NODEV, data);
		ex->place[PLACE_ROOT] =
			r < 0 ? r : open(ROOT_NAME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = r < 0 ? r : ex->place[PLACE_ROOT] < 0 ? -errno : 0;
	} else {
		target = open_target(ex, op);
		if (target < 0)
			return target;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", target);
		r = sys_mount("overlay", link, MS_NOSUID | MS_NODEV, data);
	}
	if (r < 0)
		return r;
	return fchdir(ex->place[PLACE_ROOT]) < 0 ? -errno : 0;
}

/*
 * The mapping makes files of the host's root those of the sandbox's, which could read them all. So a
 * read-only overlay lies between, mounted as a stranger: overlayfs opens what is below with the rights of
 * whoever mounted it. Where there is one layer alone, an empty one besides: the kernel wants two.
 */
static int do_veil(struct executor *ex, const struct op *op)
{
	bool is_root = ex->users_id >= 0 && !hook_without("veil");
	char data[LOWERS_MAX + 64];
	int r = 0;

	if (strlen(op->source) >= LOWERS_MAX)
		return -E2BIG;
	snprintf(data, sizeof(data), "lowerdir=%s%s,userxattr", op->source,
		 strchr(op->source, ':') ? "" : ":" EMPTY_DIRECTORY);
	if (fchdir(ex->place[PLACE_STORE]) < 0)
		return -errno;
	if (mkdir(EMPTY_DIRECTORY, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (is_root)
		r = sys_borrow_ids(STRANGER);
	r = r < 0 ? r : sys_mount("overlay", op->target, MS_NOSUID | MS_NODEV | MS_RDONLY, data);
	if (is_root && sys_borrow_ids(0) < 0)
		return -EPERM;
	if (r < 0)
		return r;
	return fchdir(ex->place[PLACE_ROOT]) < 0 ? -errno : 0;
}

static uint64_t attributes_of(const struct op *op)
{
	if (hook_without("attributes"))
		return 0;
	return MOUNT_ATTR_NOSUID | (op->is_device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV) |
	       (op->is_read_only ? MOUNT_ATTR_RDONLY : 0);
}

/*
 * What it is need not be looked at: the mount point is a directory or a file, and the kernel mounts
 * neither on the other.
 */
static int bind_plainly(const struct op *op)
{
	int r = sys_bind(op->source, op->target);

	if (r < 0 || op->is_sealed)
		return r;
	return sys_mount_set(op->target, !op->is_device, attributes_of(op), 0);
}

static int do_bind(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int source = -EBADF, tree = -EBADF;
	int r;

	if (op->is_plain)
		return bind_plainly(op);
	if (op->tree)
		return attach(ex, op, op->tree - 1);
	source = sys_openat2(AT_FDCWD, op->source, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
	if (source < 0)
		return source;
	tree = sys_open_tree(source, "");
	if (tree < 0)
		return tree;
	r = sys_mount_attributes(tree, attributes_of(op), 0, -EBADF);
	return r < 0 ? r : attach(ex, op, tree);
}

/* The attributes are those of the store. */
static int do_share(struct executor *ex, const struct op *op)
{
	char source[STORE_PATH_SIZE];

	int r = sys_bind(store_path(op->source, source), op->target);

	(void)ex;
	return r < 0 || !op->is_read_only ? r
					  : sys_mount_set(op->target, false, MOUNT_ATTR_RDONLY, 0);
}

static int do_again(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int target = -EBADF, tree = -EBADF;
	int r;

	if (op->is_plain) {
		r = sys_bind(op->target, op->target);
		return op->is_optional && r == -ENOENT ? 0 : r;
	}
	target = open_target(ex, op);
	if (target < 0)
		return op->is_optional && (target == -ENOENT || target == -ENOTDIR) ? 0 : target;
	tree = sys_open_tree(target, "");
	if (tree < 0)
		return tree;
	r = sys_mount_attributes(tree, attributes_of(op), 0, -EBADF);
	return r < 0 ? r : sys_move_mount(tree, target);
}

static int mask_plainly(const struct op *op)
{
	char source[STORE_PATH_SIZE];
	int r = sys_bind(store_path(op->is_directory ? MASK_DIRECTORY : MASK_FILE, source),
			 op->target);

	/* A kernel may have neither. */
	return op->is_optional && (r == -ENOENT || r == -ENOTDIR) ? 0 : r;
}

static int do_mask(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int target = -EBADF, tree = -EBADF;
	struct stat st;
	int r;

	if (op->is_plain)
		return mask_plainly(op);
	target = open_target(ex, op);
	if (target < 0)
		return op->is_optional && (target == -ENOENT || target == -ENOTDIR) ? 0 : target;
	if (fstat(target, &st) < 0)
		return -errno;
	tree = sys_open_tree(ex->place[PLACE_STORE], op->source            ? op->source
						     : S_ISDIR(st.st_mode) ? MASK_DIRECTORY
									   : MASK_FILE);
	if (tree < 0)
		return tree;
	r = sys_mount_attributes(tree, PLAIN | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, 0, -EBADF);
	return r < 0 ? r : sys_move_mount(tree, target);
}

static int do_seal(struct executor *ex, const struct op *op)
{
	int r = sys_mount_set(op->target, true, PLAIN | MOUNT_ATTR_RDONLY, 0);

	(void)ex;
	return r < 0 || op->is_read_only ? r
					 : sys_mount_set(op->target, false, 0, MOUNT_ATTR_RDONLY);
}

static int do_proc(struct executor *ex, const struct op *op)
{
	(void)ex;
	return sys_mount("proc", op->target, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static int do_terminals(struct executor *ex, const struct op *op)
{
	(void)ex;
	return sys_mount("devpts", op->target, MS_NOSUID | MS_NOEXEC,
			 "newinstance,ptmxmode=0666,mode=0620");
}

static int detach_old_root(struct beside *beside)
{
	(void)beside;
	return sys_detach_here();
}

/*
 * The store goes out of the way first: mounted on the host's root directory it would be what is
 * detached, and the host's root would stay behind "/..".
 */
static int do_root(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int aside = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = aside < 0 ? -errno : sys_move_mount(ex->place[PLACE_STORE], aside);

	(void)op;
	if (r < 0)
		return r;
	r = sys_pivot_root();
	if (r < 0)
		return r;
	if (hook_without("detach"))
		return 0;
	/* The mounts are gone at once; what takes its time is that nobody may still be looking. */
	beside_start(&ex->detach, detach_old_root);
	return ex->detach.pid < 0 ? sys_detach_here() : 0;
}

/* What is mounted on the root directory is what "/.." leads to. */
static int do_alone(struct executor *ex, const struct op *op)
{
	uint64_t root, above;
	bool is_done;
	int r;

	(void)op;
	if (hook_without("detach"))
		return 0;
	do {
		/* Asked before we look: what it did is there then. */
		is_done = __atomic_load_n(&ex->detach.is_done, __ATOMIC_ACQUIRE) ||
			  beside_has_ended(&ex->detach);
		r = sys_mount_id("/", &root);
		r = r < 0 ? r : sys_mount_id("/..", &above);
		if (r < 0)
			return r;
		if (root == above)
			return 0;
		sched_yield();
	} while (!is_done);
	return ex->detach.result < 0 ? ex->detach.result : -EBUSY;
}

static int do_grant(struct executor *ex, const struct op *op)
{
	_cleanup_close_ int target = open_target(ex, op);
	int r;

	if (target < 0)
		return op->is_optional && target == -ENOENT ? 0 : target;
	if (ex->grants.fd < 0) {
		r = landlock_open(LANDLOCK_FILES | LANDLOCK_BEHIND_MOUNTS, &ex->grants, NULL);
		if (r < 0)
			return r;
	}
	return landlock_grant(&ex->grants, target, op->is_directory,
			      (enum landlock_grant)op->value);
}

static int do_nothing(struct executor *ex, const struct op *op)
{
	(void)ex, (void)op;
	return 0;
}

static int do_directory_is(struct executor *ex, const struct op *op)
{
	(void)ex;
	return chdir(op->text) < 0 ? -errno : 0;
}

static int (*const executors[OP_COUNT])(struct executor *ex, const struct op *op) = {
	[OP_IDS] = do_ids,
	[OP_MASTER] = do_master,
	[OP_OWN_CGROUPS] = do_own_cgroups,
	[OP_CLOCK] = do_clock,
	[OP_HOSTNAME] = do_hostname,
	[OP_NETWORK] = do_network,
	[OP_NETWORK_IS] = do_network_is,
	[OP_PRIVATE] = do_private,
	[OP_STORE] = do_store,
	[OP_BASE] = do_base,
	[OP_DIRECTORY] = do_directory,
	[OP_FILE] = do_file,
	[OP_LINK] = do_link,
	[OP_COPY] = do_copy,
	[OP_VEIL] = do_veil,
	[OP_OVERLAY] = do_overlay,
	[OP_BIND] = do_bind,
	[OP_SHARE] = do_share,
	[OP_AGAIN] = do_again,
	[OP_MASK] = do_mask,
	[OP_PROC] = do_proc,
	[OP_TERMINALS] = do_terminals,
	[OP_SEAL] = do_seal,
	[OP_ROOT] = do_root,
	[OP_ALONE] = do_alone,
	[OP_GRANT] = do_grant,
	[OP_GUARD] = do_nothing, /* the mediator has the list from the start */
	[OP_DIRECTORY_IS] = do_directory_is,
};

static int carry_out(struct executor *ex, const struct op *op)
{
	return executors[op->kind] ? executors[op->kind](ex, op) : -ENOSYS;
}

static int execute_all(struct executor *ex, size_t *ret_failed)
{
	for (size_t i = 0; i < ex->plan->count; i++) {
		const struct op *op = &ex->plan->ops[i];
		int r;

		if (op->stage != STAGE_KEEPER || op->kind == OP_STEP)
			continue;
		r = carry_out(ex, op);
		if (r < 0) {
			*ret_failed = i;
			return r;
		}
	}
	return 0;
}

/* The mount that protects, by its number; 0 where there is nothing to protect. */
static int find_protections(struct executor *ex, uint64_t *ret_ids, size_t *ret_count)
{
	char path[PATH_MAX];
	size_t count = 0;

	for (size_t i = 0; i < ex->plan->count; i++) {
		const struct op *op = &ex->plan->ops[i];
		int r;

		if (!op->is_protecting)
			continue;
		if (count == PROTECTIONS_MAX || strlen(op->target) + 2 > sizeof(path))
			return -E2BIG;
		snprintf(path, sizeof(path), "/%s", op->target);
		r = sys_mount_id(path, &ret_ids[count]);
		if (r < 0)
			ret_ids[count] = 0;
		count++;
	}
	*ret_count = count;
	return 0;
}

bool executor_is_intact(struct executor *executor)
{
	uint64_t now[PROTECTIONS_MAX];
	size_t count = 0;

	return find_protections(executor, now, &count) == 0 &&
	       memcmp(now, executor->protections, count * sizeof(now[0])) == 0;
}

int execute_keeper(const struct plan *plan, struct executor *executor, size_t *ret_failed)
{
	/* Modes are what the plan says; the program gets the caller's mask back. */
	mode_t before = umask(0);
	int r;

	executor->plan = plan;
	r = execute_all(executor, ret_failed);
	if (r == 0) {
		*ret_failed = plan->count - 1;
		r = find_protections(executor, executor->protections, &executor->protection_count);
	}

	umask(before);
	return r;
}

void executor_close(struct executor *executor)
{
	for (int i = 0; i < PLACE_COUNT; i++)
		executor->place[i] = fd_close(executor->place[i]);
	executor->proc = fd_close(executor->proc);
}
