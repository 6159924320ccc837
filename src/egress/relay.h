/*
 * relay.h - carries bytes both ways between two connected TCP sockets
 *
 * All relays of a gate share one buffer and keep no bytes of their own: a turn looks at what has
 * arrived (MSG_PEEK), sends what the other side takes, and only then takes that much out of the
 * kernel's queue. What a slow receiver does not take stays in the sender's queue and closes the
 * sender's window, as it would without us; a thousand stuck connections cost nothing here.
 *
 * Readiness comes from edge-triggered epoll: relay_ready() notes what an event said, relay_pump()
 * goes on until both directions are blocked, and then there is no event until something changes.
 * There is nothing to disarm and nothing that can spin.
 *
 * The way to the remote can be held back until the first bytes are judged; the way back flows
 * meanwhile, since there are protocols where the server speaks first. The end of one direction is
 * passed on as such (half-close), a reset as a reset.
 */
#ifndef BRIG_EGRESS_RELAY_H
#define BRIG_EGRESS_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define RELAY_BUFFER (1 * MIB)

enum relay_side { RELAY_LOCAL, RELAY_REMOTE };

struct relay {
	int fds[2];       /* owned */
	bool is_held;     /* nothing goes to the remote yet */
	struct buf first; /* goes there before anything else */
	size_t first_sent;
	struct relay_end {
		bool can_read, can_write; /* as far as we know */
		bool has_hung_up; /* the end is in the queue: a short read is not the last */
		bool is_at_end;   /* read to the end, and that was passed on */
		size_t step;      /* how much to look at in one go */
		uint64_t bytes;   /* taken from this side and passed on */
	} ends[2];
};

enum relay_state {
	RELAY_WAITS, /* for an event */
	RELAY_MORE,  /* its turn is over, there is more to do */
	RELAY_OVER,  /* both directions have ended */
};

/* Takes both sockets, which are non-blocking. */
void relay_init(struct relay *relay, int local, int remote, bool is_held);

/* Closes both; a relay that is not over is broken off with resets. */
void relay_done(struct relay *relay, bool is_over);

/* Notes the events that epoll reported for a side. */
void relay_ready(struct relay *relay, enum relay_side side, uint32_t events);

/*
 * One turn with the shared buffer. An enum relay_state, or -errno when a side broke: nothing more
 * can be carried, and the other one is to be reset.
 */
[[nodiscard]] int relay_pump(struct relay *relay, void *buffer, size_t size);

/*
 * Reads first bytes of the local side while it is held, behind what relay->first has. How many came,
 * 0 at the end of the stream, -EAGAIN when there are none yet.
 */
[[nodiscard]] int relay_read_first(struct relay *relay, void *buffer, size_t size);

/* The first bytes are fine: they go out with the next turn, and all that follows. */
void relay_release(struct relay *relay);

#endif
