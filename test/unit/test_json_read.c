#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "data/node.h"

/* What is taken, and how it is written again (canonically). */
static void taken(void **state)
{
	static const struct {
		const char *text, *again;
	} rows[] = {
		{ "null", "null" },
		{ " \t\r\n true \n", "true" },
		{ "false", "false" },
		{ "0", "0" },
		{ "-0", "0" },
		{ "9223372036854775807", "9223372036854775807" },
		{ "-9223372036854775808", "-9223372036854775808" },
		{ "9223372036854775808", "9.223372036854776e+18" },
		{ "1.50", "1.5" },
		{ "1e2", "100.0" },
		{ "-1.5E-3", "-0.0015" },
		{ "1e-400", "0.0" },
		{ "\"\"", "\"\"" },
		{ "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"a\\\"\\\\/\\b\\f\\n\\r\\t\"" },
		{ "\"\\u0041\\u00e9\\u20AC\\uD83D\\ude00\"",
		  "\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\"\xf0\x9f\x98\x80 and plain text that is long\"",
		  "\"\xf0\x9f\x98\x80 and plain text that is long\"" },
		{ "[]", "[]" },
		{ "[ 1 , [ ] , { } ]", "[1,[],{}]" },
		{ "{\"b\":1,\"a\":{\"c\":[true]}}", "{\"a\":{\"c\":[true]},\"b\":1}" },
		{ "{\"\":1,\"\\u0001\":2}", "{\"\":1,\"\\u0001\":2}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(node_freep) struct node *node = NULL;
		_cleanup_(buf_done) struct buf buf = BUF(1000);
		struct err err = ERR_NONE;
		int r = json_read(rows[i].text, strlen(rows[i].text), NULL, &node, &err);

		if (r < 0)
			fail_msg("%s: %s", rows[i].text, err.text);
		assert_int_equal(json_write(node, true, &buf), 0);
		assert_string_equal(buf_text(&buf), rows[i].again);
	}
}

static void refused(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "", "line 1, column 1: it ends too early" },
		{ "  \n ", "line 2, column 2: it ends too early" },
		{ "nul", "line 1, column 1: a value is needed" },
		{ "True", "a value is needed" },
		{ "'a'", "a value is needed" },
		{ "+1", "a value is needed" },
		{ ".5", "a value is needed" },
		{ "-", "it ends too early" },
		{ "-a", "a value is needed" },
		{ "01", "a number begins with 0" },
		{ "-012", "a number begins with 0" },
		{ "1.", "it ends too early" },
		{ "1.x", "a digit is needed behind the point" },
		{ "1e", "it ends too early" },
		{ "1e+x", "a digit is needed in the exponent" },
		{ "1e400", "a number that is too large" },
		{ "-1e400", "a number that is too large" },
		{ "NaN", "a value is needed" },
		{ "Infinity", "a value is needed" },
		{ "0x10", "nothing may follow" },
		{ "1 2", "line 1, column 3: nothing may follow the value" },
		{ "{} x", "nothing may follow" },
		{ "\xef\xbb\xbf{}", "a value is needed" },
		{ "\"a", "a string has no end" },
		{ "\"a\\", "a string has no end" },
		{ "\"a\\\"", "a string has no end" },
		{ "\"a\nb\"", "a control byte" },
		{ "\"\x1f\"", "a control byte" },
		{ "\"\\x\"", "no such escape" },
		{ "\"\\\xc3\xa9\"", "not UTF-8" },
		{ "\"\\u12\"", "four hexadecimal digits" },
		{ "\"\\u12g4\"", "four hexadecimal digits" },
		{ "\"\\u0000\"", "the character NUL" },
		{ "\"\\ud800\"", "half of a surrogate pair" },
		{ "\"\\ud800x\"", "half of a surrogate pair" },
		{ "\"\\ud800\\u0041\"", "half of a surrogate pair" },
		{ "\"\\ud800\\ud800\"", "half of a surrogate pair" },
		{ "\"\\udc00\"", "half of a surrogate pair" },
		{ "\"\xff\"", "not UTF-8" },
		{ "\"\xc0\x80\"", "not UTF-8" },
		{ "\"\xed\xa0\x80\"", "not UTF-8" },
		{ "\"eight bytes, then \xc3\"", "not UTF-8" },
		{ "[1,]", "a value is needed" },
		{ "[,1]", "a value is needed" },
		{ "[1 2]", "a comma or \"]\" is needed" },
		{ "[1", "it ends too early" },
		{ "[1}", "a comma or \"]\" is needed" },
		{ "{\"a\"}", "a colon is needed" },
		{ "{\"a\":}", "a value is needed" },
		{ "{\"a\":1,}", "a key in quotes is needed" },
		{ "{a:1}", "a key in quotes is needed" },
		{ "{1:1}", "a key in quotes is needed" },
		{ "{\"a\":1 \"b\":2}", "a comma or \"}\" is needed" },
		{ "{\"a\":1]", "a comma or \"}\" is needed" },
		{ "// x\n1", "a value is needed" },
		{ "{\"a\":1,\n \"b\":2, \"a\":3}",
		  "line 2, column 9: the key \"a\" is there twice" },
		{ "{\"\\u0061\":1,\"a\":3}", "the key \"a\" is there twice" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node *node = NULL;
		struct err err = ERR_NONE;
		int r = json_read(rows[i].text, strlen(rows[i].text), NULL, &node, &err);

		if (r != -EINVAL || node || !strstr(err.text, rows[i].words))
			fail_msg("%s: %d, \"%s\"", rows[i].text, r, err.text);
	}
}

