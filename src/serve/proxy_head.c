#include "serve/proxy_head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* For the next program on the way alone; Host and the lengths are written by whoever sends. */
static const char *const of_the_way[] = {
	"connection", "keep-alive",        "proxy-connection", "proxy-authenticate", "te",
	"trailer",    "transfer-encoding", "upgrade",          "content-length",
};

/* Of requests: besides, what is between the client and the daemon, and what we say ourselves. */
static const char *const of_the_daemon[] = {
	"host",
	"expect",
	"proxy-authorization",
	"x-api-key",
	"x-access-token",
	"e2b-traffic-access-token",
	"e2b-sandbox-id",
	"e2b-sandbox-port",
	"x-forwarded-for",
	"x-forwarded-host",
	"x-forwarded-proto",
};

static bool is_among(const struct text *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (text_is_nocase(name, names[i]))
			return true;
	return false;
}

/* The next word of a list with commas; false at its end. */
static bool next_word(struct text *list, struct text *ret_word)
{
	const char *comma = memchr(list->data, ',', list->len);
	size_t len = comma ? (size_t)(comma - list->data) : list->len, used = len + (comma != NULL);
	struct text word = { list->data, len };

	if (list->len == 0)
		return false;
	while (word.len > 0 && (word.data[0] == ' ' || word.data[0] == '\t'))
		word.data++, word.len--;
	while (word.len > 0 && (word.data[word.len - 1] == ' ' || word.data[word.len - 1] == '\t'))
		word.len--;
	list->data += used;
	list->len -= used;
	*ret_word = word;
	return true;
}

static bool same_nocase(const struct text *a, const struct text *b)
{
	return a->len == b->len && strncasecmp(a->data, b->data, a->len) == 0;
}

/* Connection names fields that go no further. */
static bool is_named_by_connection(const struct head *head, const struct text *name)
{
	for (size_t i = 0; i < head->field_count; i++) {
		struct text list = head->fields[i].value, word;

		if (!text_is_nocase(&head->fields[i].name, "connection"))
			continue;
		while (next_word(&list, &word))
			if (same_nocase(&word, name))
				return true;
	}
	return false;
}

static bool begins(const struct text *text, const char *with)
{
	size_t len = strlen(with);

	return text->len >= len && strncasecmp(text->data, with, len) == 0;
}

/* A key of the daemon's in one of the places where clients put it; what is the sandbox's own passes. */
static bool bears_key(const struct head_field *field)
{
	if (text_is_nocase(&field->name, "authorization"))
		return begins(&field->value, "bearer e2b_");
	if (text_is_nocase(&field->name, "sec-websocket-protocol"))
		return memmem(field->value.data, field->value.len, "brig.key.", 9) != NULL;
	return false;
}

bool proxy_upgrades(const struct head *head)
{
	const struct text *to = head_find(head, "upgrade");

	/* HTTP/2 without TLS is asked for by clients that can do without it, and would only hide what follows. */
	return head->upgrade && head->framing == FRAMING_NONE && !begins(to, "h2c");
}

static void add_text(struct buf *buf, const struct text *text)
{
	buf_add(buf, text->data, text->len);
}

static void add_target(struct buf *buf, const struct head *head)
{
	if (head->target.data[0] == '/' || head->target.data[0] == '*') {
		add_text(buf, &head->target);
		return;
	}
	add_text(buf, &head->path);
	if (head->query.len > 0) {
		buf_char(buf, '?');
		add_text(buf, &head->query);
	}
}

static bool is_host(const char *text)
{
	size_t len = strspn(text,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]");

	return len > 0 && text[len] == '\0';
}

/* "maskRequestHost" of the sandbox's network: the Host that its programs get to see. */
static bool masked_host(const struct request *q, char *ret_host, size_t size)
{
	static const char key[] = "maskRequestHost", port[] = "${PORT}";
	_cleanup_(node_freep) struct node *network = NULL;
	const struct node *mask;
	const char *at;
	struct err err;
	int len;

	if (!q->held || !strstr(q->held->network, key) ||
	    json_read(q->held->network, strlen(q->held->network), NULL, &network, &err) < 0)
		return false;
	mask = node_get(network, key);
	if (!mask || mask->kind != NODE_STRING)
		return false;
	at = strstr(mask->text, port);
	if (at)
		len = snprintf(ret_host, size, "%.*s%u%s", (int)(at - mask->text), mask->text,
			       q->port, at + strlen(port));
	else
		len = snprintf(ret_host, size, "%s", mask->text);
	return len > 0 && (size_t)len < size && is_host(ret_host);
}

