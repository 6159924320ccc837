#include "unit.h"

#include <errno.h>
#include <math.h>

#include "data/node.h"

static void strings(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *json;
	} rows[] = {
		{ "", 0, "\"\"" },
		{ "plain /", 7, "\"plain /\"" },
		{ "\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\"" },
		{ "\x00\x01\x1b\x7f", 4, "\"\\u0000\\u0001\\u001b\\u007f\"" },
		/* C1 control characters: a terminal may obey them. */
		{ "\xc2\x9b", 2, "\"\\u009b\"" },
		{ "\xc2\xa0", 2, "\"\xc2\xa0\"" },
		{ "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\"" },
		/* Not UTF-8: one U+FFFD for each byte. */
		{ "a\xff"
		  "b",
		  3,
		  "\"a\xef\xbf\xbd"
		  "b\"" },
		{ "\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf0\x9f\x98", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf buf = BUF(100);

		assert_int_equal(json_write_string(rows[i].text, rows[i].len, &buf), 0);
		assert_string_equal(buf_text(&buf), rows[i].json);
	}
}

static void floats(void **state)
{
	static const struct {
		double value;
		const char *json;
	} rows[] = {
		{ 0.0, "0.0" },      { -0.0, "0.0" },
		{ 1.0, "1.0" },      { -2.5, "-2.5" },
		{ 0.1, "0.1" },      { 0.1 + 0.2, "0.30000000000000004" },
		{ 1e100, "1e+100" }, { 123456789, "123456789.0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf buf = BUF(100);
		_cleanup_(node_freep) struct node *node = node_float(rows[i].value);

		assert_int_equal(json_write(node, true, &buf), 0);
		assert_string_equal(buf_text(&buf), rows[i].json);
	}
}

static void what_json_cannot_say_is_refused(void **state)
{
	static const double values[] = { INFINITY, -INFINITY, NAN };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		_cleanup_(buf_done) struct buf buf = BUF(100);
		_cleanup_(node_freep) struct node *list = node_list();

		assert_int_equal(node_add(list, node_float(values[i])), 0);
		assert_int_equal(json_write(list, true, &buf), -EDOM);
	}
}

static struct node *sample(void)
{
	struct node *map = node_map(), *inner = node_map(), *list = node_list();

	assert_int_equal(node_add(list, node_int(INT64_MIN)), 0);
	assert_int_equal(node_add(list, node_bool(true)), 0);
	assert_int_equal(node_add(list, node_null()), 0);
	assert_int_equal(node_set(map, "b", list), 0);
	/* Sorted by bytes: upper case first, a prefix before what it begins. */
	assert_int_equal(node_set(map, "aa", node_list()), 0);
	assert_int_equal(node_set(map, "a", node_map()), 0);
	assert_int_equal(node_set(inner, "\xc3\xa4", node_string("x")), 0);
	assert_int_equal(node_set(map, "Z", inner), 0);
	return map;
}

static void canonical_is_sorted_and_dense(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(1000);
	_cleanup_(node_freep) struct node *map = sample();

	(void)state;
	assert_int_equal(json_write(map, true, &buf), 0);
	assert_string_equal(buf_text(&buf), "{\"Z\":{\"\xc3\xa4\":\"x\"},\"a\":{},\"aa\":[],"
					    "\"b\":[-9223372036854775808,true,null]}");
}

static void otherwise_it_is_indented_in_order(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(1000);
	_cleanup_(node_freep) struct node *map = sample();

	(void)state;
	assert_int_equal(json_write(map, false, &buf), 0);
	assert_string_equal(buf_text(&buf), "{\n"
					    "  \"b\": [\n"
					    "    -9223372036854775808,\n"
					    "    true,\n"
					    "    null\n"
					    "  ],\n"
					    "  \"aa\": [],\n"
					    "  \"a\": {},\n"
					    "  \"Z\": {\n"
					    "    \"\xc3\xa4\": \"x\"\n"
					    "  }\n"
					    "}");
}

static void a_full_buffer_is_reported(void **state)
{
	_cleanup_(buf_done) struct buf whole = BUF(1000);
	_cleanup_(node_freep) struct node *map = sample();

	(void)state;
	assert_int_equal(json_write(map, true, &whole), 0);
	for (size_t max = 0; max < whole.len; max++) {
		_cleanup_(buf_done) struct buf buf = BUF(max);

		assert_int_equal(json_write(map, true, &buf), -ENOSPC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings),
		cmocka_unit_test(floats),
		cmocka_unit_test(what_json_cannot_say_is_refused),
		cmocka_unit_test(canonical_is_sorted_and_dense),
		cmocka_unit_test(otherwise_it_is_indented_in_order),
		cmocka_unit_test(a_full_buffer_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
