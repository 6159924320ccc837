#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macro.h"
#include "egress/dns.h"
#include "egress_case.h"

#define HEAD(flags, qd, an, ns, ar) "\x12\x34" flags "\0" qd "\0" an "\0" ns "\0" ar
#define RD                          "\x01\x00"
#define QUESTION                    "\3wWw\7eXample\3com\0"
#define A_IN                        "\0\1\0\1"
#define OPT                         "\0\0\x29\x04\xd0\0\0\0\0\0\0"
#define L63                         "\77a23456789012345678901234567890123456789012345678901234567890123"
#define L61                         "\75a234567890123456789012345678901234567890123456789012345678901"

#define BYTES(text) text, sizeof(text) - 1

/* From a copy of just that size, so that reading beyond it is seen. */
static int parse(const void *data, size_t len, struct dns_query *ret_query)
{
	void *copy = malloc(len ? len : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, data, len);
	r = dns_query_parse(copy, len, ret_query);
	free(copy);
	return r;
}

static void queries(void **state)
{
	struct dns_query query;

	(void)state;
	assert_int_equal(parse(BYTES(HEAD(RD, "\1", "\0", "\0", "\0") QUESTION A_IN), &query), 0);
	assert_int_equal(query.rcode, DNS_NOERROR);
	assert_int_equal(query.id, 0x1234);
	assert_int_equal(query.type, DNS_A);
	assert_true(query.wants_recursion);
	assert_false(query.has_edns);
	assert_int_equal(query.udp_size, 512);
	assert_string_equal(query.name, "www.example.com");
	assert_int_equal(query.question_len, sizeof(QUESTION A_IN) - 1);
	assert_memory_equal(query.question, QUESTION A_IN, query.question_len);

	assert_int_equal(
		parse(BYTES(HEAD("\x01\x20", "\1", "\0", "\0", "\1") QUESTION "\0\x41\0\1" OPT),
		      &query),
		0);
	assert_int_equal(query.rcode, DNS_NOERROR);
	assert_int_equal(query.type, 65);
	assert_true(query.has_edns);
	assert_int_equal(query.udp_size, DNS_UDP_MAX);
}

static void refused_queries(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		enum dns_rcode rcode;
	} rows[] = {
		{ BYTES(HEAD(RD, "\0", "\0", "\0", "\0")), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\2", "\0", "\0", "\0") QUESTION A_IN QUESTION A_IN),
		  DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\1", "\0", "\0") QUESTION A_IN), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\1", "\0") QUESTION A_IN), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\1") QUESTION A_IN), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\2") QUESTION A_IN OPT OPT), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") QUESTION A_IN "x"), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") QUESTION "\0\1\0"), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\3www"), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\xc0\x0c" A_IN), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\1a\xc0\x0c" A_IN), DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\x40"
							 "a\0" A_IN),
		  DNS_FORMERR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\x80"
							 "a\0" A_IN),
		  DNS_FORMERR },
		{ BYTES(HEAD("\x03\x00", "\1", "\0", "\0", "\0") QUESTION A_IN), DNS_FORMERR },
		{ BYTES(HEAD("\x11\x00", "\1", "\0", "\0", "\0") QUESTION A_IN), DNS_NOTIMP },
		{ BYTES(HEAD("\x29\x00", "\1", "\0", "\0", "\0") QUESTION A_IN), DNS_NOTIMP },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") QUESTION "\0\1\0\3"), DNS_REFUSED },
		/* the root, a dot and a NUL inside a label, addresses */
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\0\0\2\0\1"), DNS_NXDOMAIN },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\013example.com\0" A_IN), DNS_NXDOMAIN },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\3a\0b\3com\0" A_IN), DNS_NXDOMAIN },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\003127\0010\0010\0011\0" A_IN),
		  DNS_NXDOMAIN },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") "\0040x7f\0011\0" A_IN), DNS_NXDOMAIN },
		/* names of 253 and 254 bytes, labels of 63 */
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") L63 L63 L63 L61 "\0" A_IN), DNS_NOERROR },
		{ BYTES(HEAD(RD, "\1", "\0", "\0", "\0") L63 L63 L63 L63 "\0" A_IN), DNS_FORMERR },
	};
	struct dns_query query;
	unsigned char out[DNS_REPLY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct dns_reply reply;

		assert_int_equal(parse(rows[i].data, rows[i].len, &query), 0);
		if (query.rcode != rows[i].rcode)
			fail_msg("row %zu: %d", i, query.rcode);
		assert_int_equal(query.name[0] == '\0', query.rcode != DNS_NOERROR);
		reply = (struct dns_reply){ .rcode = query.rcode };
		assert_in_range(dns_reply(&query, &reply, out, query.udp_size), DNS_HEADER, 512);
		assert_int_equal(out[3] & 15, rows[i].rcode);
	}
}

