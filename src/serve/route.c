/*
 * route.c - which request is for whom, and whether it may
 *
 * Four planes share one address. In this order:
 *
 *	a Host of PORT-ID.…, or E2b-Sandbox-Id	a sandbox: its agent (port 49983) or one of its ports
 *	/files?signature=…			a file of the sandbox whose token signed it
 *	/v1/…, /metrics, /, /ui/…		brig's own API and the dashboard
 *	all others				the control plane
 *
 * Names in Host: a page of a stranger's that had its own name lead to this machine (DNS rebinding) would
 * speak with our address and its own Host; so only names that are ours are answered: addresses, localhost,
 * and the domain with all below it. Where no key is asked for (--open), a page of another origin is
 * refused as well, as its reader's browser would act for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "http/decode.h"
#include "serve/metrics.h"
#include "serve/serve.h"

#define AGENT_PORT 49983

static const struct route *const control_tables[] = { control_routes, template_routes };
static const struct route *const own_tables[] = { v1_routes, ui_routes };
static const struct route *const agent_tables[] = { process_routes, file_routes };

static void request_gone(struct exchange *x)
{
	struct request *q = x->of;

	if (q->gone)
		q->gone(q);
	node_free(q->parsed);
	free(q);
}

/* --- finding the row --- */

/* The next part of a path or pattern, without slashes; false at the end. */
static bool next_part(const char *text, size_t len, size_t *at, struct text *ret_part)
{
	size_t begin = *at;

	if (begin >= len)
		return false;
	begin += text[begin] == '/';
	*at = begin;
	while (*at < len && text[*at] != '/')
		(*at)++;
	*ret_part = (struct text){ text + begin, *at - begin };
	return true;
}

static bool parts_match(const struct route *route, const struct text *path, struct request *q)
{
	size_t pattern_len = strlen(route->path), a = 0, b = 0, count = 0;
	struct text want, have;

	for (;;) {
		bool more = next_part(route->path, pattern_len, &a, &want);

		if (more != next_part(path->data, path->len, &b, &have))
			return false;
		if (!more)
			return true;
		if (want.len > 0 && want.data[0] == '{') {
			if (have.len == 0 || count == SERVE_PARAMETERS)
				return false;
			q->parameters[count++] = have;
		} else if (want.len != have.len || memcmp(want.data, have.data, want.len) != 0) {
			return false;
		}
	}
}

static bool method_matches(const struct route *route, enum method method)
{
	return route->method == method || (method == METHOD_HEAD && route->method == METHOD_GET);
}

/* The row; else whether only the method was wrong, and what it could have been. */
static const struct route *find_route(const struct route *const *tables, size_t count,
				      const struct text *path, struct request *q, char *allowed,
				      size_t size)
{
	size_t used = 0;

	allowed[0] = '\0';
	for (size_t i = 0; i < count; i++)
		for (const struct route *route = tables[i]; route->handle; route++) {
			if (!parts_match(route, path, q))
				continue;
			if (method_matches(route, q->x->head.method))
				return route;
			used += (size_t)snprintf(allowed + used, size - used, "%s%s",
						 used ? ", " : "", method_names[route->method]);
			if (used >= size)
				used = size - 1;
		}
	return NULL;
}

/* Parts of the path are decoded once, here. A NUL or what is no UTF-8 is nobody's name. */
static int decode_parameters(struct request *q)
{
	for (size_t i = 0; i < SERVE_PARAMETERS && q->parameters[i].data; i++) {
		long len = percent_decode(&q->parameters[i], false, q->parameter[i],
					  sizeof(q->parameter[i]));

		if (len < 0 || strlen(q->parameter[i]) != (size_t)len ||
		    !is_utf8(q->parameter[i], (size_t)len))
			return -EINVAL;
	}
	return 0;
}

/* --- who asks --- */

