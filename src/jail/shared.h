/*
 * shared.h - calls of a sandbox that has no network of its own (the process tier)
 *
 * There the host's network is the sandbox's, and only the filter, the keeper and the gate stand
 * between. connect() is the gate's (outlet.h). The rest that could reach somebody waits for the
 * keeper, which carries it out on its own duplicate of the socket and with its own copy of the
 * address, or refuses it; none of it is ever let through, because the number of the socket can
 * mean another one a moment later:
 *
 *	sendto with an address   internet datagrams to port 53 of anything go to the gate's resolver;
 *	sendmsg, sendmmsg        netlink to the kernel; nothing else. Without an address: on sockets
 *	                         that are connected (the gate judged that) and on pairs, where
 *	                         descriptors that are passed are taken from the sender and passed on.
 *	bind                     to loopback or to no address in particular, without a port, and
 *	                         netlink; a datagram socket is tied to the loopback device first.
 *	                         To a published port, where "any" becomes its loopback address.
 *	listen                   at a published port; else refused: whoever else is on this host could
 *	                         connect.
 *	open                     /etc/resolv.conf is a file that names the resolver's address.
 *
 * A datagram socket that sends to the resolver is tied to the loopback device too, so that nobody
 * outside this host can send to it. Control messages of internet sockets are refused: they can take
 * a packet past the device that its socket is tied to.
 *
 * A send that has to wait does so in a process of its own (waiter.h) and can be interrupted by a
 * signal. What differs from a call of one's own: of a stream at most SHARED_SEND_MAX bytes are sent
 * at once, a longer message is EMSGSIZE; the receiver's SO_PASSCRED shows the keeper; of many
 * messages only the first waits.
 */
#ifndef BRIG_JAIL_SHARED_H
#define BRIG_JAIL_SHARED_H

#include <linux/seccomp.h>

#include "base/macro.h"
#include "jail/mediate.h"

#define SHARED_SEND_MAX (1 * MIB)
#define PORT_OF_NAMES   53

/* 1 when the call has its answer or will have, 0 when it is not one of these, or -errno of the
 * listener. */
[[nodiscard]] int shared_answer(const struct mediator *mediator, const struct seccomp_notif *notif);

/* The senders: what the call returns, or -EINPROGRESS when somebody else answers (shared_send.c). */
[[nodiscard]] int shared_send(const struct mediator *mediator, const struct seccomp_notif *notif);

/* listen() (shared_listen.c). */
[[nodiscard]] int shared_listen(const struct mediator *mediator, const struct seccomp_notif *notif);

/*
 * A name that a TCP socket is to be bound to: if it means a published port, it becomes what the
 * policy says, and the socket is tied to loopback. False: it does not, and stays as it is.
 */
struct sockaddr_storage;
bool shared_turn_to_published(const struct mediator *mediator, int fd, int domain,
			      struct sockaddr_storage *name, uint32_t *len);

/* A refusal that the warden is told of: always -EACCES. */
[[nodiscard]] int shared_refuse(const struct mediator *mediator, const struct seccomp_notif *notif,
				enum outlet_refusal refusal, const struct sockaddr_storage *address,
				size_t len);

/* What a call returns that was to return r; where r is because the caller's memory is closed, or has
 * no address where it says, the warden is told. */
[[nodiscard]] int shared_unread(const struct mediator *mediator, const struct seccomp_notif *notif,
				int r);

/* So that nothing but this host can be reached by it, or reach it. */
[[nodiscard]] int shared_confine(int fd);

#endif
