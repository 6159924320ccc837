/*
 * channel.h - messages over a socket, in both directions, without ever waiting
 *
 * One end of a conversation (message.h). The socket does not block; what cannot be sent yet is kept,
 * with its descriptors, up to a bound. What was received is checked against the table before anybody
 * sees it.
 *
 *	struct channel ch;
 *	channel_init(&ch, fd, FROM_INIT, true);
 *	...
 *	poll: channel_events(&ch); then
 *	while ((r = channel_receive(&ch, &m)) > 0) {
 *		...
 *		message_done(&m);
 *	}
 *	r = channel_flush(&ch);
 *
 * A peer that breaks the rules is not worth another word: channel_receive() fails with -EPROTO for
 * good, and ch.why says which rule it was.
 *
 * passes: the socket carries descriptors (a UNIX socket). Where it does not, a message that bears some
 * cannot be sent, and one that claims to is a breach. It need not be a socket at all then: the port of
 * a virtual machine is a device.
 */
#ifndef BRIG_PROTO_CHANNEL_H
#define BRIG_PROTO_CHANNEL_H

#include "proto/message.h"

#define CHANNEL_QUEUE_MAX  (2 * MIB) /* bytes that wait to be sent */
#define CHANNEL_PARKED_MAX 64        /* descriptors that wait to be sent */

struct channel {
	int fd; /* owned; -EBADF: closed */
	enum speaker peer;
	bool passes;
	const char *why; /* of -EPROTO, in words */
	struct buf in;   /* received, not yet taken */
	size_t taken;    /* bytes of it that were */
	int arrived[2 * MESSAGE_DESCRIPTORS];
	size_t arrived_count;
	struct buf out; /* to be sent: whole messages */
	size_t sent;    /* bytes of it that are */
	struct parked {
		size_t at; /* offset in out of the message that they belong to */
		int descriptors[MESSAGE_DESCRIPTORS];
		size_t count;
	} * parked; /* in their order; NULL while there are none */
	size_t parked_count, parked_room;
	bool is_deaf; /* the peer reads no more; what it said before still counts */
	int failure;  /* the first -errno, for good */
};

#define CHANNEL_NONE ((struct channel){ .fd = -EBADF })

/* Takes the descriptor, and makes it non-blocking. peer: who is at the other end. */
void channel_init(struct channel *ch, int fd, enum speaker peer, bool passes);

/* 1 with a message; 0 when nothing (whole) is there; -EPIPE at the end, -EPROTO, -errno. */
[[nodiscard]] int channel_receive(struct channel *ch, struct message *ret_message);

/*
 * Sends or queues. Takes the descriptors in any case, also when it fails. -ENOBUFS: the peer does not
 * read, and the bound is reached; -ETOOMANYREFS: our user has too many descriptors on the way, here and
 * elsewhere. Nothing was queued then, and the channel goes on.
 */
[[nodiscard]] int channel_send(struct channel *ch, struct draft *d, int *descriptors, size_t count);

[[nodiscard]] int channel_flush(struct channel *ch);

/* Whether a message is in memory already, that no poll() tells of: for who does not take all at once. */
bool channel_has_message(const struct channel *ch);

/* Bytes that wait to be sent. Who makes messages by itself should stop while there are many. */
size_t channel_waiting(const struct channel *ch);

short channel_events(const struct channel *ch); /* for poll */
void channel_done(struct channel *ch);

/* The usual answers. Failures show at the next receive. */
void channel_answer_done(struct channel *ch, uint32_t call);
void channel_answer_error(struct channel *ch, uint32_t call, int code, const char *fmt, ...)
	_printf_(4, 5); /* code: -errno */

#endif
