#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "egress/judge.h"
#include "egress_case.h"
#include "policy_case.h"

#define NOW      1000000
#define LABEL_63 "a23456789012345678901234567890123456789012345678901234567890123"
#define LABEL_61 "a234567890123456789012345678901234567890123456789012345678901"

static struct answers answers;

/* A policy out of flags ("allow-net", text pairs), its judge, and an empty table. */
struct court {
	struct policy policy;
	struct judge judge;
};

static void court_open(struct court *court, const char *const *flags)
{
	policy_init(&court->policy);
	for (; flags[0]; flags += 2)
		case_flag(&court->policy, flags[0], flags[1]);
	court->judge = (struct judge){ .policy = &court->policy, .answers = &answers };
	answers_init(&answers);
}

#define COURT(court, ...)   \
	struct court court; \
	court_open(&court, (const char *const[]){ __VA_ARGS__, NULL })

static void tell(const char *ip, const char *name)
{
	answers_add(&answers, case_address(ip, 0).ip, name, 60, NOW);
}

static struct judgement connect_to(const struct court *court, const char *ip, unsigned int port)
{
	struct address address = case_address(ip, port);
	struct judgement j;

	judge_address(&court->judge, &address, NOW, &j);
	/* Words are there exactly when they are needed. */
	assert_int_equal(j.is_allowed, j.reason[0] == '\0');
	assert_int_equal(j.is_allowed, j.cause == JUDGE_ALLOWED);
	return j;
}

static struct judgement ask_for(const struct court *court, const char *name)
{
	struct judgement j;

	judge_question(&court->judge, name, NULL, NOW, &j);
	assert_int_equal(j.is_allowed, j.reason[0] == '\0');
	return j;
}

static void questions(void **state)
{
	static const struct {
		const char *name;
		enum judge_cause cause;
	} rows[] = {
		{ "example.com", JUDGE_ALLOWED },
		{ "EXAMPLE.com.", JUDGE_ALLOWED },
		{ "www.example.com", JUDGE_NO_RULE },
		{ "a.wild.org", JUDGE_ALLOWED },
		{ "a.b.wild.org", JUDGE_ALLOWED },
		{ "wild.org", JUDGE_NO_RULE },
		{ "awild.org", JUDGE_NO_RULE },
		{ "bad.wild.org", JUDGE_DENIED },
		{ "half.wild.org", JUDGE_ALLOWED }, /* denied on port 80 only */
		{ "shut.wild.org", JUDGE_DENIED },  /* on the only port that is allowed */
		{ "open.net", JUDGE_ALLOWED },      /* all ports but 25 */
		{ "closed.net", JUDGE_DENIED },
		{ "xn--bcher-kva.example", JUDGE_ALLOWED },
		{ "127.0.0.1", JUDGE_NOT_A_NAME },
		{ "0x7f.1", JUDGE_NOT_A_NAME },
		{ "a b", JUDGE_NOT_A_NAME },
		{ "", JUDGE_NOT_A_NAME },
		{ "metadata.google.internal", JUDGE_SPECIAL },
		{ "x.localhost", JUDGE_SPECIAL },
		{ "localhost", JUDGE_ALLOWED }, /* named as it is; its address needs a rule too */
	};
	COURT(court, "allow-net", "example.com:443", "allow-net", "*.wild.org:443", "allow-net",
	      "*.wild.org:80", "deny-net", "bad.wild.org:*", "deny-net", "half.wild.org:80",
	      "deny-net", "shut.wild.org:443", "deny-net", "shut.wild.org:80", "allow-net",
	      "open.net:*", "deny-net", "open.net:25", "allow-net", "closed.net:*", "deny-net",
	      "closed.net:25", "deny-net", "closed.net:*", "allow-net", "xn--bcher-kva.example:443",
	      "allow-net", "*.google.internal:80", "allow-net", "*.localhost:80", "allow-net",
	      "localhost:80");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (ask_for(&court, rows[i].name).cause != rows[i].cause)
			fail_msg("%s: %d", rows[i].name, ask_for(&court, rows[i].name).cause);
	policy_done(&court.policy);
}

