#include "http/multipart.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/decode.h"

enum state {
	IN_PREAMBLE, /* before the first boundary */
	IN_DATA,
	AFTER_BOUNDARY, /* its last character was seen */
	AFTER_DASH,     /* and one dash behind it */
	IN_PADDING,     /* white space up to the end of its line */
	AFTER_CR,
	IN_HEAD,
	AT_PART,     /* its head is whole */
	AT_PART_END, /* a boundary was seen behind data */
	AT_END,      /* the last one: to be told */
	IN_EPILOGUE,
};

static bool is_boundary_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("'()+_,-./:=? ", c));
}

static bool is_token_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_space(struct text *t)
{
	while (t->len > 0 && (*t->data == ' ' || *t->data == '\t')) {
		t->data++;
		t->len--;
	}
}

static struct text take_token(struct text *t)
{
	struct text token = { t->data, 0 };

	while (token.len < t->len && is_token_character(t->data[token.len]))
		token.len++;
	t->data += token.len;
	t->len -= token.len;
	return token;
}

static bool take_char(struct text *t, char c)
{
	if (t->len == 0 || *t->data != c)
		return false;
	t->data++;
	t->len--;
	return true;
}

/* Behind the first quote. Only quotes and backslashes can be escaped: the path of a file on Windows stays. */
static long take_quoted(struct text *t, char *ret, size_t size)
{
	size_t len = 0;

	while (t->len > 0) {
		char c = *t->data;

		t->data++;
		t->len--;
		if (c == '"') {
			ret[len] = '\0';
			return (long)len;
		}
		if (c == '\\' && t->len > 0 && (*t->data == '"' || *t->data == '\\')) {
			c = *t->data;
			t->data++;
			t->len--;
		}
		if (c == '\0')
			return -EINVAL;
		if (len + 1 >= size)
			return -EMSGSIZE;
		ret[len++] = c;
	}
	return -EINVAL;
}

static long take_value(struct text *t, char *ret, size_t size)
{
	struct text token;

	if (size == 0)
		return -EMSGSIZE;
	if (take_char(t, '"'))
		return take_quoted(t, ret, size);
	token = take_token(t);
	if (token.len == 0)
		return -EINVAL;
	if (token.len >= size)
		return -EMSGSIZE;
	memcpy(ret, token.data, token.len);
	ret[token.len] = '\0';
	return (long)token.len;
}

/* Passes over a value that nobody wants, of any length. */
static bool skip_value(struct text *t)
{
	if (!take_char(t, '"'))
		return take_token(t).len > 0;
	while (t->len > 0 && *t->data != '"') {
		size_t n =
			*t->data == '\\' && t->len > 1 && (t->data[1] == '"' || t->data[1] == '\\')
				? 2
				: 1;

		t->data += n;
		t->len -= n;
	}
	return take_char(t, '"');
}

long field_parameter(const struct text *value, const char *name, char *ret, size_t size)
{
	const char *semicolon = value->len > 0 ? memchr(value->data, ';', value->len) : NULL;
	struct text t = *value;

	if (!semicolon)
		return -ENOENT;
	t.len -= (size_t)(semicolon - t.data);
	t.data = semicolon;
	while (take_char(&t, ';')) {
		struct text key;

		skip_space(&t);
		key = take_token(&t);
		if (key.len == 0 && t.len == 0)
			break;
		if (key.len == 0 || !take_char(&t, '='))
			return -EINVAL;
		if (text_is_nocase(&key, name))
			return take_value(&t, ret, size);
		if (!skip_value(&t))
			return -EINVAL;
		skip_space(&t);
	}
	return -ENOENT;
}

static bool has_type(const struct text *value, const char *type)
{
	size_t len = strlen(type);

	return value->len >= len && strncasecmp(value->data, type, len) == 0 &&
	       (value->len == len || strchr("; \t", value->data[len]));
}

int multipart_init(struct multipart *m, const struct text *content_type)
{
	char boundary[MULTIPART_BOUNDARY + 1];
	long len;

	*m = (struct multipart){ .state = IN_PREAMBLE, .head = BUF(MULTIPART_HEAD) };
	if (!has_type(content_type, "multipart/form-data"))
		return -EINVAL;
	len = field_parameter(content_type, "boundary", boundary, sizeof(boundary));
	if (len <= 0 || boundary[len - 1] == ' ')
		return -EINVAL;
	for (long i = 0; i < len; i++)
		if (!is_boundary_character(boundary[i]))
			return -EINVAL;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, (size_t)len + 1);
	m->delimiter_len = 4 + (size_t)len;
	/* The first one may stand at the very beginning, with no line before it. */
	m->matched = m->unreal = 2;
	return 0;
}

