#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "policy_case.h"
#include "random.h"

#define LABEL_63 "a23456789012345678901234567890123456789012345678901234567890123"

static void spellings(void **state)
{
	static const struct {
		const char *text, *canonical; /* NULL: refused */
	} rows[] = {
		{ "api.example.com:443", "api.example.com:443" },
		{ "API.Example.COM:443", "api.example.com:443" },
		{ "localhost:1", "localhost:1" },
		{ "a:65535", "a:65535" },
		{ "a:*", "a:*" },
		{ "a:443 raw", "a:443 raw" },
		{ "a:* raw", "a:* raw" },
		{ "*.example.com:443", "*.example.com:443" },
		{ "*.com:443", "*.com:443" },
		{ "_dmarc.example.com:53", "_dmarc.example.com:53" },
		{ "xn--bcher-kva.example:443", "xn--bcher-kva.example:443" },
		{ "3com.example:443", "3com.example:443" },
		{ "1.2.3.4.example:443", "1.2.3.4.example:443" },
		{ "0x7f.example:443", "0x7f.example:443" },
		{ LABEL_63 ":443", LABEL_63 ":443" },
		{ "10.1.2.3:5432", "10.1.2.3:5432" },
		{ "10.1.2.3/32:5432", "10.1.2.3:5432" },
		{ "10.1.2.3/8:5432", "10.0.0.0/8:5432" },
		{ "10.1.2.3/0:5432", "0.0.0.0/0:5432" },
		{ "10.0.0.0/8:* raw", "10.0.0.0/8:* raw" },
		{ "[::1]:443", "[::1]:443" },
		{ "[2001:DB8:0:0::1]:443", "[2001:db8::1]:443" },
		{ "[2001:db8::1]/32:443", "[2001:db8::]/32:443" },
		{ "[2001:db8::1]/128:443", "[2001:db8::1]:443" },
		{ "[::]/0:*", "[::]/0:*" },
		{ "*:443", "*:443" },
		{ "*:*", "*:*" },
		{ "*:* raw", "*:* raw" },
		{ "8.8.0.0/16:443 public", "8.8.0.0/16:443 public" },
		{ "8.8.8.8:* public raw", "8.8.8.8:* public raw" },
		{ "[2600::]/16:443 public", "[2600::]/16:443 public" },
		{ "[::ffff:10.1.2.3]:443", "10.1.2.3:443" },
		{ "[::ffff:10.1.2.3]/104:443", "10.0.0.0/8:443" },
		{ "[::ffff:10.1.2.3]/95:443", "[::fffe:0:0]/95:443" },

		{ "", NULL },
		{ " ", NULL },
		{ " raw", NULL },
		{ "raw", NULL },
		{ ":", NULL },
		{ ":443", NULL },
		{ ":*", NULL },
		{ "api.example.com", NULL },
		{ "api.example.com:", NULL },
		{ "api.example.com:0", NULL },
		{ "api.example.com:65536", NULL },
		{ "api.example.com:99999", NULL },
		{ "api.example.com:123456", NULL },
		{ "api.example.com:4294967739", NULL },
		{ "api.example.com:443x", NULL },
		{ "api.example.com:x443", NULL },
		{ "api.example.com:0443", NULL },
		{ "api.example.com:+443", NULL },
		{ "api.example.com:-1", NULL },
		{ "api.example.com: 443", NULL },
		{ "api.example.com:443 ", NULL },
		{ " api.example.com:443", NULL },
		{ "api.example.com :443", NULL },
		{ "api.example.com:443  raw", NULL },
		{ "api.example.com:443 RAW", NULL },
		{ "api.example.com:443 raw raw", NULL },
		{ "api.example.com:443raw", NULL },
		{ "api.example.com:443\traw", NULL },
		{ "api.example.com:**", NULL },
		{ "api.example.com:80:443", NULL },
		{ "api.example.com:80-443", NULL },
		{ "https://api.example.com:443", NULL },
		{ "user@api.example.com:443", NULL },
		{ "api.example.com/path:443", NULL },
		{ "api.example.com/8:443", NULL },
		{ "*/0:443", NULL },
		{ "/0:443", NULL },
		{ "/:443", NULL },
		{ "api.example.com.:443", NULL },
		{ ".example.com:443", NULL },
		{ "api..com:443", NULL },
		{ ".:443", NULL },
		{ "*:443 public", NULL },
		{ "a.com:443 public", NULL },
		{ "*.com:443 public", NULL },
		{ "8.8.8.8:443 raw public", NULL },
		{ "8.8.8.8:443 public public", NULL },
		{ "8.8.8.8:443public", NULL },
		{ "*.:443", NULL },
		{ "*.*.com:443", NULL },
		{ "**.com:443", NULL },
		{ "a.*.com:443", NULL },
		{ "*a.com:443", NULL },
		{ "-a.com:443", NULL },
		{ "a-.com:443", NULL },
		{ "a.-:443", NULL },
		{ "b\xc3\xbc"
		  "cher.example:443",
		  NULL },
		{ "a%62.com:443", NULL },
		{ "a\\.com:443", NULL },
		{ LABEL_63 "x:443", NULL },
		/* What the C library or a browser would take for an address, in other words. */
		{ "127.1:443", NULL },
		{ "2852039166:443", NULL },
		{ "0177.0.0.1:443", NULL },
		{ "0x7f.1:443", NULL },
		{ "0x7f000001:443", NULL },
		{ "0X7F000001:443", NULL },
		{ "0x:443", NULL },
		{ "127.0.0.0x1:443", NULL },
		{ "example.1:443", NULL },
		{ "*.0x1:443", NULL },
		{ "*.1:443", NULL },
		{ "1.2.3.4.5:443", NULL },
		{ "256.1.1.1:443", NULL },
		{ "010.1.1.1:443", NULL },
		{ "1.2.3.4.:443", NULL },
		{ "127.1/8:443", NULL },
		{ "0x7f.1/8:443", NULL },
		/* Prefixes. */
		{ "10.0.0.0/33:443", NULL },
		{ "10.0.0.0/:443", NULL },
		{ "10.0.0.0/-1:443", NULL },
		{ "10.0.0.0/+8:443", NULL },
		{ "10.0.0.0/ 8:443", NULL },
		{ "10.0.0.0/8 :443", NULL },
		{ "10.0.0.0/8/8:443", NULL },
		{ "10.0.0.0/08:443", NULL },
		{ "10.0.0.0/0008:443", NULL },
		{ "10.0.0.0/320:443", NULL },
		{ "10.0.0.0/4294967304:443", NULL },
		{ "10.0.0.0/255.0.0.0:443", NULL },
		{ "[2001:db8::]/129:443", NULL },
		{ "[2001:db8::]/1280:443", NULL },
		{ "[2001:db8::]/0000:443", NULL },
		/* Brackets. */
		{ "[]:443", NULL },
		{ "[:443", NULL },
		{ "]:443", NULL },
		{ "[::1:443", NULL },
		{ "::1]:443", NULL },
		{ "[::1]", NULL },
		{ "[::1]443", NULL },
		{ "[::1]x:443", NULL },
		{ "x[::1]:443", NULL },
		{ "[[::1]]:443", NULL },
		{ "[::1]]:443", NULL },
		{ "[::1/128]:443", NULL },
		{ "[::1%eth0]:443", NULL },
		{ "[10.0.0.1]:443", NULL },
		{ "[example.com]:443", NULL },
		{ "*.[::1]:443", NULL },
		{ "::1:443", NULL },
		{ "2001:db8::1:443", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_NONE;
		struct policy policy;
		int r;

		policy_init(&policy);
		r = policy_set_flag(&policy, "allow-net", rows[i].text, &case_env, &err);
		if (!rows[i].canonical != (r < 0))
			fail_msg("\"%s\": %s", rows[i].text,
				 r < 0 ? err.text : policy.net_allow.items[0].text);
		if (r == 0)
			assert_string_equal(policy.net_allow.items[0].text, rows[i].canonical);
		else
			assert_non_null(strstr(err.text, "--allow-net: "));
		policy_done(&policy);
	}
}

/* A name has at most 253 bytes, without the "*." before it and the port behind. */
static void long_names(void **state)
{
	static const char *const before[] = { "", "*." };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		char name[300], text[400];
		struct policy policy;

		for (size_t k = 0; k < sizeof(name); k++)
			name[k] = k % 64 == 63 ? '.' : 'a';
		name[253] = '\0';
		policy_init(&policy);
		snprintf(text, sizeof(text), "%s%s:65535 raw", before[i], name);
		case_flag(&policy, "allow-net", text);
		assert_string_equal(policy.net_allow.items[0].text, text);
		policy_done(&policy);
		name[253] = 'a';
		name[254] = '\0';
		snprintf(text, sizeof(text), "%s%s:1", before[i], name);
		case_flag_refused("allow-net", text, "longer than 253 bytes");
	}
}

