#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "http/multipart.h"

#define TYPE "multipart/form-data; boundary=XX"
#define HEAD "Content-Disposition: form-data; name=\"file\""

/* What comes out, as one text: "<name|filename>content." for each part, "$" at the end. */
static int read_in_steps(const char *type, const char *body, size_t len, size_t step,
			 struct buf *out)
{
	struct multipart m;
	struct text field = { type, strlen(type) }, piece;
	int r = multipart_init(&m, &field);

	for (size_t at = 0; r >= 0 && at < len; at += step) {
		/* A copy of its own, so that a sanitizer sees a byte too far. */
		size_t n = MIN(step, len - at), left = n;
		_cleanup_free_ char *copy = malloc(n);
		const char *p = copy;

		memcpy(copy, body + at, n);
		while ((r = multipart_next(&m, &p, &left, &piece)) > 0) {
			if (r == MULTIPART_PART)
				buf_printf(out, "<%s|%s>", m.name,
					   m.has_filename ? m.filename : "-");
			if (r == MULTIPART_DATA) {
				assert_true(piece.len > 0);
				buf_add(out, piece.data, piece.len);
			}
			if (r == MULTIPART_PART_END)
				buf_char(out, '.');
			if (r == MULTIPART_END)
				buf_char(out, '$');
		}
	}
	if (r >= 0)
		r = multipart_finish(&m);
	assert_true(r >= 0 || r == -EINVAL || m.why);
	multipart_done(&m);
	return r;
}

static void check(const char *type, const char *body, int wanted, const char *text)
{
	for (size_t step = 1; step <= strlen(body) + 1; step++) {
		_cleanup_(buf_done) struct buf out = BUF(1 * MIB);
		int r = read_in_steps(type, body, strlen(body), step, &out);

		if (r != wanted)
			fail_msg("step %zu of %s: %d", step, body, r);
		if (text)
			assert_string_equal(buf_text(&out), text);
	}
}

static void taken(void **state)
{
	(void)state;
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\nhello\r\n--XX--\r\n", 0, "<file|->hello.$");
	check(TYPE, "--XX\r\n" HEAD "; filename=\"a.txt\"\r\nContent-Type: x/y\r\n\r\nhi\r\n--XX--",
	      0, "<file|a.txt>hi.$");
	/* Before the first and behind the last anything may stand. */
	check(TYPE, "pre\r\namble\r\n--XX\r\n" HEAD "\r\n\r\nx\r\n--XX--\r\nepilogue --XX\r\n", 0,
	      "<file|->x.$");
	/* Empty content, and none at all. */
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\n\r\n--XX--\r\n", 0, "<file|->.$");
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\n--XX--\r\n", 0, "<file|->.$");
	/* What is nearly a boundary. */
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\n\r\n-\r\r\n--X\r\n--\r\n\r\n--XX--", 0,
	      "<file|->\r\n-\r\r\n--X\r\n--\r\n.$");
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\n-XX\r\n--XX--", 0, "<file|->-XX.$");
	/* White space behind a boundary; several parts. */
	check(TYPE,
	      "--XX \t\r\n" HEAD "\r\n\r\na\r\n--XX \r\n" HEAD "; filename=b\r\n\r\nb\r\n--XX--", 0,
	      "<file|->a.<file|b>b.$");
	check("Multipart/Form-Data; charset=utf-8; boundary=\"X X\"",
	      "--X X\r\n" HEAD "\r\n\r\na\r\n--X X--", 0, "<file|->a.$");
	check(TYPE, "--XX--", 0, "$");
}

static void names(void **state)
{
	static const struct {
		const char *parameter, *wanted;
	} rows[] = {
		{ "filename=\"a b;c\"", "a b;c" },
		{ "filename=\"%22q%22.txt\"", "\"q\".txt" },
		{ "filename=\"100%25\"", "100%25" },
		{ "filename=\"\\\"q\\\\\"", "\"q\\" },
		{ "filename=\"C:\\dir\\file\"", "C:\\dir\\file" },
		{ "filename=\"/home/user/\xe4\xb8\xad.txt\"", "/home/user/\xe4\xb8\xad.txt" },
		{ "filename=\"plain\"; filename*=UTF-8''%e4%b8%ad", "\xe4\xb8\xad" },
		{ "filename=\"\"", "" },
		{ "x=\"\\\"; filename=no\"; filename=yes", "yes" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf body = BUF(1000);
		_cleanup_(buf_done) struct buf wanted = BUF(1000);

		buf_printf(&body, "--XX\r\n" HEAD "; %s\r\n\r\nx\r\n--XX--", rows[i].parameter);
		buf_printf(&wanted, "<file|%s>x.$", rows[i].wanted);
		check(TYPE, buf_text(&body), 0, buf_text(&wanted));
	}
}

static void refused(void **state)
{
	(void)state;
	check(TYPE, "", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\nhello\r\n--XX\r\n", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\nhello\r\n--XX-", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\nhello\r\n--XXX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n\r\nhello", -EPROTO, NULL);
	check(TYPE, "--XX\n" HEAD "\n\nhello\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n\r\nno head\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\nContent-Type: a\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n folded\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\r\n" HEAD "\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "\nX: y\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XX--", -EPROTO,
	      NULL);
	check(TYPE, "--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "; filename=\"open\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check(TYPE, "--XX\r\n" HEAD "; filename*=UTF-8''%00\r\n\r\nx\r\n--XX--", -EPROTO, NULL);
	check("text/plain; boundary=XX", "--XX--", -EINVAL, NULL);
	check("multipart/form-dataX; boundary=XX", "--XX--", -EINVAL, NULL);
	check("multipart/form-data", "--XX--", -EINVAL, NULL);
	check("multipart/form-data; boundary=", "--XX--", -EINVAL, NULL);
	check("multipart/form-data; boundary=\"\"", "--XX--", -EINVAL, NULL);
	check("multipart/form-data; boundary=\"a \"", "--a --", -EINVAL, NULL);
	check("multipart/form-data; boundary=\"a\x7f\"", "--a--", -EINVAL, NULL);
	check("multipart/form-data; boundary="
	      "01234567890123456789012345678901234567890123456789012345678901234567890",
	      "--XX--", -EINVAL, NULL);
}

static void bounds(void **state)
{
	_cleanup_(buf_done) struct buf body = BUF(1 * MIB);
	_cleanup_(buf_done) struct buf out = BUF(1 * MIB);

	(void)state;
	buf_str(&body, "--XX\r\n" HEAD "\r\nX: ");
	for (size_t i = 0; i < MULTIPART_HEAD; i++)
		buf_char(&body, 'a');
	buf_str(&body, "\r\n\r\nx\r\n--XX--");
	assert_int_equal(read_in_steps(TYPE, body.data, body.len, 100, &out), -EMSGSIZE);

	buf_reset(&body);
	for (size_t i = 0; i <= MULTIPART_PARTS; i++)
		buf_str(&body, "--XX\r\n" HEAD "\r\n\r\nx\r\n");
	buf_str(&body, "--XX--");
	assert_int_equal(read_in_steps(TYPE, body.data, body.len, 1000, &out), -EMSGSIZE);

	buf_reset(&body);
	buf_str(&body, "--XX\r\n" HEAD "; filename=\"");
	for (size_t i = 0; i < MULTIPART_FILENAME; i++)
		buf_char(&body, 'a');
	buf_str(&body, "\"\r\n\r\nx\r\n--XX--");
	assert_int_equal(read_in_steps(TYPE, body.data, body.len, 1000, &out), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken),
		cmocka_unit_test(names),
		cmocka_unit_test(refused),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
