#include "egress/gate_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/fd.h"

#define MEETING_MS     10000 /* B and A are on one machine: they meet at once or never */
#define PATIENCE_MAX_S 86400
#define KEEP_LOCAL_S   60 /* finds out that a caller is gone for good, not only half closed */
#define KEEP_REMOTE_S  300
#define BOTH_WAYS_EDGE (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static uint32_t index_of(const struct gate *gate, const struct connection *connection)
{
	return (uint32_t)(connection - gate->connections);
}

static int watch_socket(struct gate *gate, const struct connection *connection, int fd,
			enum watch_kind kind)
{
	return watch_add(gate->epoll, fd, BOTH_WAYS_EDGE,
			 (struct watch){ .kind = kind,
					 .index = index_of(gate, connection),
					 .generation = connection->generation });
}

static void set_deadline(struct gate *gate, struct connection *connection, uint64_t ms)
{
	connection->deadline = ms == NO_DEADLINE ? NO_DEADLINE : clock_ms() + ms;
	gate->next_deadline = MIN(gate->next_deadline, connection->deadline);
}

struct connection *connection_new(struct gate *gate, const struct gate_attempt *attempt,
				  const struct address *address)
{
	struct connection *connection;
	uint32_t index = gate->free;

	if (index != NO_INDEX)
		gate->free = gate->connections[index].next_free;
	else if (gate->used < gate->request.limits.connections)
		index = gate->used++;
	else
		return NULL;
	gate->making++;
	connection = &gate->connections[index];
	*connection = (struct connection){
		.phase = PHASE_DIALLING,
		.generation = connection->generation + 1,
		.next_queued = connection->next_queued,
		.is_queued = connection->is_queued,
		.is_awaited = true,
		.id = attempt->id,
		.pid = attempt->pid,
		.caller = attempt->socket,
		.local = -EBADF,
		.remote = -EBADF,
		.spare = -EBADF,
		.deadline = NO_DEADLINE,
		.address = *address,
	};
	return connection;
}

struct connection *connection_find(struct gate *gate, struct watch watch)
{
	struct connection *connection;

	if (watch.index >= gate->used)
		return NULL;
	connection = &gate->connections[watch.index];
	if (connection->phase == PHASE_FREE || connection->generation != watch.generation)
		return NULL;
	return connection;
}

/* The connection that is being made for a socket of the sandbox. */
struct connection *connection_of_socket(struct gate *gate, uint64_t cookie)
{
	for (uint32_t i = 0; gate->making > 0 && i < gate->used; i++) {
		struct connection *connection = &gate->connections[i];

		if (connection->phase != PHASE_FREE && connection->phase != PHASE_RELAY &&
		    connection->cookie == cookie)
			return connection;
	}
	return NULL;
}

void connection_answer(struct gate *gate, struct connection *connection, int error)
{
	if (!connection->is_awaited)
		return;
	connection->is_awaited = false;
	gate->request.answer(gate->request.ctx, connection->id, error < 0 ? -error : 0);
}

/* A is the sandbox's file as well: it must leave our epoll set before our descriptor goes. */
static void let_caller_go(struct gate *gate, struct connection *connection)
{
	if (connection->caller >= 0 && connection->phase == PHASE_DIRECT)
		watch_remove(gate->epoll, connection->caller);
	fd_closep(&connection->caller);
}

static void uncount(struct gate *gate, struct connection *connection)
{
	gate->first_bytes -= connection->counted;
	connection->counted = 0;
}

void connection_name(struct connection *connection, const char *name)
{
	char *copy = name[0] ? strdup(name) : NULL;

	if (!name[0])
		return;
	free(connection->name);
	connection->name = copy;
}

/* Frees all of it; tells nobody. */
void connection_drop(struct gate *gate, struct connection *connection)
{
	let_caller_go(gate, connection);
	free(connection->name);
	connection->name = NULL;
	if (connection->phase == PHASE_RELAY) {
		uncount(gate, connection);
		relay_done(&connection->relay, false);
	} else {
		gate->making--;
	}
	connection->local = sock_reset(connection->local);
	connection->remote = sock_reset(connection->remote);
	fd_closep(&connection->spare);
	connection->phase = PHASE_FREE;
	connection->generation++;
	connection->next_free = gate->free;
	gate->free = index_of(gate, connection);
}

