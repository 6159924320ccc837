/*
 * hello_http.c - the host in the head of an HTTP/1 request
 *
 * While the head is not whole, a look costs one search for each line end that is there, of at most
 * LINES_MAX lines: a client that sends byte by byte cannot make the reader read all of it again and
 * again. The lines are read closely once they are all there.
 */
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/str.h"
#include "egress/hello_internal.h"

#define LINES_MAX  256
#define METHOD_MAX 24

static const char not_http[] = "neither TLS nor HTTP";
static const char bad_line[] = "the HTTP request line is malformed";

/* Some bytes of the head. */
struct piece {
	const char *text;
	size_t len;
};

/* Who is asked: a name or an address, and perhaps a port. */
struct authority {
	bool is_set, is_address;
	char name[NAME_SIZE];
	struct address address;
	unsigned int port;
};

struct head {
	bool is_http_1_0;
	struct authority host, target;
};

/* Cuts what stands before c off the front, with c. False when there is no c. */
static bool cut(struct piece *piece, char c, struct piece *ret_front)
{
	const char *found = memchr(piece->text, c, piece->len);
	size_t len;

	if (!found)
		return false;
	len = (size_t)(found - piece->text);
	*ret_front = (struct piece){ piece->text, len };
	*piece = (struct piece){ found + 1, piece->len - len - 1 };
	return true;
}

static bool piece_is(const struct piece *piece, const char *text)
{
	return piece->len == strlen(text) && memcmp(piece->text, text, piece->len) == 0;
}

static bool read_port(const struct piece *piece, unsigned int *ret_port)
{
	unsigned int port = 0;

	if (piece->len == 0 || piece->len > 5)
		return false;
	for (size_t i = 0; i < piece->len; i++) {
		if (piece->text[i] < '0' || piece->text[i] > '9')
			return false;
		port = port * 10 + (unsigned int)(piece->text[i] - '0');
	}
	if (port < 1 || port > 65535)
		return false;
	*ret_port = port;
	return true;
}

/* "name", "name:8080", "192.0.2.1", "[2001:db8::1]:443". */
static bool read_authority(struct piece text, struct authority *ret_authority)
{
	struct authority authority = { .is_set = true };
	struct piece host = text, port = { 0 };
	const char *end =
		text.len ? memchr(text.text, text.text[0] == '[' ? ']' : ':', text.len) : NULL;
	enum name_kind kind;

	if (end) {
		host.len = (size_t)(end - text.text) + (*end == ']');
		port = (struct piece){ text.text + host.len, text.len - host.len };
	}
	if (port.len > 0) {
		port.text++;
		port.len--;
		if (port.text[-1] != ':' || !read_port(&port, &authority.port))
			return false;
	}
	kind = name_read(host.text, host.len, authority.name, &authority.address);
	if (kind != NAME_HOST && kind != NAME_ADDRESS)
		return false;
	authority.is_address = kind == NAME_ADDRESS;
	*ret_authority = authority;
	return true;
}

/* The target of a request: a path, "*", or a whole URL, which then says the host too. */
static const char *read_target(struct piece target, struct head *head)
{
	size_t scheme, len;

	for (size_t i = 0; i < target.len; i++)
		if ((unsigned char)target.text[i] <= ' ' || target.text[i] == 0x7f)
			return bad_line;
	if (target.text[0] == '/' || piece_is(&target, "*"))
		return NULL;
	if (target.len > 7 && strncasecmp(target.text, "http://", 7) == 0)
		scheme = 7;
	else if (target.len > 8 && strncasecmp(target.text, "https://", 8) == 0)
		scheme = 8;
	else
		return "the target of the HTTP request is neither a path nor a URL";
	target.text += scheme;
	target.len -= scheme;
	for (len = 0; len < target.len && !strchr("/?#", target.text[len]); len++)
		;
	target.len = len;
	return read_authority(target, &head->target)
		       ? NULL
		       : "the URL of the HTTP request has no host name that can be judged";
}

/* NULL, or what is wrong; not_http when it is not HTTP after all. */
static const char *read_request_line(struct piece line, struct head *head)
{
	struct piece method, target;

	if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target) || target.len == 0)
		return not_http;
	if (piece_is(&line, "HTTP/1.0"))
		head->is_http_1_0 = true;
	else if (!piece_is(&line, "HTTP/1.1"))
		return not_http;
	if (piece_is(&method, "CONNECT"))
		return "HTTP CONNECT asks for a way through a proxy, which could lead anywhere";
	return read_target(target, head);
}

static bool is_token(const struct piece *piece)
{
	for (size_t i = 0; i < piece->len; i++) {
		char c = piece->text[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      (c && strchr("!#$%&'*+-.^_`|~", c))))
			return false;
	}
	return piece->len > 0;
}

