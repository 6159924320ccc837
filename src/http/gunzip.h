/*
 * gunzip.h - a body that is packed (Content-Encoding: gzip), unpacked as it comes
 *
 * Pulled, like multipart.h: bytes are given, and pieces come out, of bounded length whatever was packed.
 */
#ifndef BRIG_HTTP_GUNZIP_H
#define BRIG_HTTP_GUNZIP_H

#include "http/head.h"

struct gunzip;

[[nodiscard]] int gunzip_new(struct gunzip **ret_gunzip);
void gunzip_free(struct gunzip *g); /* NULL allowed */

/* 1 with a piece, good until the next call, and *data and *len moved on; 0: all was used; -EPROTO, -ENOMEM. */
[[nodiscard]] int gunzip_next(struct gunzip *g, const char **data, size_t *len,
			      struct text *ret_piece);
[[nodiscard]] int gunzip_finish(const struct gunzip *g); /* -EPROTO: it was cut off */

#endif
