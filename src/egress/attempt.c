/* One connect() of the sandbox: what kind of socket and address it is, and what follows from that. */
#include "egress/gate_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"

#define PORT_DNS 53

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* The caller's socket, as its descriptor of ours says: not one word of it comes from the caller. */
struct caller {
	int domain, type, protocol;
	uint64_t cookie;
};

static int read_caller(const struct gate *gate, int fd, struct caller *ret_caller)
{
	struct caller caller = { 0 };
	uint64_t network = 0;
	socklen_t len = sizeof(caller.cookie);
	int r;

	r = sock_get(fd, SOL_SOCKET, SO_DOMAIN, &caller.domain);
	if (r == 0)
		r = sock_get(fd, SOL_SOCKET, SO_TYPE, &caller.type);
	if (r == 0)
		r = sock_get(fd, SOL_SOCKET, SO_PROTOCOL, &caller.protocol);
	if (r < 0)
		return r;
	if (caller.domain != AF_INET && caller.domain != AF_INET6)
		return -EAFNOSUPPORT;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &caller.cookie, &len) < 0)
		return -errno;
	/* A socket that was handed in from elsewhere would reach the loopback of elsewhere. */
	len = sizeof(network);
	if (gate->request.is_inside &&
	    (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &network, &len) < 0 ||
	     network != gate->network))
		return -EACCES;
	*ret_caller = caller;
	return 0;
}

static void answer(struct gate *gate, const struct gate_attempt *attempt, int error)
{
	gate->request.answer(gate->request.ctx, attempt->id, error < 0 ? -error : 0);
}

/* AF_UNSPEC: the socket shall be connected to nobody. The foreign bytes are not handed on. */
static int disconnect(struct gate *gate, const struct gate_attempt *attempt, uint64_t cookie)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct connection *connection = connection_of_socket(gate, cookie);

	if (connection)
		connection_end(gate, connection, -ECONNABORTED);
	return connect(attempt->socket, &nobody, sizeof(nobody)) < 0 ? -errno : 0;
}

static bool is_loopback6(const unsigned char ip[ADDRESS_BYTES])
{
	return memcmp(ip, &in6addr_loopback, ADDRESS_BYTES) == 0 ||
	       memcmp(ip, &in6addr_any, ADDRESS_BYTES) == 0;
}

/*
 * Does this address belong to the sandbox's own network? An IPv6 address that only hides a loopback
 * one does not: it is judged as any other.
 */
static bool is_inside(const struct gate *gate, const struct address *address)
{
	const struct address_list *inside = &gate->request.inside;
	enum address_class class = address_classify(address->ip, inside);

	if (!gate->request.is_inside)
		return false;
	if (class == ADDRESS_OWN)
		return true;
	return (class == ADDRESS_LOOPBACK || class == ADDRESS_UNSPECIFIED) &&
	       (address_is_ipv4(address->ip) || is_loopback6(address->ip));
}

static void target_of(const struct address *address, int domain, union sock_address *ret_target)
{
	struct sockaddr_storage storage;
	union sock_address target = { .v6 = { 0 } };
	socklen_t len = address_to_sockaddr(address, &storage);

	memcpy(&target, &storage, MIN((size_t)len, sizeof(target)));
	if (domain == AF_INET6)
		sock_address_map(&target);
	*ret_target = target;
}

/* Asks the resolver, whatever server the program believes to ask. */
static bool find_resolver(const struct gate *gate, const struct caller *caller,
			  union sock_address *ret_target)
{
	union sock_address target;

	if (sock_name(nameserver_socket(gate->names, caller->type == SOCK_DGRAM), &target) < 0)
		return false;
	if (caller->domain == AF_INET6)
		sock_address_map(&target);
	else if (target.any.sa_family == AF_INET6)
		return false;
	*ret_target = target;
	return true;
}

/*
 * Datagrams leave only for the resolver, and for the sandbox's own network. An address that it may
 * talk TCP to gets a yes without an effect: that is how a libc sorts addresses (a datagram socket is
 * connected to each and asked for its own name), and a send() on it has nowhere to go.
 */
static int connect_datagram(struct gate *gate, const struct gate_attempt *attempt,
			    const struct caller *caller, const struct address *address)
{
	union sock_address target = { .any = { .sa_family = AF_UNSPEC } };
	struct judgement judgement;
	uint64_t now = clock_ms();
	size_t cursor = 0;
	bool is_ours = is_inside(gate, address);

	if (is_ours)
		target_of(address, caller->domain, &target);
	else if (address->port == PORT_DNS)
		is_ours = find_resolver(gate, caller, &target);
	if (is_ours && !gate->request.is_inside && sock_confine(attempt->socket) < 0)
		return -EACCES;
	if (is_ours)
		return connect(attempt->socket, &target.any, sock_address_len(&target)) < 0 ? -errno
											    : 0;
	if (answers_next(gate->answers, address->ip, now, &cursor))
		return 0;
	judge_address(&gate->judge, address, now, &judgement);
	if (judgement.is_allowed)
		return 0;
	gate_tell(gate, GATE_DATAGRAM, attempt->pid, &judgement, 0);
	return -EACCES;
}

/*
 * A second connect() on a socket that is on its way or there already. The kernel knows what to say;
 * should the socket be free again by now, it is sent where nobody can listen.
 */
