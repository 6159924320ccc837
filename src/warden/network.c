#include "warden/network.h"

#include <errno.h>
#include <stdio.h>

#define RULES_MAX 1024 /* of both kinds */

/* One sandbox to a process: the rules that hold now, and those before, which somebody may still look at. */
static struct policy fresh;

static int add_rules(struct policy *policy, const struct message *m, enum field field,
		     const char *flag, size_t *count, struct err *err)
{
	/* Nothing in such a rule is looked up. */
	static const struct policy_env env = { .cwd = "/" };
	const char *text;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (text = message_next_text(m, field, &at))) {
		if (++*count > RULES_MAX)
			return err_set(err, -E2BIG, "more than %d rules", RULES_MAX);
		r = policy_set_flag(policy, flag, text, &env, err);
	}
	return r;
}

/* All but the rules stays what it was: they alone are the change's own. */
static void take_rules(struct door *door, struct policy *rules)
{
	struct policy now = *door->witness->policy;

	if (door->witness->policy == &fresh) {
		struct policy old = { .net_allow = fresh.net_allow, .net_deny = fresh.net_deny };

		policy_done(&old);
	}
	now.net_allow = rules->net_allow;
	now.net_deny = rules->net_deny;
	rules->net_allow = (struct host_rules){ 0 };
	rules->net_deny = (struct host_rules){ 0 };
	fresh = now;
	door->witness->policy = &fresh;
	if (door->gate)
		gate_policy_changed(door->gate, &fresh);
}

static void record(struct witness *witness)
{
	char object[64];
	const struct trace_event event = {
		.kind = TRACE_NET,
		.verdict = VERDICT_ALLOW,
		.action = "rules",
		.object = object,
	};

	snprintf(object, sizeof(object), "%zu to connect, %zu to refuse", fresh.net_allow.count,
		 fresh.net_deny.count);
	if (witness->trace && witness->failure == 0)
		witness->failure = trace_add(witness->trace, &event);
}

int network_change(struct door *door, const struct message *m, struct err *err)
{
	struct policy rules;
	size_t count = 0;
	int r;

	policy_init(&rules);
	r = add_rules(&rules, m, FIELD_ALLOW, "allow-net", &count, err);

	r = r < 0 ? r : add_rules(&rules, m, FIELD_DENY, "deny-net", &count, err);
	if (r == 0) {
		take_rules(door, &rules);
		record(door->witness);
	}
	policy_done(&rules);
	return r;
}
