/*
 * limits.c - more than the policy grants. Each takes a bounded amount, so that a control without
 * walls does no harm: the scene says a number above the sandbox's limit.
 */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#define LIMIT_WALL EAGAIN, EMFILE, ENOMEM, ENOSPC, EFBIG, EPERM
#define PROCESSES  60
#define FILES      110
#define BYTES      (96L << 20)

static void sleeping_child(long flags)
{
	pid_t parent = getpid();
	long pid = raw(SYS_clone, flags, 0, 0, 0, 0);

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Unless it was too late for that. */
		if (getppid() == parent)
			raw(SYS_pause);
		_exit(0);
	}
	expect_denied(pid, LIMIT_WALL);
}

ATTACK(fork_bomb, HOST_DOS, "start more processes than granted")
{
	for (int i = 0; i < PROCESSES; i++)
		sleeping_child(SIGCHLD);
}

static int thread_waits(void *unused)
{
	(void)unused;
	raw(SYS_pause);
	return 0;
}

ATTACK(thread_bomb, HOST_DOS, "start more threads than granted")
{
	const int flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	static char stacks[PROCESSES][4096] __attribute__((aligned(16)));

	for (int i = 0; i < PROCESSES; i++)
		expect_denied(clone(thread_waits, stacks[i] + 4096, flags, NULL), LIMIT_WALL);
}

ATTACK(memory_bomb, HOST_DOS, "use more memory than granted")
{
	char *data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect_denied(data == MAP_FAILED ? -1 : 0, LIMIT_WALL);
	for (long at = 0; at < BYTES; at += 4096)
		data[at] = 1;
	/* A watch from outside looks every so often. */
	usleep(2000000);
}

ATTACK(shared_memory_bomb, HOST_DOS, "use more shared memory than granted (memfd)")
{
	int fd = (int)raw(SYS_memfd_create, "bomb", 0);
	char *data;

	need(fd, "memfd_create");
	expect_denied(raw(SYS_ftruncate, fd, BYTES), LIMIT_WALL);
	data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	expect_denied(data == MAP_FAILED ? -1 : 0, LIMIT_WALL);
	for (long at = 0; at < BYTES; at += 4096)
		data[at] = 1;
	usleep(2000000);
}

ATTACK(memory_without_mapping, HOST_DOS, "use more memory than granted in a memfd, not mapped")
{
	static const char block[65536] = { 1 };
	int fd = (int)raw(SYS_memfd_create, "bomb", 0);

	need(fd, "memfd_create");
	for (long at = 0; at < BYTES; at += (long)sizeof(block))
		expect_denied(raw(SYS_write, fd, block, sizeof(block)), LIMIT_WALL);
	usleep(2000000);
}

ATTACK(file_bomb, HOST_DOS, "write a larger file than granted")
{
	static const char block[65536];
	int fd = open(inside("large"), O_CREAT | O_WRONLY, 0600);

	need(fd, "open");
	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < 64; i++)
		expect_denied(raw(SYS_write, fd, block, sizeof(block)), LIMIT_WALL);
}

static void many(int (*make)(void))
{
	for (int i = 0; i < FILES; i++)
		expect_denied(make(), LIMIT_WALL);
}

static int make_file(void)
{
	return open("/dev/null", O_RDONLY);
}

static int make_event(void)
{
	return eventfd(0, 0);
}

static int make_timer(void)
{
	return timerfd_create(CLOCK_MONOTONIC, 0);
}

static int make_epoll(void)
{
	return epoll_create1(0);
}

static int make_inotify(void)
{
	return (int)raw(SYS_inotify_init1, 0);
}

static int make_pidfd(void)
{
	return (int)raw(SYS_pidfd_open, getpid(), 0);
}

ATTACK(descriptor_bomb, HOST_DOS, "open more files than granted")
{
	many(make_file);
}

ATTACK(eventfd_bomb, HOST_DOS, "open more event descriptors than granted")
{
	many(make_event);
}

ATTACK(timerfd_bomb, HOST_DOS, "open more timers than granted")
{
	many(make_timer);
}

ATTACK(epoll_bomb, HOST_DOS, "open more epoll descriptors than granted")
{
	many(make_epoll);
}

ATTACK(inotify_bomb, HOST_DOS, "open more watches than granted")
{
	many(make_inotify);
}

ATTACK(pidfd_bomb, HOST_DOS, "open more process descriptors than granted")
{
	many(make_pidfd);
}

ATTACK(raise_limits, HOST_DOS, "raise the limit of open files")
{
	const struct rlimit more = { FILES + 50, FILES + 50 };

	expect_denied(raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL), LIMIT_WALL);
	many(make_file);
}

/* A grandchild in a session of its own, with every signal ignored that can be. */
static void daemonize(void *unused)
{
	(void)unused;
	setsid();
	if (fork() != 0)
		_exit(0);
	for (int signal = 1; signal < 32; signal++)
		if (signal != SIGKILL && signal != SIGSTOP)
			sigaction(signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (;;)
		sleep(100);
}

ATTACK(outlive, ESCAPE, "leave a process behind: double fork, own session, signals ignored")
{
	in_child(daemonize, NULL);
}

static void stop_and_stay(void *unused)
{
	(void)unused;
	setsid();
	if (fork() != 0)
		_exit(0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	raise(SIGSTOP);
	for (;;)
		sleep(100);
}

ATTACK(outlive_stopped, ESCAPE, "leave a stopped process behind")
{
	in_child(stop_and_stay, NULL);
	usleep(20000);
}

static void own_group(void *unused)
{
	(void)unused;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (fork() != 0)
		_exit(0);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, 0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (;;)
		sleep(100);
}

ATTACK(outlive_undumpable, ESCAPE, "leave an undumpable process behind")
{
	raw(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	in_child(own_group, NULL);
}
