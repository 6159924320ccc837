/*
 * judge.c - see judge.h
 */
#include <string.h>

#include "base/macro.h"
#include "egress/judge_words.h"
#include "egress/match.h"

/* What the rules say about a name or an address on a port. */
struct finding {
	enum judge_cause cause;
	const struct host_rule *rule;
};

static void decide(struct judgement *judgement, struct finding finding)
{
	judgement->cause = finding.cause;
	judgement->rule = finding.rule;
	judgement->is_allowed = finding.cause == JUDGE_ALLOWED;
	judgement->is_raw = judgement->is_allowed && finding.rule && finding.rule->is_raw;
}

/* From the widest to the narrowest. */
static unsigned int closeness_of(const struct host_rule *rule)
{
	static const unsigned int ranks[] = {
		[HOST_ANY] = 0, [HOST_ADDRESS] = 1, [HOST_SUBDOMAINS] = 1, [HOST_NAME] = 2
	};

	return ranks[rule->kind];
}

/* Of two rules that match, the one that says more: any protocol, then this very name. */
static bool says_more(const struct host_rule *a, const struct host_rule *b)
{
	if (!b || a->is_raw != b->is_raw)
		return !b || a->is_raw;
	return closeness_of(a) > closeness_of(b);
}

/* A rule that forbids the name on this port; with port 0, on every port. */
static struct finding forbidden_name(const struct policy *policy, const char *name,
				     unsigned int port)
{
	const struct host_rule *deny = match_forbidden_name(&policy->net_deny, name, port);
	const struct host_rule *ask =
		deny ? NULL : match_forbidden_name(&policy->net_ask, name, port);

	if (deny)
		return (struct finding){ JUDGE_DENIED, deny };
	return (struct finding){ ask ? JUDGE_ASKED : JUDGE_NO_RULE, ask };
}

static struct finding unnamed(enum address_class class)
{
	return (struct finding){ class == ADDRESS_PUBLIC ? JUDGE_NO_RULE : JUDGE_SPECIAL, NULL };
}

/* An allow rule that names it: on this port, the one that says more; else the last on another. */
static void weigh(struct finding *finding, const struct host_rule *rule, unsigned int port)
{
	bool is_found = finding->cause == JUDGE_ALLOWED;

	if (!match_port(rule, port)) {
		if (!is_found)
			*finding = (struct finding){ JUDGE_OTHER_PORT, rule };
	} else if (says_more(rule, is_found ? finding->rule : NULL)) {
		*finding = (struct finding){ JUDGE_ALLOWED, rule };
	}
}

static struct finding find_name(const struct policy *policy, const char *name, unsigned int port)
{
	enum address_class class = name_classify(name);
	struct finding finding = forbidden_name(policy, name, port);

	if (finding.rule)
		return finding;
	finding = unnamed(class);
	for (size_t i = 0; i < policy->net_allow.count; i++) {
		const struct host_rule *rule = &policy->net_allow.items[i];

		if (match_name(rule, name, class))
			weigh(&finding, rule, port);
	}
	return finding;
}

static struct finding forbidden_address(const struct policy *policy,
					const unsigned char ip[ADDRESS_BYTES], unsigned int port)
{
	const struct host_rule *deny = match_forbidden_address(&policy->net_deny, ip, port);
	const struct host_rule *ask =
		deny ? NULL : match_forbidden_address(&policy->net_ask, ip, port);

	if (deny)
		return (struct finding){ JUDGE_DENIED, deny };
	return (struct finding){ ask ? JUDGE_ASKED : JUDGE_NO_RULE, ask };
}

/* By the rules for addresses alone. */
static struct finding find_address(const struct policy *policy,
				   const unsigned char ip[ADDRESS_BYTES], unsigned int port,
				   enum address_class class)
{
	struct finding finding = forbidden_address(policy, ip, port);

	if (finding.rule)
		return finding;
	finding = unnamed(class);
	for (size_t i = 0; i < policy->net_allow.count; i++) {
		const struct host_rule *rule = &policy->net_allow.items[i];

		if (match_address(rule, ip, class))
			weigh(&finding, rule, port);
	}
	return finding;
}

/*
 * Is there a port on which the name is allowed? Every allow rule is tried on its own port; one for
 * all ports is undone only by a rule that forbids all ports.
 */
