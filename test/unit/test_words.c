#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "policy_case.h"
#include "random.h"

static void check_sorted(const struct words *words)
{
	for (size_t i = 1; i < words->list.count; i++)
		assert_true(strcmp(words->list.items[i - 1], words->list.items[i]) < 0);
}

static void variables(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "PATH", true },
		{ "_", true },
		{ "a1", true },
		{ "LC_*", true },
		{ "A=", true },
		{ "A=1", true },
		{ "A=b=c", true },
		{ "A=*", true },
		{ "A=\xff", true },
		{ "", false },
		{ "*", false },
		{ "=x", false },
		{ "1A", false },
		{ "A-B", false },
		{ "A B", false },
		{ " A", false },
		{ "A ", false },
		{ "*A", false },
		{ "A**", false },
		{ "A*B", false },
		{ "A*=1", false },
		{ "A.B", false },
		{ "\xc3\x84", false },
		{ "A\n", false },
		{ "BASH_FUNC_x%%", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;

		if (!rows[i].ok) {
			case_flag_refused("env", rows[i].text, "--env: ");
			continue;
		}
		policy_init(&policy);
		case_flag(&policy, "env", rows[i].text);
		assert_string_equal(policy.env.list.items[0], rows[i].text);
		policy_done(&policy);
	}
}

static void what_passes(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\nenv: [A, LC_*, SET=1]\n", &policy);
	assert_true(policy_env_allows(&policy.env, "A"));
	assert_true(policy_env_allows(&policy.env, "A=1"));
	assert_true(policy_env_allows(&policy.env, "A=LC_"));
	assert_true(policy_env_allows(&policy.env, "LC_"));
	assert_true(policy_env_allows(&policy.env, "LC_ALL=C"));
	assert_false(policy_env_allows(&policy.env, ""));
	assert_false(policy_env_allows(&policy.env, "=A"));
	assert_false(policy_env_allows(&policy.env, "a"));
	assert_false(policy_env_allows(&policy.env, "AB"));
	assert_false(policy_env_allows(&policy.env, "LC"));
	assert_false(policy_env_allows(&policy.env, "LC=LC_"));
	/* It is set, so the caller's own does not pass. */
	assert_false(policy_env_allows(&policy.env, "SET"));
	policy_done(&policy);
}

/* Names that begin like each other, with every kind of entry. */
static void random_entry(struct random *random, char *text, size_t size)
{
	static const char *const names[] = { "A", "AB", "ABC", "ABD", "B", "A_B" };
	static const char *const ends[] = { "", "*", "=1", "=2", "=*" };

	snprintf(text, size, "%s%s", names[random_below(random, ARRAY_SIZE(names))],
		 ends[random_below(random, ARRAY_SIZE(ends))]);
}

static void random_env(struct random *random, struct policy *policy)
{
	unsigned int count = random_below(random, 7);

	policy_init(policy);
	for (unsigned int i = 0; i < count; i++) {
		char text[16];

		random_entry(random, text, sizeof(text));
		case_flag(policy, "env", text);
	}
	check_sorted(&policy->env);
}

static bool slow_allows(const struct words *env, const char *name)
{
	for (size_t i = 0; i < env->list.count; i++) {
		const char *entry = env->list.items[i];
		size_t len = strlen(entry);

		if (strchr(entry, '='))
			continue;
		if (entry[len - 1] == '*' ? strncmp(entry, name, len - 1) == 0
					  : str_equal(entry, name))
			return true;
	}
	return false;
}

/* Setting a variable is within a policy that sets it so or that lets any value of it through. */
static bool slow_permits(const struct words *env, const char *setting)
{
	char name[16];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(setting, "="), setting);
	return strv_has(&env->list, setting) || slow_allows(env, name);
}

static void narrowing_passes_what_both_pass(void **state)
{
	static const char *const names[] = { "A", "AB",  "ABC", "ABCD", "ABD",
					     "B", "A_B", "A_",  "C",    "BA" };
	struct random random = { 7 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct policy a, b, both;

		random_env(&random, &a);
		random_env(&random, &b);
		policy_init(&both);
		for (size_t k = 0; k < a.env.list.count; k++)
			case_flag(&both, "env", a.env.list.items[k]);
		case_narrow(&both, &b);
		check_sorted(&both.env);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			assert_int_equal(policy_env_allows(&both.env, names[k]),
					 slow_allows(&a.env, names[k]) &&
						 slow_allows(&b.env, names[k]));
		for (size_t k = 0; k < both.env.list.count; k++)
			if (strchr(both.env.list.items[k], '=')) {
				assert_true(slow_permits(&a.env, both.env.list.items[k]));
				assert_true(slow_permits(&b.env, both.env.list.items[k]));
			}
		for (size_t k = 0; k < a.env.list.count; k++)
			if (strchr(a.env.list.items[k], '=') &&
			    strv_has(&b.env.list, a.env.list.items[k]))
				assert_true(strv_has(&both.env.list, a.env.list.items[k]));
		policy_done(&a);
		policy_done(&b);
		policy_done(&both);
	}
}

