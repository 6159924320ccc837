/*
 * http_case.h - a server with a loop that a test turns, and clients in the same thread
 *
 * Nothing here waits by itself: hear() turns the loop until what was expected is there, and fails after five
 * seconds of real time. The clock of the program can be put forward (later()), for times that are long.
 */
#ifndef BRIG_TEST_HTTP_CASE_H
#define BRIG_TEST_HTTP_CASE_H

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "http/loop.h"
#include "http/server.h"
#include "http/tls.h"

struct web {
	struct loop *loop;
	struct server *server;
	struct sockaddr_in address;
	unsigned int requests, gones, logs, drains; /* how often each was called */
	struct exchange
		*last; /* that a handler wants to be used from outside; NULL once it is gone */
};

static struct web web;

/* Of the clock of this program alone, by the linker (--wrap). */
static uint64_t clock_forward_ms;
int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	int r = __real_clock_gettime(clock, ret_now);

	ret_now->tv_sec += (time_t)(clock_forward_ms / 1000);
	return r;
}

static inline uint64_t real_ms(void)
{
	struct timespec now;

	__real_clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void turn(int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(loop_turn(web.loop, 2), 0);
}

static inline void later(uint64_t ms)
{
	clock_forward_ms += ms;
	turn(4);
}

static inline void web_open(const struct server_setup *setup, struct tls *tls)
{
	socklen_t len = sizeof(web.address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	web = (struct web){ .address = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	assert_int_equal(bind(listener, (struct sockaddr *)&web.address, sizeof(web.address)), 0);
	assert_int_equal(listen(listener, 64), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&web.address, &len), 0);
	assert_int_equal(loop_new(&web.loop), 0);
	assert_int_equal(server_new(web.loop, setup, &web.server), 0);
	assert_int_equal(server_listen(web.server, listener, tls), 0);
}

static inline void web_close(void)
{
	server_free(web.server);
	loop_free(web.loop);
	assert_int_equal(web.requests, web.gones);
	assert_int_equal(web.requests, web.logs);
}

struct client {
	int fd;
	struct buf heard;
	bool is_ended, is_reset;
};

static inline struct client client_open(void)
{
	struct client c = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
			    .heard = BUF(64 * MIB) };

	assert_int_equal(connect(c.fd, (struct sockaddr *)&web.address, sizeof(web.address)), 0);
	assert_int_equal(fd_set_nonblock(c.fd, 1), 0);
	return c;
}

static inline void client_close(struct client *c)
{
	c->fd = fd_close(c->fd);
	buf_done(&c->heard);
}

static inline void say_bytes(struct client *c, const char *data, size_t len)
{
	uint64_t until = real_ms() + 5000;

	while (len > 0) {
		ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(n > 0 || errno == EAGAIN);
		assert_true(real_ms() < until);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else {
			turn(1);
		}
	}
}

static inline void say(struct client *c, const char *text)
{
	say_bytes(c, text, strlen(text));
}

/* What has come; returns at once. */
static inline void listen_in(struct client *c)
{
	char block[65536];

	for (;;) {
		ssize_t n = recv(c->fd, block, sizeof(block), MSG_DONTWAIT);

		if (n > 0) {
			assert_int_equal(buf_add(&c->heard, block, (size_t)n), 0);
			continue;
		}
		c->is_ended |= n == 0 || errno != EAGAIN;
		c->is_reset |= n < 0 && errno != EAGAIN;
		return;
	}
}

static inline bool has_heard(const struct client *c, const char *text)
{
	return strstr(buf_text(&c->heard), text) != NULL;
}

/* Until this text has come; it and what is before it are forgotten then. */
static inline void hear(struct client *c, const char *text)
{
	uint64_t until = real_ms() + 5000;
	size_t used;

	for (;;) {
		listen_in(c);
		if (has_heard(c, text))
			break;
		if (c->is_ended || real_ms() > until)
			fail_msg("\"%s\" instead of \"%s\"", buf_text(&c->heard), text);
		turn(1);
	}
	used = (size_t)(strstr(buf_text(&c->heard), text) - buf_text(&c->heard)) + strlen(text);
	memmove(c->heard.data, c->heard.data + used, c->heard.len - used + 1);
	c->heard.len -= used;
}

static inline void hear_end(struct client *c)
{
	uint64_t until = real_ms() + 5000;

	while (!c->is_ended) {
		listen_in(c);
		assert_true(real_ms() < until);
		turn(1);
	}
}

/* Nothing more comes, and the connection stays. */
static inline void hear_nothing(struct client *c)
{
	size_t before = c->heard.len;

	for (int i = 0; i < 10; i++) {
		turn(1);
		listen_in(c);
	}
	assert_int_equal(c->heard.len, before);
	assert_false(c->is_ended);
}

static inline void until_true(bool (*holds)(void))
{
	uint64_t until = real_ms() + 5000;

	while (!holds()) {
		assert_true(real_ms() < until);
		turn(1);
	}
}

#endif
