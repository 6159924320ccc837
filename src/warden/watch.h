/*
 * watch.h - the sums that no kernel object keeps: memory and CPU time of a whole sandbox without a
 * cgroup
 */
#ifndef BRIG_WARDEN_WATCH_H
#define BRIG_WARDEN_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "jail/cgroup.h"
#include "tier/jail.h"

#define WATCH_INTERVAL_MS 50

/*
 * Which limit the sandbox below the keeper is over, if any. Memory is first summed as resident
 * pages, which counts shared ones several times; only where that is over the limit, the exact share
 * of each process is asked for.
 */
bool watch_memory_is_over(const struct tier_watch *watch, pid_t keeper);
bool watch_cpu_is_over(const struct tier_watch *watch, const struct cgroup *cgroup, pid_t keeper);

/* The sums themselves: bytes, each process with its share of what it shares with others; and
 * microseconds, with those of children that were waited for. */
uint64_t watch_memory_used(pid_t keeper);
uint64_t watch_cpu_used(pid_t keeper);

#endif
