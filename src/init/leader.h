/*
 * leader.h - the leader of a terminal's session, which is not the program
 *
 * The kernel ignores Ctrl-Z in a group whose members' parents are all outside of the session: nobody
 * could continue it. So the program's parent has to be in its session, and in another group: a process
 * of init's own, the leader. It waits for the program, tells how it stopped and ended, and lets go of it
 * only when init has closed its end: until then the pid is nobody else's.
 *
 * If the leader is killed, or gets the SIGHUP of a terminal that is gone, the kernel hands SIGHUP on to
 * the foreground, and the program to init, its subreaper.
 */
#ifndef BRIG_INIT_LEADER_H
#define BRIG_INIT_LEADER_H

#include "init/spawn.h"

enum leader_news { LEADER_STARTED, LEADER_FAILED, LEADER_STOPPED, LEADER_EXITED };

struct leader_report {
	enum leader_news news;
	int value;      /* the pid; the signal; the status as from wait */
	struct err err; /* of LEADER_FAILED */
};

/* Forks the leader. Its reports come over the socket, one a message. */
[[nodiscard]] pid_t leader_start(const struct spawn *of, int *ret_socket, struct err *err);

#endif
