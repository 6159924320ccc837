/* body.c - the body of a request, to whoever asked for it */
#include <errno.h>
#include <string.h>

#include "http/server_internal.h"

void body_begin(struct inner *i)
{
	const struct head *head = &i->x.head;

	i->body = BODY_UNASKED;
	i->body_left = head->framing == FRAMING_LENGTH ? head->length : 0;
	i->chunked = (struct chunked){ 0 };
	i->is_whole = head->framing != FRAMING_CHUNKED && i->body_left == 0;
	i->wants_continue = head->expects && !i->is_whole;
	i->is_held = i->is_patient = false;
	i->discarded = 0;
}

bool body_wants_input(const struct inner *i)
{
	return i->body != BODY_UNASKED && i->body != BODY_TOLD && !i->is_held && !i->is_whole;
}

static void tell_end(struct inner *i)
{
	enum body was = i->body;

	i->body = BODY_TOLD;
	if (was == BODY_COLLECT)
		i->on_body(&i->x, buf_text(&i->collected), i->collected.len);
	else if ((was == BODY_STREAM || was == BODY_TUNNEL) && i->on_end)
		i->on_end(&i->x);
}

/* The buffer grows by doubling: what counts is the room that it would take more. */
static bool has_memory(const struct inner *i, size_t len)
{
	const struct buf *buf = &i->collected;

	return buf->len + len < buf->room || server_has_room(i->c->server, MAX(buf->room, len + 1));
}

static void collect(struct inner *i, struct text piece)
{
	size_t room = i->collected.room;
	int r = has_memory(i, piece.len) ? buf_add(&i->collected, piece.data, piece.len) : -ENOMEM;

	i->c->server->held += i->collected.room - room;
	if (r < 0)
		exchange_refuse(&i->x, 503, NO_MEMORY);
}

static void tell_data(struct inner *i, struct text piece)
{

	switch (i->body) {
	case BODY_COLLECT:
		if (piece.len > i->collect_max - i->collected.len) {
			exchange_refuse(&i->x, 413, "the body is too long");
			return;
		}
		collect(i, piece);
		return;
	case BODY_STREAM:
	case BODY_TUNNEL:
		i->on_data(&i->x, piece.data, piece.len);
		return;
	case BODY_DISCARD:
		i->discarded += piece.len;
		if (i->discarded > DISCARD_MAX) {
			i->c->closes = true;
			i->body = BODY_TOLD;
		}
		return;
	case BODY_UNASKED:
	case BODY_TOLD:
		return;
	}
}

/* The next piece of the input; false when it is no body. */
static bool take_piece(struct inner *i, struct text *ret_piece)
{
	struct server *server = i->c->server;
	const char *data = server->input + server->input_from;
	size_t len = server->input_end - server->input_from;
	long used;

	if (i->body == BODY_TUNNEL) {
		*ret_piece = (struct text){ data, len };
	} else if (i->x.head.framing == FRAMING_LENGTH) {
		len = MIN(len, i->body_left);
		*ret_piece = (struct text){ data, len };
		i->body_left -= ret_piece->len;
		i->is_whole = i->body_left == 0;
	} else {
		used = chunked_take(&i->chunked, data, len, ret_piece);
		if (used < 0)
			return false;
		server->input_from += (size_t)used;
		i->is_whole = i->chunked.is_done;
		return true;
	}
	server->input_from += ret_piece->len;
	return true;
}

static void invite(struct inner *i)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct iovec part = { (void *)(uintptr_t)text, sizeof(text) - 1 };

	i->wants_continue = false;
	if (i->answer == ANSWER_NONE && i->c->server->input_from == i->c->server->input_end)
		output_add(i->c, &part, 1, EXCHANGE_MAX);
}

bool body_work(struct inner *i)
{
	struct server *server = i->c->server;
	struct text piece;

	if (i->body == BODY_UNASKED || i->body == BODY_TOLD || i->is_held || i->c->is_broken)
		return false;
	if (i->wants_continue && i->body != BODY_DISCARD)
		invite(i);
	if (i->is_whole) {
		tell_end(i);
		return true;
	}
	if (server->input_from == server->input_end) {
		if (!i->c->is_ended)
			return false;
		i->is_whole = i->is_tunnel;
		i->c->is_broken |= !i->is_tunnel;
		return true;
	}
	if (!take_piece(i, &piece)) {
		exchange_refuse(&i->x, 400, "the body is not properly chunked");
		return true;
	}
	if (piece.len > 0)
		tell_data(i, piece);
	return true;
}
