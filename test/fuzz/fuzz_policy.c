/*
 * fuzz_policy.c - any bytes as a policy: what is accepted is written as a policy that means the
 * same, has a digest, and is no narrower when it is narrowed by itself
 */
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct policy_env env = { .cwd = "/srv/project", .home = "/home/u" };

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* The canonical form without the lists of host rules, which may be said in more ways than one. */
static void form(const struct policy *policy, struct buf *json)
{
	struct policy rest = *policy;
	struct node *node = NULL;

	rest.net_allow = rest.net_ask = (struct host_rules){ 0 };
	require(policy_to_node(&rest, &node) == 0);
	require(json_write(node, true, json) == 0);
	node_free(node);
}

static void require_same_verdicts(const struct policy *a, const struct policy *b,
				  const struct host_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct host_rule *rule = &rules->items[i], *unused;
		char name[300] = "x.";
		unsigned int port = rule->port ? rule->port : 7;

		if (rule->name)
			strcat(name, rule->name);
		require(policy_host_verdict(a, rule->name, rule->address, port, &unused) ==
			policy_host_verdict(b, rule->name, rule->address, port, &unused));
		if (rule->name && strlen(name) <= 253)
			require(policy_host_verdict(a, name, NULL, port, &unused) ==
				policy_host_verdict(b, name, NULL, port, &unused));
	}
}

static void require_same(const struct policy *a, const struct policy *b)
{
	_cleanup_(buf_done) struct buf x = BUF(16 * MIB), y = BUF(16 * MIB);

	form(a, &x);
	form(b, &y);
	require(x.len == y.len && memcmp(buf_text(&x), buf_text(&y), x.len) == 0);
	require_same_verdicts(a, b, &a->net_allow);
	require_same_verdicts(a, b, &a->net_ask);
	require_same_verdicts(a, b, &b->net_allow);
	require_same_verdicts(a, b, &b->net_ask);
}

static void read_back(const struct policy *policy)
{
	_cleanup_(buf_done) struct buf json = BUF(16 * MIB);
	char before[POLICY_DIGEST_SIZE], after[POLICY_DIGEST_SIZE];
	struct node *node = NULL;
	struct policy again;

	require(policy_to_node(policy, &node) == 0);
	require(json_write(node, true, &json) == 0);
	node_free(node);
	require(policy_digest(policy, before) == 0);
	require(policy_parse("again", buf_text(&json), json.len, &env, &again, NULL) == 0);
	require(policy_digest(&again, after) == 0);
	require(strcmp(before, after) == 0);
	require_same(policy, &again);
	policy_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_NONE;
	struct policy policy, twin;
	int r = policy_parse("fuzz", (const char *)data, size, &env, &policy, &err);

	if (r < 0) {
		require(err.code == r && err.text[0]);
		return 0;
	}
	read_back(&policy);
	require(policy_parse("fuzz", (const char *)data, size, &env, &twin, NULL) == 0);
	require(policy_narrow(&twin, &policy, NULL) == 0);
	require_same(&twin, &policy);
	policy_done(&twin);
	policy_done(&policy);
	return 0;
}
