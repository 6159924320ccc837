/*
 * message_case.h - any bytes as what a peer sends over a channel, in any pieces
 *
 * The first byte says how the rest is cut; what comes out must be the same as in one piece. Whatever is
 * received has passed the check, and every field of it can be read.
 */
#ifndef BRIG_TEST_MESSAGE_CASE_H
#define BRIG_TEST_MESSAGE_CASE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "proto/channel.h"

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

struct heard {
	size_t count;
	uint64_t sum; /* of all that was in the messages */
	int end;
};

static inline void add_byte(struct heard *heard, uint64_t byte)
{
	heard->sum = heard->sum * 1099511628211u + byte + 1;
}

/* Everything that a receiver may ask, whatever is there. */
static inline void look_at(struct heard *heard, struct message *m)
{
	heard->count++;
	add_byte(heard, m->type);
	add_byte(heard, m->call);
	require(m->len <= MESSAGE_MAX && m->descriptor_count == 0);
	for (size_t i = 0; i < m->len; i++)
		add_byte(heard, m->fields[i]);
	for (unsigned int field = 1; field < FIELD_COUNT; field++) {
		const char *text;
		size_t at = 0, len;

		add_byte(heard, message_has(m, (enum field)field));
		add_byte(heard, message_bytes(m, (enum field)field, &len) ? len : 0);
		if (field == FIELD_ARGUMENT || field == FIELD_VARIABLE || field == FIELD_TEXT ||
		    field == FIELD_PATH || field == FIELD_USER)
			while ((text = message_next_text(m, (enum field)field, &at)))
				add_byte(heard, strlen(text));
		if (field == FIELD_PROCESS || field == FIELD_FLAGS || field == FIELD_SIZE)
			add_byte(heard, message_number(m, (enum field)field, 7));
	}
	message_done(m);
}

static inline struct heard listen_to(enum speaker peer, const uint8_t *data, size_t size,
				     size_t piece)
{
	struct heard heard = { 0 };
	struct channel ch;
	struct message m;
	int pair[2], r = 0;

	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	channel_init(&ch, pair[0], peer, true);
	while (size > 0 && r >= 0) {
		size_t len = MIN(size, piece);

		require(send(pair[1], data, len, MSG_NOSIGNAL) == (ssize_t)len);
		data += len;
		size -= len;
		while ((r = channel_receive(&ch, &m)) > 0)
			look_at(&heard, &m);
		require(ch.in.len <= MESSAGE_HEADER + MESSAGE_MAX + 16 * KIB);
	}
	close(pair[1]);
	while (r >= 0)
		if ((r = channel_receive(&ch, &m)) > 0)
			look_at(&heard, &m);
	require(r == -EPIPE || (r == -EPROTO && ch.why));
	require(channel_receive(&ch, &m) == r);
	heard.end = r;
	channel_done(&ch);
	return heard;
}

static inline int message_case(enum speaker peer, const uint8_t *data, size_t size)
{
	struct heard whole, pieces;

	if (size < 1)
		return 0;
	whole = listen_to(peer, data + 1, size - 1, 16 * KIB);
	pieces = listen_to(peer, data + 1, size - 1, 1 + data[0]);
	require(whole.count == pieces.count && whole.sum == pieces.sum && whole.end == pieces.end);
	return 0;
}

#endif
