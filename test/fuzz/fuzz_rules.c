/* What a client says about the network: refused in words, or rules that a policy takes, none of them for a special address. */
#include <stdlib.h>
#include <string.h>

#include "serve/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static bool opens(const struct policy *policy, unsigned char a, unsigned char b, unsigned char c,
		  unsigned char d)
{
	const unsigned char address[16] = { [10] = 0xff, [11] = 0xff, [12] = a, b, c, d };
	const struct host_rule *rule;

	return policy_host_verdict(policy, NULL, address, 80, &rule) == VERDICT_ALLOW;
}

static void check_rules(const struct rules *rules)
{
	const struct policy_env env = { .cwd = "/" };
	struct err err = ERR_NONE;
	struct policy policy;

	policy_init(&policy);
	for (size_t i = 0; i < rules->allow.count; i++) {
		check(policy_set_flag(&policy, "allow-net", rules->allow.items[i], &env, &err) ==
		      0);
		check(strstr(rules->allow.items[i], " public raw") ||
		      strstr(rules->allow.items[i], ":*"));
	}
	for (size_t i = 0; i < rules->deny.count; i++)
		check(policy_set_flag(&policy, "deny-net", rules->deny.items[i], &env, &err) == 0);
	for (size_t i = 0; i < policy.net_allow.count; i++)
		check(policy.net_allow.items[i].kind != HOST_ADDRESS ||
		      policy.net_allow.items[i].is_public);
	(void)opens(&policy, 8, 8, 8, 8);
	policy_done(&policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct node *network = NULL;
	struct rules rules = RULES_NONE;
	struct err err = ERR_NONE;

	if (json_read((const char *)data, size, NULL, &network, &err) < 0)
		return 0;
	if (rules_read(network, size % 2 == 0, &rules, &err) == 0)
		check_rules(&rules);
	else
		check(err.text[0] != '\0');
	rules_done(&rules);
	node_free(network);
	return 0;
}
