/* identity.c - users, capabilities, setuid: nothing to gain and nothing to leave behind */
#include "probe.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/if.h>
#include <linux/perf_event.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define PRIVILEGE_WALL EPERM, EACCES
#define SETUID_MODE    (S_ISUID | 0755)

/* An id that a user namespace, or the mapping of a mount, has no word for. */
static void unless_unmapped(long result)
{
	if (result < 0 && (errno == EINVAL || errno == EOVERFLOW))
		not_there(errno);
	expect_denied(result, PRIVILEGE_WALL);
}

ATTACK(setuid_program, ESCAPE, "have a setuid program write to a file of root")
{
	char *argv[] = { (char *)(uintptr_t)scene("setuid"), (char *)(uintptr_t) "write",
			 (char *)(uintptr_t)inside("of-root"), NULL };

	errno = EALREADY;
	if (getuid() == 0)
		cannot("the caller is root");
	expect_denied(raw(SYS_execve, argv[0], argv, NULL), PRIVILEGE_WALL);
}

ATTACK(capability_program, ESCAPE,
       "have a program with capabilities write to a file of another user")
{
	char *argv[] = { (char *)(uintptr_t)scene("capable"), (char *)(uintptr_t) "write",
			 (char *)(uintptr_t)inside("of-another"), NULL };

	expect_denied(raw(SYS_execve, argv[0], argv, NULL), PRIVILEGE_WALL);
}

ATTACK(read_of_root, HOST_LEAK, "read a file of root's in a readable folder of somebody else")
{
	leak_file(path_of("%s/of-root", scene("foreign")));
}

ATTACK(write_of_another, ESCAPE, "write to a file of another user in the writable folder")
{
	spoil_file(inside("of-another"));
}

ATTACK(setuid_file_open, ESCAPE, "leave a setuid file behind: open")
{
	expect_denied(raw(SYS_open, inside("left"), O_CREAT | O_WRONLY, SETUID_MODE),
		      PRIVILEGE_WALL);
}

ATTACK(setuid_file_openat, ESCAPE, "leave a setuid file behind: openat")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, inside("left"), O_CREAT | O_WRONLY, SETUID_MODE),
		      PRIVILEGE_WALL);
}

ATTACK(setuid_file_openat2, ESCAPE, "leave a setuid file behind: openat2")
{
	const uint64_t how[3] = { O_CREAT | O_WRONLY, SETUID_MODE, 0 };

	expect_denied(raw(SYS_openat2, AT_FDCWD, inside("left"), how, sizeof(how)), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(setuid_file_creat, ESCAPE, "leave a setuid file behind: creat")
{
	expect_denied(raw(SYS_creat, inside("left"), SETUID_MODE), PRIVILEGE_WALL);
}

ATTACK(setuid_file_mknod, ESCAPE, "leave a setuid file behind: mknod")
{
	expect_denied(raw(SYS_mknod, inside("left"), S_IFREG | SETUID_MODE, 0), PRIVILEGE_WALL);
}

ATTACK(setuid_file_tmpfile, ESCAPE, "leave a setuid file behind: O_TMPFILE and linkat")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, scene("work"), O_TMPFILE | O_WRONLY,
					SETUID_MODE),
				    PRIVILEGE_WALL);

	need(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD, inside("left"),
		 AT_SYMLINK_FOLLOW),
	     "linkat");
}

static int plain_file(void)
{
	int fd = open(inside("left"), O_CREAT | O_RDWR, 0755);

	need(fd, "a file of one's own");
	return fd;
}

ATTACK(setuid_file_chmod, ESCAPE, "leave a setuid file behind: chmod")
{
	plain_file();
	expect_denied(raw(SYS_chmod, inside("left"), SETUID_MODE), PRIVILEGE_WALL);
}

ATTACK(setuid_file_fchmod, ESCAPE, "leave a setuid file behind: fchmod")
{
	expect_denied(raw(SYS_fchmod, plain_file(), SETUID_MODE), PRIVILEGE_WALL);
}

