#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "egress/dns.h"
#include "egress_case.h"

#define ASK      "\1a\7example\0"
#define AT_ASK   "\xc0\x0c"
#define CNAME_IN "\0\5\0\1\0\0\0\x3c"
#define A_IN     "\0\1\0\1\0\0\0\x1e"
#define IP(last) "\0\4\x08\x08\x08" last

struct message {
	const char *flags, *answers;
	size_t len;
	unsigned char count, authorities;
};
#define MESSAGE(f, n, text)                                                            \
	{                                                                              \
		.flags = (f), .answers = (text), .len = sizeof(text) - 1, .count = (n) \
	}

static struct dns_ask ask_for(unsigned int type)
{
	struct dns_ask ask;

	assert_int_equal(dns_ask_init(&ask, 0x1234, "a.example", type, 0), 0);
	return ask;
}

/* Of a copy of just that size, so that reading beyond it is seen. */
static int parse(const struct dns_ask *ask, const void *data, size_t len, struct dns_answer *answer)
{
	void *copy = malloc(len ? len : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, data, len);
	r = dns_answer_parse(ask, copy, len, answer);
	free(copy);
	return r;
}

static int answer_to(const struct dns_ask *ask, const struct message *m, struct dns_answer *answer)
{
	_cleanup_(buf_done) struct buf buf = BUF(64 * KIB);

	buf_add(&buf, "\x12\x34", 2);
	buf_add(&buf, m->flags, 2);
	buf_add(&buf, (const char[]){ 0, 1, 0, (char)m->count, 0, (char)m->authorities, 0, 0 }, 8);
	buf_add(&buf, ask->question, ask->question_len);
	buf_add(&buf, m->answers, m->len);
	assert_int_equal(buf_failed(&buf), 0);
	return parse(ask, buf_text(&buf), buf.len, answer);
}

static void questions(void **state)
{
	static const char expected[] = "\x12\x34\1\0\0\1\0\0\0\0\0\1" ASK "\0\1\0\1"
				       "\0\0\x29\x04\xd0\0\0\0\0\0\0";
	static const char *const refused[] = {
		"", "a..b", "127.1", "A.example", "a.example.", "a b"
	};
	unsigned char out[DNS_ASK_MAX];
	struct dns_ask ask = ask_for(DNS_A);
	char name[NAME_SIZE];

	(void)state;
	assert_int_equal(dns_ask_message(&ask, out), sizeof(expected) - 1);
	assert_memory_equal(out, expected, sizeof(expected) - 1);
	assert_int_equal(dns_ask_init(&ask, 1, "a.example", DNS_A, UINT64_MAX), 0);
	assert_memory_equal(ask.question, "\1A\7EXAMPLE\0", 11);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(dns_ask_init(&ask, 1, refused[i], DNS_A, 0), -EINVAL);
	/* 253 bytes: the largest */
	memset(name, 'a', 253);
	name[63] = name[127] = name[191] = '.';
	name[253] = '\0';
	assert_int_equal(dns_ask_init(&ask, 1, name, DNS_A, 0), 0);
	assert_int_equal(ask.question_len, DNS_QUESTION_MAX);
	assert_int_equal(dns_ask_message(&ask, out), DNS_ASK_MAX);
}

