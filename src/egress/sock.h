/*
 * sock.h - what the gate asks of TCP sockets, some of which the sandbox holds too
 *
 * A socket that the sandbox shares with us is hostile: its flags and options can change between two
 * of our calls. sock_connect() therefore does not trust O_NONBLOCK, which belongs to all holders,
 * but takes the one way that is non-blocking by an argument of the call itself.
 */
#ifndef BRIG_EGRESS_SOCK_H
#define BRIG_EGRESS_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/macro.h"

/* The address of an IPv4 or IPv6 socket. */
union sock_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* 0 for another family. */
socklen_t sock_address_len(const union sock_address *address);

/* Same family, address and port. */
bool sock_address_equal(const union sock_address *a, const union sock_address *b);

/* ::ffff:a.b.c.d becomes a.b.c.d, and back; what is not mapped stays as it is. */
void sock_address_unmap(union sock_address *address);
void sock_address_map(union sock_address *address);

/* Our own name of a socket, or the peer's; -EAFNOSUPPORT where it is of another family. */
[[nodiscard]] int sock_name(int fd, union sock_address *ret_name);
[[nodiscard]] int sock_peer(int fd, union sock_address *ret_peer);

/* An integer option. */
[[nodiscard]] int sock_get(int fd, int level, int option, int *ret_value);
[[nodiscard]] int sock_set(int fd, int level, int option, int value);

/* Small answers go out at once, and a side that is gone without a word is noticed. */
void sock_tune(int fd, int keep_seconds);

/* TCP_ESTABLISHED and so on (netinet/tcp.h). */
[[nodiscard]] int sock_state(int fd);

/*
 * Connects a TCP socket without ever waiting, whatever its holders do to its flags: 0 or the errno,
 * -EINPROGRESS among them.
 */
[[nodiscard]] int sock_connect(int fd, const union sock_address *address);

/*
 * Ties a socket to the loopback interface, for good: only a capability that the sandbox does not
 * have unties it. Without this its holder can set a source route (IP_OPTIONS, IPV6_RTHDR), and what
 * was sent to 127.0.0.1 leaves for the first host of that route. -EACCES when it is tied elsewhere.
 */
[[nodiscard]] int sock_confine(int fd);
bool sock_is_confined(int fd);

/* Closes with a RST instead of a FIN. Returns -EBADF, as fd_close() does. */
int sock_reset(int fd);

#endif
