#include "http_case.h"

#include <sys/resource.h>

#include "http_smuggling.h"

/* --- what the server under test does, by path --- */

static char *big;
static size_t big_written;
static struct buf streamed = { .max = 64 * MIB };
static unsigned int stream_ends;

static void count_gone(struct exchange *x)
{
	web.gones++;
	if (web.last == x)
		web.last = NULL;
}

static void count_log(void *of, const struct exchange *x)
{
	(void)of;
	assert_non_null(x->peer);
	web.logs++;
}

static void on_collected(struct exchange *x, const char *data, size_t len)
{
	exchange_answer(x, 200, "text/plain", data, len);
}

static void on_data(struct exchange *x, const char *data, size_t len)
{
	(void)x;
	assert_int_equal(buf_add(&streamed, data, len), 0);
}

static void on_data_held(struct exchange *x, const char *data, size_t len)
{
	on_data(x, data, len);
	exchange_hold(x);
}

static void on_stream_end(struct exchange *x)
{
	stream_ends++;
	exchange_answer(x, 200, "text/plain", "streamed", 8);
}

static void on_echo(struct exchange *x, const char *data, size_t len)
{
	exchange_write(x, data, len);
}

static void on_echo_end(struct exchange *x)
{
	stream_ends++;
	exchange_end(x);
}

static void write_big(struct exchange *x)
{
	web.drains++;
	while (!exchange_is_full(x) && big_written < 16 * MIB) {
		exchange_write(x, big, 64 * KIB);
		big_written += 64 * KIB;
	}
	if (big_written >= 16 * MIB)
		exchange_end(x);
}

static void do_ok(struct exchange *x)
{
	exchange_answer(x, 200, "text/plain", "fine", 4);
}

static void do_later(struct exchange *x)
{
	web.last = x;
}

static void do_collect(struct exchange *x)
{
	exchange_collect(x, 64 * KIB, on_collected);
}

static void do_stream(struct exchange *x)
{
	web.last = x;
	exchange_stream(x, on_data, on_stream_end);
}

static void do_held(struct exchange *x)
{
	web.last = x;
	exchange_stream(x, on_data_held, on_stream_end);
}

static void do_echo(struct exchange *x)
{
	exchange_begin(x, 200, NULL, -1);
	exchange_stream(x, on_echo, on_echo_end);
}

static void do_tunnel(struct exchange *x)
{
	web.last = x;
	exchange_header(x, "Upgrade", "echo");
	exchange_tunnel(x, 101, on_echo, on_echo_end);
}

static void do_big(struct exchange *x)
{
	x->drained = write_big;
	big_written = 0;
	exchange_begin(x, 200, "a/b", -1);
	write_big(x);
}

static void do_begun(struct exchange *x)
{
	web.last = x;
	exchange_begin(x, 200, NULL, -1);
	exchange_write(x, "part", 4);
}

static void do_short(struct exchange *x)
{
	exchange_begin(x, 200, NULL, 10);
	exchange_write(x, "123456789", 9);
	exchange_end(x);
}

static void do_long(struct exchange *x)
{
	exchange_begin(x, 200, NULL, 3);
	exchange_write(x, "123", 3);
	exchange_write(x, "4", 1);
	exchange_end(x);
}

static void do_headers(struct exchange *x)
{
	exchange_header(x, "X-Good", "a\tb \xc3\xa4");
	exchange_header(x, "X-Split", "a\r\nX-Evil: b");
	exchange_header(x, "X Name", "a");
	exchange_header(x, "", "a");
	exchange_header(x, "X-Colon:", "a");
	exchange_header(x, "content-length", "99");
	exchange_header(x, "Transfer-Encoding", "gzip");
	exchange_header(x, "Connection", "close");
	exchange_answer(x, 200, "text/plain\r\nX-Evil: c", "x", 1);
}

static void do_empty(struct exchange *x)
{
	exchange_answer(x, 204, NULL, NULL, 0);
}

static void do_unchanged(struct exchange *x)
{
	exchange_answer(x, 304, "text/plain", "body", 4);
}

static void do_created(struct exchange *x)
{
	exchange_answer(x, 201, NULL, NULL, 0);
}

static void do_close(struct exchange *x)
{
	exchange_close(x);
	do_ok(x);
}

static const struct {
	const char *path;
	void (*handle)(struct exchange *x);
} paths[] = {
	{ "/ok", do_ok },           { "/later", do_later },
	{ "/collect", do_collect }, { "/stream", do_stream },
	{ "/held", do_held },       { "/echo", do_echo },
	{ "/tunnel", do_tunnel },   { "/big", do_big },
	{ "/begun", do_begun },     { "/short", do_short },
	{ "/long", do_long },       { "/headers", do_headers },
	{ "/empty", do_empty },     { "/created", do_created },
	{ "/close", do_close },     { "/unchanged", do_unchanged },
};

