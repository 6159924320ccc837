#include "unit.h"

#include <errno.h>

#include "base/err.h"

static void words_and_codes(void **state)
{
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(err_set(&err, -EINVAL, "\"%s\" is %d", "x", 1), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	assert_string_equal(err.text, "\"x\" is 1");
	assert_int_equal(err_prefix(&err, "%s", "key"), -EINVAL);
	assert_string_equal(err.text, "key: \"x\" is 1");
	assert_int_equal(err_errno(&err, -ENOENT, "\"%s\"", "y"), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	assert_string_equal(err.text, "\"y\": No such file or directory");
}

static void nobody_has_to_listen(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EPERM, "%s", "x"), -EPERM);
	assert_int_equal(err_errno(NULL, -EPERM, "%s", "x"), -EPERM);
	assert_true(err_prefix(NULL, "%s", "x") < 0);
}

static void foreign_text_is_made_printable(void **state)
{
	struct err err = ERR_NONE;

	(void)state;
	err_set(&err, -EINVAL, "%s", "a\033[31mb\nc\rd\177e\xff\xc3\xa4\xc2\x9b");
	assert_null(strpbrk(err.text, "\033\n\r\177\xff"));
	assert_string_equal(err.text, "a?[31mb?c?d?e?\xc3\xa4??");
	err_errno(&err, -EINVAL, "%s", "x\033y");
	assert_string_equal(err.text, "x?y: Invalid argument");
	err_prefix(&err, "%s", "p\033q");
	assert_string_equal(err.text, "p?q: x?y: Invalid argument");
}

/* Cut, ended by a NUL, and not in the middle of a character. */
static void long_texts_are_cut(void **state)
{
	struct err err = ERR_NONE;
	char text[1000];

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 2; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	text[sizeof(text) - 2] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		err_set(&err, -EINVAL, "%s%s", shift ? "x" : "", text);
		assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
		assert_null(strstr(err.text, "\xc3\xc3"));
		assert_int_not_equal((unsigned char)err.text[sizeof(err.text) - 2], 0xc3);
		err_prefix(&err, "%s", "prefix");
		assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
		assert_memory_equal(err.text, "prefix: ", 8);
		err_errno(&err, -EINVAL, "%s", text);
		assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_and_codes),
		cmocka_unit_test(nobody_has_to_listen),
		cmocka_unit_test(foreign_text_is_made_printable),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
