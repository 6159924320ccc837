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

/* Appends data to out with every byte that is not part of valid UTF-8 replaced by U+FFFD. */
[[nodiscard]] int text_of(const void *data, size_t len, struct buf *out, bool *ret_exact);

[[nodiscard]] int base64_encode(const void *data, size_t len, struct buf *out);

#endif
