/* files.c - contents and names of files outside the granted trees, by every spelling */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FILE_WALL EACCES, EPERM, EXDEV, EROFS

static int try_open(const char *path, int flags)
{
	return (int)expect_denied(raw(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600), EACCES,
				  EPERM, ENOENT, EROFS);
}

ATTACK(read_secret, HOST_LEAK, "read a file outside")
{
	leak_file(outside("secret"));
}

ATTACK(read_ssh_key, HOST_LEAK, "read ~/.ssh/id_ed25519")
{
	leak_file(path_of("%s/.ssh/id_ed25519", scene("home")));
}

ATTACK(read_cloud_key, HOST_LEAK, "read ~/.aws/credentials")
{
	leak_file(path_of("%s/.aws/credentials", scene("home")));
}

ATTACK(read_docker_key, HOST_LEAK, "read ~/.docker/config.json")
{
	leak_file(path_of("%s/.docker/config.json", scene("home")));
}

ATTACK(read_netrc, HOST_LEAK, "read ~/.netrc")
{
	leak_file(path_of("%s/.netrc", scene("home")));
}

ATTACK(read_shadow, HOST_LEAK, "read /etc/shadow")
{
	leak_file("/etc/shadow");
}

ATTACK(list_folder, HOST_LEAK, "list a folder outside")
{
	char names[4096];
	int fd = try_open(scene("outside"), O_RDONLY | O_DIRECTORY);
	long n = raw(SYS_getdents64, fd, names, sizeof(names));

	need(n, "getdents64");
	leak(names, (size_t)n);
}

ATTACK(map_secret, HOST_LEAK, "map a file outside into memory")
{
	int fd = try_open(outside("secret"), O_RDONLY);
	char *data = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	need(data == MAP_FAILED ? -1 : 0, "mmap");
	leak(data, strnlen(data, 4096));
}

ATTACK(execute_outside, ESCAPE, "execute a program outside")
{
	char *argv[] = { (char *)(uintptr_t)outside("program"), NULL };

	expect_denied(raw(SYS_execve, argv[0], argv, NULL), EACCES, EPERM);
}

ATTACK(write_outside, ESCAPE, "write to a file outside")
{
	spoil_file(outside("victim"));
}

ATTACK(append_outside, ESCAPE, "append to a file outside")
{
	spoil_fd(try_open(outside("victim"), O_WRONLY | O_APPEND));
}

ATTACK(create_outside, ESCAPE, "make a file outside")
{
	try_open(outside("new"), O_WRONLY | O_CREAT | O_EXCL);
}

ATTACK(create_autostart, ESCAPE, "make a shell start file that does not exist yet")
{
	try_open(path_of("%s/.bash_aliases", scene("home")), O_WRONLY | O_CREAT);
}

ATTACK(make_folder, ESCAPE, "make a folder outside")
{
	expect_denied(raw(SYS_mkdirat, AT_FDCWD, outside("new"), 0700), FILE_WALL);
}

ATTACK(make_link, ESCAPE, "make a symbolic link outside")
{
	expect_denied(raw(SYS_symlinkat, "victim", AT_FDCWD, outside("new")), FILE_WALL);
}

ATTACK(make_fifo, ESCAPE, "make a fifo outside")
{
	expect_denied(raw(SYS_mknodat, AT_FDCWD, outside("new"), S_IFIFO | 0600, 0), FILE_WALL);
}

ATTACK(remove_file, ESCAPE, "remove a file outside")
{
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, outside("victim"), 0), FILE_WALL);
}

ATTACK(remove_folder, ESCAPE, "remove a folder outside")
{
	expect_denied(raw(SYS_unlinkat, AT_FDCWD, outside("empty"), AT_REMOVEDIR), FILE_WALL);
}

ATTACK(rename_inwards, ESCAPE, "move a file from outside into the writable folder")
{
	expect_denied(raw(SYS_renameat, AT_FDCWD, outside("victim"), AT_FDCWD, inside("got")),
		      FILE_WALL);
}