static void a_variable_has_one_value(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\nenv: [B, A=2, AB=x, A, A=1]\n", &policy);
	assert_int_equal(policy.env.list.count, 4);
	assert_true(strv_has(&policy.env.list, "A=1"));
	case_flag(&policy, "env", "A=3");
	case_flag(&policy, "env", "A=3");
	assert_int_equal(policy.env.list.count, 4);
	assert_true(strv_has(&policy.env.list, "A=3"));
	assert_true(strv_has(&policy.env.list, "A"));
	assert_true(strv_has(&policy.env.list, "AB=x"));
	check_sorted(&policy.env);
	policy_done(&policy);

	case_parse("version: 1\nextends: [python]\nenv: [PYTHONDONTWRITEBYTECODE=2]\n", &policy);
	assert_true(strv_has(&policy.env.list, "PYTHONDONTWRITEBYTECODE=2"));
	assert_false(strv_has(&policy.env.list, "PYTHONDONTWRITEBYTECODE=1"));
	assert_true(strv_has(&policy.env.list, "PATH"));
	policy_done(&policy);
}

static void ports(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "1", true },
		{ "8080", true },
		{ "65535", true },
		{ "8080:80", true },
		{ "65535:1", true },
		{ "0", false },
		{ "65536", false },
		{ "80:0", false },
		{ "0:80", true },
		{ "80:65536", false },
		{ "123456", false },
		{ "8080:", false },
		{ ":80", false },
		{ "80:80:80", false },
		{ "+80", false },
		{ "-80", false },
		{ "-1", false },
		{ " 80", false },
		{ "80 ", false },
		{ "80: 80", false },
		{ "80:+80", false },
		{ "080", false },
		{ "80:080", false },
		{ "0x50", false },
		{ "80/udp", false },
		{ "", false },
		{ "4294967376", false },
		{ "127.0.0.1:80", true },
		{ "127.0.0.1:8080:80", true },
		{ "0.0.0.0:8080:80", true },
		{ "[::1]:8080:80", true },
		{ "[::]:80", true },
		{ "127.0.0.1:0:80", true },
		{ "[::1]:0:80", true },
		{ "127.0.0.1:0", false },
		{ "127.0.0.1", false },
		{ "127.0.0.1:", false },
		{ "127.0.0.1::80", false },
		{ "127.1:80:80", false },
		{ "127.0.0.01:80", false },
		{ "256.0.0.1:80", false },
		{ "::1:80:80", false },
		{ "[::1]", false },
		{ "[::1]80", false },
		{ "[::1:80", false },
		{ "[]:80", false },
		{ "[127.0.0.1]:80", false },
		{ "[fe80::1%lo]:80", false },
		{ "localhost:80:80", false },
		{ "00:80", false },
		{ "1.2.3.4:80:80:80", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy;

		if (!rows[i].ok) {
			case_flag_refused("publish", rows[i].text, "is not a port");
			continue;
		}
		policy_init(&policy);
		case_flag(&policy, "publish", rows[i].text);
		policy_done(&policy);
	}
}

