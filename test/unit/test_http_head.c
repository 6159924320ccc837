#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/chunked.h"
#include "http/head.h"
#include "http_smuggling.h"

/* Measured and parsed, in memory that ends where the head ends. */
static int parse(const char *text, size_t len, bool is_request, struct head *ret_head,
		 char **ret_copy)
{
	const char *why = NULL;
	long n = head_measure(text, len, &why);
	int r;

	*ret_copy = NULL;
	if (n < 0) {
		assert_non_null(why);
		return (int)n;
	}
	if (n == 0)
		return -EAGAIN;
	*ret_copy = malloc((size_t)n);
	memcpy(*ret_copy, text, (size_t)n);
	r = is_request ? head_parse_request(*ret_copy, (size_t)n, ret_head, &why)
		       : head_parse_response(*ret_copy, (size_t)n, false, ret_head, &why);
	assert_true(r == 0 || (why && why[0]));
	return r;
}

static struct head head;
static char *copy;

static int request(const char *text)
{
	free(copy);
	return parse(text, strlen(text), true, &head, &copy);
}

static int response(const char *text)
{
	free(copy);
	return parse(text, strlen(text), false, &head, &copy);
}

static int forget(void **state)
{
	(void)state;
	free(copy);
	copy = NULL;
	return 0;
}

static void a_request_is_taken_apart(void **state)
{
	(void)state;
	assert_int_equal(request("POST /a%20b/c?d=e&f=?g HTTP/1.1\r\nHost: Example.org:8080\r\n"
				 "X-Empty:\r\nX-Trim: \t a b \t \r\nContent-Length: 12\r\n\r\n"),
			 0);
	assert_int_equal(head.method, METHOD_POST);
	assert_true(text_is(&head.method_text, "POST"));
	assert_true(text_is(&head.target, "/a%20b/c?d=e&f=?g"));
	assert_true(text_is(&head.path, "/a%20b/c"));
	assert_true(text_is(&head.query, "d=e&f=?g"));
	assert_true(text_is(&head.host, "Example.org"));
	assert_int_equal(head.minor, 1);
	assert_int_equal(head.field_count, 4);
	assert_true(text_is(head_find(&head, "x-empty"), ""));
	assert_true(text_is(head_find(&head, "X-TRIM"), "a b"));
	assert_null(head_find(&head, "X"));
	assert_int_equal(head.framing, FRAMING_LENGTH);
	assert_int_equal(head.length, 12);
	assert_true(head.keep_alive);
	assert_false(head.upgrade);
	assert_false(head.expects);
}

