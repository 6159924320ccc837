/*
 * guards.c - names in a writable folder that the policy takes back
 *
 *	work            write
 *	work/guarded    read, and does not exist
 *	work/nest       exists; work/nest/guarded read, and does not exist
 *	work/protected  a file, read
 *	work/kept/deep  a folder, read
 *	work/hidden     a file with the secret word, none
 *	work/closet     a folder with such a file, none
 *	work/linked     a link to a file that may be read, read
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define GUARD_WALL EACCES, EPERM, EROFS, EBUSY, EXDEV, ENOSYS

static int make(const char *path, int flags)
{
	return (int)expect_denied(raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | flags, 0644),
				  GUARD_WALL);
}

static void own_folder(const char *path)
{
	need(raw(SYS_mkdirat, AT_FDCWD, path, 0755), path);
}

static void own_file(const char *path)
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0644);

	need(fd, path);
	close(fd);
}

ATTACK(guard_open, ESCAPE, "make a guarded name: open")
{
	make(inside("guarded"), O_EXCL);
}

ATTACK(guard_open_old, ESCAPE, "make a guarded name: the old call")
{
	expect_denied(raw(SYS_open, inside("guarded"), O_WRONLY | O_CREAT, 0644), GUARD_WALL);
}

ATTACK(guard_creat, ESCAPE, "make a guarded name: creat")
{
	expect_denied(raw(SYS_creat, inside("guarded"), 0644), GUARD_WALL);
}

ATTACK(guard_openat2, ESCAPE, "make a guarded name: openat2")
{
	const uint64_t how[3] = { O_CREAT | O_WRONLY, 0644, 0 };

	expect_denied(raw(SYS_openat2, AT_FDCWD, inside("guarded"), how, sizeof(how)), GUARD_WALL);
}

ATTACK(guard_mkdir, ESCAPE, "make a guarded name: mkdir")
{
	expect_denied(raw(SYS_mkdirat, AT_FDCWD, inside("guarded"), 0755), GUARD_WALL);
}

ATTACK(guard_fifo, ESCAPE, "make a guarded name: mknod")
{
	expect_denied(raw(SYS_mknodat, AT_FDCWD, inside("guarded"), S_IFIFO | 0644, 0), GUARD_WALL);
}

ATTACK(guard_symlink, ESCAPE, "make a guarded name: symlink")
{
	expect_denied(raw(SYS_symlinkat, "nest", AT_FDCWD, inside("guarded")), GUARD_WALL);
}

ATTACK(guard_link, ESCAPE, "make a guarded name: link")
{
	own_file(inside("mine"));
	expect_denied(raw(SYS_linkat, AT_FDCWD, inside("mine"), AT_FDCWD, inside("guarded"), 0),
		      GUARD_WALL);
}

ATTACK(guard_rename, ESCAPE, "make a guarded name: rename")
{
	own_file(inside("mine"));
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("mine"), AT_FDCWD, inside("guarded")),
		      GUARD_WALL);
}

ATTACK(guard_rename_old, ESCAPE, "make a guarded name: the old rename")
{
	own_file(inside("mine"));
	expect_denied(raw(SYS_rename, inside("mine"), inside("guarded")), GUARD_WALL);
}

ATTACK(guard_rename_folder, ESCAPE, "make a guarded name: rename of a folder with content")
{
	own_folder(inside("mine"));
	own_file(inside("mine/hook"));
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("mine"), AT_FDCWD, inside("guarded"),
			  RENAME_NOREPLACE),
		      GUARD_WALL);
}

ATTACK(guard_tmpfile, ESCAPE, "make a guarded name: O_TMPFILE and linkat")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, scene("work"), O_TMPFILE | O_WRONLY, 0644);

	need(fd, "O_TMPFILE");
	expect_denied(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD,
			  inside("guarded"), AT_SYMLINK_FOLLOW),
		      GUARD_WALL);
}

ATTACK(guard_tmpfile_empty, ESCAPE, "make a guarded name: O_TMPFILE and AT_EMPTY_PATH")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, scene("work"), O_TMPFILE | O_WRONLY, 0644);

	need(fd, "O_TMPFILE");
	expect_denied(raw(SYS_linkat, fd, "", AT_FDCWD, inside("guarded"), AT_EMPTY_PATH),
		      GUARD_WALL);
}

ATTACK(guard_socket, ESCAPE, "make a guarded name: bind of a UNIX socket")
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = (int)raw(SYS_socket, AF_UNIX, SOCK_STREAM, 0);

	need(fd, "socket");
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", inside("guarded"));
	expect_denied(raw(SYS_bind, fd, &name, sizeof(name)), GUARD_WALL);
}

ATTACK(guard_by_descriptor, ESCAPE, "make a guarded name by the descriptor of its folder")
{
	int dir = open(inside("nest"), O_PATH | O_DIRECTORY);

	need(dir, "nest");
	expect_denied(raw(SYS_mkdirat, dir, "guarded", 0755), GUARD_WALL);
}

ATTACK(guard_by_cwd, ESCAPE, "make a guarded name in the working folder")
{
	need(chdir(inside("nest")), "chdir");
	make("guarded", 0);
}

ATTACK(guard_by_dots, ESCAPE, "make a guarded name with dots and slashes")
{
	make(inside("nest/.././/nest//./guarded"), 0);
}

ATTACK(guard_by_slash, ESCAPE, "make a guarded folder with a slash behind")
{
	expect_denied(raw(SYS_mkdirat, AT_FDCWD, inside("guarded///"), 0755), GUARD_WALL);
}

ATTACK(guard_by_root, ESCAPE, "make a guarded name by /proc/self/root")
{
	make(path_of("/proc/self/root%s", inside("guarded")), 0);
}

ATTACK(guard_by_proc_cwd, ESCAPE, "make a guarded name by /proc/self/cwd")
{
	need(chdir(inside("nest")), "chdir");
	make("/proc/self/cwd/guarded", 0);
}

ATTACK(guard_by_proc_fd, ESCAPE, "make a guarded name by /proc/thread-self/fd")
{
	int dir = open(inside("nest"), O_PATH | O_DIRECTORY);

	need(dir, "nest");
	make(path_of("/proc/thread-self/fd/%d/guarded", dir), 0);
}

ATTACK(guard_by_link, ESCAPE, "make a guarded name through a link to its folder")
{
	need(raw(SYS_symlinkat, "nest", AT_FDCWD, inside("alias")), "symlink");
	make(inside("alias/guarded"), 0);
}

ATTACK(guard_by_last_link, ESCAPE, "make a guarded name through a link that dangles there")
{
	need(raw(SYS_symlinkat, "nest/guarded", AT_FDCWD, inside("alias")), "symlink");
	make(inside("alias"), 0);
}

ATTACK(guard_by_new_folder, ESCAPE, "move the folder of a guarded name away, another in its place")
{
	own_folder(inside("mine"));
	own_folder(inside("mine/guarded"));
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("nest"), AT_FDCWD, inside("away")),
		      GUARD_WALL);
	need(raw(SYS_renameat, AT_FDCWD, inside("mine"), AT_FDCWD, inside("nest")), "rename");
}

ATTACK(guard_by_exchange, ESCAPE, "exchange the folder of a guarded name for one that has it")
{
	own_folder(inside("mine"));
	own_folder(inside("mine/guarded"));
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("nest"), AT_FDCWD, inside("mine"),
			  RENAME_EXCHANGE),
		      GUARD_WALL);
}

ATTACK(guard_by_exchange_back, ESCAPE, "the same, the other way round")
{
	own_folder(inside("mine"));
	own_folder(inside("mine/guarded"));
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("mine"), AT_FDCWD, inside("nest"),
			  RENAME_EXCHANGE),
		      GUARD_WALL);
}

ATTACK(guard_by_removal, ESCAPE, "remove the folder of a guarded name, make it anew as a link")
{
	own_folder(inside("mine"));
	own_folder(inside("mine/guarded"));
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, inside("nest"), AT_REMOVEDIR), GUARD_WALL);
	need(raw(SYS_symlinkat, "mine", AT_FDCWD, inside("nest")), "symlink");
}

ATTACK(guard_other_case, ESCAPE, "make a guarded name in capital letters")
{
	make(inside("GUARDED"), 0);
}

/* For a second: one thread exchanges folders, the other makes names in what is called "mine". */
static int exchange_folders(void *unused)
{
	(void)unused;
	for (;;) {
		raw(SYS_renameat2, AT_FDCWD, inside("mine"), AT_FDCWD, inside("other"),
		    RENAME_EXCHANGE);
		raw(SYS_renameat, AT_FDCWD, inside("mine/guarded"), AT_FDCWD, inside("mine/other"));
		raw(SYS_renameat2, AT_FDCWD, inside("nest"), AT_FDCWD, inside("other"),
		    RENAME_EXCHANGE);
	}
	return 0;
}

