/* e2b_network.c - PUT /sandboxes/{id}/network: other rules for a sandbox that runs */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/e2b_control.h"
#include "serve/wish.h"

/* Begun for a request; what the client asked for is written down when the warden has taken it. */
struct change {
	struct errand *errand;
	struct serve *serve;
	char id[TRACE_ID_SIZE], tenant[TENANT_NAME_MAX + 1];
	struct rules rules;
	struct node *network; /* as it is to be reported */
	int internet;         /* -1: not said */
};

static void change_free(struct change *change)
{
	rules_done(&change->rules);
	node_free(change->network);
	free(change);
}

static void answer_changed(struct request *q, const char *id)
{
	(void)id;
	answer_empty(q, 204);
}

/* The warden holds the rules; what is kept here is for who asks what they were. */
static int keep(struct change *change, struct err *err)
{
	struct held *held = registry_find(change->serve->registry, change->id, change->tenant);
	char *text;
	int r;

	if (!held)
		return err_set(err, -ESRCH, "sandbox \"%s\" has ended", change->id);
	text = wish_json(change->network);
	r = extra_set(held, "internet",
		      change->internet < 0 ? node_null() : node_bool(change->internet != 0));
	r = r < 0 ? r : make_keep_rules(held, &change->rules);
	if (r < 0 || !text) {
		free(text);
		return err_set(err, -ENOMEM, "out of memory");
	}
	free(held->network);
	held->network = text;
	return registry_save(change->serve->registry, held, err);
}

static void on_changed(void *of, struct message *m, bool is_last)
{
	struct change *change = of;
	struct err err = ERR_NONE;

	if (!is_last)
		return;
	if (m->type == MESSAGE_ERROR)
		err_set(&err, -(int)message_number(m, FIELD_CODE, EIO), "%s",
			message_text(m, FIELD_TEXT, "the warden refused"));
	else
		(void)!keep(change, &err);
	errand_done(change->errand, &err);
	change_free(change);
}

static void ask_warden(struct change *change, struct err *err)
{
	struct draft d = DRAFT(MESSAGE_NETWORK, 0);
	call_id call;

	make_draft_rules(&change->rules, &d);
	if (call_start(change->serve->fleet, change->id, &d, NULL, 0, on_changed, change, &call,
		       err) < 0) {
		errand_done(change->errand, err);
		change_free(change);
	}
}

/* What is not about the way out was said when the sandbox was made, and stays. */
static int merge(const struct held *held, const struct node *body, struct node **ret_network)
{
	static const char *const stays[] = { "allowPublicTraffic", "maskRequestHost",
					     "httpsPorts" };
	static const char *const replaced[] = { "allowOut", "denyOut", "dnsServers" };
	_cleanup_(node_freep) struct node *network = node_map(),
					  *before = extra_json(held->network);
	int r = network ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(stays) && r == 0; i++)
		if (node_get(before, stays[i]))
			r = node_set(network, stays[i], node_copy(node_get(before, stays[i])));
	for (size_t i = 0; i < ARRAY_SIZE(replaced) && r == 0; i++)
		if (wish_find(body, replaced[i]))
			r = node_set(network, replaced[i], node_copy(wish_find(body, replaced[i])));
	if (r == 0)
		*ret_network = take_ptr(&network);
	return r;
}

static int read_rules(struct request *q, bool internet, struct rules *ret_rules, struct err *err)
{
	struct policy ceiling;
	int r = rules_read(q->body, internet, ret_rules, err);

	if (r < 0)
		return r;
	r = make_ceiling(q->serve, q->tenant, &ceiling, err);
	if (r < 0)
		return r;
	r = rules_within(ret_rules, &ceiling, err);
	policy_done(&ceiling);
	return r;
}

void control_network(struct request *q)
{
	_cleanup_(rules_done) struct rules rules = RULES_NONE;
	const struct held *held = own_sandbox(q);
	struct err err = ERR_NONE;
	struct change *change;
	bool internet = true;
	int r;

	if (!held)
		return;
	r = wish_bool(q->body, "allow_internet_access", &internet, &err);
	r = r < 0 ? r : read_rules(q, internet, &rules, &err);
	if (r < 0) {
		refuse_err(q, &err);
		return;
	}
	change = calloc(1, sizeof(*change));
	if (!change || merge(held, q->body, &change->network) < 0) {
		free(change);
		answer_error(q, 503, "out of memory");
		return;
	}
	change->serve = q->serve;
	change->rules = rules;
	rules = RULES_NONE;
	change->internet = wish_find(q->body, "allow_internet_access") ? internet : -1;
	snprintf(change->id, sizeof(change->id), "%s", held->id);
	snprintf(change->tenant, sizeof(change->tenant), "%s", q->tenant_name);
	change->errand = errand_begin(q, held->id, answer_changed);
	if (!change->errand)
		change_free(change);
	else
		ask_warden(change, &err);
}
