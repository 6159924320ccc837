#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "egress/hello.h"

/* From a copy of just that size, so that reading beyond it is seen. */
static struct first_bytes look(const void *data, size_t len)
{
	unsigned char *copy = malloc(len ? len : 1);
	struct first_bytes first;

	assert_non_null(copy);
	memcpy(copy, data, len);
	first_bytes_look(copy, len, &first);
	free(copy);
	return first;
}

/* Every beginning asks for more, and not for more than there is to come. */
static struct first_bytes look_in_pieces(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		struct first_bytes first = look(data, i);

		if (first.kind != FIRST_MORE || first.need <= i || first.need > len)
			fail_msg("after %zu bytes of \"%s\": kind %d, need %zu", i, data,
				 first.kind, first.need);
	}
	return look(data, len);
}

static void requests_with_a_host(void **state)
{
	static const struct {
		const char *text, *name;
		unsigned int port;
	} rows[] = {
		{ "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 0 },
		{ "GET / HTTP/1.1\r\nhOST:Example.COM:8080\r\n\r\n", "example.com", 8080 },
		{ "POST /a?b HTTP/1.0\r\nA: b\r\nHost: \t example.com. \t\r\n\r\n", "example.com",
		  0 },
		{ "OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 0 },
		{ "M-SEARCH * HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", 0 },
		{ "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com",
		  0 },
		{ "GET HTTPS://Example.com:1?x HTTP/1.1\r\nHost: example.com:1\r\n\r\n",
		  "example.com", 1 },
		{ "GET http://example.com/ HTTP/1.0\r\n\r\n", "example.com", 0 },
		{ "GET /\xc3\xa4 HTTP/1.1\r\nX-Y: \xff\r\nHost: a\r\n\r\n", "a", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct first_bytes first = look_in_pieces(rows[i].text, strlen(rows[i].text));

		if (first.kind != FIRST_HTTP)
			fail_msg("%s: %d %s", rows[i].text, first.kind, first.wrong);
		assert_string_equal(first.name, rows[i].name);
		assert_int_equal(first.port, rows[i].port);
		assert_false(first.is_address);
	}
}

static void hosts_that_are_addresses(void **state)
{
	static const char v4[] = "GET / HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n";
	static const char v6[] = "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n";
	struct first_bytes first = look(v4, strlen(v4));
	char text[ADDRESS_TEXT_SIZE];

	(void)state;
	assert_int_equal(first.kind, FIRST_HTTP);
	assert_true(first.is_address);
	address_text(&first.address, text);
	assert_string_equal(text, "192.0.2.1");
	first = look(v6, strlen(v6));
	assert_true(first.is_address);
	address_text(&first.address, text);
	assert_string_equal(text, "2001:db8::1");
	assert_int_equal(first.port, 80);
	assert_string_equal(first.name, "");
}

/* What one server forgives and another does not. */
static void malformed_requests(void **state)
{
	static const char *const rows[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nX: a\nHost: b\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nX: a\rHost: b\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 127.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 0x7f000001\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: fe80::1:80\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: []\r\n\r\n",
		"GET / HTTP/1.1\r\nno colon\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\n: a\r\nHost: a\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
		"GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a HTTP/1.1\r\n\r\n",
		"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
		"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nX: \x7f\r\nHost: a\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct first_bytes first = look(rows[i], strlen(rows[i]));

		if (first.kind != FIRST_BAD || !first.wrong || first.name[0])
			fail_msg("%s: %d", rows[i], first.kind);
	}
	assert_int_equal(look("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 30).kind, FIRST_BAD);
}

static void without_a_name(void **state)
{
	static const char old[] = "GET / HTTP/1.0\r\nA: b\r\n\r\n";
	static const char http2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

	(void)state;
	assert_int_equal(look(old, strlen(old)).kind, FIRST_HTTP_NO_NAME);
	assert_int_equal(look(http2, strlen(http2)).kind, FIRST_HTTP_NO_NAME);
}

static void other_protocols(void **state)
{
	static const char *const rows[] = {
		"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
		"EHLO a\r\n\r\n",
		"PING\r\n",
		"*1\r\n$4\r\nPING\r\n",
		"get / HTTP/1.1\r\n\r\n",
		"GET /\r\n\r\n",
		"GET / HTTP/3.0\r\n\r\n",
		"GET  / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1 \r\n\r\n",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"\x01\x02",
		"\r\nGET / HTTP/1.1\r\n\r\n",
		"\xff\xff\xff\xff",
		"{\"a\":1}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (look(rows[i], strlen(rows[i])).kind != FIRST_OTHER)
			fail_msg("%s: %d", rows[i], look(rows[i], strlen(rows[i])).kind);
	assert_int_equal(look("\x80\x2e\x01\x03\x01", 5).kind, FIRST_BAD);
	assert_int_equal(look("\x80\x2e", 2).kind, FIRST_MORE);
	assert_int_equal(look("", 0).kind, FIRST_MORE);
}

static void bounds(void **state)
{
	char *big = malloc(FIRST_BYTES_MAX);
	int n;

	(void)state;
	assert_non_null(big);
	n = sprintf(big, "GET /");
	memset(big + n, 'a', (size_t)(FIRST_BYTES_MAX - n));
	assert_int_equal(look(big, FIRST_HEAD_MAX - 1).kind, FIRST_MORE);
	assert_int_equal(look(big, FIRST_HEAD_MAX).kind, FIRST_BAD);
	n = sprintf(big, "GET / HTTP/1.1\r\n");
	for (int i = 0; i < 300; i++)
		n += sprintf(big + n, "A:\r\n");
	assert_int_equal(look(big, (size_t)n).kind, FIRST_BAD);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_with_a_host), cmocka_unit_test(hosts_that_are_addresses),
		cmocka_unit_test(malformed_requests),   cmocka_unit_test(without_a_name),
		cmocka_unit_test(other_protocols),      cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
