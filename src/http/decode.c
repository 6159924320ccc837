#include "http/decode.h"

#include <errno.h>
#include <string.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character at *at; -1: none that may be. */
static int decode_one(const struct text *text, bool plus, size_t *at)
{
	char c = text->data[*at];
	int high, low;

	*at += 1;
	if (c == '+' && plus)
		return ' ';
	if (c != '%')
		return c == '\0' ? -1 : (unsigned char)c;
	if (text->len - *at < 2)
		return -1;
	high = digit_of(text->data[*at]);
	low = digit_of(text->data[*at + 1]);
	*at += 2;
	return high < 0 || low < 0 || (high == 0 && low == 0) ? -1 : high << 4 | low;
}

long percent_decode(const struct text *text, bool plus, char *ret, size_t size)
{
	size_t len = 0;

	for (size_t at = 0; at < text->len;) {
		int c = decode_one(text, plus, &at);

		if (c < 0)
			return -EINVAL;
		if (len + 1 >= size)
			return -EMSGSIZE;
		ret[len++] = (char)c;
	}
	if (size == 0)
		return -EMSGSIZE;
	ret[len] = '\0';
	return (long)len;
}

bool query_next(struct text *rest, struct text *ret_name, struct text *ret_value)
{
	while (rest->len > 0) {
		const char *amp = memchr(rest->data, '&', rest->len);
		struct text pair = { rest->data, amp ? (size_t)(amp - rest->data) : rest->len };
		const char *equals = pair.len > 0 ? memchr(pair.data, '=', pair.len) : NULL;
		size_t used = pair.len + (amp ? 1 : 0);

		rest->data += used;
		rest->len -= used;
		if (pair.len == 0)
			continue;
		*ret_name = pair;
		*ret_value = (struct text){ pair.data + pair.len, 0 };
		if (equals) {
			ret_name->len = (size_t)(equals - pair.data);
			*ret_value = (struct text){ equals + 1, pair.len - ret_name->len - 1 };
		}
		return true;
	}
	return false;
}

bool query_name_is(const struct text *name, const char *other)
{
	for (size_t at = 0; at < name->len; other++) {
		int c = decode_one(name, true, &at);

		if (c < 0 || c != (unsigned char)*other)
			return false;
	}
	return *other == '\0';
}

long query_value(const struct text *query, const char *name, size_t n, char *ret, size_t size)
{
	struct text rest = *query, key, value;

	while (query_next(&rest, &key, &value))
		if (query_name_is(&key, name) && n-- == 0)
			return percent_decode(&value, true, ret, size);
	return -ENOENT;
}

void hex_write(const void *data, size_t len, char *ret)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) {
		*ret++ = "0123456789abcdef"[p[i] >> 4];
		*ret++ = "0123456789abcdef"[p[i] & 15];
	}
	*ret = '\0';
}

int hex_read(const char *text, size_t text_len, void *ret, size_t len)
{
	unsigned char *out = ret;

	if (text_len != 2 * len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}
