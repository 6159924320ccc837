#include "jail/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

struct entry {
	unsigned long inode;
	long offset;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Adds the numbers in the children file of one thread. A number may be split between two reads. */
static size_t add_children(int tasks, const char *thread, pid_t *pids, size_t count)
{
	_cleanup_close_ int fd = -EBADF;
	char path[64], text[4096];
	pid_t number = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "%.20s/children", thread);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				number = number * 10 + (text[i] - '0');
			} else if (number > 0) {
				if (count < TREE_MAX)
					pids[count++] = number;
				number = 0;
			}
		}
	return count;
}

static size_t add_process(pid_t pid, pid_t *pids, size_t count)
{
	_Alignas(struct entry) char block[2048];
	_cleanup_close_ int tasks = -EBADF;
	char path[40];
	long len;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (tasks >= 0 && (len = syscall(SYS_getdents64, tasks, block, sizeof(block))) > 0)
		for (long at = 0; at < len;) {
			const struct entry *entry = (const struct entry *)(block + at);

			at += entry->len;
			if (entry->name[0] != '.')
				count = add_children(tasks, entry->name, pids, count);
		}
	return count;
}

size_t tree_below(pid_t root, pid_t *pids)
{
	size_t count = add_process(root, pids, 0);

	for (size_t i = 0; i < count; i++)
		count = add_process(pids[i], pids, count);
	return count;
}
