#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy_case.h"

static void secrets_have_a_shape(void **state)
{
	static const struct {
		const char *text, *expected; /* NULL: right */
	} rows[] = {
		{ "{}", NULL },
		{ "{ A: { from: env:A } }", NULL },
		{ "{ A: { from: env:A, inject: { host: a, header: b } } }", NULL },
		{ "[]", "expected a map, found a list" },
		{ "{ A: x }", "test:2:15: secrets: expected a map, found text" },
		{ "{ A: {} }", "test:2:15: secrets: \"from\" is missing" },
		{ "{ A: { from: \"\" } }", "\"from\" must be text" },
		{ "{ A: { from: 1 } }", "\"from\" must be text" },
		{ "{ A: { form: x } }", "unknown key \"form\", did you mean \"from\"?" },
		{ "{ A: { from: x, zzzzzz: y } }", "unknown key \"zzzzzz\"" },
		{ "{ A: { from: x, inject: y } }", "expected a map, found text" },
		{ "{ A: { from: x, inject: } }", "expected a map, found nothing" },
		{ "{ A: { from: x, inject: { host: y } } }", "\"header\" is missing" },
		{ "{ A: { from: x, inject: { header: y } } }", "\"host\" is missing" },
		{ "{ A: { from: x, inject: { host: a, header: b, path: c } } }",
		  "unknown key \"path\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;
		char text[200];

		snprintf(text, sizeof(text), "version: 1\nsecrets: %s\n", rows[i].text);
		if (rows[i].expected) {
			case_refused(text, rows[i].expected);
			continue;
		}
		case_parse(text, &policy);
		assert_non_null(policy.secrets);
		policy_done(&policy);
	}
}

static void tools_are_policies(void **state)
{
	static const struct {
		const char *text, *expected; /* NULL: right */
	} rows[] = {
		{ "{}", NULL },
		{ "{ a: {} }", NULL },
		{ "{ a: { isolate: call, fs: { /a: read }, limits: { pids: 1 } } }", NULL },
		{ "{ a: { isolate: session } }", NULL },
		{ "{ a: { tools: { b: { floor: vm } } } }", NULL },
		{ "{ a: x }", "tools: expected a map, found text" },
		{ "{ a: { isolate: always } }", "\"isolate\" is call or session" },
		{ "{ a: { isolate: [call] } }", "\"isolate\" is call or session" },
		{ "{ a: { flor: vm } }", "test:2:15: flor: unknown key, did you mean \"floor\"?" },
		{ "{ a: { floor: high } }", "test:2:22: floor: \"high\" is not known" },
		{ "{ a: { fs: { /a: read, /a/: read } } }", "is the same path as in line 2" },
		{ "{ a: { version: 1 } }", "test:2:15: version: unknown key" },
		{ "{ a: { extends: [base] } }", "test:2:15: extends: unknown key" },
		{ "{ a: { tools: { b: { floor: high } } } }", "floor: \"high\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;
		char text[200];

		snprintf(text, sizeof(text), "version: 1\ntools: %s\n", rows[i].text);
		if (rows[i].expected) {
			case_refused(text, rows[i].expected);
			continue;
		}
		case_parse(text, &policy);
		assert_non_null(policy.tools);
		policy_done(&policy);
	}
}

static void only_what_both_say_is_left(void **state)
{
	struct policy a, b;

	(void)state;
	case_parse("version: 1\n"
		   "secrets: { A: { from: a }, B: { from: b }, C: { from: c } }\n"
		   "tools: { x: { floor: vm } }\n",
		   &a);
	case_parse("version: 1\nsecrets: { C: { from: c }, B: { from: other } }\n", &b);
	case_narrow(&a, &b);
	assert_int_equal(a.secrets->count, 1);
	assert_non_null(node_get(a.secrets, "C"));
	assert_int_equal(a.tools->count, 0);
	policy_done(&a);

	/* Nothing is granted by the one that narrows. */
	case_parse("version: 1\n", &a);
	case_narrow(&a, &b);
	assert_null(a.secrets);
	policy_done(&a);
	policy_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_have_a_shape),
		cmocka_unit_test(tools_are_policies),
		cmocka_unit_test(only_what_both_say_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
