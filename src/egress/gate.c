#include "egress/gate_internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define CONNECTIONS_DEFAULT 2048
#define CONNECTIONS_MAX     65536
#define FIRST_MS_DEFAULT    30000
#define FIRST_BYTES_DEFAULT (8 * MIB)
#define EVENTS_PER_TURN     64
#define OWN_MAX             256
#define OWN_FRESH_MS        30000

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

const char *const gate_action_names[GATE_ACTION_COUNT] = {
	[GATE_NAME] = "resolve",      [GATE_CONNECT] = "connect",
	[GATE_DATAGRAM] = "datagram", [GATE_FIRST_BYTES] = "first bytes",
	[GATE_CLOSE] = "close",       [GATE_LIMIT] = "limit",
	[GATE_CUT] = "cut",
};

void gate_tell(struct gate *gate, enum gate_action action, pid_t pid,
	       const struct judgement *judgement, int error)
{
	gate->request.event(gate->request.ctx, &(struct gate_event){ .action = action,
								     .pid = pid,
								     .judgement = judgement,
								     .error = error });
}

/* A refusal that is not the policy's but the gate's own. */
void gate_refuse(struct gate *gate, enum gate_action action, pid_t pid, const char *object,
		 const char *reason)
{
	struct judgement judgement = { .cause = JUDGE_NO_RULE };

	snprintf(judgement.object, sizeof(judgement.object), "%s", object);
	snprintf(judgement.reason, sizeof(judgement.reason), "%s", reason);
	gate_tell(gate, action, pid, &judgement, 0);
}

/* The addresses of this host come and go; a list that cannot be read again stays as it was. */
void gate_read_own(struct gate *gate, uint64_t now)
{
	struct own_addresses *own = &gate->own;
	struct ifaddrs *all = NULL;
	size_t count = 0;

	if (own->read_ms > 0 && now - own->read_ms < OWN_FRESH_MS)
		return;
	own->read_ms = MAX(now, (uint64_t)1);
	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i && count < OWN_MAX; i = i->ifa_next) {
		struct address address;
		socklen_t len;

		if (!i->ifa_addr)
			continue;
		len = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							: sizeof(struct sockaddr_in6);
		if (address_from_sockaddr(i->ifa_addr, len, &address) == 0)
			memcpy(own->items[count++], address.ip, ADDRESS_BYTES);
	}
	freeifaddrs(all);
	own->list =
		(struct address_list){ (const unsigned char(*)[ADDRESS_BYTES])own->items, count };
}

/* For callers that share our network: no factory is needed. */
static int socket_here(void *ctx, int family, int type)
{
	int fd;

	(void)ctx;
	fd = socket(family, type, 0);
	return fd < 0 ? -errno : fd;
}

static int read_network(struct gate *gate, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	socklen_t len = sizeof(gate->network);

	fd = gate->request.make_socket(gate->request.ctx, AF_INET,
				       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return err_errno(err, fd, "cannot make a socket in the sandbox's network");
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &gate->network, &len) < 0)
		return err_errno(err, -errno, "cannot tell the sandbox's network from others");
	return 0;
}

static void set_defaults(struct gate_request *request)
{
	struct gate_limits *limits = &request->limits;

	if (limits->connections == 0)
		limits->connections = CONNECTIONS_DEFAULT;
	limits->connections = MIN(limits->connections, (unsigned int)CONNECTIONS_MAX);
	if (limits->first_ms == 0)
		limits->first_ms = FIRST_MS_DEFAULT;
	if (limits->first_bytes == 0)
		limits->first_bytes = FIRST_BYTES_DEFAULT;
	if (!request->is_inside)
		request->make_socket = socket_here;
	if (request->is_inside)
		request->may_go_straight = false;
	if (!request->resolv_conf)
		request->resolv_conf = "/etc/resolv.conf";
}

static int gate_allocate(struct gate *gate)
{
	gate->connections = calloc(gate->request.limits.connections, sizeof(*gate->connections));
	gate->answers = calloc(1, sizeof(*gate->answers));
	gate->own.items = calloc(OWN_MAX, sizeof(*gate->own.items));
	gate->buffer = malloc(RELAY_BUFFER);
	if (!gate->connections || !gate->answers || !gate->own.items || !gate->buffer)
		return -ENOMEM;
	answers_init(gate->answers);
	gate->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (gate->epoll < 0)
		return -errno;
	gate->judge = (struct judge){ gate->request.policy, &gate->own.list, gate->answers };
	return nameserver_new(&gate->judge, gate->answers, gate->request.resolv_conf, gate->epoll,
			      &(struct nameserver_ear){ gate->request.ctx, gate->request.event },
			      &gate->names);
}

