#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "data/yaml_internal.h"

struct place yaml_place(struct yaml *y, const char *at)
{
	if (y->column_at < y->line_start) {
		y->column_at = y->line_start;
		y->column = 1;
	}
	/* Columns are characters: bytes that continue one do not count. */
	while (y->column_at < at)
		y->column += (*y->column_at++ & 0xc0) != 0x80;
	while (y->column_at > at)
		y->column -= (*--y->column_at & 0xc0) != 0x80;
	return (struct place){ y->line, y->column };
}

void yaml_report(struct yaml *y, struct place place, const char *fmt, ...)
{
	char text[sizeof(y->err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(y->err, -EINVAL, "%s:%u:%u: %s", y->name, place.line, place.column, text);
}

void yaml_newline(struct yaml *y)
{
	y->p += peek(y, 0) == '\r' && peek(y, 1) == '\n' ? 2 : 1;
	y->line_start = y->p;
	y->line++;
}

bool yaml_blanks(struct yaml *y)
{
	const char *from = y->p;

	while (is_blank(peek(y, 0)))
		y->p++;
	return y->p > from;
}

static unsigned int decode(const char *p, size_t len)
{
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned int c = (unsigned char)p[0] & first_bits[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c;
}

int yaml_check_span(struct yaml *y, const char *from, const char *to)
{
	/*
	 * U+0085, U+2028 and U+2029 end a line in YAML 1.1 and not in 1.2, so what stands behind
	 * them could be a comment to one reader and a rule to the other.
	 */
	static const struct {
		unsigned int first, last;
	} refused[] = {
		{ 0x7f, 0x9f },
		{ 0x2028, 0x2029 },
		{ 0xfeff, 0xfeff },
		{ 0xfffe, 0xffff },
	};

	for (const char *p = from; p < to;) {
		size_t n = utf8_sequence((const unsigned char *)p, (size_t)(to - p));
		unsigned int c = decode(p, n);

		for (size_t i = 0; c >= 0x7f && i < ARRAY_SIZE(refused); i++)
			if (c >= refused[i].first && c <= refused[i].last)
				return yaml_fail(y, p,
						 "the character U+%04X is only allowed in double "
						 "quotes: write it as \\u%04x there",
						 c, c);
		p += n;
	}
	return 0;
}

int yaml_comment(struct yaml *y, bool spaced)
{
	const char *from = y->p;

	if (!spaced)
		return yaml_fail(y, y->p, "a comment needs a space before \"#\"");
	while (y->p < y->end && !is_break(*y->p))
		y->p++;
	return yaml_check_span(y, from, y->p);
}

int yaml_finish_line(struct yaml *y)
{
	bool spaced = yaml_blanks(y);

	if (peek(y, 0) == '#')
		return yaml_comment(y, spaced);
	if (y->p == y->end || is_break(*y->p))
		return 0;
	if (*y->p == ':')
		return yaml_fail(y, y->p, "a colon behind a value (a key needs \": \" behind it)");
	return yaml_fail(y, y->p, "unexpected text behind the value");
}

bool yaml_at_marker(const struct yaml *y, const char *marker)
{
	return y->p == y->line_start && y->end - y->p >= 3 && memcmp(y->p, marker, 3) == 0 &&
	       is_gap(peek(y, 3));
}

int yaml_next_content(struct yaml *y)
{
	int r;

	y->tab = NULL;
	y->indent = -1;
	while (y->p < y->end) {
		if (is_break(*y->p)) {
			yaml_newline(y);
			continue;
		}
		while (peek(y, 0) == ' ')
			y->p++;
		y->tab = peek(y, 0) == '\t' ? y->p : NULL;
		y->indent = (int)(y->p - y->line_start);
		yaml_blanks(y);
		if (y->p < y->end && !is_break(*y->p) && *y->p != '#')
			break;
		y->indent = -1;
		if (peek(y, 0) != '#')
			continue;
		r = yaml_comment(y, true);
		if (r < 0)
			return r;
	}
	if (yaml_at_marker(y, "---") || yaml_at_marker(y, "..."))
		y->indent = -1;
	return 0;
}

int yaml_check_bytes(struct yaml *y)
{
	while (y->p < y->end) {
		unsigned char c = (unsigned char)*y->p;
		size_t n = 1;

		if (is_break(*y->p)) {
			yaml_newline(y);
			continue;
		}
		if (c < 0x20 && c != '\t')
			return yaml_fail(y, y->p, "a control byte (0x%02x)", c);
		if (c >= 0x80)
			n = utf8_sequence((const unsigned char *)y->p, (size_t)(y->end - y->p));
		if (n == 0)
			return yaml_fail(y, y->p, "a byte that is not UTF-8 (0x%02x)", c);
		y->p += n;
	}
	return 0;
}
