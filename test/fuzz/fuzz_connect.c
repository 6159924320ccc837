/* A stream of envelopes means the same however it is cut. The first byte says how. */
#include <stdlib.h>
#include <string.h>

#include "http/connect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST 64

/* What was read, written again; returns how it ended. */
static int read_in_steps(const uint8_t *data, size_t size, size_t step, struct buf *out)
{
	struct connect_reader r;
	int got = 0;

	connect_reader_init(&r, LONGEST);
	for (size_t at = 0; got >= 0 && at < size; at += step) {
		size_t len = MIN(step, size - at);
		const char *p = (const char *)data + at;
		struct text message;

		while ((got = connect_read(&r, &p, &len, &message)) > 0)
			(void)!connect_frame(out, 0, message.data, message.len);
		if (got == 0 && len > 0)
			abort();
	}
	if (got == 0)
		got = connect_finish(&r);
	connect_reader_done(&r);
	return got;
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
	data++;
	size--;
	a = read_in_steps(data, size, MAX(size, (size_t)1), &whole);
	b = read_in_steps(data, size, step, &cut);
	if (a != b || whole.len != cut.len ||
	    (whole.len > 0 && memcmp(whole.data, cut.data, whole.len) != 0))
		abort();
	/* What was taken to its end is what was given. */
	if (a == 0 && (whole.len != size || (size > 0 && memcmp(whole.data, data, size) != 0)))
		abort();
	return 0;
}