static void wrong_places_are_named(void **state)
{
	(void)state;
	case_refused("version: 1\nnet:\n  allow: [a:443, b]\n",
		     "test:3:18: net.allow: \"b\" has no port; write it like api.example.com:443");
	case_refused("version: 1\nnet: { ask: [443] }\n", "test:2:14: net.ask: expected text");
	case_refused("version: 1\nnet: { deny: a:443 }\n", "net.deny: expected a list, found text");
	case_refused("version: 1\nnet: { deny: { a: 443 } }\n", "found a map");
	case_refused("version: 1\nnet: [a:443]\n", "test:2:6: net: expected a map, found a list");
}

/* A rule as the tests think of it: with an address bit by bit and a text of its own. */
struct spec {
	enum host_kind kind;
	char name[40];
	unsigned char address[16];
	unsigned int prefix, port;
	bool is_raw;
	char text[100];
};

enum { LISTS = 3, RULES = 4 }; /* allow, ask, deny */

struct model {
	struct spec rules[LISTS][RULES];
	size_t count[LISTS];
};

static void random_name(struct random *random, char *name, size_t size)
{
	static const char *const labels[] = { "a", "b", "aa", "a-b", "x1" };
	unsigned int depth = 1 + random_below(random, 3);
	size_t len = 0;

	for (unsigned int i = 0; i < depth; i++)
		len += (size_t)snprintf(name + len, size - len, "%s%s", i ? "." : "",
					labels[random_below(random, ARRAY_SIZE(labels))]);
}