static void on_request(void *of, struct exchange *x)
{
	(void)of;
	web.requests++;
	x->gone = count_gone;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (text_is(&x->head.path, paths[i].path)) {
			paths[i].handle(x);
			return;
		}
	exchange_answer(x, 404, "text/plain", "none", 4);
}

static const struct server_setup setup = { .request = on_request, .logged = count_log };

static int open_web(void **state)
{
	(void)state;
	clock_forward_ms = 0;
	stream_ends = 0;
	buf_reset(&streamed);
	web_open(&setup, NULL);
	return 0;
}

static int close_web(void **state)
{
	(void)state;
	web_close();
	return 0;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define OK        "fine"

/* --- requests --- */

static void kept_alive_and_pipelined(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, GET("/ok"));
	hear(&c, "HTTP/1.1 200 OK\r\n");
	hear(&c, "Content-Length: 4\r\n");
	hear(&c, OK);
	say(&c, GET("/ok") GET("/nothing") GET("/later") GET("/ok"));
	hear(&c, OK);
	hear(&c, "404");
	hear(&c, "none");
	/* Answers come in the order of the requests, so the last one waits. */
	hear_nothing(&c);
	assert_int_equal(web.requests, 4);
	exchange_answer(web.last, 200, "text/plain", "late", 4);
	hear(&c, "late");
	hear(&c, OK);
	assert_int_equal(web.requests, 5);
	assert_int_equal(server_connections(web.server), 1);
	client_close(&c);
}

static void byte_by_byte(void **state)
{
	static const char text[] = "\r\n" GET("/ok") "POST /collect HTTP/1.1\r\nHost: a\r\n"
						     "Transfer-Encoding: chunked\r\n\r\n"
						     "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n";
	struct client c = client_open();

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		say_bytes(&c, text + i, 1);
		turn(1);
	}
	hear(&c, OK);
	hear(&c, "\r\n\r\nabcde");
	client_close(&c);
}

static void old_clients(void **state)
{
	struct client c = client_open(), d = client_open(), e = client_open();

	(void)state;
	say(&c, "GET /ok HTTP/1.0\r\n\r\n");
	hear(&c, "Connection: close\r\n");
	hear(&c, OK);
	hear_end(&c);
	say(&d, "GET /ok HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	hear(&d, "Connection: keep-alive\r\n");
	hear(&d, OK);
	/* Chunks are nothing to them: the body ends with the connection. */
	say(&d, "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\necho");
	hear(&d, "\r\n\r\necho");
	hear_end(&d);
	assert_int_equal(d.heard.len, 0);
	/* And one that was broken off must not look like an end. */
	say(&e, "GET /begun HTTP/1.0\r\n\r\n");
	hear(&e, "part");
	exchange_abort(web.last);
	hear_end(&e);
	assert_true(e.is_reset);
	client_close(&c);
	client_close(&d);
	client_close(&e);
}

static void answers_without_a_body(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, "HEAD /ok HTTP/1.1\r\nHost: a\r\n\r\n" GET("/empty")
			GET("/created") "HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n" GET("/unchanged")
				GET("/ok"));
	hear(&c, "200 OK\r\n");
	hear(&c, "Content-Length: 4\r\n");
	hear(&c, "\r\n\r\n");
	hear(&c, "HTTP/1.1 204 No Content\r\n");
	hear(&c, "\r\n\r\nHTTP/1.1 201 Created\r\n");
	hear(&c, "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n");
	hear(&c, "Transfer-Encoding: chunked\r\n");
	hear(&c, "\r\n\r\nHTTP/1.1 304 Not Modified\r\n");
	hear(&c, "\r\n\r\nHTTP/1.1 200 OK\r\n");
	hear(&c, OK);
	assert_int_equal(c.heard.len, 0);
	client_close(&c);
}

static void headers_that_a_handler_sets(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, GET("/headers") GET("/ok"));
	hear(&c, "X-Good: a\tb \xc3\xa4\r\n");
	hear(&c, OK);
	say(&c, GET("/headers"));
	hear(&c, "\r\n\r\nx");
	say(&c, GET("/headers"));
	turn(3);
	listen_in(&c);
	assert_false(has_heard(&c, "Evil"));
	assert_false(has_heard(&c, "X Name"));
	assert_false(has_heard(&c, "Colon"));
	assert_false(has_heard(&c, "gzip"));
	assert_false(has_heard(&c, "99"));
	assert_false(has_heard(&c, "Connection"));
	assert_true(has_heard(&c, "Content-Length: 1\r\n"));
	client_close(&c);
}