static void nul_bytes(void **state)
{
	struct node *node = NULL;

	(void)state;
	assert_int_equal(json_read("\"a\0b\"", 5, NULL, &node, NULL), -EINVAL);
	assert_int_equal(json_read("1\0", 2, NULL, &node, NULL), -EINVAL);
	assert_int_equal(json_read(NULL, 0, NULL, &node, NULL), -EINVAL);
	assert_null(node);
}

/* Many keys are looked at in another way than few. */
static void duplicates_of_many(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(1 * MIB);
	_cleanup_(node_freep) struct node *node = NULL;
	struct err err = ERR_NONE;

	(void)state;
	buf_char(&buf, '{');
	for (int i = 0; i < 5000; i++)
		buf_printf(&buf, "%s\"k%d\":%d", i ? "," : "", i * 7919 % 5000, i);
	buf_char(&buf, '}');
	assert_int_equal(json_read(buf.data, buf.len, NULL, &node, &err), 0);
	assert_int_equal(node->count, 5000);
	buf.data[buf.len - 1] = ',';
	buf_str(&buf, "\"k4321\":0}");
	node_free(take_ptr(&node));
	assert_int_equal(json_read(buf.data, buf.len, NULL, &node, &err), -EINVAL);
	assert_non_null(strstr(err.text, "\"k4321\" is there twice"));
}

static int read_nested(unsigned int depth, const struct json_bounds *bounds)
{
	_cleanup_(buf_done) struct buf buf = BUF(1 * MIB);
	_cleanup_(node_freep) struct node *node = NULL;

	for (unsigned int i = 0; i < depth; i++)
		buf_str(&buf, i % 2 ? "{\"a\":" : "[");
	buf_char(&buf, '1');
	for (unsigned int i = depth; i-- > 0;)
		buf_char(&buf, i % 2 ? '}' : ']');
	return json_read(buf.data, buf.len, bounds, &node, NULL);
}

static void bounds(void **state)
{
	struct json_bounds small = { .bytes = 10, .values = 3, .depth = 2 };
	struct node *node = NULL;

	(void)state;
	assert_int_equal(read_nested(64, NULL), 0);
	assert_int_equal(read_nested(65, NULL), -EMSGSIZE);
	assert_int_equal(read_nested(100000, NULL), -EMSGSIZE);
	assert_int_equal(json_read("[1,2,3]   ", 10, &small, &node, NULL), -EMSGSIZE);
	assert_int_equal(json_read("[1]        ", 11, &small, &node, NULL), -EMSGSIZE);
	assert_int_equal(json_read("[1,2]     ", 10, &small, &node, NULL), 0);
	node_free(node);
	assert_int_equal(json_read("[[[]]]", 6, &small, &node, NULL), -EMSGSIZE);
}

static void long_numbers(void **state)
{
	char text[400];
	struct node *node = NULL;

	(void)state;
	memset(text, '1', sizeof(text));
	assert_int_equal(json_read(text, 256, NULL, &node, NULL), 0);
	assert_int_equal(node->kind, NODE_FLOAT);
	assert_int_equal(strlen(node->text), 256);
	node_free(node);
	assert_int_equal(json_read(text, 257, NULL, &node, NULL), -EINVAL);
}

static void places(void **state)
{
	const char *text = "{\n  \"a\": [1,\n22]}";
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *list;

	(void)state;
	assert_int_equal(json_read(text, strlen(text), NULL, &node, NULL), 0);
	assert_int_equal(node->entries[0].line, 2);
	assert_int_equal(node->entries[0].column, 3);
	list = node_get(node, "a");
	assert_int_equal(list->line, 2);
	assert_int_equal(list->column, 8);
	assert_int_equal(list->entries[1].value->line, 3);
	assert_int_equal(list->entries[1].value->column, 1);
	assert_int_equal(list->entries[1].value->number, 22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken),     cmocka_unit_test(refused),
		cmocka_unit_test(nul_bytes), cmocka_unit_test(duplicates_of_many),
		cmocka_unit_test(bounds),    cmocka_unit_test(long_numbers),
		cmocka_unit_test(places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
