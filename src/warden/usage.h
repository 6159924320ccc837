/*
 * usage.h - what a sandbox that lives uses, as the kernel counts it
 *
 * From its cgroup where it has one, else summed over the processes below the keeper as /proc shows
 * them: then a process that ended unseen by its parent is missing from the CPU time, and files in
 * memory are not counted. Works from a warden that has shut itself in (seclude.h), where memory that
 * processes share counts for each of them in full.
 */
#ifndef BRIG_WARDEN_USAGE_H
#define BRIG_WARDEN_USAGE_H

#include <stdint.h>
#include <sys/types.h>

#include "jail/cgroup.h"

#define USAGE_UNKNOWN UINT64_MAX

struct usage {
	uint64_t cpu_us;
	uint64_t memory;       /* bytes, now */
	uint64_t memory_peak;  /* USAGE_UNKNOWN without a cgroup, or before Linux 5.19 on v2 */
	uint64_t memory_limit; /* of the cgroup; USAGE_UNKNOWN: it has none */
	uint64_t processes;    /* that live, without the keeper and the first process */
	uint64_t all;          /* with both */
	uint64_t tasks; /* threads of those in the cgroup; USAGE_UNKNOWN without a pids cgroup */
};

/* What cannot be read is USAGE_UNKNOWN; of a sandbox that has ended all are 0 or that. */
void usage_read(const struct cgroup *cgroup, pid_t keeper, struct usage *ret_usage);

#endif