static void long_names(void **state)
{
	static const char name_253[] = LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61;
	static const char name_254[] = LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "x";
	COURT(court, "allow-net", LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 ":443");
	struct judgement j;

	(void)state;
	assert_int_equal(strlen(name_253), 253);
	assert_true(ask_for(&court, name_253).is_allowed);
	assert_int_equal(ask_for(&court, name_254).cause, JUDGE_NOT_A_NAME);
	policy_done(&court.policy);

	/* A remedy that does not fit is left out: half a name would be another rule. */
	policy_init(&court.policy);
	j = ask_for(&court, name_253);
	assert_int_equal(j.cause, JUDGE_NO_RULE);
	assert_string_equal(j.allow_with, "");
	j = ask_for(&court, LABEL_63 "." LABEL_63 "." LABEL_63 ".example");
	assert_string_equal(j.allow_with, "--allow-net " LABEL_63 "." LABEL_63 "." LABEL_63
					  ".example:443, or with the port that is needed");
	policy_done(&court.policy);
}

static void connections_by_address(void **state)
{
	static const struct {
		const char *ip;
		unsigned int port;
		enum judge_cause cause;
	} rows[] = {
		{ "8.8.8.8", 443, JUDGE_ALLOWED },
		{ "8.8.8.8", 80, JUDGE_OTHER_PORT },
		{ "8.8.8.8", 0, JUDGE_NO_RULE },
		{ "8.8.4.4", 443, JUDGE_DENIED },
		{ "::ffff:8.8.4.4", 443, JUDGE_DENIED },
		{ "9.9.9.9", 443, JUDGE_OTHER_PORT },
		{ "2600::1", 443, JUDGE_OTHER_PORT },
		/* a range in a private one names it; everything does not */
		{ "10.1.2.3", 5432, JUDGE_ALLOWED },
		{ "10.2.2.3", 5432, JUDGE_SPECIAL },
		{ "10.2.2.3", 99, JUDGE_SPECIAL },
		{ "9.9.9.9", 99, JUDGE_ALLOWED },
		{ "2600::1", 99, JUDGE_ALLOWED },
		/* a deny rule for IPv4 stops what hides it */
		{ "64:ff9b::8.8.4.4", 99, JUDGE_DENIED },
		{ "64:ff9b::8.8.8.8", 99, JUDGE_ALLOWED },
		{ "64:ff9b::10.1.2.3", 99, JUDGE_SPECIAL },
		/* never by a range */
		{ "127.0.0.1", 1, JUDGE_SPECIAL },
		{ "127.0.0.2", 80, JUDGE_ALLOWED },
		{ "127.0.0.2", 81, JUDGE_OTHER_PORT },
		{ "::1", 99, JUDGE_SPECIAL },
		{ "0.0.0.0", 99, JUDGE_SPECIAL },
		{ "::", 99, JUDGE_SPECIAL },
		{ "169.254.1.1", 1, JUDGE_SPECIAL },
		{ "169.254.169.254", 1, JUDGE_SPECIAL },
		{ "2002:a9fe:a9fe::", 99, JUDGE_SPECIAL },
		{ "fd00:ec2::254", 1, JUDGE_SPECIAL },
		{ "fd00::1", 1, JUDGE_ALLOWED },
		{ "100.100.100.200", 1, JUDGE_SPECIAL },
		{ "100.100.100.201", 1, JUDGE_ALLOWED },
		{ "168.63.129.16", 99, JUDGE_SPECIAL },
		{ "224.0.0.1", 99, JUDGE_SPECIAL },
		{ "255.255.255.255", 99, JUDGE_SPECIAL },
	};
	COURT(court, "allow-net", "8.8.0.0/16:443", "deny-net", "8.8.4.4:*", "allow-net",
	      "10.1.0.0/16:5432", "allow-net", "0.0.0.0/0:99", "allow-net", "[::]/0:99",
	      "allow-net", "127.0.0.0/8:1", "allow-net", "127.0.0.2:80", "allow-net",
	      "169.254.0.0/16:1", "allow-net", "[fc00::]/7:1", "allow-net", "100.64.0.0/10:1");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (connect_to(&court, rows[i].ip, rows[i].port).cause != rows[i].cause)
			fail_msg("%s:%u: %d", rows[i].ip, rows[i].port,
				 connect_to(&court, rows[i].ip, rows[i].port).cause);
	policy_done(&court.policy);
}