ATTACK(rename_outwards, ESCAPE, "move a file from the writable folder to the outside")
{
	int fd = try_open(inside("mine"), O_WRONLY | O_CREAT);

	close(fd);
	expect_denied(raw(SYS_renameat, AT_FDCWD, inside("mine"), AT_FDCWD, outside("new")),
		      FILE_WALL);
}

ATTACK(rename_exchange, ESCAPE, "exchange a file of the writable folder with one outside")
{
	int fd = try_open(inside("mine"), O_WRONLY | O_CREAT);

	close(fd);
	expect_denied(raw(SYS_renameat2, AT_FDCWD, inside("mine"), AT_FDCWD, outside("victim"),
			  RENAME_EXCHANGE),
		      FILE_WALL);
}

ATTACK(truncate_outside, ESCAPE, "truncate a file outside by its path")
{
	expect_denied(raw(SYS_truncate, outside("victim"), 0), FILE_WALL);
}

ATTACK(truncate_readable, ESCAPE, "truncate a file that may only be read")
{
	expect_denied(raw(SYS_truncate, readable("file"), 0), FILE_WALL);
}

ATTACK(truncate_on_open, ESCAPE, "open with O_RDONLY | O_TRUNC what may only be read")
{
	try_open(readable("file"), O_RDONLY | O_TRUNC);
}

ATTACK(write_readable, ESCAPE, "write to a file that may only be read")
{
	spoil_file(readable("file"));
}

ATTACK(reopen_for_writing, ESCAPE, "open for reading, then again for writing by /proc/self/fd")
{
	int fd = try_open(readable("file"), O_RDONLY);

	spoil_file(path_of("/proc/self/fd/%d", fd));
}

ATTACK(reopen_path_only, HOST_LEAK, "open with O_PATH, then for reading by /proc/self/fd")
{
	int fd = try_open(outside("secret"), O_PATH);

	leak_file(path_of("/proc/self/fd/%d", fd));
}

ATTACK(fallocate_readable, ESCAPE, "allocate space in a file that may only be read")
{
	int fd = try_open(readable("file"), O_RDWR);

	expect_denied(raw(SYS_fallocate, fd, 0, 0, 65536), FILE_WALL);
}

ATTACK(clone_range, ESCAPE, "share blocks with a file that may only be read (FICLONE)")
{
	int from = try_open(inside("mine"), O_RDWR | O_CREAT);
	int to = try_open(readable("file"), O_WRONLY);

	expect_denied(ioctl(to, FICLONE, from), FILE_WALL);
}

ATTACK(copy_range, ESCAPE, "copy_file_range into a file that may only be read")
{
	int from = try_open(readable("file"), O_RDONLY);
	int to = try_open(readable("other"), O_WRONLY);

	expect_denied(raw(SYS_copy_file_range, from, NULL, to, NULL, 4, 0), FILE_WALL);
}

ATTACK(splice_into, ESCAPE, "splice from a pipe into a file that may only be read")
{
	int pipe_fds[2], to = try_open(readable("file"), O_WRONLY);

	need(pipe(pipe_fds), "pipe");
	spoil_fd(pipe_fds[1]);
	expect_denied(raw(SYS_splice, pipe_fds[0], NULL, to, NULL, 7, 0), FILE_WALL);
}

ATTACK(map_for_writing, ESCAPE, "map a file that may only be read, shared and writable")
{
	int fd = try_open(readable("file"), O_RDWR);
	char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	need(data == MAP_FAILED ? -1 : 0, "mmap");
	memcpy(data, "spoiled", 7);
}

ATTACK(symlink_read, HOST_LEAK, "read through a link in the writable folder to the outside")
{
	need(raw(SYS_symlinkat, outside("secret"), AT_FDCWD, inside("link")), "symlink");
	leak_file(inside("link"));
}

