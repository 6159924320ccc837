#include "egress/publish.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress/relay.h"
#include "egress/sock.h"
#include "egress/watch.h"

#define QUEUE           128
#define STOCK           16 /* of each family */
#define STOCK_LOW       4  /* more are wanted from here on */
#define ACCEPTS         32 /* in one turn */
#define EVENTS_PER_TURN 64
#define MAKING_MS       10000 /* for a server inside that does not take its clients */
#define ASK_MS          1000  /* after which it is worth asking again */
#define PAUSE_MS        100   /* when there are no descriptors left */
#define KEEP_INSIDE_S   7200
#define KEEP_OUTSIDE_S  120
#define NO_DEADLINE     UINT64_MAX

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum { V4, V6, FAMILIES };
static const int families[FAMILIES] = { AF_INET, AF_INET6 };

enum phase {
	PHASE_FREE,
	PHASE_WAITING,  /* for a socket of the sandbox's network */
	PHASE_REACHING, /* it is on its way */
	PHASE_RELAY,
};

struct client {
	enum phase phase;
	uint32_t generation;
	int family; /* V4, V6: what is tried inside */
	int inside, outside;
	bool has_turn; /* there is more to relay */
	uint64_t deadline;
	struct address peer;
	const struct port *port;
	struct relay relay;
};

struct port {
	struct published published;
	int listener;
	bool is_ready; /* somebody may be waiting */
};

struct publisher {
	struct publisher_request request;
	int epoll;
	struct port ports[PUBLISH_PORTS];
	size_t port_count;
	uint64_t network; /* the cookie of our own network */
	uint64_t paused;  /* no accept before */
	bool is_closed;
	struct client *clients;
	uint32_t used, busy; /* how many were ever used; how many are */
	uint32_t making;     /* that are not relayed yet */
	uint32_t turns;      /* that have more to relay */
	int stock[FAMILIES][STOCK];
	size_t stocked[FAMILIES];
	uint64_t asked[FAMILIES]; /* when; 0: nothing is on its way */
	char *buffer;
};

const char *published_text(const struct published *port, char text[static PUBLISH_TEXT_SIZE])
{
	struct address address = { .port = port->outside };
	char at[ADDRESS_AT_TEXT_SIZE];

	memcpy(address.ip, port->ip, sizeof(address.ip));
	address_at_text(&address, at);
	snprintf(text, PUBLISH_TEXT_SIZE, "%s:%u", at, port->inside);
	return text;
}

/* In words, why the host does not listen there, and what to do. */
static int refuse(const struct published *port, int code, struct err *err)
{
	struct address address = { .port = port->outside };
	char at[ADDRESS_AT_TEXT_SIZE];

	memcpy(address.ip, port->ip, sizeof(address.ip));
	address_at_text(&address, at);
	switch (code) {
	case -EADDRINUSE:
		return err_set(err, code,
			       "net.publish: %s is in use: choose another port, or 0:%u for any "
			       "that is free",
			       at, port->inside);
	case -EACCES:
		return err_set(err, code,
			       "net.publish: %s is a port for root alone: choose one from 1024 on, "
			       "as in %u:%u",
			       at, 8000 + port->outside % 1000, port->inside);
	case -EADDRNOTAVAIL:
		return err_set(err, code,
			       "net.publish: %s is no address of this host: leave it away for "
			       "loopback",
			       at);
	default:
		return err_errno(err, code, "net.publish: cannot listen at %s", at);
	}
}

