/* Codings: what is decoded fits where it was told to, and what is encoded comes back the same. */
#include <stdlib.h>
#include <string.h>

#include "http/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void percent(const struct text *text)
{
	_cleanup_free_ char *ret = malloc(text->len + 1);
	long len = percent_decode(text, true, ret, text->len + 1);

	check(len < 0 || ((size_t)len <= text->len && strlen(ret) == (size_t)len));
}

static void query(const struct text *text)
{
	struct text rest = *text, name, value;
	char ret[64];

	while (query_next(&rest, &name, &value)) {
		check(name.data >= text->data && name.data + name.len <= text->data + text->len);
		check(value.data >= text->data && value.data + value.len <= text->data + text->len);
	}
	check(rest.len == 0);
	(void)!query_value(text, "path", 0, ret, sizeof(ret));
}

static void base64(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(BASE64_SIZE(size) + 1);
	_cleanup_free_ unsigned char *again = malloc(BASE64_SIZE(size) / 4 * 3 + 3);
	_cleanup_free_ unsigned char *decoded = malloc(size / 4 * 3 + 3);
	long len;

	check(base64_write(data, size, text) == BASE64_SIZE(size));
	check(base64_read(text, BASE64_SIZE(size), false, again) == (long)size);
	check(size == 0 || memcmp(again, data, size) == 0);
	len = base64_read((const char *)data, size, false, decoded);
	if (len < 0)
		return;
	/* There is one text only for what was strictly read. */
	check(BASE64_SIZE((size_t)len) == size);
	base64_write(decoded, (size_t)len, text);
	check(size == 0 || memcmp(text, data, size) == 0);
	check(base64_read((const char *)data, size, true, again) == len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = { (const char *)data, size };

	percent(&text);
	query(&text);
	base64(data, size);
	return 0;
}