static struct finding find_any_port(const struct policy *policy, const char *name)
{
	enum address_class class = name_classify(name);
	struct finding best = { .cause = JUDGE_NO_RULE };

	for (size_t i = 0; i < policy->net_allow.count; i++) {
		const struct host_rule *rule = &policy->net_allow.items[i];
		struct finding against;

		if (!match_name(rule, name, class))
			continue;
		against = forbidden_name(policy, name, rule->port);
		if (against.rule) {
			best = best.cause == JUDGE_ALLOWED ? best : against;
			continue;
		}
		/* A rule for the very name spares the wildcard's allowance, and so does one for all. */
		if (best.cause != JUDGE_ALLOWED || rule->kind == HOST_NAME ||
		    (rule->kind == HOST_ANY && best.rule->kind == HOST_SUBDOMAINS))
			best = (struct finding){ JUDGE_ALLOWED, rule };
	}
	if (best.cause == JUDGE_NO_RULE)
		best = forbidden_name(policy, name, 0);
	if (best.cause == JUDGE_NO_RULE && class != ADDRESS_PUBLIC)
		best.cause = JUDGE_SPECIAL;
	return best;
}

void judge_question(const struct judge *judge, const char *name, struct tunnel *tunnel,
		    uint64_t now_ms, struct judgement *ret_judgement)
{
	struct judgement j = { .cause = JUDGE_NOT_A_NAME };
	struct words_of of = { .policy = judge->policy, .host = name };
	struct address address;

	if (name_read(name, strlen(name), j.name, &address) == NAME_HOST) {
		of.host = j.name;
		j.class = name_classify(j.name);
		decide(&j, find_any_port(judge->policy, j.name));
	}
	if (j.is_allowed && tunnel && j.rule->kind == HOST_SUBDOMAINS &&
	    tunnel_ask(tunnel, j.rule->name, j.name, now_ms) != TUNNEL_FINE)
		decide(&j, (struct finding){ JUDGE_TUNNEL, j.rule });
	judge_say(&j, &of);
	*ret_judgement = j;
}

/* The first rule of a list that forbids the alias on a port on which the name is allowed. */
static const struct host_rule *alias_rule(const struct policy *policy,
					  const struct host_rules *rules, const char *name,
					  const char *alias)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct host_rules one = { .items = &rules->items[i], .count = 1 };
		unsigned int port = rules->items[i].port;

		if (match_forbidden_name(&one, alias, port) &&
		    (port == 0 || find_name(policy, name, port).cause == JUDGE_ALLOWED))
			return &rules->items[i];
	}
	return NULL;
}

void judge_alias(const struct judge *judge, const char *name, const char *alias,
		 struct judgement *ret_judgement)
{
	const struct policy *policy = judge->policy;
	const struct host_rule *deny = alias_rule(policy, &policy->net_deny, name, alias);
	const struct host_rule *ask = alias_rule(policy, &policy->net_ask, name, alias);
	struct judgement j = { .class = name_classify(alias) };
	struct words_of of = { .policy = policy, .host = alias, .name = name };

	if (deny)
		decide(&j, (struct finding){ JUDGE_DENIED, deny });
	else if (ask)
		decide(&j, (struct finding){ JUDGE_ASKED, ask });
	else
		decide(&j, (struct finding){ JUDGE_ALLOWED, NULL });
	judge_say(&j, &of);
	*ret_judgement = j;
}

void judge_answer(const struct judge *judge, const char *name,
		  const unsigned char ip[ADDRESS_BYTES], struct judgement *ret_judgement)
{
	struct judgement j = { .class = address_classify(ip, judge->own) };
	struct finding finding = find_address(judge->policy, ip, 0, j.class);
	struct address address = { .port = 0 };
	char text[ADDRESS_TEXT_SIZE];
	struct words_of of = { .policy = judge->policy, .host = text, .name = name };
	const struct host_rule *led_by = find_any_port(judge->policy, name).rule;

	/* The remedy has the port of the name's rule. */
	of.port = led_by ? led_by->port : 0;
	memcpy(address.ip, ip, ADDRESS_BYTES);
	address_text(&address, text);
	/* A rule that forbids some ports is asked at the connection. */
	if (finding.cause == JUDGE_SPECIAL)
		finding.cause = JUDGE_REBINDING;
	else if (finding.cause == JUDGE_NO_RULE)
		finding.cause = JUDGE_ALLOWED;
	decide(&j, finding);
	judge_say(&j, &of);
	*ret_judgement = j;
}

