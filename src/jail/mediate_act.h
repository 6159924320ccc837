/*
 * mediate_act.h - what the mediated calls do, once the path is resolved and the verdict is given
 *
 * Between mediate.c, which finds the call and judges, and mediate_act.c, which knows the arguments
 * and carries it out.
 */
#ifndef BRIG_JAIL_MEDIATE_ACT_H
#define BRIG_JAIL_MEDIATE_ACT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/macro.h"

#define XATTR_NAME_SIZE 256
#define LINK_SIZE       32

struct call; /* mediate.c */

struct request {
	const struct call *call;
	const unsigned long long *args; /* of the call, as the kernel copied them */
	const unsigned long long *own;  /* those behind descriptor, path and flags */
	pid_t tid;
	bool nofollow, only_directory;
	char path[PATH_MAX]; /* "" for the base itself */
	int base;            /* the target's directory or descriptor; -EBADF for none */
	int object;          /* O_PATH */
	struct stat st;      /* of the object */

	/* Copies of what the target's memory and descriptors held. */
	bool now;
	struct timespec times[2];
	char name[XATTR_NAME_SIZE];
	const char *value;
	size_t value_len;
	int value_flags;
	int watcher;
	uint32_t mask;
};

/* copy takes what the target must give, before anything is judged; run acts on request->object. */
struct act {
	int (*copy)(struct request *request);
	int (*run)(const struct request *request); /* what the call returns, or -errno */
	int refusal;                               /* outside the trees */
	bool only_looks;                           /* readable trees are enough */
};

extern const struct act act_chmod, act_chown, act_times, act_timevals, act_seconds, act_setxattr,
	act_setxattrat, act_removexattr, act_watch;

/* A path that reaches the object behind one of our descriptors, for calls that take only paths. */
const char *own_link(int fd, char text[static LINK_SIZE]);

#endif
