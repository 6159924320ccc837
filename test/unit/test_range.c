#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "http/range.h"

#define SECOND 1000000000ull
#define WHEN   784111777ull /* Sun, 06 Nov 1994 08:49:37 GMT */

static const char date[] = "Sun, 06 Nov 1994 08:49:37 GMT";

static void dates(void **state)
{
	static const struct {
		const char *text;
		int r;
	} rows[] = {
		{ "Sun, 06 Nov 1994 08:49:37 GMT", 0 },
		{ "Sunday, 06-Nov-94 08:49:37 GMT", 0 },
		{ "Sun Nov  6 08:49:37 1994", 0 },
		{ "Sun, 06 Nov 1994 08:49:37 UTC", -EINVAL },
		{ "Sun, 06 Nov 1994 08:49:37 GMT ", -EINVAL },
		{ "Sun, 06 Nov 1994 24:49:37 GMT", -EINVAL },
		{ "Sun, 06 Foo 1994 08:49:37 GMT", -EINVAL },
		{ "Sun, 6 Nov 1994 08:49:37 GMT", -EINVAL },
		{ "Sun, 06 Nov 1894 08:49:37 GMT", -EINVAL },
		{ "784111777", -EINVAL },
		{ "", -EINVAL },
		{ "Sun, 06 Nov 1994 08:49:37 GMT and very much more", -EINVAL },
	};
	char text[HTTP_DATE_SIZE];

	(void)state;
	http_date(WHEN, text);
	assert_string_equal(text, date);
	http_date(UINT64_MAX, text);
	assert_string_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text t = { rows[i].text, strlen(rows[i].text) };
		uint64_t seconds = 0;

		assert_int_equal(http_date_read(&t, &seconds), rows[i].r);
		assert_int_equal(seconds, rows[i].r == 0 ? WHEN : 0);
	}
}

static enum range_verdict judge(struct range *r, uint64_t size, bool is_fresh, enum method method,
				const char *const fields[][2])
{
	struct head head = { .method = method };

	for (size_t i = 0; fields[i][0]; i++)
		head.fields[head.field_count++] =
			(struct head_field){ { fields[i][0], strlen(fields[i][0]) },
					     { fields[i][1], strlen(fields[i][1]) } };
	range_init(r, size, WHEN * SECOND, (WHEN + (is_fresh ? 0 : 60)) * SECOND);
	return range_judge(r, &head);
}

static void parts(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
		int verdict;
		uint64_t first, len;
		const char *content_range;
	} rows[] = {
		{ "bytes=0-4", 10, 206, 0, 5, "bytes 0-4/10" },
		{ "bytes=5-", 10, 206, 5, 5, "bytes 5-9/10" },
		{ "bytes=-3", 10, 206, 7, 3, "bytes 7-9/10" },
		{ "bytes=-30", 10, 206, 0, 10, "bytes 0-9/10" },
		{ "bytes=9-9", 10, 206, 9, 1, "bytes 9-9/10" },
		{ "bytes=3-1000000000000000000000", 10, 206, 3, 7, "bytes 3-9/10" },
		{ "bytes=10-", 10, 416, 0, 10, "bytes */10" },
		{ "bytes=99999999999999999999-", 10, 416, 0, 10, "bytes */10" },
		{ "bytes=-0", 10, 416, 0, 10, "bytes */10" },
		{ "bytes=4-3", 10, 200, 0, 10, "" },
		{ "bytes=0-1,3-4", 10, 200, 0, 10, "" },
		{ "bytes=-", 10, 200, 0, 10, "" },
		{ "bytes=", 10, 200, 0, 10, "" },
		{ "bytes= 0-1", 10, 200, 0, 10, "" },
		{ "lines=0-1", 10, 200, 0, 10, "" },
		{ "bytes=0-", 0, 200, 0, 0, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *const fields[][2] = { { "range", rows[i].text }, { NULL, NULL } };
		struct range r;

		assert_int_equal(judge(&r, rows[i].size, false, METHOD_GET, fields),
				 rows[i].verdict);
		assert_int_equal(r.first, rows[i].first);
		assert_int_equal(r.len, rows[i].len);
		assert_string_equal(r.content_range, rows[i].content_range);
		assert_int_equal(judge(&r, rows[i].size, false, METHOD_HEAD, fields), 200);
	}
}

static void conditions(void **state)
{
	static const char tag[] = "\"ae1b981bc490a00-a\"", other[] = "\"x\"";
	static const char earlier[] = "Sun, 06 Nov 1994 08:49:36 GMT";
	static const struct {
		const char *fields[4][2];
		bool is_fresh;
		int verdict;
	} rows[] = {
		{ { { NULL, NULL } }, false, 200 },
		{ { { "If-None-Match", tag }, { NULL, NULL } }, false, 304 },
		{ { { "If-None-Match", "*" }, { NULL, NULL } }, false, 304 },
		{ { { "If-None-Match", "\"a\", W/\"ae1b981bc490a00-a\"" }, { NULL, NULL } },
		  false,
		  304 },
		{ { { "If-None-Match", tag }, { NULL, NULL } }, true, 304 },
		{ { { "If-None-Match", other }, { NULL, NULL } }, false, 200 },
		{ { { "If-None-Match", "junk" }, { NULL, NULL } }, false, 200 },
		{ { { "If-None-Match", other }, { "If-Modified-Since", date }, { NULL, NULL } },
		  false,
		  200 },
		{ { { "If-Modified-Since", date }, { NULL, NULL } }, false, 304 },
		{ { { "If-Modified-Since", earlier }, { NULL, NULL } }, false, 200 },
		{ { { "If-Modified-Since", "junk" }, { NULL, NULL } }, false, 200 },
		{ { { "If-Match", tag }, { NULL, NULL } }, false, 200 },
		{ { { "If-Match", tag }, { NULL, NULL } }, true, 412 },
		{ { { "If-Match", other }, { NULL, NULL } }, false, 412 },
		{ { { "If-Unmodified-Since", earlier }, { NULL, NULL } }, false, 412 },
		{ { { "If-Unmodified-Since", date }, { NULL, NULL } }, false, 200 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", tag }, { NULL, NULL } }, false, 206 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", tag }, { NULL, NULL } }, true, 200 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", other }, { NULL, NULL } }, false, 200 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", date }, { NULL, NULL } }, false, 206 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", date }, { NULL, NULL } }, true, 200 },
		{ { { "Range", "bytes=0-0" }, { "If-Range", earlier }, { NULL, NULL } },
		  false,
		  200 },
		{ { { "Range", "bytes=0-0" }, { "If-None-Match", tag }, { NULL, NULL } },
		  false,
		  304 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct range r;
		int verdict = judge(&r, 10, rows[i].is_fresh, METHOD_GET, rows[i].fields);

		if (verdict != rows[i].verdict)
			fail_msg("row %zu: %d, tag %s", i, verdict, r.etag);
		assert_string_equal(r.etag + (rows[i].is_fresh ? 2 : 0), tag);
		assert_string_equal(r.last_modified, date);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dates),
		cmocka_unit_test(parts),
		cmocka_unit_test(conditions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