static void tell_end(struct gate *gate, const struct connection *connection, int error)
{
	struct judgement judgement = { .is_allowed = true, .is_raw = connection->is_raw };
	struct gate_event event = { .action = GATE_CLOSE,
				    .pid = connection->pid,
				    .judgement = &judgement,
				    .error = error };

	address_at_text(&connection->address, judgement.object);
	if (connection->phase == PHASE_RELAY) {
		event.sent = connection->relay.ends[RELAY_LOCAL].bytes;
		event.received = connection->relay.ends[RELAY_REMOTE].bytes;
	}
	gate->request.event(gate->request.ctx, &event);
}

/* The end of a connection in any phase: 0 when both sides have finished. */
void connection_end(struct gate *gate, struct connection *connection, int error)
{
	int pending;

	tell_end(gate, connection, error);
	/* A caller that polls finds ECONNRESET; one that waits is told here. */
	if (connection->is_parked && connection->caller >= 0) {
		(void)!shutdown(connection->caller, SHUT_RDWR);
		if (connection->is_awaited)
			(void)!sock_get(connection->caller, SOL_SOCKET, SO_ERROR, &pending);
	}
	connection_answer(gate, connection, error);
	if (error == 0 && connection->phase == PHASE_RELAY)
		relay_done(&connection->relay, true);
	connection_drop(gate, connection);
}

static void queue(struct gate *gate, struct connection *connection)
{
	uint32_t index = index_of(gate, connection);

	if (connection->is_queued)
		return;
	connection->is_queued = true;
	connection->next_queued = NO_INDEX;
	if (gate->queue == NO_INDEX)
		gate->queue = index;
	else
		gate->connections[gate->queue_last].next_queued = index;
	gate->queue_last = index;
}

/* A connection by A itself. Its caller waits here only if it wanted to and the kernel cannot say. */
void connection_direct(struct gate *gate, struct connection *connection,
		       const union sock_address *target)
{
	int flags = fcntl(connection->caller, F_GETFL), r;

	r = sock_connect(connection->caller, target);
	if (r == -EINPROGRESS && flags >= 0 && !(flags & O_NONBLOCK)) {
		connection->phase = PHASE_DIRECT;
		r = watch_socket(gate, connection, connection->caller, WATCH_CALLER);
		if (r == 0)
			return;
	}
	connection_answer(gate, connection, r);
	connection_drop(gate, connection);
}

/*
 * A's file still believes to be connecting; this tells it that it is connected, as the end of the
 * caller's own call would have done. The address does not count, and leads nowhere.
 */
