/*
 * cgroup.h - one control group per sandbox, on v2, v1 or both at once
 *
 * A cgroup is made before the sandbox's first process and removed after its last. Whoever holds a
 * struct cgroup owns the directories: cgroup_done() kills what is left in them and removes them.
 *
 *	struct cgroup cg = CGROUP_NONE;
 *	r = cgroup_make(1u << CGROUP_MEMORY | 1u << CGROUP_PIDS, id, &cg, err);
 *	r = cgroup_limit(&cg, CGROUP_MEMORY, 512 * MIB, err);
 *	... in the child, before it drops its rights: r = cgroup_enter(&cg);
 *
 * Where they are made: on v2 below the nearest ancestor of our own cgroup that we may write, has
 * the controllers enabled for its children and may have children (cgroup_v2.h tells the rest); on
 * v1 below our own cgroup in each hierarchy. Everything goes through directory descriptors that are
 * opened once.
 *
 * On v2, where our own cgroup is delegated to us and we are alone in it, cgroup_make() moves the
 * calling process into a directory "brig-leaf" of it, and cgroup_done() moves it back. A program
 * that forks helpers which will make cgroups calls cgroup_make() or starts in such a leaf first.
 *
 * A limit that this host cannot enforce is an error here, never a shrug: the caller refuses the
 * start or uses another mechanism and says so.
 */
#ifndef BRIG_JAIL_CGROUP_H
#define BRIG_JAIL_CGROUP_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/macro.h"

enum cgroup_control {
	CGROUP_MEMORY,  /* bytes, without swap: an OOM kill is counted */
	CGROUP_PIDS,    /* tasks */
	CGROUP_CPU,     /* thousandths of a CPU */
	CGROUP_CPUACCT, /* usage only: CPU time used by all that ever ran in it */
	CGROUP_KILL,    /* cgroup.kill of v2, also in a v2 tree without controllers */
	CGROUP_FREEZE,  /* stops all that is in it: of v2 where its tree is mounted, else v1 */
	CGROUP_CONTROL_COUNT,
};

/*
 * Controls that share a directory (all those of v2, cpu and cpuacct of v1 where they are mounted
 * together) have the same descriptors in it, which are closed once.
 */
struct cgroup {
	char name[64];                    /* of the directory: "brig-" and the sandbox's id */
	int parent[CGROUP_CONTROL_COUNT]; /* where the directory was made, or -EBADF */
	int dir[CGROUP_CONTROL_COUNT];    /* the directory itself, or -EBADF */
	bool is_v2[CGROUP_CONTROL_COUNT];
	bool by_leaf; /* the v2 parent is a delegated cgroup that we left for its brig-leaf */
	char slice
		[80]; /* of the directory that the parents are then: "brig-slice-" and a name; or "" */
};

#define CGROUP_NONE                                                                \
	((struct cgroup){ .parent = { [0 ... CGROUP_CONTROL_COUNT - 1] = -EBADF }, \
			  .dir = { [0 ... CGROUP_CONTROL_COUNT - 1] = -EBADF } })

/*
 * Which controls could be made here, as a bit set, found by making and removing a directory. Leaves
 * nothing behind.
 */
uint32_t cgroup_available(void);

/*
 * Makes directories for the wanted controls (bit set). All of them or none: -EOPNOTSUPP names the
 * first that cannot be had and what would help. The id is letters, digits and '-', 48 at most; it
 * must be new: -EEXIST.
 */
[[nodiscard]] int cgroup_make(uint32_t wanted, const char *id, struct cgroup *ret_cg,
			      struct err *err);

/*
 * The same in a directory that all of one slice share (NULL: none), made where it is missing. The name of a slice
 * is letters, digits, '-', '_' and '.', 64 at most. The last one that goes takes the directory along.
 */
[[nodiscard]] int cgroup_make_in(const char *slice, uint32_t wanted, const char *id,
				 struct cgroup *ret_cg, struct err *err);
bool cgroup_slice_is_valid(const char *slice);

bool cgroup_has(const struct cgroup *cg, enum cgroup_control control);

/* "cgroup v1" or "cgroup v2", for the report; "none" where the control is not there. */
const char *cgroup_mechanism(const struct cgroup *cg, enum cgroup_control control);

