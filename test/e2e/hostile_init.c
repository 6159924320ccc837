/*
 * hostile_init.c - what stands in the place of brig-init, and breaks the rules
 *
 * The kind of breach is in HOSTILE. Frames are made by hand, as none of this can be said with the real code: a header
 * of 12 bytes (length, type, version, descriptors, call), then fields (tag, length, content).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHANNEL 3

/* Numbers of message.h, given by whoever starts us, so that the two cannot differ. */
static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

static void write_all(const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(CHANNEL, p, len);

		if (n <= 0)
			_exit(0);
		p += n;
		len -= (size_t)n;
	}
}

struct __attribute__((packed)) header {
	uint32_t len;
	uint16_t type;
	uint8_t version, descriptors;
	uint32_t call;
};

static void send_header(uint32_t len, int type, int descriptors, uint32_t call)
{
	const struct header h = { len, (uint16_t)type, 1, (uint8_t)descriptors, call };

	write_all(&h, sizeof(h));
}

/* DONE, ERROR and the like, with one number field if tag is not 0. */
static void send_number(int type, uint32_t call, int tag, uint64_t value)
{
	unsigned char field[14] = { (unsigned char)tag, 0, 8, 0, 0, 0 };

	memcpy(field + 6, &value, 8);
	send_header(tag ? sizeof(field) : 0, type, 0, call);
	if (tag)
		write_all(field, sizeof(field));
}

static void send_descriptors(int type, uint32_t call, int claimed, int count)
{
	struct header h = { 0, (uint16_t)type, 1, (uint8_t)claimed, call };
	union {
		char room[CMSG_SPACE(sizeof(int) * 64)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { &h, sizeof(h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count) };
	int fds[64];

	for (int i = 0; i < count; i++)
		fds[i] = open("/proc/self", O_RDONLY | O_DIRECTORY);
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
	memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * (size_t)count);
	sendmsg(CHANNEL, &msg, 0);
}

/* The call of the next request that comes. */
static uint32_t await_call(void)
{
	static unsigned char body[1 << 20];
	struct header h;
	size_t have = 0;
	char *p = (char *)&h;

	while (have < sizeof(h)) {
		ssize_t n = read(CHANNEL, p + have, sizeof(h) - have);

		if (n <= 0)
			_exit(0);
		have += (size_t)n;
	}
	for (size_t left = h.len; left > 0;) {
		ssize_t n = read(CHANNEL, body, left);

		if (n <= 0)
			_exit(0);
		left -= (size_t)n;
	}
	return h.call;
}

static void stay(void)
{
	char byte;

	while (read(CHANNEL, &byte, 1) > 0)
		;
	_exit(0);
}

int main(void)
{
	const char *kind = getenv("HOSTILE") ?: "";
	int ready = number("READY"), done = number("DONE"), held = number("HELD");
	int exited = number("EXITED"), started = number("STARTED"), size = number("SIZE");
	uint32_t call;

	if (!strcmp(kind, "silent"))
		stay();
	if (!strcmp(kind, "gone"))
		return 0;
	if (!strcmp(kind, "garbage-first")) {
		write_all("GET / HTTP/1.1\r\n\r\n", 18);
		stay();
	}
	send_header(0, ready, 0, 0);
	if (!strcmp(kind, "ready-twice"))
		send_header(0, ready, 0, 0);
	call = await_call();
	if (!strcmp(kind, "too-long"))
		send_header(0xffffffff, done, 0, call);
	if (!strcmp(kind, "half"))
		write_all("\0\0\0", 3);
	if (!strcmp(kind, "version")) {
		const struct header h = { 0, (uint16_t)done, 9, 0, call };

		write_all(&h, sizeof(h));
	}
	if (!strcmp(kind, "type"))
		send_header(0, 60000, 0, call);
	if (!strcmp(kind, "not-for-init"))
		send_header(0, held, 0, call);
	if (!strcmp(kind, "other-calls"))
		for (uint32_t i = 0; i < 100000; i++)
			send_number(done, i * 7919, 0, 0);
	if (!strcmp(kind, "out-of-order"))
		send_number(exited, call, number("STATUS"), 0);
	if (!strcmp(kind, "wrong-answer"))
		send_number(done, call, size, 1);
	if (!strcmp(kind, "field"))
		send_number(done, call, 63, 1);
	if (!strcmp(kind, "cut-field")) {
		send_header(5, done, 0, call);
		write_all("\1\0\377\377\377", 5);
	}
	if (!strcmp(kind, "descriptors"))
		send_descriptors(done, call, 1, 1);
	if (!strcmp(kind, "descriptors-unclaimed"))
		send_descriptors(started, call, 0, 1);
	if (!strcmp(kind, "descriptors-many"))
		for (int i = 0; i < 1000; i++)
			send_descriptors(started, call, 200, 60);
	if (!strcmp(kind, "descriptors-missing"))
		send_header(0, started, 1, call);
	if (!strcmp(kind, "dies"))
		return 3;
	/* A flood of what is allowed: entries of a list that never ends. */
	if (!strcmp(kind, "flood")) {
		static unsigned char fields[4096];
		size_t at = 0;
		const int numbers[] = { number("MODE"), number("UID"), number("GID"), size,
					number("MODIFIED") };

		for (int i = 0; i < 5; i++) {
			fields[at] = (unsigned char)numbers[i];
			fields[at + 2] = 8;
			at += 14;
		}
		fields[at] = (unsigned char)number("PATH");
		*(uint32_t *)(void *)(fields + at + 2) = 2000;
		memset(fields + at + 6, 'x', 1999);
		at += 6 + 2000;
		for (;;) {
			send_header((uint32_t)at, number("ENTRY"), 0, call);
			write_all(fields, at);
		}
	}
	stay();
}
