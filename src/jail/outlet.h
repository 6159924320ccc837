/*
 * outlet.h - the keeper's side of the gate: connects of the sandbox, handed over to the warden
 *
 * The gate (egress/gate.h) lives outside, where the network is. What it needs from inside, the
 * keeper has: the notification of a connect(), the caller's own socket, and sockets that were made
 * in the sandbox's network. All of it goes over one socket pair:
 *
 *	keeper -> warden   OUTLET_LISTENER  the seccomp listener, before the first connect
 *	                   OUTLET_OPENED    the resolver's two sockets, and some in stock
 *	                   OUTLET_CONNECT   a copy of the address, the caller's socket, more for the stock
 *	                   OUTLET_SIGNAL    it shall not wait any longer: a signal is due
 *	                   OUTLET_REFUSED   the keeper refused something by itself (shared.h)
 *
 * The warden answers the notification itself: by way of the keeper, each connect would wait for
 * one more process to wake up. It also sees by the listener that a caller has gone. So the keeper
 * learns that a connect is over when it looks after those that wait. If the warden shuts the
 * channel, it cannot do without: the sandbox ends.
 *
 * The address is copied once, then the socket is taken, then the notification is seen to be still
 * valid: both are the caller's. What the number of the socket means afterwards does not matter,
 * what the memory says neither.
 *
 * A connect that waits for a distant host can be interrupted: where a signal is due to the caller,
 * the connect fails with EINTR and goes on, as without a sandbox, though whatever the handler's flags
 * say. The kernel would hold the signal back until the answer (WAIT_KILLABLE_RECV).
 *
 * Only internet sockets are the gate's. A socket of another family goes on, and the kernel decides:
 * in a network namespace with nothing but a loopback device it leads nowhere outside.
 *
 * Where the sandbox shares the network of the warden (resolver is a port), the gate makes its
 * sockets by itself and needs none of ours, the resolver's are the warden's from the start, and no
 * connect goes on: behind its number there may be another socket by then.
 */
#ifndef BRIG_JAIL_OUTLET_H
#define BRIG_JAIL_OUTLET_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTLET_ADDRESS_MAX 128 /* as large as a struct sockaddr_storage */
#define OUTLET_HELD_MAX    1024
#define OUTLET_LOOK_MS     50
#define OUTLET_SPARES      6 /* sockets for the stock to begin with: 4 of IPv4, 2 of IPv6 */
#define OUTLET_BATCH       4 /* every so many connects of a family bring so many sockets, and one more */

/* In the sandbox's own network, so that getaddrinfo() sees an address that is not loopback. */
#define OUTLET_OWN_ADDRESS "192.0.2.1"

/* Where the network is shared: what an open of it for reading gets is made up. */
#define OUTLET_RESOLV_CONF "/etc/resolv.conf"

enum outlet_kind {
	OUTLET_LISTENER,
	OUTLET_OPENED,
	OUTLET_CONNECT,
	OUTLET_SIGNAL,
	OUTLET_REFUSED,
};

enum outlet_refusal {
	OUTLET_REFUSED_SEND,
	OUTLET_REFUSED_CONTROL,
	OUTLET_REFUSED_BIND,
	OUTLET_REFUSED_LISTEN,
	OUTLET_REFUSED_CLOSED,  /* the caller's memory */
	OUTLET_REFUSED_ADDRESS, /* there is none where the caller says */
	OUTLET_REFUSAL_COUNT,
};

/*
 * Descriptors: of OUTLET_LISTENER the listener; of OUTLET_OPENED the resolver's datagram socket and
 * listener, then OUTLET_SPARES of IPv4 and IPv6; of OUTLET_CONNECT the caller's socket, then those of
 * a batch.
 */
struct outlet_message {
	uint64_t id;
	int32_t kind, pid;
	uint32_t exec, len;
	uint32_t refusal, number; /* of the call that was refused */
	unsigned char address[OUTLET_ADDRESS_MAX];
};

struct outlet {
	int channel;             /* -EBADF: there is no gate */
	int datagrams, listener; /* the resolver's, until they are handed over */
	uint16_t resolver;       /* its port on the network that is shared; 0: not shared */
	struct {
		uint64_t id;
		pid_t tid;
		bool is_signalled; /* the gate knows */
	} held[OUTLET_HELD_MAX];
	size_t held_count;
	unsigned int offered[2]; /* of IPv4, of IPv6 */
	bool has_told;           /* the warden has the listener */
};

/* Hands the resolver's sockets over, when somebody asks there: most sandboxes never do. */
[[nodiscard]] int outlet_open(struct outlet *outlet);

/* A message without descriptors. */
void outlet_tell(const struct outlet *outlet, const struct outlet_message *message);

/* A connect: 1 when it is handed over or answered, 0 when it is not the gate's, or -errno for the caller. */
[[nodiscard]] int outlet_offer(struct outlet *outlet, int listener,
			       const struct seccomp_notif *notif, uint32_t exec);

/* Every OUTLET_LOOK_MS while something is held: who is not, or has a signal to handle? */
void outlet_look(struct outlet *outlet, int listener);

#endif
