/*
 * fuzz_inert.c - the terminal filter on any bytes: the same result wherever the input is split, a
 * result that passes the filter again unchanged, and the bounds that the header promises
 */
#include <stdlib.h>
#include <string.h>

#include "output/inert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void feed(struct inert *inert, const void *data, size_t len, struct buf *out)
{
	size_t before = out->len;

	require(inert_feed(inert, data, len, out) == 0);
	require(out->len - before <= 3 * len + INERT_HOLD);
	require(inert->held <= INERT_HOLD);
}

static void require_same(const struct buf *a, const struct buf *b)
{
	require(a->len == b->len && !memcmp(buf_text(a), buf_text(b), a->len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_done) struct buf whole = BUF(3 * size + 4 * (size_t)INERT_FINISH_MAX);
	_cleanup_(buf_done) struct buf parts = BUF(whole.max);
	_cleanup_(buf_done) struct buf again = BUF(whole.max);
	struct inert one = INERT_START, two = INERT_START, three = INERT_START;
	size_t at = 0;

	/* A place that depends on all of the data: the fuzzer moves it with any byte. */
	for (size_t i = 0; i < size; i++)
		at = at * 31 + data[i];
	at %= size + 1;

	feed(&one, data, size, &whole);
	feed(&two, data, at, &parts);
	feed(&two, size ? data + at : data, size - at, &parts);
	require_same(&whole, &parts);
	require(one.dropped == two.dropped && one.modes == two.modes && one.undo == two.undo);

	require(inert_finish(&one, &whole) == 0);
	require(whole.len - parts.len <= INERT_FINISH_MAX);
	feed(&three, buf_text(&whole), whole.len, &again);
	require_same(&whole, &again);
	require(three.dropped == 0);
	/* What the end put back is back: there is nothing left to do. */
	require(three.modes == 0 && three.undo == 0);
	return 0;
}
