/*
 * lineage.h - which execve a thread comes from
 *
 * Every execve of a sandbox has a number. What a process does is told under the number of the
 * execve that it comes from, so that the tree of programs can be rebuilt from the record. Numbers of
 * processes are given again; here each is held together with a pidfd, and a number whose process is
 * gone is forgotten.
 *
 * An execve is seen when it is asked for, and may yet fail: its number is the process's only when the
 * process is seen to be another program than it was (target_image()).
 *
 * A process that has executed nothing has its parent's number, as of the first time that it is
 * looked at; one whose parent is gone already has 0, the number of the first process before it
 * executed anything.
 *
 * A table of fixed size, without allocation, for the keeper. Where more processes are alive than it
 * holds, or than there are descriptors for, some have the number of an ancestor.
 */
#ifndef BRIG_JAIL_LINEAGE_H
#define BRIG_JAIL_LINEAGE_H

#include <stdint.h>
#include <sys/types.h>

#define LINEAGE_SLOTS 1024

struct lineage {
	struct slot {
		pid_t tid;
		int pidfd; /* 0: a free slot */
		uint32_t exec;
		uint32_t asked; /* number of an execve that may have happened; 0: none */
		pid_t asker;    /* the thread that asked for it */
		uint64_t image; /* of the process, as of its last execve; 0: not known */
	} slots[LINEAGE_SLOTS];
	uint32_t last; /* number given */
	pid_t self;    /* where the ancestors end; 0: not asked for yet */
	pid_t recent; /* looked at less than a millisecond ago: a number is not given again so soon */
	uint64_t recent_ns;
	uint32_t recent_exec;
	int fd_end; /* descriptors from here on are left for other things; 0: none is */
};

/* now_ns: by a clock that only grows. */
uint32_t lineage_of(struct lineage *lineage, pid_t tid, uint64_t now_ns);

/* A thread is about to execute something: the number that it and its children will have. */
uint32_t lineage_exec(struct lineage *lineage, pid_t tid);

#endif