static int open_listener(struct published *port)
{
	struct address address = { .port = port->outside };
	struct sockaddr_storage name;
	_cleanup_close_ int fd = -EBADF;
	socklen_t len;

	memcpy(address.ip, port->ip, sizeof(address.ip));
	len = address_to_sockaddr(&address, &name);
	fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* So that connections of a sandbox that has just ended are in nobody's way. */
	(void)!sock_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* [::] is what it says, not IPv4 as well. */
	if (name.ss_family == AF_INET6)
		(void)!sock_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (bind(fd, (const struct sockaddr *)&name, len) < 0 || listen(fd, QUEUE) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return -errno;
	if (address_from_sockaddr(&name, len, &address) < 0)
		return -EAFNOSUPPORT;
	port->outside = (uint16_t)address.port;
	return take_fd(&fd);
}

static int network_of(int fd, uint64_t *ret_cookie)
{
	socklen_t len = sizeof(*ret_cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, ret_cookie, &len) < 0 ? -errno : 0;
}

/* A place for it; what listens there is the publisher's from now on. */
static int watch_port(struct publisher *p, struct port *port, struct err *err)
{
	int r;

	p->port_count++;
	r = network_of(port->listener, &p->network);
	if (r < 0)
		return err_errno(err, r,
				 "net.publish: this kernel cannot tell the sandbox's network from "
				 "the host's (Linux 5.14 can)");
	r = watch_add(p->epoll, port->listener, EPOLLIN | EPOLLET,
		      (struct watch){ .kind = WATCH_LISTENER,
				      .index = (uint32_t)p->port_count - 1 });
	return r < 0 ? err_errno(err, r, "net.publish: cannot wait for clients") : 0;
}

static int add_port(struct publisher *p, const struct published *wanted, struct err *err)
{
	struct port *port = &p->ports[p->port_count];

	*port = (struct port){ .published = *wanted };
	port->listener = open_listener(&port->published);
	if (port->listener < 0)
		return refuse(wanted, port->listener, err);
	return watch_port(p, port, err);
}

/* One that listens for TCP at loopback, and where. */
static int look_at_listener(int fd, struct published *ret_port)
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);
	struct address address;
	int listens = 0, protocol = 0;

	if (sock_get(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens) < 0 || !listens ||
	    sock_get(fd, SOL_SOCKET, SO_PROTOCOL, &protocol) < 0 || protocol != IPPROTO_TCP ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
	    address_from_sockaddr(&name, len, &address) < 0 ||
	    address_classify(address.ip, NULL) != ADDRESS_LOOPBACK)
		return -EINVAL;
	memcpy(ret_port->ip, address.ip, sizeof(ret_port->ip));
	ret_port->outside = (uint16_t)address.port;
	return fd_set_nonblock(fd, 1);
}

int publisher_adopt(struct publisher *p, int listener, uint16_t inside, struct err *err)
{
	struct published published = { .inside = inside };
	struct port *port = &p->ports[p->port_count];
	int r = look_at_listener(listener, &published);

	if (r < 0 || p->is_closed || p->port_count == PUBLISH_PORTS) {
		fd_close(listener);
		return r < 0 ? err_set(err, r, "that is no socket that listens at loopback")
			     : err_set(err, -E2BIG, "more than %d ports", PUBLISH_PORTS);
	}
	*port = (struct port){ .published = published, .listener = listener };
	r = watch_port(p, port, err);
	if (r < 0) {
		p->port_count--;
		fd_close(listener);
	}
	return r;
}

size_t publisher_count(const struct publisher *p)
{
	return p->port_count;
}

static int add_ports(struct publisher *p, const struct published *ports, size_t count,
		     struct err *err)
{
	int r = 0;

	if (count > PUBLISH_PORTS)
		return err_set(err, -E2BIG, "net.publish: more than %d ports", PUBLISH_PORTS);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return err_errno(err, -errno, "net.publish");
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_port(p, &ports[i], err);
	return r;
}

int publisher_new(const struct publisher_request *request, const struct published *ports,
		  size_t count, struct publisher **ret_publisher, struct err *err)
{
	_cleanup_(publisher_freep) struct publisher *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_errno(err, -ENOMEM, "net.publish");
	p->request = *request;
	p->epoll = -EBADF;
	if (p->request.connections == 0)
		p->request.connections = PUBLISH_CONNECTIONS;
	r = add_ports(p, ports, count, err);
	if (r < 0)
		return r;
	*ret_publisher = take_ptr(&p);
	return 0;
}

