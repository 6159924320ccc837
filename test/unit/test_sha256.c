#include "unit.h"

#include "base/sha256.h"

/* The examples of FIPS 180-4, and lengths around the padding's edges as sha256sum prints them. */
static void known_answers(void **state)
{
	static const struct {
		size_t len;
		const char *text, *hex;
	} rows[] = {
		{ 0, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ 3, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ 55, NULL, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318" },
		{ 56, NULL, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a" },
		{ 64, NULL, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
		{ 1000, NULL, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3" },
	};
	char as[1000], hex[SHA256_HEX_SIZE];

	(void)state;
	memset(as, 'a', sizeof(as));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		sha256_hex(rows[i].text ? rows[i].text : as, rows[i].len, hex);
		assert_string_equal(hex, rows[i].hex);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(known_answers) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
