/* input.c - what comes from the client: read into one buffer of the server's, and kept only if it must be */
#include <errno.h>
#include <string.h>

#include "http/server_internal.h"
#include "http/tls.h"

/* Only from the front: what was kept is either all in the server's input or all here. */
void input_load(struct connection *c)
{
	struct server *server = c->server;

	if (c->kept_len == 0)
		return;
	memcpy(server->input, c->kept, c->kept_len);
	server->input_from = 0;
	server->input_end = c->kept_len;
	c->kept_len = 0;
}

void input_drop(struct connection *c)
{
	c->server->kept_room -= c->kept_room;
	free(c->kept);
	c->kept = NULL;
	c->kept_len = c->kept_room = 0;
}

/* Beginnings of heads are bounded in sum too: nobody knows yet who sends them. */
static bool make_room(struct connection *c, size_t len)
{
	struct server *server = c->server;
	size_t room = len < KIB ? KIB : len;
	char *kept;

	if (len <= c->kept_room)
		return true;
	if (c->stage == STAGE_HEAD && server->kept_room - c->kept_room + room > KEPT_MAX)
		return false;
	kept = realloc(c->kept, room);
	if (!kept)
		return false;
	server->kept_room += room - c->kept_room;
	c->kept = kept;
	c->kept_room = (uint32_t)room;
	return true;
}

void input_keep(struct connection *c)
{
	struct server *server = c->server;
	size_t len = server->input_end - server->input_from;

	if (len == 0) {
		if (c->kept_len == 0 && c->kept)
			input_drop(c);
		return;
	}
	if (!make_room(c, len)) {
		c->is_broken = true;
		return;
	}
	memcpy(c->kept, server->input + server->input_from, len);
	c->kept_len = (uint32_t)len;
	server->input_from = server->input_end = 0;
}

void input_read(struct connection *c)
{
	struct server *server = c->server;
	bool is_pressed = server->kept_room >= KEPT_MAX || server->held >= server->memory / 2;
	size_t once = is_pressed ? INPUT_LEAN : INPUT_READ;
	size_t room = MIN(INPUT_ROOM - server->input_end, once);
	ssize_t n;

	if (room == 0)
		return;
	c->tls_has_more = false;
	if (c->tls) {
		n = tls_read(c->tls, server->input + server->input_end, room, &c->tls_wants_write);
		c->tls_has_more = n > 0 && tls_has_more(c->tls);
	} else {
		do
			n = recv(c->fd, server->input + server->input_end, room, MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			n = -errno;
	}
	if (n > 0) {
		server->input_end += (size_t)n;
		c->has_moved = true;
	} else if (n == 0) {
		c->is_ended = true;
	} else if (n != -EAGAIN && n != -EWOULDBLOCK) {
		c->is_broken = true;
	}
}
