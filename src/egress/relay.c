#include "egress/relay.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "egress/hello.h"
#include "egress/sock.h"

/* Pieces of one turn: other connections wait no longer than for this many buffers. */
#define TURN_PIECES 2
#define STEP_MIN    ((size_t)(16 * KIB))

void relay_init(struct relay *relay, int local, int remote, bool is_held)
{
	*relay = (struct relay){
		.fds = { local, remote },
		.is_held = is_held,
		.first = BUF(FIRST_BYTES_MAX),
	};
	for (size_t i = 0; i < 2; i++)
		relay->ends[i] = (struct relay_end){
			.can_read = true,
			.can_write = true,
			.step = STEP_MIN * 4,
		};
}

void relay_done(struct relay *relay, bool is_over)
{
	for (size_t i = 0; i < 2; i++)
		relay->fds[i] = is_over ? fd_close(relay->fds[i]) : sock_reset(relay->fds[i]);
	buf_done(&relay->first);
}

void relay_ready(struct relay *relay, enum relay_side side, uint32_t events)
{
	struct relay_end *end = &relay->ends[side];

	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		end->has_hung_up = true;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		end->can_read = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		end->can_write = true;
}

/* How many bytes the side took; 0 when it takes none now. */
static int push(struct relay *relay, enum relay_side to, const void *data, size_t len)
{
	ssize_t n;

	do
		n = send(relay->fds[to], data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n < (ssize_t)len)
		relay->ends[to].can_write = false;
	return n < 0 ? 0 : (int)n;
}

static ssize_t pull(int fd, void *data, size_t len, int flags)
{
	ssize_t n;

	do
		n = recv(fd, data, len, flags | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int pass_end_on(struct relay *relay, enum relay_side from)
{
	enum relay_side to = from == RELAY_LOCAL ? RELAY_REMOTE : RELAY_LOCAL;

	relay->ends[from].is_at_end = true;
	relay->ends[from].can_read = false;
	/* The other one may be gone already, in which case its own end says so. */
	if (shutdown(relay->fds[to], SHUT_WR) < 0 && errno != ENOTCONN)
		return -errno;
	return 0;
}

/* What was judged goes out before anything else. */
static int push_first(struct relay *relay)
{
	size_t left = relay->first.len - relay->first_sent;
	int n;

	if (left == 0)
		return 0;
	n = push(relay, RELAY_REMOTE, relay->first.data + relay->first_sent, left);
	if (n < 0)
		return n;
	relay->first_sent += (size_t)n;
	relay->ends[RELAY_LOCAL].bytes += (size_t)n;
	if ((size_t)n == left) {
		buf_done(&relay->first);
		relay->first_sent = 0;
	}
	return 0;
}

static bool can_carry(const struct relay *relay, enum relay_side from)
{
	enum relay_side to = from == RELAY_LOCAL ? RELAY_REMOTE : RELAY_LOCAL;

	if (from == RELAY_LOCAL && relay->is_held)
		return false;
	return relay->ends[from].can_read && !relay->ends[from].is_at_end &&
	       relay->ends[to].can_write;
}

/*
 * One piece of one direction. The number of bytes to look at follows what the receiver takes, so
 * that a slow one does not make us copy the same bytes again and again.
 */
static int carry(struct relay *relay, enum relay_side from, void *buffer, size_t size)
{
	enum relay_side to = from == RELAY_LOCAL ? RELAY_REMOTE : RELAY_LOCAL;
	struct relay_end *end = &relay->ends[from];
	size_t want = MIN(end->step, size);
	ssize_t n;
	int sent;

	n = pull(relay->fds[from], buffer, want, MSG_PEEK);
	if (n == -EAGAIN) {
		end->can_read = false;
		return 0;
	}
	if (n < 0)
		return (int)n;
	if (n == 0)
		return pass_end_on(relay, from);
	if ((size_t)n < want && !end->has_hung_up)
		end->can_read = false;
	sent = push(relay, to, buffer, (size_t)n);
	if (sent < 0)
		return sent;
	if (sent < n)
		end->can_read = true;
	if (sent > 0 && pull(relay->fds[from], NULL, (size_t)sent, MSG_TRUNC) != sent)
		return -EIO;
	end->bytes += (size_t)sent;
	if ((size_t)sent == want)
		end->step = MIN(end->step * 2, size);
	else if (sent < n)
		end->step = MAX((size_t)sent * 2, STEP_MIN);
	return 0;
}

int relay_pump(struct relay *relay, void *buffer, size_t size)
{
	for (int piece = 0; piece < TURN_PIECES; piece++) {
		if (!relay->is_held && relay->first.len > 0) {
			int r = relay->ends[RELAY_REMOTE].can_write ? push_first(relay) : 0;

			if (r < 0)
				return r;
		}
		for (int from = RELAY_LOCAL; from <= RELAY_REMOTE; from++) {
			int r;

			if (!can_carry(relay, from) ||
			    (from == RELAY_LOCAL && relay->first.len > 0))
				continue;
			r = carry(relay, from, buffer, size);
			if (r < 0)
				return r;
		}
		if (relay->ends[0].is_at_end && relay->ends[1].is_at_end)
			return RELAY_OVER;
		if (!can_carry(relay, RELAY_LOCAL) && !can_carry(relay, RELAY_REMOTE))
			return RELAY_WAITS;
	}
	return RELAY_MORE;
}

int relay_read_first(struct relay *relay, void *buffer, size_t size)
{
	struct relay_end *end = &relay->ends[RELAY_LOCAL];
	size_t room = relay->first.max - relay->first.len;
	ssize_t n;
	int r;

	if (!end->can_read)
		return -EAGAIN;
	if (room == 0)
		return -ENOSPC;
	n = pull(relay->fds[RELAY_LOCAL], buffer, MIN(room, size), 0);
	if (n == -EAGAIN)
		end->can_read = false;
	if (n <= 0)
		return (int)n;
	r = buf_add(&relay->first, buffer, (size_t)n);
	return r < 0 ? r : (int)n;
}

void relay_release(struct relay *relay)
{
	relay->is_held = false;
}
