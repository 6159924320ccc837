#include "egress/park.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/random.h>

#include "base/fd.h"

enum { V4, V6 };

static const int families[] = { [V4] = AF_INET, [V6] = AF_INET6 };

void park_init(struct park *park, park_socket_fn *make_socket, void *ctx)
{
	*park = (struct park){ .make_socket = make_socket, .ctx = ctx };
	for (size_t f = 0; f < ARRAY_SIZE(park->places); f++)
		for (size_t i = 0; i < PARK_PLACES; i++)
			park->places[f][i].listener = park->places[f][i].filler = -EBADF;
}

void park_done(struct park *park)
{
	for (size_t f = 0; f < ARRAY_SIZE(park->places); f++)
		for (size_t i = 0; i < PARK_PLACES; i++) {
			fd_closep(&park->places[f][i].listener);
			fd_closep(&park->places[f][i].filler);
		}
}

/*
 * Any of 127.1.0.0 to 127.254.255.255: a program inside that guesses ports on 127.0.0.1 does not
 * meet us.
 */
static int random_loopback(union sock_address *ret_address)
{
	unsigned char bytes[3];
	uint32_t host;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	host = 127u << 24 | (1u + bytes[0] % 254u) << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
	*ret_address = (union sock_address){ .v4 = { .sin_family = AF_INET,
						     .sin_addr.s_addr = htonl(host) } };
	return 0;
}

