#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "http/decode.h"

static struct text text_of(const char *text)
{
	return (struct text){ text, strlen(text) };
}

static void percent(void **state)
{
	static const struct {
		const char *coded;
		bool plus;
		long r;
		const char *text;
	} rows[] = {
		{ "", false, 0, "" },
		{ "abc", false, 3, "abc" },
		{ "a%2Fb%2f", false, 4, "a/b/" },
		{ "a+b", true, 3, "a b" },
		{ "a+b", false, 3, "a+b" },
		{ "%E4%b8%ad", false, 3, "\xe4\xb8\xad" },
		{ "%252F", false, 3, "%2F" },
		{ "%", false, -EINVAL, NULL },
		{ "a%2", false, -EINVAL, NULL },
		{ "%2g", false, -EINVAL, NULL },
		{ "%g2", false, -EINVAL, NULL },
		{ "%00", false, -EINVAL, NULL },
		{ "%%20", false, -EINVAL, NULL },
		{ "0123456789", false, -EMSGSIZE, NULL },
		{ "012345678", false, 9, "012345678" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text coded = text_of(rows[i].coded);
		char ret[10];

		assert_int_equal(percent_decode(&coded, rows[i].plus, ret, sizeof(ret)), rows[i].r);
		if (rows[i].r >= 0)
			assert_string_equal(ret, rows[i].text);
	}
	assert_int_equal(percent_decode(&(struct text){ "a\0b", 3 }, false, (char[9]){ 0 }, 9),
			 -EINVAL);
	assert_int_equal(percent_decode(&(struct text){ "", 0 }, false, NULL, 0), -EMSGSIZE);
}

static void queries(void **state)
{
	struct text query = text_of("a=1&&b=2%262&a=3&c&d=&=e&%61=x+y&f=1=2");
	struct text rest = query, name, value;
	char ret[16];
	size_t count = 0;

	(void)state;
	while (query_next(&rest, &name, &value))
		count++;
	assert_int_equal(count, 8);
	assert_int_equal(query_value(&query, "a", 0, ret, sizeof(ret)), 1);
	assert_string_equal(ret, "1");
	assert_int_equal(query_value(&query, "a", 1, ret, sizeof(ret)), 1);
	assert_string_equal(ret, "3");
	assert_int_equal(query_value(&query, "a", 2, ret, sizeof(ret)), 3);
	assert_string_equal(ret, "x y");
	assert_int_equal(query_value(&query, "a", 3, ret, sizeof(ret)), -ENOENT);
	assert_int_equal(query_value(&query, "b", 0, ret, sizeof(ret)), 3);
	assert_string_equal(ret, "2&2");
	assert_int_equal(query_value(&query, "c", 0, ret, sizeof(ret)), 0);
	assert_int_equal(query_value(&query, "d", 0, ret, sizeof(ret)), 0);
	assert_int_equal(query_value(&query, "f", 0, ret, sizeof(ret)), 3);
	assert_string_equal(ret, "1=2");
	assert_int_equal(query_value(&query, "", 0, ret, sizeof(ret)), 1);
	assert_int_equal(query_value(&(struct text){ NULL, 0 }, "a", 0, ret, 16), -ENOENT);
}

/* The plain way, to compare with. */
static size_t encode_slowly(const unsigned char *p, size_t len, char *out)
{
	static const char abc[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = 0;

	for (size_t i = 0; i < len; i += 3) {
		unsigned int bits = (unsigned int)p[i] << 16;

		bits |= i + 1 < len ? (unsigned int)p[i + 1] << 8 : 0;
		bits |= i + 2 < len ? p[i + 2] : 0;
		out[n++] = abc[bits >> 18];
		out[n++] = abc[bits >> 12 & 63];
		out[n++] = i + 1 < len ? abc[bits >> 6 & 63] : '=';
		out[n++] = i + 2 < len ? abc[bits & 63] : '=';
	}
	return n;
}

static void base64_of_all_lengths(void **state)
{
	(void)state;
	srandom(7);
	for (size_t len = 0; len < 400; len++) {
		/* As large as they must be, so that a sanitizer sees a byte too far. */
		_cleanup_free_ unsigned char *data = malloc(len + 1);
		_cleanup_free_ char *a = malloc(BASE64_SIZE(len) + 1);
		_cleanup_free_ char *b = malloc(BASE64_SIZE(len) + 1);
		_cleanup_free_ unsigned char *again = malloc(BASE64_SIZE(len) / 4 * 3 + 3);
		unsigned char *exact = realloc(NULL, len ? len : 1);

		for (size_t i = 0; i < len; i++)
			data[i] = len % 3 == 0 ? (unsigned char)(i + len) : (unsigned char)random();
		memcpy(exact, data, len);
		assert_int_equal(base64_write(exact, len, a), BASE64_SIZE(len));
		assert_int_equal(encode_slowly(data, len, b), BASE64_SIZE(len));
		assert_memory_equal(a, b, BASE64_SIZE(len));
		assert_int_equal(base64_read(a, BASE64_SIZE(len), false, again), len);
		assert_memory_equal(again, data, len);
		free(exact);
	}
}

static void base64_texts(void **state)
{
	static const struct {
		const char *text;
		long strict, web;
	} rows[] = {
		{ "", 0, 0 },
		{ "aGk=", 2, 2 },
		{ "aGk", -EINVAL, 2 },
		{ "aA==", 1, 1 },
		{ "aA", -EINVAL, 1 },
		{ "aA=", -EINVAL, -EINVAL },
		{ "a", -EINVAL, -EINVAL },
		{ "a===", -EINVAL, -EINVAL },
		{ "====", -EINVAL, -EINVAL },
		{ "aGl=", -EINVAL, -EINVAL }, /* bits that are left over */
		{ "aB==", -EINVAL, -EINVAL },
		{ "ab+/", 3, 3 },
		{ "ab-_", -EINVAL, 3 },
		{ "ab c", -EINVAL, -EINVAL },
		{ "aGk=\n", -EINVAL, -EINVAL },
		{ "a=Gk", -EINVAL, -EINVAL },
		{ "aGkxaGk\xff", -EINVAL, -EINVAL },
		{ "=", -EINVAL, -EINVAL },
		{ "==", -EINVAL, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char ret[32];
		size_t len = strlen(rows[i].text);

		assert_int_equal(base64_read(rows[i].text, len, false, ret), rows[i].strict);
		assert_int_equal(base64_read(rows[i].text, len, true, ret), rows[i].web);
	}
}

static void hexadecimal(void **state)
{
	unsigned char bytes[3];
	char text[7];

	(void)state;
	hex_write("\x01\xab\xff", 3, text);
	assert_string_equal(text, "01abff");
	assert_int_equal(hex_read("01AbfF", 6, bytes, 3), 0);
	assert_memory_equal(bytes, "\x01\xab\xff", 3);
	assert_int_equal(hex_read("01abf", 5, bytes, 3), -EINVAL);
	assert_int_equal(hex_read("01abfg", 6, bytes, 3), -EINVAL);
	assert_int_equal(hex_read("01abff00", 8, bytes, 3), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percent),      cmocka_unit_test(queries),
		cmocka_unit_test(base64_texts), cmocka_unit_test(base64_of_all_lengths),
		cmocka_unit_test(hexadecimal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
