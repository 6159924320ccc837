/*
 * fuzz_http_head.c - any bytes as the head of a request and of a response, and as a chunked body
 *
 * What is held: a head is measured the same however much comes behind it; all that it points to lies within
 * it; written down again as brig understood it, it is understood the same; and a body that comes in chunks
 * is the same in whatever pieces it arrives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/chunked.h"
#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void require_within(struct text text, const char *data, size_t len)
{
	if (text.len == 0 || text_is(&text, "/"))
		return;
	require(text.data >= data && text.data + text.len <= data + len);
}

static bool same(struct text a, struct text b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static void check_within(const struct head *head, const char *data, size_t len)
{
	require_within(head->method_text, data, len);
	require_within(head->target, data, len);
	require_within(head->path, data, len);
	require_within(head->query, data, len);
	require_within(head->host, data, len);
	require(head->field_count <= HEAD_FIELDS);
	for (size_t i = 0; i < head->field_count; i++) {
		struct text name = head->fields[i].name, value = head->fields[i].value;

		require_within(name, data, len);
		require_within(value, data, len);
		require(name.len > 0);
		for (size_t k = 0; k < value.len; k++)
			require(value.data[k] != '\r' && value.data[k] != '\n' &&
				value.data[k] != '\0');
	}
	require(head->framing != FRAMING_CHUNKED || head->minor == 1);
}

/* As a proxy would pass it on. */
static void write_again(const struct head *head, bool is_request, struct buf *buf)
{
	if (is_request) {
		buf_add(buf, head->method_text.data, head->method_text.len);
		buf_str(buf, " ");
		buf_add(buf, head->target.data, head->target.len);
		buf_printf(buf, " HTTP/1.%u\r\n", head->minor);
	} else {
		buf_printf(buf, "HTTP/1.%u %u\r\n", head->minor, head->status);
	}
	for (size_t i = 0; i < head->field_count; i++) {
		buf_add(buf, head->fields[i].name.data, head->fields[i].name.len);
		buf_str(buf, ":");
		buf_add(buf, head->fields[i].value.data, head->fields[i].value.len);
		buf_str(buf, "\r\n");
	}
	buf_str(buf, "\r\n");
}

static int parse(const char *data, size_t len, bool is_request, struct head *ret_head)
{
	const char *why = NULL;
	int r = is_request ? head_parse_request(data, len, ret_head, &why)
			   : head_parse_response(data, len, false, ret_head, &why);

	require(r == 0 || (why && why[0]));
	return r;
}

static void check_head(const char *data, size_t len, bool is_request)
{
	static struct head head, again;
	_cleanup_(buf_done) struct buf buf = BUF(2 * HEAD_MAX);

	if (parse(data, len, is_request, &head) < 0)
		return;
	check_within(&head, data, len);
	write_again(&head, is_request, &buf);
	require(buf_failed(&buf) == 0);
	require(parse(buf.data, buf.len, is_request, &again) == 0);
	require(again.framing == head.framing && again.length == head.length &&
		again.keep_alive == head.keep_alive && again.upgrade == head.upgrade &&
		again.expects == head.expects && again.status == head.status &&
		again.field_count == head.field_count && again.method == head.method &&
		same(again.path, head.path) && same(again.query, head.query) &&
		same(again.host, head.host));
}

/* How much was used, or -errno; what the body is. */
static long decode(const char *data, size_t len, size_t step, struct buf *ret_body)
{
	struct chunked chunked = { 0 };
	size_t at = 0;

	while (at < len && !chunked.is_done) {
		struct text piece;
		size_t part = MIN(step, len - at);
		long n = chunked_take(&chunked, data + at, part, &piece);

		if (n < 0)
			return n;
		require(n > 0 && (size_t)n <= part);
		require_within(piece, data + at, part);
		buf_add(ret_body, piece.data, piece.len);
		at += (size_t)n;
	}
	return chunked.is_done ? (long)at : -EAGAIN;
}

static void check_chunks(const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf whole = BUF(64 * MIB), parts = BUF(64 * MIB);
	long a = decode(data, len, len, &whole), b = decode(data, len, 1, &parts);

	require(a == b && whole.len == parts.len);
	require(whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why = NULL;
	long n = head_measure((const char *)data, size, &why);
	char *copy;

	require(n <= (long)HEAD_MAX && n <= (long)size);
	require(n >= 0 || (why && why[0]));
	check_chunks((const char *)data, size);
	if (n <= 0)
		return 0;
	require(head_measure((const char *)data, (size_t)n, &why) == n);
	require(head_measure((const char *)data, (size_t)n - 1, &why) == 0);
	/* Without room to spare. */
	copy = malloc((size_t)n);
	require(copy);
	memcpy(copy, data, (size_t)n);
	check_head(copy, (size_t)n, true);
	check_head(copy, (size_t)n, false);
	free(copy);
	return 0;
}