/* Sets or changes a limit. The least that the kernel can hold is one task and 0.01 CPU. */
[[nodiscard]] int cgroup_limit(const struct cgroup *cg, enum cgroup_control control, uint64_t value,
			       struct err *err);

/* Moves the calling process in, which has one thread. Async-signal-safe: a forked child calls it. */
[[nodiscard]] int cgroup_enter(const struct cgroup *cg);

/*
 * The same in two parts, for a process in namespaces of its own: it enters the directories of v1 itself, which is quick; into
 * that of v2, if it was not born there, another has to put it.
 */
[[nodiscard]] int cgroup_enter_v1(const struct cgroup *cg);
[[nodiscard]] int cgroup_put_v2(const struct cgroup *cg, pid_t pid);

/*
 * A descriptor for CLONE_INTO_CGROUP, owned by cg, or -EBADF where no v2 directory is. It stands
 * only for the controls of v2: with others in cg, cgroup_enter_v1() does the rest.
 */
int cgroup_v2_fd(const struct cgroup *cg);

/*
 * What the kernel counted. Each is -ENODATA where the control is not there, or the kernel does not
 * count. A hit is an OOM kill (memory; v2 kills the whole sandbox and may count a process twice), a
 * refused fork (pids), a period in which the CPU was taken away early (cpu).
 */
[[nodiscard]] int cgroup_hits(const struct cgroup *cg, enum cgroup_control control,
			      uint64_t *ret_hits);
[[nodiscard]] int cgroup_cpu_used(const struct cgroup *cg, uint64_t *ret_us);
[[nodiscard]] int cgroup_memory_peak(const struct cgroup *cg, uint64_t *ret_bytes);

/* What it is right now. Without a limit the limit is UINT64_MAX. Tasks are threads too. */
[[nodiscard]] int cgroup_memory_used(const struct cgroup *cg, uint64_t *ret_bytes);
[[nodiscard]] int cgroup_memory_limit(const struct cgroup *cg, uint64_t *ret_bytes);
[[nodiscard]] int cgroup_tasks(const struct cgroup *cg, uint64_t *ret_count);

/* Whether the process is in the directory that CGROUP_FREEZE stops. */
bool cgroup_freezes(const struct cgroup *cg, pid_t pid);

/*
 * Stops all that is in it, or lets it go on, and returns when the kernel says so: at once as a rule;
 * after three seconds it is given up. No program in it runs any more then. A process that hangs in
 * the kernel, most of all in a call that somebody who is frozen himself would have to answer, may
 * still be in that call: it stops before it comes back from it. What cannot be frozen is let go
 * again: -ETIMEDOUT.
 *
 * A frozen process can be killed on v2. On v1 it dies when it is thawed, and so cgroup_kill() and
 * cgroup_done() thaw after they have killed.
 */
[[nodiscard]] int cgroup_freeze(const struct cgroup *cg, bool frozen, struct err *err);

/*
 * For whoever has sent SIGKILL by another way than cgroup_kill(): lets it arrive. Does not wait, and
 * does nothing on v2, where nothing has to run for that.
 */
void cgroup_thaw_killed(const struct cgroup *cg);

/*
 * Gives memory back that can be had without asking the processes, for at most about timeout_ms: the
 * page cache of files and what the kernel holds for them (memory.reclaim of v2, memory.force_empty
 * of v1: 300 MiB in 40 ms). Anonymous memory and that of a tmpfs go to swap or, where there is none or
 * the limit forbids it, stay. What is not to be had is no failure.
 */
void cgroup_reclaim(const struct cgroup *cg, uint64_t timeout_ms);

/*
 * Kills every process in it, frozen or not. With cgroup.kill it returns when the kill was sent to all; without,
 * when nobody is left, or with -ETIMEDOUT after a fraction of a second.
 */
[[nodiscard]] int cgroup_kill(const struct cgroup *cg);

/*
 * Kills what is left, waits until it is empty (bounded, about a second) and removes the
 * directories. Directories that were made inside go with them. A process that cannot die keeps its
 * cgroup.
 */
void cgroup_done(struct cgroup *cg);

/*
 * Removes what others have left beside it: directories with our kind of name, without a process,
 * and not of the last seconds. Whoever is killed in the moment between making his and handing it on
 * leaves one.
 */
void cgroup_sweep(const struct cgroup *cg);

#endif
