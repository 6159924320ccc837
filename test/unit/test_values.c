#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy/keys.h"
#include "policy_case.h"

static uint64_t number_of(const struct policy *policy, const char *key)
{
	return *(const uint64_t *)((const char *)policy + key_find(key)->offset);
}

/* "limits.memory" with its value as a policy. */
static void policy_text(char *text, size_t size, const char *key, const char *value)
{
	const char *dot = strchr(key, '.');

	if (dot)
		snprintf(text, size, "version: 1\n%.*s:\n  %s: %s\n", (int)(dot - key), key,
			 dot + 1, value);
	else
		snprintf(text, size, "version: 1\n%s: %s\n", key, value);
}

static void numbers_with_units(void **state)
{
	static const struct {
		const char *key, *text;
		uint64_t value; /* 0: refused */
	} rows[] = {
		{ "limits.wall", "30s", 30000 },
		{ "limits.wall", "1.5m", 90000 },
		{ "limits.wall", "500ms", 500 },
		{ "limits.wall", "30", 0 },
		{ "limits.wall", "0s", 0 },
		{ "limits.wall", "-1s", 0 },
		{ "limits.wall", "soon", 0 },
		{ "limits.cpu_time", "1h", 3600000 },
		{ "limits.cpu", "2", 2000 },
		{ "limits.cpu", "0.5", 500 },
		{ "limits.cpu", "0.001", 1 },
		{ "limits.cpu", "\"1.5\"", 1500 },
		{ "limits.cpu", "0.0001", 0 },
		{ "limits.cpu", "0", 0 },
		{ "limits.cpu", "0.0", 0 },
		{ "limits.memory", "512M", 512 * MIB },
		{ "limits.memory", "1.5G", 3 * GIB / 2 },
		{ "limits.memory", "4096", 4096 },
		{ "limits.memory", "\"4096\"", 4096 },
		{ "limits.memory", "9223372036854775807", INT64_MAX },
		{ "limits.memory", "0", 0 },
		{ "limits.memory", "0K", 0 },
		{ "limits.memory", "0x1000", 0 },
		{ "limits.memory", "1e6", 0 },
		{ "limits.memory", "-1", 0 },
		{ "limits.memory", "lots", 0 },
		{ "limits.memory", "8388608T", 0 },
		{ "limits.memory", "\"\"", 0 },
		{ "limits.disk", "1G", GIB },
		{ "limits.output", "64K", 64 * KIB },
		{ "output.max", "1M", MIB },
		{ "limits.pids", "64", 64 },
		{ "limits.pids", "1.5", 0 },
		{ "limits.pids", "64.0", 0 },
		{ "limits.pids", "64K", 0 },
		{ "limits.pids", "0", 0 },
		{ "limits.files", "1024", 1024 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;
		char text[200];

		policy_text(text, sizeof(text), rows[i].key, rows[i].text);
		if (rows[i].value == 0) {
			char place[60];

			snprintf(place, sizeof(place), ": %s: ", rows[i].key);
			case_refused(text, place);
			continue;
		}
		case_parse(text, &policy);
		if (number_of(&policy, rows[i].key) != rows[i].value)
			fail_msg("%s", text);
		policy_done(&policy);
	}
	case_refused("version: 1\nlimits: { pids: 0 }\n",
		     "test:2:17: limits.pids: must be more than 0; leave the key out");
	case_refused("version: 1\nlimits: { wall: [1s] }\n", "expected a number, found a list");
	case_refused("version: 1\nlimits: { wall: true }\n", "expected a number, found true");
}

static void what_is_not_written_is_unset(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\n", &policy);
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_keys[i].type >= KEY_SIZE && policy_keys[i].type <= KEY_COUNT)
			assert_true(number_of(&policy, policy_keys[i].name) == LIMIT_UNSET);
	assert_int_equal(policy.isolation, ISOLATION_UNSET);
	assert_int_equal(policy.floor, ISOLATION_UNSET);
	assert_int_equal(policy.on_deny, ON_DENY_UNSET);
	assert_int_equal(policy.record, RECORD_UNSET);
	assert_int_equal(policy.net_inspect, -1);
	assert_null(policy.image);
	policy_done(&policy);
}

static void names(void **state)
{
	struct policy policy;

	(void)state;
	for (int i = ISOLATION_PROCESS; i < ISOLATION_COUNT; i++) {
		policy_init(&policy);
		case_flag(&policy, "isolation", isolation_names[i]);
		case_flag(&policy, "floor", isolation_names[i]);
		assert_int_equal(policy.isolation, i);
		assert_int_equal(policy.floor, i);
		policy_done(&policy);
	}
	/* The word for "not written" cannot be written. */
	case_flag_refused("isolation", "unset", "is not known");
	case_flag_refused("on-deny", "unset", "is not known");
	case_flag_refused("record", "unset", "is not known");
	case_flag_refused("isolation", "contianer", "did you mean \"container\"?");
	case_flag_refused("isolation", "", "is not known");
	case_flag_refused("isolation", "VM", "is not known");
	case_flag_refused("isolation", "docker-in-docker",
			  "use one of process, script, wasm, container, gvisor, vm, auto");
	case_refused("version: 1\nisolation: 1\n", "test:2:12: isolation: expected a name");
	case_refused("version: 1\non_deny: no\n", "on_deny: \"no\" is not known");
	/* "off" is text here, not a switch. */
	case_parse("version: 1\nrecord: off\n", &policy);
	assert_int_equal(policy.record, RECORD_OFF);
	policy_done(&policy);
}

