/* syscalls.c - doors of the kernel that no workload needs: judged by what the call returns, and by
 * mounts, host name and clock of the host */
#include "probe.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/user.h>
#include <sys/wait.h>

#define CALL_WALL EPERM, EACCES, ENOSYS

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NR_LISTMOUNT      458
#define NR_OPEN_TREE_ATTR 467

ATTACK(mount_tmpfs, ESCAPE, "mount a tmpfs over a folder outside")
{
	expect_denied(raw(SYS_mount, "none", outside("empty"), "tmpfs", 0, NULL), CALL_WALL);
}

ATTACK(mount_bind, ESCAPE, "bind a folder outside over the writable one")
{
	expect_denied(raw(SYS_mount, scene("outside"), inside("mnt"), NULL, MS_BIND, NULL),
		      CALL_WALL);
}

ATTACK(mount_proc, ESCAPE, "mount a fresh procfs")
{
	expect_denied(raw(SYS_mount, "proc", inside("mnt"), "proc", 0, NULL), CALL_WALL);
}

ATTACK(mount_fuse, ESCAPE, "mount a FUSE file system")
{
	expect_denied(past_the_gate(raw(SYS_mount, "x", inside("mnt"), "fuse", 0, "fd=0"), EINVAL),
		      CALL_WALL, ENODEV);
}

ATTACK(unmount, ESCAPE, "unmount /proc")
{
	expect_denied(raw(SYS_umount2, outside("mounted"), MNT_DETACH), CALL_WALL);
}

/* In a mount namespace of its own where one can be had: the control must not move the test's root.
 */
ATTACK(pivot, ESCAPE, "exchange the root (pivot_root)")
{
	raw(SYS_unshare, CLONE_NEWNS);
	raw(SYS_mount, "none", inside("mnt"), "tmpfs", 0, NULL);
	raw(SYS_chdir, inside("mnt"));
	expect_denied(past_the_gate(raw(SYS_pivot_root, ".", "."), EINVAL), CALL_WALL);
}

ATTACK(chroot_below, ESCAPE, "change the root (chroot)")
{
	expect_denied(raw(SYS_chroot, scene("work")), CALL_WALL);
}

ATTACK(fsopen, ESCAPE, "open a file system context")
{
	expect_denied(raw(SYS_fsopen, "tmpfs", 0), CALL_WALL);
}

ATTACK(fsconfig, ESCAPE, "configure a file system context")
{
	expect_denied(past_the_gate(raw(SYS_fsconfig, -1, 0, NULL, NULL, 0), EBADF, EINVAL),
		      CALL_WALL);
}

ATTACK(fsmount, ESCAPE, "mount a file system context")
{
	expect_denied(past_the_gate(raw(SYS_fsmount, -1, 0, 0), EBADF), CALL_WALL);
}

ATTACK(fspick, ESCAPE, "pick a mount for reconfiguration")
{
	expect_denied(raw(SYS_fspick, AT_FDCWD, "/", 0), CALL_WALL);
}

ATTACK(open_tree, ESCAPE, "clone a mount tree")
{
	expect_denied(raw(SYS_open_tree, AT_FDCWD, scene("outside"), 1 /* OPEN_TREE_CLONE */),
		      CALL_WALL);
}

ATTACK(open_tree_attr, ESCAPE, "clone a mount tree with attributes")
{
	expect_denied(raw(NR_OPEN_TREE_ATTR, AT_FDCWD, scene("outside"), 1, NULL, 0), CALL_WALL);
}

ATTACK(move_mount, ESCAPE, "move a mount")
{
	expect_denied(raw(SYS_move_mount, AT_FDCWD, outside("mounted"), AT_FDCWD, inside("mnt"), 0),
		      CALL_WALL);
}

ATTACK(mount_setattr, ESCAPE, "change the attributes of a mount")
{
	const uint64_t attr[4] = { 1 /* read-only */, 0, 0, 0 };

	expect_denied(raw(SYS_mount_setattr, AT_FDCWD, outside("mounted"), 0, attr, sizeof(attr)),
		      CALL_WALL);
}