/* Every name and every public address; nothing that is special, whatever name leads there. */
static void all_that_is_public(void **state)
{
	static const char *const closed[] = { "127.0.0.1", "10.1.2.3",        "169.254.169.254",
					      "::1",       "fd00::1",         "64:ff9b::10.1.2.3",
					      "0.0.0.0",   "100.100.100.200", "192.168.1.1" };
	struct first_bytes first = { .kind = FIRST_TLS };
	struct address address = case_address("8.8.8.8", 443);
	struct judgement j;
	COURT(court, "allow-net", "*:443", "allow-net", "10.1.0.0/16:443 public", "deny-net",
	      "bad.com:*", "deny-net", "9.9.9.9:*", "deny-net", "*:25", "allow-net",
	      "*.wild.org:443");

	(void)state;
	assert_true(ask_for(&court, "example.com").is_allowed);
	assert_true(ask_for(&court, "a.wild.org").is_allowed);
	assert_int_equal(ask_for(&court, "bad.com").cause, JUDGE_DENIED);
	assert_int_equal(ask_for(&court, "localhost").cause, JUDGE_SPECIAL);
	assert_int_equal(ask_for(&court, "metadata.google.internal").cause, JUDGE_SPECIAL);
	assert_true(connect_to(&court, "8.8.8.8", 443).is_allowed);
	assert_true(connect_to(&court, "2600::1", 443).is_allowed);
	assert_int_equal(connect_to(&court, "8.8.8.8", 80).cause, JUDGE_OTHER_PORT);
	assert_int_equal(connect_to(&court, "8.8.8.8", 25).cause, JUDGE_DENIED);
	assert_int_equal(connect_to(&court, "9.9.9.9", 443).cause, JUDGE_DENIED);
	for (size_t i = 0; i < ARRAY_SIZE(closed); i++) {
		assert_int_equal(connect_to(&court, closed[i], 443).cause, JUDGE_SPECIAL);
		judge_answer(&court.judge, "example.com", case_address(closed[i], 0).ip, &j);
		assert_int_equal(j.cause, JUDGE_REBINDING);
		tell(closed[i], "example.com");
		assert_false(connect_to(&court, closed[i], 443).is_allowed);
	}
	/* The first bytes may say any name, but for those that are denied. */
	strcpy(first.name, "other.com");
	judge_first(&court.judge, &address, NOW, &first, &j);
	assert_true(j.is_allowed);
	strcpy(first.name, "bad.com");
	judge_first(&court.judge, &address, NOW, &first, &j);
	assert_int_equal(j.cause, JUDGE_DENIED);
	policy_done(&court.policy);

	/* Below a wildcard names are counted; where every name is allowed there is nothing to count. */
	court_open(&court, (const char *const[]){ "allow-net", "*.wild.org:443", "allow-net",
						  "*:443", NULL });
	judge_question(&court.judge, LABEL_63 "." LABEL_63 "." LABEL_63 ".wild.org",
		       &(struct tunnel){ 0 }, NOW, &j);
	assert_true(j.is_allowed);
	policy_done(&court.policy);
}

static void ipv6_for_all_is_not_ipv4(void **state)
{
	COURT(court, "allow-net", "[::]/0:443");

	(void)state;
	assert_true(connect_to(&court, "2600::1", 443).is_allowed);
	assert_false(connect_to(&court, "8.8.8.8", 443).is_allowed);
	policy_done(&court.policy);

	court_open(&court, (const char *const[]){ "allow-net", "8.8.8.8:443", "deny-net",
						  "[::]/0:443", NULL });
	assert_int_equal(connect_to(&court, "8.8.8.8", 443).cause, JUDGE_DENIED);
	policy_done(&court.policy);
}

