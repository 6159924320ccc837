/*
 * e2b_create.c - POST /sandboxes and /v2/sandboxes
 *
 * Nothing that was answered is lost: the line in the store comes first. A client that leaves before its answer
 * knows no id, so its sandbox is ended; unless it gave an Idempotency-Key: then it will ask again, and gets the
 * one that was made. The key stands in the line as well, so that a daemon that was killed between the line and
 * the answer finds the sandbox again instead of making a second one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "serve/e2b_control.h"
#include "serve/wish.h"

#define DEFAULT_S    15 /* of a sandbox whose client did not say how long */
#define DEFAULT_V2_S 300
#define KEY_MAX      255
#define METADATA_MAX (16 * KIB) /* of JSON */
#define ENV_MAX      (64 * KIB)
#define NETWORK_MAX  (64 * KIB)

struct create {
	struct request *q; /* NULL: the client has left */
	struct serve *serve;
	struct make *make;
	char tenant[TENANT_NAME_MAX + 1];
	char domain[E2B_DOMAIN_MAX];
	char key[KEY_MAX + 1]; /* Idempotency-Key; "": none */
};

/* --- what is asked for --- */

struct wish {
	const char *template;
	int64_t timeout;
	bool pauses, resumes, keeps_memory, is_secure;
	bool internet, has_internet, is_public;
	const struct node *metadata, *env, *network;
};

static int refuse_filled(const struct node *body, const char *key, const char *why, struct err *err)
{
	const struct node *node = wish_find(body, key);

	if (!node || ((node->kind == NODE_LIST || node->kind == NODE_MAP) && node->count == 0))
		return 0;
	return err_set(err, -EINVAL, "\"%s\" cannot be done by brig: %s; leave it out", key, why);
}

static int read_life(const struct node *body, struct wish *wish, struct err *err)
{
	const struct node *resume = NULL;
	int r = wish_number(body, "timeout", 0, WISH_TIMEOUT_MAX, &wish->timeout, err);

	r = r < 0 ? r : wish_bool(body, "autoPause", &wish->pauses, err);
	r = r < 0 ? r : wish_bool(body, "autoPauseMemory", &wish->keeps_memory, err);
	r = r < 0 ? r : wish_map(body, "autoResume", &resume, err);
	r = r < 0 ? r : wish_bool(resume, "enabled", &wish->resumes, err);
	if (r == 0 && !wish->keeps_memory)
		r = err_set(
			err, -EINVAL,
			"\"autoPauseMemory\": a sandbox is paused with its memory, or not at all");
	return r;
}

static int read_wish(const struct node *body, struct wish *wish, struct err *err)
{
	int r = wish_text(body, "templateID", 1024, &wish->template, err);

	if (r == 0 && !wish->template)
		r = err_set(err, -EINVAL, "\"templateID\" is missing: \"%s\" is always there",
			    MAKE_BASE);
	r = r < 0 ? r : read_life(body, wish, err);
	r = r < 0 ? r : wish_bool(body, "secure", &wish->is_secure, err);
	r = r < 0 ? r : wish_texts(body, "metadata", &wish->metadata, err);
	r = r < 0 ? r : wish_variables(body, "envVars", &wish->env, err);
	r = r < 0 ? r : wish_map(body, "network", &wish->network, err);
	r = r < 0 ? r : wish_bool(body, "allow_internet_access", &wish->internet, err);
	r = r < 0 ? r : wish_bool(wish->network, "allowPublicTraffic", &wish->is_public, err);
	r = r < 0 ? r : refuse_filled(body, "volumeMounts", "it has no volumes", err);
	r = r < 0 ? r : refuse_filled(body, "iam", "it gives out no identity tokens", err);
	wish->has_internet = wish_find(body, "allow_internet_access") != NULL;
	return r;
}

/* --- the order --- */

static int fill_extra(struct held *held, const struct wish *wish, const char *key)
{
	int r = 0;

	if (wish->has_internet)
		r = extra_set(held, "internet", node_bool(wish->internet));
	if (r == 0 && key[0])
		r = extra_set(held, "idempotency", node_string(key));
	return r;
}

