/* namespaces.c - what of the host can still be seen or named: its namespaces, names, processes and
 * the root that it had before */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define NAMESPACE_WALL EPERM, EACCES, ENOSYS, ENOSPC

/* The number of the namespace is that of the host's, which the scene says. */
static void same_namespace(const char *name)
{
	struct stat st;

	need(stat(path_of("/proc/self/ns/%s", name), &st), name);
	if (st.st_ino != (ino_t)scene_number(path_of("ns_%s", name)))
		not_there(ENOENT);
}

#define SAME(id)                                                                    \
	ATTACK(same_##id##_namespace, ESCAPE, "be in the host's " #id " namespace") \
	{                                                                           \
		same_namespace(#id);                                                \
	}

SAME(mnt)
SAME(pid)
SAME(net)
SAME(ipc)
SAME(uts)
SAME(cgroup)
SAME(user)
SAME(time)

ATTACK(list_processes, HOST_LEAK, "find the process outside among the numbers of /proc")
{
	for (int pid = 1; pid < 40000; pid++) {
		char text[4096];
		int fd = open(path_of("/proc/%d/cmdline", pid), O_RDONLY);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

		if (n > 0 && memmem(text, (size_t)n, "attack\0victim", 14)) {
			leak(text, (size_t)n);
			return;
		}
		if (fd >= 0)
			close(fd);
	}
	not_there(ESRCH);
}

ATTACK(root_by_dots, HOST_LEAK, "read a file outside by many \"..\" above the root")
{
	leak_file(path_of("/../../../../../../../../..%s", outside("secret")));
}

ATTACK(root_by_folder, HOST_LEAK, "climb out of the root by a kept descriptor, fchdir and \"..\"")
{
	int dir = open("/", O_RDONLY | O_DIRECTORY);

	need(dir, "/");
	need(chdir(scene("work")), "chdir");
	need(fchdir(dir), "fchdir");
	for (int i = 0; i < 64; i++)
		need(chdir(".."), "chdir");
	leak_file(scene("outside") + 1 /* relative */);
	leak_file(outside("secret") + 1);
}

ATTACK(root_of_descriptor, HOST_LEAK,
       "climb from the working folder's descriptor to the root's \"..\"")
{
	int dir = open(".", O_PATH | O_DIRECTORY);

	need(dir, ".");
	for (int i = 0; i < 64; i++) {
		int above = openat(dir, "..", O_PATH | O_DIRECTORY);

		need(above, "..");
		close(dir);
		dir = above;
	}
	leak_fd((int)expect_denied(raw(SYS_openat, dir, outside("secret") + 1, O_RDONLY), EACCES,
				   EPERM));
}

ATTACK(root_of_init, HOST_LEAK, "read a file outside by the root of process 1")
{
	leak_file(path_of("/proc/1/root%s", outside("secret")));
}

/* Every process that can be seen, by everything that leads out of it. */
ATTACK(root_of_anybody, HOST_LEAK, "read a file outside by root or cwd of any process in /proc")
{
	for (int pid = 1; pid < 40000; pid++) {
		int fd = open(path_of("/proc/%d/root%s", pid, outside("secret")), O_RDONLY);

		if (fd < 0)
			fd = open(path_of("/proc/%d/cwd/../outside/secret", pid), O_RDONLY);
		if (fd < 0)
			continue;
		leak_fd(fd);
		return;
	}
	denied(EACCES);
}

ATTACK(inherited_folder, ESCAPE, "find a descriptor of a folder, and climb from it")
{
	for (int fd = 0; fd < 1024; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
			leak_fd((int)expect_denied(raw(SYS_openat, fd, "secret", O_RDONLY), EACCES,
						   EPERM));
			return;
		}
	}
	denied(EBADF);
}

/* In a child: the control must not leave its namespaces. */
static const char *nested_type;

static void mount_nested(void *unused)
{
	(void)unused;
	if (raw(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) < 0)
		_exit(1);
	if (fork() == 0) {
		int r = (int)raw(SYS_mount, "none", inside("mnt"), nested_type, 0, NULL);

		_exit(r < 0);
	}
	int status = 1;

	wait(&status);
	_exit(WEXITSTATUS(status));
}

static void fresh(const char *type)
{
	nested_type = type;
	if (WEXITSTATUS(in_child(mount_nested, NULL)) != 0)
		denied(EPERM);
}

ATTACK(fresh_proc, ESCAPE, "mount a fresh procfs, unmasked, in a user namespace of one's own")
{
	fresh("proc");
}

ATTACK(fresh_sysfs, ESCAPE, "mount a fresh sysfs in a user namespace of one's own")
{
	fresh("sysfs");
}

ATTACK(fresh_tmpfs, ESCAPE, "mount a tmpfs in a user namespace of one's own")
{
	fresh("tmpfs");
}

ATTACK(setns_init, ESCAPE, "enter the mount namespace of process 1")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, "/proc/1/ns/mnt", O_RDONLY),
				    NAMESPACE_WALL);

	expect_denied(past_the_gate(raw(SYS_setns, fd, CLONE_NEWNS), EINVAL), NAMESPACE_WALL);
}

