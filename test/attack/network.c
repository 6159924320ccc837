/* network.c - every way to a socket of somebody else */
#include "probe.h"

#include <arpa/inet.h>
#include <linux/if_alg.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define NET_WALL EAFNOSUPPORT, EPERM, EACCES, EPROTONOSUPPORT, ESOCKTNOSUPPORT

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

static int try_socket(int family, int type, int protocol)
{
	return (int)expect_denied(raw(SYS_socket, family, type, protocol), NET_WALL);
}

static struct sockaddr_in loopback4(long port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct sockaddr_in6 loopback6(long port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6,
				      .sin6_port = htons((uint16_t)port),
				      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
}

static void send_to(int fd, const void *address, size_t len)
{
	expect_denied(raw(SYS_sendto, fd, "stolen", 6, MSG_NOSIGNAL, address, len), NET_WALL);
}

static void connect_and_send(int fd, const void *address, size_t len)
{
	expect_denied(raw(SYS_connect, fd, address, len), NET_WALL);
	send_to(fd, NULL, 0);
}

ATTACK(tcp4, EXFIL, "send by TCP over IPv4")
{
	const struct sockaddr_in to = loopback4(scene_number("tcp4"));

	connect_and_send(try_socket(AF_INET, SOCK_STREAM, 0), &to, sizeof(to));
}

ATTACK(tcp6, EXFIL, "send by TCP over IPv6")
{
	const struct sockaddr_in6 to = loopback6(scene_number("tcp6"));

	connect_and_send(try_socket(AF_INET6, SOCK_STREAM, 0), &to, sizeof(to));
}

ATTACK(tcp_fast_open, EXFIL, "send with the first packet of TCP, without connect")
{
	const struct sockaddr_in to = loopback4(scene_number("tcp4"));
	int fd = try_socket(AF_INET, SOCK_STREAM, 0);

	expect_denied(raw(SYS_sendto, fd, "stolen", 6, MSG_FASTOPEN, &to, sizeof(to)), NET_WALL);
}

ATTACK(mptcp, EXFIL, "send by multipath TCP")
{
	const struct sockaddr_in to = loopback4(scene_number("tcp4"));

	connect_and_send(try_socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP), &to, sizeof(to));
}

ATTACK(udp4, EXFIL, "send by UDP over IPv4")
{
	const struct sockaddr_in to = loopback4(scene_number("udp4"));

	send_to(try_socket(AF_INET, SOCK_DGRAM, 0), &to, sizeof(to));
}

ATTACK(udp6, EXFIL, "send by UDP over IPv6")
{
	const struct sockaddr_in6 to = loopback6(scene_number("udp6"));

	send_to(try_socket(AF_INET6, SOCK_DGRAM, 0), &to, sizeof(to));
}

ATTACK(udp_many, EXFIL, "send by UDP with sendmmsg")
{
	struct sockaddr_in to = loopback4(scene_number("udp4"));
	struct iovec data = { (char *)(uintptr_t) "stolen", 6 };
	struct mmsghdr message = { .msg_hdr = { .msg_name = &to,
						.msg_namelen = sizeof(to),
						.msg_iov = &data,
						.msg_iovlen = 1 } };

	expect_denied(raw(SYS_sendmmsg, try_socket(AF_INET, SOCK_DGRAM, 0), &message, 1, 0),
		      NET_WALL);
}

ATTACK(udp_lite, EXFIL, "send by UDP-Lite")
{
	const struct sockaddr_in to = loopback4(scene_number("udp4"));

	send_to(try_socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE), &to, sizeof(to));
}

ATTACK(sctp, EXFIL, "send by SCTP")
{
	const struct sockaddr_in to = loopback4(scene_number("tcp4"));

	connect_and_send(try_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), &to, sizeof(to));
}

static const unsigned char echo_request[16] = { 8, 0, 0xf7, 0xff };

ATTACK(icmp, EXFIL, "send an echo request by a datagram socket")
{
	const struct sockaddr_in to = loopback4(0);
	int fd = try_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);

	expect_denied(raw(SYS_sendto, fd, echo_request, sizeof(echo_request), 0, &to, sizeof(to)),
		      NET_WALL);
}

ATTACK(raw_ip, EXFIL, "send an echo request by a raw socket")
{
	const struct sockaddr_in to = loopback4(0);
	int fd = try_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

	expect_denied(raw(SYS_sendto, fd, echo_request, sizeof(echo_request), 0, &to, sizeof(to)),
		      NET_WALL);
}

