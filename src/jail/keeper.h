/*
 * keeper.h - the process between the warden and the workload
 *
 *	warden (brig run)
 *	  |  control socket
 *	keeper           in an outer Landlock domain that scopes signals
 *	  |
 *	workload         in an inner domain with the file rules: the first process and what it starts
 *
 * The keeper is the reason why a sandbox without a pid namespace and without a cgroup ends as a
 * whole. It is the subreaper of everything the workload starts, so that nothing is ever reparented
 * elsewhere. It ends the sandbox with one kill(-1, SIGKILL): the outer domain lets that call reach
 * exactly the keeper's own descendants, and the kernel delivers it under the lock that fork takes,
 * so a fork bomb in full flight does not outrun it. The workload cannot signal, trace or stop the
 * keeper, because the keeper is outside the inner domain.
 *
 * If the warden dies, the control socket closes and the keeper ends the sandbox by itself and
 * removes its private folder. If the keeper is killed from outside, the first process dies with it
 * (PDEATHSIG), and what is left is reparented to the warden, which is a subreaper too.
 *
 * In a container the keeper is pid 1 of the sandbox instead (inside.h). It carries out its part of
 * the plan, and the kernel ends all that it started when it ends; domains that scope signals are
 * not needed for that.
 *
 * Where the jail is mediated, the keeper also answers for the calls that neither Landlock nor a
 * filter can judge (mediate.h). While it ends the sandbox it no longer does: a process that waits
 * for an answer can be killed.
 *
 * Everything here runs after fork. The keeper has no threads (but see beside.h) and never allocates. It has
 * no filter of its own: with mediation its list would hold nearly all that could do harm (opening,
 * chmod, unlink, kill), and without, the workload's filter is its filter too.
 */
#ifndef BRIG_JAIL_KEEPER_H
#define BRIG_JAIL_KEEPER_H

#include <stdbool.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "jail/carry.h"
#include "jail/cgroup.h"
#include "jail/ids.h"
#include "jail/landlock.h"
#include "jail/plan.h"
#include "jail/record.h"
#include "jail/scratch.h"
#include "jail/seccomp.h"
#include "policy/policy.h"

#define JAIL_MAX_RLIMITS 8

struct jail_rlimit {
	int resource;
	uint64_t soft, hard;
};

/* All that the set-up in the child needs, made ahead by the tier. Pointers are the warden's. */
struct jail {
	const struct plan *plan; /* all that is done, in its order */
	struct ids ids;          /* of a container that root starts */
	bool keeps_store;        /* the warden wants the store (the private folder), to look at it
				    afterwards; it removes the folder then */
	struct landlock outer,
		inner; /* fd -EBADF: knocked out or weakened by the person at the keyboard */
	const struct filter *filter; /* NULL: knocked out */
	enum mediation mediation;    /* of the filter; the lists are for mediate.h, the tier's */
	unsigned int conditions;     /* of the filter (syscalls.h) */
	struct record_ring *ring;    /* for what is only recorded; NULL: nothing is */
	int outlet;                  /* to the gate (outlet.h); -EBADF: there is none */
	int supply;                  /* for published ports (supply.h); -EBADF: there are none */
	uint16_t resolver; /* its port, where the network is the host's (shared.h); 0: it is not */
	const struct published *published; /* there: the ports that may be listened at */
	size_t published_count;
	const struct carry *carry; /* NULL: nothing is carried out for the sandbox (carry.h) */
	const char *const *guarded;
	size_t guarded_count;
	const char *const *writable;
	size_t writable_count;
	const char *const *readable;
	size_t readable_count;
	struct cgroup cgroup;
	struct scratch scratch;
	struct jail_rlimit rlimits[JAIL_MAX_RLIMITS];
	unsigned int rlimit_count;
	uint64_t wall_ms; /* UINT64_MAX: none. The warden keeps this deadline; the keeper, if that
			     does not. KEEPER_DEADLINE changes it */
	bool has_affinity;
	cpu_set_t affinity;
};

