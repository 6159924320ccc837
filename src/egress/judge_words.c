/*
 * judge_words.c - see judge_words.h
 *
 * The sentences are tables; "{h}" and the like are filled in:
 *
 *	{h} the host, name or address      {a} it as a rule, with its port   {x} the same, raw
 *	{n} the name in question           {r} the rule that decided         {c} the class in words
 *	{w} what is wrong with the bytes   {s} the name in question as a rule
 *	{e} how closely a rule must name it
 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "egress/judge_words.h"
#include "egress/match.h"

#define RULE_SIZE 272 /* "[...]:65535 raw" around the longest name */

static const char *const reasons[JUDGE_CAUSE_COUNT] = {
	[JUDGE_DENIED] = "a rule of net.deny refuses it (\"{r}\"), whatever else allows it",
	[JUDGE_ASKED] =
		"a rule of net.ask (\"{r}\") wants a person to decide, and nobody can be asked",
	[JUDGE_NO_RULE] = "no rule of net.allow names {h}",
	[JUDGE_OTHER_PORT] = "{h} is allowed, but not on this port: the rule is \"{r}\"",
	[JUDGE_UNRESOLVED] =
		"no rule names this address, and no allowed name was resolved to it in "
		"this sandbox",
	[JUDGE_SPECIAL] = "{h} is {c}; {e}",
	[JUDGE_REBINDING] = "{n} is allowed but leads to {h}, {c} (DNS rebinding); {e}",
	[JUDGE_NOT_A_NAME] =
		"not a host name: an address or odd bytes in place of a name are never "
		"looked up",
	[JUDGE_TUNNEL] =
		"too long or too many made-up names below \"{r}\": labels can carry data out",
	[JUDGE_WRONG_NAME] = "the client asks for {n}, which is not what this connection to {h} is "
			     "allowed for",
	[JUDGE_NO_NAME] = "the client does not say which host it wants (TLS without SNI, or HTTP "
			  "without Host)",
	[JUDGE_PROTOCOL] =
		"{w}; only TLS with SNI or HTTP with Host may pass unless a rule says raw",
};

static const char offer_rule[] = "--allow-net {a}, or in the policy: net: { allow: [\"{a}\"] }";
static const char offer_rule_short[] = "--allow-net {a}";
static const char offer_any_port[] = "--allow-net {a}, or with the port that is needed";
static const char offer_with_care[] =
	"--allow-net {a}, only if this code may use what listens there on the host";
static const char offer_raw[] =
	"--allow-net '{x}', which gives up the check of the first bytes for it";

static const char *const offers[JUDGE_CAUSE_COUNT] = {
	[JUDGE_DENIED] = "remove \"{r}\" from net.deny",
	[JUDGE_ASKED] = "move \"{r}\" from net.ask to net.allow",
	[JUDGE_NO_RULE] = offer_rule,
	[JUDGE_OTHER_PORT] = offer_rule,
	[JUDGE_UNRESOLVED] =
		"let the program connect by name and allow the name, or --allow-net {a}",
	[JUDGE_SPECIAL] = offer_rule,
	[JUDGE_REBINDING] = offer_rule,
	[JUDGE_NOT_A_NAME] = "",
	[JUDGE_TUNNEL] = "name the hosts one by one instead of \"{r}\"",
	[JUDGE_WRONG_NAME] = "--allow-net {s}, and connect to an address of that name",
	[JUDGE_NO_NAME] = offer_raw,
	[JUDGE_PROTOCOL] = offer_raw,
};

/* What stands in place of the offer where the place itself is the danger. */
static const char *const class_offers[ADDRESS_CLASS_COUNT] = {
	[ADDRESS_MULTICAST] = "",
	[ADDRESS_BROADCAST] = "",
	[ADDRESS_LINK_LOCAL] = offer_with_care,
	[ADDRESS_UNSPECIFIED] = offer_with_care,
	[ADDRESS_LOOPBACK] = offer_with_care,
	[ADDRESS_OWN] = offer_with_care,
	[ADDRESS_METADATA] = "",
};

/* The value of each letter. */
struct values {
	const char *of['z' - 'a' + 1];
};

/* How long the sentence is; what does not fit is not written. */
static size_t expand(const char *sentence, const struct values *values, char *out, size_t size)
{
	size_t len = 0;

	for (const char *p = sentence; *p; p++) {
		char one[2] = { *p, '\0' };
		const char *value = one;

		if (p[0] == '{' && p[1] >= 'a' && p[1] <= 'z' && p[2] == '}') {
			value = values->of[p[1] - 'a'];
			p += 2;
		}
		for (; value && *value; value++, len++)
			if (len + 1 < size)
				out[len] = *value;
	}
	out[MIN(len, size - 1)] = '\0';
	str_make_printable(out);
	return len;
}