static void methods(void **state)
{
	(void)state;
	for (int i = 0; i < METHOD_OTHER; i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", method_names[i]);
		assert_int_equal(request(text), 0);
		assert_int_equal(head.method, i);
	}
	assert_int_equal(request("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(head.method, METHOD_OTHER);
	assert_int_equal(request("PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(head.method, METHOD_OTHER);
	assert_int_equal(
		request("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJK / HTTP/1.1\r\nHost: a\r\n\r\n"),
		-EPROTO);
}

static void targets(void **state)
{
	(void)state;
	assert_int_equal(request("GET http://A:80/b?c HTTP/1.1\r\nHost: a:80\r\n\r\n"), 0);
	assert_true(text_is(&head.path, "/b"));
	assert_true(text_is(&head.query, "c"));
	assert_int_equal(request("GET HTTPS://a HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_true(text_is(&head.path, "/"));
	assert_int_equal(request("GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_true(text_is(&head.path, "/"));
	assert_true(text_is(&head.query, "b"));
	assert_int_equal(request("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_true(text_is(&head.path, "*"));
	assert_int_equal(request("GET //a?{b}|[c] HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_true(text_is(&head.path, "//a"));
}

static void hosts(void **state)
{
	static const struct {
		const char *value, *host;
	} table[] = {
		{ "a", "a" },
		{ "a:1", "a" },
		{ "a:", "a" },
		{ "[::1]", "[::1]" },
		{ "[::1]:80", "[::1]" },
		{ "8000-x.example_1.org:65535", "8000-x.example_1.org" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char text[128];

		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", table[i].value);
		assert_int_equal(request(text), 0);
		assert_true(text_is(&head.host, table[i].host));
	}
	assert_int_equal(request("GET / HTTP/1.0\r\n\r\n"), 0);
	assert_int_equal(head.host.len, 0);
}

static void connections(void **state)
{
	(void)state;
	assert_int_equal(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: a, Close ,b\r\n\r\n"),
			 0);
	assert_false(head.keep_alive);
	assert_int_equal(request("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), 0);
	assert_false(head.keep_alive);
	assert_int_equal(request("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n"), 0);
	assert_true(head.keep_alive);
	assert_int_equal(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n"
				 "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
			 0);
	assert_true(head.keep_alive && head.upgrade);
	assert_int_equal(request("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"), 0);
	assert_false(head.upgrade);
	assert_int_equal(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n"), 0);
	assert_false(head.upgrade);
	assert_int_equal(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n"), 0);
	assert_true(head.keep_alive);
}

static void expectations(void **state)
{
	(void)state;
	assert_int_equal(request("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n"
				 "Content-Length: 1\r\n\r\n"),
			 0);
	assert_true(head.expects);
	assert_int_equal(request("PUT / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n"
				 "Content-Length: 1\r\n\r\n"),
			 0);
	assert_false(head.expects);
}

static void responses(void **state)
{
	(void)state;
	assert_int_equal(response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"), 0);
	assert_int_equal(head.status, 200);
	assert_int_equal(head.framing, FRAMING_LENGTH);
	assert_int_equal(response("HTTP/1.1 404 \r\nTransfer-Encoding: Chunked\r\n\r\n"), 0);
	assert_int_equal(head.framing, FRAMING_CHUNKED);
	assert_int_equal(response("HTTP/1.0 200\r\n\r\n"), 0);
	assert_int_equal(head.framing, FRAMING_UNTIL_END);
	assert_false(head.keep_alive);
	assert_int_equal(response("HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\n"), 0);
	assert_int_equal(head.framing, FRAMING_NONE);
	assert_int_equal(response("HTTP/1.1 101 Now\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
			 0);
	assert_int_equal(head.framing, FRAMING_NONE);
	assert_true(head.upgrade);
	/* A Host is no matter of a response. */
	assert_int_equal(response("HTTP/1.1 200 OK\r\nHost: a b\r\nHost: c\r\n\r\n"), 0);
}

static void responses_that_are_none(void **state)
{
	static const char *const texts[] = {
		"HTTP/1.1\r\n\r\n",
		"HTTP/1.1 20\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 20x OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 200 O\001K\r\n\r\n",
		"HTTP/1.1\t200 OK\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (response(texts[i]) != -EPROTO)
			fail_msg("taken: %s", texts[i]);
	assert_int_equal(response("HTTP/2.0 200 OK\r\n\r\n"), -ENOTSUP);
	assert_int_equal(response("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), -ENOSYS);
}

static void what_can_be_read_in_two_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(smuggling); i++) {
		const struct smuggling *s = &smuggling[i];
		int r;

		free(copy);
		r = parse(s->text, smuggling_len(s), true, &head, &copy);
		if (r != s->head)
			fail_msg("%s: %d instead of %d", s->name, r, s->head);
	}
}

/* A head is measured the same however it comes: never whole too early, and the same length. */
static void measured_byte_by_byte(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
	const char *why = NULL;
	size_t whole = strlen(text) - 3;

	(void)state;
	for (size_t len = 0; len < sizeof(text) - 1; len++)
		assert_int_equal(head_measure(text, len, &why), len < whole ? 0 : (long)whole);
}

static void bounds(void **state)
{
	static char text[HEAD_MAX + 64];
	const char *why = NULL;
	size_t len;

	(void)state;
	memset(text, 'a', HEAD_MAX + 2);
	assert_int_equal(head_measure(text, HEAD_MAX - 1, &why), 0);
	assert_int_equal(head_measure(text, HEAD_MAX, &why), -ENAMETOOLONG);
	memcpy(text, "GET / HTTP/1.1\r\nA: ", 19);
	assert_int_equal(head_measure(text, HEAD_MAX - 1, &why), 0);
	assert_int_equal(head_measure(text, HEAD_MAX, &why), -EMSGSIZE);
	/* The longest that there can be. */
	memcpy(text + HEAD_MAX - 13, "\r\nHost: a\r\n\r\n", 13);
	assert_int_equal(head_measure(text, HEAD_MAX + 2, &why), HEAD_MAX);
	assert_int_equal(head_parse_request(text, HEAD_MAX, &head, &why), 0);

	len = (size_t)sprintf(text, "GET /");
	memset(text + len, 'b', HEAD_TARGET);
	memcpy(text + len + HEAD_TARGET - 1, " HTTP/1.1\r\nHost: a\r\n\r\n", 23);
	assert_int_equal(request(text), 0);
	assert_int_equal(head.target.len, HEAD_TARGET);
	memcpy(text + len + HEAD_TARGET - 1, "b HTTP/1.1\r\nHost: a\r\n\r\n", 24);
	assert_int_equal(request(text), -ENAMETOOLONG);

	len = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (size_t i = 1; i < HEAD_FIELDS; i++)
		len += (size_t)sprintf(text + len, "A: b\r\n");
	strcpy(text + len, "\r\n");
	assert_int_equal(request(text), 0);
	assert_int_equal(head.field_count, HEAD_FIELDS);
	strcpy(text + len, "A: b\r\n\r\n");
	assert_int_equal(request(text), -EMSGSIZE);
}

/* --- chunks --- */

/* All of the body, in pieces of so many bytes; how much of the text was used, or -errno. */
static long decode(const char *text, size_t len, size_t step, char *ret_body, size_t *ret_len)
{
	struct chunked chunked = { 0 };
	size_t at = 0;

	*ret_len = 0;
	while (at < len && !chunked.is_done) {
		struct text piece;
		long n = chunked_take(&chunked, text + at, MIN(step, len - at), &piece);

		if (n < 0)
			return n;
		assert_true(n > 0);
		memcpy(ret_body + *ret_len, piece.data, piece.len);
		*ret_len += piece.len;
		at += (size_t)n;
	}
	return chunked.is_done ? (long)at : -EAGAIN;
}

static void chunks(void **state)
{
	static const char text[] = "3\r\nabc\r\n0A;x=\"y z\"\r\n0123456789\r\n1\r\n\n\r\n"
				   "000\r\nTrailer: b\r\nC:\r\n\r\nGET";
	char body[64];
	size_t len;

	(void)state;
	for (size_t step = 1; step < sizeof(text); step++) {
		assert_int_equal(decode(text, sizeof(text) - 1, step, body, &len),
				 sizeof(text) - 4);
		assert_int_equal(len, 14);
		assert_memory_equal(body, "abc0123456789\n", 14);
	}
	assert_int_equal(decode("3\r\nabc\r\n0\r\n", 11, 99, body, &len), -EAGAIN);
}

static void chunks_that_are_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(smuggling); i++) {
		const struct smuggling *s = &smuggling[i];
		const char *text = strstr(s->text, "\r\n\r\n") + 4;
		char body[64];
		size_t len;

		if (s->head != 0)
			continue;
		for (size_t step = 1; step < 20; step++) {
			long n = decode(text, strlen(text), step, body, &len);

			if (n != -EPROTO && n != -EMSGSIZE)
				fail_msg("%s: %ld", s->name, n);
		}
	}
}

static void chunks_with_too_much_around(void **state)
{
	static const char text[] = "1;abcdefg\r\nx\r\n";
	struct chunked chunked = { 0 };
	struct text piece;
	size_t count = 0;
	long n = 0;

	(void)state;
	/* Not only in one line: in the body as a whole. */
	while (n >= 0 && count < 100000) {
		n = chunked_take(&chunked, text, 14, &piece);
		while (n >= 0 && n < 14) {
			long more = chunked_take(&chunked, text + n, (size_t)(14 - n), &piece);

			n = more < 0 ? more : n + more;
		}
		count++;
	}
	assert_int_equal(n, -EMSGSIZE);
	assert_true(count > 1000 && count < 3000);
	chunked = (struct chunked){ 0 };
	n = chunked_take(&chunked, "0\r\n", 3, &piece);
	for (count = 0; n >= 0 && count < 100000; count++)
		n = chunked_take(&chunked, "a: b\r\n", 6, &piece);
	assert_int_equal(n, -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_request_is_taken_apart, forget),
		cmocka_unit_test_teardown(methods, forget),
		cmocka_unit_test_teardown(targets, forget),
		cmocka_unit_test_teardown(hosts, forget),
		cmocka_unit_test_teardown(connections, forget),
		cmocka_unit_test_teardown(expectations, forget),
		cmocka_unit_test_teardown(responses, forget),
		cmocka_unit_test_teardown(responses_that_are_none, forget),
		cmocka_unit_test_teardown(what_can_be_read_in_two_ways, forget),
		cmocka_unit_test_teardown(measured_byte_by_byte, forget),
		cmocka_unit_test_teardown(bounds, forget),
		cmocka_unit_test(chunks),
		cmocka_unit_test(chunks_that_are_none),
		cmocka_unit_test(chunks_with_too_much_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
