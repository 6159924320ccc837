#include "unit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "egress/hello.h"

/* Parts of a hello. */
#define U16(n) (char)((n) >> 8), (char)(n)

static void put(struct buf *buf, const void *data, size_t len)
{
	assert_int_equal(buf_add(buf, data, len), 0);
}

static void put16(struct buf *buf, size_t n)
{
	put(buf, (const char[]){ U16(n) }, 2);
}

static void put_extension(struct buf *buf, unsigned int type, const void *data, size_t len)
{
	put16(buf, type);
	put16(buf, len);
	put(buf, data, len);
}

static void put_name(struct buf *buf, const char *name)
{
	_cleanup_(buf_done) struct buf list = BUF(1024);

	put16(&list, strlen(name) + 3);
	put(&list, "", 1);
	put16(&list, strlen(name));
	put(&list, name, strlen(name));
	put_extension(buf, 0, buf_text(&list), list.len);
}

/* A handshake message out of extensions; NULL: none at all. */
static void put_hello(struct buf *buf, const struct buf *extensions)
{
	_cleanup_(buf_done) struct buf body = BUF(128 * KIB);
	char random[32] = "random";

	put(&body, "\x03\x03", 2);
	put(&body, random, 32);
	put(&body, "\x02ss", 3);
	put(&body, "\x00\x02\x13\x01", 4);
	put(&body, "\x01\x00", 2);
	if (extensions) {
		put16(&body, extensions->len);
		put(&body, buf_text(extensions), extensions->len);
	}
	put(buf, "\x01", 1);
	put(buf, (const char[]){ (char)(body.len >> 16) }, 1);
	put16(buf, body.len & 0xffff);
	put(buf, buf_text(&body), body.len);
}

/* The message in records of at most size bytes. */
static void put_records(struct buf *buf, const struct buf *message, size_t size)
{
	for (size_t at = 0; at < message->len; at += size) {
		size_t len = MIN(size, message->len - at);

		put(buf, "\x16\x03\x01", 3);
		put16(buf, len);
		put(buf, buf_text(message) + at, len);
	}
}

static struct first_bytes look(const struct buf *buf, size_t len)
{
	unsigned char *copy = malloc(len ? len : 1);
	struct first_bytes first;

	assert_non_null(copy);
	memcpy(copy, buf_text(buf), len);
	first_bytes_look(copy, len, &first);
	free(copy);
	return first;
}

static struct first_bytes look_at_extensions(const struct buf *extensions)
{
	_cleanup_(buf_done) struct buf message = BUF(128 * KIB), stream = BUF(256 * KIB);

	put_hello(&message, extensions);
	put_records(&stream, &message, 16384);
	return look(&stream, stream.len);
}

static struct first_bytes look_at_name(const char *name)
{
	_cleanup_(buf_done) struct buf extensions = BUF(1024);

	put_name(&extensions, name);
	return look_at_extensions(&extensions);
}

static void names(void **state)
{
	_cleanup_(buf_done) struct buf none = BUF(8);
	struct first_bytes first = look_at_name("Example.COM");

	(void)state;
	assert_int_equal(first.kind, FIRST_TLS);
	assert_string_equal(first.name, "example.com");
	assert_false(first.has_ech);
	assert_int_equal(look_at_extensions(&none).kind, FIRST_TLS_NO_NAME);
	assert_int_equal(look_at_extensions(NULL).kind, FIRST_TLS_NO_NAME);
	assert_int_equal(look_at_name("").kind, FIRST_BAD);
	assert_int_equal(look_at_name("127.0.0.1").kind, FIRST_BAD);
	assert_int_equal(look_at_name("::1").kind, FIRST_BAD);
	assert_int_equal(look_at_name("127.1").kind, FIRST_BAD);
	assert_int_equal(look_at_name("a b").kind, FIRST_BAD);
	assert_int_equal(look_at_name("a.example.").kind, FIRST_BAD);
	assert_int_equal(look_at_name("*.example").kind, FIRST_BAD);
}

/* Cut anywhere into records and into pieces of the stream, the answer is the same. */
static void split_hellos(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 4, 5, 7, 50, 16384 };
	_cleanup_(buf_done) struct buf extensions = BUF(1024), message = BUF(1024);

	(void)state;
	put_extension(&extensions, 0x0a0a, "", 0);
	put_name(&extensions, "split.example.com");
	put_extension(&extensions, 43, "\x04\x7a\x7a\x03\x04", 5);
	put_hello(&message, &extensions);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		_cleanup_(buf_done) struct buf stream = BUF(64 * KIB);
		struct first_bytes first;

		put_records(&stream, &message, sizes[i]);
		for (size_t len = 0; len < stream.len; len++) {
			first = look(&stream, len);
			assert_int_equal(first.kind, FIRST_MORE);
			assert_in_range(first.need, len + 1, stream.len);
		}
		first = look(&stream, stream.len);
		assert_int_equal(first.kind, FIRST_TLS);
		assert_string_equal(first.name, "split.example.com");
		/* What follows in records of its own (early data) does not matter. */
		put(&stream, "\x17\x03\x03\x00\x01x", 6);
		assert_int_equal(look(&stream, stream.len).kind, FIRST_TLS);
	}
}

