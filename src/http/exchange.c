/* exchange.c - answers, and what is asked of the body */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "http/bytes.h"
#include "http/server_internal.h"

#define KEPT_ROOM (4 * KIB) /* of what a spare exchange keeps of each buffer */

/* --- exchanges and the next --- */

struct inner *inner_new(struct server *server)
{
	struct inner *i = server->spare_inners;

	if (i) {
		server->spare_inners = i->next_spare;
		server->spare_inner_count--;
	} else {
		i = malloc(sizeof(*i));
		if (!i)
			return NULL;
		i->text = NULL;
		i->text_room = 0;
		i->headers = BUF(HEADERS_MAX);
	}
	i->collected = BUF(0);
	i->collect_max = 0;
	i->on_body = i->on_data = NULL;
	i->on_end = NULL;
	i->answer = ANSWER_NONE;
	i->is_tunnel = i->is_shut = i->is_chunked = i->is_bodyless = i->has_date = i->was_full =
		false;
	i->answer_left = -1;
	i->x.of = NULL;
	i->x.gone = i->x.drained = NULL;
	i->x.status = 0;
	i->x.sent = 0;
	return i;
}

void inner_free(struct server *server, struct inner *i)
{
	if (!i)
		return;
	server->held -= i->collected.room;
	buf_done(&i->collected);
	buf_reset(&i->headers);
	if (server->spare_inner_count >= SPARE_COUNT || i->text_room > KEPT_ROOM ||
	    i->headers.room > KEPT_ROOM) {
		buf_done(&i->headers);
		free(i->text);
		free(i);
		return;
	}
	i->next_spare = server->spare_inners;
	server->spare_inners = i;
	server->spare_inner_count++;
}

/* --- the head of an answer --- */

static const struct {
	unsigned int status;
	const char *words;
} reasons[] = {
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 422, "Unprocessable Content" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 499, "Client Closed Request" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

static const char *reason_of(unsigned int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].words;
	return "Status";
}

const char *server_date(struct server *server)
{
	struct timespec now;
	struct tm parts;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if ((uint64_t)now.tv_sec != server->date_second || !server->date[0]) {
		server->date_second = (uint64_t)now.tv_sec;
		gmtime_r(&now.tv_sec, &parts);
		strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
	}
	return server->date;
}

struct line {
	char data[512];
	size_t len;
};

/* Everything that goes in has a known greatest length, and all of it together fits. */
static void line_add(struct line *line, const char *text)
{
	size_t len = strlen(text), room = sizeof(line->data) - line->len;

	if (len > room)
		len = room;
	memcpy(line->data + line->len, text, len);
	line->len += len;
}

static void line_number(struct line *line, uint64_t number)
{
	char digits[21];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	line_add(line, digits + at);
}

static void line_status(struct line *line, unsigned int status)
{
	line_add(line, "HTTP/1.1 ");
	line_number(line, status);
	line_add(line, " ");
	line_add(line, reason_of(status));
	line_add(line, "\r\n");
}

static bool has_no_body(const struct inner *i, unsigned int status)
{
	return i->x.head.method == METHOD_HEAD || status == 204 || status == 304 || status < 200;
}

/* A body that nobody reads: short enough to be thrown away? */
static bool may_discard(const struct inner *i)
{
	if (i->wants_continue)
		return false; /* the client may send it or not */
	return i->x.head.framing == FRAMING_CHUNKED || i->body_left <= DISCARD_MAX;
}

static void compose_head(struct inner *i, struct line *line, unsigned int status, int64_t length)
{
	struct connection *c = i->c;

	line->len = 0;
	line_status(line, status);
	if (!i->has_date) {
		line_add(line, "Date: ");
		line_add(line, server_date(c->server));
		line_add(line, "\r\n");
	}
	if (length >= 0 && status != 204 && status != 304 && status >= 200) {
		line_add(line, "Content-Length: ");
		line_number(line, (uint64_t)length);
		line_add(line, "\r\n");
	}
	if (i->is_chunked)
		line_add(line, "Transfer-Encoding: chunked\r\n");
	if (c->closes)
		line_add(line, "Connection: close\r\n");
	else if (i->x.head.minor == 0)
		line_add(line, "Connection: keep-alive\r\n");
}

/* With the beginning of the body, or all of it, where that is known already. */
static void send_head(struct inner *i, unsigned int status, const char *type, int64_t length,
		      const void *body, size_t len, size_t max)
{
	struct line line;
	struct iovec parts[4];

	if (type)
		exchange_header(&i->x, "Content-Type", type);
	if (!i->is_whole && i->body == BODY_UNASKED && !may_discard(i))
		i->c->closes = true;
	i->is_bodyless = has_no_body(i, status);
	if (length < 0 && !(i->is_bodyless && i->x.head.method != METHOD_HEAD)) {
		i->is_chunked = i->x.head.minor > 0;
		i->c->closes |= i->x.head.minor == 0;
	}
	i->answer_left = length;
	i->x.status = status;
	i->answer = ANSWER_BEGUN;
	compose_head(i, &line, status, length);
	parts[0] = (struct iovec){ line.data, line.len };
	parts[1] = (struct iovec){ i->headers.data, i->headers.len };
	parts[2] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
	parts[3] = (struct iovec){ (void *)(uintptr_t)body, i->is_bodyless ? 0 : len };
	output_add(i->c, parts, 4, max);
	connection_touch(i->c);
}

