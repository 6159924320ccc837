#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "http/websocket.h"

#define LONGEST (64 * KIB)

/* A client's frame: masked, in the shortest form. */
static void add_frame(struct buf *buf, unsigned int first, const char *data, size_t len)
{
	static const unsigned char mask[4] = { 0x37, 0xfa, 0x21, 0x3d };

	buf_char(buf, (char)first);
	if (len < 126) {
		buf_char(buf, (char)(0x80 | len));
	} else if (len <= UINT16_MAX) {
		buf_char(buf, (char)(0x80 | 126));
		buf_char(buf, (char)(len >> 8));
		buf_char(buf, (char)len);
	} else {
		buf_char(buf, (char)(0x80 | 127));
		for (int i = 7; i >= 0; i--)
			buf_char(buf, (char)((uint64_t)len >> (8 * i)));
	}
	buf_add(buf, mask, 4);
	for (size_t i = 0; i < len; i++)
		buf_char(buf, (char)(data[i] ^ mask[i & 3]));
	assert_int_equal(buf_failed(buf), 0);
}

/* All messages of some bytes, given in pieces of so many: "kind:len:content;" each, and the end. */
static int read_all(const struct buf *bytes, size_t piece, struct buf *log)
{
	struct websocket_message m;
	struct websocket ws;
	int r = 0;

	websocket_init(&ws, LONGEST);
	for (size_t at = 0; at < bytes->len && r >= 0; at += piece) {
		size_t len = MIN(piece, bytes->len - at);
		char *exact = malloc(len); /* so that a sanitizer sees a read too far */
		const char *data = exact;

		assert_non_null(exact);
		memcpy(exact, bytes->data + at, len);
		while ((r = websocket_next(&ws, &data, &len, &m)) > 0) {
			buf_printf(log, "%d:%zu:", (int)m.kind, m.len);
			buf_add(log, m.data, m.len);
			buf_printf(log, ":%u;", m.code);
		}
		free(exact);
	}
	websocket_done(&ws);
	return r;
}

static void expect(const struct buf *bytes, int r, const char *said)
{
	static const size_t pieces[] = { 1, 2, 3, 7, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct buf log = BUF(4 * MIB);

		assert_int_equal(read_all(bytes, pieces[i], &log), r);
		if (said)
			assert_string_equal(buf_text(&log), said);
		buf_done(&log);
	}
}

static void opening(void **state)
{
	static const char good[] = "GET /x HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n"
				   "Connection: keep-alive, Upgrade\r\n"
				   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
				   "Sec-WebSocket-Protocol: chat, brig.terminal ,x\r\n"
				   "Sec-WebSocket-Version: 13\r\n\r\n";
	static const struct {
		const char *from, *to;
		int r;
	} changes[] = {
		{ "Version: 13", "Version: 8", -EPROTONOSUPPORT },
		{ "Upgrade: WebSocket", "Upgrade: h2c", -EINVAL },
		{ "keep-alive, Upgrade", "keep-alive", -EINVAL },
		{ "bm9uY2U=", "", 0 }, /* not in it: the good one again */
		{ "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZR==", -EINVAL },
		{ "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j", -EINVAL },
		{ "dGhlIHNhbXBsZSBub25jZQ==", "dGhl HNhbXBsZSBub25jZQ==", -EINVAL },
		{ "GET", "POST", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		char text[1024], accept[WEBSOCKET_ACCEPT_SIZE] = "";
		const char *at = strstr(good, changes[i].from), *why = NULL;
		struct head *head = calloc(1, sizeof(*head));

		assert_non_null(head);
		if (at)
			snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good,
				 changes[i].to, at + strlen(changes[i].from));
		else
			snprintf(text, sizeof(text), "%s", good);
		assert_int_equal(head_parse_request(text, strlen(text), head, &why), 0);
		assert_int_equal(websocket_check(head, accept, &why), changes[i].r);
		if (changes[i].r == 0) {
			assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
			assert_true(websocket_offers(head, "brig.terminal"));
			assert_true(websocket_offers(head, "chat"));
			assert_false(websocket_offers(head, "brig"));
			assert_false(websocket_offers(head, "Chat"));
		} else {
			assert_non_null(why);
		}
		free(head);
	}
}

static void messages(void **state)
{
	struct buf bytes = BUF(MIB);

	(void)state;
	add_frame(&bytes, 0x81, "Hello", 5);
	add_frame(&bytes, 0x82, "", 0);
	/* In pieces, with a ping between them. */
	add_frame(&bytes, 0x01, "ab", 2);
	add_frame(&bytes, 0x89, "p", 1);
	add_frame(&bytes, 0x00, "", 0);
	add_frame(&bytes, 0x80, "c\xc3\xa9", 3);
	add_frame(&bytes, 0x8a, "", 0);
	add_frame(&bytes, 0x88,
		  "\x03\xe8"
		  "bye",
		  5);
	/* Nothing behind the end is read. */
	add_frame(&bytes, 0x81, "late", 4);
	expect(&bytes, 0, "1:5:Hello:0;2:0::0;9:1:p:0;1:5:abc\xc3\xa9:0;10:0::0;8:3:bye:1000;");
	buf_reset(&bytes);
	add_frame(&bytes, 0x88, "", 0);
	expect(&bytes, 0, "8:0::1005;");
	buf_done(&bytes);
}