static void answers(void **state)
{
	static const struct {
		struct message message;
		int r;
		enum dns_outcome outcome;
		size_t count, aliases;
		uint32_t ttl;
	} rows[] = {
		{ MESSAGE("\x81\x80", 1, AT_ASK A_IN IP("\x08")), 0, DNS_FOUND, 1, 0, 30 },
		{ MESSAGE("\x81\x80", 2, AT_ASK A_IN IP("\x08") AT_ASK A_IN IP("\x04")), 0,
		  DNS_FOUND, 2, 0, 30 },
		/* an alias, in either order; the smaller TTL */
		{ MESSAGE("\x81\x80", 2,
			  AT_ASK CNAME_IN "\0\4\1b\xc0\x0e"
					  "\1B\7Example\0" A_IN IP("\x08")),
		  0, DNS_FOUND, 1, 1, 30 },
		{ MESSAGE("\x81\x80", 2,
			  "\1b\7example\0" A_IN IP("\x08") AT_ASK CNAME_IN "\0\4\1b\xc0\x0e"),
		  0, DNS_FOUND, 1, 1, 30 },
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\4\1b\xc0\x0e"), 0, DNS_FOLLOW, 0, 1,
		  60 },
		{ MESSAGE("\x81\x83", 1, AT_ASK CNAME_IN "\0\4\1b\xc0\x0e"), 0, DNS_NO_NAME, 0, 1,
		  60 },
		{ { .flags = "\x81\x80",
		    .answers = AT_ASK CNAME_IN "\0\4\1b\xc0\x0e\xc0\x0e\0\6\0\1\0\0\0\0\0\0",
		    .len = 2 + 8 + 6 + 12,
		    .count = 1,
		    .authorities = 1 },
		  0,
		  DNS_NO_RECORD,
		  0,
		  1,
		  60 },
		{ MESSAGE("\x81\x80", 0, ""), 0, DNS_NO_RECORD, 0, 0, 0 },
		{ MESSAGE("\x81\x83", 0, ""), 0, DNS_NO_NAME, 0, 0, 0 },
		{ MESSAGE("\x81\x82", 0, ""), 0, DNS_FAILED, 0, 0, 0 },
		{ MESSAGE("\x81\x85", 1, AT_ASK A_IN IP("\x08")), 0, DNS_FAILED, 0, 0, 0 },
		{ MESSAGE("\x83\x80", 1, AT_ASK A_IN IP("\x08")), 0, DNS_TRUNCATED, 0, 0, 0 },
		/* names that are not in the chain, other types, other classes do not count */
		{ MESSAGE("\x81\x80", 1, "\1x\7example\0" A_IN IP("\x08")), 0, DNS_NO_RECORD, 0, 0,
		  0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK "\0\x10\0\1\0\0\0\0" IP("\x08")), 0, DNS_NO_RECORD,
		  0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK "\0\1\0\3\0\0\0\0" IP("\x08")), 0, DNS_NO_RECORD, 0,
		  0, 0 },
		{ MESSAGE("\x81\x80", 1, "\xc0\x0e" CNAME_IN "\0\4\1b\xc0\x0e"), 0, DNS_NO_RECORD,
		  0, 0, 0 },
		/* a negative TTL is none */
		{ MESSAGE("\x81\x80", 1, AT_ASK "\0\1\0\1\x80\0\0\0" IP("\x08")), 0, DNS_FOUND, 1,
		  0, 0 },
		/* loops */
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\2\xc0\x0c"), -ELOOP, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 2,
			  AT_ASK CNAME_IN "\0\4\1b\xc0\x0e"
					  "\1b\xc0\x0e" CNAME_IN "\0\2\xc0\x0c"),
		  -ELOOP, 0, 0, 0, 0 },
		/* wrong lengths, pointers that go forwards, to themselves or into the header */
		{ MESSAGE("\x81\x80", 1, AT_ASK A_IN "\0\5\x08\x08\x08\x08\x08"), -EBADMSG, 0, 0, 0,
		  0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK A_IN "\0\4\x08\x08\x08"), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 2, AT_ASK A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, "\xc0\x1b" A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, "\xc0\xff" A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, "\xc0\x04" A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\3\1b\xc0"), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\5\1b\xc0\x0ex"), -EBADMSG, 0, 0, 0,
		  0 },
		/* a target that is no name, or an address */
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\1\0"), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\5\3a.b\0"), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x81\x80", 1, AT_ASK CNAME_IN "\0\7\003127\0011\0"), -EBADMSG, 0, 0, 0,
		  0 },
		/* not an answer at all */
		{ MESSAGE("\x01\x80", 1, AT_ASK A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
		{ MESSAGE("\x89\x80", 1, AT_ASK A_IN IP("\x08")), -EBADMSG, 0, 0, 0, 0 },
	};
	struct dns_ask ask = ask_for(DNS_A);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct dns_answer answer = { .count = 99 };
		int r = answer_to(&ask, &rows[i].message, &answer);

		if (r != rows[i].r || (r < 0 && answer.count != 99))
			fail_msg("row %zu: %d", i, r);
		if (r == 0 && (answer.outcome != rows[i].outcome || answer.count != rows[i].count ||
			       answer.alias_count != rows[i].aliases || answer.ttl != rows[i].ttl))
			fail_msg("row %zu: outcome %d, %zu addresses, %zu aliases, ttl %u", i,
				 answer.outcome, answer.count, answer.alias_count, answer.ttl);
		for (size_t k = 0; r == 0 && k < answer.alias_count; k++)
			assert_string_equal(answer.alias[k], "b.example");
	}
}

