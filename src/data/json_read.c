#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "data/node.h"
#include "data/node_internal.h"

#define NUMBER_MAX 256
#define FEW        8 /* keys that are compared one by one */

struct reader {
	const unsigned char *p, *end;
	const unsigned char *line_begin;
	unsigned int line;
	unsigned int level; /* how deep it is now */
	size_t values;
	struct json_bounds bounds;
	struct err *err;
};

static int fail_at(struct reader *r, const unsigned char *at, int code, const char *what)
{
	return err_set(r->err, code, "line %u, column %zu: %s", r->line,
		       (size_t)(at - r->line_begin) + 1, what);
}

static int fail(struct reader *r, const char *what)
{
	return fail_at(r, r->p, -EINVAL, r->p == r->end ? "it ends too early" : what);
}

static void skip_space(struct reader *r)
{
	for (; r->p < r->end; r->p++) {
		if (*r->p == '\n') {
			r->line++;
			r->line_begin = r->p + 1;
		} else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r') {
			return;
		}
	}
}

static bool take(struct reader *r, unsigned char c)
{
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

#define ONES           0x0101010101010101ull
#define HIGHS          0x8080808080808080ull
#define HAS_ZERO(word) (((word)-ONES) & ~(word)&HIGHS)

/* Eight bytes at once while none of them is a quote, a backslash, a control byte or beyond ASCII. */
static const unsigned char *skip_plain(const unsigned char *p, const unsigned char *end)
{
	while (end - p >= 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		if ((word & HIGHS) | HAS_ZERO(word ^ (ONES * '"')) |
		    HAS_ZERO(word ^ (ONES * '\\')) | ((word - ONES * 0x20) & HIGHS))
			break;
		p += 8;
	}
	return p;
}

/* The end of a string that begins at p, behind its quote: where its other quote is. */
static int find_quote(struct reader *r, const unsigned char **ret_quote, bool *ret_has_escapes)
{
	const unsigned char *p = r->p;

	*ret_has_escapes = false;
	for (;;) {
		size_t n;

		p = skip_plain(p, r->end);
		if (p == r->end)
			return fail_at(r, p, -EINVAL, "a string has no end");
		if (*p == '"')
			break;
		if (*p < 0x20)
			return fail_at(r, p, -EINVAL,
				       "a control byte in a string (escape it: \\n, \\u001b)");
		n = utf8_sequence(p, (size_t)(r->end - p));
		if (n == 0)
			return fail_at(r, p, -EINVAL, "this is not UTF-8");
		if (*p == '\\') {
			*ret_has_escapes = true;
			n = 2;
			if (r->end - p < 2)
				return fail_at(r, p, -EINVAL, "a string has no end");
		}
		p += n;
	}
	*ret_quote = p;
	return 0;
}

/* Four digits of an escape; what is behind them is still in the input, as a quote was found there. */
static int read_hex(const unsigned char *p, const unsigned char *quote, unsigned int *ret_value)
{
	unsigned int value = 0;

	if (quote - p < 4)
		return -EINVAL;
	for (int i = 0; i < 4; i++) {
		unsigned char c = p[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned int)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value << 4 | (unsigned int)((c | 0x20) - 'a' + 10);
		else
			return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

static char *put_utf8(char *out, unsigned int c)
{
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	}
	return out;
}

#define IS_HIGH(c) ((c) >= 0xd800 && (c) < 0xdc00)
#define IS_LOW(c)  ((c) >= 0xdc00 && (c) < 0xe000)

/* Behind "\u". */
static int read_unicode(struct reader *r, const unsigned char **p, const unsigned char *quote,
			char **out)
{
	unsigned int c, low;

	if (read_hex(*p, quote, &c) < 0)
		return fail_at(r, *p, -EINVAL, "\\u needs four hexadecimal digits");
	*p += 4;
	if (c == 0)
		return fail_at(r, *p - 4, -EINVAL, "the character NUL is not taken");
	if (IS_HIGH(c) && quote - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' &&
	    read_hex(*p + 2, quote, &low) == 0 && IS_LOW(low)) {
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		*p += 6;
	}
	if (IS_HIGH(c) || IS_LOW(c))
		return fail_at(r, *p - 4, -EINVAL, "half of a surrogate pair");
	*out = put_utf8(*out, c);
	return 0;
}

static int read_escape(struct reader *r, const unsigned char **p, const unsigned char *quote,
		       char **out)
{
	static const char meanings[128] = {
		['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
		['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
	};
	unsigned char c = (*p)[1];

	*p += 2;
	if (c == 'u')
		return read_unicode(r, p, quote, out);
	if (c >= sizeof(meanings) || !meanings[c])
		return fail_at(r, *p - 1, -EINVAL, "there is no such escape");
	*(*out)++ = meanings[c];
	return 0;
}

/* No escape is shorter than what it stands for, so there is room. */
static int unescape(struct reader *r, const unsigned char *quote, char **out)
{
	const unsigned char *p = r->p;

	while (p < quote) {
		const unsigned char *backslash = memchr(p, '\\', (size_t)(quote - p)) ?: quote;
		int code = 0;

		memcpy(*out, p, (size_t)(backslash - p));
		*out += backslash - p;
		p = backslash;
		if (p < quote)
			code = read_escape(r, &p, quote, out);
		if (code < 0)
			return code;
	}
	return 0;
}

/* A string whose first quote was taken. */
static int read_text(struct reader *r, char **ret_text, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;
	const unsigned char *quote = NULL;
	bool has_escapes = false;
	size_t len;
	int code = find_quote(r, &quote, &has_escapes);

	if (code < 0 || !quote)
		return code;
	len = (size_t)(quote - r->p);
	text = malloc(len + 1);
	if (!text)
		return err_set(r->err, -ENOMEM, "out of memory");
	if (has_escapes) {
		char *out = text;

		code = unescape(r, quote, &out);
		if (code < 0)
			return code;
		len = (size_t)(out - text);
	} else {
		memcpy(text, r->p, len);
	}
	text[len] = '\0';
	r->p = quote + 1;
	*ret_text = take_ptr(&text);
	*ret_len = len;
	return 0;
}

static int read_string(struct reader *r, struct node *node)
{
	r->p++;
	node->kind = NODE_STRING;
	return read_text(r, &node->text, &node->len);
}

static size_t count_digits(struct reader *r)
{
	const unsigned char *begin = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return (size_t)(r->p - begin);
}

/* Over a number; whether it is a whole one by its looks. */
static int skip_number(struct reader *r, bool *ret_is_whole)
{
	*ret_is_whole = true;
	(void)take(r, '-');
	if (take(r, '0')) {
		if (count_digits(r) > 0)
			return fail_at(r, r->p - 1, -EINVAL, "a number begins with 0");
	} else if (count_digits(r) == 0) {
		return fail(r, "a value is needed");
	}
	if (take(r, '.')) {
		*ret_is_whole = false;
		if (count_digits(r) == 0)
			return fail(r, "a digit is needed behind the point");
	}
	if (take(r, 'e') || take(r, 'E')) {
		*ret_is_whole = false;
		(void)!(take(r, '+') || take(r, '-'));
		if (count_digits(r) == 0)
			return fail(r, "a digit is needed in the exponent");
	}
	return 0;
}

/* False when 64 bits do not hold it. */
static bool read_whole(const char *text, int64_t *ret_value)
{
	bool is_negative = *text == '-';
	int64_t value = 0;

	for (text += is_negative; *text; text++) {
		int digit = *text - '0';

		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, is_negative ? -digit : digit, &value))
			return false;
	}
	*ret_value = value;
	return true;
}

static int read_number(struct reader *r, struct node *node)
{
	const unsigned char *begin = r->p;
	char text[NUMBER_MAX + 1];
	bool is_whole;
	size_t len;
	int code = skip_number(r, &is_whole);

	if (code < 0)
		return code;
	len = (size_t)(r->p - begin);
	if (len > NUMBER_MAX)
		return fail_at(r, begin, -EINVAL, "a number of so many digits is not taken");
	memcpy(text, begin, len);
	text[len] = '\0';
	node->kind = NODE_INT;
	if (is_whole && read_whole(text, &node->number))
		return 0;
	node->kind = NODE_FLOAT;
	node->real = strtod(text, NULL);
	if (!isfinite(node->real))
		return fail_at(r, begin, -EINVAL, "a number that is too large");
	node->text = strdup(text);
	return node->text ? 0 : err_set(r->err, -ENOMEM, "out of memory");
}

static int read_word(struct reader *r, struct node *node)
{
	static const struct {
		const char *word;
		enum node_kind kind;
		int64_t number;
	} words[] = { { "true", NODE_BOOL, 1 },
		      { "false", NODE_BOOL, 0 },
		      { "null", NODE_NULL, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i].word);

		if ((size_t)(r->end - r->p) >= len && memcmp(r->p, words[i].word, len) == 0) {
			r->p += len;
			node->kind = words[i].kind;
			node->number = words[i].number;
			return 0;
		}
	}
	return fail(r, "a value is needed");
}

static int read_value(struct reader *r, struct node **ret_node);

static int read_list(struct reader *r, struct node *list)
{
	list->kind = NODE_LIST;
	do {
		struct node *child = NULL;
		int code = read_value(r, &child);

		if (code < 0)
			return code;
		if (node_append(list, NULL, child) < 0)
			return err_set(r->err, -ENOMEM, "out of memory");
		skip_space(r);
	} while (take(r, ','));
	return take(r, ']') ? 0 : fail(r, "a comma or \"]\" is needed");
}

static int fail_twice(struct reader *r, const struct node_entry *a, const struct node_entry *b)
{
	const struct node_entry *later = a > b ? a : b;

	return err_set(r->err, -EINVAL, "line %u, column %u: the key \"%s\" is there twice",
		       later->line, later->column, later->key);
}

static int check_few(struct reader *r, const struct node *map)
{
	for (size_t i = 1; i < map->count; i++)
		for (size_t j = 0; j < i; j++)
			if (str_equal(map->entries[i].key, map->entries[j].key))
				return fail_twice(r, &map->entries[i], &map->entries[j]);
	return 0;
}

static int check_keys(struct reader *r, const struct node *map)
{
	_cleanup_free_ const struct node_entry **sorted = NULL;

	if (map->count <= FEW)
		return check_few(r, map);
	if (node_sorted(map, &sorted) < 0)
		return err_set(r->err, -ENOMEM, "out of memory");
	for (size_t i = 1; i < map->count; i++)
		if (str_equal(sorted[i - 1]->key, sorted[i]->key))
			return fail_twice(r, sorted[i - 1], sorted[i]);
	return 0;
}

static int read_entry(struct reader *r, struct node *map)
{
	_cleanup_free_ char *key = NULL;
	unsigned int line, column;
	struct node *child = NULL;
	size_t len;
	int code;

	skip_space(r);
	line = r->line;
	column = (unsigned int)(r->p - r->line_begin) + 1;
	if (!take(r, '"'))
		return fail(r, "a key in quotes is needed");
	code = read_text(r, &key, &len);
	if (code < 0)
		return code;
	skip_space(r);
	if (!take(r, ':'))
		return fail(r, "a colon is needed");
	code = read_value(r, &child);
	if (code < 0)
		return code;
	if (node_append(map, take_ptr(&key), child) < 0)
		return err_set(r->err, -ENOMEM, "out of memory");
	map->entries[map->count - 1].line = line;
	map->entries[map->count - 1].column = column;
	return 0;
}

static int read_map(struct reader *r, struct node *map)
{
	map->kind = NODE_MAP;
	do {
		int code = read_entry(r, map);

		if (code < 0)
			return code;
		skip_space(r);
	} while (take(r, ','));
	return take(r, '}') ? check_keys(r, map) : fail(r, "a comma or \"}\" is needed");
}

/* What is in brackets; r->p is at the first of them. */
static int read_collection(struct reader *r, struct node *node)
{
	bool is_map = *r->p == '{';
	int code = 0;

	if (r->level >= r->bounds.depth)
		return fail_at(r, r->p, -EMSGSIZE, "too many lists and maps in each other");
	r->p++;
	r->level++;
	skip_space(r);
	node->kind = is_map ? NODE_MAP : NODE_LIST;
	if (!take(r, is_map ? '}' : ']'))
		code = is_map ? read_map(r, node) : read_list(r, node);
	r->level--;
	return code;
}

static int read_any(struct reader *r, struct node *node)
{
	if (r->p == r->end)
		return fail(r, "");
	switch (*r->p) {
	case '{':
	case '[':
		return read_collection(r, node);
	case '"':
		return read_string(r, node);
	case 't':
	case 'f':
	case 'n':
		return read_word(r, node);
	default:
		return read_number(r, node);
	}
}

static int read_value(struct reader *r, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int code;

	skip_space(r);
	if (r->values++ >= r->bounds.values)
		return fail_at(r, r->p, -EMSGSIZE, "too many values");
	node = node_null();
	if (!node)
		return err_set(r->err, -ENOMEM, "out of memory");
	node->line = r->line;
	node->column = (unsigned int)(r->p - r->line_begin) + 1;
	code = read_any(r, node);
	if (code < 0)
		return code;
	*ret_node = take_ptr(&node);
	return 0;
}

int json_read(const char *text, size_t len, const struct json_bounds *bounds,
	      struct node **ret_node, struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;
	const unsigned char *begin = (const unsigned char *)(text ? text : "");
	struct reader r = { .p = begin,
			    .end = begin + len,
			    .line_begin = begin,
			    .line = 1,
			    .bounds = bounds ? *bounds : JSON_BOUNDS,
			    .err = err };
	int code;

	if (len > r.bounds.bytes)
		return err_set(err, -EMSGSIZE, "%zu bytes of JSON: at most %zu are taken", len,
			       r.bounds.bytes);
	code = read_value(&r, &node);
	if (code < 0)
		return code;
	skip_space(&r);
	if (r.p != r.end)
		return fail(&r, "nothing may follow the value");
	*ret_node = take_ptr(&node);
	return 0;
}
