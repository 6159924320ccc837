/*
 * decode.h - the small codings of the web: percent, queries, base64, hexadecimal
 *
 * Strict: what two programs could read in two ways is refused, not repaired. Nothing here keeps anything;
 * outputs are the caller's, with their size.
 *
 *	struct text rest = head->query, name, value;
 *	while (query_next(&rest, &name, &value))
 *		if (query_name_is(&name, "path"))
 *			r = percent_decode(&value, true, path, sizeof(path));
 */
#ifndef BRIG_HTTP_DECODE_H
#define BRIG_HTTP_DECODE_H

#include "http/head.h"

/*
 * Decodes into a C string, and gives its length. plus: '+' is a space, as in queries. -EINVAL: "%" without two
 * digits behind it, or a NUL; -EMSGSIZE: it does not fit.
 */
[[nodiscard]] long percent_decode(const struct text *text, bool plus, char *ret, size_t size);

/* The next pair, both still encoded; empty ones are passed over. False at the end. *rest begins as the query. */
bool query_next(struct text *rest, struct text *ret_name, struct text *ret_value);
bool query_name_is(const struct text *name, const char *other); /* decoded, exactly */

/* The n-th value (from 0) of that name, decoded: its length; -ENOENT, -EINVAL, -EMSGSIZE. */
[[nodiscard]] long query_value(const struct text *query, const char *name, size_t n, char *ret,
			       size_t size);

/*
 * Base64. Bulk output goes through base64_write(), which uses what the processor has (AVX2: several GB/s);
 * so it takes memory and no buf. Room: BASE64_SIZE(len). Gives how many characters it wrote; no NUL.
 */
#define BASE64_SIZE(len) (((len) + 2) / 3 * 4)
size_t base64_write(const void *data, size_t len, char *ret);

/*
 * Gives the length of what it decoded; room: len / 4 * 3 + 3. -EINVAL: another byte, a length that cannot be,
 * bits left over that are not 0. web: as the JSON of protobuf allows it, that is also '-' and '_', and padding
 * that is missing; else '+' and '/' alone, padded.
 */
[[nodiscard]] long base64_read(const char *text, size_t len, bool web, void *ret);

/* Lower case, with a NUL: room for 2 * len + 1. */
void hex_write(const void *data, size_t len, char *ret);
/* Exactly len bytes out of 2 * len digits of either case. */
[[nodiscard]] int hex_read(const char *text, size_t text_len, void *ret, size_t len);

#endif