static int new_socket(struct park *park, int family)
{
	return park->make_socket(park->ctx, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Makes a socket share the address of a place, as the listener and all B do. Takes it over. */
static int share_address(int socket, const union sock_address *address, int *ret_fd)
{
	_cleanup_close_ int fd = socket;
	int r;

	if (fd < 0)
		return take_fd(&fd);
	r = sock_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (r < 0)
		return r;
	if (bind(fd, &address->any, sock_address_len(address)) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* listen(0) has room for one connection; the filler takes it, for good. */
static int place_make(struct park *park, int f, struct park_place *place)
{
	union sock_address address = { .v6 = { .sin6_family = AF_INET6,
					       .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	_cleanup_close_ int listener = -EBADF, filler = -EBADF;
	int r;

	r = f == V4 ? random_loopback(&address) : 0;
	if (r < 0)
		return r;
	r = share_address(new_socket(park, families[f]), &address, &listener);
	if (r < 0)
		return r;
	if (listen(listener, 0) < 0)
		return -errno;
	r = sock_name(listener, &address);
	if (r < 0)
		return r;
	filler = new_socket(park, families[f]);
	if (filler < 0)
		return take_fd(&filler);
	/* Its SYN comes before any other, so it need not be established yet. */
	if (connect(filler, &address.any, sock_address_len(&address)) < 0 && errno != EINPROGRESS)
		return -errno;
	place->listener = take_fd(&listener);
	place->filler = take_fd(&filler);
	place->address = address;
	return 0;
}

/* Which errors of connect() say that this place, or this family, is out of A's reach. */
static bool is_out_of_reach(int error)
{
	switch (-error) {
	case EADDRNOTAVAIL:
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EAFNOSUPPORT:
	case EINVAL:
	case EPERM:
		return true;
	default:
		return false;
	}
}

/* One place: 0 when A waits there. */
static int enter_place(int a, int domain, const struct park_place *place, struct parked *ret_parked)
{
	union sock_address target = place->address, own;
	int r;

	if (domain == AF_INET6)
		sock_address_map(&target);
	r = sock_connect(a, &target);
	if (r != -EINPROGRESS)
		return r == 0 ? -ECONNREFUSED : r; /* somebody inside took our place: his loss */
	r = sock_name(a, &own);
	if (r < 0)
		return r;
	sock_address_unmap(&own);
	*ret_parked = (struct parked){ .place = place, .own = own };
	return 0;
}

static int enter_family(struct park *park, int a, int domain, int f, struct parked *ret_parked)
{
	int r = -EADDRNOTAVAIL;

	for (size_t i = 0; i < PARK_PLACES && r == -EADDRNOTAVAIL; i++) {
		struct park_place *place = &park->places[f][i];

		if (place->listener < 0) {
			r = place_make(park, f, place);
			if (r < 0)
				return r;
		}
		r = enter_place(a, domain, place, ret_parked);
	}
	return r;
}

int park_enter(struct park *park, int a, bool wants_v6, struct parked *ret_parked)
{
	int domain = 0, first, r;

	r = sock_get(a, SOL_SOCKET, SO_DOMAIN, &domain);
	if (r < 0)
		return r;
	if (domain == AF_INET)
		return enter_family(park, a, domain, V4, ret_parked);
	first = wants_v6 ? V6 : V4;
	r = enter_family(park, a, domain, first, ret_parked);
	if (r < 0 && is_out_of_reach(r))
		r = enter_family(park, a, domain, first == V6 ? V4 : V6, ret_parked);
	return r;
}

/* A still has the name it was parked by. */
static bool has_kept_name(int a, const struct parked *parked)
{
	union sock_address own;

	if (sock_name(a, &own) < 0)
		return false;
	sock_address_unmap(&own);
	return sock_address_equal(&own, &parked->own);
}

int park_reserve(struct park *park, int a, bool wants_v6, int *ret_spare)
{
	int domain = 0, fd, r = sock_get(a, SOL_SOCKET, SO_DOMAIN, &domain);

	if (r < 0)
		return r;
	fd = new_socket(park, domain == AF_INET6 && wants_v6 ? AF_INET6 : AF_INET);
	if (fd < 0)
		return fd;
	*ret_spare = fd;
	return 0;
}

/* The one that was reserved, unless A had to go to a place of the other family. */
static int find_socket(struct park *park, int family, int *spare)
{
	int domain = 0;

	if (*spare >= 0 && sock_get(*spare, SOL_SOCKET, SO_DOMAIN, &domain) == 0 &&
	    domain == family)
		return take_fd(spare);
	return new_socket(park, family);
}

int park_leave(struct park *park, int a, const struct parked *parked, int *spare, int *ret_b)
{
	_cleanup_close_ int b = -EBADF;
	int r;

	if (sock_state(a) != TCP_SYN_SENT || !has_kept_name(a, parked))
		return -ECONNABORTED;
	r = share_address(find_socket(park, parked->place->address.any.sa_family, spare),
			  &parked->place->address, &b);
	if (r < 0)
		return r;
	if (connect(b, &parked->own.any, sock_address_len(&parked->own)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	*ret_b = take_fd(&b);
	return 0;
}

/*
 * The sandbox may have shut A down and let another process have its port, at any moment since it was
 * parked. Names are unique per pair: an A that is established towards our place, under the name
 * that B is connected to, is B's peer and nothing else is.
 */
int park_check(int a, int b, const struct parked *parked)
{
	int ours = sock_state(b), theirs = sock_state(a);
	union sock_address peer;

	if (ours < 0 || theirs < 0)
		return -ECONNABORTED;
	if ((ours == TCP_SYN_SENT || ours == TCP_SYN_RECV) &&
	    (theirs == TCP_SYN_SENT || theirs == TCP_SYN_RECV || theirs == TCP_ESTABLISHED))
		return -EINPROGRESS;
	if (ours == TCP_ESTABLISHED && theirs == TCP_SYN_RECV)
		return -EINPROGRESS;
	/* A quick caller may have written all he has to say and shut his side down by now. */
	if ((ours != TCP_ESTABLISHED && ours != TCP_CLOSE_WAIT) ||
	    (theirs != TCP_ESTABLISHED && theirs != TCP_FIN_WAIT1 && theirs != TCP_FIN_WAIT2))
		return -ECONNABORTED;
	if (!has_kept_name(a, parked) || sock_peer(a, &peer) < 0)
		return -ECONNABORTED;
	sock_address_unmap(&peer);
	return sock_address_equal(&peer, &parked->place->address) ? 0 : -ECONNABORTED;
}

bool park_owns(const struct park *park, const union sock_address *address)
{
	for (size_t f = 0; f < ARRAY_SIZE(park->places); f++)
		for (size_t i = 0; i < PARK_PLACES; i++)
			if (park->places[f][i].listener >= 0 &&
			    sock_address_equal(&park->places[f][i].address, address))
				return true;
	return false;
}