static int exchange_links(void *unused)
{
	(void)unused;
	for (;;)
		raw(SYS_renameat2, AT_FDCWD, inside("mine"), AT_FDCWD, inside("alias"),
		    RENAME_EXCHANGE);
	return 0;
}

static void race(int (*swap)(void *))
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(swap, stack + sizeof(stack), CLONE_VM | CLONE_FS | SIGCHLD, NULL);
	struct timespec start, now;

	need(pid, "clone");
	need(clock_gettime(CLOCK_MONOTONIC, &start), "clock_gettime");
	do {
		raw(SYS_mkdirat, AT_FDCWD, inside("mine/guarded"), 0755);
		raw(SYS_openat, AT_FDCWD, inside("mine/guarded"), O_WRONLY | O_CREAT, 0644);
		raw(SYS_unlinkat, AT_FDCWD, inside("mine/guarded"), AT_REMOVEDIR);
		need(clock_gettime(CLOCK_MONOTONIC, &now), "clock_gettime");
	} while (now.tv_sec - start.tv_sec < 2 && access(inside("nest/guarded"), F_OK) != 0);
	need(kill(pid, SIGKILL), "kill");
	need(waitpid(pid, NULL, 0), "wait");
	if (access(inside("nest/guarded"), F_OK) != 0)
		denied(EACCES);
}

