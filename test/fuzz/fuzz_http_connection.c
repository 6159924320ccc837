/*
 * fuzz_http_connection.c - any bytes from a client to a server with a few simple handlers
 *
 * The bytes come all at once, and again in small pieces: the requests and bodies that the handlers see must
 * be the same. Every exchange is gone once; every answer is one that a strict client can read; and at the
 * end no connection is left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/server_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (128 * KIB)

static struct loop *loop;
static struct server *server;
static struct buf seen = { .max = 16 * MIB };
static unsigned int requests, gones;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void on_gone(struct exchange *x)
{
	(void)x;
	gones++;
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	require(len > 0);
	buf_add(&seen, data, len);
	/* Now and then it is held, and goes on by itself. */
	if (data[0] == 'h') {
		exchange_hold(x);
		exchange_go_on(x);
	}
}

static void on_echo(struct exchange *x, const char *data, size_t len)
{
	on_data(x, data, len);
	exchange_write(x, data, len);
}

static void on_end(struct exchange *x)
{
	buf_str(&seen, "\nend\n");
	exchange_answer(x, 200, "text/plain", "streamed", 8);
}

static void on_echo_end(struct exchange *x)
{
	buf_str(&seen, "\nend\n");
	exchange_end(x);
}

static void on_body(struct exchange *x, const char *data, size_t len)
{
	buf_add(&seen, data, len);
	buf_str(&seen, "\nbody\n");
	exchange_answer(x, 200, "text/plain", data, len);
}

static void on_request(void *of, struct exchange *x)
{
	const struct head *head = &x->head;

	(void)of;
	requests++;
	x->gone = on_gone;
	buf_str(&seen, "request ");
	buf_add(&seen, head->method_text.data, head->method_text.len);
	buf_add(&seen, head->target.data, head->target.len);
	buf_printf(&seen, " %d %zu\n", head->framing, head->field_count);
	if (text_is(&head->path, "/collect")) {
		exchange_collect(x, 1000, on_body);
	} else if (text_is(&head->path, "/stream")) {
		exchange_stream(x, on_data, on_end);
	} else if (text_is(&head->path, "/echo")) {
		exchange_begin(x, 200, NULL, -1);
		exchange_stream(x, on_echo, on_echo_end);
	} else if (text_is(&head->path, "/tunnel")) {
		exchange_tunnel(x, 101, on_echo, on_echo_end);
	} else if (text_is(&head->path, "/abort")) {
		exchange_begin(x, 200, NULL, -1);
		exchange_abort(x);
	} else {
		exchange_answer(x, 200, "text/plain", "fine", 4);
	}
}

/* What came back: whole answers, and behind them nothing or one that is not whole. */
static void check_answers(const struct buf *heard)
{
	static struct head head;
	const char *data = heard->data, *why;
	size_t len = heard->len;

	while (len > 0) {
		long n = head_measure(data, len, &why);

		require(n >= 0);
		if (n == 0)
			return;
		require(head_parse_response(data, (size_t)n, false, &head, &why) == 0);
		data += n;
		len -= (size_t)n;
		/* An answer to HEAD has none of the body that it speaks of: only heads are looked at from there. */
		if (head.status == 101 || head.framing != FRAMING_LENGTH || head.length > len)
			return;
		if (len > head.length && strncmp(data, "HTTP/1.1", MIN(len, (size_t)8)) == 0)
			continue;
		data += head.length;
		len -= head.length;
	}
}

static void hear(int fd, struct buf *heard)
{
	char block[16384];
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
		buf_add(heard, block, (size_t)n);
}

static void run(const char *data, size_t size, size_t step)
{
	_cleanup_(buf_done) struct buf heard = BUF(64 * MIB);
	int pair[2];
	size_t at = 0;

	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	require(connection_new(server, pair[0], NULL, "fuzz") == 0);
	while (at < size) {
		ssize_t n = send(pair[1], data + at, MIN(step, size - at), MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t)n;
		else if (errno != EAGAIN)
			break;
		require(loop_turn(loop, 0) == 0);
		hear(pair[1], &heard);
	}
	require(loop_turn(loop, 0) == 0);
	shutdown(pair[1], SHUT_WR);
	for (int i = 0; i < 1000 && server_connections(server) > 0; i++) {
		require(loop_turn(loop, 0) == 0);
		hear(pair[1], &heard);
	}
	require(server_connections(server) == 0);
	require(requests == gones);
	check_answers(&heard);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct server_setup setup = { .request = on_request };
	_cleanup_(buf_done) struct buf first = { .max = seen.max };

	if (size > INPUT_MAX)
		return 0;
	if (!loop)
		require(loop_new(&loop) == 0 && server_new(loop, &setup, &server) == 0);
	run((const char *)data, size, INPUT_MAX);
	buf_add(&first, buf_text(&seen), seen.len);
	buf_reset(&seen);
	run((const char *)data, size, 1 + size / 50);
	require(first.len == seen.len);
	require(seen.len == 0 || memcmp(first.data, seen.data, seen.len) == 0);
	buf_reset(&seen);
	return 0;
}
