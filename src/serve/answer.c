/* answer.c - one way to say each thing to a client */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/connect.h"
#include "http/decode.h"
#include "serve/serve.h"

#define ANSWER_MAX (64 * MIB)

static const char json_type[] = "application/json";

void answer_json(struct request *q, unsigned int status, const struct node *node)
{
	_cleanup_(buf_done) struct buf text = BUF(ANSWER_MAX);

	if (!node || json_write(node, true, &text) < 0) {
		answer_error(q, 500, "out of memory");
		return;
	}
	exchange_answer(q->x, status, json_type, text.data, text.len);
}

void answer_take_json(struct request *q, unsigned int status, struct node *node)
{
	answer_json(q, status, node);
	node_free(node);
}

void answer_empty(struct request *q, unsigned int status)
{
	exchange_answer(q->x, status, NULL, NULL, 0);
}

static void put_error(struct request *q, unsigned int status, const char *id, const char *text)
{
	_cleanup_(buf_done) struct buf body = BUF(64 * KIB);

	if (exchange_is_begun(q->x)) {
		exchange_abort(q->x);
		return;
	}
	if (q->is_connect)
		(void)buf_printf(&body, "{\"code\":\"%s\",\"message\":",
				 connect_name(connect_of_status(status)));
	else
		(void)buf_printf(&body, "{\"code\":%u,\"message\":", status);
	(void)!json_write_string(text, strlen(text), &body);
	(void)buf_str(&body, id);
	(void)buf_char(&body, '}');
	/* The field's clients ask again after some of these, unless they are told that it is no use. */
	if (status == 502 || status == 504 || status == 507)
		exchange_header(q->x, "Should-Retry", "false");
	exchange_answer(q->x, status, json_type, buf_text(&body), body.len);
}

void answer_error(struct request *q, unsigned int status, const char *fmt, ...)
{
	struct err err = ERR_NONE;
	char text[sizeof(err.text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_error(q, status, "", text);
}

void answer_err(struct request *q, const struct err *err)
{
	static const struct {
		int code;
		unsigned int status;
	} rows[] = {
		{ ENOENT, 404 },       { ENOTDIR, 400 }, { EISDIR, 400 },    { EINVAL, 400 },
		{ ENAMETOOLONG, 400 }, { ELOOP, 400 },   { EACCES, 403 },    { EPERM, 403 },
		{ EROFS, 403 },        { EEXIST, 409 },  { ENOTEMPTY, 409 }, { EBUSY, 409 },
		{ EDQUOT, 429 },       { ENOSPC, 507 },  { EFBIG, 413 },     { E2BIG, 413 },
		{ EMSGSIZE, 413 },     { ENOTSUP, 501 }, { ENOSYS, 501 },    { ETIMEDOUT, 504 },
		{ EAGAIN, 503 },       { EMFILE, 503 },  { ENFILE, 503 },    { ENOMEM, 503 },
		{ ECANCELED, 499 },
	};
	unsigned int status = 500;

	if (err->code == -ESRCH) {
		if (q->sandbox[0])
			answer_gone(q, q->sandbox, 0);
		else
			answer_error(q, 404, "%s", err->text);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].code == -err->code)
			status = rows[i].status;
	answer_error(q, status, "%s", err->text[0] ? err->text : "it failed");
}

void answer_gone(struct request *q, const char *id, unsigned int port)
{
	char more[128];

	if (port)
		snprintf(more, sizeof(more), ",\"sandboxId\":\"%.40s\",\"port\":%u", id, port);
	else
		snprintf(more, sizeof(more), ",\"sandboxId\":\"%.40s\"", id);
	q->is_connect = false;
	put_error(q, 502, more,
		  port ? "The sandbox is running but port is not open"
		       : "The sandbox was not found");
}

int query_get(const struct request *q, const char *name, size_t n, char *ret, size_t size)
{
	long r = query_value(&q->x->head.query, name, n, ret, size);

	return r < 0 ? (int)r : 0;
}

const char *body_text_of(const struct request *q, const char *key, const char *fallback)
{
	const struct node *value = node_get(q->body, key);

	return value && value->kind == NODE_STRING ? value->text : fallback;
}
