/*
 * text.h - bytes of a program as text for a JSON result
 *
 * The text is always valid UTF-8. Where the bytes were not, text_of() says so, and the result
 * carries a base64 twin that holds them exactly.
 */
#ifndef BRIG_OUTPUT_TEXT_H
#define BRIG_OUTPUT_TEXT_H

#include <stdbool.h>

#include "base/buf.h"

#define TEXT_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Appends data to out with what is not valid UTF-8 replaced: one U+FFFD for each sequence that is
 * cut short, one for every other byte, as Unicode recommends and as decoders elsewhere do it. The
 * result is at most three times as long as data.
 */
[[nodiscard]] int text_of(const void *data, size_t len, struct buf *out, bool *ret_exact);

/* How many of the first len bytes at p are the beginning of a valid sequence of two to four bytes,
 * without being one (0 to 3). */
size_t text_partial(const unsigned char *p, size_t len);

/* Appends data in the standard alphabet of RFC 4648, padded, on one line. */
[[nodiscard]] int base64_encode(const void *data, size_t len, struct buf *out);

#endif
