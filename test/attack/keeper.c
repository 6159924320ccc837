/* keeper.c - the process that watches over the sandbox: the parent, pid 1 of a container */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KEEPER_WALL EPERM, EACCES, ESRCH

static const char *of_keeper(const char *name)
{
	return path_of("/proc/%d/%s", getppid(), name);
}

/* It may still have another id than ours in the first moment. */
static pid_t settled_keeper(void)
{
	usleep(500000);
	return getppid();
}

ATTACK(keeper_environment, HOST_LEAK, "read the caller's environment from the parent's")
{
	leak_file(of_keeper("environ"));
}

/* While it may not have closed the door yet. */
ATTACK(keeper_environment_early, HOST_LEAK, "the same, again and again from the first moment on")
{
	for (int i = 0; i < 4000; i++) {
		int fd = open(of_keeper("environ"), O_RDONLY);

		if (fd >= 0) {
			leak_fd(fd);
			return;
		}
	}
	denied(EACCES);
}

ATTACK(keeper_memory_early, ESCAPE,
       "open the parent's memory, again and again from the first moment on")
{
	for (int i = 0; i < 4000; i++)
		if (open(of_keeper("mem"), O_RDWR) >= 0)
			return;
	denied(EACCES);
}

ATTACK(keeper_command_line, HOST_LEAK, "learn the caller's command line from the parent's")
{
	char text[65536];
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD,
					path_of("/proc/%d/cmdline", settled_keeper()), O_RDONLY),
				    KEEPER_WALL);
	ssize_t n = read(fd, text, sizeof(text));

	need(n, "cmdline");
	if (!memmem(text, (size_t)n, "keeper_command_line", 19))
		denied(EACCES);
	leak(text, (size_t)n);
}

ATTACK(keeper_root, HOST_LEAK, "read a file outside by the parent's root")
{
	leak_file(path_of("/proc/%d/root%s", getppid(), outside("secret")));
}

ATTACK(keeper_cwd, HOST_LEAK, "read a file outside by the parent's working folder")
{
	leak_file(of_keeper("cwd/../outside/secret"));
}

ATTACK(keeper_any_descriptor, ESCAPE, "open what any descriptor of the parent leads to")
{
	for (int fd = 0; fd < 64; fd++)
		if (open(path_of("/proc/%d/fd/%d", getppid(), fd), O_RDONLY | O_NONBLOCK) >= 0)
			return;
	denied(EACCES);
}

ATTACK(keeper_maps, HOST_LEAK, "read the parent's address space")
{
	char text[64];
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, of_keeper("maps"), O_RDONLY),
				    KEEPER_WALL);
	ssize_t n = read(fd, text, sizeof(text));

	need(n, "maps");
	if (n == 0)
		denied(EACCES);
}

ATTACK(keeper_namespaces, ESCAPE, "open the parent's namespaces")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, of_keeper("ns/user"), O_RDONLY), KEEPER_WALL);
}

ATTACK(keeper_oom_score, ESCAPE, "make the parent the first to die when memory is short")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD,
					path_of("/proc/%d/oom_score_adj", settled_keeper()),
					O_WRONLY),
				    KEEPER_WALL);

	expect_denied(raw(SYS_write, fd, "1000", 4), KEEPER_WALL);
}

ATTACK(keeper_any_file, ESCAPE, "write to any file of the parent in /proc")
{
	static const char *const names[] = { "attr/current",    "autogroup",      "clear_refs",
					     "coredump_filter", "gid_map",        "uid_map",
					     "projid_map",      "sched",          "setgroups",
					     "timerslack_ns",   "timens_offsets", "task/1/comm",
					     "attr/exec" };

	settled_keeper();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int fd = open(of_keeper(names[i]), O_WRONLY);

		if (fd >= 0 && write(fd, "0", 1) > 0)
			return;
	}
	denied(EACCES);
}

#define LIMIT(id, resource, text)                                                     \
	ATTACK(keeper_limit_##id, ESCAPE, "take " text " from the parent (prlimit)")  \
	{                                                                             \
		const struct rlimit little = { 8, 8 };                                \
                                                                                      \
		expect_denied(raw(SYS_prlimit64, getppid(), resource, &little, NULL), \
			      KEEPER_WALL);                                           \
	}

LIMIT(cpu, RLIMIT_CPU, "CPU time")
LIMIT(memory, RLIMIT_AS, "memory")
LIMIT(processes, RLIMIT_NPROC, "processes")
LIMIT(signals, RLIMIT_SIGPENDING, "signals")

ATTACK(keeper_priority, ESCAPE, "lower the parent's priority")
{
	expect_denied(raw(SYS_setpriority, PRIO_PROCESS, settled_keeper(), 19), KEEPER_WALL);
}

ATTACK(keeper_scheduler, ESCAPE, "let the parent run only when nobody else does")
{
	const struct sched_param param = { 0 };

	expect_denied(raw(SYS_sched_setscheduler, settled_keeper(), SCHED_IDLE, &param),
		      KEEPER_WALL);
}

ATTACK(keeper_affinity, ESCAPE, "pin the parent to one CPU")
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	expect_denied(raw(SYS_sched_setaffinity, settled_keeper(), sizeof(one), &one), KEEPER_WALL);
}

ATTACK(keeper_io_priority, ESCAPE, "lower the parent's I/O priority")
{
	expect_denied(raw(SYS_ioprio_set, 1, settled_keeper(), 3 << 13), KEEPER_WALL);
}

ATTACK(read_keeper, ESCAPE, "read the parent's memory (process_vm_readv)")
{
	static char own[64];
	const struct {
		void *base;
		size_t len;
	} local = { own, sizeof(own) }, remote = { (void *)(uintptr_t)environ, 8 };

	/* The address need not be right: EFAULT comes after the question. */
	expect_denied(past_the_gate(raw(SYS_process_vm_readv, getppid(), &local, 1, &remote, 1, 0),
				    EFAULT),
		      KEEPER_WALL, ENOSYS);
}

ATTACK(take_keepers_descriptor, ESCAPE, "take a descriptor of the parent (pidfd_getfd)")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, getppid(), 0), KEEPER_WALL);

	expect_denied(raw(SYS_pidfd_getfd, fd, 0, 0), KEEPER_WALL, ENOSYS);
}

ATTACK(compare_keeper, HOST_LEAK, "compare kernel objects with the parent (kcmp)")
{
	expect_denied(raw(SYS_kcmp, getpid(), getppid(), 1, 0, 0), KEEPER_WALL, ENOSYS);
}

ATTACK(keeper_advice, ESCAPE, "push the parent's memory out (process_madvise)")
{
	const struct {
		void *base;
		size_t len;
	} range = { (void *)0x10000, 4096 };
	int fd = (int)expect_denied(raw(SYS_pidfd_open, getppid(), 0), KEEPER_WALL);

	expect_denied(past_the_gate(raw(SYS_process_madvise, fd, &range, 1, MADV_COLD, 0), ENOMEM,
				    EINVAL),
		      KEEPER_WALL, ENOSYS);
}

ATTACK(keeper_group, ESCAPE, "join the parent's process group and end that")
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGTERM, &ignore, NULL);
	expect_denied(raw(SYS_setpgid, 0, getpgid(getppid())), KEEPER_WALL);
	/* Allowed within a session; what counts is that a signal to the group does no harm. */
	raw(SYS_kill, 0, SIGTERM);
	usleep(100000);
	if (raw(SYS_kill, getppid(), 0) == 0 || errno == EPERM)
		denied(EPERM);
}