static void connections_by_name(void **state)
{
	COURT(court, "allow-net", "example.com:443", "allow-net", "*.wild.org:80", "deny-net",
	      "bad.wild.org:*", "deny-net", "9.9.9.9:*");
	struct judgement j;

	(void)state;
	assert_int_equal(connect_to(&court, "8.8.8.8", 443).cause, JUDGE_UNRESOLVED);
	tell("8.8.8.8", "example.com");
	j = connect_to(&court, "8.8.8.8", 443);
	assert_true(j.is_allowed);
	assert_false(j.is_raw);
	assert_string_equal(j.name, "example.com");
	assert_string_equal(j.rule->text, "example.com:443");
	assert_true(connect_to(&court, "::ffff:8.8.8.8", 443).is_allowed);
	j = connect_to(&court, "8.8.8.8", 80);
	assert_int_equal(j.cause, JUDGE_OTHER_PORT);
	assert_string_equal(j.object, "example.com:80");
	assert_string_equal(j.allow_with, "--allow-net example.com:80, or in the policy: net: { "
					  "allow: [\"example.com:80\"] }");
	/* A second name on the same address adds its port, whichever came first. */
	tell("8.8.8.8", "a.wild.org");
	assert_string_equal(connect_to(&court, "8.8.8.8", 80).name, "a.wild.org");
	assert_string_equal(connect_to(&court, "8.8.8.8", 443).name, "example.com");
	/* Denied, though the table says that it was told once: the rules have changed since. */
	tell("8.8.4.4", "bad.wild.org");
	assert_int_equal(connect_to(&court, "8.8.4.4", 80).cause, JUDGE_DENIED);
	tell("9.9.9.9", "example.com");
	assert_int_equal(connect_to(&court, "9.9.9.9", 443).cause, JUDGE_DENIED);
	policy_done(&court.policy);

	court_open(&court, (const char *const[]){ "deny-net", "a:1", NULL });
	assert_int_equal(connect_to(&court, "8.8.8.8", 443).cause, JUDGE_NO_RULE);
	policy_done(&court.policy);
}

/* What was told under older rules counts for nothing under newer ones. */
static void changed_rules(void **state)
{
	static const char *const names[] = { "gone.example", "localhost", "shut.example" };
	COURT(court, "allow-net", "example.com:443", "deny-net", "shut.example:*");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct first_bytes first = { .kind = FIRST_TLS };
		struct address address = case_address("8.8.8.8", 443);
		struct judgement j;

		answers_init(&answers);
		tell("8.8.8.8", names[i]);
		j = connect_to(&court, "8.8.8.8", 443);
		assert_false(j.is_allowed);
		assert_string_equal(j.name, "");
		tell("8.8.8.8", "example.com");
		assert_string_equal(connect_to(&court, "8.8.8.8", 443).name, "example.com");
		strcpy(first.name, names[i]);
		judge_first(&court.judge, &address, NOW, &first, &j);
		assert_false(j.is_allowed);
		assert_null(strstr(j.reason, "a public address"));
	}
	policy_done(&court.policy);
}

/* A connection that is there, by rules that came later. */
static void connections_again(void **state)
{
	static const struct {
		const char *ip, *name;
		bool is_told, is_raw;
		enum judge_cause cause;
	} rows[] = {
		{ "8.8.8.8", "example.com", true, false, JUDGE_ALLOWED },
		{ "8.8.8.8", "a.wild.org", true, false, JUDGE_ALLOWED },
		{ "8.8.8.8", "example.com", true, true, JUDGE_PROTOCOL },
		{ "8.8.8.8", "raw.org", true, true, JUDGE_ALLOWED },
		{ "8.8.8.8", "gone.org", true, false, JUDGE_NO_RULE },
		{ "8.8.8.8", "bad.wild.org", true, false, JUDGE_DENIED },
		{ "8.8.8.8", "port.org", true, false, JUDGE_OTHER_PORT },
		{ "8.8.8.8", "", false, false, JUDGE_UNRESOLVED },
		{ "9.9.9.9", "", false, false, JUDGE_ALLOWED },
		{ "9.9.9.9", "gone.org", true, false, JUDGE_ALLOWED },
		{ "9.9.9.9", "bad.wild.org", true, false, JUDGE_DENIED },
		{ "9.9.9.9", "", false, true, JUDGE_PROTOCOL },
		{ "7.7.7.7", "example.com", true, false, JUDGE_DENIED },
		{ "10.0.0.1", "example.com", true, false, JUDGE_REBINDING },
		/* What the program says of an address that was not told for it. */
		{ "8.8.8.8", "example.com", false, false, JUDGE_UNRESOLVED },
		{ "8.8.8.8", "bad.wild.org", false, false, JUDGE_DENIED },
		{ "9.9.9.9", "example.com", false, false, JUDGE_ALLOWED },
		{ "9.9.9.9", "bad.wild.org", false, false, JUDGE_DENIED },
	};
	COURT(court, "allow-net", "example.com:443", "allow-net", "*.wild.org:443", "allow-net",
	      "raw.org:443 raw", "allow-net", "port.org:80", "deny-net", "bad.wild.org:*",
	      "allow-net", "9.9.9.9:443", "deny-net", "7.7.7.7:*");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct judged judged = { .address = case_address(rows[i].ip, 443),
					       .name = rows[i].name,
					       .is_told = rows[i].is_told,
					       .is_raw = rows[i].is_raw };
		struct judgement j;

		judge_again(&court.judge, &judged, &j);
		if (j.cause != rows[i].cause)
			fail_msg("%s %s: %d", rows[i].ip, rows[i].name, j.cause);
		assert_int_equal(j.is_allowed, j.reason[0] == '\0');
	}
	policy_done(&court.policy);
}