ATTACK(setuid_file_fchmodat2, ESCAPE, "leave a setuid file behind: fchmodat2 by a descriptor")
{
	expect_denied(raw(SYS_fchmodat2, plain_file(), "", SETUID_MODE, 0x1000), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(setgid_file_chmod, ESCAPE, "leave a setgid file behind: chmod")
{
	plain_file();
	expect_denied(raw(SYS_chmod, inside("left"), S_ISGID | 0755), PRIVILEGE_WALL);
}

ATTACK(capability_file, ESCAPE, "leave a file with capabilities behind")
{
	static const uint32_t all[5] = { 0x02000001, ~0u, 0, ~0u, 0 };

	expect_denied(raw(SYS_fsetxattr, plain_file(), "security.capability", all, sizeof(all), 0),
		      PRIVILEGE_WALL);
}

static void child_without_nnp(void *unused)
{
	(void)unused;
	if (raw(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
		_exit(1);
}

ATTACK(no_new_privs_lost, ESCAPE, "find a descendant that can gain privileges")
{
	if (WEXITSTATUS(in_child(child_without_nnp, NULL)) != 0)
		denied(EPERM);
}

ATTACK(become_other_user, ESCAPE, "become another user")
{
	uid_t other = getuid() == 0 ? 12345 : 0;

	unless_unmapped(raw(SYS_setresuid, other, other, other));
}

ATTACK(become_other_group, ESCAPE, "become a member of another group")
{
	gid_t groups[] = { 0, 42 };

	expect_denied(raw(SYS_setgroups, 2, groups), PRIVILEGE_WALL);
}

ATTACK(capabilities_take, ESCAPE, "take a capability")
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 1 << CAP_DAC_OVERRIDE, 1 << CAP_DAC_OVERRIDE,
						    0 } };

	expect_denied(raw(SYS_capset, &head, data), PRIVILEGE_WALL);
}

ATTACK(cap_sys_admin, ESCAPE, "use CAP_SYS_ADMIN: change the host name")
{
	expect_denied(raw(SYS_sethostname, "spoiled", 7), PRIVILEGE_WALL);
}

ATTACK(cap_sys_admin_domain, ESCAPE, "use CAP_SYS_ADMIN: change the domain name")
{
	expect_denied(raw(SYS_setdomainname, "spoiled", 7), PRIVILEGE_WALL);
}

ATTACK(cap_net_admin, ESCAPE, "use CAP_NET_ADMIN: change an interface")
{
	struct ifreq request = { .ifr_name = "lo", .ifr_mtu = 60000 };
	int pair[2];

	/* Any socket will do; with none, the end of a pair. */
	need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	expect_denied(ioctl(pair[0], SIOCSIFMTU, &request), PRIVILEGE_WALL);
}

ATTACK(cap_sys_module, ESCAPE, "use CAP_SYS_MODULE: load a module")
{
	expect_denied(past_the_gate(raw(SYS_init_module, "x", 1, ""), ENOEXEC, EINVAL),
		      PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_sys_module_file, ESCAPE, "use CAP_SYS_MODULE: load a module by a descriptor")
{
	expect_denied(past_the_gate(raw(SYS_finit_module, -1, "", 0), EBADF), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(cap_sys_module_remove, ESCAPE, "use CAP_SYS_MODULE: remove a module")
{
	expect_denied(past_the_gate(raw(SYS_delete_module, "brig_no_such", O_NONBLOCK), ENOENT),
		      PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_sys_time, HOST_DOS, "use CAP_SYS_TIME: set the clock's tick to what it is")
{
	struct timex clock = { 0 };

	need(adjtimex(&clock) < 0 && errno != EPERM ? -1 : 0, "adjtimex");
	clock.modes = ADJ_TICK;
	clock.tick = clock.tick ? clock.tick : 10000;
	expect_denied(raw(SYS_adjtimex, &clock), PRIVILEGE_WALL);
}

ATTACK(cap_bpf, ESCAPE, "use CAP_BPF: make a map")
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_HASH, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	expect_denied(raw(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)), PRIVILEGE_WALL, ENOSYS);
}

ATTACK(bpf_program, ESCAPE, "load a BPF program")
{
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER };

	expect_denied(past_the_gate(raw(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)), EINVAL, E2BIG,
				    EFAULT),
		      PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_perfmon, HOST_LEAK, "use CAP_PERFMON: count events of the whole machine")
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CONTEXT_SWITCHES };

	expect_denied(raw(SYS_perf_event_open, &attr, -1, 0, -1, 0), PRIVILEGE_WALL, ENOSYS);
}

