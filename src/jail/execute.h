/*
 * execute.h - carries out the operations of a plan
 *
 * One function per kind of operation, in one table. What anybody but root could change goes through
 * descriptors: a target is opened below its tree without following a symbolic link, a source on the
 * host without one in any component and with the kind (file or directory) that the plan was made
 * for. A tree that someone changes meanwhile makes an operation fail; it does not make it land
 * elsewhere. By path, which is faster, goes only what is_plain in the plan: trees of root's on mount
 * points of our own. Nothing is ever written to the host: what is made is made in trees of the
 * sandbox's own.
 *
 * Runs after fork and allocates nothing. Some of the work is done by a second process on the same
 * memory (beside.h). Whatever was done before a failure vanishes with the namespaces of the process
 * that did it.
 */
#ifndef BRIG_JAIL_EXECUTE_H
#define BRIG_JAIL_EXECUTE_H

#include "jail/beside.h"
#include "jail/landlock.h"
#include "jail/network.h"
#include "jail/plan.h"

struct executor {
	const struct plan *plan;
	int place[PLACE_COUNT];
	uint64_t protections[PROTECTIONS_MAX]; /* mounts, in the order of the plan */
	size_t protection_count;
	struct landlock grants; /* opened by the first OP_GRANT */
	struct beside beside, detach;
	struct {
		int is_done; /* a futex */
		int result;  /* the descriptor of the namespace */
		const char *own_address;
		bool opens_low_ports;
		struct network sockets;
	} network;
	int proc; /* the host's, for the process beside us: paths change under its feet */
	int (*afterwards)(void *arg); /* what the process beside us goes on with, or NULL */
	void *afterwards_arg;
	int users_id; /* uid and gid of the user's files; -1: those of this process */
};

/* Large and shared with children: one in static memory, for a process that has one plan. */
void executor_init(struct executor *executor);

/* All operations of the keeper. -errno with the operation that failed. */
[[nodiscard]] int execute_keeper(const struct plan *plan, struct executor *executor,
				 size_t *ret_failed);

/*
 * Whether every mount that protects something inside a tree of the host is still there. The kernel
 * takes a mount away, in all namespaces, when the file that it is on is removed or replaced on the
 * host; what is there then is not protected.
 */
bool executor_is_intact(struct executor *executor);

/* Closes the trees; the grants stay, for the first process to enter. */
void executor_close(struct executor *executor);

/* OP_USER: this process only, raw: also safe on memory that is shared with another. */
[[nodiscard]] int execute_user(const struct op *op);

#endif
