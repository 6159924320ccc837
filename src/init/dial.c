/*
 * dial.c - DIAL: a connection to a port inside, on the loopback of the sandbox
 *
 * Tried on 127.0.0.1, then on ::1. The connection is passed on as a descriptor; where the channel passes
 * none, its bytes go as DATA in both directions, each within a window.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "init/init.h"

struct dial {
	struct call call;
	struct dial *next;
	struct source socket;
	uint16_t port;
	bool is_second; /* address: ::1 */
	bool is_connected;
	bool has_read_all, has_sent_end; /* from the socket; and told */
	bool ends;                       /* the other side has sent all */
	uint64_t window;                 /* bytes that may be sent as DATA */
	struct buf pending;              /* for the socket */
	size_t written;
};

static void dial_free(struct init *init, struct dial *dial)
{
	for (struct dial **p = &init->dials; *p; p = &(*p)->next)
		if (*p == dial) {
			*p = dial->next;
			break;
		}
	init->dial_count--;
	call_close(init, &dial->call);
	source_close(init, &dial->socket);
	buf_done(&dial->pending);
	free(dial);
}

static void give_up(struct init *init, struct dial *dial, int code)
{
	struct err err;

	if (dial->is_connected)
		err_errno(&err, code, "the connection to port %u inside was lost", dial->port);
	else
		err_errno(&err, code, "cannot connect to port %u inside", dial->port);
	answer_err(init, dial->call.number, &err);
	dial_free(init, dial);
}

/* 0 when the connection is made or on its way. */
static int try_address(struct init *init, struct dial *dial)
{
	const struct sockaddr_in four = { .sin_family = AF_INET,
					  .sin_port = htons(dial->port),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
					  .sin6_port = htons(dial->port),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr *address =
		dial->is_second ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
	socklen_t size = dial->is_second ? sizeof(six) : sizeof(four);

	source_close(init, &dial->socket);
	dial->socket.fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (dial->socket.fd < 0)
		return -errno;
	if (connect(dial->socket.fd, address, size) < 0 && errno != EINPROGRESS)
		return -errno;
	return source_watch(init, &dial->socket, EPOLLOUT);
}

/* The next address; what the first one failed with is told if that fails, too. */
static void try_next(struct init *init, struct dial *dial, int code)
{
	if (!dial->is_second) {
		dial->is_second = true;
		if (try_address(init, dial) == 0)
			return;
	}
	give_up(init, dial, code);
}

static void tell_connected(struct init *init, struct dial *dial)
{
	struct draft d = DRAFT(MESSAGE_CONNECTED, dial->call.number);
	int fd = -EBADF, r;

	dial->is_connected = true;
	if (init->channel.passes) {
		(void)!source_watch(init, &dial->socket, 0);
		fd = take_fd(&dial->socket.fd);
		(void)!fd_set_nonblock(fd, 0);
	}
	r = channel_send(&init->channel, &d, &fd, init->channel.passes ? 1 : 0);
	draft_done(&d);
	if (r == -ENOBUFS || r == -ETOOMANYREFS)
		give_up(init, dial, r);
	else if (init->channel.passes)
		dial_free(init, dial);
}

static void send_end(struct init *init, struct dial *dial)
{
	struct draft d = DRAFT(MESSAGE_DATA_END, dial->call.number);

	answer_send(init, &d);
	dial->has_sent_end = true;
}

/* From the socket, as much as may be sent now. 0, or how the connection failed. */
static int take(struct init *init, struct dial *dial)
{
	while (!dial->has_read_all && dial->window > 0 && !init->is_congested) {
		struct draft d = DRAFT(MESSAGE_DATA, dial->call.number);
		char bytes[16 * KIB];
		ssize_t n = recv(dial->socket.fd, bytes, MIN(sizeof(bytes), (size_t)dial->window),
				 MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0) {
			dial->has_read_all = true;
			break;
		}
		draft_bytes(&d, FIELD_DATA, bytes, (size_t)n);
		answer_send(init, &d);
		dial->window -= (uint64_t)n;
		loop_check_queue(init);
	}
	if (dial->has_read_all && !dial->has_sent_end)
		send_end(init, dial);
	return 0;
}

static void give_credit(struct init *init, struct dial *dial, size_t size)
{
	struct draft d = DRAFT(MESSAGE_CREDIT, dial->call.number);

	draft_number(&d, FIELD_SIZE, size);
	answer_send(init, &d);
}

/* To the socket. */
static int give(struct init *init, struct dial *dial)
{
	size_t before = dial->written;

	while (dial->written < dial->pending.len) {
		ssize_t n = send(dial->socket.fd, dial->pending.data + dial->written,
				 dial->pending.len - dial->written, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n < 0)
			break;
		dial->written += (size_t)n;
	}
	if (dial->written > before)
		give_credit(init, dial, dial->written - before);
	if (dial->written < dial->pending.len)
		return 0;
	buf_done(&dial->pending);
	dial->written = 0;
	if (dial->ends)
		shutdown(dial->socket.fd, SHUT_WR);
	return 0;
}

static void pump(struct init *init, struct dial *dial)
{
	uint32_t events = 0;
	int r = give(init, dial);

	r = r < 0 ? r : take(init, dial);
	if (r < 0) {
		give_up(init, dial, r);
		return;
	}
	if (dial->has_sent_end && dial->ends && dial->pending.len == 0) {
		channel_answer_done(&init->channel, dial->call.number);
		dial_free(init, dial);
		return;
	}
	if (!dial->has_read_all && dial->window > 0 && !init->is_congested)
		events |= EPOLLIN;
	if (dial->pending.len > 0)
		events |= EPOLLOUT;
	(void)!source_watch(init, &dial->socket, events);
}

static void on_socket(struct init *init, struct source *source, uint32_t events)
{
	struct dial *dial = container_of(source, struct dial, socket);
	socklen_t size = sizeof(int);
	int code = 0;

	(void)events;
	if (!dial->is_connected) {
		getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &code, &size);
		if (code != 0) {
			try_next(init, dial, -code);
			return;
		}
		tell_connected(init, dial);
		if (init->channel.passes)
			return;
	}
	pump(init, dial);
}