/* All of it stays in memory for as long as the sandbox lives, and goes out again in lists. */
static int check_sizes(const struct held *held, struct err *err)
{
	const struct {
		const char *name, *text;
		size_t most;
	} rows[] = {
		{ "metadata", held->metadata, METADATA_MAX },
		{ "envVars", held->env, ENV_MAX },
		{ "network", held->network, NETWORK_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strlen(rows[i].text) > rows[i].most)
			return err_set(err, -EINVAL, "\"%s\" is longer than %zu bytes",
				       rows[i].name, rows[i].most);
	return 0;
}

static int fill_order(const struct wish *wish, const struct template *t, const char *key,
		      struct make_order *order, struct err *err)
{
	struct held *held = &order->held;
	int r = make_from_template(order, t);

	held->pauses = wish->pauses;
	held->resumes = wish->resumes && wish->pauses;
	order->timeout_ms = (uint64_t)wish->timeout * 1000;
	held->metadata = wish_json(wish->metadata);
	held->network = wish_json(wish->network);
	held->env = wish_json(wish->env);
	r = r < 0 ? r : fill_extra(held, wish, key);
	if (r == 0 && wish->is_secure)
		r = make_token(held->token);
	if (r == 0 && !wish->is_public)
		r = make_token(held->traffic_token);
	if (r < 0 || !held->metadata || !held->network || !held->env)
		return err_set(err, r < 0 ? r : -ENOMEM, "out of memory");
	r = check_sizes(held, err);
	if (r < 0)
		return r;
	order->has_rules = rules_are_asked(wish->network, wish->internet);
	/* Read in any case: what cannot be done is refused. */
	return rules_read(wish->network, wish->internet, &order->rules, err);
}

static int order_for(struct request *q, const struct wish *wish, const char *key,
		     struct make_order *order, struct err *err)
{
	_cleanup_(template_done) struct template t = { 0 };
	int r = make_find_template(q->serve, q->tenant_name, wish->template, &t);

	if (r == -ENOENT)
		return err_set(err, r, "template \"%.256s\" does not exist, or is not yours",
			       wish->template);
	if (r < 0)
		return err_errno(err, r, "template \"%.256s\"", wish->template);
	return fill_order(wish, &t, key, order, err);
}

/* --- the same request once more --- */

static bool is_key(const struct text *text)
{
	if (text->len == 0 || text->len > KEY_MAX)
		return false;
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] <= ' ' || text->data[i] > '~' || text->data[i] == '"' ||
		    text->data[i] == '\\')
			return false;
	return true;
}

/* Made by a daemon that was killed before it could answer. */
static struct held *find_made(struct request *q, const char *key)
{
	char text[KEY_MAX + 32];
	struct held *held;

	snprintf(text, sizeof(text), "\"idempotency\":\"%s\"", key);
	for (size_t i = 0; (held = registry_at(q->serve->registry, i)); i++)
		if (str_equal(held->tenant, q->tenant_name) && strstr(held->extra, text))
			return held;
	return NULL;
}

static void answer_kept(struct request *q, const char *key, const struct held *held)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_free_ char *body = NULL;
	char domain[E2B_DOMAIN_MAX];

	shape_domain(q, domain);
	node = shape_sandbox(held, domain);
	body = node ? wish_json(node) : NULL;
	if (body)
		(void)!store_keep_answer(q->serve->store, q->tenant_name, key, 201, body);
	answer_json(q, 201, node);
}

