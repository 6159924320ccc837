#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "data/yaml_internal.h"

/* An escape of two bytes can become three, so text never grows beyond twice its source. */
#define TEXT_MAX (2 * YAML_MAX_BYTES)

static int take_text(struct yaml *y, struct buf *buf, struct scalar *ret_scalar)
{
	size_t len = buf->len;
	char *text = buf_failed(buf) ? NULL : buf_take(buf);

	if (!text)
		return yaml_no_memory(y);
	ret_scalar->text = text;
	ret_scalar->len = len;
	return 0;
}

/* --- plain --- */

/* What a plain scalar cannot begin with, and what was probably meant. */
static int check_plain_start(struct yaml *y, bool flow)
{
	static const struct {
		char c;
		const char *text;
	} refused[] = {
		{ '&', "anchors are not allowed in a policy (text that begins with \"&\" needs "
		       "quotes)" },
		{ '*', "aliases are not allowed in a policy (text that begins with \"*\" needs "
		       "quotes)" },
		{ '!',
		  "tags are not allowed in a policy (text that begins with \"!\" needs quotes)" },
		{ '%', "text that begins with \"%\" needs quotes" },
		{ '@', "text that begins with \"@\" needs quotes" },
		{ '`', "text that begins with \"`\" needs quotes" },
		{ '|', "a \"|\" text is not possible inside brackets: put it in quotes" },
		{ '>', "a \">\" text is not possible inside brackets: put it in quotes" },
		{ '#', "a comment needs a space before \"#\"" },
		{ ',', "unexpected \",\"" },
		{ ']', "\"]\" without \"[\"" },
		{ '}', "\"}\" without \"{\"" },
	};
	char c = peek(y, 0), next = peek(y, 1);
	bool alone = is_gap(next) || (flow && is_flow_mark(next));

	if (c == '%' && y->p == y->line_start)
		return yaml_fail(y, y->p, "directives are not allowed");
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (c == refused[i].c)
			return yaml_fail(y, y->p, "%s", refused[i].text);
	if (c == '?' && (flow || alone))
		return yaml_fail(y, y->p, "\"?\" keys are not allowed: write \"key: value\"");
	if (c == ':' && (flow || alone))
		return yaml_fail(y, y->p, "a key is missing before \":\"");
	if (c == '-' && alone)
		return yaml_fail(y, y->p, "a \"- \" item is not possible here");
	return 0;
}

static bool ends_plain(const struct yaml *y, bool flow)
{
	char c = peek(y, 0), next = peek(y, 1);

	if (c == '\0' || is_break(c))
		return true;
	if (c == ':')
		return is_gap(next) || (flow && is_flow_mark(next));
	if (c == '#')
		return is_blank(y->p[-1]);
	return flow && is_flow_mark(c);
}

static int scan_plain(struct yaml *y, bool flow, struct scalar *ret_scalar)
{
	const char *from = y->p, *to = y->p, *tab;
	int r = check_plain_start(y, flow);

	if (r < 0)
		return r;
	/* The first byte is content whatever it is: "-1", ":x". */
	do {
		y->p++;
		if (!is_blank(y->p[-1]))
			to = y->p;
	} while (!ends_plain(y, flow));
	y->p = to;
	tab = memchr(from, '\t', (size_t)(to - from));
	if (tab)
		return yaml_fail(y, tab, "a tab in a plain value: put it in quotes");
	r = yaml_check_span(y, from, to);
	if (r < 0)
		return r;
	ret_scalar->text = strndup(from, (size_t)(to - from));
	if (!ret_scalar->text)
		return yaml_no_memory(y);
	ret_scalar->len = (size_t)(to - from);
	return 0;
}

/* --- quoted --- */

/* Up to the quote or another byte of interest; the end of the line is an error. */
static int quoted_span(struct yaml *y, const char *stop, struct place opened, struct buf *buf)
{
	const char *from = y->p;

	while (y->p < y->end && !is_break(*y->p) && !strchr(stop, *y->p))
		y->p++;
	if (y->p == y->end)
		return yaml_fail_at(y, opened, "the quote is never closed");
	if (is_break(*y->p))
		return yaml_fail_at(y, opened,
				    "the quote is not closed on its line: use | or > for text over "
				    "several lines");
	buf_add(buf, from, (size_t)(y->p - from));
	return 0;
}

