/* metadata.c - modes, owners, times, attributes and watches of files that may not be written */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif

#define METADATA_WALL EACCES, EPERM, EROFS

static int open_readable(void)
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, readable("file"), O_RDONLY);

	need(fd, "a readable file");
	return fd;
}

ATTACK(chmod_outside, ESCAPE, "open a private file outside to everybody (chmod)")
{
	expect_denied(raw(SYS_chmod, outside("secret"), 0666), METADATA_WALL);
}

ATTACK(fchmodat_outside, ESCAPE, "the same by fchmodat")
{
	expect_denied(raw(SYS_fchmodat, AT_FDCWD, outside("secret"), 0666), METADATA_WALL);
}

ATTACK(fchmodat2_outside, ESCAPE, "the same by fchmodat2")
{
	expect_denied(raw(SYS_fchmodat2, AT_FDCWD, outside("secret"), 0666, 0), METADATA_WALL,
		      ENOSYS);
}

ATTACK(fchmod_readable, ESCAPE, "change the mode by a descriptor that is open for reading")
{
	expect_denied(raw(SYS_fchmod, open_readable(), 0666), METADATA_WALL);
}

ATTACK(chmod_by_proc, ESCAPE, "change the mode by /proc/self/fd and an O_PATH descriptor")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, outside("secret"), O_PATH);

	need(fd, "O_PATH");
	expect_denied(raw(SYS_chmod, path_of("/proc/self/fd/%d", fd), 0666), METADATA_WALL);
}

ATTACK(chmod_by_link, ESCAPE, "change the mode through a link in the writable folder")
{
	need(raw(SYS_symlinkat, outside("secret"), AT_FDCWD, inside("link")), "symlink");
	expect_denied(raw(SYS_chmod, inside("link"), 0666), METADATA_WALL);
}

ATTACK(chmod_program, ESCAPE, "change the mode of a program in the readable folder")
{
	expect_denied(raw(SYS_chmod, readable("file"), 0777), METADATA_WALL);
}

ATTACK(chown_outside, ESCAPE, "change the owner of a file outside")
{
	expect_denied(raw(SYS_chown, outside("victim"), getuid(), getgid()), METADATA_WALL);
}

ATTACK(lchown_outside, ESCAPE, "change the owner of a link outside")
{
	expect_denied(raw(SYS_lchown, outside("pointer"), getuid(), getgid()), METADATA_WALL);
}

ATTACK(fchown_readable, ESCAPE, "change the owner by a descriptor that is open for reading")
{
	expect_denied(raw(SYS_fchown, open_readable(), getuid(), getgid()), METADATA_WALL);
}

ATTACK(fchownat_outside, ESCAPE, "change the owner by fchownat")
{
	expect_denied(raw(SYS_fchownat, AT_FDCWD, outside("victim"), getuid(), getgid(), 0),
		      METADATA_WALL);
}

ATTACK(utime_outside, ESCAPE, "change the times of a file outside (utime)")
{
	const struct utimbuf times = { 1, 1 };

	expect_denied(raw(SYS_utime, outside("victim"), &times), METADATA_WALL);
}

ATTACK(utimes_outside, ESCAPE, "the same by utimes")
{
	const struct timeval times[2] = { { 1, 0 }, { 1, 0 } };

	expect_denied(raw(SYS_utimes, outside("victim"), times), METADATA_WALL);
}

ATTACK(futimesat_outside, ESCAPE, "the same by futimesat")
{
	const struct timeval times[2] = { { 1, 0 }, { 1, 0 } };

	expect_denied(raw(SYS_futimesat, AT_FDCWD, outside("victim"), times), METADATA_WALL);
}

ATTACK(utimensat_outside, ESCAPE, "the same by utimensat")
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	expect_denied(raw(SYS_utimensat, AT_FDCWD, outside("victim"), times, 0), METADATA_WALL);
}

ATTACK(futimens_readable, ESCAPE, "change the times by a descriptor that is open for reading")
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	expect_denied(raw(SYS_utimensat, open_readable(), NULL, times, 0), METADATA_WALL);
}

ATTACK(setxattr_outside, ESCAPE, "set an extended attribute of a file outside")
{
	expect_denied(raw(SYS_setxattr, outside("victim"), "user.brig", "x", 1, 0), METADATA_WALL);
}

ATTACK(lsetxattr_outside, ESCAPE, "the same by lsetxattr")
{
	expect_denied(raw(SYS_lsetxattr, outside("victim"), "user.brig", "x", 1, 0), METADATA_WALL);
}

ATTACK(fsetxattr_readable, ESCAPE, "the same by a descriptor that is open for reading")
{
	expect_denied(raw(SYS_fsetxattr, open_readable(), "user.brig", "x", 1, 0), METADATA_WALL);
}

