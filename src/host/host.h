/*
 * host.h - what this kernel and this user can enforce, found by trying it
 *
 * One row per feature. A probe tries the thing itself (in a child process where it would change
 * us), never a version number, and leaves nothing behind. All of them together take a few
 * milliseconds.
 *
 *	struct host host;
 *	host_probe(&host);
 *	if (!host.facts[HOST_USERNS].ok)
 *		puts(host.facts[HOST_USERNS].remedy);
 */
#ifndef BRIG_HOST_HOST_H
#define BRIG_HOST_HOST_H

#include <stdbool.h>

#include "base/macro.h"

enum host_feature {
	HOST_LANDLOCK,       /* value: the ABI */
	HOST_LANDLOCK_SCOPE, /* signals and abstract sockets: ABI 6 */
	HOST_SECCOMP,
	HOST_SECCOMP_NOTIFY,
	HOST_USERNS, /* one that has capabilities inside */
	HOST_MOUNTNS,
	HOST_PIDNS,
	HOST_PROCFS, /* a new /proc for a PID namespace: containers that mask theirs refuse it */
	HOST_NETNS,
	HOST_IPCNS,
	HOST_UTSNS,
	HOST_CGROUPNS,
	HOST_TIMENS,
	HOST_OVERLAY, /* overlayfs in a user namespace (for root: at all) */
	HOST_SUBIDS,  /* a range in /etc/subuid and /etc/subgid, and newuidmap */
	HOST_CGROUP_MEMORY,
	HOST_CGROUP_PIDS,
	HOST_CGROUP_CPU,
	HOST_CGROUP_KILL,
	HOST_KVM,
	HOST_RUNSC,
	HOST_QEMU,
	HOST_FEATURE_COUNT,
};

struct host_fact {
	bool ok;
	long value;       /* where a number says more: Landlock's ABI, subordinate ids */
	char detail[160]; /* what was found: "ABI 7", "v1, own subtree", "refused: Operation not
			     permitted" */
	char remedy[400]; /* the exact command or setting that would help; "" when ok or when
			     nothing would */
};

struct host {
	struct host_fact facts[HOST_FEATURE_COUNT];
	char kernel[80]; /* release */
	bool root;       /* effective uid 0 */
	bool container;  /* looks like the inside of a container: for remedies */
};

struct host_feature_info {
	const char *name;  /* "landlock", for --json */
	const char *title; /* "Landlock" */
	const char *why;   /* what stands on it, half a line */
};
extern const struct host_feature_info host_features[HOST_FEATURE_COUNT];

void host_probe(struct host *ret_host);

/* The one probe that every start needs, without the others. */
void host_probe_one(enum host_feature feature, struct host_fact *ret_fact);

#endif