static void rebinding(void **state)
{
	static const char *const targets[] = { "127.0.0.1", "10.0.0.1", "169.254.169.254",
					       "::1",       "fd00::1",  "64:ff9b::7f00:1",
					       "0.0.0.0" };
	COURT(court, "allow-net", "example.com:80", "allow-net", "192.168.1.1:80", "allow-net",
	      "0.0.0.0/0:80");
	struct judgement j;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		judge_answer(&court.judge, "example.com", case_address(targets[i], 0).ip, &j);
		assert_int_equal(j.cause, JUDGE_REBINDING);
		assert_null(strstr(j.allow_with, ":443"));
		tell(targets[i], "example.com");
		j = connect_to(&court, targets[i], 80);
		assert_int_equal(j.cause, JUDGE_REBINDING);
		assert_non_null(strstr(j.reason, "example.com is allowed but leads to"));
		assert_non_null(strstr(j.reason, targets[i]));
	}
	judge_answer(&court.judge, "example.com", case_address("8.8.8.8", 0).ip, &j);
	assert_true(j.is_allowed);
	/* Named exactly, it may be told and reached. */
	judge_answer(&court.judge, "example.com", case_address("192.168.1.1", 0).ip, &j);
	assert_true(j.is_allowed);
	assert_true(connect_to(&court, "192.168.1.1", 80).is_allowed);
	policy_done(&court.policy);
}

static void own_addresses_are_refused(void **state)
{
	unsigned char own[1][ADDRESS_BYTES];
	const struct address_list list = { (const unsigned char(*)[ADDRESS_BYTES])own, 1 };
	COURT(court, "allow-net", "0.0.0.0/0:443", "allow-net", "8.8.8.8:22");

	(void)state;
	memcpy(own[0], case_address("8.8.8.8", 0).ip, ADDRESS_BYTES);
	assert_true(connect_to(&court, "8.8.8.8", 443).is_allowed);
	court.judge.own = &list;
	assert_false(connect_to(&court, "8.8.8.8", 443).is_allowed);
	assert_true(connect_to(&court, "8.8.8.8", 22).is_allowed);
	assert_false(connect_to(&court, "64:ff9b::8.8.8.8", 443).is_allowed);
	policy_done(&court.policy);
}

static void asked_is_refused_in_its_own_words(void **state)
{
	struct court court = { 0 };
	struct judgement j;

	(void)state;
	case_parse("version: 1\nnet:\n  allow: [\"example.com:443\", \"8.8.8.8:443\"]\n"
		   "  ask: [\"example.com:443\", \"8.8.8.8:443\"]\n  deny: [\"a.org:1\"]\n",
		   &court.policy);
	court.judge = (struct judge){ .policy = &court.policy };
	j = ask_for(&court, "example.com");
	assert_int_equal(j.cause, JUDGE_ASKED);
	assert_string_equal(j.rule_text, "test:4: net.ask \"example.com:443\"");
	assert_string_equal(j.allow_with, "move \"example.com:443\" from net.ask to net.allow");
	assert_int_equal(connect_to(&court, "8.8.8.8", 443).cause, JUDGE_ASKED);
	policy_done(&court.policy);
}

