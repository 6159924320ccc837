#include "unit.h"

#include "cli/live.h"

static void figures(void **state)
{
	static const struct {
		uint64_t value;
		const char *bytes, *age;
	} cases[] = {
		{ 0, "0B", "0s" },
		{ 1023, "1023B", "1s" },
		{ 1024, "1.0K", "1s" },
		{ 59999, "58.6K", "59s" },
		{ 60000, "58.6K", "1m" },
		{ 1047552, "1023K", "17m" },
		{ 1048575, "1.0M", "17m" },
		{ 3600000, "3.4M", "1h" },
		{ 48 * 3600000ull - 1, "165M", "47h" },
		{ 48 * 3600000ull, "165M", "2d" },
		{ UINT64_MAX, "16.0E", "213503982334d" },
	};
	char text[FIGURE_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		figure_bytes(cases[i].value, text);
		assert_string_equal(text, cases[i].bytes);
		figure_age(cases[i].value, text);
		assert_string_equal(text, cases[i].age);
	}
}

static void columns(void **state)
{
	static const char *const cells[] = {
		"A", "B", "C", "ünü", "", "x", "a\x1b[31m\n", NULL, "y"
	};
	_cleanup_(table_done) struct table table = { .columns = 3 };
	_cleanup_(buf_done) struct buf text = BUF(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
		table_add(&table, cells[i]);
	table_print(&table, &text);
	assert_int_equal(table.failure, 0);
	assert_null(strchr(buf_text(&text), '\x1b'));
	/* Every line is one, and the second column begins at the same place in all of them. */
	assert_int_equal(strcspn(buf_text(&text), "B"),
			 strcspn(strchr(buf_text(&text), '\n') + 1, "-") -
				 2); /* two bytes of "ü" */
	for (const char *line = buf_text(&text); *line; line = strchr(line, '\n') + 1)
		assert_true(strchr("ABCx\xc3"
				   "ay",
				   *line) != NULL);
}

static void arguments(void **state)
{
	bool json = false, quiet = false;
	const char *user = NULL;
	const struct live_option options[] = { { "json", &json, NULL },
					       { "quiet", &quiet, NULL },
					       { "user", NULL, &user } };
	char words[][8] = { "cp", "one", "--json", "-qu", "me", "-", "--", "--json", "--" };
	char *argv[ARRAY_SIZE(words)];
	struct err err = ERR_NONE;
	char unknown[][12] = { "cp", "one", "--nosuch" };
	char *wrong[] = { unknown[0], unknown[1], unknown[2] };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		argv[i] = words[i];
	(void)state;
	assert_int_equal(live_arguments(ARRAY_SIZE(argv), argv, &verb_cp, options,
					ARRAY_SIZE(options), &err),
			 4);
	assert_string_equal(argv[1], "one");
	assert_string_equal(argv[2], "-");
	assert_string_equal(argv[3], "--json");
	assert_string_equal(argv[4], "--");
	assert_true(json && quiet);
	assert_string_equal(user, "me");
	assert_int_equal(live_arguments(3, wrong, &verb_cp, options, ARRAY_SIZE(options), &err),
			 -22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures),
		cmocka_unit_test(columns),
		cmocka_unit_test(arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