ATTACK(list_mounts, HOST_LEAK, "list the mounts by number")
{
	const uint64_t request[4] = { 24, ~0ULL, 0, 0 };
	uint64_t ids[16];

	expect_denied(raw(NR_LISTMOUNT, request, ids, 16, 0), CALL_WALL);
}

#define NAMESPACE(id, flag, text)                                              \
	ATTACK(unshare_##id, ESCAPE, "unshare " text)                          \
	{                                                                      \
		expect_denied(raw(SYS_unshare, flag), CALL_WALL, ENOSPC);      \
	}                                                                      \
	ATTACK(clone_##id, ESCAPE, "clone into " text)                         \
	{                                                                      \
		long pid = raw(SYS_clone, (long)(flag) | SIGCHLD, 0, 0, 0, 0); \
                                                                               \
		if (pid == 0)                                                  \
			_exit(0);                                              \
		expect_denied(pid, CALL_WALL, ENOSPC);                         \
	}

NAMESPACE(user, CLONE_NEWUSER, "a user namespace")
NAMESPACE(mount, CLONE_NEWNS, "a mount namespace")
NAMESPACE(pid, CLONE_NEWPID, "a pid namespace")
NAMESPACE(net, CLONE_NEWNET, "a network namespace")
NAMESPACE(ipc, CLONE_NEWIPC, "an IPC namespace")
NAMESPACE(uts, CLONE_NEWUTS, "a UTS namespace")
NAMESPACE(cgroup, CLONE_NEWCGROUP, "a cgroup namespace")

ATTACK(unshare_time, ESCAPE, "unshare a time namespace")
{
	expect_denied(raw(SYS_unshare, CLONE_NEWTIME), CALL_WALL, ENOSPC);
}

ATTACK(unshare_user_high_half, ESCAPE, "unshare a user namespace, with bits above the 32nd")
{
	/* The kernel looks at all 64 and refuses unknown ones. */
	expect_denied(past_the_gate(raw(SYS_unshare, 1UL << 40 | CLONE_NEWUSER), EINVAL),
		      CALL_WALL);
}

ATTACK(clone_user_high_half, ESCAPE, "clone into a user namespace, with bits above the 32nd")
{
	long pid = raw(SYS_clone, 1L << 40 | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	expect_denied(pid, CALL_WALL, ENOSPC);
}

ATTACK(clone3_user, ESCAPE, "clone3 into a user namespace")
{
	/* The first size of struct clone_args: flags, three pointers, the signal, the stack. */
	const uint64_t args[8] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };
	long pid = raw(SYS_clone3, args, sizeof(args));

	if (pid == 0)
		_exit(0);
	expect_denied(pid, CALL_WALL, ENOSPC);
}

ATTACK(clone_untraced, ESCAPE, "clone so that no tracer follows")
{
	/* Allowed to everyone, but the filter must follow. */
	long pid = raw(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
	int status;

	if (pid == 0)
		_exit(raw(SYS_unshare, CLONE_NEWUSER) < 0);
	need(pid, "clone");
	need(waitpid((pid_t)pid, &status, 0), "wait");
	if (WEXITSTATUS(status) != 0)
		denied(EPERM);
}

ATTACK(setns_victim, ESCAPE, "enter the namespaces of a process outside by its pidfd")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, scene_number("victim"), 0), CALL_WALL);

	expect_denied(raw(SYS_setns, fd, CLONE_NEWUTS), CALL_WALL);
}

ATTACK(setns_own, ESCAPE, "enter a namespace by its file")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, "/proc/self/ns/uts", O_RDONLY),
				    CALL_WALL);

	expect_denied(raw(SYS_setns, fd, 0), CALL_WALL);
}

#ifdef __x86_64__
static long call_i386(long number, long a, long b)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b) : "memory");
	return result;
}

ATTACK(i386_call, ESCAPE, "make a call of the 32-bit ABI (int 0x80)")
{
	if (call_i386(20 /* getpid */, 0, 0) != getpid())
		denied(ENOSYS);
}

ATTACK(i386_socketcall, ESCAPE, "make an AF_ALG socket by socketcall of the 32-bit ABI")
{
	uint32_t *words = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	need(words == MAP_FAILED ? -1 : 0, "mmap");
	words[0] = 38 /* AF_ALG */;
	words[1] = SOCK_SEQPACKET;
	words[2] = 0;
	if (call_i386(102 /* socketcall */, 1 /* SYS_SOCKET */, (long)words) < 0)
		denied(EAFNOSUPPORT);
}