bool secret_is(const struct text *given, const char *secret)
{
	size_t len = strlen(secret);
	unsigned char differs = 0;

	if (!given || given->len != len || len == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		differs |= (unsigned char)(given->data[i] ^ secret[i]);
	return differs == 0;
}

static bool starts_nocase(const struct text *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return text->len >= len && strncasecmp(text->data, prefix, len) == 0;
}

/* X-API-Key, or a bearer; of a WebSocket, which can bear neither in a browser, a protocol "brig.key.KEY". */
static struct text given_key(const struct head *head)
{
	static const char protocol[] = "brig.key.";
	const struct text *field = head_find(head, "x-api-key");

	if (field)
		return *field;
	field = head_find(head, "authorization");
	if (field && starts_nocase(field, "bearer "))
		return (struct text){ field->data + 7, field->len - 7 };
	field = head->upgrade ? head_find(head, "sec-websocket-protocol") : NULL;
	if (field) {
		const char *at = memmem(field->data, field->len, protocol, sizeof(protocol) - 1);

		if (at) {
			struct text key = { at + sizeof(protocol) - 1, 0 };

			while (key.data + key.len < field->data + field->len &&
			       key.data[key.len] != ',' && key.data[key.len] != ' ')
				key.len++;
			return key;
		}
	}
	return (struct text){ 0 };
}

static bool kind_is_enough(enum key_kind kind, enum route_need need)
{
	switch (need) {
	case NEED_ADMIN:
		return kind == KEY_ADMIN;
	case NEED_REVIEWER:
		return kind == KEY_REVIEWER || kind == KEY_ADMIN;
	default:
		/* What a reviewer's key is for is reviews: it runs nothing. */
		return kind == KEY_USER || kind == KEY_ADMIN;
	}
}

static int check_key(struct request *q)
{
	struct text given = given_key(&q->x->head);
	int r;

	if (q->serve->settings.is_open) {
		q->key.kind = KEY_ADMIN;
		snprintf(q->key.tenant, sizeof(q->key.tenant), "default");
		q->tenant = &q->serve->open_tenant;
		r = 0;
	} else {
		r = given.len > 0 ? store_check_key(q->serve->store, given.data, given.len, &q->key,
						    &q->tenant)
				  : -EACCES;
	}
	/* Whoever has a good key is not told that it is a bad one. */
	if (r < 0 && r != -EACCES) {
		log_line(LOG_ERROR, "the keys cannot be read: %s", strerror(-r));
		answer_error(q, 503, "the keys cannot be read");
		return r;
	}
	if (r < 0) {
		exchange_header(q->x, "WWW-Authenticate", "Bearer");
		answer_error(q, 401, "%s",
			     given.len > 0
				     ? "this key is not known here: \"brig key create\" makes one"
				     : "a key is needed: X-API-Key, from \"brig key create\"");
		return -EACCES;
	}
	/* The store's own goes when somebody changes a key, and a body may take a minute to come. */
	q->whose = *q->tenant;
	q->tenant = &q->whose;
	snprintf(q->tenant_name, sizeof(q->tenant_name), "%s", q->key.tenant);
	if (!kind_is_enough(q->key.kind, q->route->need)) {
		answer_error(q, 403, "a key of kind \"%s\" is not for this",
			     key_kind_names[q->key.kind]);
		return -EACCES;
	}
	return 0;
}

/* --- where it goes --- */

/* Of a sandbox: a body may have taken a minute to come, and what was found by the head be gone. */
static void handle(struct request *q)
{
	enum route_need need = q->route->need;

	if (q->held)
		q->held = registry_find(q->serve->registry, q->sandbox, NULL);
	if (!q->held && (need == NEED_SANDBOX || need == NEED_SANDBOX_OPEN))
		answer_gone(q, q->sandbox, 0);
	else
		q->route->handle(q);
}

static void on_body(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct err err = ERR_NONE;

	q->body_text = data;
	q->body_len = len;
	if (len > 0 || !q->route->body_is_optional) {
		if (json_read(data, len, NULL, &q->parsed, &err) < 0) {
			answer_error(q, 400, "the body is not JSON: %s", err.text);
			return;
		}
		if (q->parsed->kind != NODE_MAP) {
			answer_error(q, 400, "the body must be a JSON object, not %s",
				     node_kind_name(q->parsed->kind));
			return;
		}
		q->body = q->parsed;
	}
	handle(q);
}

static void dispatch(struct request *q)
{
	if (q->route->body > 0 && !q->route->streams)
		exchange_collect(q->x, q->route->body, on_body);
	else
		handle(q);
}

/* --- a sandbox that is paused --- */

/* Whoever asks may. */
static void proceed(struct request *q)
{
	if (q->route)
		dispatch(q);
	else
		proxy_handle(q);
}

/* A request that waits until its sandbox goes on; the request may be gone first. */
struct waiter {
	struct request *q;
};

static void waiter_gone(struct request *q)
{
	struct waiter *waiter = q->of;

	waiter->q = NULL;
}

static void on_resumed(void *of, const struct err *err)
{
	struct waiter *waiter = of;
	struct request *q = waiter->q;

	free(waiter);
	if (!q)
		return;
	q->of = NULL;
	q->gone = NULL;
	q->held = registry_find(q->serve->registry, q->sandbox, NULL);
	if ((err && err->code < 0) || !q->held)
		answer_gone(q, q->sandbox, 0);
	else
		proceed(q);
}

static void wake_sandbox(struct request *q)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));
	struct err err = ERR_NONE;

	if (!waiter) {
		answer_error(q, 503, "out of memory");
		return;
	}
	waiter->q = q;
	q->of = waiter;
	q->gone = waiter_gone;
	if (registry_resume(q->serve->registry, q->sandbox, 0, on_resumed, waiter, &err) < 0) {
		free(waiter);
		q->of = NULL;
		q->gone = NULL;
		answer_gone(q, q->sandbox, 0);
	}
}

