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

/* Calls visit for each thread of a process, until it says no. */
static void each_thread(pid_t pid, bool (*visit)(int tasks, const char *thread, void *to), void *to)
{
	_Alignas(struct entry) char block[2048];
	_cleanup_close_ int tasks = -EBADF;
	char path[40];
	bool more = true;
	long len;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (more && tasks >= 0 &&
	       (len = syscall(SYS_getdents64, tasks, block, sizeof(block))) > 0)
		for (long at = 0; more && at < len;) {
			const struct entry *entry = (const struct entry *)(block + at);

			at += entry->len;
			if (entry->name[0] != '.')
				more = visit(tasks, entry->name, to);
		}
}

struct found {
	pid_t *pids;
	size_t count;
};

static bool visit_children(int tasks, const char *thread, void *to)
{
	struct found *found = to;

	found->count = add_children(tasks, thread, found->pids, found->count);
	return true;
}

size_t tree_below(pid_t root, pid_t *pids)
{
	struct found found = { .pids = pids };

	each_thread(root, visit_children, &found);
	for (size_t i = 0; i < found.count; i++)
		each_thread(pids[i], visit_children, &found);
	return found.count;
}

struct question {
	const char *states;
	bool holds;
};

static bool visit_state(int tasks, const char *thread, void *to)
{
	struct question *question = to;
	char path[32], text[1024];
	const char *p;

	snprintf(path, sizeof(path), "%.20s/stat", thread);
	if (file_read_at(tasks, path, text, sizeof(text)) < 0)
		return true;
	/* The name in brackets may contain anything. */
	p = strrchr(text, ')');
	question->holds = p && p[1] == ' ' && p[2] && strchr(question->states, p[2]);
	return question->holds;
}

bool tree_is_in(pid_t pid, const char *states)
{
	struct question question = { .states = states, .holds = true };

	each_thread(pid, visit_state, &question);
	return question.holds;
}
