/*
 * process.h - the process tier: Landlock, seccomp, no privileges, limits; no namespace
 *
 * process_prepare() does everything that does not need to know the command, and refuses when a wall
 * that the policy asks for cannot be had on this host. What it made is in the jail (descriptors, a
 * cgroup, the private folder); process_abandon() takes it back when the start is not carried out,
 * process_done() afterwards.
 */
#ifndef BRIG_TIER_PROCESS_H
#define BRIG_TIER_PROCESS_H

#include "jail/keeper.h"
#include "policy/policy.h"
#include "tier/files.h"
#include "tier/report.h"

/* Walls that the person at the keyboard gave up by name (--weaken), as a bit set. Never from a
 * file. */
enum weaken { WEAKEN_SIGNALS = 1 };

struct process_request {
	const struct policy *policy;
	const char *id;        /* of the sandbox */
	const char *temporary; /* the folder for temporary files, absolute */
	unsigned int weaken;
	int terminal; /* the terminal that the sandbox will get, or -EBADF */
};

/* What the warden must watch, because no kernel object does. 0: nothing. */
struct process_watch {
	uint64_t memory;   /* bytes of all processes together */
	uint64_t cpu_time; /* ms of all processes together */
};

struct process_jail {
	struct jail jail;
	struct files_granted granted; /* the jail points into it */
	struct filter filter;
	struct report report;
	struct process_watch watch;
};

[[nodiscard]] int process_prepare(const struct process_request *request,
				  struct process_jail *ret_pj, struct err *err);

void process_abandon(struct process_jail *pj);
void process_done(struct process_jail *pj);

#endif