static int scan_single(struct yaml *y, struct scalar *ret_scalar)
{
	_cleanup_(buf_done) struct buf buf = BUF(TEXT_MAX);
	const char *from = ++y->p;
	int r;

	for (;;) {
		r = quoted_span(y, "'", ret_scalar->place, &buf);
		if (r < 0)
			return r;
		y->p++;
		if (peek(y, 0) != '\'')
			break;
		buf_char(&buf, '\'');
		y->p++;
	}
	r = yaml_check_span(y, from, y->p);
	return r < 0 ? r : take_text(y, &buf, ret_scalar);
}

static void add_utf8(struct buf *buf, unsigned int c)
{
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	int len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (len == 1) {
		buf_char(buf, (char)c);
		return;
	}
	buf_char(buf, (char)(first[len] | c >> (6 * (len - 1))));
	for (int shift = 6 * (len - 2); shift >= 0; shift -= 6)
		buf_char(buf, (char)(0x80 | (c >> shift & 0x3f)));
}

/* The digits behind "\x", "\u" or "\U", whose letter the cursor is at. */
static int hex_escape(struct yaml *y, unsigned int *ret_code)
{
	static const char letters[] = "0123456789abcdef";
	int count = *y->p == 'x' ? 2 : *y->p == 'u' ? 4 : 8;
	unsigned int code = 0;

	for (int i = 1; i <= count; i++) {
		char c = peek(y, (size_t)i);
		const char *digit = strchr(letters, c >= 'A' && c <= 'F' ? c + 'a' - 'A' : c);

		if (c == '\0' || !digit)
			return yaml_fail(y, y->p - 1, "\"\\%c\" needs %d hexadecimal digits", *y->p,
					 count);
		code = code << 4 | (unsigned int)(digit - letters);
	}
	y->p += 1 + count;
	*ret_code = code;
	return 0;
}

static bool is_surrogate(unsigned int code)
{
	return code >= 0xd800 && code <= 0xdfff;
}

/* "\xXX", "\uXXXX" (two of them for what JSON cannot write in one) or "\UXXXXXXXX". */
static int numeric_escape(struct yaml *y, struct buf *buf)
{
	struct place place = yaml_place(y, y->p - 1);
	bool pairs = *y->p == 'u';
	unsigned int code, low;
	int r = hex_escape(y, &code);

	if (r < 0)
		return r;
	if (pairs && code >= 0xd800 && code <= 0xdbff && peek(y, 0) == '\\' && peek(y, 1) == 'u') {
		y->p++;
		r = hex_escape(y, &low);
		if (r < 0)
			return r;
		if (low >= 0xdc00 && low <= 0xdfff)
			code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	}
	if (is_surrogate(code))
		return yaml_fail_at(y, place, "half of a surrogate pair");
	if (code > 0x10ffff)
		return yaml_fail_at(y, place, "no such character");
	if (code == 0)
		return yaml_fail_at(y, place, "a NUL character is not allowed");
	add_utf8(buf, code);
	return 0;
}

static int escape(struct yaml *y, struct buf *buf)
{
	static const struct {
		char letter;
		unsigned short code;
	} escapes[] = {
		{ '"', '"' },    { '\\', '\\' },  { '/', '/' },  { 'b', '\b' },  { 'f', '\f' },
		{ 'n', '\n' },   { 'r', '\r' },   { 't', '\t' }, { '\t', '\t' }, { 'a', '\a' },
		{ 'v', '\v' },   { 'e', 0x1b },   { ' ', ' ' },  { 'N', 0x85 },  { '_', 0xa0 },
		{ 'L', 0x2028 }, { 'P', 0x2029 },
	};
	char c = peek(y, 1);

	if (c == 'x' || c == 'u' || c == 'U') {
		y->p++;
		return numeric_escape(y, buf);
	}
	if (c == '0')
		return yaml_fail(y, y->p, "a NUL character is not allowed");
	if (c == '\0' || is_break(c)) {
		y->p++;
		return 0; /* the scan of the next span says that the quote is not closed */
	}
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
		if (c != escapes[i].letter)
			continue;
		add_utf8(buf, escapes[i].code);
		y->p += 2;
		return 0;
	}
	return yaml_fail(y, y->p,
			 "unknown escape in double quotes (a backslash is written \"\\\\\", or use "
			 "single quotes)");
}

