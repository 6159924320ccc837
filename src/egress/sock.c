#include "egress/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "base/fd.h"
#include "base/hook.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#define LOOPBACK_INDEX 1 /* in every network namespace */

socklen_t sock_address_len(const union sock_address *address)
{
	switch (address->any.sa_family) {
	case AF_INET:
		return sizeof(address->v4);
	case AF_INET6:
		return sizeof(address->v6);
	default:
		return 0;
	}
}

bool sock_address_equal(const union sock_address *a, const union sock_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->any.sa_family == AF_INET6 && a->v6.sin6_port == b->v6.sin6_port &&
	       memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

void sock_address_unmap(union sock_address *address)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };

	if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
		return;
	v4.sin_port = address->v6.sin6_port;
	memcpy(&v4.sin_addr, &address->v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
	address->v4 = v4;
}

void sock_address_map(union sock_address *address)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (address->any.sa_family != AF_INET)
		return;
	v6.sin6_port = address->v4.sin_port;
	v6.sin6_addr.s6_addr[10] = 0xff;
	v6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&v6.sin6_addr.s6_addr[12], &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	address->v6 = v6;
}

static int name_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *),
		   union sock_address *ret_name)
{
	union sock_address name = { .v6 = { 0 } };
	socklen_t len = sizeof(name);

	if (ask(fd, &name.any, &len) < 0)
		return -errno;
	if (sock_address_len(&name) == 0 || len < sock_address_len(&name))
		return -EAFNOSUPPORT;
	*ret_name = name;
	return 0;
}

int sock_name(int fd, union sock_address *ret_name)
{
	return name_of(fd, getsockname, ret_name);
}

int sock_peer(int fd, union sock_address *ret_peer)
{
	return name_of(fd, getpeername, ret_peer);
}

int sock_get(int fd, int level, int option, int *ret_value)
{
	int value = 0;
	socklen_t len = sizeof(value);

	if (getsockopt(fd, level, option, &value, &len) < 0)
		return -errno;
	*ret_value = value;
	return 0;
}

int sock_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

void sock_tune(int fd, int keep_seconds)
{
	(void)!sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	(void)!sock_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, keep_seconds);
	(void)!sock_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

int sock_state(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return -errno;
	return info.tcpi_state;
}

/*
 * Where the host forbids Fast Open to clients (net.ipv4.tcp_fastopen without bit 0). Both the flag
 * and the time-out belong to the sandbox as well: it would have to take both back within this
 * function to make us wait, and then it waits for itself.
 */
static int connect_by_flag(int fd, const union sock_address *address)
{
	struct timeval soon = { .tv_usec = 10000 }, old = { 0 };
	socklen_t len = sizeof(old);
	int on = 1, off = 0, flags, r;

	flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK)) {
		if (getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &old, &len) < 0 ||
		    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) < 0 ||
		    ioctl(fd, FIONBIO, &on) < 0)
			return -errno;
	}
	r = connect(fd, &address->any, sock_address_len(address)) < 0 ? -errno : 0;
	if (!(flags & O_NONBLOCK)) {
		(void)!ioctl(fd, FIONBIO, &off);
		(void)!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &old, sizeof(old));
	}
	return r;
}

/*
 * connect() takes "do not wait" from the open file, which all holders can change at any moment; a
 * warden that waits in a SYN_SENT of somebody else's making keeps no deadline. Sending nothing with
 * MSG_FASTOPEN is the same call with MSG_DONTWAIT as an argument.
 */
int sock_connect(int fd, const union sock_address *address)
{
	if (hook_errno("fastopen") == 0 &&
	    sendto(fd, "", 0, MSG_FASTOPEN | MSG_DONTWAIT | MSG_NOSIGNAL, &address->any,
		   sock_address_len(address)) >= 0)
		return 0;
	if (hook_errno("fastopen") == 0 && errno != EOPNOTSUPP)
		return -errno;
	return connect_by_flag(fd, address);
}

bool sock_is_confined(int fd)
{
	int device = 0;

	return sock_get(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &device) == 0 && device == LOOPBACK_INDEX;
}

int sock_confine(int fd)
{
	if (hook_without("confine") || sock_is_confined(fd))
		return 0;
	return sock_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, LOOPBACK_INDEX) < 0 ? -EACCES : 0;
}

int sock_reset(int fd)
{
	struct linger now = { .l_onoff = 1 };

	if (fd >= 0)
		(void)!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	return fd_close(fd);
}
