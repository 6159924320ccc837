/*
 * probe.h - how a feature is tried without disturbing whoever asks
 *
 * What would change us is done in a child: it gets no signal, raises no SIGCHLD, dies with us,
 * dumps no core and is killed when it does not answer in time. It reports the step that it came to
 * and the error that stopped it there:
 *
 *	static int try_thing(const void *arg, struct probe_answer *answer)
 *	{
 *		answer->step = STEP_UNSHARE;
 *		if (unshare(CLONE_NEWUTS) < 0)
 *			return -errno;
 *		...
 *
 * The child is a fork of the caller, so the caller must have one thread only, as all of brig has.
 */
#ifndef BRIG_HOST_PROBE_H
#define BRIG_HOST_PROBE_H

#include <sys/types.h>

#include "host/host.h"

/* Against hanging, not a measure of speed: a probe takes well under a millisecond, but a host may
 * be busy. */
#define PROBE_DEADLINE_MS 5000

/* Who asks, found once for all probes. */
struct probe {
	bool root;       /* effective uid 0 */
	bool privileged; /* root that may make namespaces without a user namespace */
	bool sets_ids;   /* root that may map any id */
	bool container;
};

typedef void probe_fn(const struct probe *probe, enum host_feature feature, struct host_fact *fact);

probe_fn probe_landlock, probe_landlock_scope, probe_seccomp, probe_seccomp_notify;
probe_fn probe_namespace, probe_overlay;
probe_fn probe_cgroup;
probe_fn probe_subids, probe_kvm, probe_program;

#define PROBE_TEXT_SIZE 64

/* What a child tells: at which step it ended, with 0 or -errno. text is the probe's own. */
struct probe_answer {
	int step;
	int error;
	char text[PROBE_TEXT_SIZE];
};

/*
 * Runs fn(arg) in a child and waits for its answer. 0 when there is one, whatever it says;
 * -ETIMEDOUT when there was none in time, -ECHILD when the child died, or why there was no child.
 */
[[nodiscard]] int probe_in_child(int (*fn)(const void *arg, struct probe_answer *answer),
				 const void *arg, struct probe_answer *ret_answer);

/* As fork, but the parent is not signalled when the child ends, and the child ends with it. */
[[nodiscard]] pid_t probe_fork(void);

/* The exit code of a child of probe_fork(), or -errno; -ECHILD when a signal ended it. */
[[nodiscard]] int probe_wait(pid_t pid);

/* Each sets the whole fact. Foreign text is made printable. */
void fact_ok(struct host_fact *fact, const char *fmt, ...) _printf_(2, 3);
void fact_missing(struct host_fact *fact, const char *remedy, const char *fmt, ...) _printf_(3, 4);

/* For what probe_in_child() returns when it is not 0: the probe itself did not come about. */
void fact_untried(struct host_fact *fact, int error);

/* Whether a filter is loaded already: the likely reason of a refusal that nothing else explains. */
bool probe_under_seccomp(void);

/*
 * Why a namespace or a mount was refused, out of what the host says about itself. A pure function,
 * so that hosts which are not at hand can be tested.
 */
enum probe_step {
	STEP_USERNS,     /* unshare(CLONE_NEWUSER) */
	STEP_MAP,        /* writing setgroups, uid_map, gid_map */
	STEP_CAPABILITY, /* using a capability inside */
	STEP_NAMESPACE,  /* unshare of another namespace */
	STEP_MOUNT,
	STEP_USE, /* what the namespace is for */
	STEP_COUNT,
};

struct probe_signs {
	enum probe_step step;
	int error; /* positive */
	bool root; /* effective uid 0 */
	bool container;
	bool seccomp;       /* a filter is loaded */
	bool chroot;        /* our root is not the root of the mount namespace */
	bool no_proc;       /* no /proc to write a map to */
	bool undumpable;    /* our /proc files belong to root */
	bool apparmor;      /* kernel.apparmor_restrict_unprivileged_userns=1 */
	bool clone_off;     /* kernel.unprivileged_userns_clone=0 */
	bool no_namespaces; /* user.max_user_namespaces=0 */
};

struct probe_cause {
	bool (*is)(const struct probe_signs *signs);
	const char *what;
	const char *remedy;
};

/* Never NULL: the last cause is that nobody knows. */
const struct probe_cause *probe_cause(const struct probe_signs *signs);

#endif