static void an_entry_of_publish_means_an_address_and_two_ports(void **state)
{
	static const struct {
		const char *text;
		unsigned char first, last; /* of the address */
		uint16_t outside, inside;
	} rows[] = {
		{ "8080", 127, 1, 8080, 8080 },
		{ "8080:80", 127, 1, 8080, 80 },
		{ "0:80", 127, 1, 0, 80 },
		{ "192.0.2.7:81", 192, 7, 81, 81 },
		{ "0.0.0.0:8080:80", 0, 0, 8080, 80 },
		{ "[::1]:8080:80", 0, 1, 8080, 80 },
		{ "[2001:db8::2]:0:80", 0, 2, 0, 80 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct published port;

		assert_true(policy_port_read(rows[i].text, &port));
		assert_int_equal(port.ip[12], rows[i].first);
		assert_int_equal(port.ip[15], rows[i].last);
		assert_int_equal(port.ip[11], rows[i].text[0] == '[' ? 0 : 0xff);
		assert_int_equal(port.outside, rows[i].outside);
		assert_int_equal(port.inside, rows[i].inside);
	}
}

static void ports_are_narrowed_by_what_they_mean(void **state)
{
	static const struct {
		const char *granted, *by, *left; /* "": nothing */
	} rows[] = {
		{ "8080", "8080", "8080" },
		{ "8080", "8080:8080", "8080" },
		{ "127.0.0.1:8080:80", "8080:80", "127.0.0.1:8080:80" },
		{ "8080:80", "8081:80", "" },
		{ "8080:80", "8080:81", "" },
		{ "8080:80", "0.0.0.0:8080:80", "8080:80" },
		{ "0.0.0.0:8080:80", "8080:80", "8080:80" },
		{ "0.0.0.0:8080:80", "192.0.2.1:8080:80", "192.0.2.1:8080:80" },
		{ "[::]:8080:80", "[::1]:8080:80", "[::1]:8080:80" },
		{ "[::]:8080:80", "8080:80", "" },
		{ "[::1]:8080:80", "0.0.0.0:8080:80", "" },
		{ "192.0.2.1:8080:80", "8080:80", "" },
		{ "0:80", "8080:80", "" },
		{ "8080:80", "0:80", "" },
		{ "0:80", "127.0.0.1:0:80", "0:80" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy a, b;

		policy_init(&a);
		policy_init(&b);
		case_flag(&a, "publish", rows[i].granted);
		case_flag(&b, "publish", rows[i].by);
		case_narrow(&a, &b);
		assert_int_equal(a.net_publish.list.count, rows[i].left[0] != '\0');
		if (rows[i].left[0])
			assert_string_equal(a.net_publish.list.items[0], rows[i].left);
		policy_done(&a);
		policy_done(&b);
		/* A file that does not speak of ports grants none. */
		policy_init(&a);
		policy_init(&b);
		case_flag(&a, "publish", rows[i].granted);
		case_narrow(&a, &b);
		assert_int_equal(a.net_publish.list.count, 0);
		policy_done(&a);
		policy_done(&b);
	}
}

static void words_out_of_a_list(void **state)
{
	struct policy policy;

	(void)state;
	for (size_t i = 0; i < EXTENSION_COUNT; i++) {
		policy_init(&policy);
		case_flag(&policy, "allow", extensions[i].name);
		policy_done(&policy);
	}
	case_flag_refused("allow", "debgu", "did you mean \"debug\"?");
	case_flag_refused("allow", "everything", "use any of debug, nested, memfd-exec");
	case_refused("version: 1\noutput: { strip: [colour] }\n", "use any of terminal, bidi");
	case_refused("version: 1\noutput: { flag: [secrets] }\n", "did you mean \"secret\"?");
	case_refused("version: 1\nallow: [1]\n", "test:2:9: allow: expected text");
	case_refused("version: 1\nallow: debug\n", "test:2:8: allow: expected a list, found text");

	case_parse("version: 1\nallow: [nested, debug, nested]\n", &policy);
	assert_int_equal(policy.allow.list.count, 2);
	check_sorted(&policy.allow);
	policy_done(&policy);
}

static void grants_shrink_and_restrictions_grow(void **state)
{
	struct policy a, b;

	(void)state;
	case_parse("version: 1\n"
		   "allow: [debug, nested]\n"
		   "net: { publish: [\"80\", \"81:80\"] }\n"
		   "output: { strip: [bidi], flag: [] }\n",
		   &a);
	case_parse("version: 1\n"
		   "allow: [nested, memfd-exec]\n"
		   "net: { publish: [\"81:80\", \"82\"] }\n"
		   "output: { strip: [], flag: [secret] }\n",
		   &b);
	case_narrow(&a, &b);
	assert_int_equal(a.allow.list.count, 1);
	assert_string_equal(a.allow.list.items[0], "nested");
	assert_int_equal(a.net_publish.list.count, 1);
	assert_string_equal(a.net_publish.list.items[0], "81:80");
	assert_true(strv_has(&a.output_strip.list, "bidi"));
	assert_true(strv_has(&a.output_flag.list, "secret"));
	policy_done(&a);
	policy_done(&b);
}

static void an_empty_list_clears(void **state)
{
	struct policy policy;

	(void)state;
	case_parse("version: 1\nextends: [base]\nenv: []\n", &policy);
	assert_int_equal(policy.env.list.count, 0);
	policy_done(&policy);
	case_parse("version: 1\nextends: [base]\nenv: [MINE]\n", &policy);
	assert_true(strv_has(&policy.env.list, "PATH"));
	assert_true(strv_has(&policy.env.list, "MINE"));
	check_sorted(&policy.env);
	policy_done(&policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables),
		cmocka_unit_test(what_passes),
		cmocka_unit_test(narrowing_passes_what_both_pass),
		cmocka_unit_test(a_variable_has_one_value),
		cmocka_unit_test(ports),
		cmocka_unit_test(an_entry_of_publish_means_an_address_and_two_ports),
		cmocka_unit_test(ports_are_narrowed_by_what_they_mean),
		cmocka_unit_test(words_out_of_a_list),
		cmocka_unit_test(grants_shrink_and_restrictions_grow),
		cmocka_unit_test(an_empty_list_clears),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
