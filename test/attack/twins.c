/* twins.c - the nearest thing to each attack that must work inside: contained, not broken */
#include "probe.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int make(const char *name)
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, inside(name), O_RDWR | O_CREAT, 0644);

	need(fd, name);
	return fd;
}

ALLOWED(twin_write, "write, truncate, rename, link and remove in the writable folder")
{
	int fd = make("twin");

	spoil_fd(fd);
	need(raw(SYS_ftruncate, fd, 3), "ftruncate");
	need(raw(SYS_truncate, inside("twin"), 2), "truncate");
	need(raw(SYS_fallocate, fd, 0, 0, 4096), "fallocate");
	need(raw(SYS_renameat2, AT_FDCWD, inside("twin"), AT_FDCWD, inside("twin2"), 0), "rename");
	need(raw(SYS_linkat, AT_FDCWD, inside("twin2"), AT_FDCWD, inside("twin3"), 0), "link");
	need(raw(SYS_mkdirat, AT_FDCWD, inside("folder"), 0755), "mkdir");
	need(raw(SYS_renameat2, AT_FDCWD, inside("twin3"), AT_FDCWD, inside("folder/x"), 0),
	     "move");
	need(raw(SYS_symlinkat, "twin2", AT_FDCWD, inside("twin-link")), "symlink");
	spoil_file(inside("twin-link"));
	need(raw(SYS_unlinkat, AT_FDCWD, inside("twin2"), 0), "unlink");
}

ALLOWED(twin_read, "read, map and list what is readable")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, readable("file"), O_RDONLY), dir;
	char data[64];

	need(fd, "open");
	need(raw(SYS_read, fd, data, sizeof(data)), "read");
	need(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0, "mmap");
	dir = (int)raw(SYS_openat, AT_FDCWD, scene("readable"), O_RDONLY | O_DIRECTORY);
	need(dir, "open");
	need(raw(SYS_getdents64, dir, data, sizeof(data)), "getdents64");
}

ALLOWED(twin_alias, "reach the own file by /proc/self/fd and /proc/self/cwd")
{
	int fd = make("twin");

	spoil_file(path_of("/proc/self/fd/%d", fd));
	need(chdir(scene("work")), "chdir");
	spoil_file("/proc/self/cwd/twin");
}

ALLOWED(twin_tmpfile, "make a nameless file and give it a name, inside")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, scene("work"), O_TMPFILE | O_WRONLY, 0600);

	need(fd, "O_TMPFILE");
	need(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD, inside("named"),
		 AT_SYMLINK_FOLLOW),
	     "linkat");
}

ALLOWED(twin_metadata, "change mode, times and attributes of an own file")
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	int fd = make("twin");
	struct stat st;

	need(raw(SYS_chmod, inside("twin"), 0755), "chmod");
	need(raw(SYS_fchmod, fd, 0700), "fchmod");
	need(raw(SYS_fchown, fd, getuid(), getgid()), "fchown");
	need(raw(SYS_utimensat, AT_FDCWD, inside("twin"), times, 0), "utimensat");
	need(raw(SYS_utimensat, fd, NULL, times, 0), "futimens");
	need(raw(SYS_setxattr, inside("twin"), "user.x", "y", 1, 0), "setxattr");
	need(raw(SYS_fremovexattr, fd, "user.x"), "fremovexattr");
	need(fstat(fd, &st), "fstat");
	errno = EIO;
	if ((st.st_mode & 0777) != 0700 || st.st_mtime != 1)
		cannot("mode and times as they were set");
}

ALLOWED(twin_watch, "watch the own folder")
{
	int fd = (int)raw(SYS_inotify_init1, 0);

	need(fd, "inotify_init1");
	need(raw(SYS_inotify_add_watch, fd, scene("work"), IN_CREATE), "inotify_add_watch");
}

static void wait_for_signal(void *unused)
{
	(void)unused;
	raw(SYS_pause);
}

ALLOWED(twin_signal, "signal own children by kill, tgkill and pidfd")
{
	for (int way = 0; way < 3; way++) {
		pid_t pid = fork();
		int status, fd;

		if (pid == 0) {
			wait_for_signal(NULL);
			_exit(0);
		}
		need(pid, "fork");
		fd = (int)raw(SYS_pidfd_open, pid, 0);
		need(fd, "pidfd_open");
		need(way == 0   ? raw(SYS_kill, pid, SIGKILL)
		     : way == 1 ? raw(SYS_tgkill, pid, pid, SIGKILL)
				: raw(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0),
		     "signal");
		need(waitpid(pid, &status, 0), "wait");
	}
}

