#include "warden/watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

/* Adds what one process has to a sum; the pid may be gone by now, which adds nothing. */
typedef void (*add_process)(pid_t pid, uint64_t *sum);

/* Sums over all that lies below pid. The lists of children are bounded reads: a process tree is
 * hostile input. */
static void for_each_below(pid_t pid, unsigned int depth, add_process add, uint64_t *sum)
{
	char path[64], text[16384];
	const char *p = text;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	if (depth > 200 || file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	while (*p) {
		char *end;
		long child = strtol(p, &end, 10);

		if (end == p)
			break;
		p = end;
		add((pid_t)child, sum);
		for_each_below((pid_t)child, depth + 1, add, sum);
	}
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

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
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

bool watch_memory_is_over(const struct process_watch *watch, pid_t keeper)
{
	uint64_t resident = 0, share = 0;

	for_each_below(keeper, 0, add_resident, &resident);
	if (resident <= watch->memory)
		return false;
	for_each_below(keeper, 0, add_share, &share);
	return share > watch->memory;
}

bool watch_cpu_is_over(const struct process_watch *watch, const struct cgroup *cgroup, pid_t keeper)
{
	uint64_t ticks = 0, us;

	if (cgroup_cpu_used(cgroup, &us) == 0)
		return us / 1000 > watch->cpu_time;
	/* The keeper's own line has the time of what it has reaped. */
	add_cpu_ticks(keeper, &ticks);
	for_each_below(keeper, 0, add_cpu_ticks, &ticks);
	return ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK) > watch->cpu_time;
}