void dials_resume(struct init *init)
{
	struct dial *next;

	for (struct dial *dial = init->dials; dial; dial = next) {
		next = dial->next;
		if (dial->is_connected)
			pump(init, dial);
	}
}

static void take_data(struct init *init, struct dial *dial, const struct message *m)
{
	size_t len;
	const void *data = message_bytes(m, FIELD_DATA, &len);

	if (dial->written > 0) {
		memmove(dial->pending.data, dial->pending.data + dial->written,
			dial->pending.len - dial->written);
		dial->pending.len -= dial->written;
		dial->written = 0;
	}
	if (dial->ends || buf_add(&dial->pending, data, len) < 0)
		give_up(init, dial, -EMSGSIZE);
	else
		pump(init, dial);
}

static void receive(struct init *init, struct call *call, struct message *m)
{
	struct dial *dial = container_of(call, struct dial, call);

	/* Before it is connected there is nothing to say. */
	if (!dial->is_connected)
		return;
	if (m->type == MESSAGE_DATA) {
		take_data(init, dial, m);
		return;
	}
	if (m->type == MESSAGE_DATA_END)
		dial->ends = true;
	else
		dial->window = window_with(dial->window, m);
	pump(init, dial);
}

static void cancel(struct init *init, struct call *call)
{
	dial_free(init, container_of(call, struct dial, call));
}

static const struct call_kind dial_call = { .receive = receive, .cancel = cancel };

void dial_start(struct init *init, struct message *m)
{
	uint64_t port = message_number(m, FIELD_PORT, 0);
	struct err err = ERR_NONE;
	struct dial *dial = NULL;
	int r;

	if (port == 0 || port > 65535)
		err_set(&err, -EINVAL, "%llu is not a port", (unsigned long long)port);
	else if (init->dial_count == DIALS_MAX)
		err_set(&err, -EAGAIN, "%d connections are made at once already", DIALS_MAX);
	else if (init_has_room(&err) == 0 && !(dial = malloc(sizeof(*dial))))
		err_set(&err, -ENOMEM, "out of memory");
	if (!dial) {
		answer_err(init, m->call, &err);
		return;
	}
	*dial = (struct dial){ .next = init->dials,
			       .socket = SOURCE(on_socket),
			       .port = (uint16_t)port,
			       .window = MESSAGE_WINDOW,
			       .pending = BUF(MESSAGE_WINDOW) };
	init->dials = dial;
	init->dial_count++;
	call_open(init, &dial->call, m->call, &dial_call);
	r = try_address(init, dial);
	if (r < 0)
		try_next(init, dial, r);
}
