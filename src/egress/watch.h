/*
 * watch.h - what an event of the gate's epoll descriptor belongs to
 *
 * An event names its object by kind, index and generation, never by address: one that was on its way
 * while the object was freed, and its place perhaps taken by another, finds that the generation has
 * changed and is dropped.
 */
#ifndef BRIG_EGRESS_WATCH_H
#define BRIG_EGRESS_WATCH_H

#include <stdint.h>

enum watch_kind {
	WATCH_CALLER, /* a connection's sockets */
	WATCH_LOCAL,
	WATCH_REMOTE,
	WATCH_ASK,      /* a question upstream */
	WATCH_DATAGRAM, /* questions from inside, over UDP */
	WATCH_LISTENER, /* new TCP clients for the resolver */
	WATCH_CLIENT,   /* one of these */
	WATCH_COUNT,
};

struct watch {
	enum watch_kind kind;
	uint32_t index, generation;
};

/* Edge-triggered where events say so. */
[[nodiscard]] int watch_add(int epoll, int fd, uint32_t events, struct watch watch);
void watch_remove(int epoll, int fd);

/* What an event's data was made from. */
struct watch watch_of(uint64_t data);

#endif