/* The first process. stdio are descriptors of the warden; one that is -EBADF becomes /dev/null. */
struct jail_command {
	char *const *argv;
	char *const *envp;
	char **script_argv; /* room for argv and two more: a script without "#!" is given to sh */
	const char *search; /* the PATH to look the program up in */
	int stdio[3];
	int null;             /* /dev/null, for standard descriptors that are -EBADF */
	int terminal;         /* becomes the controlling terminal, or -EBADF */
	uint64_t pass;        /* of the filter's spec */
	int program;          /* executed in the place of argv[0]: a descriptor, or -EBADF */
	bool program_is_file; /* of a file system, so that Landlock has to allow it */
	int channel;          /* becomes descriptor JAIL_CHANNEL, or -EBADF */
};

#define JAIL_CHANNEL 3

enum keeper_order {
	KEEPER_GO,         /* ids and cgroup are there: set up the namespaces (containers only) */
	KEEPER_SIGNAL,     /* send a signal to the first process's group */
	KEEPER_SIGNAL_ALL, /* send it to every process of the sandbox */
	KEEPER_DEADLINE,   /* in place of the one it has: value ms from now, UINT64_MAX: none */
	KEEPER_KILL,       /* end everything now */
};

struct keeper_request {
	int order, signal;
	uint64_t value;
};

enum keeper_news {
	KEEPER_TERMINAL, /* descriptor: the master of a terminal made inside */
	KEEPER_STORE,    /* descriptor: the tree with all that the sandbox writes of its own */
	KEEPER_STARTED,  /* pid; the program is running (told only where it has a terminal) */
	KEEPER_FAILED,   /* the start failed: step, code */
	KEEPER_STOPPED,  /* the first process was stopped: code is the signal */
	KEEPER_EXITED,   /* the first process ended, others are still to be: code as from wait */
	KEEPER_EMPTY,    /* no process is left, the private folder is being removed */
	KEEPER_FINISHED, /* nothing is left: usage of all, the first one's status; code of the
			    clean-up */
};

struct keeper_event {
	int news;
	int step; /* enum keeper_step of a failure */
	int op;   /* and the operation of the plan, or -1 */
	int code;
	int descriptor; /* received with it, or -EBADF */
	pid_t pid;
	bool is_lost;    /* KEEPER_FINISHED: ended because a protecting mount went away */
	bool is_late;    /* KEEPER_FINISHED: ended by the keeper's own deadline */
	bool has_status; /* KEEPER_FINISHED: status of the first process, as from wait */
	int status;
	struct rusage usage;
};

/* Where a start can fail; the names are for messages. */
enum keeper_step {
	STEP_SETUP,
	STEP_PRIVILEGES,
	STEP_AFFINITY,
	STEP_DOMAIN,
	STEP_SCOPE,
	STEP_FILTER,
	STEP_FORK,
	STEP_SESSION,
	STEP_TERMINAL,
	STEP_STDIO,
	STEP_CGROUP,
	STEP_RLIMITS,
	STEP_FILES,
	STEP_DESCRIPTORS,
	STEP_SETTLE,
	STEP_EXEC,
	STEP_COUNT,
};
extern const char *const keeper_steps[STEP_COUNT];

struct keeper {
	pid_t pid;   /* our child until we reap it, so the number is safe to use */
	int control; /* SOCK_SEQPACKET */
};

#define KEEPER_NONE ((struct keeper){ .control = -EBADF })

/* What the keeper changes in the jail it changes in its own copy. */
[[nodiscard]] int keeper_start(struct jail *jail, const struct jail_command *command,
			       struct keeper *ret_keeper, struct err *err);
[[nodiscard]] int keeper_order(const struct keeper *keeper, enum keeper_order order, int signal);

/*
 * The warden's deadline has changed: the keeper's follows, a second later than it (or UINT64_MAX: none). A
 * keeper that finds its deadline over reads the orders that wait before it acts on it.
 */
[[nodiscard]] int keeper_deadline(const struct keeper *keeper, uint64_t left_ms);

/* One event; -EAGAIN when there is none, -EPIPE when the keeper is gone. */
[[nodiscard]] int keeper_next(const struct keeper *keeper, struct keeper_event *ret_event);

/*
 * Kills every descendant of the calling process that it can find, until none is left or the time is
 * over. The way that works without Landlock's scopes: slower, and a race against a fork bomb.
 * -ETIME when something is left.
 */
[[nodiscard]] int descendants_kill(uint64_t timeout_ms);

#endif