ATTACK(packet, EXFIL, "send a frame by a packet socket")
{
	const struct sockaddr_ll to = { .sll_family = AF_PACKET,
					.sll_protocol = htons(0x88b5),
					.sll_ifindex = 1,
					.sll_halen = 6 };

	send_to(try_socket(AF_PACKET, SOCK_DGRAM, htons(0x88b5)), &to, sizeof(to));
}

ATTACK(listen_tcp, LATERAL, "listen on a TCP port")
{
	const struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = try_socket(AF_INET, SOCK_STREAM, 0);

	expect_denied(raw(SYS_bind, fd, &any, sizeof(any)), NET_WALL);
	expect_denied(raw(SYS_listen, fd, 1), NET_WALL);
}

ATTACK(netlink_route, HOST_LEAK, "open a netlink socket for routes")
{
	try_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}

ATTACK(netlink_uevent, HOST_LEAK, "listen to the kernel's device events")
{
	const struct sockaddr_nl all = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = try_socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT);

	expect_denied(raw(SYS_bind, fd, &all, sizeof(all)), NET_WALL);
}

ATTACK(netlink_audit, HOST_LEAK, "open a netlink socket to the audit system")
{
	try_socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
}

ATTACK(netlink_filter, ESCAPE, "open a netlink socket to the packet filter")
{
	try_socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}

ATTACK(netlink_crypto, ESCAPE, "open a netlink socket to the crypto layer")
{
	try_socket(AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO);
}

ATTACK(vsock, ESCAPE, "open a socket to the hypervisor")
{
	try_socket(AF_VSOCK, SOCK_STREAM, 0);
}

ATTACK(kernel_crypto, ESCAPE, "use the kernel's ciphers (AF_ALG)")
{
	const struct sockaddr_alg cipher = { .salg_family = AF_ALG,
					     .salg_type = "hash",
					     .salg_name = "sha256" };
	int fd = try_socket(AF_ALG, SOCK_SEQPACKET, 0);

	expect_denied(raw(SYS_bind, fd, &cipher, sizeof(cipher)), NET_WALL);
}

/* The kernel drops the high half of an int: a filter that compares all of it can be passed. */
ATTACK(socket_high_half, EXFIL, "make a socket with a family of more than 32 bits")
{
	expect_denied(raw(SYS_socket, 1L << 32 | AF_INET, SOCK_DGRAM, 0), NET_WALL);
}

ATTACK(socket_all_families, ESCAPE, "make a socket of any family from AX.25 to the last")
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };

	for (int family = AF_AX25; family < 64; family++)
		for (size_t i = 0;
		     family != AF_INET6 && family != AF_NETLINK && i < sizeof(types) / sizeof(int);
		     i++)
			if (raw(SYS_socket, family, types[i], 0) >= 0)
				return;
	denied(errno);
}

ATTACK(pair_of_inet, EXFIL, "make a pair of Internet sockets by socketpair")
{
	int pair[2];

	/* No kernel has these, but a filter may say so before the kernel does. */
	if (past_the_gate(raw(SYS_socketpair, AF_INET, SOCK_STREAM, 0, pair), EOPNOTSUPP) < 0)
		denied(errno);
}

static socklen_t unix_address(struct sockaddr_un *address, const char *name)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* "@name" is abstract: no path, and a NUL in front. */
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", name);
	if (name[0] == '@')
		address->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) +
			   (name[0] != '@'));
}

static void unix_connect(int fd, const char *name)
{
	struct sockaddr_un to;
	socklen_t len = unix_address(&to, name);

	connect_and_send(fd, &to, len);
}

static void unix_send(int fd, const char *name)
{
	struct sockaddr_un to;
	socklen_t len = unix_address(&to, name);

	send_to(fd, &to, len);
}

ATTACK(unix_stream, LATERAL, "connect to a UNIX socket of the host, by its path")
{
	unix_connect(try_socket(AF_UNIX, SOCK_STREAM, 0), scene("unix_stream"));
}

ATTACK(unix_datagram, LATERAL, "send to a UNIX datagram socket of the host, by its path")
{
	unix_send(try_socket(AF_UNIX, SOCK_DGRAM, 0), scene("unix_datagram"));
}