static void add_host(struct buf *buf, const struct request *q)
{
	const struct text *host = head_find(&q->x->head, "host");
	char masked[512];

	buf_str(buf, "Host: ");
	if (masked_host(q, masked, sizeof(masked)))
		buf_str(buf, masked);
	else if (host)
		add_text(buf, host);
	else
		buf_printf(buf, "localhost:%u", q->port);
	buf_str(buf, "\r\n");
}

/* "127.0.0.1" of "127.0.0.1:4711", "::1" of "[::1]:4711". */
static struct text address_of(const char *peer)
{
	const char *colon = strrchr(peer, ':');
	struct text text = { peer, colon ? (size_t)(colon - peer) : strlen(peer) };

	if (text.len > 2 && text.data[0] == '[')
		return (struct text){ text.data + 1, text.len - 2 };
	return text;
}

static void add_forwarded(struct buf *buf, const struct exchange *x)
{
	const struct text *host = head_find(&x->head, "host");
	struct text address = address_of(x->peer);

	buf_str(buf, "X-Forwarded-For: ");
	for (size_t i = 0; i < x->head.field_count; i++)
		if (text_is_nocase(&x->head.fields[i].name, "x-forwarded-for")) {
			add_text(buf, &x->head.fields[i].value);
			buf_str(buf, ", ");
		}
	add_text(buf, &address);
	buf_printf(buf, "\r\nX-Forwarded-Proto: %s\r\n", x->is_secure ? "https" : "http");
	if (host) {
		buf_str(buf, "X-Forwarded-Host: ");
		add_text(buf, host);
		buf_str(buf, "\r\n");
	}
}

static void add_framing(struct buf *buf, const struct head *head, bool upgrades)
{
	const struct text *to = head_find(head, "upgrade");

	if (upgrades) {
		buf_str(buf, "Connection: Upgrade\r\nUpgrade: ");
		add_text(buf, to);
		buf_str(buf, "\r\n");
	} else {
		buf_str(buf, "Connection: close\r\n");
	}
	if (head->framing == FRAMING_LENGTH)
		buf_printf(buf, "Content-Length: %llu\r\n", (unsigned long long)head->length);
	else if (head->framing == FRAMING_CHUNKED)
		buf_str(buf, "Transfer-Encoding: chunked\r\n");
}

static void add_field(struct buf *buf, const struct head_field *field)
{
	add_text(buf, &field->name);
	buf_str(buf, ": ");
	add_text(buf, &field->value);
	buf_str(buf, "\r\n");
}

int proxy_request_head(const struct request *q, bool upgrades, struct buf *buf)
{
	const struct head *head = &q->x->head;

	add_text(buf, &head->method_text);
	buf_char(buf, ' ');
	add_target(buf, head);
	buf_str(buf, " HTTP/1.1\r\n");
	add_host(buf, q);
	for (size_t i = 0; i < head->field_count; i++) {
		const struct head_field *field = &head->fields[i];

		if (!is_among(&field->name, of_the_way, ARRAY_SIZE(of_the_way)) &&
		    !is_among(&field->name, of_the_daemon, ARRAY_SIZE(of_the_daemon)) &&
		    !is_named_by_connection(head, &field->name) && !bears_key(field))
			add_field(buf, field);
	}
	add_forwarded(buf, q->x);
	add_framing(buf, head, upgrades);
	buf_str(buf, "\r\n");
	return buf_failed(buf);
}

void proxy_response_fields(struct exchange *x, const struct head *head)
{
	for (size_t i = 0; i < head->field_count; i++) {
		const struct head_field *field = &head->fields[i];

		if (head->status == 101 && text_is_nocase(&field->name, "upgrade"))
			exchange_field(x, &field->name, &field->value);
		else if (!is_among(&field->name, of_the_way, ARRAY_SIZE(of_the_way)) &&
			 !is_named_by_connection(head, &field->name))
			exchange_field(x, &field->name, &field->value);
	}
}