static void end_answer(struct inner *i)
{
	i->answer = ANSWER_ENDED;
	if (!i->is_tunnel) {
		/* Whoever has answered is not interested in more of the body. */
		if (i->is_whole) {
			i->body = BODY_TOLD;
		} else if (may_discard(i) && !i->c->closes) {
			i->body = BODY_DISCARD;
			i->is_held = false;
		} else {
			i->body = BODY_TOLD;
			i->c->closes = true;
		}
	}
	connection_touch(i->c);
}

/* The framing is the server's own business: it knows what the client can read. */
static bool is_framing(const struct text *name)
{
	static const char *const names[] = { "Content-Length", "Transfer-Encoding", "Connection",
					     "Keep-Alive" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (text_is_nocase(name, names[i]))
			return true;
	return false;
}

static bool is_all(const struct text *text, unsigned int classes)
{
	for (size_t i = 0; i < text->len; i++)
		if (!byte_is(text->data[i], classes))
			return false;
	return true;
}

void exchange_field(struct exchange *x, const struct text *name, const struct text *value)
{
	struct inner *i = inner_of(x);

	if (i->answer != ANSWER_NONE || name->len == 0 || is_framing(name) ||
	    !is_all(name, BYTE_TOKEN) || !is_all(value, BYTE_VALUE) ||
	    i->headers.len + name->len + value->len + 4 > HEADERS_MAX)
		return;
	i->has_date |= text_is_nocase(name, "Date");
	buf_add(&i->headers, name->data, name->len);
	buf_add(&i->headers, ": ", 2);
	buf_add(&i->headers, value->data, value->len);
	buf_add(&i->headers, "\r\n", 2);
	if (buf_failed(&i->headers) < 0) {
		i->c->is_broken = true;
		connection_touch(i->c);
	}
}

void exchange_header(struct exchange *x, const char *name, const char *value)
{
	exchange_field(x, &(struct text){ name, strlen(name) },
		       &(struct text){ value, strlen(value) });
}

/* --- answers --- */

void exchange_answer(struct exchange *x, unsigned int status, const char *type, const void *body,
		     size_t len)
{
	struct inner *i = inner_of(x);

	if (i->answer != ANSWER_NONE)
		return;
	if (!type)
		len = 0;
	/* It is in memory already, and bounded by that. */
	send_head(i, status, type, (int64_t)len, body, len, len + EXCHANGE_MAX);
	i->x.sent = i->is_bodyless ? 0 : len;
	end_answer(i);
}

void exchange_begin(struct exchange *x, unsigned int status, const char *type, int64_t length)
{
	struct inner *i = inner_of(x);

	if (i->answer == ANSWER_NONE)
		send_head(i, status, type, length, NULL, 0, EXCHANGE_MAX);
}

static void write_plain(struct inner *i, const void *data, size_t len)
{
	struct iovec part = { (void *)(uintptr_t)data, len };

	output_add(i->c, &part, 1, EXCHANGE_MAX);
}

static void write_chunk(struct inner *i, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char size[20];
	size_t at = sizeof(size);
	struct iovec parts[3];

	size[--at] = '\n';
	size[--at] = '\r';
	for (size_t rest = len; rest > 0; rest >>= 4)
		size[--at] = digits[rest & 15];
	parts[0] = (struct iovec){ size + at, sizeof(size) - at };
	parts[1] = (struct iovec){ (void *)(uintptr_t)data, len };
	parts[2] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
	output_add(i->c, parts, 3, EXCHANGE_MAX);
}

void exchange_write(struct exchange *x, const void *data, size_t len)
{
	struct inner *i = inner_of(x);

	if (i->answer != ANSWER_BEGUN || i->is_bodyless || len == 0)
		return;
	if (i->answer_left >= 0) {
		if (len > (uint64_t)i->answer_left) {
			exchange_abort(x);
			return;
		}
		i->answer_left -= (int64_t)len;
	}
	x->sent += len;
	if (i->is_chunked)
		write_chunk(i, data, len);
	else
		write_plain(i, data, len);
	if (connection_waiting(i->c) >= server_full_at(i->c->server))
		i->was_full = true;
	connection_touch(i->c);
}

void exchange_end(struct exchange *x)
{
	struct inner *i = inner_of(x);

	if (i->answer != ANSWER_BEGUN)
		return;
	if (i->answer_left > 0 && !i->is_bodyless) {
		exchange_abort(x);
		return;
	}
	if (i->is_chunked && !i->is_bodyless)
		write_plain(i, "0\r\n\r\n", 5);
	end_answer(i);
}

bool exchange_is_begun(const struct exchange *x)
{
	return inner_of(x)->answer != ANSWER_NONE;
}

bool exchange_is_full(const struct exchange *x)
{
	struct inner *i = inner_of(x);

	if (connection_waiting(i->c) < server_full_at(i->c->server))
		return false;
	i->was_full = true;
	return true;
}

void exchange_abort(struct exchange *x)
{
	struct inner *i = inner_of(x);
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (i->answer == ANSWER_ENDED && !i->is_tunnel)
		return;
	output_flush(i->c);
	/* Where only the end of the connection ends the body, the end must look like an accident. */
	if (i->answer == ANSWER_BEGUN && !i->is_chunked && i->answer_left < 0)
		(void)!setsockopt(i->c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	i->c->is_broken = true;
	connection_touch(i->c);
}

void exchange_close(struct exchange *x)
{
	inner_of(x)->c->closes = true;
}

/* --- what the server says by itself --- */

/* The form that clients of the field know. The words are ours, so there is nothing to be escaped. */
static size_t compose_error(char *text, size_t size, unsigned int status, const char *words)
{
	int len = snprintf(text, size, "{\"code\":%u,\"message\":\"%s\"}\n", status, words);

	return MIN((size_t)len, size - 1);
}

void exchange_refuse(struct exchange *x, unsigned int status, const char *words)
{
	struct inner *i = inner_of(x);
	char text[256];
	size_t len = compose_error(text, sizeof(text), status, words);

	if (i->answer != ANSWER_NONE) {
		i->c->is_broken = true;
		connection_touch(i->c);
		return;
	}
	i->c->closes = true;
	buf_reset(&i->headers);
	if (status == 503)
		exchange_header(x, "Retry-After", "1");
	exchange_answer(x, status, "application/json", text, len);
	i->body = BODY_TOLD;
}

void connection_refuse(struct connection *c, unsigned int status, const char *words)
{
	char text[256];
	size_t len = compose_error(text, sizeof(text), status, words);
	struct line line = { .len = 0 };
	struct iovec parts[2];

	line_status(&line, status);
	line_add(&line, "Date: ");
	line_add(&line, server_date(c->server));
	line_add(&line, "\r\nContent-Type: application/json\r\nContent-Length: ");
	line_number(&line, len);
	line_add(&line, "\r\nConnection: close\r\n\r\n");
	parts[0] = (struct iovec){ line.data, line.len };
	parts[1] = (struct iovec){ text, len };
	output_add(c, parts, 2, EXCHANGE_MAX);
	c->stage = STAGE_LAST;
	c->server->input_from = c->server->input_end = 0;
	c->kept_len = 0;
}

/* --- the body of the request --- */

void exchange_collect(struct exchange *x, size_t max,
		      void (*body)(struct exchange *x, const char *data, size_t len))
{
	struct inner *i = inner_of(x);

	if (i->body != BODY_UNASKED || i->answer == ANSWER_ENDED)
		return;
	if (i->body_left > max) {
		exchange_refuse(x, 413, "the body is too long");
		return;
	}
	if (i->body_left > 0 && !server_has_room(i->c->server, i->body_left)) {
		exchange_refuse(x, 503, NO_MEMORY);
		return;
	}
	i->collected = BUF(max);
	i->collect_max = max;
	i->on_body = body;
	i->body = BODY_COLLECT;
	connection_touch(i->c);
}

void exchange_stream(struct exchange *x,
		     void (*data)(struct exchange *x, const char *data, size_t len),
		     void (*end)(struct exchange *x))
{
	struct inner *i = inner_of(x);

	if (i->body != BODY_UNASKED || i->answer == ANSWER_ENDED)
		return;
	i->on_data = data;
	i->on_end = end;
	i->body = BODY_STREAM;
	connection_touch(i->c);
}

void exchange_be_patient(struct exchange *x)
{
	inner_of(x)->is_patient = true;
	connection_touch(inner_of(x)->c);
}

void exchange_count(struct exchange *x, size_t *counted, size_t now)
{
	x->server->held += now - *counted;
	*counted = now;
}

void exchange_hold(struct exchange *x)
{
	inner_of(x)->is_held = true;
}

void exchange_go_on(struct exchange *x)
{
	struct inner *i = inner_of(x);

	if (!i->is_held)
		return;
	i->is_held = false;
	connection_touch(i->c);
}

void exchange_tunnel(struct exchange *x, unsigned int status,
		     void (*data)(struct exchange *x, const char *data, size_t len),
		     void (*end)(struct exchange *x))
{
	struct inner *i = inner_of(x);
	struct line line = { .len = 0 };
	struct iovec parts[3];

	if (i->answer != ANSWER_NONE)
		return;
	i->on_data = data;
	i->on_end = end;
	i->is_tunnel = true;
	i->is_whole = false;
	i->wants_continue = false;
	i->body = BODY_TUNNEL;
	i->answer = ANSWER_BEGUN;
	i->c->closes = true;
	x->status = status;
	if (status) {
		line_status(&line, status);
		line_add(&line, "Connection: Upgrade\r\n");
		parts[0] = (struct iovec){ line.data, line.len };
		parts[1] = (struct iovec){ i->headers.data, i->headers.len };
		parts[2] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
		output_add(i->c, parts, 3, EXCHANGE_MAX);
	}
	connection_touch(i->c);
}