static int scan_double(struct yaml *y, struct scalar *ret_scalar)
{
	_cleanup_(buf_done) struct buf buf = BUF(TEXT_MAX);

	y->p++;
	for (;;) {
		int r = quoted_span(y, "\"\\", ret_scalar->place, &buf);

		if (r < 0)
			return r;
		if (*y->p == '"')
			break;
		r = escape(y, &buf);
		if (r < 0)
			return r;
	}
	y->p++;
	return take_text(y, &buf, ret_scalar);
}

int yaml_scan_scalar(struct yaml *y, bool flow, struct scalar *ret_scalar)
{
	char c = peek(y, 0);

	ret_scalar->place = yaml_place(y, y->p);
	ret_scalar->quoted = c == '"' || c == '\'';
	if (c == '"')
		return scan_double(y, ret_scalar);
	if (c == '\'')
		return scan_single(y, ret_scalar);
	return scan_plain(y, flow, ret_scalar);
}

/* --- what plain scalars mean --- */

#define DIGITS "0123456789"

static bool is_all(const char *text, const char *set)
{
	return *text && text[strspn(text, set)] == '\0';
}

static bool is_float(const char *text)
{
	size_t whole = strspn(text, DIGITS), fraction = 0;

	text += whole;
	if (*text == '.') {
		fraction = strspn(text + 1, DIGITS);
		text += 1 + fraction;
	}
	if (whole + fraction == 0)
		return false;
	if (*text == 'e' || *text == 'E') {
		text += text[1] == '+' || text[1] == '-' ? 2 : 1;
		return is_all(text, DIGITS);
	}
	return *text == '\0';
}

enum meaning {
	MEANS_TEXT,
	MEANS_NULL,
	MEANS_FALSE,
	MEANS_TRUE,
	MEANS_DECIMAL,
	MEANS_OCTAL,
	MEANS_HEX,
	MEANS_FLOAT,
	MEANS_NOT_FINITE,
	MEANS_DIFFERENT, /* a number to YAML 1.1, another number or text to 1.2 */
};

static enum meaning word_meaning(const char *text)
{
	static const struct {
		const char *word;
		enum meaning meaning;
	} words[] = {
		{ "~", MEANS_NULL },          { "null", MEANS_NULL },
		{ "Null", MEANS_NULL },       { "NULL", MEANS_NULL },
		{ "true", MEANS_TRUE },       { "True", MEANS_TRUE },
		{ "TRUE", MEANS_TRUE },       { "false", MEANS_FALSE },
		{ "False", MEANS_FALSE },     { "FALSE", MEANS_FALSE },
		{ ".nan", MEANS_NOT_FINITE }, { ".NaN", MEANS_NOT_FINITE },
		{ ".NAN", MEANS_NOT_FINITE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_equal(text, words[i].word))
			return words[i].meaning;
	return MEANS_TEXT;
}

static enum meaning number_meaning(const char *text)
{
	static const struct {
		const char *prefix, *digits;
		enum meaning meaning, with_sign;
	} forms[] = {
		{ "0x", DIGITS "abcdefABCDEF", MEANS_HEX, MEANS_DIFFERENT },
		{ "0o", "01234567", MEANS_OCTAL, MEANS_TEXT },
		{ "0b", "01", MEANS_DIFFERENT, MEANS_DIFFERENT },
		{ "0", DIGITS, MEANS_DIFFERENT, MEANS_DIFFERENT },
		{ "", DIGITS, MEANS_DECIMAL, MEANS_DECIMAL },
		{ ".inf", NULL, MEANS_NOT_FINITE, MEANS_NOT_FINITE },
		{ ".Inf", NULL, MEANS_NOT_FINITE, MEANS_NOT_FINITE },
		{ ".INF", NULL, MEANS_NOT_FINITE, MEANS_NOT_FINITE },
	};
	bool sign = *text == '-' || *text == '+';

	text += sign;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const char *rest = text + strlen(forms[i].prefix);

