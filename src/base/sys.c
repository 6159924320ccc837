#include "base/sys.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hook.h"

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

int sys_landlock_abi(void)
{
	long abi;

	if (hook_errno("landlock_abi"))
		return hook_errno("landlock_abi") == ENOSYS ? 0 : hook_errno("landlock_abi");
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi < 0 ? 0 : (int)abi;
}

int sys_landlock_create_ruleset(const struct sys_landlock_attr *attr, size_t size, uint32_t flags)
{
	FAIL_IF_ASKED("landlock_create_ruleset");
	return result(syscall(SYS_landlock_create_ruleset, attr, size, flags));
}

int sys_landlock_add_path(int ruleset, uint64_t access, int path_fd)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = path_fd };

	FAIL_IF_ASKED("landlock_add_rule");
	return result(
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
}

int sys_landlock_restrict_self(int ruleset, uint32_t flags)
{
	FAIL_IF_ASKED("landlock_restrict_self");
	return result(syscall(SYS_landlock_restrict_self, ruleset, flags));
}

int sys_seccomp_set_filter(unsigned int flags, const struct sock_fprog *prog)
{
	FAIL_IF_ASKED("seccomp");
	return result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog));
}

int sys_no_new_privs(void)
{
	FAIL_IF_ASKED("no_new_privs");
	return result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

pid_t sys_fork(void)
{
	FAIL_IF_ASKED("fork");
	return result(fork());
}

int sys_pidfd_open(pid_t pid)
{
	FAIL_IF_ASKED("pidfd_open");
	return result(syscall(SYS_pidfd_open, pid, 0));
}

int sys_pidfd_send_signal(int pidfd, int signal)
{
	FAIL_IF_ASKED("pidfd_send_signal");
	return result(syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0));
}

int sys_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	FAIL_IF_ASKED("close_range");
	return result(syscall(SYS_close_range, first, last, flags));
}

int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .mode = mode, .resolve = resolve };

	FAIL_IF_ASKED("openat2");
	return result(syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
}

int sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
	/* RENAME_NOREPLACE; musl has no wrapper. */
	return result(syscall(SYS_renameat2, from_dir, from, to_dir, to, 1));
}

static int set_capabilities(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct data[2] = {
		{ .permitted = (uint32_t)permitted, .effective = (uint32_t)effective },
		{ .permitted = (uint32_t)(permitted >> 32),
		  .effective = (uint32_t)(effective >> 32) },
	};

	return result(syscall(SYS_capset, &header, data));
}

int sys_drop_capabilities(uint64_t keep)
{
	FAIL_IF_ASKED("capset");
	if (hook_without("privileges"))
		return 0;
	/*
	 * uid 0 stops meaning anything at execve and setuid, for good. One call instead of forty
	 * that empty the bounding set: with no_new_privs that set has nothing to give. Without
	 * CAP_SETPCAP there is nothing to lock away, or it is locked already.
	 */
	if (prctl(PR_SET_SECUREBITS,
		  SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		  0, 0, 0) < 0 &&
	    errno != EPERM)
		return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return set_capabilities(keep, 0);
}

int sys_raise_capabilities(uint64_t kept)
{
	return set_capabilities(kept, kept);
}
