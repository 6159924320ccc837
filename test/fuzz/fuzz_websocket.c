/*
 * fuzz_websocket.c - any bytes as what a client sends over a WebSocket: however they are cut into pieces, the
 * same messages come of them, none larger than it may be, and text is UTF-8
 */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/str.h"
#include "http/websocket.h"

#define LONGEST 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct websocket_message *m)
{
	require(m->len <= LONGEST);
	switch (m->kind) {
	case WEBSOCKET_TEXT:
		require(is_utf8(m->data, m->len));
		break;
	case WEBSOCKET_BINARY:
		break;
	case WEBSOCKET_CLOSE:
		require(is_utf8(m->data, m->len) && m->code >= 1000 && m->code < 5000);
		/* fall through */
	case WEBSOCKET_PING:
	case WEBSOCKET_PONG:
		require(m->len <= WEBSOCKET_CONTROL_MAX);
		break;
	default:
		abort();
	}
}

/* All that was said, and how it ended. */
static int read_all(const uint8_t *bytes, size_t size, size_t piece, struct buf *log)
{
	struct websocket_message m;
	struct websocket ws;
	int r = 0;

	websocket_init(&ws, LONGEST);
	for (size_t at = 0; at < size && r >= 0; at += piece) {
		const char *data = (const char *)bytes + at;
		size_t len = MIN(piece, size - at);

		while ((r = websocket_next(&ws, &data, &len, &m)) > 0) {
			check(&m);
			require(buf_printf(log, "%d %u %zu ", (int)m.kind, m.code, m.len) == 0);
			require(buf_add(log, m.data, m.len) == 0);
		}
		require(len == 0);
	}
	websocket_done(&ws);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF(64 * MIB), parts = BUF(64 * MIB);
	int r;

	if (size > 64 * KIB)
		return 0;
	r = read_all(data, size, size ? size : 1, &whole);
	for (size_t piece = 1; piece < 6; piece += 2) {
		buf_reset(&parts);
		require(read_all(data, size, piece, &parts) == r);
		require(parts.len == whole.len &&
			(parts.len == 0 || memcmp(parts.data, whole.data, parts.len) == 0));
	}
	buf_done(&whole);
	buf_done(&parts);
	return 0;
}
