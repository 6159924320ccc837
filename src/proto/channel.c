#include "proto/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define READ_SIZE (16 * KIB)
#define READS_MAX 16 /* in one go, so that a peer that never stops does not keep others waiting */

struct header {
	size_t len;
	unsigned int type, version, descriptors;
	uint32_t call;
};

static void pack_header(const struct header *h, unsigned char bytes[static MESSAGE_HEADER])
{
	const uint32_t words[] = { (uint32_t)h->len,
				   h->type | h->version << 16 | h->descriptors << 24, h->call };

	for (size_t i = 0; i < MESSAGE_HEADER; i++)
		bytes[i] = (unsigned char)(words[i / 4] >> i % 4 * 8);
}

static struct header unpack_header(const unsigned char bytes[static MESSAGE_HEADER])
{
	uint32_t words[3] = { 0 };

	for (size_t i = 0; i < MESSAGE_HEADER; i++)
		words[i / 4] |= (uint32_t)bytes[i] << i % 4 * 8;
	return (struct header){ .len = words[0],
				.type = words[1] & 0xffff,
				.version = words[1] >> 16 & 0xff,
				.descriptors = words[1] >> 24,
				.call = words[2] };
}

void channel_init(struct channel *ch, int fd, enum speaker peer, bool passes)
{
	*ch = (struct channel){ .fd = fd,
				.peer = peer,
				.passes = passes,
				.in = BUF(MESSAGE_HEADER + MESSAGE_MAX + READ_SIZE),
				.out = BUF(CHANNEL_QUEUE_MAX) };
	ch->failure = fd_set_nonblock(fd, 1);
}

static int fail(struct channel *ch, int code, const char *why)
{
	if (ch->failure == 0) {
		ch->failure = code;
		ch->why = why;
	}
	return ch->failure;
}

/* Keeps those that fit; what does not is closed, and a breach. */
static int take_arrived(struct channel *ch, struct msghdr *msg)
{
	int r = msg->msg_flags & MSG_CTRUNC ? -EPROTO : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (ch->passes && ch->arrived_count < ARRAY_SIZE(ch->arrived)) {
				ch->arrived[ch->arrived_count++] = fd;
				continue;
			}
			fd_close(fd);
			r = -EPROTO;
		}
	}
	return r < 0 ? fail(ch, r, "more descriptors than there are messages for") : 0;
}

/* The bytes that were taken make room for others. */
static void move_up(struct channel *ch)
{
	if (ch->taken == 0)
		return;
	memmove(ch->in.data, ch->in.data + ch->taken, ch->in.len - ch->taken);
	ch->in.len -= ch->taken;
	ch->taken = 0;
}

