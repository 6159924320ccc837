#include "http/head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "http/bytes.h"

const char *const method_names[METHOD_COUNT] = {
	[METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
	[METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
	[METHOD_OPTIONS] = "OPTIONS", [METHOD_OTHER] = "",
};

#define METHOD_MAX 32

static int refuse(const char **ret_why, int code, const char *why)
{
	*ret_why = why;
	return code;
}

bool text_is(const struct text *text, const char *other)
{
	size_t len = strlen(other);

	return text && text->len == len && memcmp(text->data, other, len) == 0;
}

bool text_is_nocase(const struct text *text, const char *other)
{
	size_t len = strlen(other);

	return text && text->len == len && strncasecmp(text->data, other, len) == 0;
}

const struct text *head_find(const struct head *head, const char *name)
{
	for (size_t i = 0; i < head->field_count; i++)
		if (text_is_nocase(&head->fields[i].name, name))
			return &head->fields[i].value;
	return NULL;
}

/* --- how long --- */

long head_measure(const char *data, size_t len, const char **ret_why)
{
	size_t room = MIN(len, (size_t)HEAD_MAX), line = 0;

	for (;;) {
		const char *end = memchr(data + line, '\n', room - line);
		size_t at;

		if (!end)
			break;
		at = (size_t)(end - data);
		if (at == line || data[at - 1] != '\r')
			return refuse(ret_why, -EPROTO, "a line of the head ends without CR");
		if (at == line + 1) {
			if (line == 0)
				return refuse(ret_why, -EPROTO, "an empty line instead of a head");
			return (long)at + 1;
		}
		line = at + 1;
	}
	if (len < HEAD_MAX)
		return 0;
	if (line == 0)
		return refuse(ret_why, -ENAMETOOLONG, "the first line is too long");
	return refuse(ret_why, -EMSGSIZE, "the head is too long");
}

/* --- lines --- */

struct cursor {
	const char *at, *end;
};

/* A line without its end; the whole head is known to end with an empty one. */
static bool take_line(struct cursor *c, struct text *ret_line)
{
	const char *end = memchr(c->at, '\n', (size_t)(c->end - c->at));

	if (!end || end == c->at || end[-1] != '\r')
		return false;
	*ret_line = (struct text){ c->at, (size_t)(end - c->at) - 1 };
	c->at = end + 1;
	return true;
}

static size_t span(const char *data, size_t len, unsigned int classes)
{
	size_t n = 0;

	while (n < len && byte_is(data[n], classes))
		n++;
	return n;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct text trimmed(struct text text)
{
	while (text.len > 0 && is_blank(text.data[0]))
		text.data++, text.len--;
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		text.len--;
	return text;
}

/* What the fields of one head have said so far. */
struct said {
	struct head *head;
	const char *why;
	struct text host; /* with its port */
	bool has_host, has_length, has_coding, has_other_coding, has_upgrade;
	bool says_close, says_keep_alive, says_upgrade;
};

static int field_host(struct said *said, struct text value)
{
	size_t host;

	if (said->has_host)
		return refuse(&said->why, -EPROTO, "two Host fields");
	said->has_host = true;
	said->host = value;
	if (value.len == 0 || span(value.data, value.len, BYTE_HOST) != value.len)
		return refuse(&said->why, -EPROTO, "Host is not a host");
	if (value.data[0] == '[') {
		const char *end = memchr(value.data, ']', value.len);

		host = end ? (size_t)(end - value.data) + 1 : 0;
		if (host < 4)
			return refuse(&said->why, -EPROTO, "Host is not a host");
	} else {
		const char *end = memchr(value.data, ':', value.len);

		host = end ? (size_t)(end - value.data) : value.len;
		if (host == 0 || memchr(value.data, '[', value.len) ||
		    memchr(value.data, ']', value.len))
			return refuse(&said->why, -EPROTO, "Host is not a host");
	}
	said->head->host = (struct text){ value.data, host };
	if (host == value.len)
		return 0;
	if (value.data[host] != ':' || value.len - host > 6)
		return refuse(&said->why, -EPROTO, "Host has a port that is none");
	for (size_t i = host + 1; i < value.len; i++)
		if (value.data[i] < '0' || value.data[i] > '9')
			return refuse(&said->why, -EPROTO, "Host has a port that is none");
	return 0;
}

static int field_length(struct said *said, struct text value)
{
	uint64_t length = 0;

	if (said->has_length)
		return refuse(&said->why, -EPROTO, "two Content-Length fields");
	said->has_length = true;
	if (value.len == 0 || value.len > 18)
		return refuse(&said->why, -EPROTO, "Content-Length is not a length");
	for (size_t i = 0; i < value.len; i++) {
		if (value.data[i] < '0' || value.data[i] > '9')
			return refuse(&said->why, -EPROTO, "Content-Length is not a length");
		length = length * 10 + (uint64_t)(value.data[i] - '0');
	}
	said->head->length = length;
	return 0;
}

static int field_coding(struct said *said, struct text value)
{
	if (said->has_coding)
		return refuse(&said->why, -EPROTO, "two Transfer-Encoding fields");
	said->has_coding = true;
	said->has_other_coding = !text_is_nocase(&value, "chunked");
	return 0;
}

static int field_connection(struct said *said, struct text value)
{
	while (value.len > 0) {
		const char *comma = memchr(value.data, ',', value.len);
		size_t len = comma ? (size_t)(comma - value.data) : value.len;
		struct text word = trimmed((struct text){ value.data, len });

		said->says_close |= text_is_nocase(&word, "close");
		said->says_keep_alive |= text_is_nocase(&word, "keep-alive");
		said->says_upgrade |= text_is_nocase(&word, "upgrade");
		len += comma != NULL;
		value.data += len;
		value.len -= len;
	}
	return 0;
}

static int field_upgrade(struct said *said, struct text value)
{
	said->has_upgrade |= value.len > 0;
	return 0;
}

static int field_expect(struct said *said, struct text value)
{
	if (!text_is_nocase(&value, "100-continue"))
		return refuse(&said->why, -EPROTO, "an Expect other than 100-continue");
	said->head->expects = true;
	return 0;
}

/* The fields that say how the bytes of a message are to be read. */
static const struct known {
	const char *name;
	size_t len;
	bool is_of_requests; /* only */
	int (*take)(struct said *said, struct text value);
} known[] = {
	{ "host", 4, true, field_host },
	{ "expect", 6, true, field_expect },
	{ "upgrade", 7, false, field_upgrade },
	{ "connection", 10, false, field_connection },
	{ "content-length", 14, false, field_length },
	{ "transfer-encoding", 17, false, field_coding },
};

static int take_known(struct said *said, const struct head_field *field, bool is_request)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].len == field->name.len && (is_request || !known[i].is_of_requests) &&
		    strncasecmp(known[i].name, field->name.data, field->name.len) == 0)
			return known[i].take(said, field->value);
	return 0;
}