/* Few distinct ones, near each other. */
static void random_address(struct random *random, unsigned char address[16], bool *ret_v4)
{
	memset(address, 0, 16);
	*ret_v4 = random_below(random, 3) > 0;
	if (*ret_v4) {
		address[10] = address[11] = 0xff;
		address[12] = (unsigned char)(10 + random_below(random, 2));
	} else {
		address[0] = 0x20;
		address[3] = (unsigned char)random_below(random, 2);
		address[12] = (unsigned char)random_below(random, 2);
	}
	address[15] = (unsigned char)random_below(random, 4);
}

static void random_spec(struct random *random, struct spec *spec)
{
	static const unsigned int v4[] = { 0, 1, 7, 8, 16, 30, 31, 32 },
				  v6[] = { 0, 1, 3, 31, 32, 64, 104, 126, 127, 128 },
				  ports[] = { 0, 80, 443 };
	char host[64] = "", port[12] = "*";
	bool is_v4;

	*spec = (struct spec){ .kind = random_below(random, 12) == 0
					       ? HOST_ANY
					       : (enum host_kind)random_below(random, 3) };
	spec->port = ports[random_below(random, ARRAY_SIZE(ports))];
	spec->is_raw = random_below(random, 3) == 0;
	if (spec->port)
		snprintf(port, sizeof(port), "%u", spec->port);
	if (spec->kind == HOST_ADDRESS) {
		unsigned int prefix;

		random_address(random, spec->address, &is_v4);
		prefix = is_v4 ? v4[random_below(random, ARRAY_SIZE(v4))]
			       : v6[random_below(random, ARRAY_SIZE(v6))];
		spec->prefix = prefix + (is_v4 ? 96 : 0);
		inet_ntop(is_v4 ? AF_INET : AF_INET6, spec->address + (is_v4 ? 12 : 0), host,
			  sizeof(host));
		snprintf(spec->text, sizeof(spec->text), "%s%s%s/%u:%s%s%s", is_v4 ? "" : "[", host,
			 is_v4 ? "" : "]", prefix, port,
			 random_below(random, 3) == 0 ? " public" : "", spec->is_raw ? " raw" : "");
		return;
	}
	if (spec->kind == HOST_ANY) {
		snprintf(spec->text, sizeof(spec->text), "*:%s%s", port,
			 spec->is_raw ? " raw" : "");
		return;
	}
	random_name(random, spec->name, sizeof(spec->name));
	snprintf(spec->text, sizeof(spec->text), "%s%s:%s%s",
		 spec->kind == HOST_SUBDOMAINS ? "*." : "", spec->name, port,
		 spec->is_raw ? " raw" : "");
}

