#include "output/text.h"

#include "base/str.h"

size_t text_partial(const unsigned char *p, size_t len)
{
	unsigned char whole[4] = { 0, 0x80, 0x80, 0x80 };

	/* The first byte alone may need a second one that is above 0x80, so it is judged by itself.
	 */
	if (len == 0 || p[0] < 0xc2 || p[0] > 0xf4 || utf8_sequence(p, len))
		return 0;
	whole[0] = p[0];
	for (size_t n = 1; n < ARRAY_SIZE(whole); n++) {
		if (n == len)
			return n;
		whole[n] = p[n];
		if (utf8_sequence(whole, sizeof(whole)) <= n)
			return n;
	}
	return ARRAY_SIZE(whole) - 1;
}

int text_of(const void *data, size_t len, struct buf *out, bool *ret_exact)
{
	const unsigned char *p = data;
	size_t done = 0; /* everything before it is in out */
	bool exact = true;
	size_t i = 0;
	int r;

	while (i < len) {
		size_t n = utf8_sequence(p + i, len - i);

		if (n == 0) {
			buf_add(out, p + done, i - done);
			buf_str(out, TEXT_REPLACEMENT);
			exact = false;
			n = MAX(text_partial(p + i, len - i), (size_t)1);
			done = i + n;
		}
		i += n;
	}
	if (done < len)
		buf_add(out, p + done, len - done);
	r = buf_failed(out);
	if (r < 0)
		return r;
	*ret_exact = exact;
	return 0;
}

int base64_encode(const void *data, size_t len, struct buf *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t n = MIN(len - i, (size_t)3);
		unsigned int bits = (unsigned int)p[i] << 16;
		char four[4] = { '=', '=', '=', '=' };

		if (n > 1)
			bits |= (unsigned int)p[i + 1] << 8;
		if (n > 2)
			bits |= p[i + 2];
		for (size_t k = 0; k <= n; k++)
			four[k] = digits[bits >> (18 - 6 * k) & 63];
		buf_add(out, four, sizeof(four));
	}
	return buf_failed(out);
}
