/* output.c - what goes to the client: bounded, in as few calls as there can be */
#include <errno.h>
#include <string.h>

#include "http/server_internal.h"
#include "http/tls.h"

#define DIRECT_MIN (8 * KIB) /* from here on a copy costs more than an early call */
#define PARTS_MAX  6

/* How many bytes went out; 0 when none can for now, and then is_blocked. */
static size_t send_parts(struct connection *c, struct iovec *parts, size_t count, size_t total)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	ssize_t n;

	if (c->tls) {
		n = tls_write(c->tls, parts[0].iov_base, parts[0].iov_len, &c->tls_wants_write);
	} else {
		do
			n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			n = -errno;
	}
	if (n == -EAGAIN || n == -EWOULDBLOCK) {
		c->is_blocked = true;
		return 0;
	}
	if (n <= 0) {
		c->is_broken = true;
		return 0;
	}
	c->has_moved = true;
	if ((size_t)n < total && !c->tls)
		c->is_blocked = true;
	return (size_t)n;
}

/* Nothing is left: whoever let the most pile up goes first, unless that is the one who asks for more. */
static bool make_way(const struct connection *c, size_t more)
{
	struct server *server = c->server;

	while (!server_has_room(server, more)) {
		struct connection *worst = server->busy.first;

		for (struct connection *other = worst; other; other = other->next)
			if (other->out_room > worst->out_room)
				worst = other;
		if (!worst || worst->out_room <= c->out_room + more)
			return false;
		worst->is_broken = true;
		output_done(worst);
		connection_touch(worst);
	}
	return true;
}

static bool make_room(struct connection *c, size_t len)
{
	struct server *server = c->server;
	size_t waiting = connection_waiting(c), room = c->out_room;
	char *out;

	if (!c->out && len <= OUTPUT_ROOM && server->spare_out_count > 0) {
		c->out = server->spare_outs[--server->spare_out_count];
		c->out_room = OUTPUT_ROOM;
		server->held += OUTPUT_ROOM;
	}
	if (c->out_room - c->out_end >= len)
		return true;
	if (c->out && c->out_from > 0) {
		memmove(c->out, c->out + c->out_from, waiting);
		c->out_from = 0;
		c->out_end = (uint32_t)waiting;
	}
	if (c->out_room - c->out_end >= len)
		return true;
	if (waiting + len > UINT32_MAX / 2)
		return false;
	room = MAX(room, OUTPUT_ROOM);
	while (room < waiting + len)
		room *= 2;
	/* A short answer always has room, or nobody could be told that there is none. */
	if (room > OUTPUT_ROOM && !make_way(c, room - c->out_room))
		return false;
	out = realloc(c->out, room);
	if (!out)
		return false;
	server->held += room - c->out_room;
	c->out = out;
	c->out_room = (uint32_t)room;
	return true;
}

static void keep_parts(struct connection *c, const struct iovec *parts, size_t count, size_t skip,
		       size_t len)
{
	if (!make_room(c, len)) {
		c->is_broken = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		size_t gone = MIN(skip, parts[i].iov_len), rest = parts[i].iov_len - gone;

		skip -= gone;
		if (rest == 0)
			continue;
		memcpy(c->out + c->out_end, (const char *)parts[i].iov_base + gone, rest);
		c->out_end += (uint32_t)rest;
	}
}

/* With what waits already before them, in one call. How much of the parts went out. */
static size_t send_now(struct connection *c, const struct iovec *parts, size_t count, size_t total)
{
	struct iovec all[PARTS_MAX + 1];
	size_t waiting = connection_waiting(c), n;

	all[0] = (struct iovec){ c->out + c->out_from, waiting };
	memcpy(all + 1, parts, count * sizeof(*parts));
	if (waiting > 0)
		n = send_parts(c, all, count + 1, waiting + total);
	else
		n = send_parts(c, all + 1, count, total);
	if (n < waiting) {
		c->out_from += (uint32_t)n;
		return 0;
	}
	c->out_from = c->out_end = 0;
	return n - waiting;
}

void output_add(struct connection *c, const struct iovec *parts, size_t count, size_t max)
{
	size_t total = 0, sent = 0;

	for (size_t i = 0; i < count; i++)
		total += parts[i].iov_len;
	if (c->is_broken || total == 0)
		return;
	if (total >= DIRECT_MIN && !c->tls && !c->is_blocked && count <= PARTS_MAX)
		sent = send_now(c, parts, count, total);
	if (c->is_broken || sent == total)
		return;
	if (connection_waiting(c) + (total - sent) > max) {
		c->is_broken = true;
		return;
	}
	keep_parts(c, parts, count, sent, total - sent);
}

void output_flush(struct connection *c)
{
	while (connection_waiting(c) > 0 && !c->is_blocked && !c->is_broken) {
		struct iovec part = { c->out + c->out_from, connection_waiting(c) };

		c->out_from += (uint32_t)send_parts(c, &part, 1, part.iov_len);
	}
	if (connection_waiting(c) == 0)
		output_done(c);
}

void output_done(struct connection *c)
{
	struct server *server = c->server;

	if (c->out && c->out_room == OUTPUT_ROOM && server->spare_out_count < SPARE_COUNT)
		server->spare_outs[server->spare_out_count++] = c->out;
	else
		free(c->out);
	server->held -= c->out_room;
	c->out = NULL;
	c->out_from = c->out_end = c->out_room = 0;
}

void output_shut(struct connection *c)
{
	if (c->tls)
		tls_shut(c->tls);
	(void)!shutdown(c->fd, SHUT_WR);
}