/* 1: something came; 0: nothing is there now. */
static int read_some(struct channel *ch)
{
	static unsigned char bytes[READ_SIZE];
	union {
		char room[CMSG_SPACE(sizeof(int) * 2 * MESSAGE_DESCRIPTORS)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	ssize_t n = recvmsg(ch->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int r;

	if (n < 0 && errno == ENOTSOCK && !ch->passes) {
		msg.msg_controllen = 0;
		n = read(ch->fd, bytes, sizeof(bytes));
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0
		       : errno == ECONNRESET             ? fail(ch, -EPIPE, "it is gone")
							 : fail(ch, -errno, "the socket failed");
	r = take_arrived(ch, &msg);
	if (r < 0)
		return r;
	if (n == 0)
		return fail(ch, -EPIPE, "it is gone");
	move_up(ch);
	r = buf_add(&ch->in, bytes, (size_t)n);
	return r < 0 ? fail(ch, r, "out of memory") : 1;
}

/* A whole message at the front, checked; 0 when it is not there yet. */
static int take_message(struct channel *ch, struct message *ret_message)
{
	size_t have = ch->in.len - ch->taken;
	const unsigned char *bytes;
	struct message m = { 0 };
	struct header h;

	if (have == 0 && ch->arrived_count > 0)
		return fail(ch, -EPROTO, "descriptors that belong to no message");
	if (have < MESSAGE_HEADER)
		return 0;
	bytes = (const unsigned char *)ch->in.data + ch->taken;
	h = unpack_header(bytes);
	if (h.version != MESSAGE_VERSION)
		return fail(ch, -EPROTO, "another version of the protocol");
	if (h.len > MESSAGE_MAX)
		return fail(ch, -EPROTO, "a message that is too long");
	if (have - MESSAGE_HEADER < h.len)
		return 0;
	/* They come with the first byte of their message, so all of them are here. */
	if (h.descriptors > ch->arrived_count)
		return fail(ch, -EPROTO, "a message without its descriptors");
	if (message_check(h.type, ch->peer, bytes + MESSAGE_HEADER, h.len, h.descriptors,
			  &ch->why) < 0)
		return fail(ch, -EPROTO, ch->why);
	m.type = (enum message_type)h.type;
	m.call = h.call;
	m.fields = bytes + MESSAGE_HEADER;
	m.len = h.len;
	m.descriptor_count = h.descriptors;
	memcpy(m.descriptors, ch->arrived, h.descriptors * sizeof(int));
	ch->arrived_count -= h.descriptors;
	memmove(ch->arrived, ch->arrived + h.descriptors, ch->arrived_count * sizeof(int));
	ch->taken += MESSAGE_HEADER + h.len;
	*ret_message = m;
	return 1;
}

int channel_receive(struct channel *ch, struct message *ret_message)
{
	for (int i = 0; i < READS_MAX; i++) {
		int r;

		if (ch->failure < 0 && ch->failure != -EPIPE)
			return ch->failure;
		r = take_message(ch, ret_message);
		/* What came before the end counts. */
		if (r != 0 || ch->failure < 0)
			return r ? r : ch->failure;
		r = read_some(ch);
		if (r < 0 && r != -EPIPE)
			return r;
		if (r == 0) {
			/* An idle channel holds no memory. */
			if (ch->in.len == ch->taken) {
				buf_done(&ch->in);
				ch->in = BUF(MESSAGE_HEADER + MESSAGE_MAX + READ_SIZE);
				ch->taken = 0;
			}
			return 0;
		}
	}
	return 0;
}

static void drop_first_parked(struct channel *ch)
{
	for (size_t i = 0; i < ch->parked[0].count; i++)
		fd_close(ch->parked[0].descriptors[i]);
	ch->parked_count--;
	memmove(ch->parked, ch->parked + 1, ch->parked_count * sizeof(*ch->parked));
}

/* One call: up to the next message that has descriptors, or from there with them. */
static ssize_t send_some(struct channel *ch)
{
	struct parked *next = ch->parked_count ? &ch->parked[0] : NULL;
	bool is_at = next && next->at == ch->sent;
	size_t end = ch->out.len;
	union {
		char room[CMSG_SPACE(sizeof(int) * MESSAGE_DESCRIPTORS)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = ch->out.data + ch->sent };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (is_at) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = control.room;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * next->count);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * next->count);
		memcpy(CMSG_DATA(c), next->descriptors, sizeof(int) * next->count);
		end = ch->parked_count > 1 ? ch->parked[1].at : ch->out.len;
	} else if (next) {
		end = next->at;
	}
	iov.iov_len = end - ch->sent;
	n = sendmsg(ch->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && errno == ENOTSOCK && !ch->passes)
		n = write(ch->fd, iov.iov_base, iov.iov_len);
	if (n > 0 && is_at)
		drop_first_parked(ch);
	return n;
}

static void forget_queue(struct channel *ch)
{
	while (ch->parked_count > 0)
		drop_first_parked(ch);
	buf_done(&ch->out);
	ch->sent = 0;
}

/* -EAGAIN: the rest has to wait. */
static int send_all(struct channel *ch)
{
	while (ch->sent < ch->out.len) {
		ssize_t n = send_some(ch);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		ch->sent += (size_t)n;
	}
	/* An idle channel holds no memory. */
	forget_queue(ch);
	return 0;
}

int channel_flush(struct channel *ch)
{
	int r;

	if (ch->failure < 0 || ch->is_deaf)
		return ch->failure < 0 ? ch->failure : -EPIPE;
	r = send_all(ch);
	if (r == 0 || r == -EAGAIN)
		return 0;
	if (r != -EPIPE && r != -ECONNRESET)
		return fail(ch, r, "the socket failed");
	/* It may have said something before it went: that is read first, and then its end. */
	ch->is_deaf = true;
	forget_queue(ch);
	return -EPIPE;
}

static int park(struct channel *ch, const int *descriptors, size_t count)
{
	struct parked *p;

	if (ch->parked_count == CHANNEL_PARKED_MAX)
		return -ENOBUFS;
	if (ch->parked_count == ch->parked_room) {
		size_t room = ch->parked_room ? ch->parked_room * 2 : 4;

		p = realloc(ch->parked, room * sizeof(*p));
		if (!p)
			return -ENOMEM;
		ch->parked = p;
		ch->parked_room = room;
	}
	p = &ch->parked[ch->parked_count++];
	*p = (struct parked){ .at = ch->out.len, .count = count };
	memcpy(p->descriptors, descriptors, count * sizeof(int));
	return 0;
}

/* Bytes that are gone make room. */
static void trim(struct channel *ch)
{
	if (ch->sent == 0 || ch->out.len + MESSAGE_HEADER + MESSAGE_MAX < CHANNEL_QUEUE_MAX)
		return;
	memmove(ch->out.data, ch->out.data + ch->sent, ch->out.len - ch->sent);
	ch->out.len -= ch->sent;
	for (size_t i = 0; i < ch->parked_count; i++)
		ch->parked[i].at -= ch->sent;
	ch->sent = 0;
}

static int queue(struct channel *ch, const struct draft *d, const int *descriptors, size_t count)
{
	const struct header h = { .len = d->fields.len,
				  .type = d->type,
				  .version = MESSAGE_VERSION,
				  .descriptors = (unsigned int)count,
				  .call = d->call };
	unsigned char bytes[MESSAGE_HEADER];
	int r = buf_failed(&d->fields);

	if (r < 0)
		return r == -ENOSPC ? -EMSGSIZE : r;
	if (count > MESSAGE_DESCRIPTORS || (count > 0 && !ch->passes))
		return -EOPNOTSUPP;
	trim(ch);
	if (ch->out.len + sizeof(bytes) + d->fields.len > CHANNEL_QUEUE_MAX)
		return -ENOBUFS;
	r = count > 0 ? park(ch, descriptors, count) : 0;
	if (r < 0)
		return r;
	pack_header(&h, bytes);
	r = buf_add(&ch->out, bytes, sizeof(bytes));
	r = r < 0 ? r : buf_add(&ch->out, d->fields.data, d->fields.len);
	if (r == 0)
		return 0;
	/* Half a message cannot be taken back; the descriptors are the caller's again. */
	if (count > 0)
		ch->parked_count--;
	return fail(ch, r, "out of memory");
}

/*
 * Tries at once. The kernel may refuse to carry the descriptors; while nothing of their message is sent,
 * it can be taken back.
 */
static int send_now(struct channel *ch, size_t at, size_t count)
{
	ssize_t n;

	if (count == 0 || ch->sent < at)
		return channel_flush(ch);
	n = send_some(ch);
	if (n >= 0)
		ch->sent += (size_t)n;
	if (n >= 0 || errno != ETOOMANYREFS)
		return channel_flush(ch);
	/* All before it is sent, and so it is the only one. */
	forget_queue(ch);
	return -ETOOMANYREFS;
}

int channel_send(struct channel *ch, struct draft *d, int *descriptors, size_t count)
{
	int r = ch->failure < 0 ? ch->failure : ch->is_deaf ? -EPIPE : 0;
	size_t at;

	r = r < 0 ? r : queue(ch, d, descriptors, count);
	for (size_t i = 0; i < count; i++) {
		/* Queued: they are the queue's now. */
		if (r < 0)
			fd_close(descriptors[i]);
		descriptors[i] = -EBADF;
	}
	if (r < 0)
		return r;
	at = ch->out.len - MESSAGE_HEADER - d->fields.len;
	return send_now(ch, at, count);
}

bool channel_has_message(const struct channel *ch)
{
	size_t have = ch->in.len - ch->taken;

	/* What came before the end counts. */
	return (ch->failure == 0 || ch->failure == -EPIPE) && have >= MESSAGE_HEADER &&
	       have - MESSAGE_HEADER >=
		       unpack_header((const unsigned char *)ch->in.data + ch->taken).len;
}

size_t channel_waiting(const struct channel *ch)
{
	return ch->out.len - ch->sent;
}

short channel_events(const struct channel *ch)
{
	if (ch->failure < 0)
		return 0;
	/* A deaf peer has nothing waiting. */
	return (short)(POLLIN | (channel_waiting(ch) > 0 ? POLLOUT : 0));
}

void channel_done(struct channel *ch)
{
	for (size_t i = 0; i < ch->arrived_count; i++)
		fd_close(ch->arrived[i]);
	forget_queue(ch);
	free(ch->parked);
	buf_done(&ch->in);
	fd_close(ch->fd);
	*ch = CHANNEL_NONE;
}

void channel_answer_done(struct channel *ch, uint32_t call)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DONE, call);

	(void)!channel_send(ch, &d, NULL, 0);
}

void channel_answer_error(struct channel *ch, uint32_t call, int code, const char *fmt, ...)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ERROR, call);
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	draft_number(&d, FIELD_CODE, (uint64_t)-code);
	draft_text(&d, FIELD_TEXT, text);
	(void)!channel_send(ch, &d, NULL, 0);
}