static bool has_control(const struct piece *piece)
{
	for (size_t i = 0; i < piece->len; i++) {
		unsigned char c = (unsigned char)piece->text[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

static void trim(struct piece *piece)
{
	while (piece->len > 0 && (piece->text[0] == ' ' || piece->text[0] == '\t')) {
		piece->text++;
		piece->len--;
	}
	while (piece->len > 0 &&
	       (piece->text[piece->len - 1] == ' ' || piece->text[piece->len - 1] == '\t'))
		piece->len--;
}

static const char *read_header(struct piece line, struct head *head)
{
	struct piece name;

	if (!cut(&line, ':', &name) || !is_token(&name) || has_control(&line))
		return "a header of the HTTP request is malformed";
	if (name.len != 4 || strncasecmp(name.text, "host", 4) != 0)
		return NULL;
	if (head->host.is_set)
		return "the HTTP request has more than one Host";
	trim(&line);
	return read_authority(line, &head->host)
		       ? NULL
		       : "the Host of the HTTP request is not a host name";
}

static bool authority_equal(const struct authority *a, const struct authority *b)
{
	return a->is_address == b->is_address && a->port == b->port &&
	       (a->is_address ? memcmp(a->address.ip, b->address.ip, ADDRESS_BYTES) == 0
			      : str_equal(a->name, b->name));
}

/* What the head says as a whole. */
static void conclude(const struct head *head, struct first_bytes *first)
{
	const struct authority *who = head->host.is_set ? &head->host : &head->target;

	if (head->host.is_set && head->target.is_set &&
	    !authority_equal(&head->host, &head->target)) {
		first_bytes_bad(first, "the URL and the Host of the HTTP request differ");
		return;
	}
	if (!head->host.is_set && !head->is_http_1_0) {
		first_bytes_bad(first, "the HTTP/1.1 request has no Host");
		return;
	}
	first->kind = who->is_set ? FIRST_HTTP : FIRST_HTTP_NO_NAME;
	strcpy(first->name, who->name);
	first->is_address = who->is_address;
	first->address = who->address;
	first->port = who->port;
}

/* The line at *at, without its end, which must be CR LF. 1: there is one. 0: not yet. */
static int next_line(const unsigned char *data, size_t len, size_t *at, struct piece *ret_line)
{
	const unsigned char *end = memchr(data + *at, '\n', len - *at);
	size_t start = *at;

	if (!end)
		return 0;
	*at = (size_t)(end - data) + 1;
	if (end == data + start || end[-1] != '\r')
		return -1;
	*ret_line = (struct piece){ (const char *)data + start, *at - start - 2 };
	return 1;
}

/* A method and a space, as far as they are there. */
static bool may_be_http(const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len && i < METHOD_MAX; i++) {
		if (data[i] == ' ')
			return i > 0;
		if (!(data[i] >= 'A' && data[i] <= 'Z') && data[i] != '-')
			return false;
	}
	return len < METHOD_MAX;
}

/* Finds the lines. How many, with the empty one; 0: not all there; -1: wrong is set. */
static int find_lines(const unsigned char *data, size_t len, struct piece lines[LINES_MAX],
		      const char **ret_wrong)
{
	size_t at = 0;

	for (int i = 0; i < LINES_MAX; i++) {
		int r = next_line(data, len, &at, &lines[i]);

		if (r == 0)
			return 0;
		if (r < 0) {
			*ret_wrong = "a line of the HTTP request does not end with CR LF";
			return -1;
		}
		if (lines[i].len == 0)
			return i + 1;
	}
	*ret_wrong = "the HTTP request has too many headers";
	return -1;
}

static void read_head(const struct piece *lines, int count, struct first_bytes *first)
{
	struct head head = { 0 };
	const char *wrong;

	if (piece_is(&lines[0], "PRI * HTTP/2.0")) {
		first->kind = FIRST_HTTP_NO_NAME;
		return;
	}
	wrong = read_request_line(lines[0], &head);
	if (wrong == not_http) {
		first_bytes_other(first, not_http);
		return;
	}
	for (int i = 1; i < count - 1 && !wrong; i++)
		wrong = read_header(lines[i], &head);
	if (wrong)
		first_bytes_bad(first, wrong);
	else
		conclude(&head, first);
}

void first_bytes_http(const unsigned char *data, size_t len, struct first_bytes *first)
{
	struct piece lines[LINES_MAX];
	const char *wrong = NULL;
	int count;

	if (!may_be_http(data, len)) {
		first_bytes_other(first, not_http);
		return;
	}
	count = find_lines(data, MIN(len, (size_t)FIRST_HEAD_MAX), lines, &wrong);
	if (count == 0 && len >= FIRST_HEAD_MAX)
		wrong = "the head of the HTTP request is too large";
	if (wrong)
		first_bytes_bad(first, wrong);
	else if (count == 0)
		first_bytes_more(first, len + 1);
	else
		read_head(lines, count, first);
}
