#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy/keys.h"
#include "policy_case.h"

static void digest_of(const char *text, char digest[static POLICY_DIGEST_SIZE])
{
	struct policy policy;

	case_parse(text, &policy);
	assert_int_equal(policy_digest(&policy, digest), 0);
	assert_int_equal(strlen(digest), POLICY_DIGEST_SIZE - 1);
	assert_true(str_starts(digest, "sha256:"));
	policy_done(&policy);
}

static void the_digest_is_of_the_meaning(void **state)
{
	static const char *const same[] = {
		"version: 1\n"
		"floor: vm\n"
		"fs:\n"
		"  /b: read\n"
		"  /a: write\n"
		"net: { allow: [b.example:443, 10.0.0.0/8:22] }\n"
		"env: [B, A, B]\n"
		"limits: { memory: 1G, wall: 1m }\n",
		"# comment\n"
		"limits:\n"
		"  wall: 60s\n"
		"  memory: 1024M\n"
		"env:\n"
		"- A\n"
		"- 'B'\n"
		"net:\n"
		"  allow: [10.1.2.3/8:22, B.Example:443]\n"
		"fs: { //a/: \"write\", /b/.: read }\n"
		"floor: vm\n"
		"version: 1\n",
		"{\"version\":1,\"env\":[\"A\",\"B\"],\"floor\":\"vm\",\"fs\":{\"/a\":\"write\","
		"\"/b\":\"read\"},\"limits\":{\"wall\":\"60000ms\",\"memory\":1073741824},"
		"\"net\":{\"allow\":[\"10.0.0.0/8:22\",\"b.example:443\"],\"deny\":[]}}",
	};
	char first[POLICY_DIGEST_SIZE], digest[POLICY_DIGEST_SIZE];

	(void)state;
	digest_of(same[0], first);
	for (size_t i = 1; i < ARRAY_SIZE(same); i++) {
		digest_of(same[i], digest);
		assert_string_equal(digest, first);
	}
}

static const char *const different[] = {
	"",
	"isolation: vm\n",
	"isolation: auto\n",
	"floor: vm\n",
	"image: a\n",
	"image: b\n",
	"fs: { /a: read }\n",
	"fs: { /a: write }\n",
	"fs: { /a: none }\n",
	"fs: { /a: overlay }\n",
	"fs: { /b: read }\n",
	"fs: { /a: read, /b: read }\n",
	"net: { allow: [a:1] }\n",
	"net: { allow: [a:2] }\n",
	"net: { allow: [\"a:*\"] }\n",
	"net: { allow: [\"*.a:1\"] }\n",
	"net: { allow: [a:1 raw] }\n",
	"net: { ask: [a:1] }\n",
	"net: { deny: [a:1] }\n",
	"net: { publish: [\"1\"] }\n",
	"net: { inspect: true }\n",
	"net: { inspect: false }\n",
	"env: [A]\n",
	"env: [A=]\n",
	"env: [A=1]\n",
	"env: [A*]\n",
	"limits: { wall: 1s }\n",
	"limits: { cpu: 1 }\n",
	"limits: { cpu_time: 1s }\n",
	"limits: { memory: 1 }\n",
	"limits: { pids: 1 }\n",
	"limits: { disk: 1 }\n",
	"limits: { files: 1 }\n",
	"limits: { output: 1 }\n",
	"allow: [debug]\n",
	"on_deny: fail\n",
	"on_deny: ask\n",
	"record: all\n",
	"secrets: { A: { from: a } }\n",
	"secrets: { A: { from: b } }\n",
	"output: { strip: [bidi] }\n",
	"output: { flag: [secret] }\n",
	"output: { max: 1 }\n",
	"tools: { a: { floor: vm } }\n",
	"tools: { a: { floor: process } }\n",
};