/* The lengths around which the form changes. */
static void lengths(void **state)
{
	static const size_t sizes[] = { 125, 126, 127, 65535, 65536 };
	char *content = calloc(1, LONGEST + 1);

	(void)state;
	assert_non_null(content);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct buf bytes = BUF(MIB), log = BUF(MIB);
		char head[16];

		add_frame(&bytes, 0x82, content, sizes[i]);
		assert_int_equal(read_all(&bytes, 4096, &log), 0);
		snprintf(head, sizeof(head), "2:%zu:", sizes[i]);
		assert_memory_equal(log.data, head, strlen(head));
		buf_done(&bytes);
		buf_done(&log);
	}
	free(content);
}

static void breaches(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int r;
	} cases[] = {
		{ "\x81\x05Hello", 7, -EPROTO },                     /* no mask */
		{ "\xc1\x80\0\0\0\0", 6, -EPROTO },                  /* a reserved bit */
		{ "\x83\x80\0\0\0\0", 6, -EPROTO },                  /* a kind that is none */
		{ "\x80\x80\0\0\0\0", 6, -EPROTO },                  /* more of nothing */
		{ "\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 12, -EPROTO }, /* a new one in pieces */
		{ "\x09\x80\0\0\0\0", 6, -EPROTO },                  /* a ping in pieces */
		{ "\x89\xfe\x00\x7e\0\0\0\0", 8, -EPROTO },          /* a ping too long */
		{ "\x82\xfe\x00\x7d\0\0\0\0", 8, -EPROTO },          /* 125 in the longer form */
		{ "\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 14, -EPROTO }, /* 65535 in the longest */
		{ "\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 14, -EPROTO },   /* more than 63 bits */
		{ "\x82\xff\0\0\0\0\0\1\0\1\0\0\0\0", 14, -EMSGSIZE },   /* 65537 */
		{ "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, -EMSGSIZE },
		{ "\x81\x81\0\0\0\0\xff", 7, -EILSEQ },                  /* no UTF-8 */
		{ "\x01\x81\0\0\0\0\xc3\x80\x80\0\0\0\0", 13, -EILSEQ }, /* half a character */
		{ "\x88\x81\0\0\0\0\x03", 7, -EPROTO },                  /* half a code */
		{ "\x88\x82\0\0\0\0\x03\xed", 8, -EPROTO },              /* 1005 is never sent */
		{ "\x88\x82\0\0\0\0\x00\x01", 8, -EPROTO },
		{ "\x88\x83\0\0\0\0\x03\xe8\xff", 9, -EILSEQ },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf bytes = BUF(1024);

		assert_int_equal(buf_add(&bytes, cases[i].bytes, cases[i].len), 0);
		expect(&bytes, cases[i].r, NULL);
		assert_true(websocket_code(cases[i].r) >= WEBSOCKET_PROTOCOL);
		buf_done(&bytes);
	}
}

/* All the pieces of a message together are bounded. */
static void bounded(void **state)
{
	struct buf bytes = BUF(4 * MIB), log = BUF(MIB);
	char *content = calloc(1, 40000);

	(void)state;
	assert_non_null(content);
	add_frame(&bytes, 0x02, content, 40000);
	add_frame(&bytes, 0x00, content, 25000);
	add_frame(&bytes, 0x80, content, 40000);
	assert_int_equal(read_all(&bytes, 1000, &log), -EMSGSIZE);
	assert_int_equal(log.len, 0);
	buf_done(&bytes);
	buf_done(&log);
	free(content);
}

static void our_frames(void **state)
{
	static const struct {
		uint64_t len;
		const char *head;
		size_t size;
	} cases[] = {
		{ 0, "\x82\0", 2 },
		{ 125, "\x82\x7d", 2 },
		{ 126, "\x82\x7e\0\x7e", 4 },
		{ 65535, "\x82\x7e\xff\xff", 4 },
		{ 65536, "\x82\x7f\0\0\0\0\0\1\0\0", 10 },
	};
	char content[WEBSOCKET_CONTROL_MAX], words[200];
	unsigned char head[WEBSOCKET_HEAD_MAX];
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(websocket_head(WEBSOCKET_BINARY, cases[i].len, head),
				 cases[i].size);
		assert_memory_equal(head, cases[i].head, cases[i].size);
	}
	assert_int_equal(websocket_goodbye(WEBSOCKET_NORMAL, "ok", content), 4);
	assert_memory_equal(content, "\x03\xe8ok", 4);
	/* Cut between characters, of which each has two bytes. */
	for (size_t i = 0; i < 198; i += 2)
		memcpy(words + i, "\xc3\xa9", 3);
	len = websocket_goodbye(WEBSOCKET_FAILED, words, content);
	assert_int_equal(len, 124);
	assert_true(is_utf8(content + 2, len - 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening), cmocka_unit_test(messages),
		cmocka_unit_test(lengths), cmocka_unit_test(breaches),
		cmocka_unit_test(bounded), cmocka_unit_test(our_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
