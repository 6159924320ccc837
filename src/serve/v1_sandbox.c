/* v1_sandbox.c - sandboxes that live: making, changing, pausing and ending them (v1_list.c shows them) */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/v1.h"
#include "serve/v1_show.h"
#include "warden/roster.h"

/* --- making --- */

struct creation {
	struct request *q; /* NULL: the client has left, and will ask again with its key */
	struct once once;
	struct make *making;
};

static void creation_gone(struct request *q)
{
	struct creation *c = q->of;

	c->q = NULL;
	if (once_is_kept(&c->once))
		return;
	make_leave(c->making);
	free(c);
}

/* Nobody has to be told when the request goes. */
static struct request *leave_request(struct creation *c)
{
	struct request *q = c->q;

	if (q) {
		q->gone = NULL;
		q->of = NULL;
	}
	return q;
}

static void creation_fail(struct creation *c, unsigned int wait_s, const struct err *err)
{
	struct request *q = leave_request(c);

	once_drop(&c->once);
	free(c);
	if (q)
		v1_refuse_full(q, wait_s, err);
}

static void on_made(void *of, const struct held *held, const struct err *err)
{
	struct creation *c = of;
	struct request *q;
	struct node *node;

	c->making = NULL;
	if (!held) {
		creation_fail(c, 0, err);
		return;
	}
	q = leave_request(c);
	node = show_sandbox(held, NULL);
	once_end(&c->once, 201, node);
	free(c);
	if (q)
		answer_take_json(q, 201, node);
	else
		node_free(node);
}

static int set_json(char **to, const struct node *node)
{
	_cleanup_(buf_done) struct buf text = BUF(SERVE_JSON_MAX);

	if (!node)
		return 0;
	if (json_write(node, true, &text) < 0)
		return -ENOMEM;
	free(*to);
	*to = strdup(buf_text(&text));
	return *to ? 0 : -ENOMEM;
}

static int prepare(struct request *q, struct make_order *order, struct err *err)
{
	int r = v1_wish(q, order, err);

	r = r < 0 ? r : set_json(&order->held.metadata, node_get(q->body, "metadata"));
	r = r < 0 ? r : set_json(&order->held.env, node_get(q->body, "env"));
	order->held.pauses = str_equal(doc_text(q->body, "on_timeout", "kill"), "pause");
	order->timeout_ms = (uint64_t)(doc_number(q->body, "timeout", V1_LIFE) * 1000);
	return r < 0 && !err->code ? err_errno(err, r, "the sandbox") : r;
}

void v1_create(struct request *q)
{
	struct creation *c = calloc(1, sizeof(*c));
	struct make_order order = MAKE_ORDER;
	struct err err = ERR_NONE;
	unsigned int wait_s = 0;
	int r;

	if (!c) {
		answer_error(q, 503, "out of memory");
		return;
	}
	if (once_begin(q, &c->once) != 0) {
		free(c);
		return;
	}
	c->q = q;
	q->of = c;
	q->gone = creation_gone;
	r = prepare(q, &order, &err);
	if (r < 0)
		make_order_done(&order);
	else
		r = make_begin(q->serve, q->tenant, &order, on_made, c, &c->making, &wait_s, &err);
	if (r < 0)
		creation_fail(c, wait_s, &err);
}

/* --- what takes a while; the client may leave meanwhile --- */

struct errand {
	struct request *q;
	struct serve *serve;
	char id[TRACE_ID_SIZE];
	unsigned int status; /* 204: without a body, else the sandbox as it is then */
};

static void errand_gone(struct request *q)
{
	struct errand *errand = q->of;

	errand->q = NULL;
}

static struct errand *errand_begin(struct request *q, unsigned int status)
{
	struct errand *errand = calloc(1, sizeof(*errand));

	if (!errand) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	*errand = (struct errand){ .q = q, .serve = q->serve, .status = status };
	snprintf(errand->id, sizeof(errand->id), "%s", q->sandbox);
	q->of = errand;
	q->gone = errand_gone;
	return errand;
}

static void errand_answer(struct request *q, const char *id, unsigned int status,
			  const struct err *err)
{
	const struct held *held;

	if (err && err->code) {
		v1_refuse(q, err);
		return;
	}
	if (status == 204) {
		answer_empty(q, 204);
		return;
	}
	held = registry_find(q->serve->registry, id, q->tenant_name);
	if (held)
		answer_take_json(q, status, show_sandbox(held, NULL));
	else
		answer_error(q, 502, "the sandbox ended meanwhile");
}

static void on_done(void *of, const struct err *err)
{
	struct errand *errand = of;
	struct request *q = errand->q;
	unsigned int status = errand->status;
	char id[TRACE_ID_SIZE];

	memcpy(id, errand->id, sizeof(id));
	free(errand);
	if (!q)
		return;
	q->gone = NULL;
	q->of = NULL;
	errand_answer(q, id, status, err);
}

void v1_delete(struct request *q)
{
	struct errand *errand = errand_begin(q, 204);
	struct err err = ERR_NONE;

	if (errand && registry_kill(q->serve->registry, q->sandbox, on_done, errand, &err) < 0)
		on_done(errand, &err);
}

void v1_pause(struct request *q)
{
	struct errand *errand;
	struct err err = ERR_NONE;

	if (q->held->state == HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is paused already");
		return;
	}
	errand = errand_begin(q, 200);
	if (errand && registry_pause(q->serve->registry, q->sandbox, on_done, errand, &err) < 0)
		on_done(errand, &err);
}

void v1_resume(struct request *q)
{
	uint64_t timeout = (uint64_t)(doc_number(q->body, "timeout", 0) * 1000);
	struct errand *errand;
	struct err err = ERR_NONE;

	if (q->held->state != HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is not paused");
		return;
	}
	errand = errand_begin(q, 200);
	if (errand &&
	    registry_resume(q->serve->registry, q->sandbox, timeout, on_done, errand, &err) < 0)
		on_done(errand, &err);
}

/* What needs no warden is changed at once. */
static int change_now(struct request *q, struct err *err)
{
	const struct node *metadata = node_get(q->body, "metadata");
	const char *on_timeout = doc_text(q->body, "on_timeout", NULL);
	int r;

	if (!metadata && !on_timeout)
		return 0;
	r = set_json(&q->held->metadata, metadata);
	if (r < 0)
		return err_errno(err, r, "metadata");
	if (on_timeout)
		q->held->pauses = str_equal(on_timeout, "pause");
	return registry_save(q->serve->registry, q->held, err);
}

void v1_change(struct request *q)
{
	double timeout = doc_number(q->body, "timeout", 0);
	struct errand *errand;
	struct err err = ERR_NONE;

	if (change_now(q, &err) < 0) {
		v1_refuse(q, &err);
		return;
	}
	if (timeout <= 0) {
		answer_take_json(q, 200, show_sandbox(q->held, NULL));
		return;
	}
	errand = errand_begin(q, 200);
	if (errand && registry_set_timeout(q->serve->registry, q->sandbox,
					   (uint64_t)(timeout * 1000), on_done, errand, &err) < 0)
		on_done(errand, &err);
}
