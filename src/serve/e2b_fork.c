/*
 * e2b_fork.c - POST /sandboxes/{id}/fork: copies of a sandbox that runs
 *
 * What it wrote becomes an image, the copies start from it, and the image loses its name: its files go with the
 * last of them. A copy has the files, the variables, the metadata and the rules of the network; programs
 * are not copied, as files are all that there is; the template's start command runs again. Each copy succeeds or fails by itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/e2b_control.h"
#include "serve/snapshot.h"
#include "serve/wish.h"

#define FORK_S   15
#define FORK_MAX 20

struct fork {
	struct request *q; /* NULL: the client has left */
	struct serve *serve;
	char tenant[TENANT_NAME_MAX + 1], id[TRACE_ID_SIZE];
	char image[SNAPSHOT_IMAGE_SIZE], domain[E2B_DOMAIN_MAX];
	uint64_t timeout_ms;
	size_t count, pending;
	struct copy {
		struct fork *fork;
		struct make *make;
		struct node *result;
	} copies[FORK_MAX];
};

static void fork_free(struct fork *fork)
{
	for (size_t i = 0; i < FORK_MAX; i++)
		node_free(fork->copies[i].result);
	free(fork);
}

/* What is on its way is ended when it is there; then the image goes. */
static void fork_leave(struct request *q)
{
	struct fork *fork = q->of;

	fork->q = NULL;
}

static struct node *shape_result(const struct held *held, const char *domain, const struct err *err)
{
	_cleanup_(node_freep) struct node *map = node_map(), *error = NULL;
	int r = map ? 0 : -ENOMEM;

	if (held) {
		r = r < 0 ? r : node_set(map, "sandbox", shape_sandbox(held, domain));
		return r < 0 ? NULL : take_ptr(&map);
	}
	error = node_map();
	r = r < 0 || !error ? -ENOMEM : node_set(error, "code", node_int(status_of(err)));
	r = r < 0 ? r : node_set(error, "message", node_string(err->text));
	r = r < 0 ? r : node_set(map, "error", take_ptr(&error));
	return r < 0 ? NULL : take_ptr(&map);
}

static void answer_fork(struct fork *fork)
{
	_cleanup_(node_freep) struct node *list = node_list();
	struct request *q = fork->q;
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < fork->count && r == 0; i++)
		r = node_add(list, take_ptr(&fork->copies[i].result));
	q->of = NULL;
	q->gone = NULL;
	answer_json(q, 201, r < 0 ? NULL : list);
}

static void fork_end(struct fork *fork)
{
	snapshot_remove_image(fork->serve, fork->image);
	if (fork->q)
		answer_fork(fork);
	fork_free(fork);
}

static void ignore(void *of, const struct err *err)
{
	(void)of;
	(void)err;
}

static void on_copied(void *of, const struct held *held, const struct err *err)
{
	struct copy *copy = of;
	struct fork *fork = copy->fork;
	struct err failure = ERR_NONE;

	copy->make = NULL;
	copy->result = shape_result(held, fork->domain, err);
	/* Nobody would learn its id. */
	if (held && !fork->q)
		(void)!registry_kill(fork->serve->registry, held->id, ignore, NULL, &failure);
	if (--fork->pending == 0)
		fork_end(fork);
}

/* --- the order of a copy --- */

static int new_tokens(const struct held *held, struct held *copy)
{
	int r = held->token[0] ? make_token(copy->token) : 0;

	return r == 0 && held->traffic_token[0] ? make_token(copy->traffic_token) : r;
}

static int fill_order(const struct fork *fork, const struct held *held, struct make_order *order,
		      struct err *err)
{
	_cleanup_(template_done) struct template t = { 0 };
	int r = make_like(order, held);

