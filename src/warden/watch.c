#include "warden/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/tree.h"

/* Adds what one process has to a sum; the pid may be gone by now, which adds nothing. */
typedef void (*add_process)(pid_t pid, uint64_t *sum);

static uint64_t sum_below(pid_t keeper, add_process add)
{
	static pid_t pids[TREE_MAX];
	size_t count = tree_below(keeper, pids);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		add(pids[i], &sum);
	return sum;
}

static void add_resident(pid_t pid, uint64_t *sum)
{
	char path[40], text[128];
	uint64_t pages;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) == 0 &&
	    sscanf(text, "%*u %" SCNu64, &pages) == 1)
		*sum += pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_share(pid_t pid, uint64_t *sum)
{
	char path[48], text[2048];
	const char *line;
	uint64_t kib;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	r = file_read_at(AT_FDCWD, path, text, sizeof(text));
	/* A warden that has shut itself in may not look so closely: then what is shared counts in
	 * full. */
	if (r == -EACCES || r == -EPERM)
		add_resident(pid, sum);
	if (r < 0)
		return;
	line = strstr(text, "\nPss:");
	if (line && sscanf(line, "\nPss: %" SCNu64, &kib) == 1)
		*sum += kib * KIB;
}

/* Own time and that of children it has waited for. */
static void add_cpu_ticks(pid_t pid, uint64_t *sum)
{
	char path[40], text[1024], *p;
	uint64_t user, system, child_user, child_system;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	p = strrchr(text, ')');
	if (p && sscanf(p,
			") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
			" %" SCNu64 " %" SCNu64,
			&user, &system, &child_user, &child_system) == 4)
		*sum += user + system + child_user + child_system;
}

uint64_t watch_memory_used(pid_t keeper)
{
	return sum_below(keeper, add_share);
}

uint64_t watch_cpu_used(pid_t keeper)
{
	uint64_t ticks = sum_below(keeper, add_cpu_ticks);

	/* The keeper's own line has the time of what it has reaped. */
	add_cpu_ticks(keeper, &ticks);
	return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

bool watch_memory_is_over(const struct tier_watch *watch, pid_t keeper)
{
	return sum_below(keeper, add_resident) > watch->memory &&
	       watch_memory_used(keeper) > watch->memory;
}

bool watch_cpu_is_over(const struct tier_watch *watch, const struct cgroup *cgroup, pid_t keeper)
{
	uint64_t us;

	if (cgroup_cpu_used(cgroup, &us) < 0)
		us = watch_cpu_used(keeper);
	return us / 1000 > watch->cpu_time;
}
