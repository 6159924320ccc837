#include "trace/cursor.h"

#include <string.h>

#include "base/str.h"

void cursor_bytes(struct cursor *c, const void *data, size_t len)
{
	if ((size_t)(c->end - c->at) < len) {
		c->is_over = true;
		return;
	}
	memcpy(c->at, data, len);
	c->at += len;
}

void cursor_number(struct cursor *c, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	cursor_bytes(c, digits + at, sizeof(digits) - at);
}

static bool is_plain(unsigned char byte)
{
	return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

static void escape(struct cursor *c, unsigned char byte)
{
	static const char short_escapes[] = {
		['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
		['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
	};
	static const char hex[] = "0123456789abcdef";
	const char code[] = { '\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15] };

	if (byte < sizeof(short_escapes) && short_escapes[byte])
		cursor_bytes(c, (const char[]){ '\\', short_escapes[byte] }, 2);
	else
		cursor_bytes(c, code, sizeof(code));
}

bool cursor_string(struct cursor *c, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len;
	bool is_exact = true;

	cursor_bytes(c, "\"", 1);
	while (p < end) {
		const unsigned char *from = p;
		size_t n;

		while (p < end && is_plain(*p))
			p++;
		cursor_bytes(c, from, (size_t)(p - from));
		if (p == end)
			break;
		n = utf8_sequence(p, (size_t)(end - p));
		if (n == 0 || *p == '\0') {
			cursor_bytes(c, "\xef\xbf\xbd", 3);
			is_exact = false;
			n = 1;
		} else if (n == 1 || (p[0] == 0xc2 && p[1] < 0xa0)) {
			/* The controls of ASCII, and those that only terminals know (U+0080 on). */
			escape(c, p[n - 1]);
		} else {
			cursor_bytes(c, p, n);
		}
		p += n;
	}
	cursor_bytes(c, "\"", 1);
	return is_exact;
}

void cursor_base64(struct cursor *c, const void *data, size_t len)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;

	cursor_bytes(c, "\"", 1);
	for (; len > 0; p += MIN(len, (size_t)3), len -= MIN(len, (size_t)3)) {
		uint32_t v = (uint32_t)p[0] << 16 | (len > 1 ? (uint32_t)p[1] << 8 : 0) |
			     (len > 2 ? p[2] : 0);
		const char four[] = { alphabet[v >> 18], alphabet[v >> 12 & 63],
				      len > 1 ? alphabet[v >> 6 & 63] : '=',
				      len > 2 ? alphabet[v & 63] : '=' };

		cursor_bytes(c, four, sizeof(four));
	}
	cursor_bytes(c, "\"", 1);
}
