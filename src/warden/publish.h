/*
 * publish.h - published ports as the warden keeps them (private to warden/)
 *
 * The publisher (egress/publish.h) accepts and relays; the keeper gives it sockets of the sandbox's
 * network (jail/supply.h). The host is listened at before the keeper is forked, so that a port that
 * cannot be had refuses the start; the warden shuts itself in (seclude.h) before it accepts anybody.
 *
 * Where the sandbox has no network of its own (the process tier) nothing is relayed: the program
 * listens by itself, and the keeper sees to it that it does so only there (jail/shared.h). Here it is
 * only looked whether the ports are free.
 */
#ifndef BRIG_WARDEN_PUBLISH_H
#define BRIG_WARDEN_PUBLISH_H

#include <poll.h>

#include "egress/publish.h"
#include "warden/seclude.h"
#include "warden/witness.h"

#define PUBLISH_FDS 2

struct publish {
	struct publisher *publisher; /* NULL: nothing is published */
	int supply;                  /* to the keeper */
	struct witness *witness;
	struct seclusion seclusion;
	bool is_secluded;
	void (*arrived)(void *of); /* somebody came to a port; may be NULL */
	void *of;
};

#define PUBLISH_NONE ((struct publish){ .supply = -EBADF })

/*
 * Listens at all that the policy says, before the keeper is forked. More can be added to a sandbox that
 * lives, if it has a network of its own. Its end of the channel is in
 * ret_theirs; the ports stand in the result, and those that were chosen are told.
 */
[[nodiscard]] int publish_open(struct witness *witness, const struct seclusion *seclusion,
			       bool lives, struct publish *ret_publish, int *ret_theirs,
			       struct err *err);

/* A socket of a client that listens, for a port inside; taken in any case. */
[[nodiscard]] int publish_add(struct publish *publish, int listener, uint16_t inside,
			      struct err *err);

/* The ports that there are, from 0 on; NULL behind the last. */
const struct published *publish_port(const struct publish *publish, size_t index);

/* What to wait for, PUBLISH_FDS at most, and how long (-1: for ever); then publish_poll(). */
size_t publish_fds(const struct publish *publish, struct pollfd fds[static PUBLISH_FDS]);
int publish_timeout(const struct publish *publish);
void publish_poll(struct publish *publish, const struct pollfd *fds, size_t count);

/* The sandbox has ended: nobody else is let in, and what it sent is passed on. */
void publish_close(struct publish *publish);
bool publish_is_drained(const struct publish *publish);

void publish_done(struct publish *publish);

#endif