static int connect_again(const struct gate *gate, const struct gate_attempt *attempt, int domain,
			 int state)
{
	union sock_address nowhere = { .v4 = { .sin_family = AF_INET,
					       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return -EALREADY;
	if (!gate->request.is_inside && !sock_is_confined(attempt->socket))
		return -EISCONN;
	if (domain == AF_INET6)
		sock_address_map(&nowhere);
	return sock_connect(attempt->socket, &nowhere);
}

/*
 * What stands in the way of a new connection on this socket: 0 when nothing does, 1 when the answer
 * is yes already, or the errno.
 */
static int check_stream(struct gate *gate, const struct gate_attempt *attempt,
			const struct caller *caller, const struct address *address)
{
	struct connection *connection;
	int state, only = 0, r;

	if (caller->protocol != IPPROTO_TCP)
		return -EPROTONOSUPPORT;
	if (attempt->address.ss_family != caller->domain)
		return -EAFNOSUPPORT;
	if (caller->domain == AF_INET6 && address_is_ipv4(address->ip) &&
	    (sock_get(attempt->socket, IPPROTO_IPV6, IPV6_V6ONLY, &only) < 0 || only))
		return -ENETUNREACH;
	connection = connection_of_socket(gate, caller->cookie);
	if (connection && connection->is_awaited)
		return -EALREADY;
	state = sock_state(attempt->socket);
	if (state < 0)
		return state;
	if (state != TCP_CLOSE) {
		r = connect_again(gate, attempt, caller->domain, state);
		return r < 0 ? r : 1;
	}
	if (connection) /* given up by its holder */
		connection_end(gate, connection, -ECONNABORTED);
	return 0;
}

enum way { WAY_REFUSED, WAY_INSIDE, WAY_RESOLVER, WAY_STRAIGHT, WAY_RELAY };

/* The verdict on a stream, and the way that it takes. */
static enum way find_way(struct gate *gate, const struct gate_attempt *attempt,
			 const struct caller *caller, const struct address *address, uint64_t now,
			 union sock_address *ret_target, struct judgement *ret_judgement)
{
	union sock_address unmapped;

	target_of(address, caller->domain, ret_target);
	target_of(address, AF_INET, &unmapped);
	if (park_owns(&gate->park, &unmapped)) {
		char text[ADDRESS_AT_TEXT_SIZE];

		address_at_text(address, text);
		gate_refuse(gate, GATE_CONNECT, attempt->pid, text, "an address of the gate");
		return WAY_REFUSED;
	}
	if (is_inside(gate, address))
		return WAY_INSIDE;
	gate_read_own(gate, now);
	judge_address(&gate->judge, address, now, ret_judgement);
	if (!ret_judgement->is_allowed && address->port == PORT_DNS &&
	    find_resolver(gate, caller, ret_target))
		return WAY_RESOLVER;
	gate_tell(gate, GATE_CONNECT, attempt->pid, ret_judgement, 0);
	if (!ret_judgement->is_allowed)
		return WAY_REFUSED;
	return ret_judgement->is_raw && gate->request.may_go_straight ? WAY_STRAIGHT : WAY_RELAY;
}

/* Either takes A, or returns the answer. */
static int connect_stream(struct gate *gate, const struct gate_attempt *attempt,
			  const struct caller *caller, const struct address *address,
			  bool *ret_taken)
{
	struct judgement judgement = { .is_raw = false };
	struct connection *connection;
	union sock_address target;
	uint64_t now = clock_ms();
	enum way way;
	int r;

	r = check_stream(gate, attempt, caller, address);
	if (r != 0)
		return MIN(r, 0);
	way = find_way(gate, attempt, caller, address, now, &target, &judgement);
	if (way == WAY_REFUSED)
		return -EACCES;
	if (way != WAY_STRAIGHT && !gate->request.is_inside && sock_confine(attempt->socket) < 0) {
		gate_refuse(gate, GATE_CONNECT, attempt->pid, "a socket",
			    "it is bound to a network interface");
		return -EACCES;
	}
	connection = connection_new(gate, attempt, address);
	if (!connection) {
		gate_refuse(gate, GATE_LIMIT, attempt->pid, "connections",
			    "too many connections at once");
		return -EAGAIN;
	}
	connection->cookie = caller->cookie;
	connection->judged_ms = now;
	connection->is_raw = judgement.is_raw;
	connection->is_judged = way == WAY_RELAY || way == WAY_STRAIGHT;
	connection->is_told = judgement.name[0] != '\0';
	connection_name(connection, judgement.name);
	if (way == WAY_RELAY)
		connection_dial(gate, connection);
	else
		connection_direct(gate, connection, &target);
	*ret_taken = true;
	return 0;
}

static int refuse_malformed(struct gate *gate, const struct gate_attempt *attempt, int error)
{
	gate_refuse(gate, GATE_CONNECT, attempt->pid, "a malformed address",
		    "too short, too long, or not of the internet");
	return error;
}

static int dispatch(struct gate *gate, const struct gate_attempt *attempt, bool *ret_taken)
{
	struct caller caller = { 0 };
	struct address address;
	int r;

	r = read_caller(gate, attempt->socket, &caller);
	if (r < 0)
		return r;
	if (attempt->len < sizeof(sa_family_t) || attempt->len > sizeof(attempt->address))
		return refuse_malformed(gate, attempt, -EINVAL);
	if (attempt->address.ss_family == AF_UNSPEC)
		return disconnect(gate, attempt, caller.cookie);
	r = address_from_sockaddr(&attempt->address, attempt->len, &address);
	if (r < 0)
		return refuse_malformed(gate, attempt, r);
	if (caller.type == SOCK_DGRAM)
		return connect_datagram(gate, attempt, &caller, &address);
	if (caller.type != SOCK_STREAM)
		return -EPROTONOSUPPORT;
	return connect_stream(gate, attempt, &caller, &address, ret_taken);
}

void gate_connect(struct gate *gate, const struct gate_attempt *attempt)
{
	bool is_taken = false;
	int r;

	r = dispatch(gate, attempt, &is_taken);
	if (is_taken)
		return;
	answer(gate, attempt, r);
	fd_close(attempt->socket);
}
