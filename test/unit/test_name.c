#include "unit.h"

#include <stdlib.h>

#include "base/macro.h"
#include "egress/name.h"

#define LABEL_63 "a23456789012345678901234567890123456789012345678901234567890123"
#define LABEL_61 "a234567890123456789012345678901234567890123456789012345678901"

static enum name_kind read_text(const char *text, size_t len, char *name)
{
	struct address address;
	char *copy = malloc(len ? len : 1);
	enum name_kind kind;

	assert_non_null(copy);
	memcpy(copy, text, len);
	kind = name_read(copy, len, name, &address);
	free(copy);
	return kind;
}

static void names(void **state)
{
	static const struct {
		const char *text, *name;
	} rows[] = {
		{ "example.com", "example.com" },
		{ "EXAMPLE.Com", "example.com" },
		{ "example.com.", "example.com" },
		{ "_sip._tcp.example.com", "_sip._tcp.example.com" },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example" },
		{ "localhost", "localhost" },
		{ "1.2.3.4.example", "1.2.3.4.example" },
		{ "0x7f.example", "0x7f.example" },
		{ "127.0.0.1.nip.io", "127.0.0.1.nip.io" },
		{ "0xg", "0xg" },
		{ "a.0b1", "a.0b1" },
		{ LABEL_63 ".example", LABEL_63 ".example" },
		{ LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61,
		  LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 },
		{ LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 ".",
		  LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 },
	};
	char name[NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (read_text(rows[i].text, strlen(rows[i].text), name) != NAME_HOST)
			fail_msg("%s is no name", rows[i].text);
		assert_string_equal(name, rows[i].name);
	}
}

static void not_names(void **state)
{
	static const char *const rows[] = {
		"",
		".",
		"..",
		"a..b",
		".a",
		"a..",
		"-a.b",
		"a-.b",
		"a b",
		"a/b",
		"a@b",
		"a%b",
		"b\xc3\xbc"
		"cher.example",
		"a\n",
		"a?b",
		"*.a",
		"a\\.b",
		"\xff\xff",
		LABEL_63 "x.example",
		/* 254 */
		LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "x",
	};
	char name[NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (read_text(rows[i], strlen(rows[i]), name) != NAME_INVALID)
			fail_msg("%s is taken for something", rows[i]);
	assert_int_equal(read_text("a\0b", 3, name), NAME_INVALID);
}

static void addresses_in_disguise(void **state)
{
	static const struct {
		const char *text;
		enum name_kind kind;
	} rows[] = {
		{ "127.0.0.1", NAME_ADDRESS },
		{ "127.0.0.1.", NAME_ADDRESS },
		{ "::1", NAME_ADDRESS },
		{ "[::1]", NAME_ADDRESS },
		{ "[::ffff:127.0.0.1]", NAME_ADDRESS },
		{ "127.1", NAME_ODD_ADDRESS },
		{ "127.0.1", NAME_ODD_ADDRESS },
		{ "2130706433", NAME_ODD_ADDRESS },
		{ "017700000001", NAME_ODD_ADDRESS },
		{ "0x7f.1", NAME_ODD_ADDRESS },
		{ "0x7f000001", NAME_ODD_ADDRESS },
		{ "0X7F000001", NAME_ODD_ADDRESS },
		{ "0x", NAME_ODD_ADDRESS },
		{ "127.0.0.01", NAME_ODD_ADDRESS },
		{ "127.0.0.0x1", NAME_ODD_ADDRESS },
		{ "127.0.0.1.1", NAME_ODD_ADDRESS },
		{ "256.256.256.256", NAME_ODD_ADDRESS },
		{ "example.1", NAME_ODD_ADDRESS },
		{ "[::1", NAME_ODD_ADDRESS },
		{ "[127.0.0.1]", NAME_ODD_ADDRESS },
		{ "fe80::1%1", NAME_ODD_ADDRESS },
		{ "a:80", NAME_ODD_ADDRESS },
		/* full width, ideographic full stops, circled */
		{ "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", NAME_ODD_ADDRESS },
		{ "127\xe3\x80\x82"
		  "0\xef\xbd\xa1"
		  "0\xef\xbc\x8e"
		  "1",
		  NAME_ODD_ADDRESS },
		{ "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1", NAME_ODD_ADDRESS },
		{ "0\xef\xbd\x98"
		  "7f000001",
		  NAME_ODD_ADDRESS },
	};
	char name[NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (read_text(rows[i].text, strlen(rows[i].text), name) != rows[i].kind)
			fail_msg("%s", rows[i].text);
}

static void wildcards_are_not_the_apex(void **state)
{
	(void)state;
	assert_true(name_is_under("a.example.com", "example.com"));
	assert_true(name_is_under("a.b.example.com", "example.com"));
	assert_false(name_is_under("example.com", "example.com"));
	assert_false(name_is_under(".example.com", "example.com"));
	assert_false(name_is_under("aexample.com", "example.com"));
	assert_false(name_is_under("com", "example.com"));
}

static void special_names(void **state)
{
	(void)state;
	assert_int_equal(name_classify("metadata.google.internal"), ADDRESS_METADATA);
	assert_int_equal(name_classify("x.metadata.google.internal"), ADDRESS_METADATA);
	assert_int_equal(name_classify("instance-data"), ADDRESS_METADATA);
	assert_int_equal(name_classify("a.localhost"), ADDRESS_LOOPBACK);
	assert_int_equal(name_classify("google.internal"), ADDRESS_PUBLIC);
	assert_int_equal(name_classify("metadata.example.com"), ADDRESS_PUBLIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(not_names),
		cmocka_unit_test(addresses_in_disguise),
		cmocka_unit_test(wildcards_are_not_the_apex),
		cmocka_unit_test(special_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