void multipart_done(struct multipart *m)
{
	buf_done(&m->head);
}

static int fail(struct multipart *m, int code, const char *why)
{
	m->why = why;
	return code;
}

static void advance(const char **data, size_t *len, size_t n)
{
	*data += n;
	*len -= n;
}

/*
 * Goes over content. True when a piece of it was found; else all was used, or the delimiter is whole. A CR
 * stands nowhere in a delimiter but at its beginning: what did not fit cannot be the beginning of another.
 */
static bool next_piece(struct multipart *m, const char **data, size_t *len, struct text *ret_piece)
{
	const char *cr;

	while (*len > 0 && m->matched > 0 && m->matched < m->delimiter_len &&
	       **data == m->delimiter[m->matched]) {
		m->matched++;
		advance(data, len, 1);
	}
	if (m->matched == m->delimiter_len || *len == 0)
		return false;
	if (m->matched > 0) {
		*ret_piece = (struct text){ m->delimiter + m->unreal, m->matched - m->unreal };
		m->matched = m->unreal = 0;
		return ret_piece->len > 0;
	}
	cr = memchr(*data, '\r', *len);
	*ret_piece = (struct text){ *data, cr ? (size_t)(cr - *data) : *len };
	if (cr)
		m->matched = 1;
	advance(data, len, ret_piece->len + (cr ? 1 : 0));
	return ret_piece->len > 0;
}

static int read_preamble(struct multipart *m, const char **data, size_t *len)
{
	struct text piece;

	while (*len > 0 && m->matched < m->delimiter_len)
		(void)next_piece(m, data, len, &piece);
	if (m->matched == m->delimiter_len)
		m->state = AFTER_BOUNDARY;
	return 0;
}

static int read_data(struct multipart *m, const char **data, size_t *len, struct text *ret_piece)
{
	while (*len > 0 && m->matched < m->delimiter_len)
		if (next_piece(m, data, len, ret_piece))
			return MULTIPART_DATA;
	if (m->matched == m->delimiter_len)
		m->state = AT_PART_END;
	return 0;
}

/* The line of a boundary, behind it: "--", or white space and the end of the line. */
static int read_boundary(struct multipart *m, const char **data, size_t *len)
{
	char c = **data;

	advance(data, len, 1);
	if (m->state == AFTER_BOUNDARY && c == '-')
		m->state = AFTER_DASH;
	else if (m->state == AFTER_DASH && c == '-')
		m->state = AT_END;
	else if (m->state == AFTER_CR && c == '\n')
		m->state = IN_HEAD;
	else if ((m->state == AFTER_BOUNDARY || m->state == IN_PADDING) && c == '\r')
		m->state = AFTER_CR;
	else if ((m->state == AFTER_BOUNDARY || m->state == IN_PADDING) && (c == ' ' || c == '\t'))
		m->state = IN_PADDING;
	else
		return fail(m, -EPROTO, "something follows a boundary on its line");
	if (m->state == IN_HEAD) {
		buf_reset(&m->head);
		if (++m->parts > MULTIPART_PARTS)
			return fail(m, -EMSGSIZE, "too many parts");
	}
	return 0;
}