static int take_field(struct said *said, struct text line, bool is_request)
{
	struct head *head = said->head;
	struct head_field *field;
	size_t name = span(line.data, line.len, BYTE_TOKEN);

	if (name == 0 && is_blank(line.data[0]))
		return refuse(&said->why, -EPROTO, "a folded line in the head");
	if (name == 0 || name == line.len || line.data[name] != ':')
		return refuse(&said->why, -EPROTO, "a field without a proper name");
	if (head->field_count == HEAD_FIELDS)
		return refuse(&said->why, -EMSGSIZE, "too many fields");
	field = &head->fields[head->field_count++];
	field->name = (struct text){ line.data, name };
	field->value = (struct text){ line.data + name + 1, line.len - name - 1 };
	if (span(field->value.data, field->value.len, BYTE_VALUE) != field->value.len)
		return refuse(&said->why, -EPROTO, "a field with odd bytes in its value");
	field->value = trimmed(field->value);
	return take_known(said, field, is_request);
}

static int take_fields(struct said *said, struct cursor *c, bool is_request)
{
	struct text line;

	while (take_line(c, &line)) {
		int r;

		if (line.len == 0)
			return c->at == c->end
				       ? 0
				       : refuse(&said->why, -EPROTO, "an empty line in the head");
		r = take_field(said, line, is_request);
		if (r < 0)
			return r;
	}
	return refuse(&said->why, -EPROTO, "a line of the head ends without CR");
}

