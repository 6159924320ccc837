/* store_answer.c - what a repeated request is told again */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/store_internal.h"

#define ANSWER_LIFE_MS ((uint64_t)24 * 3600 * 1000)
#define ANSWERS_MAX    1000 /* of a tenant */
#define ANSWERS_BYTES  (32 * MIB)
#define FORGET_EVERY   16 /* answers kept between two looks at what is old or too much */

static void claim_done(struct claim *c)
{
	free(c->tenant);
	free(c->key);
	free(c->request);
	*c = (struct claim){ 0 };
}

void claims_done(struct store *store)
{
	while (store->claim_count > 0)
		claim_done(&store->claims[--store->claim_count]);
	free(store->claims);
	store->claims = NULL;
}

static struct claim *find_claim(struct store *store, const char *tenant, const char *key)
{
	for (size_t i = 0; i < store->claim_count; i++)
		if (str_equal(store->claims[i].key, key) &&
		    str_equal(store->claims[i].tenant, tenant))
			return &store->claims[i];
	return NULL;
}

static int add_claim(struct store *store, const char *tenant, const char *key, const char *request)
{
	struct claim c = { strdup(tenant), strdup(key), strdup(request) }, *grown;

	grown = reallocarray(store->claims, store->claim_count + 1, sizeof(*grown));
	if (grown)
		store->claims = grown;
	if (!c.tenant || !c.key || !c.request || !grown) {
		claim_done(&c);
		return -ENOMEM;
	}
	store->claims[store->claim_count++] = c;
	return 0;
}

void store_drop_answer(struct store *store, const char *tenant, const char *key)
{
	struct claim *c = find_claim(store, tenant, key);

	if (!c)
		return;
	claim_done(c);
	*c = store->claims[--store->claim_count];
}

/* 1: it was there. */
static int read_answer(struct store *store, const char *tenant, const char *key,
		       const char *request, unsigned int *ret_status, char **ret_body)
{
	_cleanup_reset_ sqlite3_stmt *s = NULL;
	const char *asked, *said;
	char *body;
	int r = store_statement(store, STATEMENT_GET_ANSWER, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 2, key, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 3, (int64_t)(store_now() - ANSWER_LIFE_MS));
	r = store_next(store, s, NULL);
	if (r <= 0)
		return r;
	asked = (const char *)sqlite3_column_text(s, 0);
	said = (const char *)sqlite3_column_text(s, 2);
	if (!asked || !said)
		return -ENOMEM;
	if (!str_equal(asked, request))
		return -EEXIST;
	body = strdup(said);
	if (!body)
		return -ENOMEM;
	*ret_status = (unsigned int)sqlite3_column_int(s, 1);
	*ret_body = body;
	return 1;
}

int store_claim_answer(struct store *store, const char *tenant, const char *key,
		       const char *request, unsigned int *ret_status, char **ret_body)
{
	const struct claim *c = find_claim(store, tenant, key);
	int r;

	if (c)
		return str_equal(c->request, request) ? -EBUSY : -EEXIST;
	r = read_answer(store, tenant, key, request, ret_status, ret_body);
	return r != 0 ? r : add_claim(store, tenant, key, request);
}

static int put_answer(struct store *store, const struct claim *c, unsigned int status,
		      const char *body)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_PUT_ANSWER, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, c->tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 2, c->key, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 3, c->request, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 4, (int)status);
	(void)sqlite3_bind_text(s, 5, body, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 6, (int64_t)strlen(body));
	(void)sqlite3_bind_int64(s, 7, (int64_t)store_now());
	return store_change(store, s, NULL);
}

/* What fails here is done at the next look. */
static void forget(struct store *store, const char *tenant)
{
	sqlite3_stmt *s = NULL;

	if (store_statement(store, STATEMENT_FORGET_ANSWERS, &s, NULL) < 0)
		return;
	(void)sqlite3_bind_int64(s, 1, (int64_t)(store_now() - ANSWER_LIFE_MS));
	(void)store_change(store, s, NULL);
	if (store_statement(store, STATEMENT_FORGET_MANY_ANSWERS, &s, NULL) < 0)
		return;
	(void)sqlite3_bind_text(s, 1, tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 2, ANSWERS_MAX);
	(void)sqlite3_bind_int64(s, 3, (int64_t)ANSWERS_BYTES);
	(void)store_change(store, s, NULL);
}

int store_keep_answer(struct store *store, const char *tenant, const char *key, unsigned int status,
		      const char *body)
{
	struct claim *c = find_claim(store, tenant, key);
	int r;

	if (!c)
		return -ENOENT;
	r = put_answer(store, c, status, body);
	if (r == 0 && store->answers_kept++ % FORGET_EVERY == 0)
		forget(store, tenant);
	store_drop_answer(store, tenant, key);
	return r;
}