static void drop(struct publisher *p, struct client *client)
{
	if (client->phase == PHASE_RELAY) {
		if (client->has_turn)
			p->turns--;
		relay_done(&client->relay, client->relay.ends[RELAY_LOCAL].is_at_end);
	} else {
		p->making--;
	}
	client->inside = fd_close(client->inside);
	client->outside = sock_reset(client->outside);
	client->phase = PHASE_FREE;
	client->generation++;
	client->has_turn = false;
	p->busy--;
}

struct publisher *publisher_free(struct publisher *p)
{
	if (!p)
		return NULL;
	publisher_close(p);
	for (uint32_t i = 0; i < p->used; i++)
		if (p->clients[i].phase != PHASE_FREE)
			drop(p, &p->clients[i]);
	for (int f = V4; f < FAMILIES; f++)
		while (p->stocked[f] > 0)
			close(p->stock[f][--p->stocked[f]]);
	fd_close(p->epoll);
	free(p->clients);
	free(p->buffer);
	free(p);
	return NULL;
}

const struct published *publisher_port(const struct publisher *p, size_t index)
{
	return &p->ports[index].published;
}

int publisher_fd(const struct publisher *p)
{
	return p->epoll;
}

static bool is_anyone_ready(const struct publisher *p)
{
	for (size_t i = 0; i < p->port_count; i++)
		if (p->ports[i].is_ready)
			return true;
	return false;
}

int publisher_timeout(const struct publisher *p)
{
	uint64_t next = NO_DEADLINE, now = clock_ms();

	if (p->turns > 0)
		return 0;
	if (is_anyone_ready(p))
		next = p->paused;
	for (uint32_t i = 0; p->making > 0 && i < p->used; i++)
		if (p->clients[i].phase == PHASE_WAITING || p->clients[i].phase == PHASE_REACHING)
			next = MIN(next, p->clients[i].deadline);
	for (int f = V4; p->making > 0 && f < FAMILIES; f++)
		if (p->asked[f])
			next = MIN(next, p->asked[f] + ASK_MS);
	if (next == NO_DEADLINE)
		return -1;
	return next <= now ? 0 : (int)(next - now);
}

static void tell(struct publisher *p, const struct address *peer, const struct port *port,
		 enum publish_outcome outcome, int error)
{
	p->request.event(p->request.ctx, &(struct publish_event){ .peer = peer,
								  .port = &port->published,
								  .outcome = outcome,
								  .error = error });
}

/* Nobody was reached: whoever came is reset. */
static void give_up(struct publisher *p, struct client *client, int error)
{
	tell(p, &client->peer, client->port, PUBLISH_FAILED, error);
	drop(p, client);
}

static int watch_client(struct publisher *p, struct client *client, int fd, enum watch_kind kind)
{
	return watch_add(p->epoll, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
			 (struct watch){ .kind = kind,
					 .index = (uint32_t)(client - p->clients),
					 .generation = client->generation });
}

static void relay_turn(struct publisher *p, struct client *client)
{
	int r = relay_pump(&client->relay, p->buffer, RELAY_BUFFER);
	bool has_turn = r == RELAY_MORE;

	if (has_turn != client->has_turn)
		p->turns += has_turn ? 1 : (uint32_t)-1;
	client->has_turn = has_turn;
	if (r != RELAY_MORE && r != RELAY_WAITS)
		drop(p, client);
}

static void begin_relay(struct publisher *p, struct client *client)
{
	int r = watch_client(p, client, client->outside, WATCH_REMOTE);

	if (r < 0) {
		give_up(p, client, r);
		return;
	}
	tell(p, &client->peer, client->port, PUBLISH_REACHED, 0);
	sock_tune(client->inside, KEEP_INSIDE_S);
	sock_tune(client->outside, KEEP_OUTSIDE_S);
	client->phase = PHASE_RELAY;
	p->making--;
	relay_init(&client->relay, take_fd(&client->inside), take_fd(&client->outside), false);
	relay_turn(p, client);
}

/* Where nobody listens, TCP may connect a socket to itself; that is nobody. */
static bool is_its_own_peer(int fd)
{
	union sock_address own, peer;

	return sock_name(fd, &own) < 0 || sock_peer(fd, &peer) < 0 ||
	       sock_address_equal(&own, &peer);
}