/* What requests and responses have in common, once all fields are known. */
static int judge_framing(struct said *said)
{
	struct head *head = said->head;

	if (said->has_coding && said->has_length)
		return refuse(&said->why, -EPROTO, "Content-Length and Transfer-Encoding");
	if (said->has_coding && head->minor == 0)
		return refuse(&said->why, -EPROTO, "Transfer-Encoding in HTTP/1.0");
	if (said->has_other_coding)
		return refuse(&said->why, -ENOSYS, "a Transfer-Encoding other than chunked");
	if (said->has_coding)
		head->framing = FRAMING_CHUNKED;
	else if (said->has_length)
		head->framing = FRAMING_LENGTH;
	head->keep_alive = !said->says_close && (head->minor > 0 || said->says_keep_alive);
	head->upgrade = said->says_upgrade && said->has_upgrade && head->minor > 0;
	return 0;
}

/* --- first lines --- */

/* Field by field: the table of fields is large and need not be cleared. */
static void head_clear(struct head *head)
{
	head->method = METHOD_OTHER;
	head->method_text = head->target = head->path = head->query = head->host =
		(struct text){ "", 0 };
	head->status = head->minor = 0;
	head->field_count = 0;
	head->framing = FRAMING_NONE;
	head->length = 0;
	head->keep_alive = head->upgrade = head->expects = false;
}

static int take_version(const char *data, size_t len, unsigned int *ret_minor, const char **ret_why)
{
	if (len != 8 || memcmp(data, "HTTP/", 5) != 0 || data[6] != '.' || data[5] < '0' ||
	    data[5] > '9' || data[7] < '0' || data[7] > '9')
		return refuse(ret_why, -EPROTO, "the first line has no version of HTTP");
	if (data[5] != '1' || data[7] > '1')
		return refuse(ret_why, -ENOTSUP, "a version of HTTP other than 1.0 and 1.1");
	*ret_minor = (unsigned int)(data[7] - '0');
	return 0;
}

static enum method method_of(struct text text)
{
	for (size_t i = 0; i < METHOD_OTHER; i++)
		if (text_is(&text, method_names[i]))
			return (enum method)i;
	return METHOD_OTHER;
}

static int take_request_line(struct said *said, struct text line)
{
	struct head *head = said->head;
	size_t method = span(line.data, line.len, BYTE_TOKEN), target, rest;

	if (method == 0 || method > METHOD_MAX || method == line.len || line.data[method] != ' ')
		return refuse(&said->why, -EPROTO, "the first line has no method");
	head->method_text = (struct text){ line.data, method };
	head->method = method_of(head->method_text);
	rest = line.len - method - 1;
	target = span(line.data + method + 1, rest, BYTE_TARGET);
	head->target = (struct text){ line.data + method + 1, target };
	if (target > HEAD_TARGET)
		return refuse(&said->why, -ENAMETOOLONG, "the target is too long");
	if (target == 0 || target == rest || head->target.data[target] != ' ')
		return refuse(&said->why, -EPROTO, "the first line has no proper target");
	return take_version(head->target.data + target + 1, rest - target - 1, &head->minor,
			    &said->why);
}

static void split_target(struct head *head, struct text text)
{
	const char *question = memchr(text.data, '?', text.len);

	head->path = text;
	if (!question)
		return;
	head->path.len = (size_t)(question - text.data);
	head->query = (struct text){ question + 1, text.len - head->path.len - 1 };
}