static void random_rules(struct random *random, struct model *model, struct policy *policy)
{
	static const char *const flags[LISTS] = { "allow-net", "ask-net", "deny-net" };

	policy_init(policy);
	for (size_t list = 0; list < LISTS; list++) {
		/* Fewer that deny, or nearly everything would be. */
		model->count[list] = random_below(random, list == 2 ? 2 : RULES + 1);
		for (size_t i = 0; i < model->count[list]; i++) {
			random_spec(random, &model->rules[list][i]);
			case_flag(policy, flags[list], model->rules[list][i].text);
		}
	}
}

struct target {
	bool is_name;
	char name[40];
	unsigned char address[16];
	unsigned int port;
};

static void random_target(struct random *random, struct target *target)
{
	static const unsigned int ports[] = { 80, 443, 8080 };
	bool v4;

	target->is_name = random_below(random, 2);
	random_name(random, target->name, sizeof(target->name));
	random_address(random, target->address, &v4);
	target->port = ports[random_below(random, ARRAY_SIZE(ports))];
}

static bool matches(const struct spec *spec, const struct target *target)
{
	char tail[50];

	if (spec->port && spec->port != target->port)
		return false;
	if (spec->kind == HOST_ANY)
		return true;
	if (target->is_name != (spec->kind != HOST_ADDRESS))
		return false;
	switch (spec->kind) {
	case HOST_ANY:
		break;
	case HOST_NAME:
		return str_equal(spec->name, target->name);
	case HOST_SUBDOMAINS:
		snprintf(tail, sizeof(tail), ".%s", spec->name);
		return str_ends(target->name, tail);
	case HOST_ADDRESS:
		for (unsigned int bit = 0; bit < spec->prefix; bit++)
			if ((spec->address[bit / 8] ^ target->address[bit / 8]) & (0x80 >> bit % 8))
				return false;
		return true;
	}
	return false;
}

static bool list_matches(const struct model *model, size_t list, const struct target *target)
{
	for (size_t i = 0; i < model->count[list]; i++)
		if (matches(&model->rules[list][i], target))
			return true;
	return false;
}

static enum verdict slow_verdict(const struct model *model, const struct target *target)
{
	if (list_matches(model, 2, target))
		return VERDICT_DENY;
	if (list_matches(model, 1, target))
		return VERDICT_ASK;
	return list_matches(model, 0, target) ? VERDICT_ALLOW : VERDICT_DENY;
}

static enum verdict verdict_of(const struct policy *policy, const struct target *target)
{
	const struct host_rule *rule;
	enum verdict verdict = policy_host_verdict(policy, target->is_name ? target->name : NULL,
						   target->address, target->port, &rule);

	/* Whoever is let through was let through by a rule. */
	assert_true(verdict == VERDICT_DENY || rule);
	return verdict;
}