static void silence(void **state)
{
	static const char response[] = HEAD("\x81\x80", "\1", "\0", "\0", "\0") QUESTION A_IN;
	struct dns_query query = { .id = 7 };

	(void)state;
	for (size_t len = 0; len < DNS_HEADER; len++)
		assert_int_equal(parse(response, len, &query), -EBADMSG);
	assert_int_equal(parse(BYTES(response), &query), -EBADMSG);
	assert_int_equal(query.id, 7);
}

static void replies(void **state)
{
	static const unsigned char expected[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\1" QUESTION A_IN
						"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x08\x08\x08\x08"
						"\0\0\x29\x04\xd0\0\0\0\0\0\0";
	unsigned char addresses[2][ADDRESS_BYTES], out[DNS_REPLY_MAX];
	struct dns_reply reply = { .addresses = (const unsigned char(*)[ADDRESS_BYTES])addresses,
				   .count = 2,
				   .ttl = 60 };
	struct dns_query query;
	int len;

	(void)state;
	memcpy(addresses[0], case_address("2600::1", 0).ip, ADDRESS_BYTES);
	memcpy(addresses[1], case_address("8.8.8.8", 0).ip, ADDRESS_BYTES);
	assert_int_equal(parse(BYTES(HEAD(RD, "\1", "\0", "\0", "\1") QUESTION A_IN OPT), &query),
			 0);
	len = dns_reply(&query, &reply, out, query.udp_size);
	assert_int_equal(len, sizeof(expected) - 1);
	assert_memory_equal(out, expected, len);

	/* Refused: nothing but the question, with RA, whatever addresses are at hand. */
	reply.rcode = DNS_NXDOMAIN;
	len = dns_reply(&query, &reply, out, query.udp_size);
	assert_int_equal(len, sizeof(expected) - 1 - 16);
	assert_memory_equal(out + 2, "\x81\x83\0\1\0\0\0\0\0\1", 10);

	assert_int_equal(dns_reply(&query, &reply, out, 20), -ENOSPC);
}

static void truncated_replies(void **state)
{
	static unsigned char addresses[DNS_ADDRESSES_MAX + 8][ADDRESS_BYTES];
	struct dns_reply reply = { .addresses = (const unsigned char(*)[ADDRESS_BYTES])addresses,
				   .count = DNS_ADDRESSES_MAX };
	unsigned char *out = malloc(DNS_REPLY_MAX);
	struct dns_query query;
	int len;

	(void)state;
	assert_non_null(out);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		memcpy(addresses[i], case_address("2600::1", 0).ip, ADDRESS_BYTES);
	assert_int_equal(
		parse(BYTES(HEAD(RD, "\1", "\0", "\0", "\0") QUESTION "\0\x1c\0\1"), &query), 0);
	len = dns_reply(&query, &reply, out, query.udp_size);
	assert_in_range(len, 400, 512);
	assert_true(out[2] & 2);
	len = dns_reply(&query, &reply, out, DNS_REPLY_MAX);
	assert_false(out[2] & 2);
	assert_int_equal(out[7], DNS_ADDRESSES_MAX);
	reply.count = ARRAY_SIZE(addresses);
	assert_in_range(dns_reply(&query, &reply, out, SIZE_MAX), 900, DNS_REPLY_MAX);
	free(out);
}

static void over_tcp(void **state)
{
	unsigned char stream[2 + 12] = { 0, 12 }, prefix[2];
	size_t len = 0;

	(void)state;
	for (size_t have = 0; have < sizeof(stream); have++)
		assert_int_equal(dns_tcp_look(stream, have, &len), 0);
	assert_int_equal(dns_tcp_look(stream, sizeof(stream), &len), 1);
	assert_int_equal(len, 12);
	stream[1] = 11;
	assert_int_equal(dns_tcp_look(stream, 2, &len), -EBADMSG);
	dns_tcp_prefix(0x1234, prefix);
	assert_memory_equal(prefix, "\x12\x34", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queries),           cmocka_unit_test(refused_queries),
		cmocka_unit_test(silence),           cmocka_unit_test(replies),
		cmocka_unit_test(truncated_replies), cmocka_unit_test(over_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
