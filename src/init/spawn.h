/*
 * spawn.h - starts a program: all that was prepared, in a child that shares our memory until execve
 *
 * spawn() returns when the program runs, or has failed to; the caller sleeps meanwhile (vfork). All
 * signals are blocked in init, and none has a handler: the child has nothing to undo but the mask.
 *
 * With a terminal the program gets a group of its own, in the foreground of the caller's session
 * (leader.h); without, a session of its own.
 */
#ifndef BRIG_INIT_SPAWN_H
#define BRIG_INIT_SPAWN_H

#include <sys/resource.h>

#include "init/user.h"

struct spawn {
	char **argv, **envp;
	char **script_argv;    /* room for argv and one more */
	const char *search;    /* PATH of envp */
	const char *directory; /* or NULL */
	int stdio[3];
	bool has_terminal; /* stdio[0] is it, and the caller is the leader of its session */
	struct rights rights;
	struct user user;
	struct rlimit files;
};

/* The pid, or -errno with the words for it. */
[[nodiscard]] pid_t spawn(const struct spawn *of, struct err *err);

#endif