static void settle(int caller)
{
	union sock_address nowhere = { .v4 = { .sin_family = AF_INET,
					       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

	(void)!sock_connect(caller, &nowhere);
}

static void direct_event(struct gate *gate, struct connection *connection, uint32_t events)
{
	int error = 0, r;

	if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		return;
	r = sock_get(connection->caller, SOL_SOCKET, SO_ERROR, &error);
	if (r == 0 && error == 0)
		settle(connection->caller);
	connection_answer(gate, connection, r < 0 ? r : -error);
	connection_drop(gate, connection);
}

/* What a refused or malformed start of a connection leads to. */
static void refuse_first(struct gate *gate, struct connection *connection,
			 const struct judgement *judgement)
{
	gate_tell(gate, GATE_FIRST_BYTES, connection->pid, judgement, 0);
	connection_end(gate, connection, -EACCES);
}

static void refuse_first_in_words(struct gate *gate, struct connection *connection,
				  const char *reason)
{
	struct judgement judgement = { .cause = JUDGE_PROTOCOL };

	address_at_text(&connection->address, judgement.object);
	snprintf(judgement.reason, sizeof(judgement.reason), "%s", reason);
	refuse_first(gate, connection, &judgement);
}

/* 0 when there is a verdict and it is yes, 1 when bytes are missing, or the connection is gone. */
static int judge_what_came(struct gate *gate, struct connection *connection)
{
	struct buf *bytes = &connection->relay.first;
	struct first_bytes first;
	struct judgement judgement;

	if (bytes->len < connection->need)
		return 1;
	first_bytes_look(bytes->data, bytes->len, &first);
	if (first.kind == FIRST_MORE) {
		connection->need = first.need;
		return 1;
	}
	judge_first(&gate->judge, &connection->address, connection->judged_ms, &first, &judgement);
	if (judgement.is_allowed) {
		connection->is_told = answers_has(gate->answers, connection->address.ip, first.name,
						  connection->judged_ms);
		connection_name(connection, first.name);
		return 0;
	}
	refuse_first(gate, connection, &judgement);
	return -EACCES;
}

static void release(struct gate *gate, struct connection *connection)
{
	relay_release(&connection->relay);
	set_deadline(gate, connection, NO_DEADLINE);
}

/* Reads on until the verdict; negative when the connection is gone. */
static int read_first(struct gate *gate, struct connection *connection)
{
	while (connection->relay.is_held) {
		int r = relay_read_first(&connection->relay, gate->buffer, RELAY_BUFFER);

		if (r == -EAGAIN)
			return 0;
		if (r < 0) {
			connection_end(gate, connection, r);
			return r;
		}
		if (r == 0 && connection->relay.first.len > 0) {
			refuse_first_in_words(gate, connection, "the first bytes end too soon");
			return -EACCES;
		}
		if (r == 0) { /* not a byte to judge: the end is passed on */
			release(gate, connection);
			return 0;
		}
		connection->counted += (size_t)r;
		gate->first_bytes += (size_t)r;
		if (gate->first_bytes > gate->request.limits.first_bytes) {
			refuse_first_in_words(gate, connection,
					      "too many connections with unfinished first bytes");
			return -EACCES;
		}
		r = judge_what_came(gate, connection);
		if (r < 0)
			return r;
		if (r == 0)
			release(gate, connection);
	}
	return 0;
}

static void relay_turn(struct gate *gate, struct connection *connection)
{
	int r;

	if (read_first(gate, connection) < 0)
		return;
	r = relay_pump(&connection->relay, gate->buffer, RELAY_BUFFER);
	if (connection->counted > 0 && connection->relay.first.len == 0)
		uncount(gate, connection);
	if (r == RELAY_MORE)
		queue(gate, connection);
	else if (r != RELAY_WAITS)
		connection_end(gate, connection, r == RELAY_OVER ? 0 : r);
}

static void begin_relay(struct gate *gate, struct connection *connection)
{
	if (connection->is_awaited)
		settle(connection->caller);
	connection_answer(gate, connection, 0);
	let_caller_go(gate, connection);
	connection->is_parked = false;
	sock_tune(connection->local, KEEP_LOCAL_S);
	sock_tune(connection->remote, KEEP_REMOTE_S);
	connection->phase = PHASE_RELAY;
	gate->making--;
	relay_init(&connection->relay, take_fd(&connection->local), take_fd(&connection->remote),
		   !connection->is_raw);
	set_deadline(gate, connection,
		     connection->is_raw ? NO_DEADLINE : gate->request.limits.first_ms);
	relay_turn(gate, connection);
}

static void meet(struct gate *gate, struct connection *connection)
{
	int r = park_check(connection->caller, connection->local, &connection->parked);

	if (r == 0)
		begin_relay(gate, connection);
	else if (r != -EINPROGRESS)
		connection_end(gate, connection, r);
	else if (sock_state(connection->local) == TCP_ESTABLISHED)
		queue(gate, connection); /* only A's last step is missing, which is no event here */
}

/* R is connected: now A, where it is not waiting already, and B. */
static void dialled(struct gate *gate, struct connection *connection)
{
	int r = 0;

	if (!connection->is_parked)
		r = park_enter(&gate->park, connection->caller,
			       !address_is_ipv4(connection->address.ip), &connection->parked);
	if (r == 0) {
		connection->is_parked = true;
		connection->phase = PHASE_MEETING;
		r = park_leave(&gate->park, connection->caller, &connection->parked,
			       &connection->spare, &connection->local);
		fd_closep(&connection->spare);
	}
	if (r == 0)
		r = watch_socket(gate, connection, connection->local, WATCH_LOCAL);
	if (r < 0) {
		connection_end(gate, connection, r);
		return;
	}
	set_deadline(gate, connection, MEETING_MS);
	meet(gate, connection);
}

static void dial_event(struct gate *gate, struct connection *connection, uint32_t events)
{
	int error = 0, r;

	if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		return;
	r = sock_get(connection->remote, SOL_SOCKET, SO_ERROR, &error);
	if (r == 0 && error == 0)
		dialled(gate, connection);
	else
		connection_end(gate, connection, r < 0 ? r : -error);
}

static int start_dial(struct gate *gate, struct connection *connection)
{
	struct sockaddr_storage target;
	socklen_t len = address_to_sockaddr(&connection->address, &target);
	int r = park_reserve(&gate->park, connection->caller,
			     !address_is_ipv4(connection->address.ip), &connection->spare);

	if (r < 0)
		return r;
	connection->remote =
		socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connection->remote < 0)
		return -errno;
	r = connect(connection->remote, (struct sockaddr *)&target, len) < 0 ? -errno : 0;
	if (r < 0 && r != -EINPROGRESS)
		return r;
	return watch_socket(gate, connection, connection->remote, WATCH_REMOTE);
}

/* The caller goes on without the outcome, told so by this error, and learns of it by polling. */
static int park_caller(struct gate *gate, struct connection *connection, int error)
{
	int r = park_enter(&gate->park, connection->caller,
			   !address_is_ipv4(connection->address.ip), &connection->parked);

	if (r < 0)
		return r;
	connection->is_parked = true;
	connection_answer(gate, connection, error);
	return 0;
}

/* How long a caller that waits wants to wait at most: SO_SNDTIMEO. */
static uint64_t patience(int caller)
{
	struct timeval limit = { 0 };
	socklen_t len = sizeof(limit);

	if (getsockopt(caller, SOL_SOCKET, SO_SNDTIMEO, &limit, &len) < 0 || limit.tv_sec < 0 ||
	    limit.tv_sec > PATIENCE_MAX_S || (limit.tv_sec == 0 && limit.tv_usec == 0))
		return NO_DEADLINE;
	return (uint64_t)limit.tv_sec * 1000 + (uint64_t)limit.tv_usec / 1000;
}

void connection_dial(struct gate *gate, struct connection *connection)
{
	int flags = fcntl(connection->caller, F_GETFL), r;

	r = flags < 0 ? -errno : start_dial(gate, connection);
	/* What is near is there by now: one wait less. Else the dial's end is an event of R. */
	if (r == 0 && sock_state(connection->remote) == TCP_ESTABLISHED && !(flags & O_NONBLOCK))
		dialled(gate, connection);
	else if (r == 0 && (flags & O_NONBLOCK))
		r = park_caller(gate, connection, -EINPROGRESS);
	else if (r == 0)
		set_deadline(gate, connection, patience(connection->caller));
	if (r < 0)
		connection_end(gate, connection, r);
}

void connection_event(struct gate *gate, struct connection *connection, enum watch_kind kind,
		      uint32_t events)
{
	switch (connection->phase) {
	case PHASE_DIRECT:
		direct_event(gate, connection, events);
		break;
	case PHASE_DIALLING:
		dial_event(gate, connection, events);
		break;
	case PHASE_MEETING:
		if (kind == WATCH_LOCAL)
			meet(gate, connection);
		break;
	case PHASE_RELAY:
		relay_ready(&connection->relay, kind == WATCH_LOCAL ? RELAY_LOCAL : RELAY_REMOTE,
			    events);
		relay_turn(gate, connection);
		break;
	case PHASE_FREE:
		break;
	}
}

void connection_turn(struct gate *gate, struct connection *connection)
{
	if (connection->phase == PHASE_MEETING)
		meet(gate, connection);
	else if (connection->phase == PHASE_RELAY)
		relay_turn(gate, connection);
}

void connection_expired(struct gate *gate, struct connection *connection)
{
	int r = -ETIMEDOUT;

	connection->deadline = NO_DEADLINE;
	if (connection->phase == PHASE_RELAY) {
		refuse_first_in_words(gate, connection,
				      "the client did not say whom it wants to talk to in time");
		return;
	}
	if (connection->phase == PHASE_DIALLING)
		r = park_caller(gate, connection, -EINPROGRESS);
	if (r < 0)
		connection_end(gate, connection, r);
}

/* A that connects by itself goes on by itself; A that is parked already is about to be completed. */
void connection_interrupt(struct gate *gate, struct connection *connection)
{
	int r;

	if (connection->phase == PHASE_DIALLING) {
		connection->deadline = NO_DEADLINE;
		r = park_caller(gate, connection, -EINTR);
		if (r < 0)
			connection_end(gate, connection, r);
		return;
	}
	connection_answer(gate, connection, -EINTR);
	if (connection->phase == PHASE_DIRECT)
		connection_drop(gate, connection);
}

/* One that leads out, and no rule lets it any more, is over. */
void connection_review(struct gate *gate, struct connection *connection)
{
	struct judgement judgement;

	if (!connection->is_judged)
		return;
	judge_again(&gate->judge,
		    &(struct judged){ .address = connection->address,
				      .name = connection->name ?: "",
				      .is_told = connection->is_told,
				      .is_raw = connection->is_raw },
		    &judgement);
	if (judgement.is_allowed)
		return;
	gate_tell(gate, GATE_CUT, connection->pid, &judgement, 0);
	if (connection->phase == PHASE_DIRECT)
		(void)!shutdown(connection->caller, SHUT_RDWR);
	connection_end(gate, connection, -EACCES);
}