static void remedies_do_not_open_the_host(void **state)
{
	COURT(court, "allow-net", "example.com:80");
	struct judgement j;

	(void)state;
	j = connect_to(&court, "169.254.169.254", 80);
	assert_string_equal(j.allow_with, "");
	assert_non_null(strstr(j.reason, "metadata"));
	assert_string_equal(j.rule_text, "net.allow: what no rule names is refused");
	j = ask_for(&court, "metadata.google.internal");
	assert_string_equal(j.allow_with, "");
	j = connect_to(&court, "127.0.0.1", 80);
	assert_non_null(strstr(j.allow_with, "only if"));
	j = connect_to(&court, "10.0.0.1", 80);
	assert_non_null(strstr(j.allow_with, "--allow-net 10.0.0.1:80"));
	j = connect_to(&court, "fd00::1", 80);
	assert_non_null(strstr(j.allow_with, "--allow-net [fd00::1]:80"));
	j = ask_for(&court, "evil\033[31m\n.com");
	assert_null(strpbrk(j.object, "\033\n"));
	policy_done(&court.policy);
}

static void aliases(void **state)
{
	COURT(court, "allow-net", "example.com:443", "deny-net", "*.evil.com:*", "deny-net",
	      "cdn.net:443", "deny-net", "cdn.org:80");
	struct judgement j;

	(void)state;
	judge_alias(&court.judge, "example.com", "edge.cdn.example", &j);
	assert_true(j.is_allowed);
	judge_alias(&court.judge, "example.com", "x.evil.com", &j);
	assert_int_equal(j.cause, JUDGE_DENIED);
	judge_alias(&court.judge, "example.com", "cdn.net", &j);
	assert_int_equal(j.cause, JUDGE_DENIED);
	judge_alias(&court.judge, "example.com", "cdn.org", &j);
	assert_true(j.is_allowed);
	policy_done(&court.policy);
}

static void tunnels(void **state)
{
	static struct tunnel tunnel;
	COURT(court, "allow-net", "*.wild.org:443", "allow-net", "named.wild.org:443");
	char name[NAME_SIZE];
	struct judgement j;

	(void)state;
	tunnel_init(&tunnel);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "%032x.wild.org", 0x9e3779b9u * (unsigned int)i);
		judge_question(&court.judge, name, &tunnel, NOW, &j);
	}
	assert_int_equal(j.cause, JUDGE_TUNNEL);
	assert_non_null(strstr(j.reason, "*.wild.org:443"));
	judge_question(&court.judge, "named.wild.org", &tunnel, NOW, &j);
	assert_true(j.is_allowed);
	policy_done(&court.policy);
}

static struct judgement say(const struct court *court, const char *ip, unsigned int port,
			    struct first_bytes first)
{
	struct address address = case_address(ip, port);
	struct judgement j;

	judge_first(&court->judge, &address, NOW, &first, &j);
	assert_int_equal(j.is_allowed, j.reason[0] == '\0');
	return j;
}

