/*
 * park.h - holds a caller's own socket in SYN_SENT, and completes it later
 *
 *	park_reserve(A)    the socket that B will be
 *	park_enter(A)      A connects to a listener whose accept queue is full. Its SYN is dropped in
 *	                   silence: for poll and epoll A is on its way to a distant host.
 *	park_leave(A, B)   B, a new socket bound to the listener's address, connects to A's own
 *	                   address: TCP's simultaneous open. Both ends are established, A turns
 *	                   writable, and whoever holds it sees an ordinary connection.
 *	park_check(A, B)   they are each other's peer, or B must be reset before a byte moves
 *
 * It is the caller's open file throughout: epoll sets, duplicates, options and a bound port survive.
 * Nobody else gets in, because the listener never accepts.
 *
 * Places are made in the network of the caller by a function of the owner, at the first use; another
 * one when all ports towards the first are taken. A of either family finds a place: an IPv6 socket
 * goes to ::1 or, mapped, to 127.x.y.z, whichever it can reach.
 */
#ifndef BRIG_EGRESS_PARK_H
#define BRIG_EGRESS_PARK_H

#include "egress/sock.h"

#define PARK_PLACES 4 /* of each family: with 28,000 ports towards each */

/* A TCP socket in the network of the sandbox, or -errno. */
typedef int park_socket_fn(void *ctx, int family, int type);

struct park_place {
	int listener, filler; /* -EBADF until it is made */
	union sock_address address;
};

struct park {
	park_socket_fn *make_socket;
	void *ctx;
	struct park_place places[2][PARK_PLACES]; /* IPv4, IPv6 */
};

/* Where a socket is parked, and by which name: plain data. */
struct parked {
	const struct park_place *place;
	union sock_address own;
};

void park_init(struct park *park, park_socket_fn *make_socket, void *ctx);
void park_done(struct park *park);

/*
 * wants_v6 says which family an IPv6 socket is likely to reach; the other one is tried too. Errors
 * are those that connect() has for A in the state that it is in.
 */
[[nodiscard]] int park_enter(struct park *park, int a, bool wants_v6, struct parked *ret_parked);

/*
 * A socket that can become B. Taken when A's matter begins: the sandbox's network may have none to
 * give when many others have begun meanwhile.
 */
[[nodiscard]] int park_reserve(struct park *park, int a, bool wants_v6, int *ret_spare);

/* Makes B, of spare if it fits, and connects it. -ECONNABORTED when A is no longer what was parked. */
[[nodiscard]] int park_leave(struct park *park, int a, const struct parked *parked, int *spare,
			     int *ret_b);

/* 0 when A and B are connected to each other, -EINPROGRESS when that may still come. */
[[nodiscard]] int park_check(int a, int b, const struct parked *parked);

/* Is this the address of a place? Nobody but us connects there. */
bool park_owns(const struct park *park, const union sock_address *address);

#endif
