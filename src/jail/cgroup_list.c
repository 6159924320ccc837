#include "jail/cgroup_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define DEPTH 16 /* of directories that the sandbox made */

int cgroup_list_open(struct cgroup_list *list, int dir)
{
	list->at = list->len = 0;
	list->fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	return list->fd < 0 ? -errno : 0;
}

void cgroup_list_close(struct cgroup_list *list)
{
	list->fd = fd_close(list->fd);
}

static int next_char(struct cgroup_list *list)
{
	if (list->at == list->len) {
		ssize_t n;

		do
			n = read(list->fd, list->text, sizeof(list->text));
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return EOF;
		list->at = 0;
		list->len = (size_t)n;
	}
	return (unsigned char)list->text[list->at++];
}

pid_t cgroup_list_next(struct cgroup_list *list)
{
	uint64_t pid = 0;
	int c;

	while ((c = next_char(list)) != EOF) {
		if (c >= '0' && c <= '9' && pid < INT32_MAX / 10)
			pid = pid * 10 + (uint64_t)(c - '0');
		else if (c == '\n' && pid > 0)
			return (pid_t)pid;
	}
	return 0;
}

static int walk(int dir, unsigned int depth, int (*visit)(int parent, const char *name, int child))
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sum = 0, r = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!list) {
		fd_close(fd);
		return -EBADF;
	}
	while (r >= 0 && (entry = readdir(list))) {
		_cleanup_close_ int child = -EBADF;

		if (entry->d_type != DT_DIR || str_equal(entry->d_name, ".") ||
		    str_equal(entry->d_name, ".."))
			continue;
		child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0)
			continue;
		r = depth > 0 ? walk(child, depth - 1, visit) : 0;
		sum += MAX(r, 0);
		if (r >= 0)
			r = visit(dir, entry->d_name, child);
		sum += MAX(r, 0);
	}
	closedir(list);
	return r < 0 ? r : sum;
}

int cgroup_walk(int dir, int (*visit)(int parent, const char *name, int child))
{
	return walk(dir, DEPTH, visit);
}