static void switches_and_text(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\nnet: { inspect: true }\nimage: x\n", &policy);
	assert_int_equal(policy.net_inspect, 1);
	assert_string_equal(policy.image, "x");
	case_flag(&policy, "image", "y");
	assert_string_equal(policy.image, "y");
	policy_done(&policy);
	case_refused("version: 1\nnet: { inspect: yes }\n", "expected true or false, found text");
	case_refused("version: 1\nnet: { inspect: 1 }\n", "found a whole number");
	case_refused("version: 1\nimage: \"\"\n", "test:2:8: image: must not be empty");
	case_refused("version: 1\nimage: 7\n", "expected text");
}

/* Two policies that say one thing each, and what is left of both. */
static void narrowing(void **state)
{
	static const struct {
		const char *a, *b, *both;
	} rows[] = {
		{ "isolation: process", "isolation: vm", "isolation: vm" },
		{ "isolation: vm", "isolation: container", "isolation: vm" },
		{ "isolation: auto", "isolation: container", "isolation: container" },
		{ "isolation: container", "isolation: auto", "isolation: container" },
		{ "isolation: container", "", "isolation: container" },
		{ "isolation: auto", "isolation: auto", "isolation: auto" },
		{ "", "isolation: gvisor", "isolation: gvisor" },
		{ "floor: process", "floor: container", "floor: container" },
		{ "floor: auto", "floor: process", "floor: process" },
		{ "floor: vm", "", "floor: vm" },
		{ "on_deny: record", "on_deny: ask", "on_deny: ask" },
		{ "on_deny: ask", "on_deny: fail", "on_deny: fail" },
		{ "on_deny: ask", "", "on_deny: fail" },
		{ "", "on_deny: record", "on_deny: fail" },
		{ "", "", "" },
		{ "system: own", "system: own", "system: own" },
		{ "system: own", "system: sealed", "system: sealed" },
		{ "system: own", "", "system: sealed" },
		{ "system: sealed", "system: own", "system: sealed" },
		{ "", "system: own", "" },
		{ "record: off", "record: denied", "record: denied" },
		{ "record: writes", "record: all", "record: all" },
		{ "record: off", "", "" },
		{ "", "record: off", "" },
		{ "net: { inspect: false }", "net: { inspect: true }", "net: { inspect: true }" },
		{ "net: { inspect: true }", "", "net: { inspect: true }" },
		{ "image: a", "image: b", "image: b" },
		{ "image: a", "", "image: a" },
		{ "limits: { memory: 1G }", "limits: { memory: 2G }", "limits: { memory: 1G }" },
		{ "limits: { memory: 2G }", "limits: { memory: 1G }", "limits: { memory: 1G }" },
		{ "limits: { wall: 2s }", "", "limits: { wall: 2s }" },
		{ "", "limits: { cpu: 0.5 }", "limits: { cpu: 0.5 }" },
		{ "limits: { pids: 5 }", "limits: { files: 6 }", "limits: { pids: 5, files: 6 }" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[3][100], digest[2][POLICY_DIGEST_SIZE];
		struct policy a, b, both;

		snprintf(text[0], sizeof(text[0]), "version: 1\n%s\n", rows[i].a);
		snprintf(text[1], sizeof(text[1]), "version: 1\n%s\n", rows[i].b);
		snprintf(text[2], sizeof(text[2]), "version: 1\n%s\n", rows[i].both);
		case_parse(text[0], &a);
		case_parse(text[1], &b);
		case_parse(text[2], &both);
		case_narrow(&a, &b);
		assert_int_equal(policy_digest(&a, digest[0]), 0);
		assert_int_equal(policy_digest(&both, digest[1]), 0);
		if (!str_equal(digest[0], digest[1]))
			fail_msg("\"%s\" and \"%s\" is not \"%s\"", rows[i].a, rows[i].b,
				 rows[i].both);
		policy_done(&a);
		policy_done(&b);
		policy_done(&both);
	}
}

static void single_values_are_replaced(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\nextends: [offline]\nfloor: vm\nlimits: { pids: 3 }\n", &policy);
	assert_int_equal(policy.floor, ISOLATION_VM);
	assert_int_equal(policy.limits.wall, 600000);
	assert_int_equal(policy.limits.pids, 3);
	case_flag(&policy, "wall", "20m");
	assert_int_equal(policy.limits.wall, 1200000);
	policy_done(&policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_with_units),
		cmocka_unit_test(what_is_not_written_is_unset),
		cmocka_unit_test(names),
		cmocka_unit_test(switches_and_text),
		cmocka_unit_test(narrowing),
		cmocka_unit_test(single_values_are_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