static void verdicts(void **state)
{
	struct random random = { 4 };
	int seen[3] = { 0 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct policy policy;
		struct model model;

		random_rules(&random, &model, &policy);
		for (int k = 0; k < 12; k++) {
			struct target target;
			enum verdict want;

			random_target(&random, &target);
			want = slow_verdict(&model, &target);
			seen[want]++;
			assert_int_equal(verdict_of(&policy, &target), want);
		}
		policy_done(&policy);
	}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		assert_true(seen[i] > 5000);
}

/* Is there a rule that lets the target through with any protocol? */
static bool is_raw(const struct model *model, const struct target *target)
{
	for (size_t i = 0; i < model->count[0]; i++)
		if (model->rules[0][i].is_raw && matches(&model->rules[0][i], target))
			return true;
	return false;
}

static bool is_raw_narrowed(const struct policy *policy, const struct target *target)
{
	for (size_t i = 0; i < policy->net_allow.count; i++) {
		const struct host_rule *rule = &policy->net_allow.items[i];
		struct spec spec = { .kind = rule->kind,
				     .prefix = rule->prefix,
				     .port = rule->port };

		snprintf(spec.name, sizeof(spec.name), "%s", rule->name ? rule->name : "");
		memcpy(spec.address, rule->address, sizeof(spec.address));
		if (rule->is_raw && matches(&spec, target))
			return true;
	}
	return false;
}

static void narrowing_is_the_smaller_verdict(void **state)
{
	struct random random = { 5 };
	int seen[3] = { 0 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct policy a, b;
		struct model x, y;

		random_rules(&random, &x, &a);
		random_rules(&random, &y, &b);
		case_narrow(&a, &b);
		for (int k = 0; k < 12; k++) {
			struct target target;
			enum verdict want;

			random_target(&random, &target);
			want = MIN(slow_verdict(&x, &target), slow_verdict(&y, &target));
			seen[want]++;
			assert_int_equal(verdict_of(&a, &target), want);
			assert_int_equal(is_raw_narrowed(&a, &target),
					 is_raw(&x, &target) && is_raw(&y, &target));
		}
		policy_done(&a);
		policy_done(&b);
	}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		assert_true(seen[i] > 1000);
}

static void canonical_text_is_read_back(void **state)
{
	struct random random = { 6 };

	(void)state;
	for (int i = 0; i < 20000; i++) {
		const struct host_rule *a, *b;
		struct policy one, two;
		struct spec spec;

		random_spec(&random, &spec);
		policy_init(&one);
		policy_init(&two);
		case_flag(&one, "allow-net", spec.text);
		a = &one.net_allow.items[0];
		case_flag(&two, "allow-net", a->text);
		b = &two.net_allow.items[0];
		assert_string_equal(a->text, b->text);
		assert_int_equal(a->kind, b->kind);
		assert_int_equal(a->kind, spec.kind);
		assert_int_equal(a->port, b->port);
		assert_int_equal(a->is_raw, b->is_raw);
		assert_int_equal(a->is_public, b->is_public);
		if (a->kind == HOST_ANY) {
			assert_null(a->name);
		} else if (a->kind == HOST_ADDRESS) {
			assert_int_equal(a->prefix, b->prefix);
			assert_memory_equal(a->address, b->address, sizeof(a->address));
			assert_null(a->name);
		} else {
			assert_string_equal(a->name, b->name);
		}
		policy_done(&one);
		policy_done(&two);
	}
}

