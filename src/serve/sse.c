#include "serve/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "output/text.h"

#define TYPE     "text/event-stream"
#define DATA_MAX (64 * MIB)

bool sse_is_wanted(const struct request *q)
{
	const struct text *accept = head_find(&q->x->head, "Accept");
	struct text first;
	size_t len = 0;

	if (!accept)
		return false;
	while (len < accept->len && accept->data[len] != ',' && accept->data[len] != ';')
		len++;
	while (len > 0 && accept->data[len - 1] == ' ')
		len--;
	first = (struct text){ accept->data, len };
	return text_is_nocase(&first, TYPE);
}

void sse_begin(struct request *q)
{
	exchange_header(q->x, "Cache-Control", "no-store");
	/* For those who put a server in front that collects answers. */
	exchange_header(q->x, "X-Accel-Buffering", "no");
	exchange_begin(q->x, 200, TYPE, -1);
}

void sse_send_line(struct exchange *x, const char *event, uint64_t id, const char *line, size_t len)
{
	char head[128] = "", number[32] = "";

	if (event)
		snprintf(head, sizeof(head), "event: %s\n", event);
	if (id)
		snprintf(number, sizeof(number), "id: %" PRIu64 "\n", id);
	exchange_write(x, head, strlen(head));
	exchange_write(x, number, strlen(number));
	exchange_write(x, "data: ", 6);
	exchange_write(x, line, len);
	exchange_write(x, "\n\n", 2);
}

void sse_send(struct exchange *x, const char *event, uint64_t id, const struct node *data)
{
	_cleanup_(buf_done) struct buf text = BUF(DATA_MAX);

	/* The canonical form has no line break in it. */
	if (!data || json_write(data, true, &text) < 0) {
		exchange_abort(x);
		return;
	}
	sse_send_line(x, event, id, buf_text(&text), text.len);
}

void sse_take(struct exchange *x, const char *event, uint64_t id, struct node *data)
{
	sse_send(x, event, id, data);
	node_free(data);
}

void sse_comment(struct exchange *x)
{
	exchange_write(x, ":\n\n", 3);
}

static struct node *bytes_node(const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf code = BUF(DATA_MAX);
	struct node *map = node_map();
	int r;

	if (is_utf8(data, len) && !memchr(data, '\0', len))
		r = node_set(map, "text", node_bytes(data, len));
	else if (base64_encode(data, len, &code) == 0)
		r = node_set(map, "base64", node_string(buf_text(&code)));
	else
		r = -1;
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

/* How many bytes at the end are the beginning of a character. */
static size_t cut_off(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;

	for (size_t back = 1; back <= 3 && back <= len; back++)
		if ((p[len - back] & 0xc0) != 0x80)
			return text_partial(p + len - back, back) == back ? back : 0;
	return 0;
}

void sse_bytes(struct exchange *x, const char *event, struct sse_rest *rest, const char *data,
	       size_t len)
{
	_cleanup_free_ char *all = malloc(rest->len + len + 1);
	size_t sum = rest->len + len, left;

	if (!all) {
		exchange_abort(x);
		return;
	}
	memcpy(all, rest->bytes, rest->len);
	memcpy(all + rest->len, data, len);
	left = cut_off(all, sum);
	memcpy(rest->bytes, all + sum - left, left);
	rest->len = left;
	if (sum > left)
		sse_take(x, event, 0, bytes_node(all, sum - left));
}

void sse_flush(struct exchange *x, const char *event, struct sse_rest *rest)
{
	if (rest->len > 0)
		sse_take(x, event, 0, bytes_node(rest->bytes, rest->len));
	rest->len = 0;
}