/* Only behind the checks: what is paused is not woken by a stranger. */
static void proceed_awake(struct request *q)
{
	if (q->held && q->held->state == HELD_PAUSED)
		wake_sandbox(q);
	else
		proceed(q);
}

static void answer_not_found(struct request *q, const char *allowed)
{
	if (allowed[0]) {
		exchange_header(q->x, "Allow", allowed);
		answer_error(q, 405, "this path takes %s", allowed);
	} else {
		answer_error(q, 404, "there is nothing at this path");
	}
}

/* The tables of one plane; the key or token that the row wants. */
static void route_in(struct request *q, const struct route *const *tables, size_t count,
		     const struct text *path)
{
	char allowed[64];

	q->route = find_route(tables, count, path, q, allowed, sizeof(allowed));
	if (!q->route) {
		answer_not_found(q, allowed);
		return;
	}
	if (decode_parameters(q) < 0) {
		answer_error(q, 400, "the path has odd bytes, or a part that is too long");
		return;
	}
	switch (q->route->need) {
	case NEED_KEY:
	case NEED_REVIEWER:
	case NEED_ADMIN:
		if (check_key(q) < 0)
			return;
		break;
	case NEED_SANDBOX:
		if (q->held->token[0] &&
		    !secret_is(head_find(&q->x->head, "x-access-token"), q->held->token)) {
			answer_error(q, 401, "the access token of this sandbox is needed");
			return;
		}
		break;
	case NEED_SANDBOX_OPEN:
		if (!q->route->may(q))
			return;
		break;
	case NEED_NOTHING:
		break;
	}
	proceed_awake(q);
}

/* --- a sandbox --- */

static void enter_sandbox(struct request *q)
{
	struct text path = q->x->head.path;

	if (q->port != AGENT_PORT) {
		if (proxy_may(q))
			proceed_awake(q);
		return;
	}
	q->is_connect = memmem(path.data, path.len, ".", 1) &&
			(memmem(path.data, path.len, "/process.Process/", 17) ||
			 memmem(path.data, path.len, "/filesystem.Filesystem/", 23));
	route_in(q, agent_tables, ARRAY_SIZE(agent_tables), &path);
}

