/*
 * network.h - the network namespace of a container
 *
 * Nothing but a loopback device. Where the sandbox has a gate (outlet.h), the resolver's sockets are
 * bound here, while the caller still has the right to a port below 1024, and the device has a second
 * address: without one that is not loopback, getaddrinfo() with AI_ADDRCONFIG finds no name at all.
 */
#ifndef BRIG_JAIL_NETWORK_H
#define BRIG_JAIL_NETWORK_H

struct network {
	int datagrams, listener; /* of the resolver, on port 53 of 127.0.0.1; -EBADF: no gate */
};

/* For this process. own_address: the second one, NULL without a gate. */
[[nodiscard]] int network_make(const char *own_address, struct network *ret_network);

/*
 * Lets every program of this process's network bind ports below 1024, as a published one may be; they
 * are nobody else's. proc: the directory. Where it cannot be written, their bind() fails.
 */
void network_open_low_ports(int proc);

#endif