static void odd_questions_are_denied(void **state)
{
	static const unsigned char address[16] = { 0 };
	const struct host_rule *rule;
	struct policy policy;
	char name[300];

	(void)state;
	policy_init(&policy);
	case_flag(&policy, "allow-net", "*.com:*");
	case_flag(&policy, "allow-net", "com:*");
	case_flag(&policy, "allow-net", "[::]/0:*");
	assert_int_equal(policy_host_verdict(&policy, "a.com", NULL, 0, &rule), VERDICT_DENY);
	assert_int_equal(policy_host_verdict(&policy, NULL, address, 0, &rule), VERDICT_DENY);
	assert_int_equal(policy_host_verdict(&policy, "a.com", NULL, 1, &rule), VERDICT_ALLOW);
	assert_int_equal(policy_host_verdict(&policy, NULL, address, 1, &rule), VERDICT_ALLOW);
	assert_int_equal(policy_host_verdict(&policy, "com", NULL, 1, &rule), VERDICT_ALLOW);
	assert_int_equal(policy_host_verdict(&policy, ".com", NULL, 1, &rule), VERDICT_DENY);
	assert_int_equal(policy_host_verdict(&policy, "", NULL, 1, &rule), VERDICT_DENY);
	assert_int_equal(policy_host_verdict(&policy, "xcom", NULL, 1, &rule), VERDICT_DENY);
	assert_int_equal(policy_host_verdict(&policy, "A.COM", NULL, 1, &rule), VERDICT_DENY);
	memset(name, 'a', sizeof(name));
	strcpy(name + 256, ".com");
	assert_int_equal(policy_host_verdict(&policy, name, NULL, 1, &rule), VERDICT_DENY);
	assert_null(rule);
	policy_done(&policy);
}

static void lists_add_up_and_empty_ones_clear(void **state)
{
	struct policy policy, later;

	(void)state;
	case_parse("version: 1\nnet: { allow: [b:1, a:1, A:1], deny: [c:1, c:1] }\n", &policy);
	assert_int_equal(policy.net_allow.count, 2);
	assert_string_equal(policy.net_allow.items[0].text, "a:1");
	assert_int_equal(policy.net_deny.count, 1);
	assert_int_equal(policy.net_deny.items[0].origin.line, 2);
	policy_done(&policy);

	case_parse("version: 1\nextends: [offline]\nnet: { allow: [a:1] }\n", &policy);
	assert_int_equal(policy.net_allow.count, 1);
	policy_done(&policy);

	/* Nothing lifts a denial. */
	case_parse("version: 1\nnet: { deny: [a:1] }\n", &policy);
	case_parse("version: 1\nnet: { deny: [] }\n", &later);
	case_narrow(&policy, &later);
	assert_int_equal(policy.net_deny.count, 1);
	policy_done(&policy);
	policy_done(&later);
}

/* Who allows all that is public does not allow what a narrower file calls by a special address. */
static void all_that_is_public(void **state)
{
	static const struct {
		const char *a, *b, *both;
	} rows[] = {
		{ "*:443", "10.0.0.5:443", "10.0.0.5:443 public" },
		{ "*:* raw", "8.8.0.0/16:443", "8.8.0.0/16:443 public" },
		{ "*:443", "*:*", "*:443" },
		{ "*:443", "*.a.com:*", "*.a.com:443" },
		{ "*:443 raw", "a.com:* raw", "a.com:443 raw" },
		{ "*:443", "a.com:80", NULL },
		{ "10.0.0.0/8:443 public", "10.0.0.5:443", "10.0.0.5:443 public" },
		{ "10.0.0.0/8:443", "10.0.0.5:443 public", "10.0.0.5:443 public" },
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct policy a, b;
		bool turned = i % 2;

		policy_init(&a);
		policy_init(&b);
		case_flag(turned ? &b : &a, "allow-net", rows[i / 2].a);
		case_flag(turned ? &a : &b, "allow-net", rows[i / 2].b);
		case_narrow(&a, &b);
		assert_int_equal(a.net_allow.count, rows[i / 2].both ? 1 : 0);
		if (rows[i / 2].both)
			assert_string_equal(a.net_allow.items[0].text, rows[i / 2].both);
		policy_done(&a);
		policy_done(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings),
		cmocka_unit_test(long_names),
		cmocka_unit_test(wrong_places_are_named),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(narrowing_is_the_smaller_verdict),
		cmocka_unit_test(canonical_text_is_read_back),
		cmocka_unit_test(all_that_is_public),
		cmocka_unit_test(odd_questions_are_denied),
		cmocka_unit_test(lists_add_up_and_empty_ones_clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