static bool is_id_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Letters and digits; what older clients put behind a dash is not looked at. */
static bool take_id(const char *text, size_t len, char ret_id[static TRACE_ID_SIZE])
{
	size_t n = 0;

	while (n < len && is_id_char(text[n]))
		n++;
	if (n == 0 || n >= TRACE_ID_SIZE || (n < len && text[n] != '-'))
		return false;
	memcpy(ret_id, text, n);
	ret_id[n] = '\0';
	return true;
}

static unsigned int take_port(const char *text, size_t len, size_t *ret_used)
{
	unsigned int port = 0;
	size_t n = 0;

	while (n < len && n < 5 && text[n] >= '0' && text[n] <= '9')
		port = port * 10 + (unsigned int)(text[n++] - '0');
	*ret_used = n;
	return port > 65535 ? 0 : port;
}

/* PORT-ID.rest */
static bool sandbox_of_host(const struct text *host, struct request *q)
{
	const char *dot = memchr(host->data, '.', host->len);
	size_t n;

	q->port = take_port(host->data, host->len, &n);
	return q->port && dot && n < host->len && host->data[n] == '-' &&
	       take_id(host->data + n + 1, (size_t)(dot - host->data) - n - 1, q->sandbox);
}

static bool sandbox_of_header(const struct head *head, struct request *q)
{
	const struct text *id = head_find(head, "e2b-sandbox-id");
	const struct text *port = head_find(head, "e2b-sandbox-port");
	size_t n;

	if (!id)
		return false;
	/* Of nobody, then: it is told that there is none. */
	if (!take_id(id->data, id->len, q->sandbox))
		snprintf(q->sandbox, sizeof(q->sandbox), "?");
	q->port = port ? take_port(port->data, port->len, &n) : AGENT_PORT;
	if (port && (n != port->len || !q->port))
		q->port = 0;
	return true;
}

static void route_sandbox(struct request *q)
{
	if (!q->port) {
		answer_error(q, 400, "E2b-Sandbox-Port is not a port");
		return;
	}
	q->held = registry_find(q->serve->registry, q->sandbox, NULL);
	if (!q->held || (q->held->state == HELD_PAUSED && !q->held->resumes))
		answer_gone(q, q->sandbox, 0);
	else
		enter_sandbox(q);
}

void route_to_sandbox(struct request *q, const char *id)
{
	snprintf(q->sandbox, sizeof(q->sandbox), "%s", id);
	q->port = AGENT_PORT;
	route_sandbox(q);
}

/* --- the door --- */

static bool is_address(const struct text *host)
{
	bool has_digit = false;

	if (host->len > 0 && host->data[0] == '[')
		return true;
	for (size_t i = 0; i < host->len; i++) {
		char c = host->data[i];

		has_digit |= c >= '0' && c <= '9';
		if (c != '.' && !(c >= '0' && c <= '9'))
			return false;
	}
	return has_digit;
}

static bool is_below(const struct text *host, const char *domain)
{
	size_t len = strlen(domain);

	if (len == 0 || host->len < len ||
	    strncasecmp(host->data + host->len - len, domain, len) != 0)
		return false;
	return host->len == len || host->data[host->len - len - 1] == '.';
}

/* The domain without a port that may be behind it. */
static bool is_our_name(const struct serve *serve, const struct text *host)
{
	char domain[sizeof(serve->settings.domain)];

	snprintf(domain, sizeof(domain), "%s", serve->settings.domain);
	domain[strcspn(domain, ":")] = '\0';
	return is_address(host) || is_below(host, "localhost") || is_below(host, domain) ||
	       host->len == 0;
}

static bool origin_is_ours(const struct head *head)
{
	const struct text *origin = head_find(head, "origin"), *host = head_find(head, "host");
	const char *rest;
	size_t len;

	if (!origin)
		return true;
	rest = memmem(origin->data, origin->len, "://", 3);
	if (!rest || !host)
		return false;
	rest += 3;
	len = origin->len - (size_t)(rest - origin->data);
	return len == host->len && strncasecmp(rest, host->data, len) == 0;
}

