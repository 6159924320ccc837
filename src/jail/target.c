#include "jail/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

/* PIDFD_GET_INFO (Linux 6.13), under names of our own: the headers may be older. */
struct pidfd_facts {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[9];
};
_Static_assert(sizeof(struct pidfd_facts) == 64, "as the kernel has it");
#define PIDFD_FACTS     _IOWR(0xFF, 11, struct pidfd_facts)
#define PIDFD_FACTS_PID 1u

#define PAGE           4096u /* smaller pieces than a page of 16K or 64K do no harm */
#define PIECES_MAX     (TARGET_READ_MAX / PAGE + 1)
#define DESCENT_MAX    1024
#define SHORT_STRING   ((size_t)128)
#define STATUS_ENOUGH  512 /* of /proc/PID/status, for the lines that are looked at here */
#define AUXV_ENOUGH    512 /* of /proc/PID/auxv: the kernel has some 22 pairs */
#define PROC_PATH_SIZE 48

/* The number of bytes that could be read before the first that could not, at least one. */
static int read_some(pid_t tid, uint64_t address, void *data, size_t len)
{
	struct iovec local = { data, len }, remote[PIECES_MAX];
	unsigned long pieces = 0;
	ssize_t n;

	/* The kernel promises partial reads only between pieces. */
	while (len > 0 && pieces < PIECES_MAX) {
		size_t piece = MIN(len, (size_t)(PAGE - address % PAGE));

		remote[pieces++] = (struct iovec){ (void *)(uintptr_t)address, piece };
		address += piece;
		len -= piece;
	}
	n = process_vm_readv(tid, &local, 1, remote, pieces, 0);
	return n < 0 ? -errno : (int)n;
}

int target_read(pid_t tid, uint64_t address, void *data, size_t len)
{
	int n = len == 0 ? 0 : len > TARGET_READ_MAX ? -E2BIG : read_some(tid, address, data, len);

	return n < 0 ? n : (size_t)n == len ? 0 : -EFAULT;
}

/* Asked for a byte that nobody has: only whether we may ask is of interest. */
bool target_is_closed(pid_t tid)
{
	char byte;

	return read_some(tid, 0, &byte, sizeof(byte)) == -EPERM;
}

