#include "warden/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/mediate_reply.h"

#define RESOLVER_QUEUE 64

enum { V4, V6 };

int door_open(struct witness *witness, const struct seclusion *seclusion, struct door *ret_door,
	      int *ret_theirs, struct err *err)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	/* A keeper that waited for us here could not keep our deadline when we are stopped. */
	r = fd_set_nonblock(pair[1], 1);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return err_errno(err, r, "cannot make a socket pair");
	}
	*ret_door = DOOR_NONE;
	ret_door->channel = pair[0];
	ret_door->witness = witness;
	ret_door->seclusion = *seclusion;
	*ret_theirs = pair[1];
	return 0;
}

static int bind_resolver(int type, uint16_t *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(address);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, RESOLVER_QUEUE) < 0) ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	*ret_port = ntohs(address.sin_port);
	return take_fd(&fd);
}

int door_share(struct door *door, uint16_t *ret_port, struct err *err)
{
	uint16_t port = 0, unused;

	door->datagrams = bind_resolver(SOCK_DGRAM, &port);
	door->listener =
		door->datagrams < 0 ? door->datagrams : bind_resolver(SOCK_STREAM, &unused);
	if (door->listener < 0)
		return err_errno(err, door->listener, "cannot make sockets for the resolver");
	door->is_shared = true;
	*ret_port = port;
	return 0;
}

void door_done(struct door *door)
{
	door->gate = gate_free(door->gate);
	for (int f = V4; f <= V6; f++)
		while (door->stocked[f] > 0)
			close(door->stock[f][--door->stocked[f]]);
	door->channel = fd_close(door->channel);
	door->waiting = fd_close(door->waiting);
	door->datagrams = fd_close(door->datagrams);
	door->listener = fd_close(door->listener);
}

/* Keeps a socket that was made inside, or closes it. */
static void keep(struct door *door, int fd)
{
	socklen_t len = sizeof(int);
	int domain, f;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    (domain != AF_INET && domain != AF_INET6)) {
		close(fd);
		return;
	}
	f = domain == AF_INET ? V4 : V6;
	if (door->stocked[f] == DOOR_STOCK)
		close(fd);
	else
		door->stock[f][door->stocked[f]++] = fd;
}

