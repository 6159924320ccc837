#include "unit.h"

#include <errno.h>

#include "base/str.h"

static void sizes(void **state)
{
	static const struct {
		const char *text;
		int code;
		uint64_t value;
	} rows[] = {
		{ "0", 0, 0 },
		{ "1", 0, 1 },
		{ "512M", 0, 512 * MIB },
		{ "512MiB", 0, 512 * MIB },
		{ "1.5G", 0, 3 * GIB / 2 },
		{ "0.5K", 0, 512 },
		{ "8191P", -EINVAL, 0 },
		{ "1.5", -EINVAL, 0 },
		{ "0.3K", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ ".5G", -EINVAL, 0 },
		{ "1.G", -EINVAL, 0 },
		{ "512m", -EINVAL, 0 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "18446744073709551615", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "8388608T", -ERANGE, 0 },
		{ "16777216T", -ERANGE, 0 },
		{ "99999999999999999999999999T", -ERANGE, 0 },
		{ "1.0000000000001G", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_NONE;
		uint64_t value = 7;
		int r = parse_size(rows[i].text, &value, &err);

		if (r != rows[i].code)
			fail_msg("\"%s\": %d", rows[i].text, r);
		/* Untouched on failure. */
		assert_int_equal(value, r < 0 ? 7 : rows[i].value);
		assert_int_equal(err.code, rows[i].code);
	}
}

static void durations_cpus_counts(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(parse_duration("1.5s", &v, NULL), 0);
	assert_int_equal(v, 1500);
	assert_int_equal(parse_duration("2h", &v, NULL), 0);
	assert_int_equal(v, 7200000);
	assert_int_equal(parse_duration("30", &v, NULL), -EINVAL);
	assert_int_equal(parse_duration("0.5ms", &v, NULL), -EINVAL);
	assert_int_equal(parse_cpus("1.5", &v, NULL), 0);
	assert_int_equal(v, 1500);
	assert_int_equal(parse_cpus("0.0001", &v, NULL), -EINVAL);
	assert_int_equal(parse_count("128", &v, NULL), 0);
	assert_int_equal(v, 128);
	assert_int_equal(parse_count("1.0", &v, NULL), -EINVAL);
	assert_int_equal(parse_count("1K", &v, NULL), -EINVAL);
}

static void what_is_formatted_reads_back(void **state)
{
	static const uint64_t values[] = { 0,           1,         10,       999,   1000,
					   1024,        1500,      60000,    65536, 90000,
					   3 * GIB / 2, 512 * MIB, INT64_MAX };
	char text[32];
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		format_size(values[i], text, sizeof(text));
		assert_int_equal(parse_size(text, &v, NULL), 0);
		assert_int_equal(v, values[i]);
		format_duration(values[i], text, sizeof(text));
		assert_int_equal(parse_duration(text, &v, NULL), 0);
		assert_int_equal(v, values[i]);
		if (values[i] == INT64_MAX)
			continue;
		format_cpus(values[i], text, sizeof(text));
		assert_int_equal(parse_cpus(text, &v, NULL), 0);
		assert_int_equal(v, values[i]);
	}
	format_size(512 * MIB, text, sizeof(text));
	assert_string_equal(text, "512M");
	format_duration(90000, text, sizeof(text));
	assert_string_equal(text, "90s");
	format_cpus(1050, text, sizeof(text));
	assert_string_equal(text, "1.05");
}

static void suggestions(void **state)
{
	static const char *const names[] = { "memory", "wall", "cpu", "pids" };

	(void)state;
	assert_string_equal(str_nearest("memmory", names, 4), "memory");
	assert_string_equal(str_nearest("wlal", names, 4), "wall");
	assert_null(str_nearest("xyzzy", names, 4));
	assert_null(str_nearest("", names, 4));
}

static void foreign_text_is_made_printable(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain", "plain" },          { "a\x1b[31mb", "a?[31mb" },
		{ "line\nline", "line?line" }, { "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "c1\xc2\x9bx", "c1??x" },    { "bad\xff\xc3", "bad??" },
		{ "\xed\xa0\x80", "???" },     { "\xf4\x90\x80\x80", "????" },
		{ "\xc0\xaf", "??" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[32];

		strcpy(text, rows[i].in);
		str_make_printable(text);
		assert_string_equal(text, rows[i].out);
	}
}

static void paths(void **state)
{
	(void)state;
	assert_true(path_is_below("/a/b", "/a"));
	assert_true(path_is_below("/a", "/a"));
	assert_true(path_is_below("/a", "/"));
	assert_false(path_is_below("/ab", "/a"));
	assert_false(path_is_below("/", "/a"));
}

static void joined_paths(void **state)
{
	static const struct {
		const char *base, *path, *want;
	} cases[] = {
		{ "/a/b", "c", "/a/b/c" },    { "/a/b", "../c", "/a/c" },
		{ "/a/b", "/c//d/", "/c/d" }, { "", "/x/./y", "/x/y" },
		{ "/a", "../../..", "/" },    { "/a", ".", "/a" },
		{ "/", "x", "/x" },           { "", "/", "/" },
		{ "/a", "", "/a" },           { "/a", "..b/...", "/a/..b/..." },
	};
	char text[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(path_resolve(cases[i].base, cases[i].path, text, sizeof(text)));
		assert_string_equal(text, cases[i].want);
	}
	assert_false(path_resolve("a", "b", text, sizeof(text)));
	assert_false(path_resolve("", "b", text, sizeof(text)));
	assert_true(path_resolve("/1234567", "890123", text, sizeof(text)));
	assert_false(path_resolve("/1234567", "8901234", text, sizeof(text)));
	assert_false(path_resolve("", "/123456789012345", text, sizeof(text)));
	assert_true(path_resolve("", "/12345678901234", text, 16));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations_cpus_counts),
		cmocka_unit_test(what_is_formatted_reads_back),
		cmocka_unit_test(suggestions),
		cmocka_unit_test(paths),
		cmocka_unit_test(joined_paths),
		cmocka_unit_test(foreign_text_is_made_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