		if (!str_starts(text, forms[i].prefix))
			continue;
		if (forms[i].digits ? is_all(rest, forms[i].digits) : *rest == '\0')
			return sign ? forms[i].with_sign : forms[i].meaning;
	}
	return is_float(text) ? MEANS_FLOAT : MEANS_TEXT;
}

static enum meaning plain_meaning(const char *text)
{
	enum meaning meaning;

	/* Most scalars cannot be anything else by their first character. */
	if (!strchr("~.+-0123456789nNtTfF", text[0]))
		return MEANS_TEXT;
	meaning = word_meaning(text);
	return meaning == MEANS_TEXT ? number_meaning(text) : meaning;
}

static int fail_meaning(struct yaml *y, const struct scalar *scalar, const char *why)
{
	return yaml_fail_at(y, scalar->place, "\"%.40s\" %s", scalar->text, why);
}

int yaml_check_key(struct yaml *y, const struct scalar *key)
{
	if (key->quoted)
		return 0;
	if (str_equal(key->text, "<<"))
		return yaml_fail_at(y, key->place,
				    "merge keys (\"<<\") are not allowed in a policy");
	if (plain_meaning(key->text) != MEANS_TEXT)
		return fail_meaning(y, key, "is not text: a key like this needs quotes");
	return 0;
}

/* Digits in one of the three bases, within 64 bits. */
static int parse_whole(const char *text, enum meaning meaning, int64_t *ret_value)
{
	int base = meaning == MEANS_HEX ? 16 : meaning == MEANS_OCTAL ? 8 : 10;
	long long value;

	errno = 0;
	value = strtoll(meaning == MEANS_DECIMAL ? text : text + 2, NULL, base);
	if (errno)
		return -errno;
	*ret_value = value;
	return 0;
}

static int resolve_number(struct yaml *y, const struct scalar *scalar, enum meaning meaning,
			  struct node **ret_node)
{
	int64_t whole = 0;
	double real = 0;

	if (meaning == MEANS_FLOAT)
		real = strtod(scalar->text, NULL);
	else if (parse_whole(scalar->text, meaning, &whole) < 0)
		return fail_meaning(y, scalar, "is a whole number beyond 64 bits");
	if (!isfinite(real))
		return fail_meaning(y, scalar, "is too large");
	*ret_node = meaning == MEANS_FLOAT ? node_float(real) : node_int(whole);
	return 0;
}

static int resolve_plain(struct yaml *y, const struct scalar *scalar, struct node **ret_node)
{
	enum meaning meaning = plain_meaning(scalar->text);

	switch (meaning) {
	case MEANS_TEXT:
		*ret_node = node_bytes(scalar->text, scalar->len);
		return 0;
	case MEANS_NULL:
		*ret_node = node_null();
		return 0;
	case MEANS_FALSE:
	case MEANS_TRUE:
		*ret_node = node_bool(meaning == MEANS_TRUE);
		return 0;
	case MEANS_NOT_FINITE:
		return fail_meaning(y, scalar, "is not a finite number (text needs quotes)");
	case MEANS_DIFFERENT:
		return fail_meaning(
			y, scalar,
			"is not the same number to all readers: put it in quotes, or write "
			"it in decimal without a leading zero");
	default:
		return resolve_number(y, scalar, meaning, ret_node);
	}
}

int yaml_resolve(struct yaml *y, struct scalar *scalar, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int r = 0;

	if (scalar->quoted)
		node = node_bytes(scalar->text, scalar->len);
	else
		r = resolve_plain(y, scalar, &node);
	if (r < 0)
		return r;
	if (!node)
		return yaml_no_memory(y);
	if (node->kind == NODE_INT || node->kind == NODE_FLOAT)
		node->text = take_ptr(&scalar->text);
	node->line = scalar->place.line;
	node->column = scalar->place.column;
	*ret_node = take_ptr(&node);
	return 0;
}

/* --- "|" and ">" --- */

struct block {
	bool folded;
	char chomp;    /* '-' drops the last line breaks, '+' keeps them all, '\0' keeps one */
	int least;     /* what the text must be indented by */
	int indent;    /* what it is indented by, 0 until its first line was seen */
	int widest;    /* spaces in the widest blank line before that */
	size_t breaks; /* blank lines since the last line of text */
	bool any;      /* there was a line of text, */
	bool ended;    /* it had a line break, */
	bool spaced;   /* it began with white space: never folded */
	struct buf text;
};

