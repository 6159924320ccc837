/* What is packed means the same however it is cut. The first byte says how. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/gunzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENOUGH (4 * MIB)

static int unpack(const uint8_t *data, size_t size, size_t step, struct buf *out)
{
	struct gunzip *g;
	struct text piece;
	int r = gunzip_new(&g);

	if (r < 0)
		return r;
	for (size_t at = 0; r >= 0 && at < size && out->len < ENOUGH; at += step) {
		size_t len = MIN(step, size - at);
		const char *p = (const char *)data + at;

		while (out->len < ENOUGH && (r = gunzip_next(g, &p, &len, &piece)) > 0)
			buf_add(out, piece.data, piece.len);
	}
	r = r < 0 ? r : gunzip_finish(g);
	gunzip_free(g);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf whole = BUF(64 * MIB);
	_cleanup_(buf_done) struct buf cut = BUF(64 * MIB);
	int a, b;

	if (size == 0)
		return 0;
	a = unpack(data + 1, size - 1, MAX(size, (size_t)1), &whole);
	b = unpack(data + 1, size - 1, (size_t)data[0] % 16 + 1, &cut);
	if (whole.len < ENOUGH &&
	    (a != b || (a == 0 && (whole.len != cut.len ||
				   (cut.len > 0 && memcmp(whole.data, cut.data, cut.len) != 0)))))
		abort();
	return 0;
}