ATTACK(x32_call, ESCAPE, "make a call of the x32 ABI")
{
	expect_denied(raw(0x40000000 | SYS_getpid), CALL_WALL);
}

ATTACK(segment_table, ESCAPE, "change the segment table (modify_ldt)")
{
	expect_denied(raw(SYS_modify_ldt, 0, NULL, 0), CALL_WALL);
}

ATTACK(personality_exec, ESCAPE, "make all readable memory executable (personality)")
{
	expect_denied(raw(SYS_personality, READ_IMPLIES_EXEC), CALL_WALL);
}

ATTACK(personality_layout, ESCAPE, "switch randomised addresses off (personality)")
{
	expect_denied(raw(SYS_personality, ADDR_NO_RANDOMIZE), CALL_WALL);
}
#endif

static void unknown_call(long number)
{
	if (raw(number, -1, -1, -1) < 0 && errno == ENOSYS)
		denied(ENOSYS);
}

ATTACK(unknown_600, ESCAPE, "make call 600")
{
	unknown_call(600);
}

ATTACK(unknown_1000, ESCAPE, "make call 1000")
{
	unknown_call(1000);
}

ATTACK(unknown_negative, ESCAPE, "make call -1")
{
	unknown_call(-1);
}

ATTACK(ring_setup, ESCAPE, "set up an io_uring")
{
	struct io_uring_params params = { 0 };

	expect_denied(raw(SYS_io_uring_setup, 1, &params), CALL_WALL);
}

ATTACK(ring_enter, ESCAPE, "enter an io_uring")
{
	expect_denied(past_the_gate(raw(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0), EBADF),
		      CALL_WALL);
}

ATTACK(ring_register, ESCAPE, "register with an io_uring")
{
	expect_denied(past_the_gate(raw(SYS_io_uring_register, -1, 0, NULL, 0), EBADF, EINVAL),
		      CALL_WALL);
}

ATTACK(user_faults, ESCAPE, "answer page faults in user space (userfaultfd)")
{
	expect_denied(raw(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */), CALL_WALL);
}

ATTACK(quota_by_descriptor, HOST_DOS, "ask for quotas by a descriptor (quotactl_fd)")
{
	expect_denied(past_the_gate(raw(SYS_quotactl_fd, 0, 0x80000700, 0, NULL), EINVAL, ENODEV,
				    ESRCH, EFAULT, ENOTBLK),
		      CALL_WALL);
}

ATTACK(trace_victim, HOST_LEAK, "trace a process outside")
{
	expect_denied(raw(SYS_ptrace, PTRACE_SEIZE, scene_number("victim"), 0, 0), CALL_WALL);
}

ATTACK(trace_keeper, ESCAPE, "trace the parent")
{
	expect_denied(raw(SYS_ptrace, PTRACE_SEIZE, getppid(), 0, 0), CALL_WALL);
}

ATTACK(read_victim, HOST_LEAK, "read memory of a process outside (process_vm_readv)")
{
	char data[64];
	const struct {
		void *base;
		size_t len;
	} local = { data, sizeof(data) }, remote = { (void *)scene_number("address"), 64 };

	expect_denied(raw(SYS_process_vm_readv, scene_number("victim"), &local, 1, &remote, 1, 0),
		      CALL_WALL);
	leak(data, sizeof(data));
}

ATTACK(write_victim, LATERAL, "write memory of a process outside (process_vm_writev)")
{
	const struct {
		const void *base;
		size_t len;
	} local = { "x", 1 }, remote = { (void *)scene_number("address"), 1 };

	expect_denied(raw(SYS_process_vm_writev, scene_number("victim"), &local, 1, &remote, 1, 0),
		      CALL_WALL);
}

ATTACK(take_descriptor, HOST_LEAK, "take a descriptor of a process outside (pidfd_getfd)")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, scene_number("victim"), 0), CALL_WALL);
	int got = (int)expect_denied(raw(SYS_pidfd_getfd, fd, 9, 0), CALL_WALL);
	char data[256];
	long n = raw(SYS_pread64, got, data, sizeof(data), 0);

	need(n, "read");
	leak(data, (size_t)n);
}