static bool list_has(const struct host_rules *rules, const struct host_rule *rule)
{
	for (size_t i = 0; i < rules->count; i++)
		if (&rules->items[i] == rule)
			return true;
	return false;
}

static const char *key_of(const struct policy *policy, const struct host_rule *rule)
{
	if (list_has(&policy->net_deny, rule))
		return "net.deny";
	return list_has(&policy->net_ask, rule) ? "net.ask" : "net.allow";
}

static void say_rule(struct judgement *j, const struct words_of *of)
{
	const struct origin *origin = j->rule ? &j->rule->origin : NULL;
	const char *source = origin && origin->source ? origin->source : "policy";
	int width = 100; /* of the source, so that the rule behind it is seen */

	if (!j->rule)
		snprintf(j->rule_text, sizeof(j->rule_text),
			 "net.allow: what no rule names is refused");
	else if (origin->line)
		snprintf(j->rule_text, sizeof(j->rule_text), "%.*s:%u: %s \"%.120s\"", width,
			 source, origin->line, key_of(of->policy, j->rule), j->rule->text);
	else
		snprintf(j->rule_text, sizeof(j->rule_text), "%.*s \"%.140s\"", width, source,
			 j->rule->text);
	str_make_printable(j->rule_text);
}

/* "example.com:443", "[2001:db8::1]:443", as a rule is written. */
static void rule_for(const char *host, unsigned int port, const char *behind, char text[RULE_SIZE])
{
	/* A question comes without a port; most programs that ask it go on to this one. */
	snprintf(text, RULE_SIZE, strchr(host, ':') ? "[%.253s]:%u%s" : "%.253s:%u%s", host,
		 port ? port : 443, behind);
}

static bool by_class(const struct judgement *j)
{
	return j->cause == JUDGE_SPECIAL || j->cause == JUDGE_REBINDING ||
	       j->cause == JUDGE_OTHER_PORT;
}

static const char *offer_for(const struct judgement *j, const struct words_of *of)
{
	if (j->cause == JUDGE_WRONG_NAME && of->is_odd)
		return "";
	if (j->cause == JUDGE_NO_RULE && of->port == 0)
		return offer_any_port;
	return by_class(j) && class_offers[j->class] ? class_offers[j->class] : offers[j->cause];
}

/* Half a rule would allow something else: an offer is whole or not there. */
static void say_offer(struct judgement *j, const struct words_of *of, const struct values *values)
{
	const char *offer = offer_for(j, of);

	if (expand(offer, values, j->allow_with, sizeof(j->allow_with)) < sizeof(j->allow_with))
		return;
	j->allow_with[0] = '\0';
	if (offer == offer_rule && expand(offer_rule_short, values, j->allow_with,
					  sizeof(j->allow_with)) >= sizeof(j->allow_with))
		j->allow_with[0] = '\0';
}

void judge_say(struct judgement *judgement, const struct words_of *of)
{
	const char *name = of->name ? of->name : "another host";
	char rule[RULE_SIZE], raw[RULE_SIZE], said[RULE_SIZE];
	struct values values = { 0 };

	rule_for(of->host, of->port, "", rule);
	rule_for(judgement->name[0] ? judgement->name : of->host, of->port, " raw", raw);
	rule_for(name, of->port, "", said);
	values.of['h' - 'a'] = of->host;
	values.of['a' - 'a'] = rule;
	values.of['x' - 'a'] = raw;
	values.of['n' - 'a'] = name;
	values.of['s' - 'a'] = said;
	values.of['r' - 'a'] = judgement->rule ? judgement->rule->text : "";
	values.of['c' - 'a'] = address_class_names[judgement->class];
	values.of['e' - 'a'] = match_needs_exact(judgement->class)
				       ? "only a rule for just this address opens it"
				       : "only a rule for it or for a range of its kind opens it";
	values.of['w' - 'a'] = of->wrong;
	snprintf(judgement->object, sizeof(judgement->object), "%.255s",
		 of->port ? rule : of->host);
	str_make_printable(judgement->object);
	if (judgement->is_allowed)
		return;
	say_rule(judgement, of);
	expand(reasons[judgement->cause], &values, judgement->reason, sizeof(judgement->reason));
	say_offer(judgement, of, &values);
}
