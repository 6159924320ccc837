#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hook.h"

/* Of sys/mount.h, which does not go together with the kernel's own header. */
#ifndef MS_BIND
#define MS_BIND 4096
#define MS_REC  16384
#endif
#ifndef MS_PRIVATE
#define MS_PRIVATE (1 << 18)
#endif
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_NO_AUTOMOUNT
#define AT_NO_AUTOMOUNT 0x800
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

#define FAIL_IF_ASKED(name)                \
	do {                               \
		int _e = hook_errno(name); \
		if (_e)                    \
			return -_e;        \
	} while (0)

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

/*
 * A system call without errno, which two processes on one memory (jail/beside.h) would share: what
 * one of them failed with must never be read by the other.
 */
static long call6(long number, long a, long b, long c, long d, long e, long f)
{
	long ret;

#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	ret = x0;
#else
#error "no system calls by hand for this architecture"
#endif
	return ret;
}

/* Up to six arguments, pointers or numbers; those that are missing are 0. */
#define CALL(...) CALL_WITH(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_WITH(number, a, b, c, d, e, f, ...) \
	((int)call6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))

int sys_landlock_abi(void)
{
	int abi;

	if (hook_errno("landlock_abi"))
		return hook_errno("landlock_abi") == ENOSYS ? 0 : hook_errno("landlock_abi");
	abi = CALL(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi < 0 ? 0 : abi;
}

int sys_landlock_create_ruleset(const struct sys_landlock_attr *attr, size_t size, uint32_t flags)
{
	FAIL_IF_ASKED("landlock_create_ruleset");
	return CALL(SYS_landlock_create_ruleset, attr, size, flags);
}

int sys_landlock_add_path(int ruleset, uint64_t access, int path_fd)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = path_fd };

	FAIL_IF_ASKED("landlock_add_rule");
	return CALL(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

int sys_landlock_restrict_self(int ruleset, uint32_t flags)
{
	FAIL_IF_ASKED("landlock_restrict_self");
	return CALL(SYS_landlock_restrict_self, ruleset, flags);
}

int sys_seccomp_set_filter(unsigned int flags, const struct sock_fprog *prog)
{
	FAIL_IF_ASKED("seccomp");
	return CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog);
}

int sys_no_new_privs(void)
{
	FAIL_IF_ASKED("no_new_privs");
	return CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
}

int sys_execve(const char *path, char *const *argv, char *const *envp, uint64_t pass)
{
	return CALL(SYS_execve, path, argv, envp, 0, 0, pass);
}

pid_t sys_fork(void)
{
	FAIL_IF_ASKED("fork");
	return result(fork());
}

