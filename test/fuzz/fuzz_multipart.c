/* A form means the same however it is cut. The first byte says how. */
#include <stdlib.h>
#include <string.h>

#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_in_steps(const uint8_t *data, size_t size, size_t step, struct buf *out)
{
	static const struct text type = { "multipart/form-data; boundary=XX", 32 };
	struct multipart m;
	struct text piece;
	int r = multipart_init(&m, &type);

	for (size_t at = 0; r >= 0 && at < size; at += step) {
		size_t len = MIN(step, size - at);
		const char *p = (const char *)data + at;

		while ((r = multipart_next(&m, &p, &len, &piece)) > 0) {
			if (r == MULTIPART_DATA) {
				if (piece.len == 0)
					abort();
				buf_add(out, piece.data, piece.len);
			} else {
				buf_printf(out, "<%d %s %s>", r, m.name, m.filename);
			}
		}
		if (r == 0 && len > 0)
			abort();
	}
	if (r == 0)
		r = multipart_finish(&m);
	if (r < 0 && !m.why)
		abort();
	multipart_done(&m);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf whole = BUF(64 * MIB);
	_cleanup_(buf_done) struct buf cut = BUF(64 * MIB);
	size_t step;
	int a, b;

	if (size == 0)
		return 0;
	step = (size_t)data[0] % 16 + 1;
	a = read_in_steps(data + 1, size - 1, MAX(size, (size_t)1), &whole);
	b = read_in_steps(data + 1, size - 1, step, &cut);
	if (a != b || whole.len != cut.len ||
	    (whole.len > 0 && memcmp(whole.data, cut.data, whole.len) != 0))
		abort();
	return 0;
}
