#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/buf.h"
#include "http/gunzip.h"

/* Packs as one member. */
static size_t pack(const char *data, size_t len, char *ret, size_t size)
{
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (uInt)len;
	z.next_out = (unsigned char *)ret;
	z.avail_out = (uInt)size;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	size = z.total_out;
	deflateEnd(&z);
	return size;
}

static int unpack(const char *data, size_t len, size_t step, struct buf *out)
{
	struct gunzip *g;
	struct text piece;
	int r = gunzip_new(&g);

	assert_int_equal(r, 0);
	for (size_t at = 0; r >= 0 && at < len; at += step) {
		size_t n = MIN(step, len - at), left = n;
		_cleanup_free_ char *copy = malloc(n);
		const char *p = copy;

		memcpy(copy, data + at, n);
		while ((r = gunzip_next(g, &p, &left, &piece)) > 0) {
			assert_true(piece.len > 0);
			buf_add(out, piece.data, piece.len);
		}
		assert_true(r < 0 || left == 0);
	}
	r = r < 0 ? r : gunzip_finish(g);
	gunzip_free(g);
	return r;
}

static void members(void **state)
{
	char packed[200];
	size_t len = pack("one, ", 5, packed, sizeof(packed));

	(void)state;
	len += pack("", 0, packed + len, sizeof(packed) - len);
	len += pack("two", 3, packed + len, sizeof(packed) - len);
	for (size_t step = 1; step <= len; step++) {
		_cleanup_(buf_done) struct buf out = BUF(100);

		assert_int_equal(unpack(packed, len, step, &out), 0);
		assert_string_equal(buf_text(&out), "one, two");
	}
}

/* Much out of little comes piece by piece. */
static void much(void **state)
{
	size_t size = 50 * MIB;
	_cleanup_free_ char *data = calloc(1, size);
	_cleanup_free_ char *packed = malloc(MIB);
	_cleanup_(buf_done) struct buf out = BUF(64 * MIB);
	size_t len = pack(data, size, packed, MIB);

	(void)state;
	assert_int_equal(unpack(packed, len, 1000, &out), 0);
	assert_int_equal(out.len, size);
}

static void refused(void **state)
{
	char packed[200];
	size_t len = pack("some text", 9, packed, sizeof(packed) - 10);
	_cleanup_(buf_done) struct buf out = BUF(1000);

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(unpack(packed, cut, 7, &out), -EPROTO);
	memcpy(packed + len, "rest", 4);
	assert_int_equal(unpack(packed, len + 4, 100, &out), -EPROTO);
	assert_int_equal(unpack("plain text", 10, 100, &out), -EPROTO);
	packed[len - 5] ^= 1; /* of the sum */
	assert_int_equal(unpack(packed, len, 100, &out), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members),
		cmocka_unit_test(much),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