	order->timeout_ms = fork->timeout_ms;
	order->image = r < 0 ? NULL : strdup(fork->image);
	r = r < 0 ? r : order->image ? 0 : -ENOMEM;
	if (r == 0 && make_find_template(fork->serve, fork->tenant, held->template_id, &t) == 0)
		r = make_from_template(order, &t);
	r = r < 0 ? r : new_tokens(held, &order->held);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

static int begin_copy(struct fork *fork, const struct tenant *tenant, struct copy *copy,
		      struct err *err)
{
	const struct held *held = registry_find(fork->serve->registry, fork->id, fork->tenant);
	struct make_order order = MAKE_ORDER;
	unsigned int wait_s;
	int r;

	if (!held)
		return err_set(err, -ESRCH, "sandbox \"%s\" has ended", fork->id);
	r = fill_order(fork, held, &order, err);
	if (r < 0) {
		make_order_done(&order);
		return r;
	}
	return make_begin(fork->serve, tenant, &order, on_copied, copy, &copy->make, &wait_s, err);
}

static void begin_copies(struct fork *fork)
{
	struct tenant tenant;
	int known = fork->serve->settings.is_open
			    ? (tenant = fork->serve->open_tenant, 0)
			    : store_get_tenant(fork->serve->store, fork->tenant, &tenant);

	/* So that the end of none is the end of all, before all are begun. */
	fork->pending = 1;
	for (size_t i = 0; i < fork->count; i++) {
		struct copy *copy = &fork->copies[i];
		struct err err = ERR_NONE;

		copy->fork = fork;
		if (known < 0)
			err_errno(&err, known, "tenant \"%s\"", fork->tenant);
		if (known == 0 && begin_copy(fork, &tenant, copy, &err) == 0)
			fork->pending++;
		else
			copy->result = shape_result(NULL, NULL, &err);
	}
	if (--fork->pending == 0)
		fork_end(fork);
}

static void on_snapshot(void *of, const struct fleet_output *output)
{
	struct fork *fork = of;
	struct request *q = fork->q;
	struct err err = ERR_NONE;

	if (snapshot_failed(output, &err) < 0) {
		fork_free(fork);
		if (!q)
			return;
		q->of = NULL;
		q->gone = NULL;
		refuse_err(q, &err);
	} else if (!q) {
		snapshot_remove_image(fork->serve, fork->image);
		fork_free(fork);
	} else {
		begin_copies(fork);
	}
}

static struct fork *fork_new(struct request *q, const struct held *held, int64_t timeout,
			     int64_t count)
{
	struct fork *fork = calloc(1, sizeof(*fork));

	if (!fork || snapshot_image_name(SNAPSHOT_FORK_PREFIX, fork->image) < 0) {
		free(fork);
		return NULL;
	}
	fork->q = q;
	fork->serve = q->serve;
	fork->timeout_ms = (uint64_t)timeout * 1000;
	fork->count = (size_t)count;
	snprintf(fork->tenant, sizeof(fork->tenant), "%s", q->tenant_name);
	snprintf(fork->id, sizeof(fork->id), "%s", held->id);
	shape_domain(q, fork->domain);
	return fork;
}

void control_fork(struct request *q)
{
	const struct held *held = own_sandbox(q);
	int64_t timeout = FORK_S, count = 1;
	struct err err = ERR_NONE;
	struct fork *fork;
	int r;

	if (!held)
		return;
	r = wish_number(q->body, "timeout", 0, WISH_TIMEOUT_MAX, &timeout, &err);
	r = r < 0 ? r : wish_number(q->body, "count", 1, FORK_MAX, &count, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	fork = fork_new(q, held, timeout, count);
	if (!fork) {
		answer_error(q, 503, "out of memory");
		return;
	}
	q->of = fork;
	q->gone = fork_leave;
	if (snapshot_run(q->serve, held->id, fork->image, on_snapshot, fork, &err) == 0)
		return;
	q->of = NULL;
	q->gone = NULL;
	fork_free(fork);
	refuse_err(q, &err);
}