static void another_question(void **state)
{
	static const char other[] =
		"\x12\x34\x81\x80\0\1\0\1\0\0\0\0\1A\7example\0\0\1\0\1" AT_ASK A_IN IP("\x08");
	char bytes[sizeof(other) - 1];
	struct dns_ask ask = ask_for(DNS_A);
	struct dns_answer answer;

	(void)state;
	/* In another case than was asked: a forgery, or a server to ask in lower case. */
	memcpy(bytes, other, sizeof(bytes));
	assert_int_equal(parse(&ask, bytes, sizeof(bytes), &answer), -EBADMSG);
	bytes[13] = 'a';
	assert_int_equal(parse(&ask, bytes, sizeof(bytes), &answer), 0);
	for (size_t i = 0; i < 27; i++) {
		bytes[i] ^= 0x11;
		if (i != 3) /* the code of the answer */
			assert_int_not_equal(parse(&ask, bytes, sizeof(bytes), &answer) == 0 &&
						     answer.outcome == DNS_FOUND &&
						     (i < 2 || i >= 12),
					     1);
		bytes[i] ^= 0x11;
	}
	for (size_t len = 0; len < sizeof(bytes); len++)
		assert_int_equal(parse(&ask, bytes, len, &answer), -EBADMSG);
}

/* A chain of so many aliases is followed, one more is not. */
static void long_chains(void **state)
{
	struct dns_ask ask = ask_for(DNS_A);
	struct dns_answer answer;

	(void)state;
	for (int links = DNS_CHAIN_MAX; links <= DNS_CHAIN_MAX + 1; links++) {
		_cleanup_(buf_done) struct buf buf = BUF(4096);
		char from[] = "\1a\7example", to[] = "\1b\7example";

		for (int i = 0; i < links; i++) {
			from[1] = (char)('a' + i);
			to[1] = (char)('a' + i + 1);
			buf_add(&buf, from, sizeof(from));
			buf_add(&buf, CNAME_IN "\0\013", 10);
			buf_add(&buf, to, sizeof(to));
		}
		buf_add(&buf, to, sizeof(to));
		buf_add(&buf, A_IN IP("\x08"), 14);
		assert_int_equal(answer_to(&ask,
					   &(struct message){ .flags = "\x81\x80",
							      .answers = buf_text(&buf),
							      .len = buf.len,
							      .count = (unsigned char)(links + 1) },
					   &answer),
				 links > DNS_CHAIN_MAX ? -ELOOP : 0);
	}
	assert_int_equal(answer.outcome, DNS_FOUND);
	assert_int_equal(answer.alias_count, DNS_CHAIN_MAX);
}

static void ipv6(void **state)
{
	static const struct message found = MESSAGE(
		"\x81\x80", 2,
		AT_ASK
		"\0\x1c\0\1\0\0\0\x05\0\x10\x26\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1" AT_ASK A_IN IP(
			"\x08"));
	struct dns_ask ask = ask_for(DNS_AAAA);
	struct dns_answer answer;

	(void)state;
	assert_int_equal(answer_to(&ask, &found, &answer), 0);
	assert_int_equal(answer.outcome, DNS_FOUND);
	assert_int_equal(answer.count, 1);
	assert_memory_equal(answer.addresses[0], case_address("2600::1", 0).ip, ADDRESS_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions),
		cmocka_unit_test(answers),
		cmocka_unit_test(another_question),
		cmocka_unit_test(long_chains),
		cmocka_unit_test(ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
