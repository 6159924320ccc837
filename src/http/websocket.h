/*
 * websocket.h - WebSocket (RFC 6455), the server's side: the opening, and frames in both directions
 *
 *	if (websocket_check(&x->head, accept, &why) < 0) ...
 *	exchange_header(x, "Sec-WebSocket-Accept", accept);
 *	...
 *	static void on_data(struct exchange *x, const char *data, size_t len)
 *	{
 *		struct websocket_message m;
 *
 *		while ((r = websocket_next(&ws, &data, &len, &m)) > 0)
 *			...
 *	}
 *
 * Whatever the rules forbid ends the conversation: frames without a mask, reserved bits, lengths in a longer
 * form than they need, pieces out of order, text that is no UTF-8. Memory is bounded by what the reader was
 * made with. Pings are given to the caller, who answers them with what they bear.
 */
#ifndef BRIG_HTTP_WEBSOCKET_H
#define BRIG_HTTP_WEBSOCKET_H

#include <stdbool.h>

#include "base/buf.h"
#include "http/head.h"

#define WEBSOCKET_ACCEPT_SIZE 29
#define WEBSOCKET_CONTROL_MAX 125
#define WEBSOCKET_HEAD_MAX    14

/* As on the wire. */
enum websocket_kind {
	WEBSOCKET_MORE = 0, /* a further piece: never given to the caller */
	WEBSOCKET_TEXT = 1,
	WEBSOCKET_BINARY = 2,
	WEBSOCKET_CLOSE = 8,
	WEBSOCKET_PING = 9,
	WEBSOCKET_PONG = 10,
};

enum websocket_code {
	WEBSOCKET_NORMAL = 1000,
	WEBSOCKET_GOING = 1001,
	WEBSOCKET_PROTOCOL = 1002,
	WEBSOCKET_NO_TEXT = 1007,
	WEBSOCKET_REFUSED = 1008,
	WEBSOCKET_TOO_BIG = 1009,
	WEBSOCKET_FAILED = 1011,
};

/*
 * Whether a request opens a WebSocket, and what to answer. -EINVAL with words when it does not; -EPROTONOSUPPORT
 * for another version, which is told with 426 and "Sec-WebSocket-Version: 13".
 */
[[nodiscard]] int websocket_check(const struct head *head,
				  char ret_accept[static WEBSOCKET_ACCEPT_SIZE],
				  const char **ret_why);

/* Whether the client offers a subprotocol: one of the names in its list. */
bool websocket_offers(const struct head *head, const char *protocol);

struct websocket {
	unsigned char head[WEBSOCKET_HEAD_MAX];
	size_t head_len;
	uint64_t left; /* of the frame's content */
	bool is_inside, is_final, is_closed;
	bool is_given;                   /* what was collected was given to the caller */
	enum websocket_kind frame, kind; /* kind: of the message whose pieces come; MORE: none */
	unsigned char mask[4];
	size_t at; /* in the frame's content, for the mask */
	struct buf message, control;
};

struct websocket_message {
	enum websocket_kind kind;
	const char *data; /* until the next call; terminated, but may have NULs in it */
	size_t len;
	unsigned int code; /* of CLOSE; 1005: none was said */
};

/* max: of a message, all of its pieces together. */
void websocket_init(struct websocket *ws, size_t max);
void websocket_done(struct websocket *ws);

/*
 * 1: a message, and *data, *len are what is behind it; 0: all was used up; -EPROTO, -EILSEQ, -EMSGSIZE,
 * -ENOMEM: the conversation is over, and websocket_code() is why. After a CLOSE nothing more is read.
 */
[[nodiscard]] int websocket_next(struct websocket *ws, const char **data, size_t *len,
				 struct websocket_message *ret_message);
enum websocket_code websocket_code(int r);

/* A frame of ours: the head, behind which the content is sent as it is. The length of the head. */
size_t websocket_head(enum websocket_kind kind, uint64_t len,
		      unsigned char ret_head[static WEBSOCKET_HEAD_MAX]);

/* The content of a CLOSE: the code and a few words, cut where they do not fit. Its length. */
size_t websocket_goodbye(enum websocket_code code, const char *words,
			 char ret_content[static WEBSOCKET_CONTROL_MAX]);

#endif
