#include "warden/usage.h"

#include "jail/tree.h"
#include "warden/watch.h"

/* A process that has ended is listed until its parent has asked for it. */
static bool is_alive(pid_t pid)
{
	return !tree_is_in(pid, "ZX");
}

static void count_processes(pid_t keeper, struct usage *usage)
{
	static pid_t pids[TREE_MAX];
	size_t count = tree_below(keeper, pids);
	uint64_t below = 0;

	for (size_t i = 0; i < count; i++)
		below += is_alive(pids[i]);
	usage->processes = below > 0 ? below - 1 : 0;
	usage->all = below + is_alive(keeper);
}

void usage_read(const struct cgroup *cgroup, pid_t keeper, struct usage *ret_usage)
{
	struct usage usage = { .memory_peak = USAGE_UNKNOWN,
			       .memory_limit = USAGE_UNKNOWN,
			       .tasks = USAGE_UNKNOWN };

	if (cgroup_cpu_used(cgroup, &usage.cpu_us) < 0)
		usage.cpu_us = watch_cpu_used(keeper);
	if (cgroup_memory_used(cgroup, &usage.memory) < 0)
		usage.memory = watch_memory_used(keeper);
	(void)!cgroup_memory_peak(cgroup, &usage.memory_peak);
	(void)!cgroup_memory_limit(cgroup, &usage.memory_limit);
	(void)!cgroup_tasks(cgroup, &usage.tasks);
	count_processes(keeper, &usage);
	*ret_usage = usage;
}
