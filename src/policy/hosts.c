/*
 * hosts.c - rules for the network: names, subdomains and addresses, each with a port
 *
 *	api.example.com:443       this name
 *	*.example.com:443         every name below it, not the apex
 *	10.0.0.0/8:5432           addresses; [2001:db8::]/32:443 for IPv6; without a prefix, this one
 *	93.184.0.0/16:443 public  the same, but for what is special in it (private networks...)
 *	*:443                     every name, and every public address
 *	host:*                    every port
 *	db.example.com:5432 raw   any protocol, not only TLS or HTTP that names the host
 *
 * Deny beats ask beats allow; what no rule names is denied. A name is compared as a name and an
 * address as an address: neither rule speaks for the other.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "policy/types.h"

#define HOSTS_MAX 1024 /* in one list: narrowing compares every pair */

static const char port_example[] = "write it like api.example.com:443";
static const char no_memory[] = "does not fit into memory";

/* Splits "host:port" at the last colon outside brackets. NULL, or what is wrong. */
static const char *split_port(const char *text, size_t len, size_t *ret_host_len,
			      unsigned int *ret_port)
{
	size_t colon = len;
	unsigned int port = 0;

	while (colon > 0 && text[colon - 1] != ':' && text[colon - 1] != ']')
		colon--;
	if (colon == 0 || text[colon - 1] != ':')
		return "has no port";
	if (len - colon == 1 && text[colon] == '*') {
		*ret_port = 0;
		*ret_host_len = colon - 1;
		return NULL;
	}
	if (colon == len || len - colon > 5)
		return "has a port that is not a number from 1 to 65535";
	for (size_t i = colon; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return "has a port that is not a number from 1 to 65535";
		port = port * 10 + (unsigned int)(text[i] - '0');
	}
	if (port < 1 || port > 65535 || text[colon] == '0')
		return "has a port that is not a number from 1 to 65535";
	*ret_port = port;
	*ret_host_len = colon - 1;
	return NULL;
}

/* Others read a name whose last label is a number, also a hexadecimal one, as an IPv4 address. */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;

	if (str_starts(last, "0x"))
		return last[2 + strspn(last + 2, "0123456789abcdef")] == '\0';
	return last[strspn(last, "0123456789")] == '\0';
}

/* Letters, digits, hyphens and underscores in labels of 1 to 63 bytes; at least one letter, so no
 * odd number. */
static const char *check_name(const char *name)
{
	size_t label = 0;
	bool letter = false;

	if (strlen(name) > 253)
		return "is longer than 253 bytes";
	for (const char *p = name;; p++) {
		if (*p == '.' || *p == '\0') {
			if (label == 0)
				return "has an empty label";
			if (label > 63)
				return "has a label of more than 63 bytes";
			if (p[-1] == '-' || p[-(ptrdiff_t)label] == '-')
				return "has a label that begins or ends with a hyphen";
			label = 0;
			if (*p == '\0')
				break;
			continue;
		}
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-' ||
		      *p == '_'))
			return "has a character that no host name has (write international names "
			       "as xn--...)";
		letter |= *p >= 'a' && *p <= 'z';
		label++;
	}
	return letter && !ends_in_number(name)
		       ? NULL
		       : "is neither a name nor an address in its usual spelling";
}

static void clear_host_bits(unsigned char address[16], unsigned int prefix)
{
	for (unsigned int bit = prefix; bit < 128; bit++)
		address[bit / 8] &= (unsigned char)~(0x80 >> bit % 8);
}

/* An IPv4 address as the IPv6 address that it is mapped to. */
static bool read_ipv4(const char *text, unsigned char address[static 16])
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, &v4, 4);
	return true;
}

static bool read_prefix(const char *text, unsigned int most, unsigned int *ret_prefix)
{
	return strspn(text, "0123456789") == strlen(text) && strlen(text) <= 3 &&
	       !(text[0] == '0' && text[1]) && sscanf(text, "%u", ret_prefix) == 1 &&
	       *ret_prefix <= most;
}