static void answer_preflight(struct request *q)
{
	exchange_header(q->x, "Access-Control-Allow-Methods",
			"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	/* "*" does not stand for Authorization. */
	exchange_header(q->x, "Access-Control-Allow-Headers", "*, Authorization");
	exchange_header(q->x, "Access-Control-Max-Age", "7200");
	answer_empty(q, 204);
}

static bool has_query(const struct head *head, const char *name)
{
	return head->query.len > 0 &&
	       memmem(head->query.data, head->query.len, name, strlen(name)) != NULL;
}

static bool path_begins(const struct text *path, const char *with)
{
	size_t len = strlen(with);

	return path->len >= len && memcmp(path->data, with, len) == 0;
}

static void route_daemon(struct request *q)
{
	struct exchange *x = q->x;
	const struct text *path = &x->head.path;

	if (text_is(path, "/files") && has_query(&x->head, "signature="))
		route_in(q, agent_tables, ARRAY_SIZE(agent_tables), path);
	else if (path_begins(path, "/v1/") || path_begins(path, "/ui/") || text_is(path, "/") ||
		 text_is(path, "/metrics"))
		route_in(q, own_tables, ARRAY_SIZE(own_tables), path);
	else
		route_in(q, control_tables, ARRAY_SIZE(control_tables), path);
}

/* Whether the reader's browser may show the answer to the page that asked. False: it was answered. */
static bool pass_origin(struct request *q)
{
	struct exchange *x = q->x;

	if (q->serve->settings.is_open) {
		if (origin_is_ours(&x->head))
			return true;
		answer_error(q, 403, "pages of other origins are not answered without keys");
		return false;
	}
	exchange_header(x, "Access-Control-Allow-Origin", "*");
	exchange_header(x, "Access-Control-Expose-Headers", "*");
	if (x->head.method != METHOD_OPTIONS ||
	    !head_find(&x->head, "access-control-request-method"))
		return true;
	answer_preflight(q);
	return false;
}

static void route_plane(struct request *q)
{
	struct text *path = &q->x->head.path;
	bool is_sandbox;

	/* What a program in a sandbox answers at our own address must not be kept as our answer. */
	if (head_find(&q->x->head, "e2b-sandbox-id"))
		exchange_header(q->x, "Vary", "E2b-Sandbox-Id, E2b-Sandbox-Port");
	/* An address with a slash behind it gives paths with two in front. */
	while (path->len > 1 && path->data[0] == '/' && path->data[1] == '/')
		path->data++, path->len--;
	/* The name comes first: a page that a sandbox serves sends what headers it likes to its own origin. */
	is_sandbox = sandbox_of_host(&q->x->head.host, q) || sandbox_of_header(&q->x->head, q);
	if (!is_sandbox) {
		q->sandbox[0] = '\0';
		q->port = 0;
	}
	/* What a program in a sandbox serves has its own opinion of other origins. */
	if ((!is_sandbox || q->port == AGENT_PORT) && !pass_origin(q))
		return;
	if (is_sandbox)
		route_sandbox(q);
	else
		route_daemon(q);
}

void route_logged(void *of, const struct exchange *x)
{
	struct serve *serve = of;
	const struct request *q = x->of;

	counters_request(serve->counters, x, q);
	log_request(x);
}

void route_request(void *of, struct exchange *x)
{
	struct serve *serve = of;
	struct request *q = calloc(1, sizeof(*q));
	char number[20];

	if (!q) {
		exchange_answer(x, 503, NULL, NULL, 0);
		return;
	}
	q->serve = serve;
	q->x = x;
	x->of = q;
	x->gone = request_gone;
	snprintf(number, sizeof(number), "%llx", (unsigned long long)x->number);
	exchange_header(x, "X-Request-Id", number);
	if (!is_our_name(serve, &x->head.host)) {
		exchange_close(x);
		answer_error(q, 421,
			     "this name does not lead here: give it to \"brig serve --domain\"");
		return;
	}
	route_plane(q);
}