static void the_digest_differs_with_anything(void **state)
{
	static char digests[ARRAY_SIZE(different)][POLICY_DIGEST_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(different); i++) {
		char text[200];

		snprintf(text, sizeof(text), "version: 1\n%s", different[i]);
		digest_of(text, digests[i]);
		for (size_t k = 0; k < i; k++)
			if (str_equal(digests[i], digests[k]))
				fail_msg("%s is %s", different[i], different[k]);
	}
}

/* What is written is a policy, and the same one. */
static void check_read_back(const struct policy *policy)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(buf_done) struct buf json = BUF(MIB);
	char before[POLICY_DIGEST_SIZE], after[POLICY_DIGEST_SIZE];

	assert_int_equal(policy_to_node(policy, &node), 0);
	for (int canonical = 0; canonical < 2; canonical++) {
		buf_reset(&json);
		assert_int_equal(json_write(node, canonical, &json), 0);
		digest_of(buf_text(&json), after);
		assert_int_equal(policy_digest(policy, before), 0);
		assert_string_equal(before, after);
	}
}

static void the_canonical_form_is_a_policy(void **state)
{
	struct policy policy;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(different); i++) {
		char text[200];

		snprintf(text, sizeof(text), "version: 1\n%s", different[i]);
		case_parse(text, &policy);
		check_read_back(&policy);
		policy_done(&policy);
	}
	for (size_t i = 0; i < shipped_policy_count; i++) {
		assert_int_equal(policy_load(shipped_policies[i].name, &case_env, &policy, NULL),
				 0);
		check_read_back(&policy);
		policy_done(&policy);
	}
}

static void unset_keys_are_left_out(void **state)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(buf_done) struct buf json = BUF(MIB);
	struct policy policy;

	(void)state;
	case_parse("version: 1\nfs: {}\nenv: []\nnet: { allow: [] }\nlimits: {}\n", &policy);
	assert_int_equal(policy_to_node(&policy, &node), 0);
	assert_int_equal(json_write(node, true, &json), 0);
	assert_string_equal(buf_text(&json), "{\"version\":1}");
	policy_done(&policy);
}

static const struct node *schema_at(const struct node *schema, const char *key)
{
	const struct node *properties = node_get(schema, "properties");
	const char *dot = strchr(key, '.');
	char section[40];

	if (!dot)
		return node_get(properties, key);
	snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
	schema = node_get(properties, section);
	assert_non_null(schema);
	assert_int_equal(node_get(schema, "additionalProperties")->number, 0);
	return node_get(node_get(schema, "properties"), dot + 1);
}

static size_t count_keys(const struct node *schema)
{
	const struct node *properties = node_get(schema, "properties");
	size_t count = 0;

	for (size_t i = 0; properties && i < properties->count; i++) {
		const struct node *child = properties->entries[i].value;

		count += node_get(child, "properties") ? count_keys(child) : 1;
	}
	return count;
}

static void the_schema_has_every_key(void **state)
{
	_cleanup_(node_freep) struct node *schema = NULL;

	(void)state;
	assert_int_equal(policy_schema(&schema), 0);
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct node *key = schema_at(schema, policy_keys[i].name);

		if (!key)
			fail_msg("%s", policy_keys[i].name);
		assert_true(node_get(key, "type") || node_get(key, "enum"));
		assert_non_null(strstr(node_get(key, "description")->text, policy_keys[i].summary));
	}
	assert_non_null(schema_at(schema, "version"));
	assert_non_null(schema_at(schema, "extends"));
	assert_int_equal(count_keys(schema), policy_key_count + 2);
	assert_int_equal(node_get(schema, "additionalProperties")->number, 0);
	assert_string_equal(node_get(schema, "required")->entries[0].value->text, "version");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_digest_is_of_the_meaning),
		cmocka_unit_test(the_digest_differs_with_anything),
		cmocka_unit_test(the_canonical_form_is_a_policy),
		cmocka_unit_test(unset_keys_are_left_out),
		cmocka_unit_test(the_schema_has_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