int target_write(pid_t tid, uint64_t address, const void *data, size_t len)
{
	const struct iovec local = { (void *)(uintptr_t)data, len };
	const struct iovec remote = { (void *)(uintptr_t)address, len };
	ssize_t n = process_vm_writev(tid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : (size_t)n == len ? 0 : -EFAULT;
}

/* Most strings are short: all that could follow is not copied, nor looked for on another page. */
int target_string(pid_t tid, uint64_t address, char *text, size_t size)
{
	size_t len = 0;

	for (size_t want = MIN(size, SHORT_STRING); len < size; want = size - len) {
		int n = read_some(tid, address + len, text + len, want);

		if (n < 0)
			return len > 0 ? -EFAULT : n;
		if (memchr(text + len, '\0', (size_t)n))
			return 0;
		len += (size_t)n;
		if ((size_t)n < want)
			return -EFAULT;
	}
	return -ENAMETOOLONG;
}

int target_open(pid_t tid, int fd)
{
	char path[PROC_PATH_SIZE];
	int r;

	if (fd == AT_FDCWD)
		snprintf(path, sizeof(path), "/proc/%d/cwd", tid);
	else if (fd < 0)
		return -EBADF;
	else
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	r = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	if (r >= 0)
		return r;
	if (errno == EACCES)
		return -EPERM;
	return errno == ENOENT && fd != AT_FDCWD ? -EBADF : -errno;
}

int target_root(pid_t tid)
{
	char path[PROC_PATH_SIZE];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/root", tid);
	r = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	return r >= 0 ? r : errno == EACCES ? -EPERM : -errno;
}

/* A line of /proc/PID/status. In the name, which stands before it, a newline is escaped. */
static int status_number(pid_t pid, const char *key, int number_base, int *ret_number)
{
	char path[PROC_PATH_SIZE], text[STATUS_ENOUGH];
	const char *line;
	char *end;
	long number;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	r = file_read_at(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	line = strstr(text, key);
	if (!line)
		return -ESRCH;
	line += strlen(key);
	number = strtol(line, &end, number_base);
	if (end == line || *end != '\n')
		return -ESRCH;
	*ret_number = (int)number;
	return 0;
}

int target_process(pid_t tid, pid_t *ret_pid)
{
	return status_number(tid, "\nTgid:\t", 10, ret_pid);
}

int target_parent(pid_t pid, pid_t *ret_parent)
{
	return status_number(pid, "\nPPid:\t", 10, ret_parent);
}

/* Without /proc, which makes several objects for each process that is looked at. */
static int ask_pidfd(pid_t tid, struct pidfd_facts *ret_facts)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	struct pidfd_facts facts = { .mask = PIDFD_FACTS_PID };

	if (pidfd < 0 || ioctl(pidfd, PIDFD_FACTS, &facts) < 0 || !(facts.mask & PIDFD_FACTS_PID) ||
	    facts.tgid == 0)
		return -ENOSYS;
	*ret_facts = facts;
	return 0;
}

int target_origin(pid_t tid, pid_t *ret_process, pid_t *ret_parent)
{
	struct pidfd_facts facts;
	int r;

	if (ask_pidfd(tid, &facts) == 0) {
		*ret_process = (pid_t)facts.tgid;
		*ret_parent = (pid_t)facts.ppid;
		return 0;
	}
	r = target_process(tid, ret_process);
	return r < 0 ? r : target_parent(tid, ret_parent);
}

int target_place(pid_t tid, int fd, char *text, size_t size)
{
	char path[PROC_PATH_SIZE];
	ssize_t n;

	if (fd == AT_FDCWD)
		snprintf(path, sizeof(path), "/proc/%d/cwd", tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	n = readlink(path, text, size);
	if (n < 0)
		return -errno;
	if ((size_t)n == size)
		return -ENAMETOOLONG;
	text[n] = '\0';
	return 0;
}

/* A set of signals or rights in /proc/PID/status: sixteen hexadecimal digits. */
static uint64_t hex_set(const char *status, const char *key)
{
	const char *line = strstr(status, key);

	return line ? strtoull(line + strlen(key), NULL, 16) : 0;
}

bool target_may_own(pid_t tid, uid_t owner)
{
	char path[PROC_PATH_SIZE], text[4096];
	const char *line;
	unsigned int uid;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	line = strstr(text, "\nUid:");
	/* The last of the four is the one for files. */
	if (line && sscanf(line, "\nUid: %*u %*u %*u %u", &uid) == 1 && uid == owner)
		return true;
	return hex_set(text, "\nCapEff:\t") >> CAP_FOWNER & 1;
}

bool target_has_signal(pid_t tid)
{
	char path[PROC_PATH_SIZE], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	return (hex_set(text, "\nSigPnd:\t") | hex_set(text, "\nShdPnd:\t")) &
	       ~hex_set(text, "\nSigBlk:\t");
}

int target_umask(pid_t tid, mode_t *ret_mask)
{
	int mask, r = status_number(tid, "\nUmask:\t", 8, &mask);

	if (r == 0)
		*ret_mask = (mode_t)mask;
	return r;
}

/* /proc/PID/stat behind the name, which may hold anything, a parenthesis as well; nothing behind it
 * does. */
static int read_stat(pid_t tid, char *text, size_t size, const char **ret_rest)
{
	char path[PROC_PATH_SIZE];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	r = file_read_at(AT_FDCWD, path, text, size);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret_rest = strrchr(text, ')');
	return *ret_rest ? 0 : -ESRCH;
}

int target_terminal(pid_t tid, dev_t *ret_terminal)
{
	char text[STATUS_ENOUGH];
	const char *behind_name;
	unsigned int number;
	int r = read_stat(tid, text, sizeof(text), &behind_name);

	if (r < 0)
		return r;
	if (sscanf(behind_name, ") %*c %*d %*d %*d %u", &number) != 1)
		return -ESRCH;
	if (number == 0)
		return -ENXIO;
	*ret_terminal = makedev(number >> 8 & 0xfff, (number & 0xff) | (number >> 12 & 0xfff00));
	return 0;
}

int target_image(pid_t pid, uint64_t *ret_image)
{
	char path[PROC_PATH_SIZE];
	unsigned char bytes[AUXV_ENOUGH];
	_cleanup_close_ int fd = -EBADF;
	uint64_t image = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno != EACCES && errno != EPERM)
		return errno == ENOENT ? -ESRCH : -errno;
	/* A program that cannot be read has this number, and had another before. */
	n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	if (n < 0)
		return -errno;
	for (ssize_t at = 0; at + (ssize_t)sizeof(uint64_t) <= n; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes + at, sizeof(word));
		image = image * 31 + word;
	}
	*ret_image = image;
	return 0;
}

/* Before Linux 6.9 a thread has no pidfd, and its process stands for it: they share descriptors,
 * or the one that is found is at least one of the sandbox's own. */
static int open_pidfd(pid_t tid)
{
	long fd = syscall(SYS_pidfd_open, tid, PIDFD_THREAD);
	pid_t pid;
	int r;

	if (fd >= 0 || errno != EINVAL)
		return fd < 0 ? -errno : (int)fd;
	r = target_process(tid, &pid);
	return r < 0 ? r : sys_pidfd_open(pid);
}

int target_duplicate(pid_t tid, int fd)
{
	_cleanup_close_ int pidfd = open_pidfd(tid);
	long r;

	if (pidfd < 0)
		return pidfd;
	r = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	return r < 0 ? -errno : (int)r;
}

int target_descends(pid_t pid, pid_t ancestor)
{
	for (unsigned int i = 0; i < DESCENT_MAX; i++) {
		pid_t parent;
		int r = target_parent(pid, &parent);

		if (r < 0)
			return r;
		if (parent == ancestor)
			return 1;
		if (parent <= 1)
			return 0;
		pid = parent;
	}
	return 0;
}

int target_is_reachable(pid_t pid)
{
	if (pid <= 0 || pid == getpid())
		return 0;
	if (kill(pid, 0) == 0)
		return 1;
	return errno == ESRCH ? -ESRCH : 0;
}
