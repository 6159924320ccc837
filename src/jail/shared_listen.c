/*
 * shared_listen.c - published ports where the sandbox has no network of its own
 *
 * There a program listens by itself, on the host's network: at a published port and its loopback
 * address, and nowhere else. Servers bind to all addresses unless they are told otherwise, so "any"
 * becomes that loopback address, in the keeper's own copy.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "jail/mediate_reply.h"
#include "jail/shared.h"
#include "jail/target.h"

/* An internet address as 16 bytes, whichever family its socket is of. */
struct place {
	unsigned char ip[16];
	uint16_t port;
	bool is_any;
};

static bool is_ipv4(const unsigned char ip[static 16])
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);
}

static bool read_place(const struct sockaddr_storage *name, size_t len, struct place *ret_place)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct place place = { .ip = { [10] = 0xff, [11] = 0xff } };

	memcpy(&v4, name, sizeof(v4));
	memcpy(&v6, name, sizeof(v6));
	if (name->ss_family == AF_INET && len >= sizeof(v4)) {
		memcpy(place.ip + 12, &v4.sin_addr, sizeof(v4.sin_addr));
		place.port = ntohs(v4.sin_port);
		place.is_any = v4.sin_addr.s_addr == htonl(INADDR_ANY);
	} else if (name->ss_family == AF_INET6 && len >= sizeof(v6)) {
		memcpy(place.ip, &v6.sin6_addr, sizeof(v6.sin6_addr));
		place.port = ntohs(v6.sin6_port);
		place.is_any = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
	} else {
		return false;
	}
	*ret_place = place;
	return true;
}

static void write_place(int domain, const unsigned char ip[static 16], uint16_t port,
			struct sockaddr_storage *name, uint32_t *len)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memcpy(&v4.sin_addr, ip + 12, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, ip, sizeof(v6.sin6_addr));
	*len = domain == AF_INET ? sizeof(v4) : sizeof(v6);
	memcpy(name, domain == AF_INET ? (const void *)&v4 : (const void *)&v6, *len);
}

/* A socket that takes TCP connections, and nothing that only looks like it. */
static bool is_tcp(int fd)
{
	socklen_t len = sizeof(int);
	int type, protocol;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == IPPROTO_TCP;
}

/* The published port that a name means; "any" of an IPv6 socket is IPv4 too, and that comes first. */
static const struct published *find_published(const struct mediator *m, int domain,
					      const struct place *place)
{
	const struct published *found = NULL;

	for (size_t i = 0; i < m->published_count; i++) {
		const struct published *port = &m->published[i];

		if (port->outside != place->port || (domain == AF_INET && !is_ipv4(port->ip)))
			continue;
		if (place->is_any ? !found || is_ipv4(port->ip)
				  : memcmp(port->ip, place->ip, sizeof(place->ip)) == 0)
			found = port;
	}
	return found;
}

bool shared_turn_to_published(const struct mediator *m, int fd, int domain,
			      struct sockaddr_storage *name, uint32_t *len)
{
	const struct published *port;
	struct place place;

	if (!is_tcp(fd) || name->ss_family != domain || !read_place(name, *len, &place))
		return false;
	port = find_published(m, domain, &place);
	/* Tied to the loopback device as well: nobody outside this host can send to it. */
	if (!port || shared_confine(fd) < 0)
		return false;
	write_place(domain, port->ip, port->outside, name, len);
	return true;
}

/* Whether it is bound to a published port, and if so, tied to the loopback device. */
static bool is_at_published(const struct mediator *m, int fd, struct sockaddr_storage *ret_name,
			    socklen_t *ret_len)
{
	struct place place;

	*ret_len = sizeof(*ret_name);
	if (getsockname(fd, (struct sockaddr *)ret_name, ret_len) < 0) {
		*ret_len = 0;
		return false;
	}
	return is_tcp(fd) && read_place(ret_name, *ret_len, &place) && !place.is_any &&
	       find_published(m, ret_name->ss_family, &place) && shared_confine(fd) == 0;
}

int shared_listen(const struct mediator *m, const struct seccomp_notif *notif)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = 0;
	_cleanup_close_ int fd = -EBADF;

	if (m->published_count == 0)
		return shared_refuse(m, notif, OUTLET_REFUSED_LISTEN, NULL, 0);
	fd = target_duplicate((pid_t)notif->pid, (int)notif->data.args[0]);
	if (fd < 0)
		return fd;
	if (!reply_is_awaited(m->listener, notif->id))
		return -ESRCH;
	if (!is_at_published(m, fd, &name, &len))
		return shared_refuse(m, notif, OUTLET_REFUSED_LISTEN, &name, len);
	if (listen(fd, (int)notif->data.args[1]) < 0)
		return -errno;
	/* A port that the kernel chose can be lost while we look; then it listens at another. */
	if (!is_at_published(m, fd, &name, &len)) {
		(void)!shutdown(fd, SHUT_RDWR);
		return shared_refuse(m, notif, OUTLET_REFUSED_LISTEN, &name, len);
	}
	return 0;
}
