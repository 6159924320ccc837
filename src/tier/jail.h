/*
 * jail.h - what a tier makes out of a policy: everything that does not need to know the command
 *
 * Each tier has a prepare function in its row (tier.h). What it made is in the tier_jail
 * (descriptors, a cgroup, a private folder, the list of operations); tier_jail_abandon() takes it
 * back when the start is not carried out, tier_jail_done() afterwards.
 */
#ifndef BRIG_TIER_JAIL_H
#define BRIG_TIER_JAIL_H

#include "jail/keeper.h"
#include "policy/policy.h"
#include "tier/files.h"
#include "tier/image.h"
#include "tier/report.h"

/* Walls that the person at the keyboard gave up by name (--weaken), as a bit set. Never from a
 * file. */
enum weaken { WEAKEN_SIGNALS = 1 };

/* Whether a policy names a system other than the host's. */
static inline bool policy_has_image(const struct policy *policy)
{
	return policy->image && !str_equal(policy->image, "host");
}

struct tier_request {
	const struct policy *policy;
	const struct policy_env *env;
	const char *id;        /* of the sandbox */
	const char *temporary; /* the folder for temporary files, absolute */
	unsigned int weaken;
	bool keeps_store;                /* what was written is looked at afterwards */
	const struct image_layers *from; /* what another sandbox left, or NULL; held by the caller
					    for as long as the sandbox lives */
	bool lives;                      /* it is used by many calls, through an init inside */
	const char *sudo;  /* the program to be seen as sudo where the system is its own, or NULL */
	const char *slice; /* whose cgroups it goes to, or NULL (jail/cgroup.h) */
	uint64_t owner;    /* of its ids; 0: nobody's in particular (jail/ids.h) */
	int terminal;      /* the terminal that the sandbox will get, or -EBADF */
};

/* What the warden must watch, because no kernel object does. 0: nothing. */
struct tier_watch {
	uint64_t memory;   /* bytes of all processes together */
	uint64_t cpu_time; /* ms of all processes together */
};

#define TIER_MAX_PORTS 64

struct tier_jail {
	struct jail jail;
	struct files_granted granted; /* the jail points into it */
	struct plan plan;             /* the jail points to it */
	struct strv guarded;          /* and to these */
	struct strv overlays; /* paths with an overlay, in the order of their uppers, from 1 */
	struct strv overlay_sources; /* the same on the host: without symbolic links */
	struct strv layers;          /* ids of those that it was started from, the oldest first */
	const char *image;           /* of the policy, without symbolic links, or NULL */
	bool is_contained;           /* in namespaces, with a store as large as the disk limit */
	bool lives;                  /* as the request says */
	bool changes_users;          /* its root may be any of its users */
	const char *slice;           /* likewise */
	struct filter filter;
	bool has_gate;                              /* connects and names go to the warden */
	struct published published[TIER_MAX_PORTS]; /* the jail points to it: the process tier */
	enum record record; /* RECORD_OFF where the sandbox has no listener */
	uint64_t pass;      /* of the command's execve; 0 where nothing is recorded */
	struct report report;
	struct tier_watch watch;
	int janitor;                  /* kept open until the cgroup may go, or -EBADF */
	int store;                    /* of a container that has ended: what it wrote, or -EBADF */
	const char *home, *temporary; /* inside: HOME and TMPDIR */
	const char *user;             /* inside: USER and LOGNAME; NULL: the caller's */
};

/* An empty one, for a prepare function to begin with. */
/* What is recorded, for the filter, and the pass that it needs; where there is a listener. */
[[nodiscard]] int tier_record(const struct tier_request *request, struct tier_jail *tj,
			      struct filter_spec *spec, struct err *err);

void tier_jail_init(const struct tier_request *request, struct tier_jail *tj);

/* What it wrote, for an image: the store, or the private folder. Points into the jail, and to what
 * tier_jail_made() found. */
struct image_source tier_jail_source(const struct tier_jail *tj, const struct strv *made);

/* Names in the store that the plan makes to mount something on, where the sandbox may write: parents
 * first. */
[[nodiscard]] int tier_jail_made(const struct tier_jail *tj, struct strv *ret_made);

void tier_jail_abandon(struct tier_jail *tj);
void tier_jail_done(struct tier_jail *tj);

#endif