static void large_hellos(void **state)
{
	static const struct {
		size_t padding, record;
		enum first_kind kind;
	} rows[] = {
		{ 1500, 16384, FIRST_TLS }, { 60000, 16384, FIRST_TLS },
		{ 60000, 100, FIRST_TLS },  { 60000, 50, FIRST_BAD }, /* too many records */
		{ 500, 1, FIRST_TLS },
	};
	static const char zeroes[60000];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_(buf_done) struct buf extensions = BUF(64 * KIB), message = BUF(128 * KIB),
					       stream = BUF(512 * KIB);

		put_extension(&extensions, 21, zeroes, rows[i].padding);
		put_name(&extensions, "large.example");
		put_hello(&message, &extensions);
		put_records(&stream, &message, rows[i].record);
		assert_int_equal(look(&stream, stream.len).kind, rows[i].kind);
	}
}

static void extensions_twice(void **state)
{
	_cleanup_(buf_done) struct buf two = BUF(1024), grease = BUF(1024), many = BUF(4096);

	(void)state;
	put_name(&two, "a.example");
	put_name(&two, "b.example");
	assert_int_equal(look_at_extensions(&two).kind, FIRST_BAD);
	put_extension(&grease, 0x0a0a, "", 0);
	put_extension(&grease, 0x0a0a, "", 0);
	assert_int_equal(look_at_extensions(&grease).kind, FIRST_BAD);
	for (unsigned int i = 1; i < 300; i++)
		put_extension(&many, i, "", 0);
	assert_int_equal(look_at_extensions(&many).kind, FIRST_BAD);
}

static void malformed_names(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} rows[] = {
		{ "", 0 },
		{ "\0", 1 },
		{ "\0\0", 2 },
		{ "\0\x04\0\0\x01"
		  "a!",
		  7 }, /* more than the list */
		{ "\0\x05\0\0\x01"
		  "a!",
		  7 }, /* a piece of another entry */
		{ "\0\x04\x01\0\x01"
		  "a",
		  6 }, /* another kind */
		{ "\0\x09\0\0\x01"
		  "a\0\0\x02"
		  "bc",
		  11 }, /* two names */
		{ "\0\x04\0\0\x02"
		  "a",
		  6 }, /* longer than the list */
		{ "\0\x05\0\0\x02"
		  "a\0",
		  7 }, /* NUL */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_(buf_done) struct buf extensions = BUF(1024);

		put_extension(&extensions, 0, rows[i].data, rows[i].len);
		if (look_at_extensions(&extensions).kind != FIRST_BAD)
			fail_msg("row %zu", i);
	}
}

static void encrypted_hello(void **state)
{
	_cleanup_(buf_done) struct buf extensions = BUF(1024);
	struct first_bytes first;

	(void)state;
	put_extension(&extensions, 0xfe0d, "\0", 1);
	put_name(&extensions, "outer.example");
	first = look_at_extensions(&extensions);
	assert_int_equal(first.kind, FIRST_TLS);
	assert_true(first.has_ech);
	assert_string_equal(first.name, "outer.example");
}

static void malformed_records(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} rows[] = {
		{ "\x16\x02\x01\x00\x01", 5 },               /* version */
		{ "\x16\x03\x01\x00\x00", 5 },               /* empty */
		{ "\x16\x03\x01\x40\x01", 5 },               /* too long */
		{ "\x16\x03\x01\x00\x04\x02\0\0\x01", 9 },   /* not a client hello */
		{ "\x16\x03\x01\x00\x04\x01\x01\0\x01", 9 }, /* a hello of more than 64 KiB */
		{ "\x16\x03\x01\x00\x04\x01\0\0\0", 9 },     /* an empty hello */
		{ "\x16\x03\x01\x00\x02\x01\0\x17\x03\x03\0\1",
		  12 },                                       /* another record in between */
		{ "\x16\x03\x01\x00\x06\x01\0\0\x01xx", 11 }, /* something behind the hello */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct first_bytes first;

		first_bytes_look(rows[i].data, rows[i].len, &first);
		if (first.kind != FIRST_BAD)
			fail_msg("row %zu: %d", i, first.kind);
	}
}

/* A good hello with another message in its record: a server might take it for a second hello. */
static void message_behind(void **state)
{
	_cleanup_(buf_done) struct buf extensions = BUF(1024), message = BUF(1024),
				       stream = BUF(4096);

	(void)state;
	put_name(&extensions, "a.example");
	put_hello(&message, &extensions);
	put_hello(&message, NULL);
	put_records(&stream, &message, 16384);
	assert_int_equal(look(&stream, stream.len).kind, FIRST_BAD);
	buf_reset(&stream);
	put_records(&stream, &message, 40);
	assert_int_equal(look(&stream, stream.len).kind, FIRST_BAD);
}

/* Any byte changed or any field cut: an answer, and never another name than the one that is there. */
static void changed_hellos(void **state)
{
	_cleanup_(buf_done) struct buf extensions = BUF(1024), message = BUF(1024),
				       stream = BUF(4096);

	(void)state;
	put_name(&extensions, "a.example");
	put_hello(&message, &extensions);
	put_records(&stream, &message, 16384);
	for (size_t i = 0; i < stream.len; i++)
		for (int value = 0; value < 256; value += 5) {
			char was = stream.data[i];
			struct first_bytes first;

			stream.data[i] = (char)value;
			first = look(&stream, stream.len);
			stream.data[i] = was;
			if (first.kind == FIRST_TLS)
				assert_int_equal(strlen(first.name), 9);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(split_hellos),
		cmocka_unit_test(large_hellos),
		cmocka_unit_test(extensions_twice),
		cmocka_unit_test(malformed_names),
		cmocka_unit_test(encrypted_hello),
		cmocka_unit_test(malformed_records),
		cmocka_unit_test(changed_hellos),
		cmocka_unit_test(message_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