ATTACK(setns_parent, ESCAPE, "enter the namespaces of the parent by its pidfd")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, getppid(), 0), NAMESPACE_WALL);

	expect_denied(raw(SYS_setns, fd, CLONE_NEWUTS), NAMESPACE_WALL);
}

ATTACK(pidfd_namespace, ESCAPE,
       "get a namespace of the parent from its pidfd (PIDFD_GET_MNT_NAMESPACE)")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, getppid(), 0), NAMESPACE_WALL);

	expect_denied(raw(SYS_ioctl, fd, 0xff03, 0), NAMESPACE_WALL, ENOTTY);
}

/* Names of the host. */
ATTACK(host_name, HOST_LEAK, "learn the host's name")
{
	struct utsname name;

	need(uname(&name), "uname");
	if (strcmp(name.nodename, scene("hostname")) != 0)
		not_there(ENOENT);
}

ATTACK(domain_name, HOST_LEAK, "learn the host's domain")
{
	struct utsname name;

	need(uname(&name), "uname");
	if (strcmp(name.domainname, scene("hostname")) != 0)
		not_there(ENOENT);
}

static void find_in(const char *path, const char *word)
{
	static char text[1 << 20];
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, path, O_RDONLY), EACCES, EPERM);
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(text) && (n = read(fd, text + len, sizeof(text) - len)) > 0)
		len += (size_t)n;
	close(fd);
	if (!memmem(text, len, word, strlen(word)))
		not_there(ENOENT);
	leak(text, len);
}

ATTACK(user_names, HOST_LEAK, "learn the names of the host's users")
{
	find_in("/etc/passwd", "brigattack:");
}

ATTACK(mount_names, HOST_LEAK, "learn what is mounted on the host")
{
	find_in("/proc/self/mountinfo", scene("mounted"));
}

ATTACK(mount_names_old, HOST_LEAK, "the same by /proc/mounts")
{
	find_in("/proc/mounts", scene("mounted"));
}

ATTACK(disk_names, HOST_LEAK, "learn the host's disks from /proc/self/mountinfo")
{
	find_in("/proc/self/mountinfo", " /dev/");
}

ATTACK(partition_names, HOST_LEAK, "learn the host's disks from /proc/partitions")
{
	find_in("/proc/partitions", "da");
}

ATTACK(boot_identity, HOST_LEAK, "learn which boot of which host this is")
{
	find_in("/proc/sys/kernel/random/boot_id", scene("boot_id"));
}

ATTACK(kernel_command_line, HOST_LEAK, "read the kernel's command line")
{
	find_in("/proc/cmdline", "=");
}

ATTACK(cgroup_names, HOST_LEAK, "learn the own place among the host's cgroups")
{
	char line[512];
	FILE *file = fopen("/proc/self/cgroup", "re");

	need(file ? 0 : -1, "/proc/self/cgroup");
	while (fgets(line, sizeof(line), file)) {
		const char *path = strrchr(line, ':');

		if (path && strcmp(path, ":/\n") != 0)
			return;
	}
	not_there(ENOENT);
}

ATTACK(time_since_boot, HOST_LEAK, "learn how long the host has been running")
{
	struct timespec now;
	long difference;

	need(clock_gettime(CLOCK_BOOTTIME, &now), "clock_gettime");
	difference = now.tv_sec - scene_number("uptime");
	if (difference < -60 || difference > 600)
		not_there(ENOENT);
}

ATTACK(network_names, HOST_LEAK, "learn the host's network interfaces and listeners")
{
	find_in("/proc/net/tcp", path_of(":%04lX ", scene_number("tcp4")));
}

ATTACK(unix_names, HOST_LEAK, "learn the host's UNIX sockets")
{
	find_in("/proc/net/unix", scene("unix_stream"));
}

ATTACK(ipc_names, HOST_LEAK, "learn the host's shared memory segments")
{
	find_in("/proc/sysvipc/shm", path_of(" %ld ", scene_number("segment")));
}

ATTACK(write_own_root, LATERAL, "make a file in a folder of the system that the sandbox owns")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path_of("/etc/%s", "brig-attack-made"),
			  O_WRONLY | O_CREAT | O_EXCL, 0600),
		      EACCES, EPERM, EROFS);
	raw(SYS_unlinkat, AT_FDCWD, "/etc/brig-attack-made", 0);
}

ATTACK(write_own_device, LATERAL, "make a file in /dev")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, "/dev/brig-attack-made",
			  O_WRONLY | O_CREAT | O_EXCL, 0600),
		      EACCES, EPERM, EROFS);
	raw(SYS_unlinkat, AT_FDCWD, "/dev/brig-attack-made", 0);
}
