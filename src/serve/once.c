#include "serve/once.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

#define BODY_MAX (16 * MIB)

/* What was asked, so that a key cannot be used for something else. */
static int hash_request(const struct request *q, char ret_hash[static SHA256_HEX_SIZE])
{
	_cleanup_(buf_done) struct buf all = BUF(SERVE_JSON_MAX + 1024);

	if (buf_printf(&all, "%s %s\n", method_names[q->route->method], q->route->path) < 0 ||
	    buf_add(&all, q->body_text ?: "", q->body_len) < 0)
		return -ENOMEM;
	sha256_hex(all.data, all.len, ret_hash);
	return 0;
}

static void answer_again(struct request *q, unsigned int status, const char *body)
{
	exchange_header(q->x, "Idempotent-Replayed", "true");
	exchange_answer(q->x, status, "application/json", body, strlen(body));
}

static int answer_failed(struct request *q, int r)
{
	switch (r) {
	case -EBUSY:
		exchange_header(q->x, "Retry-After", "1");
		answer_error(q, 409, "a request with this Idempotency-Key is under way");
		break;
	case -EEXIST:
		answer_error(q, 422, "this Idempotency-Key was used for another request");
		break;
	default:
		answer_err(q, &(struct err){ .code = r, .text = "the store could not be asked" });
	}
	return 1;
}

int once_begin(struct request *q, struct once *ret_once)
{
	const struct text *key = head_find(&q->x->head, "Idempotency-Key");
	_cleanup_free_ char *body = NULL;
	char hash[SHA256_HEX_SIZE];
	unsigned int status;
	int r;

	*ret_once = (struct once){ 0 };
	if (!key)
		return 0;
	/* Its form was checked with the other headers. */
	snprintf(ret_once->key, sizeof(ret_once->key), "%.*s", (int)key->len, key->data);
	snprintf(ret_once->tenant, sizeof(ret_once->tenant), "%s", q->tenant_name);
	ret_once->store = q->serve->store;
	r = hash_request(q, hash);
	r = r < 0 ? r
		  : store_claim_answer(ret_once->store, ret_once->tenant, ret_once->key, hash,
				       &status, &body);
	if (r == 0)
		return 0;
	ret_once->key[0] = '\0';
	if (r < 0)
		return answer_failed(q, r);
	answer_again(q, status, body);
	return 1;
}

bool once_is_kept(const struct once *once)
{
	return once->key[0] != '\0';
}

void once_drop(struct once *once)
{
	if (once->key[0])
		store_drop_answer(once->store, once->tenant, once->key);
	once->key[0] = '\0';
}

void once_end(struct once *once, unsigned int status, const struct node *body)
{
	_cleanup_(buf_done) struct buf text = BUF(BODY_MAX);

	if (!once->key[0])
		return;
	if (!body || json_write(body, true, &text) < 0 ||
	    store_keep_answer(once->store, once->tenant, once->key, status, buf_text(&text)) < 0)
		log_line(LOG_WARNING, "the answer of an Idempotency-Key could not be kept");
	once->key[0] = '\0';
}