static void reach(struct publisher *p, struct client *client);

/* The end of an attempt inside. */
static void reached(struct publisher *p, struct client *client, int error)
{
	if (error == 0 && is_its_own_peer(client->inside))
		error = -ECONNREFUSED;
	if (error == 0) {
		begin_relay(p, client);
		return;
	}
	client->inside = fd_close(client->inside);
	if (error != -ECONNREFUSED || client->family == V6) {
		give_up(p, client, error);
		return;
	}
	client->family = V6;
	client->phase = PHASE_WAITING;
	reach(p, client);
}

static void ask(struct publisher *p, int family)
{
	uint64_t now = clock_ms();

	if (p->asked[family] && now < p->asked[family] + ASK_MS)
		return;
	p->asked[family] = MAX(now, (uint64_t)1);
	p->request.ask(p->request.ctx, families[family]);
}

/* Goes on with a socket of the stock, or waits for one. */
static void reach(struct publisher *p, struct client *client)
{
	union sock_address target = { .v6 = { .sin6_family = AF_INET6,
					      .sin6_addr = IN6ADDR_LOOPBACK_INIT,
					      .sin6_port =
						      htons(client->port->published.inside) } };
	size_t *stocked = &p->stocked[client->family];
	int r;

	if (client->family == V4)
		target.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
						  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
						  .sin_port = target.v6.sin6_port };
	if (*stocked <= STOCK_LOW)
		ask(p, client->family);
	if (*stocked == 0)
		return;
	client->inside = p->stock[client->family][--*stocked];
	client->phase = PHASE_REACHING;
	r = sock_connect(client->inside, &target);
	/* Not before: a socket that is not on its way yet looks like one whose peer is gone. */
	if (r == 0 || r == -EINPROGRESS)
		r = watch_client(p, client, client->inside, WATCH_LOCAL) < 0 ? -ENOMEM : r;
	if (r != -EINPROGRESS)
		reached(p, client, r);
}

static void reach_event(struct publisher *p, struct client *client, uint32_t events)
{
	int error = 0, r;

	if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		return;
	r = sock_get(client->inside, SOL_SOCKET, SO_ERROR, &error);
	reached(p, client, r < 0 ? r : -error);
}

static struct client *find_place(struct publisher *p)
{
	if (!p->clients)
		p->clients = calloc(p->request.connections, sizeof(*p->clients));
	if (!p->buffer)
		p->buffer = malloc(RELAY_BUFFER);
	if (!p->clients || !p->buffer)
		return NULL;
	for (uint32_t i = 0; p->busy < p->used && i < p->used; i++)
		if (p->clients[i].phase == PHASE_FREE)
			return &p->clients[i];
	return p->used < p->request.connections ? &p->clients[p->used++] : NULL;
}

static void welcome(struct publisher *p, const struct port *port, int fd,
		    const struct address *peer)
{
	struct client *client = find_place(p);

	if (!client) {
		tell(p, peer, port, PUBLISH_FULL, 0);
		sock_reset(fd);
		return;
	}
	*client = (struct client){ .phase = PHASE_WAITING,
				   .generation = client->generation + 1,
				   .family = V4,
				   .inside = -EBADF,
				   .outside = fd,
				   .deadline = clock_ms() + MAKING_MS,
				   .peer = *peer,
				   .port = port };
	p->busy++;
	p->making++;
	if (p->request.arrived)
		p->request.arrived(p->request.ctx);
	reach(p, client);
}

static void accept_some(struct publisher *p, struct port *port)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage name = { 0 };
		socklen_t len = sizeof(name);
		struct address peer = { 0 };
		int fd = accept4(port->listener, (struct sockaddr *)&name, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno == EAGAIN)
			port->is_ready = false;
		else if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
				    errno == ENOMEM))
			p->paused = clock_ms() + PAUSE_MS;
		if (fd < 0 && (!port->is_ready || p->paused > 0))
			return;
		if (fd < 0)
			continue; /* who came has gone already */
		(void)!address_from_sockaddr(&name, len, &peer);
		welcome(p, port, fd, &peer);
	}
}