/* What the best of the names says that the address was told for; *ret_name is that name. */
static struct finding find_told(const struct judge *judge, const struct address *address,
				uint64_t now_ms, const char **ret_name)
{
	struct finding best = { .cause = JUDGE_UNRESOLVED };
	const char *name;
	size_t cursor = 0;

	*ret_name = NULL;
	while (judge->answers &&
	       (name = answers_next(judge->answers, address->ip, now_ms, &cursor))) {
		struct finding one = find_name(judge->policy, name, address->port);
		bool allowed = one.cause == JUDGE_ALLOWED;

		/* The words are about the address, which is not special by its name. */
		if (one.cause == JUDGE_SPECIAL)
			one.cause = JUDGE_NO_RULE;
		if (best.cause == JUDGE_ALLOWED ? !allowed || !says_more(one.rule, best.rule)
						: !allowed && *ret_name)
			continue;
		best = one;
		*ret_name = name;
	}
	return best;
}

static bool has_name_rules(const struct host_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		if (rules->items[i].kind != HOST_ADDRESS)
			return true;
	return false;
}

/* Joins what the rules for addresses and those for names say. */
static struct finding join(const struct judge *judge, struct finding direct, struct finding told,
			   enum address_class class)
{
	bool by_name = told.cause == JUDGE_ALLOWED;

	if (direct.cause == JUDGE_DENIED || direct.cause == JUDGE_ASKED)
		return direct;
	if (direct.cause == JUDGE_ALLOWED)
		return by_name && told.rule->is_raw && !direct.rule->is_raw ? told : direct;
	if (class != ADDRESS_PUBLIC) {
		if (direct.cause == JUDGE_OTHER_PORT)
			return direct;
		return (struct finding){ by_name ? JUDGE_REBINDING : JUDGE_SPECIAL, NULL };
	}
	if (direct.cause == JUDGE_OTHER_PORT && !by_name)
		return direct;
	if (told.cause == JUDGE_UNRESOLVED && !has_name_rules(&judge->policy->net_allow))
		told.cause = JUDGE_NO_RULE;
	return told;
}

/* The judgement without its words. *ret_told is the name that led here, or NULL. */
static void weigh_address(const struct judge *judge, const struct address *address, uint64_t now_ms,
			  struct judgement *judgement, const char **ret_told)
{
	struct finding direct, told;

	judgement->class = address_classify(address->ip, judge->own);
	*ret_told = NULL;
	if (address->port == 0 || address->port > UINT16_MAX) {
		decide(judgement, (struct finding){ JUDGE_NO_RULE, NULL });
		return;
	}
	direct = find_address(judge->policy, address->ip, address->port, judgement->class);
	told = find_told(judge, address, now_ms, ret_told);
	decide(judgement, join(judge, direct, told, judgement->class));
	if (*ret_told && told.cause == JUDGE_ALLOWED)
		strcpy(judgement->name, *ret_told);
}

/* A refusal is told in terms of the name when a name led here. */
static const char *host_of(const struct judgement *judgement, const char *told, const char *address)
{
	bool by_name = judgement->rule && judgement->rule->kind != HOST_ADDRESS;

	return told && (by_name || judgement->cause == JUDGE_NO_RULE) ? told : address;
}

void judge_address(const struct judge *judge, const struct address *address, uint64_t now_ms,
		   struct judgement *ret_judgement)
{
	struct judgement j = { 0 };
	char text[ADDRESS_TEXT_SIZE];
	struct words_of of = { .policy = judge->policy, .port = address->port };

	weigh_address(judge, address, now_ms, &j, &of.name);
	address_text(address, text);
	of.host = host_of(&j, of.name, text);
	judge_say(&j, &of);
	*ret_judgement = j;
}

/* The connection is allowed by a rule for the address: its first bytes may say what no rule forbids. */
static struct finding weigh_by_address(const struct judge *judge, const struct address *address,
				       const struct first_bytes *first,
				       const struct host_rule *rule)
{
	struct finding against = { .cause = JUDGE_NO_RULE };

	if (first->is_address && memcmp(first->address.ip, address->ip, ADDRESS_BYTES) != 0)
		return (struct finding){ JUDGE_WRONG_NAME, rule };
	if (first->name[0])
		against = forbidden_name(judge->policy, first->name, address->port);
	return against.rule ? against : (struct finding){ JUDGE_ALLOWED, rule };
}

