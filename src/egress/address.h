/*
 * address.h - an address as 16 bytes, and what kind of place it is
 *
 * Whatever spelling an address had (IPv4, IPv6, one inside the other), it is compared, judged and
 * dialled as one struct address: IPv4 is ::ffff:a.b.c.d. The class says what lives there; it comes
 * from the registries of special-purpose addresses (IPv4 and IPv6), from a list of the places where
 * clouds give out credentials, and from the host's own addresses, which the caller knows.
 *
 * An IPv6 address can hide an IPv4 one that some router on the way digs out again: IPv4-mapped,
 * -compatible and -translated, 6to4, NAT64 (the well-known and the local prefix), Teredo (server and
 * client) and ISATAP. The class is the strictest of the outer address and of every inner one. What
 * cannot be known here is a NAT64 prefix that a network chose out of its own public range.
 *
 * All of it is pure: no I/O, no allocation, total on any bytes.
 */
#ifndef BRIG_EGRESS_ADDRESS_H
#define BRIG_EGRESS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_BYTES        16
#define ADDRESS_INNER_MAX    8
#define ADDRESS_TEXT_SIZE    64 /* "[ffff:...]" with scope */
#define ADDRESS_AT_TEXT_SIZE 72 /* the same with ":65535" */

struct address {
	unsigned char ip[ADDRESS_BYTES];
	unsigned int port;
	uint32_t scope; /* the interface of a link-local address; 0 for all others */
};

/* In rising order of strictness: where two meet, the later one counts. */
enum address_class {
	ADDRESS_PUBLIC,
	ADDRESS_DOCUMENTATION,
	ADDRESS_BENCHMARK,
	ADDRESS_RESERVED,    /* any other entry of the registries that is not for everybody */
	ADDRESS_TRANSLATION, /* tunnels and translators: 6to4, Teredo, the local NAT64 prefix ... */
	ADDRESS_SHARED,      /* 100.64.0.0/10, behind a carrier's NAT */
	ADDRESS_PRIVATE,     /* RFC 1918, fc00::/7, and fec0::/10 of old */
	ADDRESS_MULTICAST,
	ADDRESS_BROADCAST,
	ADDRESS_LINK_LOCAL,
	ADDRESS_UNSPECIFIED, /* 0.0.0.0/8 and ::, which Linux connects to itself */
	ADDRESS_LOOPBACK,
	ADDRESS_OWN, /* of this host */
	ADDRESS_METADATA,
	ADDRESS_CLASS_COUNT,
};

/* "a loopback address" */
extern const char *const address_class_names[ADDRESS_CLASS_COUNT];

/*
 * Reads a socket address that was copied from foreign memory. The kernel takes longer ones than it
 * needs, and IPv6 ones without a scope; so does this. -EINVAL: too short for its family.
 * -EAFNOSUPPORT: another family, AF_UNSPEC among them (for connect() that is "disconnect"; sendto()
 * on an IPv4 socket would take it for AF_INET, so never hand the foreign bytes on: send to
 * address_to_sockaddr() of the copy).
 */
[[nodiscard]] int address_from_sockaddr(const void *data, size_t len, struct address *ret_address);

/* For dialling: AF_INET for IPv4, AF_INET6 else. The length to pass on. */
socklen_t address_to_sockaddr(const struct address *address, struct sockaddr_storage *ret_sockaddr);

void address_from_ipv4(const unsigned char v4[4], unsigned int port, struct address *ret_address);
bool address_is_ipv4(const unsigned char ip[ADDRESS_BYTES]);

/* The addresses of this host, as 16 bytes each; the caller's memory. */
struct address_list {
	const unsigned char (*items)[ADDRESS_BYTES];
	size_t count;
};

/* own may be NULL. */
enum address_class address_classify(const unsigned char ip[ADDRESS_BYTES],
				    const struct address_list *own);

/* The IPv4 addresses that hide in an IPv6 one, as 16 bytes each; how many there are. */
size_t address_inner(const unsigned char ip[ADDRESS_BYTES],
		     unsigned char ret_inner[ADDRESS_INNER_MAX][ADDRESS_BYTES]);

/* Whether the first prefix bits (of 128) are the same. */
bool address_has_prefix(const unsigned char ip[ADDRESS_BYTES],
			const unsigned char net[ADDRESS_BYTES], unsigned int prefix);

/*
 * The length of the registry's range that gives an address its class: a rule that lies in this range
 * names nothing else. 0 when an inner address, or no range at all, decides.
 */
unsigned int address_range_prefix(const unsigned char ip[ADDRESS_BYTES]);

/* "192.0.2.1", "2001:db8::1", "fe80::1%2". */
void address_text(const struct address *address, char text[static ADDRESS_TEXT_SIZE]);

/* "192.0.2.1:443", "[2001:db8::1]:443", as a rule is written (a rule has no scope). */
void address_at_text(const struct address *address, char text[static ADDRESS_AT_TEXT_SIZE]);

#endif