static void block_done(struct block *block)
{
	buf_done(&block->text);
}

static int block_header(struct yaml *y, int parent, struct block *block)
{
	const char *from = y->p;
	bool digit = false;
	int r;

	block->folded = *y->p++ == '>';
	block->least = MAX(parent + 1, 1);
	for (;; y->p++) {
		char c = peek(y, 0);

		if ((c == '-' || c == '+') && !block->chomp) {
			block->chomp = c;
		} else if (c >= '1' && c <= '9' && !digit) {
			digit = true;
			block->indent = parent + (c - '0');
		} else {
			break;
		}
	}
	/* Readers disagree on what the digit is relative to when there is nothing around. */
	if (digit && parent < 0)
		return yaml_fail(y, from,
				 "an indentation digit is not possible in the outermost text");
	if (!is_gap(peek(y, 0)))
		return yaml_fail(y, from, "text that begins with \"%c\" needs quotes", *from);
	r = yaml_finish_line(y);
	if (r >= 0 && y->p < y->end)
		yaml_newline(y);
	return r;
}

/* Adds what stands between the last line of text and the one that begins at the cursor. */
static void block_join(struct block *block, bool spaced)
{
	bool fold = block->folded && block->any && !block->spaced && !spaced;

	if (fold && block->breaks == 0)
		buf_char(&block->text, ' ');
	else if (!fold && block->any)
		buf_char(&block->text, '\n');
	for (; block->breaks > 0; block->breaks--)
		buf_char(&block->text, '\n');
	block->spaced = spaced;
	block->any = true;
}

static int block_text(struct yaml *y, struct block *block)
{
	const char *from = y->p;

	block_join(block, is_blank(*y->p));
	while (y->p < y->end && !is_break(*y->p))
		y->p++;
	buf_add(&block->text, from, (size_t)(y->p - from));
	block->ended = y->p < y->end;
	return yaml_check_span(y, from, y->p);
}

/* One line: 1 when it was part of the block, 0 when the block is over and the cursor before it. */
static int block_line(struct yaml *y, struct block *block)
{
	int spaces = 0, r;

	while (peek(y, 0) == ' ' && (!block->indent || spaces < block->indent)) {
		spaces++;
		y->p++;
	}
	if (y->p == y->end)
		return 0;
	if (is_break(*y->p)) {
		block->widest = MAX(block->widest, spaces);
		block->breaks++;
		yaml_newline(y);
		return 1;
	}
	if (spaces < (block->indent ? block->indent : block->least)) {
		if (*y->p == '\t')
			return yaml_fail_tab(y, y->p);
		y->p = y->line_start;
		return 0;
	}
	if (!block->indent && block->widest > spaces)
		return yaml_fail(y, y->p, "less indented than the blank lines above it");
	block->indent = spaces;
	r = block_text(y, block);
	if (r < 0)
		return r;
	if (y->p < y->end)
		yaml_newline(y);
	return 1;
}

int yaml_block_scalar(struct yaml *y, int parent, struct node **ret_node)
{
	_cleanup_(block_done) struct block block = { .text = BUF(TEXT_MAX) };
	_cleanup_(node_freep) struct node *node = NULL;
	struct place place = yaml_place(y, y->p);
	int r = block_header(y, parent, &block);

	if (r < 0)
		return r;
	do
		r = block_line(y, &block);
	while (r > 0);
	if (r < 0)
		return r;
	if (block.any && block.ended && block.chomp != '-')
		buf_char(&block.text, '\n');
	for (; block.chomp == '+' && block.breaks > 0; block.breaks--)
		buf_char(&block.text, '\n');
	if (buf_failed(&block.text))
		return yaml_no_memory(y);
	node = node_bytes(buf_text(&block.text), block.text.len);
	if (!node)
		return yaml_no_memory(y);
	node->line = place.line;
	node->column = place.column;
	r = yaml_next_content(y);
	if (r < 0)
		return r;
	*ret_node = take_ptr(&node);
	return 0;
}
