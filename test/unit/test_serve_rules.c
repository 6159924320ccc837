/* test_serve_rules.c - a client's words about the network, as rules of a policy; and typed values out of its JSON */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "serve/rules.h"
#include "serve/wish.h"

static struct node *read_json(const char *text)
{
	struct node *node = NULL;
	struct err err = ERR_NONE;

	if (json_read(text, strlen(text), NULL, &node, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return node;
}

static void joined(const struct strv *list, struct buf *text)
{
	for (size_t i = 0; i < list->count; i++)
		(void)buf_printf(text, "%s%s", i ? ", " : "", list->items[i]);
}

static void test_rules(void **state)
{
	static const struct {
		const char *network;
		bool internet;
		const char *allow, *deny; /* deny NULL: allow is what the refusal says */
	} rows[] = {
		{ "{}", true, "*:* raw", "" },
		{ "{}", false, "", "" },
		{ "{\"denyOut\":[\"0.0.0.0/0\"]}", true, "", "" },
		{ "{\"denyOut\":[\"0.0.0.0/"
		  "0\"],\"allowOut\":[\"1.1.1.1\",\"Example.com\",\"*.a.example\"]}",
		  true, "1.1.1.1/32:* public raw, Example.com:*, *.a.example:*", "" },
		{ "{\"allowOut\":[\"api.example.com\"]}", false, "api.example.com:*", "" },
		{ "{\"allowOut\":[\"8.8.8.0/24\"]}", true, "8.8.8.0/24:* public raw, *:* raw", "" },
		{ "{\"denyOut\":[\"8.8.8.8\"]}", true, "*:* raw", "8.8.8.8/32:*" },
		{ "{\"denyOut\":[\"8.8.8.9/24\"]}", true, "*:* raw", "8.8.8.0/24:*" },
		/* What is allowed is cut out of what is denied. */
		{ "{\"denyOut\":[\"8.8.8.0/30\"],\"allowOut\":[\"8.8.8.1\"]}", true,
		  "8.8.8.1/32:* public raw, *:* raw", "8.8.8.2/31:*, 8.8.8.0/32:*" },
		{ "{\"denyOut\":[\"8.8.8.1\"],\"allowOut\":[\"8.8.8.0/30\"]}", true,
		  "8.8.8.0/30:* public raw, *:* raw", "" },
		{ "{\"denyOut\":[\"2a00::/16\"]}", true, "*:* raw", "[2a00::]/16:*" },
		/* Servers to ask are for those who have names. */
		{ "{\"dnsServers\":[\"9.9.9.9\"]}", true, "*:* raw", "" },
		{ "{\"dnsServers\":[\"9.9.9.9\"],\"allowOut\":[\"a.example\"],\"denyOut\":[\"0.0.0."
		  "0/0\"]}",
		  true, "a.example:*, 9.9.9.9/32:* public raw", "" },
		/* What asks for nothing is nothing. */
		{ "{\"rules\":{},\"egressProxy\":null,\"httpsPorts\":[],\"allowPublicTraffic\":"
		  "false,"
		  "\"maskRequestHost\":\"x\",\"allowOut\":[],\"denyOut\":null}",
		  true, "*:* raw", "" },

		{ "{\"allowOut\":[\"api.example.com\"]}", true, "0.0.0.0/0", NULL },
		{ "{\"allowOut\":[\"api.example.com\"],\"denyOut\":[\"0.0.0.0/1\"]}", true,
		  "0.0.0.0/0", NULL },
		{ "{\"allowOut\":\"1.1.1.1\"}", true, "allowOut", NULL },
		{ "{\"allowOut\":[1]}", true, "allowOut[0]", NULL },
		{ "{\"allowOut\":[\"\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"*\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"a b\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"a.example:443\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"a.example raw\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"1.1.1.1/33\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"1.1.1\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"0x7f.1\"]}", false, "allowOut", NULL },
		{ "{\"allowOut\":[\"127.0.0.1\"]}", true, "loopback", NULL },
		{ "{\"allowOut\":[\"10.1.0.0/16\"]}", true, "private", NULL },
		{ "{\"allowOut\":[\"169.254.169.254\"]}", true, "only public", NULL },
		{ "{\"allowOut\":[\"::1\"]}", true, "loopback", NULL },
		{ "{\"allowOut\":[\"::ffff:127.0.0.1\"]}", true, "loopback", NULL },
		{ "{\"denyOut\":[\"example.com\"]}", true, "names cannot be denied", NULL },
		{ "{\"denyOut\":[\"\"]}", true, "denyOut", NULL },
		{ "{\"dnsServers\":[\"::1\"]}", true, "dnsServers", NULL },
		{ "{\"dnsServers\":[\"9.9.9.0/24\"]}", true, "dnsServers", NULL },
		{ "{\"rules\":{\"a.example\":[]}}", true, "rules", NULL },
		{ "{\"egressProxy\":{\"address\":\"x\"}}", true, "egressProxy", NULL },
		{ "{\"httpsPorts\":[443]}", true, "httpsPorts", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(node_freep) struct node *network = read_json(rows[i].network);
		_cleanup_(buf_done) struct buf allow = BUF(64 * KIB), deny = BUF(64 * KIB);
		_cleanup_(rules_done) struct rules rules = RULES_NONE;
		struct err err = ERR_NONE;
		int r = rules_read(network, rows[i].internet, &rules, &err);

		if (!rows[i].deny) {
			if (r != -EINVAL || !strstr(err.text, rows[i].allow))
				fail_msg("%s: %d %s", rows[i].network, r, err.text);
			continue;
		}
		if (r < 0)
			fail_msg("%s: %s", rows[i].network, err.text);
		joined(&rules.allow, &allow);
		joined(&rules.deny, &deny);
		if (!str_equal(buf_text(&allow), rows[i].allow) ||
		    !str_equal(buf_text(&deny), rows[i].deny))
			fail_msg("%s: allow %s; deny %s", rows[i].network, buf_text(&allow),
				 buf_text(&deny));
	}
}

/* --- what the field means, and what the rules say, at every address --- */

static unsigned int seed = 7;

static unsigned int any_number(unsigned int below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

struct range {
	uint32_t ip;
	unsigned int prefix;
};

static bool has(const struct range *range, uint32_t ip)
{
	return range->prefix == 0 || (ip ^ range->ip) >> (32 - range->prefix) == 0;
}

/* Ranges of 8.8.0.0/16, so that they meet. */
static size_t any_ranges(struct range *ranges, const char *key, struct buf *json)
{
	size_t count = any_number(6);

	(void)buf_printf(json, "\"%s\":[", key);
	for (size_t i = 0; i < count; i++) {
		ranges[i].prefix = 17 + any_number(16);
		ranges[i].ip = 0x08080000 | any_number(65536);
		(void)buf_printf(json, "%s\"%u.%u.%u.%u/%u\"", i ? "," : "", ranges[i].ip >> 24,
				 ranges[i].ip >> 16 & 255, ranges[i].ip >> 8 & 255,
				 ranges[i].ip & 255, ranges[i].prefix);
	}
	(void)buf_str(json, "]");
	return count;
}

static bool is_open(const struct range *allow, size_t allowed, const struct range *deny,
		    size_t denied, uint32_t ip)
{
	for (size_t i = 0; i < allowed; i++)
		if (has(&allow[i], ip))
			return true;
	for (size_t i = 0; i < denied; i++)
		if (has(&deny[i], ip))
			return false;
	return true;
}

static void policy_of(const struct rules *rules, struct policy *policy)
{
	const struct policy_env env = { .cwd = "/" };
	struct err err = ERR_NONE;

	policy_init(policy);
	for (size_t i = 0; i < rules->allow.count; i++)
		if (policy_set_flag(policy, "allow-net", rules->allow.items[i], &env, &err) < 0)
			fail_msg("%s", err.text);
	for (size_t i = 0; i < rules->deny.count; i++)
		if (policy_set_flag(policy, "deny-net", rules->deny.items[i], &env, &err) < 0)
			fail_msg("%s", err.text);
}

static bool rules_open(const struct policy *policy, uint32_t ip)
{
	unsigned char address[16] = { [10] = 0xff, [11] = 0xff };
	const struct host_rule *rule;
	const uint32_t wire = htonl(ip);

	memcpy(address + 12, &wire, sizeof(wire));
	return policy_host_verdict(policy, NULL, address, 443, &rule) == VERDICT_ALLOW;
}

static void test_allow_wins(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		_cleanup_(buf_done) struct buf json = BUF(64 * KIB);
		_cleanup_(rules_done) struct rules rules = RULES_NONE;
		_cleanup_(node_freep) struct node *network = NULL;
		struct range allow[8], deny[8];
		struct err err = ERR_NONE;
		struct policy policy;
		size_t allowed, denied;

		(void)buf_char(&json, '{');
		allowed = any_ranges(allow, "allowOut", &json);
		(void)buf_char(&json, ',');
		denied = any_ranges(deny, "denyOut", &json);
		(void)buf_char(&json, '}');
		network = read_json(buf_text(&json));
		if (rules_read(network, true, &rules, &err) < 0)
			fail_msg("%s: %s", buf_text(&json), err.text);
		policy_of(&rules, &policy);
		for (int i = 0; i < 400; i++) {
			uint32_t ip = 0x08080000 | any_number(65536);

			/* Half of them at the edges of a range. */
			if (i % 2 && denied)
				ip = deny[any_number((unsigned int)denied)].ip + any_number(3) - 1;
			if (rules_open(&policy, ip) != is_open(allow, allowed, deny, denied, ip))
				fail_msg("%s: %08x", buf_text(&json), ip);
		}
		policy_done(&policy);
	}
}

static void test_within(void **state)
{
	static const struct {
		const char *ceiling, *network, *allow, *deny;
	} rows[] = {
		{ "*:* raw", "{\"allowOut\":[\"a.example\"],\"denyOut\":[\"0.0.0.0/0\"]}",
		  "a.example:*", "" },
		{ "*:443", "{}", "*:443", "" },
		{ "*.example:443",
		  "{\"allowOut\":[\"a.example\",\"b.test\"],\"denyOut\":[\"0.0.0.0/0\"]}",
		  "a.example:443", "" },
		{ "a.example:443", "{}", "a.example:443", "" },
		{ "a.example:443", "{\"allowOut\":[\"b.example\"],\"denyOut\":[\"0.0.0.0/0\"]}", "",
		  "" },
		{ "*:* raw", "{\"allowOut\":[\"9.9.9.9\"],\"denyOut\":[\"0.0.0.0/0\"]}",
		  "9.9.9.9:* public raw", "" },
	};
	const struct policy_env env = { .cwd = "/" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(node_freep) struct node *network = read_json(rows[i].network);
		_cleanup_(buf_done) struct buf allow = BUF(64 * KIB), deny = BUF(64 * KIB);
		_cleanup_(rules_done) struct rules rules = RULES_NONE;
		struct err err = ERR_NONE;
		struct policy ceiling;

		policy_init(&ceiling);
		if (policy_set_flag(&ceiling, "allow-net", rows[i].ceiling, &env, &err) < 0 ||
		    rules_read(network, true, &rules, &err) < 0 ||
		    rules_within(&rules, &ceiling, &err) < 0)
			fail_msg("%s: %s", rows[i].network, err.text);
		joined(&rules.allow, &allow);
		joined(&rules.deny, &deny);
		assert_int_equal(rules_are_of(&rules, &ceiling),
				 str_equal(rows[i].ceiling, rows[i].allow));
		assert_string_equal(buf_text(&allow), rows[i].allow);
		assert_string_equal(buf_text(&deny), rows[i].deny);
		policy_done(&ceiling);
	}
}

static void test_too_many(void **state)
{
	_cleanup_(buf_done) struct buf json = BUF(1 * MIB);
	_cleanup_(rules_done) struct rules rules = RULES_NONE;
	_cleanup_(node_freep) struct node *network = NULL;
	struct err err = ERR_NONE;

	(void)state;
	/* Each hole cuts the range in some twenty pieces. */
	(void)buf_str(&json, "{\"denyOut\":[\"8.0.0.0/8\"],\"allowOut\":[");
	for (int i = 0; i < 400; i++)
		(void)buf_printf(&json, "%s\"8.%u.%u.%u\"", i ? "," : "", any_number(256),
				 any_number(256), any_number(256));
	(void)buf_str(&json, "]}");
	network = read_json(buf_text(&json));
	assert_int_equal(rules_read(network, true, &rules, &err), -EINVAL);
	assert_non_null(strstr(err.text, "wider ranges"));
}

static void test_wishes(void **state)
{
	_cleanup_(node_freep) struct node *map = read_json(
		"{\"n\":5,\"f\":1.5,\"t\":\"x\",\"b\":true,\"z\":null,\"m\":{\"a\":\"b\"},"
		"\"l\":[1],\"bad\":{\"a\":1},\"e\":{\"a=b\":\"c\"}}");
	const struct node *node = NULL;
	const char *text = "before";
	struct err err = ERR_NONE;
	int64_t number = 7;
	bool flag = false;

	(void)state;
	assert_int_equal(wish_number(map, "n", 0, 9, &number, &err), 0);
	assert_int_equal(number, 5);
	assert_int_equal(wish_number(map, "absent", 0, 9, &number, &err), 0);
	assert_int_equal(wish_number(map, "z", 0, 9, &number, &err), 0);
	assert_int_equal(wish_number(NULL, "n", 0, 9, &number, &err), 0);
	assert_int_equal(number, 5);
	assert_int_equal(wish_number(map, "n", 6, 9, &number, &err), -EINVAL);
	assert_int_equal(wish_number(map, "n", 0, 4, &number, &err), -EINVAL);
	assert_int_equal(wish_number(map, "f", 0, 9, &number, &err), -EINVAL);
	assert_int_equal(wish_number(map, "t", 0, 9, &number, &err), -EINVAL);
	assert_int_equal(wish_bool(map, "b", &flag, &err), 0);
	assert_true(flag);
	assert_int_equal(wish_bool(map, "n", &flag, &err), -EINVAL);
	assert_int_equal(wish_text(map, "t", 1, &text, &err), 0);
	assert_string_equal(text, "x");
	assert_int_equal(wish_text(map, "t", 0, &text, &err), -EINVAL);
	assert_int_equal(wish_text(map, "n", 9, &text, &err), -EINVAL);
	assert_int_equal(wish_texts(map, "m", &node, &err), 0);
	assert_int_equal(node->count, 1);
	assert_int_equal(wish_texts(map, "bad", &node, &err), -EINVAL);
	assert_int_equal(wish_texts(map, "l", &node, &err), -EINVAL);
	assert_int_equal(wish_texts(map, "e", &node, &err), 0);
	assert_int_equal(wish_variables(map, "e", &node, &err), -EINVAL);
	assert_int_equal(wish_list(map, "l", &node, &err), 0);
	assert_int_equal(wish_list(map, "m", &node, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),  cmocka_unit_test(test_allow_wins),
		cmocka_unit_test(test_within), cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_wishes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
