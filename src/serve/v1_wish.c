/* v1_wish.c - what a client wants of a new sandbox: its template, its policy, its network, its limits */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "serve/v1.h"

#define RULE_MAX 300

/* Words of the policy, as options of "brig create"; the tenant's ceiling is put over all of them. */
static const struct {
	const char *name, *option;
} limit_options[] = {
	{ "pids", "--pids" },
	{ "files", "--files" },
	{ "cpu_time", "--cpu-time" },
};

static int copy_text(char **to, const char *from)
{
	free(*to);
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

static int take_template(struct request *q, struct make_order *order, struct err *err)
{
	const char *name = doc_text(q->body, "template", MAKE_BASE);
	struct template t;
	int r = make_find_template(q->serve, q->tenant_name, name, &t);

	if (r < 0)
		return r == -ENOENT
			       ? err_set(err, -EINVAL, "template: there is no \"%.100s\"", name)
			       : err_errno(err, r, "template");
	r = make_from_template(order, &t);
	template_done(&t);
	return r;
}

bool v1_is_shipped(const char *name)
{
	for (size_t i = 0; i < shipped_policy_count; i++)
		if (str_equal(shipped_policies[i].name, name))
			return true;
	return false;
}

/* Only those that come with brig: a name of a file would be one of this host's. */
static int take_policy(struct request *q, struct make_order *order, struct err *err)
{
	const char *name = doc_text(q->body, "policy", NULL);

	if (!name)
		return 0;
	if (!v1_is_shipped(name))
		return err_set(err, -EINVAL, "policy: there is no \"%.64s\" (GET /v1/policies)",
			       name);
	return copy_text(&order->policy, name);
}

/* A client can open names and public addresses; what is private here is for the operator's policy to open. */
static int add_rule(const char *flag, const char *text, struct strv *list, struct err *err)
{
	const struct policy_env env = { .cwd = "/" };
	struct policy policy;
	const struct host_rules *rules;
	char rule[RULE_MAX + 16];
	bool is_address = false;
	int r;

	policy_init(&policy);
	r = policy_set_flag(&policy, flag, text, &env, err);
	rules = str_equal(flag, "allow-net") ? &policy.net_allow : NULL;
	if (r == 0 && rules && rules->count)
		is_address = rules->items[0].kind == HOST_ADDRESS;
	policy_done(&policy);
	if (r < 0)
		return r;
	snprintf(rule, sizeof(rule), "%s%s", text, is_address ? " public" : "");
	return strv_add(list, rule);
}

static int take_rules(const struct node *list, const char *flag, struct strv *ret_rules,
		      struct err *err)
{
	int r = 0;

	for (size_t i = 0; list && i < list->count && r == 0; i++)
		r = add_rule(flag, list->entries[i].value->text, ret_rules, err);
	return r;
}

static int take_network(struct request *q, struct make_order *order, struct err *err)
{
	const struct node *net = node_get(q->body, "net");
	_cleanup_(buf_done) struct buf text = BUF(SERVE_JSON_MAX);
	int r;

	if (!net)
		return 0;
	order->has_rules = true;
	/* Within the policy everything is what the policy allows. */
	r = node_get(net, "allow")
		    ? take_rules(node_get(net, "allow"), "allow-net", &order->rules.allow, err)
		    : strv_add(&order->rules.allow, "*:* raw");
	r = r < 0 ? r : take_rules(node_get(net, "deny"), "deny-net", &order->rules.deny, err);
	r = r < 0 ? r : json_write(net, true, &text);
	return r < 0 ? r : copy_text(&order->held.network, buf_text(&text));
}

static int take_size(const struct node *limits, const char *name, uint64_t *value, struct err *err)
{
	const char *text = doc_text(limits, name, NULL);
	int r = text ? parse_size(text, value, err) : 0;

	return r < 0 ? err_prefix(err, "limits.%s", name) : 0;
}

static int take_limits(struct request *q, struct make_order *order, struct err *err)
{
	const struct node *limits = node_get(q->body, "limits");
	int r = take_size(limits, "memory", &order->held.memory, err);

	r = r < 0 ? r : take_size(limits, "disk", &order->held.disk, err);
	order->held.cpu = doc_number(limits, "cpu", order->held.cpu);
	for (size_t i = 0; i < ARRAY_SIZE(limit_options) && r == 0; i++) {
		const struct node *value = node_get(limits, limit_options[i].name);
		char text[32];

		if (!value)
			continue;
		snprintf(text, sizeof(text), "%.0f", doc_number(limits, limit_options[i].name, 0));
		r = strv_add(&order->options, limit_options[i].option);
		r = r < 0 ? r
			  : strv_add(&order->options,
				     value->kind == NODE_STRING ? value->text : text);
	}
	return r;
}

int v1_wish(struct request *q, struct make_order *ret_order, struct err *err)
{
	int r = take_limits(q, ret_order, err);

	r = r < 0 ? r : take_policy(q, ret_order, err);
	r = r < 0 ? r : take_network(q, ret_order, err);
	r = r < 0 ? r : take_template(q, ret_order, err);
	/* Without one, the agent is open to whoever knows the id; the owner is told it where clients of E2B are. */
	r = r < 0 ? r : make_token(ret_order->held.token);
	return r < 0 && !err->code ? err_errno(err, r, "the sandbox") : r;
}
