/*
 * pause.h - a sandbox stands still, and goes on
 *
 * With a cgroup the kernel freezes all that is in it (cgroup_freeze()). The keeper of a container is in
 * it (docs/design/004) and stands still too: it answers no call, reads no order and does not look at
 * its deadline. So while such a sandbox is paused
 *
 * - it gets no order but by pause_end() and pause_kill(): they would only pile up;
 * - its deadline still counts. pause_end() tells the new one before the keeper wakes up;
 * - it is ended by pause_kill(), not by KEEPER_KILL alone;
 * - if the warden is killed, the keeper dies with it on v2; on v1 the janitor kills and thaws.
 *
 * The keeper of the process tier is outside the cgroup: it goes on, and ends the sandbox as ever.
 *
 * Without a cgroup every process is stopped by a signal, in both tiers but for the keeper. What was
 * stopped before the pause, by itself or by a shell, is continued by its end too, and parents that
 * look for stopped children see them.
 *
 * Memory is given back as far as that is possible without the processes (cgroup_reclaim()): in
 * effect the page cache, and with swap more. By signals none is.
 */
#ifndef BRIG_JAIL_PAUSE_H
#define BRIG_JAIL_PAUSE_H

#include "base/err.h"
#include "jail/cgroup.h"
#include "jail/keeper.h"

/* "cgroup v2 freezer", "cgroup v1 freezer" or "signals"; known before the start. */
const char *pause_mechanism(const struct cgroup *cg);

/* And what that means, for the report. */
const char *pause_words(const struct cgroup *cg);

/* Returns when no process of the sandbox runs; what cannot be paused in three seconds goes on. */
[[nodiscard]] int pause_begin(const struct cgroup *cg, const struct keeper *keeper,
			      struct err *err);

/* left_ms: to the sandbox's deadline, from now; UINT64_MAX: it has none. */
[[nodiscard]] int pause_end(const struct cgroup *cg, const struct keeper *keeper, uint64_t left_ms,
			    struct err *err);

/* Ends a paused sandbox without letting it run once more; the keeper tells of the end as ever. */
[[nodiscard]] int pause_kill(const struct cgroup *cg, const struct keeper *keeper, struct err *err);

/* What pause_begin() and pause_end() do where no cgroup can. */
[[nodiscard]] int pause_by_signals(const struct keeper *keeper, struct err *err);
[[nodiscard]] int continue_by_signals(const struct keeper *keeper, struct err *err);

#endif
