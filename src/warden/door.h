/*
 * door.h - the gate as the warden keeps it (private to warden/)
 *
 * The gate (egress/gate.h) judges, dials and relays; the keeper hands it the connects of the sandbox
 * (jail/outlet.h). The door is between them: it makes the gate when the sandbox first asks for a name
 * or a connection (most never do), and shuts the warden in before (seclude.h); it keeps a stock of
 * sockets from inside, answers the connects that wait, and tells the witness what was decided.
 *
 * Where the sandbox shares our network, the resolver listens on 127.0.0.1, at ports that are free:
 * the keeper and the gate turn whatever is meant for port 53 of anybody there.
 *
 * What comes over the channel is the keeper's word, and the keeper lives with the sandbox: lengths
 * are checked, an unexpected message is dropped with its descriptors.
 */
#ifndef BRIG_WARDEN_DOOR_H
#define BRIG_WARDEN_DOOR_H

#include <poll.h>

#include "egress/gate.h"
#include "jail/outlet.h"
#include "warden/seclude.h"
#include "warden/witness.h"

#define DOOR_STOCK  32
#define DOOR_RECENT 64
#define DOOR_FDS    3

struct door {
	int channel;             /* to the keeper; -EBADF: there is no door */
	int datagrams, listener; /* the resolver's, until there is a gate */
	struct gate *gate;
	struct witness *witness;
	bool is_shared;           /* the network of the sandbox is ours */
	int waiting;              /* the seccomp listener, where the callers wait */
	int stock[2][DOOR_STOCK]; /* sockets of the sandbox's network: IPv4, IPv6 */
	size_t stocked[2];
	uint64_t awaited[OUTLET_HELD_MAX]; /* connects that have no answer yet */
	size_t awaited_count;
	uint64_t next_look; /* at whether their callers are still there */
	struct {
		pid_t pid;
		uint32_t exec;
	} recent[DOOR_RECENT]; /* who asked last */
	size_t next_recent;
	bool failed; /* no gate could be made, in words */
	struct seclusion seclusion;
};

#define DOOR_NONE       \
	((struct door){ \
		.channel = -EBADF, .waiting = -EBADF, .datagrams = -EBADF, .listener = -EBADF })

/* Before the keeper is forked; its end of the channel is in ret_theirs. */
[[nodiscard]] int door_open(struct witness *witness, const struct seclusion *seclusion,
			    struct door *ret_door, int *ret_theirs, struct err *err);

/* Makes it one for a sandbox that shares our network. The port is the resolver's, for datagrams. */
[[nodiscard]] int door_share(struct door *door, uint16_t *ret_port, struct err *err);

/* What to wait for, DOOR_FDS at most, and how long (-1: for ever); then door_poll(). */
size_t door_fds(const struct door *door, struct pollfd fds[static DOOR_FDS]);
int door_timeout(const struct door *door);
void door_poll(struct door *door, const struct pollfd *fds, size_t count);

void door_done(struct door *door);

#endif