static void lengths_are_kept(void **state)
{
	static const char *const requests[] = { GET("/short"), GET("/long") };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct client c = client_open();

		say(&c, requests[i]);
		hear(&c, "\r\n\r\n123");
		hear_end(&c);
		assert_false(has_heard(&c, "4567890"));
		client_close(&c);
	}
}

static void closed_when_asked(void **state)
{
	struct client c = client_open(), d = client_open();

	(void)state;
	say(&c, "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET("/ok"));
	hear(&c, "Connection: close\r\n");
	hear(&c, OK);
	hear_end(&c);
	assert_int_equal(web.requests, 1);
	say(&d, GET("/close"));
	hear(&d, "Connection: close\r\n");
	hear(&d, OK);
	hear_end(&d);
	/* Our direction ends first; it is closed when the client's has ended, or after a while. */
	client_close(&d);
	turn(3);
	assert_int_equal(server_connections(web.server), 1);
	later(5000);
	assert_int_equal(server_connections(web.server), 0);
	client_close(&c);
}

/* --- bodies --- */

static void bodies_that_are_collected(void **state)
{
	struct client c = client_open(), d = client_open();

	(void)state;
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
	hear_nothing(&c);
	say(&c, "lo" GET("/ok"));
	hear(&c, "\r\n\r\nhello");
	hear(&c, OK);
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
	hear(&c, "Content-Length: 0\r\n");
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\n\r\n");
	hear(&c, "Content-Length: 0\r\n");
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n");
	hear(&c, "413");
	hear_end(&c);
	/* The same where nobody says it before. */
	say(&d, "POST /collect HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		"10001\r\n");
	say_bytes(&d, big, 65537);
	hear(&d, "413");
	hear_end(&d);
	client_close(&c);
	client_close(&d);
}

static void bodies_that_nobody_asks_for(void **state)
{
	struct client c = client_open(), d = client_open(), e = client_open();

	(void)state;
	say(&c, "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /" GET(
			"/ok") "POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
			       "3\r\nabc\r\n0\r\n\r\n" GET("/ok"));
	for (int i = 0; i < 4; i++)
		hear(&c, OK);
	assert_int_equal(web.requests, 4);
	say(&d, "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n");
	hear(&d, "Connection: close\r\n");
	hear(&d, OK);
	hear_end(&d);
	/* Without a length it shows later that there is too much. */
	say(&e, "POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n");
	say_bytes(&e, big, 0x20000);
	hear(&e, OK);
	hear_end(&e);
	client_close(&c);
	client_close(&d);
	client_close(&e);
}

static void a_client_that_asks_first(void **state)
{
	struct client c = client_open(), d = client_open();

	(void)state;
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
		"Expect: 100-continue\r\n\r\n");
	hear(&c, "HTTP/1.1 100 Continue\r\n\r\n");
	say(&c, "hi");
	hear(&c, "\r\n\r\nhi");
	/* Not for one that did not wait. */
	say(&c, "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
		"Expect: 100-continue\r\n\r\nho");
	hear(&c, "HTTP/1.1 200 OK\r\n");
	hear(&c, "\r\n\r\nho");
	/* A body that is not wanted: whether it comes nobody knows. */
	say(&d, "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
		"Expect: 100-continue\r\n\r\n");
	hear(&d, "HTTP/1.1 200 OK\r\n");
	hear(&d, "Connection: close\r\n");
	hear_end(&d);
	client_close(&c);
	client_close(&d);
}

static void streams_and_holding(void **state)
{
	struct client c = client_open();
	size_t said = 0;

	(void)state;
	say(&c, "POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n");
	for (int i = 0; i < 200 && said < 4 * MIB; i++) {
		ssize_t n = send(c.fd, big, MIN(64 * KIB, 4 * MIB - said), MSG_DONTWAIT);

		said += n > 0 ? (size_t)n : 0;
		turn(1);
	}
	/* One piece was given, and no more until it is asked for. */
	assert_true(streamed.len > 0 && streamed.len <= 96 * KIB);
	while (streamed.len < 4 * MIB) {
		size_t before = streamed.len;

		exchange_go_on(web.last);
		for (int i = 0; i < 100 && streamed.len == before; i++) {
			if (said < 4 * MIB) {
				ssize_t n = send(c.fd, big, MIN(64 * KIB, 4 * MIB - said),
						 MSG_DONTWAIT);

				said += n > 0 ? (size_t)n : 0;
			}
			turn(1);
		}
		assert_true(streamed.len > before && streamed.len - before <= 96 * KIB);
	}
	assert_int_equal(stream_ends, 0);
	exchange_go_on(web.last);
	hear(&c, "streamed");
	assert_int_equal(stream_ends, 1);
	assert_memory_equal(streamed.data, big, 64 * KIB);
	client_close(&c);
}

static void chunked_both_ways(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	hear(&c, "Transfer-Encoding: chunked\r\n\r\n");
	say(&c, "5\r\nhello\r\n");
	hear(&c, "5\r\nhello\r\n");
	say(&c, "11\r\n0123456789abcdefg\r\n");
	hear(&c, "11\r\n0123456789abcdefg\r\n");
	say(&c, "0\r\n\r\n" GET("/ok"));
	hear(&c, "0\r\n\r\n");
	hear(&c, OK);
	client_close(&c);
}

/* --- quick ones --- */

/* One that sends as much as it can does not keep the others waiting. */
static void patience_ends(void **state)
{
	struct client c = client_open(), d = client_open();
	char *text = malloc(64 * KIB);
	size_t len = 0, count = 0;
	unsigned int before;

	(void)state;
	while (len + sizeof(GET("/ok")) < 64 * KIB) {
		memcpy(text + len, GET("/ok"), sizeof(GET("/ok")) - 1);
		len += sizeof(GET("/ok")) - 1;
		count++;
	}
	turn(2);
	say_bytes(&c, text, len);
	say(&d, GET("/ok"));
	before = web.requests;
	assert_int_equal(loop_turn(web.loop, 100), 0);
	assert_true(web.requests > before && web.requests - before < count / 2);
	hear(&d, OK);
	for (size_t i = 0; i < count; i++)
		hear(&c, OK);
	assert_int_equal(web.requests, count + 1);
	/* The same with a body in the smallest of chunks. */
	len = (size_t)sprintf(text, "POST /stream HTTP/1.1\r\nHost: a\r\n"
				    "Transfer-Encoding: chunked\r\n\r\n");
	for (count = 0; len + 12 < 64 * KIB; count++)
		len += (size_t)sprintf(text + len, "1\r\nx\r\n");
	len += (size_t)sprintf(text + len, "0\r\n\r\n");
	say_bytes(&c, text, len);
	assert_int_equal(loop_turn(web.loop, 100), 0);
	assert_true(streamed.len > 0 && streamed.len < count / 2);
	hear(&c, "streamed");
	assert_int_equal(streamed.len, count);
	free(text);
	client_close(&c);
	client_close(&d);
}

/* --- slow readers --- */

static void a_client_that_does_not_read(void **state)
{
	struct client c = client_open();
	size_t before;

	(void)state;
	web.drains = 0;
	say(&c, GET("/big"));
	turn(20);
	before = big_written;
	assert_true(before < 16 * MIB);
	turn(20);
	assert_int_equal(big_written, before);
	hear(&c, "\r\n0\r\n\r\n");
	assert_int_equal(big_written, 16 * MIB);
	assert_true(web.drains > 2);
	/* What comes and is not read is bounded, whoever writes it. */
	say(&c, GET("/begun"));
	hear(&c, "part");
	for (size_t sent = 0; sent < 64 * MIB && web.last; sent += 64 * KIB) {
		exchange_write(web.last, big, 64 * KIB);
		if (sent % (4 * MIB) == 0)
			turn(1);
	}
	turn(2);
	assert_null(web.last);
	client_close(&c);
}

/* --- memory of all together --- */

#define MEMORY (1 * MIB)
#define POST   "POST /collect HTTP/1.1\r\nHost: a\r\n"

static bool is_nothing_held(void)
{
	return server_held(web.server) == 0;
}

static void say_half_a_body(struct client *c)
{
	say(c, POST "Content-Length: 65536\r\n\r\n");
	say_bytes(c, big, 40 * KIB);
	turn(4);
}

static void bodies_in_sum(void **state)
{
	struct client clients[32], c = client_open();

	(void)state;
	server_set_memory(web.server, MEMORY);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = client_open();
		say_half_a_body(&clients[i]);
		assert_true(server_held(web.server) <= MEMORY);
	}
	/* The first are being collected still; the last was told so, and when to come again. */
	hear_nothing(&clients[0]);
	hear(&clients[31], "503 Service Unavailable\r\n");
	hear(&clients[31], "Retry-After: 1\r\n");
	hear(&clients[31], "no memory left for the body");
	/* One whose length nobody knows before it has come. */
	say(&c, POST "Transfer-Encoding: chunked\r\n\r\nffff\r\n");
	say_bytes(&c, big, 65535);
	hear(&c, "503 Service Unavailable\r\n");
	client_close(&c);
	/* What needs no memory is answered as ever. */
	c = client_open();
	say(&c, GET("/ok") POST "Content-Length: 0\r\n\r\n");
	hear(&c, OK);
	hear(&c, "200 OK\r\n");
	say_bytes(&clients[0], big, 24 * KIB);
	hear(&clients[0], "200 OK\r\n");
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		client_close(&clients[i]);
	until_true(is_nothing_held);
	say(&c, POST "Content-Length: 5\r\n\r\nagain");
	hear(&c, "\r\n\r\nagain");
	until_true(is_nothing_held);
	client_close(&c);
}

