/* e2b_life.c - what happens to one sandbox: found again, looked at, kept, paused, resumed, ended */
#include <errno.h>
#include <string.h>

#include "serve/e2b_control.h"
#include "serve/wish.h"

#define RESUME_S    15
#define CONNECT_S   300
#define REFRESH_S   15
#define REFRESH_MAX 3600

static void answer_sandbox(struct request *q, const char *id, unsigned int status)
{
	const struct held *held = registry_find(q->serve->registry, id, q->tenant_name);
	char domain[E2B_DOMAIN_MAX];

	if (!held) {
		refuse_sandbox(q, id);
		return;
	}
	shape_domain(q, domain);
	answer_take_json(q, status, shape_sandbox(held, domain));
}

static void answer_running(struct request *q, const char *id)
{
	answer_sandbox(q, id, 200);
}

static void answer_resumed(struct request *q, const char *id)
{
	answer_sandbox(q, id, 201);
}

static void answer_done(struct request *q, const char *id)
{
	(void)id;
	answer_empty(q, 204);
}

static void set_timeout(struct request *q, const char *id, uint64_t timeout_ms,
			void (*then)(struct request *q, const char *id))
{
	struct errand *errand = errand_begin(q, id, then);
	struct err err = ERR_NONE;

	if (errand)
		errand_check(errand,
			     registry_set_timeout(q->serve->registry, errand->id, timeout_ms,
						  errand_done, errand, &err),
			     &err);
}

static void resume(struct request *q, const char *id, uint64_t timeout_ms)
{
	struct errand *errand = errand_begin(q, id, answer_resumed);
	struct err err = ERR_NONE;

	if (errand)
		errand_check(errand,
			     registry_resume(q->serve->registry, errand->id, timeout_ms,
					     errand_done, errand, &err),
			     &err);
}

/* Whether the time that it has would end before this. */
static bool ends_before(const struct held *held, uint64_t timeout_ms)
{
	return held->ends && held->ends < time_now() + timeout_ms;
}

/* The memory of a paused sandbox is where it was: it cannot be started anew from its files. */
static int check_memory(const struct node *body, struct err *err)
{
	bool keeps = true;
	int r = wish_bool(body, "memory", &keeps, err);

	if (r == 0 && !keeps)
		r = err_set(err, -EINVAL,
			    "\"memory\": a sandbox is paused with its memory and goes on with it");
	return r;
}

static void connect_to(struct request *q, int64_t timeout)
{
	struct held *held = own_sandbox(q);
	struct err err = ERR_NONE;
	uint64_t timeout_ms;
	int r;

	if (!held)
		return;
	r = wish_number(q->body, "timeout", 0, WISH_TIMEOUT_MAX, &timeout, &err);
	r = r < 0 ? r : check_memory(q->body, &err);
	if (r == 0 && timeout < 0)
		r = err_set(&err, -EINVAL, "\"timeout\" is missing: seconds from now");
	timeout_ms = (uint64_t)timeout * 1000;
	if (r < 0)
		refuse_err(q, &err);
	else if (held->state == HELD_PAUSED)
		resume(q, held->id, timeout_ms);
	else if (ends_before(held, timeout_ms))
		set_timeout(q, held->id, timeout_ms, answer_running);
	else
		answer_running(q, held->id);
}

void control_connect(struct request *q)
{
	connect_to(q, -1);
}

void control_connect_v2(struct request *q)
{
	connect_to(q, CONNECT_S);
}

void control_info(struct request *q)
{
	const struct held *held = own_sandbox(q);
	char domain[E2B_DOMAIN_MAX];

	if (!held)
		return;
	shape_domain(q, domain);
	answer_take_json(q, 200, shape_detail(held, domain));
}

static void begin(struct request *q, const char *id,
		  int (*how)(struct registry *registry, const char *id, registry_done done,
			     void *of, struct err *err))
{
	struct errand *errand = errand_begin(q, id, answer_done);
	struct err err = ERR_NONE;

	if (errand)
		errand_check(errand, how(q->serve->registry, errand->id, errand_done, errand, &err),
			     &err);
}

void control_kill(struct request *q)
{
	const struct held *held = own_sandbox(q);

	if (held)
		begin(q, held->id, registry_kill);
}

/* What sets a time is for a sandbox that runs: the time of a paused one stands still. */
static struct held *running_sandbox(struct request *q)
{
	struct held *held = own_sandbox(q);

	if (held && held->state == HELD_PAUSED) {
		refuse(q, 409, "sandbox \"%s\" is paused: connect to it first", held->id);
		return NULL;
	}
	return held;
}

void control_timeout(struct request *q)
{
	const struct held *held = running_sandbox(q);
	struct err err = ERR_NONE;
	int64_t timeout = -1;

	if (!held)
		return;
	if (wish_number(q->body, "timeout", 0, WISH_TIMEOUT_MAX, &timeout, &err) < 0)
		refuse_err(q, &err);
	else if (timeout < 0)
		refuse(q, 400, "\"timeout\" is missing: seconds from now");
	else if (timeout == 0)
		begin(q, held->id, held->pauses ? registry_pause : registry_kill);
	else
		set_timeout(q, held->id, (uint64_t)timeout * 1000, answer_done);
}

void control_refresh(struct request *q)
{
	const struct held *held = running_sandbox(q);
	struct err err = ERR_NONE;
	int64_t duration = REFRESH_S;

	if (!held)
		return;
	if (wish_number(q->body, "duration", 0, REFRESH_MAX, &duration, &err) < 0)
		refuse_err(q, &err);
	else if (ends_before(held, (uint64_t)duration * 1000))
		set_timeout(q, held->id, (uint64_t)duration * 1000, answer_done);
	else
		answer_empty(q, 204);
}

/* requireHealthyGuest: what is paused is held from outside, whether anybody inside answers or not. */
void control_pause(struct request *q)
{
	const struct held *held = own_sandbox(q);
	struct err err = ERR_NONE;

	if (!held)
		return;
	if (check_memory(q->body, &err) < 0)
		refuse_err(q, &err);
	else if (held->state == HELD_PAUSED)
		refuse(q, 409, "sandbox \"%s\" is paused already", held->id);
	else
		begin(q, held->id, registry_pause);
}

void control_resume(struct request *q)
{
	struct held *held = own_sandbox(q);
	struct err err = ERR_NONE;
	int64_t timeout = RESUME_S;
	bool pauses;
	int r;

	if (!held)
		return;
	pauses = held->pauses;
	r = wish_number(q->body, "timeout", 0, WISH_TIMEOUT_MAX, &timeout, &err);
	r = r < 0 ? r : wish_bool(q->body, "autoPause", &pauses, &err);
	r = r < 0 ? r : check_memory(q->body, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	if (held->state != HELD_PAUSED) {
		refuse(q, 409, "sandbox \"%s\" is running already", held->id);
		return;
	}
	if (pauses != held->pauses) {
		held->pauses = pauses;
		r = registry_save(q->serve->registry, held, &err);
	}
	if (r < 0)
		refuse_err(q, &err);
	else
		resume(q, held->id, (uint64_t)timeout * 1000);
}