static void expire(struct publisher *p)
{
	uint64_t now = clock_ms();

	for (uint32_t i = 0; p->making > 0 && i < p->used; i++) {
		struct client *client = &p->clients[i];

		if (client->phase != PHASE_WAITING && client->phase != PHASE_REACHING)
			continue;
		if (client->deadline <= now)
			give_up(p, client, -ETIMEDOUT);
		else if (client->phase == PHASE_WAITING)
			reach(p, client);
	}
}

static void client_event(struct publisher *p, struct watch watch, uint32_t events)
{
	struct client *client;

	if (watch.index >= p->used)
		return;
	client = &p->clients[watch.index];
	if (client->generation != watch.generation)
		return;
	if (client->phase == PHASE_REACHING && watch.kind == WATCH_LOCAL)
		reach_event(p, client, events);
	if (client->phase != PHASE_RELAY)
		return;
	relay_ready(&client->relay, watch.kind == WATCH_LOCAL ? RELAY_LOCAL : RELAY_REMOTE, events);
	relay_turn(p, client);
}

void publisher_work(struct publisher *p)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(p->epoll, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct watch watch = watch_of(events[i].data.u64);

		if (watch.kind != WATCH_LISTENER)
			client_event(p, watch, events[i].events);
		else if (watch.index < p->port_count && !p->is_closed)
			p->ports[watch.index].is_ready = true;
	}
	if (p->paused <= clock_ms())
		p->paused = 0;
	for (size_t i = 0; i < p->port_count && p->paused == 0; i++)
		if (p->ports[i].is_ready)
			accept_some(p, &p->ports[i]);
	for (uint32_t i = 0; p->turns > 0 && i < p->used; i++)
		if (p->clients[i].has_turn)
			relay_turn(p, &p->clients[i]);
	expire(p);
}

/* One that is what it should be: new, and not of our own network. */
static bool is_fine(const struct publisher *p, int fd, int family)
{
	uint64_t network;
	int domain, protocol;

	return sock_get(fd, SOL_SOCKET, SO_DOMAIN, &domain) == 0 && domain == family &&
	       sock_get(fd, SOL_SOCKET, SO_PROTOCOL, &protocol) == 0 && protocol == IPPROTO_TCP &&
	       sock_state(fd) == TCP_CLOSE && network_of(fd, &network) == 0 &&
	       network != p->network;
}

void publisher_supply(struct publisher *p, int family, const int *sockets, size_t count)
{
	int f = family == AF_INET ? V4 : V6;
	bool has_any = p->stocked[f] > 0;

	p->asked[f] = 0;
	for (size_t i = 0; i < count; i++) {
		if (p->is_closed || p->stocked[f] == STOCK || !is_fine(p, sockets[i], family)) {
			close(sockets[i]);
			continue;
		}
		p->stock[f][p->stocked[f]++] = sockets[i];
		has_any = true;
	}
	for (uint32_t i = 0; p->making > 0 && i < p->used; i++) {
		struct client *client = &p->clients[i];

		if (client->phase != PHASE_WAITING || client->family != f)
			continue;
		if (has_any)
			reach(p, client);
		else
			give_up(p, client, f == V6 ? -ECONNREFUSED : -EMFILE);
	}
}

void publisher_close(struct publisher *p)
{
	p->is_closed = true;
	for (size_t i = 0; i < p->port_count; i++) {
		p->ports[i].listener = fd_close(p->ports[i].listener);
		p->ports[i].is_ready = false;
	}
	for (uint32_t i = 0; p->making > 0 && i < p->used; i++)
		if (p->clients[i].phase == PHASE_WAITING || p->clients[i].phase == PHASE_REACHING)
			give_up(p, &p->clients[i], -ECONNREFUSED);
}

bool publisher_is_drained(const struct publisher *p)
{
	for (uint32_t i = 0; p->busy > 0 && i < p->used; i++)
		if (p->clients[i].phase == PHASE_RELAY &&
		    !p->clients[i].relay.ends[RELAY_LOCAL].is_at_end)
			return false;
	return true;
}
