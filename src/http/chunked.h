/*
 * chunked.h - bodies that come in chunks, taken apart byte by byte as they arrive, strictly
 *
 *	while (len > 0 && !chunked.is_done) {
 *		long n = chunked_take(&chunked, data, len, &piece);
 *		if (n < 0) ... refuse and close: where the next message begins is not known
 *		use(piece.data, piece.len);         // a part of data, often empty
 *		data += n, len -= n;
 *	}
 *
 * Nothing is kept but a few numbers, so a body of any size costs no memory. What stands behind a size
 * ("extensions") and behind the last chunk (trailers) is checked, bounded for the body as a whole, and left
 * out.
 */
#ifndef BRIG_HTTP_CHUNKED_H
#define BRIG_HTTP_CHUNKED_H

#include <stdbool.h>
#include <stdint.h>

#include "http/head.h"

#define CHUNKED_EXTRA_MAX (16 * KIB) /* of extensions and trailers */

struct chunked {
	unsigned int state; /* enum of chunked.c; 0 at the beginning */
	unsigned int digits;
	uint64_t left; /* of this chunk */
	size_t extra;
	bool is_done;
};

/* How many bytes were used, at least one if there is one and the body is not done; -EPROTO, -EMSGSIZE. */
[[nodiscard]] long chunked_take(struct chunked *chunked, const char *data, size_t len,
				struct text *ret_piece);

#endif