/* 0: go on; else it was answered. */
static int claim(struct request *q, const char *key)
{
	_cleanup_free_ char *body = NULL;
	char digest[SHA256_HEX_SIZE];
	unsigned int status = 0;
	struct held *made;
	int r;

	sha256_hex(q->body_text, q->body_len, digest);
	r = store_claim_answer(q->serve->store, q->tenant_name, key, digest, &status, &body);
	if (r == 0) {
		made = find_made(q, key);
		if (made)
			answer_kept(q, key, made);
		return made != NULL;
	}
	if (r == 1) {
		exchange_answer(q->x, status, "application/json", body, strlen(body));
	} else if (r == -EBUSY) {
		exchange_header(q->x, "Retry-After", "1");
		answer_error(q, 503, "the sandbox of this Idempotency-Key is still being made");
	} else if (r == -EEXIST) {
		refuse(q, 422, "this Idempotency-Key was used for another request");
	} else {
		answer_error(q, 503, "the Idempotency-Key cannot be looked up: %s", strerror(-r));
	}
	return 1;
}

/* --- the way there and back --- */

static void create_end(struct create *create, bool is_kept)
{
	if (create->key[0] && !is_kept)
		store_drop_answer(create->serve->store, create->tenant, create->key);
	if (create->q) {
		create->q->of = NULL;
		create->q->gone = NULL;
	}
	free(create);
}

static void on_made(void *of, const struct held *held, const struct err *err)
{
	struct create *create = of;
	struct request *q = create->q;
	_cleanup_(node_freep) struct node *node = held ? shape_sandbox(held, create->domain) : NULL;
	_cleanup_free_ char *body = node && create->key[0] ? wish_json(node) : NULL;
	bool is_kept = body && store_keep_answer(create->serve->store, create->tenant, create->key,
						 201, body) == 0;

	create_end(create, is_kept);
	if (!q)
		return;
	if (held)
		answer_json(q, 201, node);
	else
		refuse_err(q, err);
}

static void create_leave(struct request *q)
{
	struct create *create = q->of;

	create->q = NULL;
	if (create->key[0])
		return;
	make_leave(create->make);
	create_end(create, false);
}

static void begin(struct request *q, struct make_order *order, const char *key)
{
	struct create *create = calloc(1, sizeof(*create));
	struct err err = ERR_NONE;
	unsigned int wait_s = 0;
	int r;

	if (!create) {
		make_order_done(order);
		answer_error(q, 503, "out of memory");
		return;
	}
	*create = (struct create){ .q = q, .serve = q->serve };
	snprintf(create->tenant, sizeof(create->tenant), "%s", q->tenant_name);
	snprintf(create->key, sizeof(create->key), "%s", key);
	shape_domain(q, create->domain);
	r = make_begin(q->serve, q->tenant, order, on_made, create, &create->make, &wait_s, &err);
	if (r == 0) {
		q->of = create;
		q->gone = create_leave;
		return;
	}
	create->q = NULL;
	create_end(create, false);
	if (r == -EDQUOT)
		refuse_full(q, wait_s, &err);
	else
		refuse_err(q, &err);
}

static void create(struct request *q, struct wish *wish)
{
	const struct text *given = head_find(&q->x->head, "idempotency-key");
	struct make_order order = MAKE_ORDER;
	char key[KEY_MAX + 1] = "";
	struct err err = ERR_NONE;
	int r = 0;

	if (given && !is_key(given))
		r = err_set(&err, -EINVAL,
			    "Idempotency-Key must be 1 to %d letters, digits and signs", KEY_MAX);
	else if (given)
		snprintf(key, sizeof(key), "%.*s", (int)given->len, given->data);
	r = r < 0 ? r : read_wish(q->body, wish, &err);
	r = r < 0 ? r : order_for(q, wish, key, &order, &err);
	if (r < 0) {
		make_order_done(&order);
		refuse_err(q, &err);
	} else if (key[0] && claim(q, key) != 0) {
		make_order_done(&order);
	} else {
		begin(q, &order, key);
	}
}

#define WISH(seconds)                         \
	((struct wish){ .timeout = (seconds), \
			.keeps_memory = true, \
			.is_secure = true,    \
			.internet = true,     \
			.is_public = true })

void control_create(struct request *q)
{
	struct wish wish = WISH(DEFAULT_S);

	create(q, &wish);
}

void control_create_v2(struct request *q)
{
	struct wish wish = WISH(DEFAULT_V2_S);

	create(q, &wish);
}