ATTACK(guard_race_folders, ESCAPE, "make a guarded name while a thread exchanges folders")
{
	own_folder(inside("mine"));
	own_folder(inside("other"));
	race(exchange_folders);
}

ATTACK(guard_race_links, ESCAPE, "make a guarded name while a thread exchanges a folder for a link")
{
	own_folder(inside("mine"));
	need(raw(SYS_symlinkat, "nest", AT_FDCWD, inside("alias")), "symlink");
	race(exchange_links);
}

/* What exists. */
ATTACK(protected_write, ESCAPE, "write to a protected file")
{
	spoil_file(inside("protected"));
}

ATTACK(protected_write_creating, ESCAPE, "write to a protected file, opened with O_CREAT")
{
	spoil_fd(make(inside("protected"), 0));
}

ATTACK(protected_truncate, ESCAPE, "truncate a protected file")
{
	expect_denied(raw(SYS_truncate, inside("protected"), 0), GUARD_WALL);
}

ATTACK(protected_truncate_on_open, ESCAPE, "truncate a protected file by opening it")
{
	make(inside("protected"), O_TRUNC);
}

ATTACK(protected_unlink, ESCAPE, "remove a protected file")
{
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, inside("protected"), 0), GUARD_WALL);
}

ATTACK(protected_replace, ESCAPE, "move another file over a protected one")
{
	own_file(inside("mine"));
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("mine"), AT_FDCWD, inside("protected")),
		      GUARD_WALL);
}

ATTACK(protected_exchange, ESCAPE, "exchange a protected file for another")
{
	own_file(inside("mine"));
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("protected"), AT_FDCWD, inside("mine"),
			  RENAME_EXCHANGE),
		      GUARD_WALL);
}

ATTACK(protected_link, ESCAPE, "give a protected file a second name, and write to it there")
{
	expect_denied(raw(SYS_linkat, AT_FDCWD, inside("protected"), AT_FDCWD, inside("mine"), 0),
		      GUARD_WALL);
	spoil_file(inside("mine"));
}

ATTACK(protected_link_by_descriptor, ESCAPE, "the same by /proc/self/fd")
{
	int fd = open(inside("protected"), O_RDONLY);

	need(fd, "protected");
	expect_denied(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD,
			  inside("mine"), AT_SYMLINK_FOLLOW),
		      GUARD_WALL);
	spoil_file(inside("mine"));
}

ATTACK(protected_reopen, ESCAPE,
       "open a protected file for reading, then by its descriptor for writing")
{
	int fd = open(inside("protected"), O_RDONLY);

	need(fd, "protected");
	spoil_file(path_of("/proc/self/fd/%d", fd));
}

ATTACK(protected_by_root, ESCAPE, "write to a protected file by /proc/self/root")
{
	spoil_file(path_of("/proc/self/root%s", inside("protected")));
}

ATTACK(protected_by_cwd, ESCAPE, "write to a protected file by /proc/self/cwd")
{
	need(chdir(scene("work")), "chdir");
	spoil_file("/proc/self/cwd/protected");
}

ATTACK(protected_by_link, ESCAPE, "write to a protected file through a link")
{
	need(raw(SYS_symlinkat, "protected", AT_FDCWD, inside("alias")), "symlink");
	spoil_file(inside("alias"));
}

ATTACK(protected_chmod, ESCAPE, "change the mode of a protected file")
{
	expect_denied(raw(SYS_chmod, inside("protected"), 0666), GUARD_WALL);
}

