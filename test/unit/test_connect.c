#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "http/connect.h"

/* Three messages, one of them empty, cut into pieces of every length. */
static void cuts(void **state)
{
	static const char stream[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\5hello";
	static const char *const wanted[] = { "abc", "", "hello" };

	(void)state;
	for (size_t step = 1; step < sizeof(stream); step++) {
		struct connect_reader r;
		size_t count = 0;

		connect_reader_init(&r, 5);
		for (size_t at = 0; at < sizeof(stream) - 1; at += step) {
			size_t len = MIN(step, sizeof(stream) - 1 - at);
			const char *data = stream + at;
			struct text message;
			int got;

			while ((got = connect_read(&r, &data, &len, &message)) > 0) {
				assert_int_equal(message.len, strlen(wanted[count]));
				assert_memory_equal(message.data, wanted[count], message.len);
				count++;
			}
			assert_int_equal(got, 0);
			assert_int_equal(len, 0);
		}
		assert_int_equal(count, 3);
		assert_int_equal(connect_finish(&r), 0);
		connect_reader_done(&r);
	}
}

static int read_all(const char *stream, size_t len, size_t max)
{
	struct connect_reader r;
	struct text message;
	int got;

	connect_reader_init(&r, max);
	while ((got = connect_read(&r, &stream, &len, &message)) > 0)
		;
	if (got == 0)
		got = connect_finish(&r);
	connect_reader_done(&r);
	return got;
}

static void refused(void **state)
{
	(void)state;
	assert_int_equal(read_all("\0\0\0\0\4abcd", 9, 4), 0);
	assert_int_equal(read_all("\0\0\0\0\5abcde", 10, 4), -EMSGSIZE);
	assert_int_equal(read_all("\0\xff\xff\xff\xff", 5, 1 << 20), -EMSGSIZE);
	assert_int_equal(read_all("\1\0\0\0\1a", 6, 4), -EPROTO);
	assert_int_equal(read_all("\2\0\0\0\2{}", 7, 4), -EPROTO);
	assert_int_equal(read_all("\x80", 1, 4), -EPROTO);
	assert_int_equal(read_all("\0\0\0", 3, 4), -EPROTO);
	assert_int_equal(read_all("\0\0\0\0\2a", 6, 4), -EPROTO);
	assert_int_equal(read_all("", 0, 4), 0);
}

static void written(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(1000);

	(void)state;
	assert_int_equal(connect_frame(&buf, 0, "abc", 3), 0);
	assert_int_equal(connect_end(&buf, CONNECT_OK, NULL), 0);
	assert_int_equal(buf.len, 8 + 7);
	assert_memory_equal(buf.data, "\0\0\0\0\3abc\2\0\0\0\2{}", 15);
	buf_reset(&buf);
	assert_int_equal(connect_end(&buf, CONNECT_NOT_FOUND, "no \"x\""), 0);
	assert_memory_equal(buf.data, "\2\0\0\0\x33", 5);
	assert_string_equal(buf.data + 5,
			    "{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\"}}");
	buf_reset(&buf);
	assert_int_equal(connect_error(&buf, CONNECT_INTERNAL, "x"), 0);
	assert_string_equal(buf_text(&buf), "{\"code\":\"internal\",\"message\":\"x\"}");
}

static void codes(void **state)
{
	(void)state;
	for (int i = CONNECT_OK + 1; i < CONNECT_CODE_COUNT; i++) {
		unsigned int status = connect_status((enum connect_code)i);

		/* There and back is a code of the same status. */
		assert_true(status >= 400);
		assert_int_equal(connect_status(connect_of_status(status)), status);
	}
	assert_string_equal(connect_name(CONNECT_UNAUTHENTICATED), "unauthenticated");
	assert_int_equal(connect_of_status(502), CONNECT_UNAVAILABLE);
	assert_int_equal(connect_of_status(418), CONNECT_INVALID_ARGUMENT);
	assert_int_equal(connect_of_status(599), CONNECT_UNKNOWN);
	assert_int_equal(connect_of_errno(-ENOENT), CONNECT_NOT_FOUND);
	assert_int_equal(connect_of_errno(-EIO), CONNECT_INTERNAL);
	assert_int_equal(connect_of_errno(0), CONNECT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts),
		cmocka_unit_test(refused),
		cmocka_unit_test(written),
		cmocka_unit_test(codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