ALLOWED(twin_schedule, "lower the priority of oneself and of a child")
{
	const struct sched_param param = { 0 };
	pid_t pid = fork();

	if (pid == 0) {
		wait_for_signal(NULL);
		_exit(0);
	}
	need(pid, "fork");
	need(raw(SYS_setpriority, PRIO_PROCESS, 0, 5), "setpriority of oneself");
	need(raw(SYS_setpriority, PRIO_PROCESS, pid, 10), "setpriority of a child");
	need(raw(SYS_sched_setscheduler, pid, SCHED_BATCH, &param),
	     "sched_setscheduler of a child");
	need(kill(pid, SIGKILL), "kill");
}

ALLOWED(twin_pair, "talk over socket pairs and pass a descriptor")
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	char byte = 'x';
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = space,
				  .msg_controllen = sizeof(space) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int pair[2];

	need(raw(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &pair[0], sizeof(int));
	need(raw(SYS_sendmsg, pair[0], &message, 0), "sendmsg");
	need(raw(SYS_recvmsg, pair[1], &message, 0), "recvmsg");
}

ALLOWED(twin_own_proc, "read what /proc says about oneself")
{
	char data[4096];

	for (size_t i = 0; i < 5; i++) {
		static const char *const names[] = { "environ", "maps", "status", "cmdline",
						     "fd/0" };
		int fd = open(path_of("/proc/self/%s", names[i]), i < 4 ? O_RDONLY : O_PATH);

		need(fd, names[i]);
		if (i < 4)
			need(read(fd, data, sizeof(data)), names[i]);
	}
}

ALLOWED(twin_devices, "use /dev/null, /dev/zero, /dev/full and /dev/urandom")
{
	static const char *const names[] = { "/dev/null", "/dev/zero", "/dev/full",
					     "/dev/urandom" };
	char data[16];

	for (size_t i = 0; i < 4; i++) {
		int fd = open(names[i], O_RDONLY);

		need(fd, names[i]);
		need(read(fd, data, sizeof(data)), names[i]);
	}
	spoil_file("/dev/null");
}

ALLOWED(twin_filter, "install a stricter filter, and be held by it")
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { 4, code };

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	need(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
	if (raw(SYS_getppid) >= 0 || errno != EDOM)
		cannot("the own filter");
}

static int thread_ends(void *done)
{
	*(volatile int *)done = 1;
	return 0;
}

ALLOWED(twin_processes, "start processes, threads and programs")
{
	char *argv[] = { (char *)(uintptr_t) "/proc/self/exe", (char *)(uintptr_t) "list", NULL };
	static char stack[65536] __attribute__((aligned(16)));
	int done = 0, status;
	pid_t pid = clone(thread_ends, stack + sizeof(stack), CLONE_VM | SIGCHLD, &done);

	need(pid, "clone");
	need(waitpid(pid, &status, 0), "wait");
	pid = vfork();
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	need(waitpid(pid, &status, 0), "wait");
	errno = ECHILD;
	if (!done || status != 0)
		cannot("a thread and a program");
}

/* Each is left behind by its parent at once, and has to be reaped by whoever gets it. */
ALLOWED(twin_orphans, "start twenty thousand orphans, one after the other")
{
	for (int i = 0; i < 20000; i++) {
		pid_t pid = vfork();
		int status;

		if (pid == 0) {
			if (vfork() == 0)
				_exit(0);
			_exit(0);
		}
		/* Those that wait to be reaped count: a moment for that. */
		if (pid < 0 && errno == EAGAIN) {
			usleep(1000);
			continue;
		}
		need(pid, "vfork");
		need(waitpid(pid, &status, 0), "wait");
	}
}

ALLOWED(twin_limits, "use less than granted")
{
	char *data =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(data == MAP_FAILED ? -1 : 0, "mmap");
	memset(data, 1, 1 << 20);
	for (int i = 0; i < 20; i++)
		need(open("/dev/null", O_RDONLY), "open");
	spoil_fd(make("small"));
}

ALLOWED(twin_home, "write into the private folder that HOME and TMPDIR name")
{
	const char *home = getenv("HOME"), *temporary = getenv("TMPDIR");

	errno = ENOENT;
	if (!home || !temporary)
		cannot("HOME and TMPDIR");
	need(open(path_of("%s/x", home), O_CREAT | O_WRONLY, 0600), "a file in HOME");
	need(open(path_of("%s/y", temporary), O_CREAT | O_WRONLY, 0600), "a file in TMPDIR");
}

ALLOWED(twin_debug, "trace an own child, where debugging is allowed")
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (raw(SYS_ptrace, 0 /* PTRACE_TRACEME */, 0, 0, 0) < 0)
			_exit(errno);
		raise(SIGSTOP);
		_exit(0);
	}
	need(pid, "fork");
	need(waitpid(pid, &status, 0), "wait");
	if (!WIFSTOPPED(status)) {
		errno = WEXITSTATUS(status);
		cannot("PTRACE_TRACEME");
	}
	need(kill(pid, SIGKILL), "kill");
}