/* A client with little room in the kernel, so that what it does not read waits here. */
static struct client slow_client(void)
{
	struct client c = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
			    .heard = BUF(64 * MIB) };
	int room = 4096;

	assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
	assert_int_equal(connect(c.fd, (struct sockaddr *)&web.address, sizeof(web.address)), 0);
	assert_int_equal(fd_set_nonblock(c.fd, 1), 0);
	return c;
}

/* An answer that is begun, with so much of it unsent. */
static struct exchange *pile_up(struct client *c, size_t bytes)
{
	size_t before = server_held(web.server);

	say(c, GET("/begun"));
	hear(c, "part");
	for (int i = 0; i < 4096 && server_held(web.server) < before + bytes; i++)
		exchange_write(web.last, big, 16 * KIB);
	assert_int_equal(server_held(web.server), before + bytes);
	return web.last;
}

/* Who keeps what came counts it, and then less comes at once. */
static void what_others_keep(void **state)
{
	struct client c = client_open();
	size_t counted = 0;

	(void)state;
	server_set_memory(web.server, MEMORY);
	buf_reset(&streamed);
	say(&c, "POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
	hear_nothing(&c);
	exchange_count(web.last, &counted, MEMORY / 2);
	assert_int_equal(server_held(web.server), MEMORY / 2);
	say_bytes(&c, big, 60000);
	hear_nothing(&c);
	assert_in_range(streamed.len, 1, 4 * KIB);
	exchange_count(web.last, &counted, 0);
	assert_true(is_nothing_held());
	for (int i = 0; i < 1000 && stream_ends == 0; i++) {
		exchange_go_on(web.last);
		turn(1);
	}
	hear(&c, "streamed");
	assert_int_equal(streamed.len, 60000);
	client_close(&c);
}

static void producers_pause_in_sum(void **state)
{
	struct client slow = slow_client(), c = client_open();
	size_t before;

	(void)state;
	server_set_memory(web.server, MEMORY);
	assert_true(exchange_is_full(pile_up(&slow, MEMORY / 2)));
	say(&c, GET("/big"));
	turn(20);
	before = big_written;
	turn(20);
	assert_int_equal(big_written, before);
	/* Less than one alone could have. */
	assert_true(server_held(web.server) < MEMORY / 2 + EXCHANGE_FULL / 2);
	/* It goes on as it is read, while the other one is as slow as before. */
	hear(&c, "\r\n0\r\n\r\n");
	assert_int_equal(big_written, 16 * MIB);
	assert_int_equal(server_held(web.server), MEMORY / 2);
	client_close(&slow);
	client_close(&c);
	until_true(is_nothing_held);
}

static void the_one_with_the_most_unsent(void **state)
{
	struct client most = slow_client(), c = slow_client(), d = slow_client(), e = slow_client();
	struct exchange *last;

	(void)state;
	server_set_memory(web.server, MEMORY);
	(void)pile_up(&most, MEMORY / 2);
	(void)pile_up(&c, MEMORY / 4);
	(void)pile_up(&d, MEMORY / 4);
	say(&e, GET("/ok"));
	hear(&e, OK);
	say(&e, GET("/begun"));
	hear(&e, "part");
	last = web.last;
	for (int i = 0; i < 4096 && web.last && server_held(web.server) >= MEMORY; i++)
		exchange_write(last, big, 16 * KIB);
	hear_end(&most);
	assert_int_equal(web.gones, 1 + 1);
	exchange_end(last);
	hear(&e, "\r\n0\r\n\r\n");
	client_close(&most);
	client_close(&c);
	client_close(&d);
	client_close(&e);
	until_true(is_nothing_held);
}

static void a_whole_answer_of_any_size(void **state)
{
	struct client c = client_open();
	char *body = calloc(1, 20 * MIB);

	(void)state;
	say(&c, GET("/later"));
	turn(3);
	exchange_answer(web.last, 200, "a/b", body, 20 * MIB);
	free(body);
	hear(&c, "\r\n\r\n");
	for (int i = 0; i < 5000 && c.heard.len < 20 * MIB; i++) {
		turn(1);
		listen_in(&c);
	}
	assert_int_equal(c.heard.len, 20 * MIB);
	client_close(&c);
}

/* --- tunnels --- */

static void tunnels(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
		"early");
	hear(&c,
	     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
	hear(&c, "early");
	say(&c, GET("/ok"));
	hear(&c, GET("/ok"));
	assert_int_equal(web.requests, 1);
	/* Held, it waits in the kernel; and lasts as long as it likes. */
	exchange_hold(web.last);
	say(&c, "more");
	hear_nothing(&c);
	later(3600000);
	assert_non_null(web.last);
	exchange_go_on(web.last);
	hear(&c, "more");
	exchange_write(web.last, "from us", 7);
	hear(&c, "from us");
	assert_int_equal(stream_ends, 0);
	assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
	hear_end(&c);
	assert_int_equal(stream_ends, 1);
	turn(2);
	assert_null(web.last);
	assert_int_equal(server_connections(web.server), 0);
	client_close(&c);
}

static void a_tunnel_that_we_end_first(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
	hear(&c, "\r\n\r\n");
	exchange_write(web.last, "last", 4);
	exchange_end(web.last);
	hear(&c, "last");
	hear_end(&c);
	assert_non_null(web.last);
	assert_int_equal(stream_ends, 0);
	later(SERVER_BODY_MS / 2);
	assert_non_null(web.last);
	later(SERVER_BODY_MS);
	assert_null(web.last);
	client_close(&c);
}

/* --- ends --- */

static void a_client_that_leaves(void **state)
{
	static const char *const requests[] = {
		GET("/later"),
		GET("/begun"),
		GET("/big"),
		"POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
		"POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
		"GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
		"GET /ok HTT",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		for (int is_rude = 0; is_rude < 2; is_rude++) {
			struct client c = client_open();
			struct linger linger = { 1, 0 };

			say(&c, requests[i]);
			turn(3);
			assert_int_equal(server_connections(web.server), 1);
			/* With something unread, even a polite end is a reset. */
			listen_in(&c);
			if (is_rude)
				setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
			client_close(&c);
			turn(3);
			assert_int_equal(server_connections(web.server), 0);
			assert_int_equal(web.requests, web.gones);
		}
	assert_int_equal(stream_ends, 1); /* that of the tunnel that was not reset */
}

static void broken_off(void **state)
{
	struct client c = client_open(), d = client_open();

	(void)state;
	say(&c, GET("/begun"));
	hear(&c, "4\r\npart\r\n");
	exchange_write(web.last, "more", 4);
	exchange_abort(web.last);
	exchange_abort(web.last);
	exchange_write(web.last, "never", 5);
	exchange_end(web.last);
	assert_non_null(web.last);
	hear_end(&c);
	/* What was written before arrives, and no end of the body. */
	assert_string_equal(buf_text(&c.heard), "4\r\nmore\r\n");
	assert_null(web.last);
	say(&d, GET("/later"));
	turn(3);
	exchange_abort(web.last);
	hear_end(&d);
	assert_int_equal(d.heard.len, 0);
	client_close(&c);
	client_close(&d);
}

static void once_is_enough(void **state)
{
	struct client c = client_open();

	(void)state;
	say(&c, GET("/later"));
	turn(3);
	exchange_answer(web.last, 200, "text/plain", "one", 3);
	exchange_answer(web.last, 500, "text/plain", "two", 3);
	exchange_begin(web.last, 500, NULL, -1);
	exchange_write(web.last, "three", 5);
	exchange_end(web.last);
	exchange_abort(web.last);
	exchange_collect(web.last, 5, on_collected);
	hear(&c, "\r\n\r\none");
	hear_nothing(&c);
	assert_int_equal(web.gones, 1);
	client_close(&c);
}

/* --- what could be read in two ways --- */

static void nothing_is_smuggled(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(smuggling); i++) {
		const struct smuggling *s = &smuggling[i];
		struct client c = client_open();
		unsigned int before = web.requests;
		char status[32];

		say_bytes(&c, s->text, smuggling_len(s));
		say(&c, "\r\n" GET("/ok"));
		snprintf(status, sizeof(status), "HTTP/1.1 %u ", s->status);
		hear_end(&c);
		if (strncmp(buf_text(&c.heard), status, strlen(status)) != 0 || has_heard(&c, OK) ||
		    !has_heard(&c, "Connection: close\r\n"))
			fail_msg("%s: %s", s->name, buf_text(&c.heard));
		assert_int_equal(web.requests, before + (s->head == 0));
		client_close(&c);
	}
}

static void heads_that_are_too_long(void **state)
{
	static const struct {
		const char *begin, *status;
	} table[] = {
		{ "GET /", "414" },
		{ GET("/ok") "GET /", "414" },
		{ "GET /ok HTTP/1.1\r\nHost: a\r\nA: ", "431" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct client c = client_open();

		say(&c, table[i].begin);
		for (int k = 0; k < 40; k++)
			say_bytes(&c, big + 1, 1000);
		hear(&c, table[i].status);
		hear_end(&c);
		client_close(&c);
	}
}

/* --- times --- */

static void times(void **state)
{
	static const struct {
		const char *text, *heard;
		uint64_t ms;
	} table[] = {
		{ "", NULL, SERVER_IDLE_MS },
		{ "G", "408", SERVER_HEAD_MS },
		{ "GET /ok HTTP/1.1\r\n", "408", SERVER_HEAD_MS },
		{ "POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", "408",
		  SERVER_BODY_MS },
		{ "POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
		  "408", SERVER_BODY_MS },
		{ "POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", OK, 5000 },
		{ GET("/big"), NULL, SERVER_STALL_MS },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct client c = client_open();

		say(&c, table[i].text);
		turn(20);
		later(table[i].ms - 1000);
		assert_int_equal(server_connections(web.server), 1);
		later(2000);
		if (table[i].heard)
			hear(&c, table[i].heard);
		/* What the server says then may linger; it is over soon. */
		later(5000);
		assert_int_equal(server_connections(web.server), 0);
		client_close(&c);
		assert_int_equal(web.requests, web.gones);
	}
}

static void times_that_are_renewed(void **state)
{
	struct client c = client_open(), d = client_open(), e = client_open();

	(void)state;
	say(&d, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
	say(&e, "GET /ok HTTP/1.1\r\n");
	turn(3);
	for (int i = 0; i < 10; i++) {
		say(&c, GET("/ok"));
		hear(&c, OK);
		say(&d, "x");
		later(SERVER_BODY_MS - 2000);
	}
	/* Those who wait for us may wait as long as we need. */
	say(&c, GET("/later"));
	for (int i = 0; i < 10; i++) {
		say(&d, "x");
		later(SERVER_BODY_MS - 2000);
	}
	assert_int_equal(server_connections(web.server), 2);
	/* But the bytes of a head do not. */
	hear(&e, "408");
	assert_int_equal(streamed.len, 20);
	client_close(&c);
	client_close(&d);
	client_close(&e);
	turn(3);
}

/* --- many --- */

static void no_more_than_so_many(void **state)
{
	struct client c[4];
	struct client more, still_more;

	(void)state;
	server_set_limit(web.server, 4);
	for (int i = 0; i < 4; i++) {
		c[i] = client_open();
		say(&c[i], i == 1 ? "GET /ok HT" : GET("/ok"));
		turn(2);
	}
	hear(&c[0], OK);
	/* The one that was idle for the longest time has to go: 1, as 0 is used again. */
	say(&c[0], GET("/ok"));
	hear(&c[0], OK);
	more = client_open();
	say(&more, GET("/later"));
	hear_end(&c[1]);
	assert_int_equal(server_connections(web.server), 4);
	say(&c[0], GET("/later"));
	hear(&c[2], OK);
	hear(&c[3], OK);
	say(&c[2], GET("/later"));
	say(&c[3], GET("/later"));
	turn(3);
	still_more = client_open();
	hear(&still_more, "503 Service Unavailable");
	hear_end(&still_more);
	assert_int_equal(web.requests, web.gones + 4);
	client_close(&c[0]);
	turn(2);
	client_close(&still_more);
	still_more = client_open();
	say(&still_more, GET("/ok"));
	hear(&still_more, OK);
	for (int i = 1; i < 4; i++)
		client_close(&c[i]);
	client_close(&more);
	client_close(&still_more);
}

static void out_of_descriptors(void **state)
{
	struct rlimit limit, low;
	struct client c = client_open(), d = client_open(), e;
	int next;

	(void)state;
	say(&c, GET("/later"));
	turn(3);
	say(&d, GET("/ok"));
	hear(&d, OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	e = client_open();
	next = dup(0);
	close(next);
	low = limit;
	low.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	/* There is none for e, so the idle one gives up its own. */
	say(&e, GET("/later"));
	hear_end(&d);
	turn(5);
	assert_int_equal(web.requests, 3);
	/* Now nobody can: whoever comes waits. */
	client_close(&d);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	d = client_open();
	next = dup(0);
	close(next);
	low.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	say(&d, GET("/ok"));
	hear_nothing(&d);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	later(1000);
	hear(&d, OK);
	client_close(&c);
	client_close(&d);
	client_close(&e);
}

/* Heads that are not whole have a sum that they do not go beyond: 64 MiB. */
static void many_that_begin(void **state)
{
	enum { COUNT = 2300, EACH = 30000 };
	static const char begin[] = "GET /ok HTTP/1.1\r\nA: ";
	static struct client clients[COUNT];
	struct rlimit limit;
	struct client c;
	size_t left;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 2 * COUNT + 100)
		skip();
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (size_t i = 0; i < COUNT; i++) {
		clients[i] = client_open();
		say(&clients[i], begin);
		(void)!send(clients[i].fd, big, EACH, MSG_DONTWAIT | MSG_NOSIGNAL);
		turn(1);
	}
	turn(10);
	left = server_connections(web.server);
	assert_true(left < COUNT && left * EACH <= 64 * MIB);
	/* The first ones can go on, and so can whoever does not send a head in parts. */
	say(&clients[0], "\r\nHost: a\r\n\r\n");
	hear(&clients[0], OK);
	c = client_open();
	say(&c, GET("/ok"));
	hear(&c, OK);
	client_close(&c);
	for (size_t i = 0; i < COUNT; i++)
		client_close(&clients[i]);
}

/* --- the end of the server --- */

static unsigned int drained;

static void on_drained(void *of)
{
	(void)of;
	drained++;
}

static bool is_drained(void)
{
	return drained > 0;
}

static void draining(void **state)
{
	struct client c = client_open(), d = client_open(), e = client_open();
	int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	drained = 0;
	say(&c, GET("/ok"));
	hear(&c, OK);
	say(&d, GET("/later"));
	say(&e, "GET /ok HTT");
	turn(3);
	server_drain(web.server, on_drained, NULL);
	hear_end(&c);
	hear_end(&e);
	assert_int_equal(connect(late, (struct sockaddr *)&web.address, sizeof(web.address)), -1);
	turn(3);
	assert_int_equal(drained, 0);
	exchange_answer(web.last, 200, "text/plain", "last", 4);
	hear(&d, "Connection: close\r\n");
	hear(&d, "last");
	until_true(is_drained);
	hear_end(&d);
	assert_int_equal(drained, 1);
	close(late);
	client_close(&c);
	client_close(&d);
	client_close(&e);
}

static void draining_when_there_is_nothing(void **state)
{
	(void)state;
	drained = 0;
	server_drain(web.server, on_drained, NULL);
	assert_int_equal(drained, 0);
	until_true(is_drained);
}

static void freed_with_everything_open(void **state)
{
	static const char *const requests[] = {
		GET("/later"), GET("/begun"),
		GET("/big"),   GET("/ok"),
		"GET /",       "POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct client c = client_open();

		say(&c, requests[i]);
		turn(3);
		/* Left open: web_close() counts. */
		buf_done(&c.heard);
	}
	assert_int_equal(server_connections(web.server), ARRAY_SIZE(requests));
}

#define WEB(test) cmocka_unit_test_setup_teardown(test, open_web, close_web)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WEB(kept_alive_and_pipelined),
		WEB(byte_by_byte),
		WEB(old_clients),
		WEB(answers_without_a_body),
		WEB(headers_that_a_handler_sets),
		WEB(lengths_are_kept),
		WEB(closed_when_asked),
		WEB(bodies_that_are_collected),
		WEB(bodies_that_nobody_asks_for),
		WEB(a_client_that_asks_first),
		WEB(streams_and_holding),
		WEB(chunked_both_ways),
		WEB(patience_ends),
		WEB(a_client_that_does_not_read),
		WEB(bodies_in_sum),
		WEB(what_others_keep),
		WEB(producers_pause_in_sum),
		WEB(the_one_with_the_most_unsent),
		WEB(a_whole_answer_of_any_size),
		WEB(tunnels),
		WEB(a_tunnel_that_we_end_first),
		WEB(a_client_that_leaves),
		WEB(broken_off),
		WEB(once_is_enough),
		WEB(nothing_is_smuggled),
		WEB(heads_that_are_too_long),
		WEB(times),
		WEB(times_that_are_renewed),
		WEB(no_more_than_so_many),
		WEB(out_of_descriptors),
		WEB(many_that_begin),
		WEB(draining),
		WEB(draining_when_there_is_nothing),
		WEB(freed_with_everything_open),
	};
	int failed;

	big = malloc(256 * KIB);
	memset(big, 'x', 256 * KIB);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(big);
	buf_done(&streamed);
	return failed;
}