ATTACK(protected_chmod_setgid, ESCAPE,
       "let the keeper change the mode of a protected folder (setgid)")
{
	expect_denied(raw(SYS_chmod, inside("kept/deep"), S_ISGID | 0777), GUARD_WALL);
}

ATTACK(protected_times, ESCAPE, "change the times of a protected file")
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	expect_denied(raw(SYS_utimensat, AT_FDCWD, inside("protected"), times, 0), GUARD_WALL);
}

ATTACK(protected_attribute, ESCAPE, "set an attribute of a protected file")
{
	expect_denied(raw(SYS_setxattr, inside("protected"), "user.brig", "x", 1, 0), GUARD_WALL);
}

ATTACK(protected_folder_create, ESCAPE, "make a file in a protected folder")
{
	make(inside("kept/deep/new"), 0);
}

ATTACK(protected_folder_rename, ESCAPE, "move a protected folder away")
{
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("kept/deep"), AT_FDCWD, inside("away")),
		      GUARD_WALL);
}

ATTACK(protected_parent_rename, ESCAPE, "move the folder around a protected one away")
{
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("kept"), AT_FDCWD, inside("away")),
		      GUARD_WALL);
	own_folder(inside("kept"));
	own_folder(inside("kept/deep"));
}

ATTACK(protected_parent_exchange, ESCAPE, "exchange the folder around a protected one")
{
	own_folder(inside("mine"));
	own_folder(inside("mine/deep"));
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("kept"), AT_FDCWD, inside("mine"),
			  RENAME_EXCHANGE),
		      GUARD_WALL);
}

ATTACK(protected_root_rename, ESCAPE, "move the whole writable folder away")
{
	expect_denied(raw(SYS_renameat, AT_FDCWD, scene("work"), AT_FDCWD,
			  path_of("%s-away", scene("work"))),
		      GUARD_WALL);
	need(raw(SYS_renameat, AT_FDCWD, path_of("%s-away", scene("work")), AT_FDCWD,
		 scene("work")),
	     "rename");
	need(raw(SYS_unlinkat, AT_FDCWD, inside("protected"), 0), "unlink");
}

ATTACK(protected_link_replaced, ESCAPE, "put a file in the place of a protected link")
{
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, inside("linked"), 0), GUARD_WALL);
	spoil_fd(make(inside("linked"), 0));
}

ATTACK(hidden_read, HOST_LEAK, "read a hidden file")
{
	leak_file(inside("hidden"));
}

ATTACK(hidden_read_by_root, HOST_LEAK, "read a hidden file by /proc/self/root")
{
	leak_file(path_of("/proc/self/root%s", inside("hidden")));
}

ATTACK(hidden_read_creating, HOST_LEAK, "read a hidden file, opened with O_CREAT")
{
	leak_fd((int)expect_denied(
		raw(SYS_openat, AT_FDCWD, inside("hidden"), O_RDWR | O_CREAT, 0644), GUARD_WALL));
}

ATTACK(hidden_write, ESCAPE, "write to a hidden file")
{
	spoil_file(inside("hidden"));
}

ATTACK(hidden_open_up, HOST_LEAK, "change the mode of what hides a file")
{
	expect_denied(raw(SYS_chmod, inside("hidden"), 0666), GUARD_WALL);
	leak_file(inside("hidden"));
}

ATTACK(hidden_unlink, ESCAPE, "remove a hidden file")
{
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, inside("hidden"), 0), GUARD_WALL);
}

ATTACK(hidden_rename, HOST_LEAK, "move a hidden file to another name")
{
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("hidden"), AT_FDCWD, inside("mine")),
		      GUARD_WALL);
	leak_file(inside("mine"));
}

ATTACK(hidden_folder_list, HOST_LEAK, "list a hidden folder")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, inside("closet"), O_RDONLY | O_DIRECTORY),
		      GUARD_WALL);
	leak_file(inside("closet/skeleton"));
}

ATTACK(hidden_folder_open_up, HOST_LEAK, "change the mode of what hides a folder")
{
	expect_denied(raw(SYS_chmod, inside("closet"), 0777), GUARD_WALL);
	leak_file(inside("closet/skeleton"));
}

ATTACK(hidden_folder_write, ESCAPE, "make a file in a hidden folder: no silent success")
{
	make(inside("closet/new"), 0);
}

ATTACK(hidden_folder_unmount, ESCAPE, "take away what hides a folder")
{
	raw(SYS_umount2, inside("closet"), 2 /* MNT_DETACH */);
	leak_file(inside("closet/skeleton"));
}