ATTACK(perf_self, ESCAPE, "count events of one's own")
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.exclude_kernel = 1,
					.exclude_hv = 1 };

	expect_denied(raw(SYS_perf_event_open, &attr, 0, -1, -1, 0), PRIVILEGE_WALL, ENOSYS);
}

#ifdef __x86_64__
ATTACK(cap_sys_rawio, ESCAPE, "use CAP_SYS_RAWIO: all I/O ports")
{
	expect_denied(raw(SYS_iopl, 3), PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_sys_rawio_port, ESCAPE, "use CAP_SYS_RAWIO: one I/O port")
{
	expect_denied(raw(SYS_ioperm, 0x80, 1, 1), PRIVILEGE_WALL, ENOSYS);
}
#endif

ATTACK(cap_sys_boot, HOST_DOS, "use CAP_SYS_BOOT: reboot, with a wrong magic number")
{
	expect_denied(past_the_gate(raw(SYS_reboot, 1, 2, 3, NULL), EINVAL), PRIVILEGE_WALL);
}

ATTACK(kexec, ESCAPE, "load another kernel, with wrong flags")
{
	expect_denied(past_the_gate(raw(SYS_kexec_load, 0, 0, NULL, 0xff), EINVAL), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(kexec_file, ESCAPE, "load another kernel by a descriptor, with wrong flags")
{
	expect_denied(past_the_gate(raw(SYS_kexec_file_load, -1, -1, 0, NULL, 0xff00), EINVAL),
		      PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_sys_pacct, HOST_DOS, "use CAP_SYS_PACCT: account processes to a missing file")
{
	expect_denied(past_the_gate(raw(SYS_acct, inside("no-such")), ENOENT), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(swap_on, HOST_DOS, "swap to a missing file")
{
	expect_denied(past_the_gate(raw(SYS_swapon, inside("no-such"), 0), ENOENT), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(swap_off, HOST_DOS, "stop swapping to a missing file")
{
	expect_denied(past_the_gate(raw(SYS_swapoff, inside("no-such")), ENOENT), PRIVILEGE_WALL,
		      ENOSYS);
}

ATTACK(cap_syslog, HOST_LEAK, "use CAP_SYSLOG: read the kernel's log")
{
	char text[256];

	expect_denied(raw(SYS_syslog, 3, text, sizeof(text)), PRIVILEGE_WALL, ENOSYS);
}

ATTACK(cap_sys_resource, HOST_DOS, "use CAP_SYS_RESOURCE: raise a hard limit")
{
	struct rlimit limit = { 4096, 4096 };

	need(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	limit.rlim_cur = limit.rlim_max = 8192;
	expect_denied(raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL), PRIVILEGE_WALL);
}

ATTACK(cap_wake_alarm, HOST_DOS, "use CAP_WAKE_ALARM: a timer that wakes a sleeping machine")
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	int timer;

	expect_denied(raw(SYS_timer_create, CLOCK_REALTIME_ALARM, &event, &timer), PRIVILEGE_WALL,
		      EOPNOTSUPP);
}

ATTACK(cap_ipc_lock, HOST_DOS, "use CAP_IPC_LOCK: lock more memory than the limit")
{
	const struct rlimit little = { 65536, 65536 };
	void *data =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(data == MAP_FAILED ? -1 : 0, "mmap");
	need(setrlimit(RLIMIT_MEMLOCK, &little), "setrlimit");
	expect_denied(raw(SYS_mlock, data, 1 << 20), PRIVILEGE_WALL, ENOMEM);
}

ATTACK(cap_chown, ESCAPE, "use CAP_CHOWN: give a file of one's own away")
{
	unless_unmapped(raw(SYS_fchown, plain_file(), 12345, 12345));
}

ATTACK(quota, HOST_DOS, "ask for quotas of a file system (quotactl)")
{
	expect_denied(past_the_gate(raw(SYS_quotactl, 0x80000100 /* Q_SYNC */, NULL, 0, NULL),
				    ENODEV),
		      PRIVILEGE_WALL, ENOSYS);
}