static void first_bytes_by_name(void **state)
{
	COURT(court, "allow-net", "example.com:443", "allow-net", "other.com:443", "allow-net",
	      "raw.com:22 raw");
	struct judgement j;

	(void)state;
	tell("8.8.8.8", "example.com");
	tell("8.8.4.4", "raw.com");
	assert_true(say(&court, "8.8.8.8", 443,
			(struct first_bytes){ .kind = FIRST_TLS, .name = "example.com" })
			    .is_allowed);
	assert_true(
		say(&court, "8.8.8.8", 443,
		    (struct first_bytes){ .kind = FIRST_HTTP, .name = "example.com", .port = 443 })
			.is_allowed);
	j = say(&court, "8.8.8.8", 443,
		(struct first_bytes){ .kind = FIRST_TLS, .name = "evil.com" });
	assert_int_equal(j.cause, JUDGE_WRONG_NAME);
	assert_non_null(strstr(j.reason, "asks for evil.com"));
	assert_non_null(strstr(j.reason, "example.com"));
	/* Allowed elsewhere, but not told for this address. */
	assert_int_equal(say(&court, "8.8.8.8", 443,
			     (struct first_bytes){ .kind = FIRST_TLS, .name = "other.com" })
				 .cause,
			 JUDGE_WRONG_NAME);
	j = say(&court, "8.8.8.8", 443,
		(struct first_bytes){ .kind = FIRST_HTTP,
				      .is_address = true,
				      .address = case_address("169.254.169.254", 0) });
	assert_int_equal(j.cause, JUDGE_WRONG_NAME);
	assert_string_equal(j.allow_with, "");
	j = say(&court, "8.8.8.8", 443, (struct first_bytes){ .kind = FIRST_TLS_NO_NAME });
	assert_int_equal(j.cause, JUDGE_NO_NAME);
	assert_non_null(strstr(j.allow_with, "'example.com:443 raw'"));
	assert_int_equal(
		say(&court, "8.8.8.8", 443,
		    (struct first_bytes){ .kind = FIRST_HTTP, .name = "example.com", .port = 80 })
			.cause,
		JUDGE_PROTOCOL);
	assert_int_equal(
		say(&court, "8.8.8.8", 443, (struct first_bytes){ .kind = FIRST_OTHER }).cause,
		JUDGE_PROTOCOL);
	assert_int_equal(
		say(&court, "8.8.8.8", 443, (struct first_bytes){ .kind = FIRST_MORE }).cause,
		JUDGE_PROTOCOL);
	j = say(&court, "8.8.4.4", 22, (struct first_bytes){ .kind = FIRST_OTHER });
	assert_true(j.is_allowed);
	assert_true(j.is_raw);
	assert_false(say(&court, "9.9.9.9", 443,
			 (struct first_bytes){ .kind = FIRST_TLS, .name = "example.com" })
			     .is_allowed);
	policy_done(&court.policy);
}

static void first_bytes_by_address(void **state)
{
	COURT(court, "allow-net", "8.8.8.0/24:443", "deny-net", "evil.com:443");

	(void)state;
	assert_true(say(&court, "8.8.8.8", 443,
			(struct first_bytes){ .kind = FIRST_TLS, .name = "any.com" })
			    .is_allowed);
	assert_true(say(&court, "8.8.8.8", 443, (struct first_bytes){ .kind = FIRST_TLS_NO_NAME })
			    .is_allowed);
	assert_true(say(&court, "8.8.8.8", 443,
			(struct first_bytes){ .kind = FIRST_HTTP,
					      .is_address = true,
					      .address = case_address("8.8.8.8", 0) })
			    .is_allowed);
	assert_int_equal(say(&court, "8.8.8.8", 443,
			     (struct first_bytes){ .kind = FIRST_HTTP,
						   .is_address = true,
						   .address = case_address("8.8.8.9", 0) })
				 .cause,
			 JUDGE_WRONG_NAME);
	assert_int_equal(say(&court, "8.8.8.8", 443,
			     (struct first_bytes){ .kind = FIRST_TLS, .name = "evil.com" })
				 .cause,
			 JUDGE_DENIED);
	assert_int_equal(
		say(&court, "8.8.8.8", 443, (struct first_bytes){ .kind = FIRST_OTHER }).cause,
		JUDGE_PROTOCOL);
	policy_done(&court.policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions),
		cmocka_unit_test(long_names),
		cmocka_unit_test(connections_by_address),
		cmocka_unit_test(all_that_is_public),
		cmocka_unit_test(ipv6_for_all_is_not_ipv4),
		cmocka_unit_test(connections_by_name),
		cmocka_unit_test(changed_rules),
		cmocka_unit_test(connections_again),
		cmocka_unit_test(rebinding),
		cmocka_unit_test(own_addresses_are_refused),
		cmocka_unit_test(asked_is_refused_in_its_own_words),
		cmocka_unit_test(remedies_do_not_open_the_host),
		cmocka_unit_test(aliases),
		cmocka_unit_test(tunnels),
		cmocka_unit_test(first_bytes_by_name),
		cmocka_unit_test(first_bytes_by_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