/* By a name: the bytes must say one that this address was told for, and that is allowed here. */
static struct finding weigh_by_name(const struct judge *judge, const struct address *address,
				    uint64_t connected_ms, const struct first_bytes *first,
				    const struct host_rule *rule)
{
	struct finding said;

	if (first->kind == FIRST_TLS_NO_NAME || first->kind == FIRST_HTTP_NO_NAME)
		return (struct finding){ JUDGE_NO_NAME, rule };
	if (first->is_address || !judge->answers ||
	    !answers_has(judge->answers, address->ip, first->name, connected_ms))
		return (struct finding){ JUDGE_WRONG_NAME, rule };
	said = find_name(judge->policy, first->name, address->port);
	if (said.cause == JUDGE_NO_RULE || said.cause == JUDGE_SPECIAL)
		return (struct finding){ JUDGE_WRONG_NAME, rule };
	return said;
}

static struct finding weigh_first(const struct judge *judge, const struct address *address,
				  uint64_t connected_ms, const struct first_bytes *first,
				  const struct host_rule *rule)
{
	if (first->kind == FIRST_MORE || first->kind == FIRST_OTHER || first->kind == FIRST_BAD)
		return (struct finding){ JUDGE_PROTOCOL, rule };
	if (first->port && first->port != address->port)
		return (struct finding){ JUDGE_PROTOCOL, rule };
	if (rule->kind == HOST_ADDRESS || rule->kind == HOST_ANY)
		return weigh_by_address(judge, address, first, rule);
	return weigh_by_name(judge, address, connected_ms, first, rule);
}

/* What the words say about the bytes. */
static const char *wrong_with(const struct first_bytes *first)
{
	if (first->wrong)
		return first->wrong;
	return first->kind == FIRST_MORE ? "the client sent no whole request"
					 : "the Host of the HTTP request names another port";
}

void judge_first(const struct judge *judge, const struct address *address, uint64_t connected_ms,
		 const struct first_bytes *first, struct judgement *ret_judgement)
{
	struct judgement j = { 0 };
	char text[ADDRESS_TEXT_SIZE], said[ADDRESS_TEXT_SIZE];
	struct words_of of = { .policy = judge->policy,
			       .port = address->port,
			       .wrong = wrong_with(first) };

	address_text(address, text);
	weigh_address(judge, address, connected_ms, &j, &of.name);
	of.host = host_of(&j, of.name, text);
	if (j.is_allowed && !j.is_raw) {
		decide(&j, weigh_first(judge, address, connected_ms, first, j.rule));
		address_text(&first->address, said);
		of.name = first->is_address ? said : first->name[0] ? first->name : of.name;
		of.is_odd = first->is_address || name_classify(first->name) != ADDRESS_PUBLIC;
	}
	judge_say(&j, &of);
	*ret_judgement = j;
}

void judge_again(const struct judge *judge, const struct judged *judged,
		 struct judgement *ret_judgement)
{
	const struct address *address = &judged->address;
	const char *name = judged->name;
	struct judgement j = { .class = address_classify(address->ip, judge->own) };
	struct finding direct = find_address(judge->policy, address->ip, address->port, j.class);
	struct finding told = { .cause = JUDGE_UNRESOLVED }, against = { 0 };
	struct words_of of = { .policy = judge->policy,
			       .port = address->port,
			       .name = name[0] ? name : NULL,
			       .wrong = "nobody looked at its first bytes" };
	char text[ADDRESS_TEXT_SIZE];

	if (name[0])
		against = forbidden_name(judge->policy, name, address->port);
	if (name[0] && judged->is_told)
		told = find_name(judge->policy, name, address->port);
	if (told.cause == JUDGE_SPECIAL)
		told.cause = JUDGE_NO_RULE;
	decide(&j, against.rule ? against : join(judge, direct, told, j.class));
	if (j.is_allowed && judged->is_raw && !j.is_raw)
		decide(&j, (struct finding){ JUDGE_PROTOCOL, j.rule });
	address_text(address, text);
	of.host = host_of(&j, of.name, text);
	judge_say(&j, &of);
	*ret_judgement = j;
}