static int make_socket(void *ctx, int family, int type)
{
	struct door *door = ctx;
	int f = family == AF_INET ? V4 : V6;

	if ((type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != SOCK_STREAM)
		return -EPROTOTYPE;
	return door->stocked[f] > 0 ? door->stock[f][--door->stocked[f]] : -EAGAIN;
}

static void forget(struct door *door, uint64_t id)
{
	for (size_t i = door->awaited_count; i-- > 0;)
		if (door->awaited[i] == id) {
			door->awaited[i] = door->awaited[--door->awaited_count];
			return;
		}
}

/* A caller that was killed, or whose program is another one now, wants no connection. */
static void look_after_callers(struct door *door)
{
	uint64_t now = clock_ms();

	if (door->awaited_count == 0 || now < door->next_look)
		return;
	door->next_look = now + OUTLET_LOOK_MS;
	for (size_t i = door->awaited_count; i-- > 0;) {
		uint64_t id = door->awaited[i];

		if (reply_is_awaited(door->waiting, id))
			continue;
		forget(door, id);
		gate_cancel(door->gate, id);
	}
}

static void answer(void *ctx, uint64_t id, int error)
{
	struct door *door = ctx;

	forget(door, id);
	/* Who has gone by now needs none. */
	(void)!reply_result(door->waiting, id, -error);
}

static uint32_t exec_of(const struct door *door, pid_t pid)
{
	for (size_t i = 1; i <= DOOR_RECENT; i++) {
		size_t at = (door->next_recent + DOOR_RECENT - i) % DOOR_RECENT;

		if (door->recent[at].pid == pid)
			return door->recent[at].exec;
	}
	return 0;
}

static void on_event(void *ctx, const struct gate_event *event)
{
	struct door *door = ctx;

	witness_gate(door->witness, event, exec_of(door, event->pid));
}

/* At the first use. Where it cannot be made, whoever asks is refused. */
static void make_gate(struct door *door)
{
	static const unsigned char own[][ADDRESS_BYTES] = {
		{ [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1 }
	};
	const struct gate_request request = { .policy = door->witness->policy,
					      .is_inside = !door->is_shared,
					      .may_go_straight = door->is_shared,
					      .inside = { own, door->is_shared ? 0 : 1 },
					      .ctx = door,
					      .make_socket = make_socket,
					      .answer = answer,
					      .event = on_event };
	struct err err = ERR_NONE;
	int r;

	if (door->gate || door->failed)
		return;
	r = seclude(&door->seclusion);
	if (r < 0)
		err_errno(&err, r, "the warden cannot shut itself in");
	r = r < 0 ? r : gate_new(&request, &door->gate, &err);
	if (r == 0)
		r = gate_dns(door->gate, take_fd(&door->datagrams), take_fd(&door->listener));
	if (r < 0) {
		fprintf(stderr, "brig: no gate: %s\n", err.code ? err.text : strerror(-r));
		door->gate = gate_free(door->gate);
		door->datagrams = fd_close(door->datagrams);
		door->listener = fd_close(door->listener);
		door->failed = true;
	}
}

static void on_connect(struct door *door, const struct outlet_message *message, int fd)
{
	struct gate_attempt attempt = {
		.id = message->id, .pid = message->pid, .socket = fd, .len = message->len
	};

	_Static_assert(sizeof(attempt.address) == OUTLET_ADDRESS_MAX, "one size");
	/* There was no room for one more descriptor; the caller must not wait for that. */
	if (fd < 0) {
		answer(door, message->id, EMFILE);
		return;
	}
	make_gate(door);
	if (!door->gate || message->len > sizeof(attempt.address)) {
		close(fd);
		answer(door, message->id, door->gate ? EINVAL : ENETUNREACH);
		return;
	}
	memcpy(&attempt.address, message->address, message->len);
	door->recent[door->next_recent].pid = message->pid;
	door->recent[door->next_recent].exec = message->exec;
	door->next_recent = (door->next_recent + 1) % DOOR_RECENT;
	/* The keeper holds no more at a time. */
	if (door->awaited_count < OUTLET_HELD_MAX)
		door->awaited[door->awaited_count++] = message->id;
	gate_connect(door->gate, &attempt);
}

/* What the keeper refused by itself. */
static void on_refused(const struct door *door, const struct outlet_message *message)
{
	struct address address;
	char text[ADDRESS_AT_TEXT_SIZE] = "";

	if (message->len <= sizeof(message->address) &&
	    address_from_sockaddr(message->address, message->len, &address) == 0)
		address_at_text(&address, text);
	if (message->refusal < OUTLET_REFUSAL_COUNT)
		witness_refused(door->witness, message, text);
}

static void on_message(struct door *door, const struct outlet_message *message,
		       int passed[static FD_PASS_MAX])
{
	size_t own = 0;

	switch (message->kind) {
	case OUTLET_LISTENER:
		if (door->waiting < 0)
			door->waiting = take_fd(&passed[0]);
		own = 1;
		break;
	case OUTLET_OPENED:
		if (door->datagrams < 0 && !door->gate && !door->failed) {
			door->datagrams = take_fd(&passed[0]);
			door->listener = take_fd(&passed[1]);
		}
		own = 2;
		break;
	case OUTLET_CONNECT:
		own = 1;
		break;
	case OUTLET_REFUSED:
		on_refused(door, message);
		break;
	case OUTLET_SIGNAL:
		if (door->gate)
			gate_interrupt(door->gate, message->id);
		break;
	default:
		break;
	}
	/* The stock first: the connect may need it. */
	for (size_t i = own; i < FD_PASS_MAX; i++)
		keep(door, passed[i]);
	if (message->kind == OUTLET_CONNECT)
		on_connect(door, message, take_fd(&passed[0]));
	for (size_t i = 0; i < own; i++)
		fd_close(passed[i]);
}

static void read_messages(struct door *door)
{
	struct outlet_message message;
	int passed[FD_PASS_MAX], r;

	while ((r = fd_receive(door->channel, &message, sizeof(message), passed)) == 0) {
		on_message(door, &message, passed);
		/* There was no room for one more descriptor, and nobody could be answered. */
		if (message.kind == OUTLET_LISTENER && door->waiting < 0) {
			fputs("brig: too few descriptors for the gate: raise \"ulimit -n\"\n",
			      stderr);
			break;
		}
	}
	/* The keeper is gone: its other socket says what that means. Or it ends the sandbox now. */
	if (r != -EAGAIN)
		door->channel = fd_close(door->channel);
}

size_t door_fds(const struct door *door, struct pollfd fds[static DOOR_FDS])
{
	size_t count = 0;

	if (door->channel >= 0)
		fds[count++] = (struct pollfd){ .fd = door->channel, .events = POLLIN };
	if (door->gate) {
		fds[count++] = (struct pollfd){ .fd = gate_fd(door->gate), .events = POLLIN };
	} else if (door->datagrams >= 0) {
		fds[count++] = (struct pollfd){ .fd = door->datagrams, .events = POLLIN };
		fds[count++] = (struct pollfd){ .fd = door->listener, .events = POLLIN };
	}
	return count;
}

int door_timeout(const struct door *door)
{
	int timeout = door->gate ? gate_timeout(door->gate) : -1;

	if (door->awaited_count == 0)
		return timeout;
	return timeout < 0 ? OUTLET_LOOK_MS : MIN(timeout, OUTLET_LOOK_MS);
}

void door_poll(struct door *door, const struct pollfd *fds, size_t count)
{
	bool is_ready = false;

	for (size_t i = 0; i < count; i++) {
		if (!fds[i].revents)
			continue;
		if (fds[i].fd == door->channel)
			read_messages(door);
		else
			is_ready = true;
	}
	/* A question to the resolver, before there is one. */
	if (is_ready)
		make_gate(door);
	if (door->gate && (is_ready || gate_timeout(door->gate) == 0))
		gate_work(door->gate);
	look_after_callers(door);
}