/* Browsers write these three so, and nothing else. */
static void decode_filename(char *text)
{
	static const struct {
		const char *code;
		char meaning;
	} codes[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' } };
	char *out = text;

	while (*text) {
		char c = *text;
		size_t used = 1;

		for (size_t i = 0; c == '%' && i < ARRAY_SIZE(codes); i++)
			if (strncasecmp(text, codes[i].code, 3) == 0) {
				c = codes[i].meaning;
				used = 3;
			}
		*out++ = c;
		text += used;
	}
	*out = '\0';
}

/* filename*=UTF-8''... of other clients goes before the plain one. */
static long read_star(struct multipart *m, const struct text *value)
{
	char coded[3 * MULTIPART_FILENAME];
	long len = field_parameter(value, "filename*", coded, sizeof(coded));
	struct text rest;

	if (len < 0)
		return len;
	if (strncasecmp(coded, "utf-8'", 6) != 0 || !strchr(coded + 6, '\''))
		return -EINVAL;
	rest.data = strchr(coded + 6, '\'') + 1;
	rest.len = strlen(rest.data);
	return percent_decode(&rest, false, m->filename, sizeof(m->filename));
}

static int read_disposition(struct multipart *m, const struct text *value)
{
	long len;

	if (!has_type(value, "form-data"))
		return fail(m, -EPROTO, "a part that is no form-data");
	len = field_parameter(value, "name", m->name, sizeof(m->name));
	if (len < 0)
		return fail(m, -EPROTO, "a part has no name that is one");
	decode_filename(m->name);
	len = read_star(m, value);
	if (len == -ENOENT) {
		len = field_parameter(value, "filename", m->filename, sizeof(m->filename));
		if (len >= 0)
			decode_filename(m->filename);
	}
	if (len < 0 && len != -ENOENT)
		return fail(m, -EPROTO, "the file name of a part is none");
	m->has_filename = len >= 0;
	if (!m->has_filename)
		m->filename[0] = '\0';
	return 1;
}

/* One line of a head, without its end. 1: it was the one that is needed. */
static int read_line(struct multipart *m, struct text line)
{
	struct text name = take_token(&line);

	if (name.len == 0 || !take_char(&line, ':'))
		return fail(m, -EPROTO, "the head of a part has a line that is none");
	if (!text_is_nocase(&name, "content-disposition"))
		return 0;
	skip_space(&line);
	return read_disposition(m, &line);
}

/* The line at an offset of the head, without its end; the head has one, so every line does. */
static struct text line_at(const struct multipart *m, size_t at)
{
	struct text line = { buf_text(&m->head) + at, 0 };

	while (at + line.len < m->head.len && line.data[line.len] != '\r')
		line.len++;
	return line;
}

static int read_lines(struct multipart *m)
{
	bool is_found = false;

	for (size_t at = 0; m->head.len - at > 2;) {
		struct text line = line_at(m, at);
		int r;

		at += line.len + 2;
		if (at > m->head.len || m->head.data[at - 1] != '\n' ||
		    memchr(line.data, '\n', line.len) || memchr(line.data, '\0', line.len))
			return fail(m, -EPROTO, "the head of a part has a line that is none");
		r = read_line(m, line);
		if (r < 0)
			return r;
		if (r > 0 && is_found)
			return fail(m, -EPROTO, "a part says twice what it is");
		is_found |= r > 0;
	}
	return is_found ? 0 : fail(m, -EPROTO, "a part does not say what it is");
}

static bool head_is_whole(const struct multipart *m)
{
	size_t n = m->head.len;

	return (n == 2 && memcmp(m->head.data, "\r\n", 2) == 0) ||
	       (n >= 4 && memcmp(m->head.data + n - 4, "\r\n\r\n", 4) == 0);
}

/* Line by line, as the empty one ends it. */
static int read_head(struct multipart *m, const char **data, size_t *len)
{
	while (*len > 0) {
		const char *newline = memchr(*data, '\n', *len);
		size_t n = newline ? (size_t)(newline - *data) + 1 : *len;
		int r;

		if (buf_add(&m->head, *data, n) < 0)
			return fail(m, -EMSGSIZE, "the head of a part is too long");
		advance(data, len, n);
		if (!head_is_whole(m))
			continue;
		r = read_lines(m);
		if (r < 0)
			return r;
		m->state = AT_PART;
		/* The boundary may follow at once: the end of the head is then the line before it. */
		m->matched = m->unreal = 2;
		return 0;
	}
	return 0;
}

int multipart_next(struct multipart *m, const char **data, size_t *len, struct text *ret_piece)
{
	int r = 0;

	while (r == 0) {
		switch ((enum state)m->state) {
		case AT_PART:
			m->state = IN_DATA;
			return MULTIPART_PART;
		case AT_PART_END:
			m->state = AFTER_BOUNDARY;
			return MULTIPART_PART_END;
		case AT_END:
			m->state = IN_EPILOGUE;
			return MULTIPART_END;
		default:
			break;
		}
		if (*len == 0)
			return 0;
		switch ((enum state)m->state) {
		case IN_PREAMBLE:
			r = read_preamble(m, data, len);
			break;
		case IN_DATA:
			r = read_data(m, data, len, ret_piece);
			break;
		case IN_HEAD:
			r = read_head(m, data, len);
			break;
		case IN_EPILOGUE:
			advance(data, len, *len);
			return 0;
		default:
			r = read_boundary(m, data, len);
		}
	}
	return r;
}

int multipart_finish(struct multipart *m)
{
	return m->state == IN_EPILOGUE ? 0 : fail(m, -EPROTO, "the last boundary is missing");
}
