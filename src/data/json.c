#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "data/node.h"
#include "data/node_internal.h"

struct writer {
	struct buf *buf;
	bool canonical;
	int level;
};

/* The letter behind the backslash for what has a short form. */
static const char short_escapes[] = {
	['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
	['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
};

/*
 * How many bytes at p stand as they are: 0 for what must be escaped or is no UTF-8. DEL and U+0080
 * to U+009F are legal in JSON as they are, but a terminal may obey them.
 */
static size_t plain_bytes(const unsigned char *p, size_t len)
{
	size_t n = utf8_sequence(p, len);

	if (n == 1 && (*p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\'))
		return 0;
	if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0)
		return 0;
	return n;
}

/* Writes one character that cannot stand as it is; returns its length in the source. */
static size_t write_escape(const unsigned char *p, size_t len, struct buf *buf)
{
	size_t n = utf8_sequence(p, len);

	if (n == 0)
		buf_str(buf, "\xef\xbf\xbd");
	else if (n == 2)
		buf_printf(buf, "\\u%04x", p[1]);
	else if (*p < sizeof(short_escapes) && short_escapes[*p])
		buf_printf(buf, "\\%c", short_escapes[*p]);
	else
		buf_printf(buf, "\\u%04x", *p);
	return n ? n : 1;
}

int json_write_string(const char *text, size_t len, struct buf *buf)
{
	const unsigned char *p = (const unsigned char *)text;
	const unsigned char *end = p + len;

	buf_char(buf, '"');
	while (p < end) {
		const unsigned char *from = p;
		size_t n;

		while (p < end && (n = plain_bytes(p, (size_t)(end - p))) > 0)
			p += n;
		buf_add(buf, from, (size_t)(p - from));
		if (p < end)
			p += write_escape(p, (size_t)(end - p), buf);
	}
	buf_char(buf, '"');
	return buf_failed(buf);
}

/*
 * 15 digits are always exact to read, 17 always enough; the fewest that give the same number back
 * are the canonical ones. A number that looks whole gets ".0", so that it is read as a float again.
 */
static int write_float(double value, struct buf *buf)
{
	char text[40];

	if (!isfinite(value))
		return -EDOM;
	if (value == 0)
		return buf_str(buf, "0.0"); /* -0.0 is equal to 0.0 and so gives the same bytes */
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	buf_str(buf, text);
	return strpbrk(text, ".e") ? buf_failed(buf) : buf_str(buf, ".0");
}

static void new_line(struct writer *w)
{
	if (!w->canonical)
		buf_printf(w->buf, "\n%*s", 2 * w->level, "");
}

static int write_node(struct writer *w, const struct node *node);

static int write_entry(struct writer *w, const struct node_entry *entry, bool first)
{
	if (!first)
		buf_char(w->buf, ',');
	new_line(w);
	if (entry->key) {
		int r = json_write_string(entry->key, strlen(entry->key), w->buf);

		if (r < 0)
			return r;
		buf_str(w->buf, w->canonical ? ":" : ": ");
	}
	return write_node(w, entry->value);
}

static int write_entries(struct writer *w, const struct node *node)
{
	_cleanup_free_ const struct node_entry **sorted = NULL;
	int r = 0;

	if (w->canonical && node->kind == NODE_MAP)
		r = node_sorted(node, &sorted);
	for (size_t i = 0; r >= 0 && i < node->count; i++)
		r = write_entry(w, sorted ? sorted[i] : &node->entries[i], i == 0);
	return r;
}

static int write_collection(struct writer *w, const struct node *node)
{
	const char *brackets = node->kind == NODE_MAP ? "{}" : "[]";
	int r;

	buf_char(w->buf, brackets[0]);
	w->level++;
	r = write_entries(w, node);
	w->level--;
	if (r < 0)
		return r;
	if (node->count > 0)
		new_line(w);
	return buf_char(w->buf, brackets[1]);
}

static int write_node(struct writer *w, const struct node *node)
{
	switch (node->kind) {
	case NODE_NULL:
		return buf_str(w->buf, "null");
	case NODE_BOOL:
		return buf_str(w->buf, node->number ? "true" : "false");
	case NODE_INT:
		return buf_printf(w->buf, "%" PRId64, node->number);
	case NODE_FLOAT:
		return write_float(node->real, w->buf);
	case NODE_STRING:
		return json_write_string(node->text, node->len, w->buf);
	case NODE_LIST:
	case NODE_MAP:
		return write_collection(w, node);
	}
	return -EINVAL;
}

int json_write(const struct node *node, bool canonical, struct buf *buf)
{
	struct writer w = { .buf = buf, .canonical = canonical };
	int r = write_node(&w, node);

	return r < 0 ? r : buf_failed(buf);
}
