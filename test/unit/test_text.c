#include "unit.h"

#include <errno.h>

#include "output/text.h"

#define R TEXT_REPLACEMENT

static void check_text(const char *in, size_t len, const char *expected, bool exact)
{
	_cleanup_(buf_done) struct buf out = BUF(1000);
	bool was_exact = !exact;

	assert_int_equal(text_of(in, len, &out, &was_exact), 0);
	assert_string_equal(buf_text(&out), expected);
	assert_int_equal(was_exact, exact);
}

static void broken_utf8_is_replaced_once_per_sequence(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "a\xffz", "a" R "z" },
		{ "\xc3", R },
		{ "\xc3(", R "(" },
		{ "\x80\xbf", R R },
		{ "\xe2\x82", R },      /* cut at the end */
		{ "\xe2\x82x", R "x" }, /* cut by a letter */
		{ "\xf0\x9f\x98", R },  /* cut before the last byte */
		{ "\xf0\x9f\x98\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80" },
		{ "\xc0\xaf", R R },             /* overlong */
		{ "\xe0\x80\xaf", R R R },       /* overlong: e0 takes no 80 */
		{ "\xed\xa0\x80", R R R },       /* a surrogate */
		{ "\xf4\x90\x80\x80", R R R R }, /* above U+10FFFF */
		{ "\xf8\x88\x80\x80\x80", R R R R R },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_text(cases[i].in, strlen(cases[i].in), cases[i].out, false);
}

static void valid_text_stays(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(100);
	bool exact = false;

	(void)state;
	check_text("", 0, "", true);
	check_text("plain\n\033[m", 9, "plain\n\033[m", true);
	check_text("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 13,
		   "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", true);
	assert_int_equal(text_of("a\0b", 3, &out, &exact), 0);
	assert_int_equal(out.len, 3);
	assert_memory_equal(out.data, "a\0b", 3);
	assert_true(exact);
}

static void text_over_the_maximum_leaves_the_answer_alone(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(5);
	bool exact = true;

	(void)state;
	assert_int_equal(text_of("\xff\xff", 2, &out, &exact), -ENOSPC);
	assert_true(exact);
}

static void partial_sequences_are_measured(void **state)
{
	static const struct {
		const char *in;
		size_t len, partial;
	} cases[] = {
		{ "", 0, 0 },         { "a", 1, 0 },
		{ "\x80", 1, 0 },     { "\xc2", 1, 1 },
		{ "\xc1", 1, 0 },     { "\xf5", 1, 0 },
		{ "\xe0", 1, 1 },     { "\xe0\x9f", 2, 1 },
		{ "\xe0\xa0", 2, 2 }, { "\xf0\x90\x80", 3, 3 },
		{ "\xf0\x8f", 2, 1 }, { "\xf4\x8f\xbf\xc0", 4, 3 },
		{ "\xc3\xa4", 2, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(text_partial((const unsigned char *)cases[i].in, cases[i].len),
				 cases[i].partial);
}

/* The vectors of RFC 4648, section 10, and the two digits that differ between the alphabets. */
static void base64_is_standard_and_padded(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xfb\xff\xfe", "+//+" },
		{ "\xff", "/w==" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_done) struct buf out = BUF(100);

		assert_int_equal(base64_encode(cases[i].in, strlen(cases[i].in), &out), 0);
		assert_string_equal(buf_text(&out), cases[i].out);
	}
}

static void base64_over_the_maximum_is_refused(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(7);

	(void)state;
	assert_int_equal(base64_encode("foob", 4, &out), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broken_utf8_is_replaced_once_per_sequence),
		cmocka_unit_test(valid_text_stays),
		cmocka_unit_test(text_over_the_maximum_leaves_the_answer_alone),
		cmocka_unit_test(partial_sequences_are_measured),
		cmocka_unit_test(base64_is_standard_and_padded),
		cmocka_unit_test(base64_over_the_maximum_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