/* "10.0.0.0/8", "10.1.2.3", "[::1]", "[fd00::]/8" without the port. 1 when it is an address, 0 when
 * it is not. */
static int parse_address(const char *text, struct host_rule *rule, const char **ret_wrong)
{
	char copy[64], *slash, *bracket;
	bool v6 = text[0] == '[';
	unsigned int most = v6 ? 128 : 32, prefix = most;

	if (strlen(text) >= sizeof(copy))
		return 0;
	strcpy(copy, text + (v6 ? 1 : 0));
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	bracket = v6 ? strchr(copy, ']') : NULL;
	if (v6 && (!bracket || bracket[1] != '\0')) {
		*ret_wrong = "has an IPv6 address that is not in brackets";
		return 1;
	}
	if (bracket)
		*bracket = '\0';
	if (v6 ? inet_pton(AF_INET6, copy, rule->address) != 1 : !read_ipv4(copy, rule->address)) {
		*ret_wrong = v6 ? "has brackets around something that is not an IPv6 address"
				: "has a slash behind something that is not an address";
		return v6 || slash;
	}
	if (slash && !read_prefix(slash, most, &prefix))
		*ret_wrong = "has a prefix length out of range";
	rule->prefix = v6 ? prefix : 96 + prefix;
	clear_host_bits(rule->address, rule->prefix);
	return 1;
}

static int address_text(const struct host_rule *rule, struct buf *out)
{
	static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	char text[INET6_ADDRSTRLEN];
	bool v4 = rule->prefix >= 96 && memcmp(rule->address, mapped, 12) == 0;
	unsigned int most = v4 ? 32 : 128, prefix = v4 ? rule->prefix - 96 : rule->prefix;

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? rule->address + 12 : rule->address, text,
		  sizeof(text));
	buf_printf(out, v4 ? "%s" : "[%s]", text);
	return prefix == most ? 0 : buf_printf(out, "/%u", prefix);
}

static void host_rule_done(struct host_rule *rule)
{
	free(rule->text);
	free(rule->name);
	free(rule->origin.source);
}

static int host_rule_finish(struct host_rule *rule)
{
	_cleanup_(buf_done) struct buf text = BUF(400);

	if (rule->kind == HOST_ADDRESS)
		address_text(rule, &text);
	else if (rule->kind == HOST_ANY)
		buf_str(&text, "*");
	else
		buf_printf(&text, "%s%s", rule->kind == HOST_SUBDOMAINS ? "*." : "", rule->name);
	if (rule->port)
		buf_printf(&text, ":%u", rule->port);
	else
		buf_str(&text, ":*");
	if (rule->is_public)
		buf_str(&text, " public");
	if (rule->is_raw)
		buf_str(&text, " raw");
	if (buf_failed(&text))
		return buf_failed(&text);
	rule->text = buf_take(&text);
	return rule->text ? 0 : -ENOMEM;
}

/* Takes a word away that stands behind a rule. */
static bool take_word(const char *text, size_t *len, const char *word)
{
	size_t n = strlen(word);

	if (*len < n || memcmp(text + *len - n, word, n) != 0)
		return false;
	*len -= n;
	return true;
}