/* "http://host/path", as for a proxy: the host must be the one of the Host field. */
static int take_absolute(struct said *said, struct text target)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t scheme = strlen(schemes[i]), host = 0;
		struct text rest;

		if (target.len < scheme || strncasecmp(target.data, schemes[i], scheme) != 0)
			continue;
		rest = (struct text){ target.data + scheme, target.len - scheme };
		while (host < rest.len && rest.data[host] != '/' && rest.data[host] != '?')
			host++;
		if (!said->has_host || host != said->host.len ||
		    strncasecmp(rest.data, said->host.data, host) != 0)
			return refuse(&said->why, -EPROTO, "the target's host is not that of Host");
		split_target(said->head, (struct text){ rest.data + host, rest.len - host });
		if (said->head->path.len == 0)
			said->head->path = (struct text){ "/", 1 };
		return 0;
	}
	return refuse(&said->why, -EPROTO, "the first line has no proper target");
}

static int judge_target(struct said *said)
{
	struct head *head = said->head;

	if (head->target.data[0] == '/') {
		split_target(head, head->target);
		return 0;
	}
	if (text_is(&head->target, "*")) {
		head->path = head->target;
		return head->method == METHOD_OPTIONS
			       ? 0
			       : refuse(&said->why, -EPROTO, "the target * is for OPTIONS alone");
	}
	return take_absolute(said, head->target);
}

static int parse_request(struct said *said, struct cursor *c)
{
	struct text line;
	int r;

	if (!take_line(c, &line))
		return refuse(&said->why, -EPROTO, "a line of the head ends without CR");
	r = take_request_line(said, line);
	if (r < 0)
		return r;
	r = take_fields(said, c, true);
	if (r < 0)
		return r;
	if (!said->has_host && said->head->minor > 0)
		return refuse(&said->why, -EPROTO, "no Host field");
	r = judge_framing(said);
	if (r < 0)
		return r;
	if (said->head->minor == 0)
		said->head->expects = false;
	return judge_target(said);
}

int head_parse_request(const char *data, size_t len, struct head *ret_head, const char **ret_why)
{
	struct said said = { .head = ret_head };
	struct cursor c = { data, data + len };
	int r;

	head_clear(ret_head);
	r = parse_request(&said, &c);
	if (r < 0)
		*ret_why = said.why;
	return r;
}

static int take_status_line(struct said *said, struct text line)
{
	struct head *head = said->head;
	int r;

	if (line.len < 12 || line.data[8] != ' ')
		return refuse(&said->why, -EPROTO, "the first line is not one of a response");
	r = take_version(line.data, 8, &head->minor, &said->why);
	if (r < 0)
		return r;
	for (size_t i = 9; i < 12; i++) {
		if (line.data[i] < '0' || line.data[i] > '9')
			return refuse(&said->why, -EPROTO, "the status is not a number");
		head->status = head->status * 10 + (unsigned int)(line.data[i] - '0');
	}
	if (head->status < 100 || head->status > 599)
		return refuse(&said->why, -EPROTO, "the status is out of range");
	if (line.len > 12 && (line.data[12] != ' ' ||
			      span(line.data + 12, line.len - 12, BYTE_VALUE) != line.len - 12))
		return refuse(&said->why, -EPROTO, "odd bytes behind the status");
	return 0;
}

static int parse_response(struct said *said, struct cursor *c, bool is_for_head)
{
	struct head *head = said->head;
	struct text line;
	int r;

	if (!take_line(c, &line))
		return refuse(&said->why, -EPROTO, "a line of the head ends without CR");
	r = take_status_line(said, line);
	if (r < 0)
		return r;
	r = take_fields(said, c, false);
	if (r < 0)
		return r;
	r = judge_framing(said);
	if (r < 0)
		return r;
	if (head->status < 200 || head->status == 204 || head->status == 304 || is_for_head)
		head->framing = FRAMING_NONE;
	else if (head->framing == FRAMING_NONE)
		head->framing = FRAMING_UNTIL_END;
	return 0;
}

int head_parse_response(const char *data, size_t len, bool is_for_head, struct head *ret_head,
			const char **ret_why)
{
	struct said said = { .head = ret_head };
	struct cursor c = { data, data + len };
	int r;

	head_clear(ret_head);
	r = parse_response(&said, &c, is_for_head);
	if (r < 0)
		*ret_why = said.why;
	return r;
}