/* In a folder that may be read: that does not keep anybody from connecting. */
ATTACK(unix_visible_stream, LATERAL, "connect to a UNIX socket of the host in a readable folder")
{
	unix_connect(try_socket(AF_UNIX, SOCK_STREAM, 0), scene("visible_stream"));
}

ATTACK(unix_visible_datagram, LATERAL,
       "send to a UNIX datagram socket of the host in a readable folder")
{
	unix_send(try_socket(AF_UNIX, SOCK_DGRAM, 0), scene("visible_datagram"));
}

ATTACK(unix_abstract, LATERAL, "connect to an abstract UNIX socket of the host")
{
	unix_connect(try_socket(AF_UNIX, SOCK_STREAM, 0), scene("abstract_stream"));
}

ATTACK(unix_abstract_datagram, LATERAL, "send to an abstract UNIX datagram socket of the host")
{
	unix_send(try_socket(AF_UNIX, SOCK_DGRAM, 0), scene("abstract_datagram"));
}

static int pair_end(int type)
{
	int pair[2];

	expect_denied(raw(SYS_socketpair, AF_UNIX, type, 0, pair), NET_WALL);
	return pair[0];
}

ATTACK(pair_sendto, LATERAL, "send to a UNIX socket of the host from one end of a datagram pair")
{
	unix_send(pair_end(SOCK_DGRAM), scene("unix_datagram"));
}

ATTACK(pair_sendto_raw, LATERAL, "the same with a pair of type SOCK_RAW")
{
	unix_send(pair_end(SOCK_RAW), scene("unix_datagram"));
}

ATTACK(pair_sendto_abstract, LATERAL, "the same to an abstract socket")
{
	unix_send(pair_end(SOCK_DGRAM), scene("abstract_datagram"));
}

ATTACK(pair_reconnect, LATERAL, "connect one end of a datagram pair to a socket of the host")
{
	unix_connect(pair_end(SOCK_DGRAM), scene("unix_datagram"));
}

ATTACK(pair_high_half, LATERAL, "make a datagram pair with a type of more than 32 bits")
{
	int pair[2];

	expect_denied(raw(SYS_socketpair, AF_UNIX, 1L << 32 | SOCK_DGRAM, 0, pair), NET_WALL);
	unix_send(pair[0], scene("unix_datagram"));
}

ATTACK(unix_bind, LATERAL, "offer an abstract UNIX socket to the host")
{
	struct sockaddr_un name;
	socklen_t len = unix_address(&name, "@brig-attack-offer");
	int fd = try_socket(AF_UNIX, SOCK_STREAM, 0);

	expect_denied(raw(SYS_bind, fd, &name, len), NET_WALL);
	expect_denied(raw(SYS_listen, fd, 1), NET_WALL);
}

/* A pair that stays connected can still be dissolved and bound on some kernels. */
ATTACK(pair_stream_reconnect, LATERAL, "connect one end of a stream pair to a socket of the host")
{
	struct sockaddr_un to;
	socklen_t len = unix_address(&to, scene("unix_stream"));
	int fd = pair_end(SOCK_STREAM);

	if (raw(SYS_connect, fd, &to, len) < 0)
		denied(errno);
	send_to(fd, NULL, 0);
}

ATTACK(pair_stream_listen, LATERAL, "bind one end of a stream pair to a path and listen there")
{
	struct sockaddr_un name;
	socklen_t len = unix_address(&name, inside("socket"));
	int fd = pair_end(SOCK_STREAM);

	if (raw(SYS_bind, fd, &name, len) < 0 || raw(SYS_listen, fd, 1) < 0)
		denied(errno);
}

/* Standard input is a socket of the caller's here, as under inetd or a careless supervisor. */
ATTACK(stdin_udp, EXFIL, "send by UDP from the socket that is standard input")
{
	const struct sockaddr_in to = loopback4(scene_number("udp4"));

	if (raw(SYS_sendto, 0, "stolen", 6, MSG_NOSIGNAL, &to, sizeof(to)) < 0)
		denied(errno);
}

ATTACK(stdin_unix, LATERAL, "send to a UNIX socket of the host from the one that is standard input")
{
	struct sockaddr_un to;
	socklen_t len = unix_address(&to, scene("unix_datagram"));

	if (raw(SYS_sendto, 0, "stolen", 6, MSG_NOSIGNAL, &to, len) < 0)
		denied(errno);
}