/* NULL, or what is wrong with the text. */
static const char *host_rule_parse(const char *text, struct host_rule *rule)
{
	_cleanup_free_ char *host = NULL;
	size_t len = strlen(text), host_len;
	const char *wrong;

	if (len > 300)
		return "is too long";
	rule->is_raw = take_word(text, &len, " raw");
	rule->is_public = take_word(text, &len, " public");
	wrong = split_port(text, len, &host_len, &rule->port);
	if (wrong)
		return wrong;
	host = strndup(text, host_len);
	if (!host)
		return no_memory;
	for (char *p = host; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	wrong = NULL;
	if (parse_address(host, rule, &wrong)) {
		rule->kind = HOST_ADDRESS;
		return wrong;
	}
	if (rule->is_public)
		return "says public, which is for addresses";
	if (str_equal(host, "*")) {
		rule->kind = HOST_ANY;
		return NULL;
	}
	rule->kind = str_starts(host, "*.") ? HOST_SUBDOMAINS : HOST_NAME;
	wrong = check_name(rule->kind == HOST_SUBDOMAINS ? host + 2 : host);
	if (wrong)
		return wrong;
	rule->name = strdup(rule->kind == HOST_SUBDOMAINS ? host + 2 : host);
	return rule->name ? NULL : no_memory;
}

/* Takes over the rule; keeps the list sorted by text, without duplicates. */
static int hosts_put(struct host_rules *rules, struct host_rule rule)
{
	struct host_rule *items;
	size_t at = 0;

	assert(rule.text);
	while (at < rules->count && strcmp(rules->items[at].text, rule.text) < 0)
		at++;
	if (at < rules->count && str_equal(rules->items[at].text, rule.text)) {
		host_rule_done(&rule);
		return 0;
	}
	items = realloc(rules->items, (rules->count + 1) * sizeof(*items));
	if (!items) {
		host_rule_done(&rule);
		return -ENOMEM;
	}
	rules->items = items;
	memmove(items + at + 1, items + at, (rules->count - at) * sizeof(*items));
	items[at] = rule;
	rules->count++;
	return 0;
}

static int parse_host(const struct place *place, const struct node *node, struct host_rules *rules,
		      struct err *err)
{
	struct host_rule rule = { 0 };
	const char *wrong;

	if (node->kind != NODE_STRING)
		return place_error(place, node, err, "expected text, found %s; %s",
				   node_kind_name(node->kind), port_example);
	wrong = host_rule_parse(node->text, &rule);
	if (wrong) {
		host_rule_done(&rule);
		if (wrong == no_memory)
			return -ENOMEM;
		return place_error(place, node, err, "\"%.200s\" %s; %s", node->text, wrong,
				   port_example);
	}
	if (host_rule_finish(&rule) < 0 || origin_make(place, node, &rule.origin) < 0) {
		host_rule_done(&rule);
		return -ENOMEM;
	}
	return hosts_put(rules, rule);
}

static int parse_hosts(const struct place *place, const struct node *node, void *field,
		       struct err *err)
{
	struct host_rules *rules = field;

	if (place->is_flag)
		return parse_host(place, node, rules, err);
	if (node->kind != NODE_LIST)
		return place_error(place, node, err, "expected a list, found %s",
				   node_kind_name(node->kind));
	if (node->count == 0)
		rules->cleared = true;
	if (node->count > HOSTS_MAX)
		return place_error(place, node, err, "has more than %d entries", HOSTS_MAX);
	for (size_t i = 0; i < node->count; i++) {
		int r = parse_host(place, node->entries[i].value, rules, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void done_hosts(void *field)
{
	struct host_rules *rules = field;

	for (size_t i = 0; i < rules->count; i++)
		host_rule_done(&rules->items[i]);
	free(rules->items);
	*rules = (struct host_rules){ 0 };
}

static int host_rule_copy(const struct host_rule *from, struct host_rule *ret_rule)
{
	struct host_rule rule = *from;

	rule.text = strdup(from->text);
	rule.name = from->name ? strdup(from->name) : NULL;
	rule.origin.source = NULL;
	if (!rule.text || (from->name && !rule.name) ||
	    origin_copy(&from->origin, &rule.origin) < 0) {
		host_rule_done(&rule);
		return -ENOMEM;
	}
	*ret_rule = rule;
	return 0;
}

static int hosts_add_copy(struct host_rules *rules, const struct host_rule *from)
{
	struct host_rule rule;
	int r = host_rule_copy(from, &rule);

	return r < 0 ? r : hosts_put(rules, rule);
}

static int hosts_add_all(struct host_rules *into, const struct host_rules *from)
{
	for (size_t i = 0; i < from->count; i++) {
		int r = hosts_add_copy(into, &from->items[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int merge_hosts(void *field, const void *later)
{
	struct host_rules *into = field;
	const struct host_rules *from = later;

	if (from->cleared) {
		done_hosts(into);
		into->cleared = true;
	}
	return hosts_add_all(into, from);
}

static int merge_denied(void *field, const void *later)
{
	return hosts_add_all(field, later);
}

static bool name_is_below(const char *name, const char *apex)
{
	size_t a = strlen(name), b = strlen(apex);

	return a > b + 1 && name[a - b - 1] == '.' && str_equal(name + a - b, apex);
}

/* Is everything that b matches matched by a as well? */
static bool host_covers(const struct host_rule *a, const struct host_rule *b)
{
	unsigned char masked[16];

	if ((a->port && a->port != b->port) || (b->is_raw && !a->is_raw) ||
	    (a->is_public && !b->is_public))
		return false;
	switch (a->kind) {
	case HOST_ANY:
		return b->kind != HOST_ADDRESS || b->is_public;
	case HOST_NAME:
		return b->kind == HOST_NAME && str_equal(a->name, b->name);
	case HOST_SUBDOMAINS:
		if (b->kind == HOST_SUBDOMAINS)
			return str_equal(a->name, b->name) || name_is_below(b->name, a->name);
		return b->kind == HOST_NAME && name_is_below(b->name, a->name);
	case HOST_ADDRESS:
		if (b->kind != HOST_ADDRESS || b->prefix < a->prefix)
			return false;
		memcpy(masked, b->address, sizeof(masked));
		clear_host_bits(masked, a->prefix);
		return memcmp(masked, a->address, sizeof(masked)) == 0;
	}
	return false;
}

/* Whether a rule leaves special addresses alone. */
static bool is_public_only(const struct host_rule *rule)
{
	return rule->kind == HOST_ANY || rule->is_public;
}

/* What both rules match, as one rule: the narrower host with the narrower port, raw only where both
 * are. */
static int host_intersect(const struct host_rule *a, const struct host_rule *b,
			  struct host_rules *both)
{
	struct host_rule wide_a = *a, wide_b = *b, rule;
	const struct host_rule *narrow;
	int r;

	if (a->port && b->port && a->port != b->port)
		return 0;
	wide_a.port = wide_b.port = 0;
	wide_a.is_raw = wide_b.is_raw = true;
	wide_a.is_public = wide_b.is_public = true;
	if (host_covers(&wide_a, &wide_b))
		narrow = b;
	else if (host_covers(&wide_b, &wide_a))
		narrow = a;
	else
		return 0;
	r = host_rule_copy(narrow, &rule);
	if (r < 0)
		return r;
	rule.port = a->port ? a->port : b->port;
	rule.is_raw = a->is_raw && b->is_raw;
	rule.is_public = rule.kind == HOST_ADDRESS && (is_public_only(a) || is_public_only(b));
	free(rule.text);
	rule.text = NULL;
	if (host_rule_finish(&rule) < 0) {
		host_rule_done(&rule);
		return -ENOMEM;
	}
	return hosts_put(both, rule);
}

static int hosts_intersect(const struct host_rules *a, const struct host_rules *b,
			   struct host_rules *both)
{
	for (size_t i = 0; i < a->count; i++)
		for (size_t k = 0; k < b->count; k++) {
			int r = host_intersect(&a->items[i], &b->items[k], both);

			if (r < 0)
				return r;
		}
	return 0;
}

/*
 * allow and ask depend on each other (allowed here and to be asked there is to be asked), so
 * narrowing takes both at once: it is done for the key net.allow, which stands first, and finds
 * net.ask beside it.
 */
static int narrow_allow_and_ask(void *field, const void *by)
{
	struct policy *a = (struct policy *)((char *)field - offsetof(struct policy, net_allow));
	const struct policy *b =
		(const struct policy *)((const char *)by - offsetof(struct policy, net_allow));
	struct host_rules allow = { 0 }, ask = { 0 };
	int r = hosts_intersect(&a->net_allow, &b->net_allow, &allow);

	r = r < 0 ? r : hosts_intersect(&a->net_ask, &b->net_ask, &ask);
	r = r < 0 ? r : hosts_intersect(&a->net_allow, &b->net_ask, &ask);
	r = r < 0 ? r : hosts_intersect(&a->net_ask, &b->net_allow, &ask);
	if (r < 0) {
		done_hosts(&allow);
		done_hosts(&ask);
		return r;
	}
	done_hosts(&a->net_allow);
	done_hosts(&a->net_ask);
	a->net_allow = allow;
	a->net_ask = ask;
	return 0;
}

static int narrow_with_allow(void *field, const void *by)
{
	(void)field;
	(void)by;
	return 0;
}

static int hosts_to_node(const void *field, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *list = node_list();
	const struct host_rules *rules = field;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < rules->count; i++) {
		int r = node_add(list, node_string(rules->items[i].text));

		if (r < 0)
			return r;
	}
	*ret_node = take_ptr(&list);
	return 0;
}

static int schema_hosts(struct node *schema)
{
	_cleanup_(node_freep) struct node *item = node_map();
	int r = item ? node_set(item, "type", node_string("string")) : -ENOMEM;

	r = r < 0 ? r
		  : node_set(item, "pattern",
			     node_string("^\\S+:([0-9]{1,5}|\\*)( public)?( raw)?$"));
	r = r < 0 ? r : node_set(schema, "type", node_string("array"));
	return r < 0 ? r : node_set(schema, "items", take_ptr(&item));
}

static bool is_set_hosts(const void *field)
{
	const struct host_rules *rules = field;

	return rules->count > 0;
}

static void init_hosts(void *field)
{
	*(struct host_rules *)field = (struct host_rules){ 0 };
}

const struct type_ops hosts_allow_ops = { parse_hosts,   merge_hosts,  narrow_allow_and_ask,
					  hosts_to_node, schema_hosts, is_set_hosts,
					  init_hosts,    done_hosts };
const struct type_ops hosts_ask_ops = { parse_hosts,   merge_hosts,  narrow_with_allow,
					hosts_to_node, schema_hosts, is_set_hosts,
					init_hosts,    done_hosts };
const struct type_ops hosts_denied_ops = { parse_hosts,  merge_denied, merge_denied, hosts_to_node,
					   schema_hosts, is_set_hosts, init_hosts,   done_hosts };

/* A rule that allows any protocol says more than one that does not: it is the answer where both
 * match. */
static const struct host_rule *hosts_match(const struct host_rules *rules,
					   const struct host_rule *target)
{
	const struct host_rule *found = NULL;

	for (size_t i = 0; i < rules->count; i++) {
		struct host_rule rule = rules->items[i];

		rule.is_raw = true;
		if (host_covers(&rule, target) && (!found || rules->items[i].is_raw))
			found = &rules->items[i];
	}
	return found;
}

enum verdict policy_host_verdict(const struct policy *policy, const char *name,
				 const unsigned char address[16], unsigned int port,
				 const struct host_rule **ret_rule)
{
	const struct {
		const struct host_rules *rules;
		enum verdict verdict;
	} lists[] = {
		{ &policy->net_deny, VERDICT_DENY },
		{ &policy->net_ask, VERDICT_ASK },
		{ &policy->net_allow, VERDICT_ALLOW },
	};
	char copy[256];
	struct host_rule target = { .kind = name ? HOST_NAME : HOST_ADDRESS,
				    .port = port,
				    .prefix = 128,
				    .is_public = !name };

	*ret_rule = NULL;
	if (port == 0)
		return VERDICT_DENY;
	if (name) {
		if (strlen(name) >= sizeof(copy))
			return VERDICT_DENY;
		strcpy(copy, name);
		target.name = copy;
	} else {
		memcpy(target.address, address, sizeof(target.address));
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		*ret_rule = hosts_match(lists[i].rules, &target);
		if (*ret_rule)
			return lists[i].verdict;
	}
	return VERDICT_DENY;
}