ATTACK(compare_victim, HOST_LEAK, "compare kernel objects with a process outside (kcmp)")
{
	expect_denied(raw(SYS_kcmp, getpid(), scene_number("victim"), 1, 0, 0), CALL_WALL);
}

/* Needs "allow: debug", which opens ptrace: the filter must judge what a tracer made of a call. */
ATTACK(rewrite_call, ESCAPE, "let a tracer turn a harmless call of a child into unshare")
{
	pid_t pid = fork();
	struct user_regs_struct regs;
	int status;

	if (pid == 0) {
		if (raw(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(2);
		raise(SIGSTOP);
		_exit(raw(SYS_getppid, CLONE_NEWUSER) < 0 ? 1 : 0);
	}
	need(pid, "fork");
	need(waitpid(pid, &status, 0), "wait");
	if (!WIFSTOPPED(status))
		denied(EPERM);
	for (int stops = 0; stops < 64; stops++) {
		need(ptrace(PTRACE_SYSCALL, pid, 0, 0), "PTRACE_SYSCALL");
		need(waitpid(pid, &status, 0), "wait");
		if (!WIFSTOPPED(status))
			break;
		need(ptrace(PTRACE_GETREGS, pid, 0, &regs), "PTRACE_GETREGS");
		if (regs.orig_rax == SYS_getppid && regs.rax == (unsigned long)-ENOSYS) {
			regs.orig_rax = SYS_unshare;
			need(ptrace(PTRACE_SETREGS, pid, 0, &regs), "PTRACE_SETREGS");
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		denied(EPERM);
}

static struct sock_fprog allow_all(void)
{
	static struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

	return (struct sock_fprog){ 1, code };
}

ATTACK(own_listener, ESCAPE, "install a filter with a listener of one's own")
{
	struct sock_fprog program = allow_all();

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	expect_denied(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &program),
		      CALL_WALL, EBUSY);
}

ATTACK(loosen_filter, ESCAPE, "install a filter that allows everything, then unshare")
{
	struct sock_fprog program = allow_all();

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	need(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
	expect_denied(raw(SYS_unshare, CLONE_NEWUSER), CALL_WALL, ENOSPC);
}

ATTACK(memfd_execute, ESCAPE, "execute a program that has no path (memfd)")
{
	char *argv[] = { (char *)(uintptr_t) "x", (char *)(uintptr_t) "list", NULL };
	int fd = (int)raw(SYS_memfd_create, "x", 0), self = open("/proc/self/exe", O_RDONLY);

	need(fd, "memfd_create");
	need(self, "/proc/self/exe");
	while (raw(SYS_sendfile, fd, self, NULL, 1 << 20) > 0)
		;
	expect_denied(raw(SYS_execveat, fd, "", argv, NULL, 0x1000 /* AT_EMPTY_PATH */), CALL_WALL);
}

ATTACK(core_cookie, PEER_DOS, "change a core scheduling cookie")
{
	expect_denied(past_the_gate(raw(SYS_prctl, 62, 1, 0, 0, 0), ENODEV, EINVAL), CALL_WALL);
}

ATTACK(change_memory_map, ESCAPE, "move the own program's boundaries (PR_SET_MM)")
{
	expect_denied(past_the_gate(raw(SYS_prctl, PR_SET_MM, 0, 0, 0, 0), EINVAL), CALL_WALL);
}

static int thread_without_filter(void *result)
{
	char text[4096] = { 0 };
	int fd = open("/proc/thread-self/status", O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		*(int *)result =
			strstr(text, "Seccomp:\t2") && strstr(text, "NoNewPrivs:\t1") ? 1 : 2;
	return 0;
}

ATTACK(thread_outside, ESCAPE, "find a thread without filter and no_new_privs")
{
	static char stack[65536] __attribute__((aligned(16)));
	int result = 0;
	int pid = clone(thread_without_filter, stack + sizeof(stack),
			CLONE_VM | CLONE_FILES | SIGCHLD, &result);

	need(pid, "clone");
	need(waitpid(pid, NULL, 0), "wait");
	if (result == 0)
		cannot("/proc/thread-self/status");
	if (result == 1)
		denied(EPERM);
}