ATTACK(removexattr_outside, ESCAPE, "remove an extended attribute of a file outside")
{
	expect_denied(raw(SYS_removexattr, outside("secret"), "user.note"), METADATA_WALL);
}

ATTACK(fremovexattr_readable, ESCAPE, "the same by a descriptor that is open for reading")
{
	expect_denied(raw(SYS_fremovexattr, open_readable(), "user.note"), METADATA_WALL);
}

ATTACK(access_list_outside, ESCAPE, "give everybody rights by a POSIX access list")
{
	/* Version 2; user::rw- group::rw- other::rw- */
	static const unsigned char list[] = { 2,   0,   0, 0, 1,   0,   6,   0,   255, 255,
					      255, 255, 4, 0, 6,   0,   255, 255, 255, 255,
					      32,  0,   6, 0, 255, 255, 255, 255 };

	expect_denied(raw(SYS_setxattr, outside("secret"), "system.posix_acl_access", list,
			  sizeof(list), 0),
		      METADATA_WALL);
}

ATTACK(flags_readable, ESCAPE, "change the inode flags by a descriptor that is open for reading")
{
	int flags, fd = open_readable();

	need(ioctl(fd, FS_IOC_GETFLAGS, &flags), "FS_IOC_GETFLAGS");
	flags ^= FS_NODUMP_FL;
	expect_denied(ioctl(fd, FS_IOC_SETFLAGS, &flags), METADATA_WALL, ENOTTY);
}

ATTACK(lease_readable, PEER_DOS, "take a lease that makes writers of a readable file wait")
{
	expect_denied(fcntl(open_readable(), F_SETLEASE, F_RDLCK), METADATA_WALL);
}

ATTACK(watch_outside, HOST_LEAK, "watch what happens in a folder outside (inotify)")
{
	int fd = (int)raw(SYS_inotify_init1, 0);

	need(fd, "inotify_init1");
	expect_denied(raw(SYS_inotify_add_watch, fd, scene("outside"), IN_ALL_EVENTS),
		      METADATA_WALL);
}

ATTACK(mark_outside, HOST_LEAK, "watch a file system (fanotify)")
{
	expect_denied(raw(SYS_fanotify_init, 0, O_RDONLY), METADATA_WALL, ENOSYS);
}

ATTACK(mark_outside_unprivileged, HOST_LEAK, "watch a folder as an ordinary user may (fanotify)")
{
	expect_denied(raw(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY), METADATA_WALL,
		      ENOSYS);
}

/*
 * Races against whoever judges a call before it is carried out: a second thread of the attacker
 * changes what the path means, or the path itself, between the look and the act.
 */
#define RACE_ROUNDS 3000

static char raced_path[4096];
static const char *good_path, *bad_path;

static int swap_memory(void *unused)
{
	(void)unused;
	for (;;) {
		memcpy(raced_path, bad_path, strlen(bad_path) + 1);
		memcpy(raced_path, good_path, strlen(good_path) + 1);
	}
	return 0;
}

static int swap_links(void *unused)
{
	(void)unused;
	for (;;)
		raw(SYS_renameat2, AT_FDCWD, inside("raced"), AT_FDCWD, inside("twisted"),
		    RENAME_EXCHANGE);
	return 0;
}

static void race(int (*swap)(void *))
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(swap, stack + sizeof(stack), CLONE_VM | CLONE_FS | SIGCHLD, NULL);
	struct stat st;

	need(pid, "clone");
	for (int i = 0; i < RACE_ROUNDS; i++)
		raw(SYS_chmod, raced_path, 0604);
	need(kill(pid, SIGKILL), "kill");
	need(waitpid(pid, NULL, 0), "wait");
	need(stat(outside("secret"), &st), "stat");
	if ((st.st_mode & 0777) != 0604)
		denied(EPERM);
}

static void make_own(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	need(fd, "a file of one's own");
	close(fd);
}

ATTACK(race_memory, ESCAPE, "change the path in memory while its mode is being changed")
{
	good_path = inside("own");
	bad_path = outside("secret");
	make_own(good_path);
	memcpy(raced_path, good_path, strlen(good_path) + 1);
	race(swap_memory);
}

ATTACK(race_links, ESCAPE,
       "exchange a file for a link to the outside while its mode is being changed")
{
	make_own(inside("raced"));
	need(raw(SYS_symlinkat, outside("secret"), AT_FDCWD, inside("twisted")), "symlink");
	memcpy(raced_path, inside("raced"), strlen(inside("raced")) + 1);
	race(swap_links);
}
