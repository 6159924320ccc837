/*
 * cgroup_list.h - who and what is in a cgroup; private to src/jail/cgroup*.c
 *
 * Processes number by number, without holding the list, and directories that were made inside. Both
 * are as good as the moment.
 */
#ifndef BRIG_JAIL_CGROUP_LIST_H
#define BRIG_JAIL_CGROUP_LIST_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

struct cgroup_list {
	int fd;
	size_t at, len;
	char text[4096];
};

#define CGROUP_LIST_NONE ((struct cgroup_list){ .fd = -EBADF })

/* The processes in the directory itself. */
[[nodiscard]] int cgroup_list_open(struct cgroup_list *list, int dir);
void cgroup_list_close(struct cgroup_list *list);

/* The next pid, or 0 at the end. A process outside our pid namespace is listed as 0: passed over,
 * for there is no way to name it, and 0 would mean our own process group. */
pid_t cgroup_list_next(struct cgroup_list *list);

/* Calls visit for every directory below dir, the deepest first; returns the sum, or the first
 * failure. */
int cgroup_walk(int dir, int (*visit)(int parent, const char *name, int child));

#endif
