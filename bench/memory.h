/*
 * memory.h - what a sandbox costs in memory besides its workload
 */
#ifndef BRIG_BENCH_MEMORY_H
#define BRIG_BENCH_MEMORY_H

#include <sys/types.h>

/* A command and those of its descendants that have its name: its helpers, not its workload. */
struct footprint {
	size_t processes;
	long resident_kib;     /* the sum; what they share counts in each of them */
	long proportional_kib; /* the sum of their shares (Pss); -1 when it may not be read */
};

/* VmHWM of the process in KiB; 0 when it is gone or has no memory any more. */
long memory_peak(pid_t pid);

[[nodiscard]] int memory_footprint(pid_t pid, struct footprint *ret_footprint);

/* MemAvailable of the host in KiB, or 0. */
long memory_available(void);

#endif