ATTACK(symlink_write, ESCAPE, "write through a link in the writable folder to the outside")
{
	need(raw(SYS_symlinkat, outside("victim"), AT_FDCWD, inside("link")), "symlink");
	spoil_file(inside("link"));
}

ATTACK(symlink_folder, ESCAPE, "make a file through a linked folder")
{
	need(raw(SYS_symlinkat, scene("outside"), AT_FDCWD, inside("link")), "symlink");
	try_open(inside("link/new"), O_WRONLY | O_CREAT);
}

ATTACK(hardlink_inwards, ESCAPE, "give a file outside a name in the writable folder")
{
	expect_denied(raw(SYS_linkat, AT_FDCWD, outside("victim"), AT_FDCWD, inside("got"), 0),
		      FILE_WALL);
	spoil_file(inside("got"));
}

ATTACK(hardlink_readable, ESCAPE, "give a file that may only be read a name in the writable folder")
{
	expect_denied(raw(SYS_linkat, AT_FDCWD, readable("file"), AT_FDCWD, inside("got"), 0),
		      FILE_WALL);
	spoil_file(inside("got"));
}

ATTACK(hardlink_by_descriptor, ESCAPE, "the same by an O_PATH descriptor and /proc/self/fd")
{
	int fd = try_open(outside("victim"), O_PATH);

	expect_denied(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD,
			  inside("got"), AT_SYMLINK_FOLLOW),
		      FILE_WALL);
	spoil_file(inside("got"));
}

ATTACK(hardlink_empty_path, ESCAPE, "the same by AT_EMPTY_PATH")
{
	int fd = try_open(outside("victim"), O_PATH);

	expect_denied(raw(SYS_linkat, fd, "", AT_FDCWD, inside("got"), AT_EMPTY_PATH), FILE_WALL,
		      ENOENT);
	spoil_file(inside("got"));
}

ATTACK(alias_root, HOST_LEAK, "read a file outside by /proc/self/root")
{
	leak_file(path_of("/proc/self/root%s", outside("secret")));
}

ATTACK(alias_thread_root, HOST_LEAK, "read a file outside by /proc/thread-self/root")
{
	leak_file(path_of("/proc/thread-self/root%s", outside("secret")));
}

ATTACK(alias_cwd, HOST_LEAK, "read a file outside by /proc/self/cwd/..")
{
	need(chdir(scene("work")), "chdir");
	leak_file("/proc/self/cwd/../outside/secret");
}

ATTACK(alias_dots, HOST_LEAK, "read a file outside by .. from the writable folder")
{
	leak_file(inside("../outside/secret"));
}

ATTACK(alias_slashes, HOST_LEAK, "read a file outside with doubled slashes and dots")
{
	leak_file(path_of("//%s//.//secret", scene("outside")));
}

ATTACK(alias_folder_descriptor, HOST_LEAK, "read by an O_PATH descriptor of the folder")
{
	int dir = try_open(scene("outside"), O_PATH | O_DIRECTORY);

	leak_fd((int)expect_denied(raw(SYS_openat, dir, "secret", O_RDONLY), FILE_WALL));
}

ATTACK(alias_changed_folder, HOST_LEAK, "change the working folder to the outside, read there")
{
	need(raw(SYS_chdir, scene("outside")), "chdir");
	leak_file("secret");
}

static long open_how(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = { .flags = flags, .resolve = resolve };

	return raw(SYS_openat2, dir, path, &how, sizeof(how));
}

ATTACK(openat2_plain, HOST_LEAK, "read a file outside by openat2")
{
	leak_fd((int)expect_denied(open_how(AT_FDCWD, outside("secret"), O_RDONLY, 0), FILE_WALL,
				   ENOSYS));
}

