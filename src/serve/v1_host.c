/* v1_host.c - the host, the policies, and the daemon itself */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "policy/policy.h"
#include "serve/metrics.h"
#include "serve/v1.h"
#include "warden/roster.h"

#define HOST_MS  10000 /* for which a report of the host is good */
#define READY_MS 5000  /* for which the store is believed to be */

/* --- the host: "brig doctor", once for all who ask at the same time --- */

struct waiter {
	struct waiter *next, **at;
	struct request *q;
};

static struct {
	char *report; /* JSON; NULL: none yet */
	size_t len;
	uint64_t made; /* loop_now() */
	uint64_t run;
	struct waiter *waiters;
} host;

static void waiter_free(struct waiter *w)
{
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	w->q->of = NULL;
	w->q->gone = NULL;
	free(w);
}

static void waiter_gone(struct request *q)
{
	waiter_free(q->of);
}

static void give_report(struct request *q)
{
	if (host.report)
		exchange_answer(q->x, 200, "application/json", host.report, host.len);
	else
		answer_error(q, 503, "the host could not be looked at");
}

static void on_doctor(void *of, const struct fleet_output *output)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(buf_done) struct buf text = BUF(1 * MIB);
	struct serve *serve = of;
	struct err err = ERR_NONE;

	host.run = 0;
	/* The status says whether the host is ready; the report does, too. */
	if (json_read(output->out, output->out_len, NULL, &node, &err) == 0 &&
	    json_write(node, true, &text) == 0) {
		free(host.report);
		host.len = text.len;
		host.report = buf_take(&text);
		host.made = loop_now(serve->loop);
	} else {
		log_line(LOG_WARNING, "brig doctor said nothing of use: %s", output->err);
	}
	while (host.waiters) {
		struct request *q = host.waiters->q;

		waiter_free(host.waiters);
		give_report(q);
	}
}

static int wait_for_report(struct request *q, struct err *err)
{
	struct waiter *w = calloc(1, sizeof(*w));
	char *const words[] = { (char[]){ "doctor" }, (char[]){ "--json" }, NULL };

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	*w = (struct waiter){ .next = host.waiters, .at = &host.waiters, .q = q };
	if (w->next)
		w->next->at = &w->next;
	host.waiters = w;
	q->of = w;
	q->gone = waiter_gone;
	return host.run ? 0
			: fleet_run(q->serve->fleet, words, on_doctor, q->serve, &host.run, err);
}

void v1_host(struct request *q)
{
	struct err err = ERR_NONE;

	if (host.report && loop_now(q->serve->loop) - host.made < HOST_MS)
		give_report(q);
	else if (wait_for_report(q, &err) < 0)
		v1_refuse(q, &err);
}

/* --- policies --- */

/* As it stands in the file, with all that it extends. */
static struct node *policy_node(const char *name, struct err *err)
{
	const struct policy_env env = { .cwd = "/" };
	struct policy policy;
	struct node *map = node_map(), *rules = NULL;
	char digest[POLICY_DIGEST_SIZE] = "";
	int r = policy_load(name, &env, &policy, err);

	if (r == 0) {
		r = policy_to_node(&policy, &rules);
		r = r < 0 ? r : policy_digest(&policy, digest);
		policy_done(&policy);
	}
	r = r < 0 ? r : node_set(map, "name", node_string(name));
	r = r < 0 ? r : node_set(map, "digest", node_string(digest));
	r = r < 0 ? r : node_set(map, "rules", take_ptr(&rules));
	node_free(rules);
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

void v1_policies(struct request *q)
{
	const char *own = make_policy_name(q->serve, q->tenant);
	struct node *list = node_list(), *map = node_map();
	int r = 0;

	for (size_t i = 0; i < shipped_policy_count && r == 0; i++)
		r = node_add(list, node_string(shipped_policies[i].name));
	r = r < 0 ? (node_free(list), r) : node_set(map, "policies", list);
	/* A file of the operator's is not for tenants to know by its place. */
	r = r < 0 ? r : node_set(map, "default", strchr(own, '/') ? node_null() : node_string(own));
	if (r < 0) {
		node_free(map);
		map = NULL;
	}
	answer_take_json(q, 200, map);
}

void v1_policy(struct request *q)
{
	const char *name = q->parameter[0];
	struct err err = ERR_NONE;
	struct node *node = NULL;

	for (size_t i = 0; i < shipped_policy_count; i++)
		if (str_equal(shipped_policies[i].name, name))
			node = policy_node(name, &err);
	if (node)
		answer_take_json(q, 200, node);
	else if (err.code)
		answer_error(q, 503, "%s", err.text);
	else
		answer_error(q, 404, "there is no policy \"%.64s\"", name);
}

/* What of a manifest is for the sandbox's client; its places on the host are not. */
void v1_report(struct request *q)
{
	static const char *const keys[] = { "isolation", "policy",    "home",
					    "overlays",  "published", "enforcement" };
	_cleanup_(node_freep) struct node *manifest = NULL;
	struct node *map = node_map();
	struct err err = ERR_NONE;
	bool is_alive;
	int r = roster_read(q->sandbox, &manifest, &is_alive, &err);

	if (r < 0) {
		node_free(map);
		answer_error(q, 502, "the sandbox ended meanwhile");
		return;
	}
	r = node_set(map, "id", node_string(q->sandbox));
	for (size_t i = 0; i < ARRAY_SIZE(keys) && r == 0; i++) {
		const struct node *value = node_get(manifest, keys[i]);

		r = node_set(map, keys[i], value ? node_copy(value) : node_null());
	}
	r = r < 0 ? r : node_set(map, "network", v1_json(q->held->network));
	if (r < 0) {
		node_free(map);
		map = NULL;
	}
	answer_take_json(q, 200, map);
}

/* --- the daemon --- */

static void answer_state(struct request *q, unsigned int status, const char *state)
{
	char text[128];

	snprintf(text, sizeof(text), "{\"status\":\"%s\",\"version\":\"" BRIG_VERSION "\"}", state);
	exchange_answer(q->x, status, "application/json", text, strlen(text));
}

void v1_health(struct request *q)
{
	answer_state(q, 200, "ok");
}

/* A line that is written and removed again; believed for a while. */
static bool store_is_writable(struct serve *serve)
{
	static uint64_t looked;
	static bool is_writable;
	_cleanup_free_ char *body = NULL;
	unsigned int status;
	int r;

	if (looked && loop_now(serve->loop) - looked < READY_MS)
		return is_writable;
	r = store_claim_answer(serve->store, "", "ready", "ready", &status, &body);
	if (r >= 0)
		store_drop_answer(serve->store, "", "ready");
	is_writable = r >= 0 || r == -EBUSY;
	looked = loop_now(serve->loop);
	return is_writable;
}

void v1_ready(struct request *q)
{
	if (q->serve->is_draining)
		answer_error(q, 503, "the daemon is stopping");
	else if (!store_is_writable(q->serve))
		answer_error(q, 503, "the state cannot be written: is the disk full?");
	else
		answer_state(q, 200, "ready");
}

void v1_metrics(struct request *q)
{
	_cleanup_(buf_done) struct buf text = BUF(4 * MIB);

	if (metrics_write(q->serve, &text) < 0)
		answer_error(q, 503, "out of memory");
	else
		exchange_answer(q->x, 200, "text/plain; version=0.0.4", text.data, text.len);
}

/* It is the same for as long as the program runs. */
void v1_openapi(struct request *q)
{
	static struct node *document;

	if (!document && openapi_make(v1_routes, &document) < 0)
		document = NULL;
	answer_json(q, 200, document);
}