pid_t sys_fork_into(uint64_t namespaces, int cgroup)
{
	const struct clone_args args = {
		.flags = namespaces | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.exit_signal = SIGCHLD,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};

	FAIL_IF_ASKED("clone");
	if (cgroup >= 0)
		return CALL(SYS_clone3, &args, sizeof(args));
		/* A filter around us can read the flags of clone; clone3 is refused where that
		 * matters. */
#if defined(__s390__) || defined(__CRIS__)
#error "the arguments of clone are in another order here"
#endif
	return CALL(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
}

int sys_pidfd_open(pid_t pid)
{
	FAIL_IF_ASKED("pidfd_open");
	return CALL(SYS_pidfd_open, pid, 0);
}

int sys_pidfd_send_signal(int pidfd, int signal)
{
	FAIL_IF_ASKED("pidfd_send_signal");
	return CALL(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

int sys_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	FAIL_IF_ASKED("close_range");
	return CALL(SYS_close_range, first, last, flags);
}

/* One directory further, or -ELOOP where a link is. */
static int step_into(int dir, const char *name)
{
	int fd = result(openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	struct stat st = { 0 };

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
		close(fd);
		return S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
	}
	return fd;
}

/* What the last component is opened as; a link is only ever seen, not followed. */
static int step_last(int dir, const char *name, uint64_t flags, uint64_t mode)
{
	int fd = result(openat(dir, name, (int)flags | O_NOFOLLOW, (mode_t)mode));
	struct stat st;

	if (fd >= 0 && (flags & O_PATH) && !(flags & O_NOFOLLOW) && fstat(fd, &st) == 0 &&
	    S_ISLNK(st.st_mode)) {
		close(fd);
		return -ELOOP;
	}
	/* The same refusal in the kernel's word for it. */
	if (fd == -ENOTDIR && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		return -ELOOP;
	return fd;
}

/*
 * openat2 without links, step by step: inside another sandbox the call is not there, because its
 * arguments cannot be seen by a filter.
 */
static int open_without_links(int dirfd, const char *path, uint64_t flags, uint64_t mode,
			      bool beneath)
{
	int dir = dirfd;

	if (path[0] == '/') {
		if (beneath)
			return -EXDEV;
		dir = result(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
		if (dir < 0)
			return dir;
		path += strspn(path, "/");
	}
	for (;;) {
		size_t len = strcspn(path, "/"), skip = len + strspn(path + len, "/");
		char name[NAME_MAX + 1];
		int next;

		if (len > NAME_MAX)
			next = -ENAMETOOLONG;
		else if (beneath && len == 2 && path[0] == '.' && path[1] == '.')
			next = -EXDEV;
		else {
			memcpy(name, path, len);
			name[len] = '\0';
			/* With a slash behind it, it has to be a directory. */
			next = path[skip] ? step_into(dir, len ? name : ".")
					  : step_last(dir, len ? name : ".",
						      flags | (skip > len ? O_DIRECTORY : 0), mode);
		}
		if (dir != dirfd)
			close(dir);
		if (next < 0 || !path[skip])
			return next;
		dir = next;
		path += skip;
	}
}

int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .mode = mode, .resolve = resolve };
	int r = -hook_errno("openat2_call"); /* the call only, not what stands in for it */

	FAIL_IF_ASKED("openat2");
	if (r == 0)
		r = CALL(SYS_openat2, dirfd, path, &how, sizeof(how));
	/* Only what can be done as strictly by hand: mount points cannot be told apart so. */
	if (r == -ENOSYS && (resolve & RESOLVE_NO_SYMLINKS) &&
	    !(resolve & (RESOLVE_NO_XDEV | RESOLVE_IN_ROOT)))
		return open_without_links(dirfd, path, flags, mode, resolve & RESOLVE_BENEATH);
	return r;
}

int sys_mount(const char *type, const char *target, unsigned long flags, const char *data)
{
	FAIL_IF_ASKED("mount");
	return CALL(SYS_mount, type, target, type, flags, data);
}

int sys_bind(const char *source, const char *target)
{
	FAIL_IF_ASKED("mount");
	return CALL(SYS_mount, source, target, 0, MS_BIND | MS_REC, 0);
}

int sys_mount_set(const char *target, bool recursive, uint64_t set, uint64_t clear)
{
	const struct mount_attr attr = { .attr_set = set, .attr_clr = clear };

	FAIL_IF_ASKED("mount_setattr");
	return CALL(SYS_mount_setattr, AT_FDCWD, target, recursive ? AT_RECURSIVE : 0, &attr,
		    sizeof(attr));
}

int sys_open_tree(int dirfd, const char *path)
{
	FAIL_IF_ASKED("open_tree");
	return CALL(SYS_open_tree, dirfd, path,
		    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH |
			    AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
}

int sys_mount_attributes(int tree, uint64_t set, uint64_t clear, int idmap)
{
	struct mount_attr attr = { .attr_set = set, .attr_clr = clear };

	FAIL_IF_ASKED("mount_setattr");
	if (idmap >= 0) {
		FAIL_IF_ASKED("idmap");
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		/* Opened among the host's mounts, where most spread. */
		attr.propagation = MS_PRIVATE;
		attr.userns_fd = (uint64_t)idmap;
	}
	return CALL(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr));
}

int sys_move_mount(int tree, int target)
{
	FAIL_IF_ASKED("move_mount");
	return CALL(SYS_move_mount, tree, "", target, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int sys_mount_private(void)
{
	const struct mount_attr attr = { .propagation = MS_PRIVATE };

	FAIL_IF_ASKED("mount_private");
	return CALL(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr));
}

int sys_pivot_root(void)
{
	FAIL_IF_ASKED("pivot_root");
	return CALL(SYS_pivot_root, ".", ".");
}

int sys_detach_here(void)
{
	FAIL_IF_ASKED("umount");
	return CALL(SYS_umount2, ".", MNT_DETACH);
}

/* The kernel's header does not go together with the libc's. */
#define STATX_MOUNT_ID 0x1000u
struct statx_mount {
	uint32_t mask, rest[35];
	uint64_t mount_id;
	uint64_t more[13];
};
_Static_assert(sizeof(struct statx_mount) == 256, "as large as the kernel's");
_Static_assert(offsetof(struct statx_mount, mount_id) == 0x90, "where the kernel has it");

int sys_mount_id(const char *path, uint64_t *ret_id)
{
	struct statx_mount stx = { 0 };
	int r = CALL(SYS_statx, AT_FDCWD, path, 0, STATX_MOUNT_ID, &stx);

	if (r < 0)
		return r;
	*ret_id = stx.mount_id;
	return stx.mask & STATX_MOUNT_ID ? 0 : -EOPNOTSUPP;
}

int sys_unshare(int namespaces)
{
	FAIL_IF_ASKED("unshare");
	return CALL(SYS_unshare, namespaces, 0, 0, 0, 0);
}

int sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
	/* RENAME_NOREPLACE; musl has no wrapper. */
	return CALL(SYS_renameat2, from_dir, from, to_dir, to, 1);
}

static int set_capabilities(uint64_t permitted, uint64_t effective, uint64_t inheritable)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct data[2] = {
		{ .permitted = (uint32_t)permitted,
		  .effective = (uint32_t)effective,
		  .inheritable = (uint32_t)inheritable },
		{ .permitted = (uint32_t)(permitted >> 32),
		  .effective = (uint32_t)(effective >> 32),
		  .inheritable = (uint32_t)(inheritable >> 32) },
	};

	return CALL(SYS_capset, &header, data);
}

int sys_drop_capabilities(uint64_t keep)
{
	int r;

	FAIL_IF_ASKED("capset");
	if (hook_without("privileges"))
		return 0;
	/*
	 * uid 0 stops meaning anything at execve and setuid, for good. One call instead of forty
	 * that empty the bounding set: with no_new_privs that set has nothing to give. Without
	 * CAP_SETPCAP there is nothing to lock away, or it is locked already.
	 */
	r = CALL(SYS_prctl, PR_SET_SECUREBITS,
		 SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
	if (r < 0 && r != -EPERM)
		return r;
	r = CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
	if (r < 0 && r != -EINVAL)
		return r;
	return set_capabilities(keep, 0, 0);
}

int sys_pass_capabilities(uint64_t passed, bool roots)
{
	const unsigned long fixed =
		SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED;
	int r;

	FAIL_IF_ASKED("capset");
	r = set_capabilities(passed | 1ull << CAP_SETPCAP, passed | 1ull << CAP_SETPCAP, passed);
	for (unsigned int cap = 0; cap < 64 && r == 0; cap++)
		if (passed >> cap & 1)
			r = CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
	/* uid 0 means nothing by itself, and nothing can be added. */
	r = r < 0 ? r
		  : CALL(SYS_prctl, PR_SET_SECUREBITS,
			 SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | (roots ? 0 : fixed) |
				 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
	return r < 0 ? r : set_capabilities(passed, passed, passed);
}

int sys_limit_capabilities(uint64_t kept, uint64_t until_exec)
{
	FAIL_IF_ASKED("capset");
	/* The ambient ones follow what can be inherited, and are all that execve leaves. */
	return set_capabilities(kept | until_exec, kept, kept);
}

int sys_become(unsigned int id)
{
	int r = CALL(SYS_setgroups, 0, NULL);

	r = r < 0 ? r : CALL(SYS_setresgid, id, id, id);
	return r < 0 ? r : CALL(SYS_setresuid, id, id, id);
}

int sys_borrow_ids(unsigned int id)
{
	FAIL_IF_ASKED("setfsuid");
	/* They tell what was before, whatever happens. */
	syscall(SYS_setfsgid, id);
	syscall(SYS_setfsuid, id);
	return syscall(SYS_setfsuid, -1) == (long)id && syscall(SYS_setfsgid, -1) == (long)id
		       ? 0
		       : -EPERM;
}

int sys_raise_capabilities(uint64_t kept)
{
	return set_capabilities(kept, kept, 0);
}