ATTACK(openat2_in_root, HOST_LEAK, "read by openat2 with RESOLVE_IN_ROOT and a folder above")
{
	int root = try_open("/", O_PATH | O_DIRECTORY);

	leak_fd((int)expect_denied(open_how(root, outside("secret"), O_RDONLY, RESOLVE_IN_ROOT),
				   FILE_WALL, ENOSYS));
}

ATTACK(tmpfile_outside, ESCAPE, "make a nameless file outside (O_TMPFILE)")
{
	int fd = (int)expect_denied(
		raw(SYS_openat, AT_FDCWD, scene("outside"), O_TMPFILE | O_WRONLY, 0600), FILE_WALL);

	expect_denied(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD,
			  outside("new"), AT_SYMLINK_FOLLOW),
		      FILE_WALL);
}

ATTACK(tmpfile_outwards, ESCAPE, "make a nameless file inside and name it outside")
{
	int fd = (int)raw(SYS_openat, AT_FDCWD, scene("work"), O_TMPFILE | O_WRONLY, 0600);

	need(fd, "O_TMPFILE");
	expect_denied(raw(SYS_linkat, AT_FDCWD, path_of("/proc/self/fd/%d", fd), AT_FDCWD,
			  outside("new"), AT_SYMLINK_FOLLOW),
		      FILE_WALL);
}

ATTACK(open_by_handle, HOST_LEAK, "read a file outside by its handle")
{
	struct {
		struct file_handle head;
		unsigned char bytes[128];
	} handle = { .head.handle_bytes = 128 };
	int mount, dir = try_open("/", O_RDONLY | O_DIRECTORY);

	expect_denied(raw(SYS_name_to_handle_at, AT_FDCWD, outside("secret"), &handle.head, &mount,
			  0),
		      EPERM, ENOSYS);
	leak_fd((int)expect_denied(raw(SYS_open_by_handle_at, dir, &handle.head, O_RDONLY), EPERM,
				   ENOSYS));
}

/* The classic: a descriptor of a folder above survives chroot. */
ATTACK(chroot_escape, ESCAPE, "chroot below, climb out by a kept descriptor")
{
	int dir = try_open("/", O_PATH | O_DIRECTORY);

	expect_denied(raw(SYS_chroot, scene("work")), EPERM);
	need(fchdir(dir), "fchdir");
	expect_denied(raw(SYS_chroot, "."), EPERM);
	leak_file(outside("secret"));
}

ATTACK(mknod_disk, ESCAPE, "make the node of a disk in the writable folder")
{
	expect_denied(raw(SYS_mknodat, AT_FDCWD, inside("disk"), S_IFBLK | 0600, 254 << 8), EPERM,
		      EACCES);
}

ATTACK(mknod_memory, ESCAPE, "make the node of /dev/mem in the writable folder")
{
	expect_denied(raw(SYS_mknodat, AT_FDCWD, inside("mem"), S_IFCHR | 0600, 1 << 8 | 1), EPERM,
		      EACCES);
}

ATTACK(open_planted_device, ESCAPE, "open a device node that lies in the writable folder")
{
	try_open(inside("planted"), O_RDONLY);
}

/* What Landlock has no right for: test_attack.py lists these as known limits of the tier. */
ATTACK(stat_outside, HOST_LEAK, "ask for size, times and owner of a file outside")
{
	struct stat st;

	expect_denied(fstatat(AT_FDCWD, outside("secret"), &st, 0), FILE_WALL);
}

ATTACK(read_link_outside, HOST_LEAK, "read where a link outside leads")
{
	char target[256];
	long n = expect_denied(raw(SYS_readlinkat, AT_FDCWD, outside("pointer"), target,
				   sizeof(target)),
			       FILE_WALL);

	leak(target, (size_t)n);
}

ATTACK(read_attribute_outside, HOST_LEAK, "read an extended attribute of a file outside")
{
	char value[256];
	long n = expect_denied(
		raw(SYS_getxattr, outside("secret"), "user.note", value, sizeof(value)), FILE_WALL);

	leak(value, (size_t)n);
}