int gate_new(const struct gate_request *request, struct gate **ret_gate, struct err *err)
{
	_cleanup_(gate_freep) struct gate *gate = calloc(1, sizeof(*gate));
	int r;

	if (!gate)
		return err_errno(err, -ENOMEM, "cannot make the gate");
	gate->request = *request;
	gate->epoll = -EBADF;
	gate->free = gate->queue = gate->queue_last = NO_INDEX;
	gate->next_deadline = NO_DEADLINE;
	set_defaults(&gate->request);
	park_init(&gate->park, gate->request.make_socket, gate->request.ctx);
	r = gate_allocate(gate);
	if (r < 0)
		return err_errno(err, r, "cannot make the gate");
	if (request->is_inside) {
		r = read_network(gate, err);
		if (r < 0)
			return r;
	}
	gate_read_own(gate, clock_ms());
	*ret_gate = take_ptr(&gate);
	return 0;
}

struct gate *gate_free(struct gate *gate)
{
	if (!gate)
		return NULL;
	for (uint32_t i = 0; i < gate->used; i++)
		if (gate->connections[i].phase != PHASE_FREE)
			connection_drop(gate, &gate->connections[i]);
	nameserver_free(gate->names);
	park_done(&gate->park);
	fd_close(gate->epoll);
	free(gate->connections);
	free(gate->answers);
	free(gate->own.items);
	free(gate->buffer);
	free(gate);
	return NULL;
}

int gate_fd(const struct gate *gate)
{
	return gate->epoll;
}

int gate_timeout(const struct gate *gate)
{
	uint64_t next = MIN(gate->next_deadline, nameserver_deadline(gate->names)), now;

	if (gate->queue != NO_INDEX)
		return 0;
	if (next == NO_DEADLINE)
		return -1;
	now = clock_ms();
	return next <= now ? 0 : (int)MIN(next - now, (uint64_t)3600000);
}

/* All whose time is over; next_deadline may have been too soon and is found anew. */
static void expire(struct gate *gate)
{
	uint64_t now = clock_ms();

	if (gate->next_deadline > now)
		return;
	gate->next_deadline = NO_DEADLINE;
	for (uint32_t i = 0; i < gate->used; i++) {
		struct connection *connection = &gate->connections[i];

		if (connection->phase == PHASE_FREE)
			continue;
		if (connection->deadline <= now)
			connection_expired(gate, connection);
		else
			gate->next_deadline = MIN(gate->next_deadline, connection->deadline);
	}
}

/* Each of those that were queued before has one turn; who queues again waits for the next call. */
static void run_queue(struct gate *gate)
{
	uint32_t next = gate->queue;

	gate->queue = gate->queue_last = NO_INDEX;
	while (next != NO_INDEX) {
		struct connection *connection = &gate->connections[next];

		next = connection->next_queued;
		connection->is_queued = false;
		connection_turn(gate, connection);
	}
}

void gate_work(struct gate *gate)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(gate->epoll, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct watch watch = watch_of(events[i].data.u64);
		struct connection *connection;

		if (watch.kind > WATCH_REMOTE) {
			nameserver_event(gate->names, watch, events[i].events);
			continue;
		}
		connection = connection_find(gate, watch);
		if (connection)
			connection_event(gate, connection, watch.kind, events[i].events);
	}
	run_queue(gate);
	expire(gate);
	nameserver_expire(gate->names);
}

int gate_dns(struct gate *gate, int datagrams, int listener)
{
	return nameserver_serve(gate->names, datagrams, listener);
}

void gate_policy_changed(struct gate *gate, const struct policy *policy)
{
	gate->request.policy = gate->judge.policy = policy;
	gate->own.read_ms = 0;
	gate_read_own(gate, clock_ms());
	for (uint32_t i = 0; i < gate->used; i++)
		if (gate->connections[i].phase != PHASE_FREE)
			connection_review(gate, &gate->connections[i]);
}

static struct connection *find_awaited(struct gate *gate, uint64_t id)
{
	for (uint32_t i = 0; i < gate->used; i++) {
		struct connection *connection = &gate->connections[i];

		if (connection->phase != PHASE_FREE && connection->is_awaited &&
		    connection->id == id)
			return connection;
	}
	return NULL;
}

void gate_cancel(struct gate *gate, uint64_t id)
{
	struct connection *connection = find_awaited(gate, id);

	if (!connection)
		return;
	connection->is_awaited = false;
	connection_end(gate, connection, -EINTR);
}

void gate_interrupt(struct gate *gate, uint64_t id)
{
	struct connection *connection = find_awaited(gate, id);

	if (connection)
		connection_interrupt(gate, connection);
}
