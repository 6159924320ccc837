#include "unit.h"

#include <errno.h>

#include "serve/signature.h"

#define TOKEN "0123456789abcdef"

/* By another program: printf '%s' '/a b:read::0123456789abcdef' | sha256sum | xxd -r -p | base64 */
static const struct signature plain = { .path = "/a b",
					.operation = "read",
					.user = "",
					.given = "v1_uAyWIT/Q5snNVxsVDljcmEtuefVIwd/TVlK3tvsSe3A" };
static const struct signature timed = { .path = "/a b",
					.operation = "write",
					.user = "user",
					.expiration = "1700000000",
					.given = "v1_IVfHvhSNUWrf6JzbO/5wPcM5nhLms6XeR2o5lstZqhQ" };

static void good(void **state)
{
	(void)state;
	assert_int_equal(signature_check(&plain, TOKEN, 1), 0);
	assert_int_equal(signature_check(&timed, TOKEN, 1699999999), 0);
	assert_int_equal(signature_check(&timed, TOKEN, 1700000000), 0);
	assert_int_equal(signature_check(&timed, TOKEN, 1700000001), -ETIME);
}

static void bad(void **state)
{
	struct signature s = plain;
	char text[64];

	(void)state;
	assert_int_equal(signature_check(&plain, TOKEN "0", 1), -EACCES);
	assert_int_equal(signature_check(&plain, "", 1), -EACCES);
	s.path = "/a";
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	s = plain;
	s.operation = "write";
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	s = plain;
	s.user = "user";
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	s = plain;
	s.expiration = "";
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	/* Every character counts. */
	for (size_t i = 0; i < strlen(plain.given); i++) {
		strcpy(text, plain.given);
		text[i] = text[i] == 'A' ? 'B' : 'A';
		s = plain;
		s.given = text;
		assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	}
	s.given = "";
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
	strcpy(text, plain.given);
	strcat(text, "=");
	s.given = text;
	assert_int_equal(signature_check(&s, TOKEN, 1), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(good), cmocka_unit_test(bad) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
