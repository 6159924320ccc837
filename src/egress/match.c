/*
 * match.c - see match.h
 */
#include "base/macro.h"
#include "egress/match.h"
#include "egress/name.h"

/*
 * How closely an allow rule must name an address of a class. Whoever writes 10.0.0.0/8 means a
 * private network; nobody who writes 169.254.0.0/16 thinks of what it gives away.
 */
static const enum closeness {
	ANY_RULE,
	RULE_IN_RANGE,
	EXACT_RULE
} closeness[ADDRESS_CLASS_COUNT] = {
	[ADDRESS_PUBLIC] = ANY_RULE,
	[ADDRESS_DOCUMENTATION] = RULE_IN_RANGE,
	[ADDRESS_BENCHMARK] = RULE_IN_RANGE,
	[ADDRESS_RESERVED] = RULE_IN_RANGE,
	[ADDRESS_TRANSLATION] = RULE_IN_RANGE,
	[ADDRESS_SHARED] = RULE_IN_RANGE,
	[ADDRESS_PRIVATE] = RULE_IN_RANGE,
	[ADDRESS_MULTICAST] = EXACT_RULE,
	[ADDRESS_BROADCAST] = EXACT_RULE,
	[ADDRESS_LINK_LOCAL] = EXACT_RULE,
	[ADDRESS_UNSPECIFIED] = EXACT_RULE,
	[ADDRESS_LOOPBACK] = EXACT_RULE,
	[ADDRESS_OWN] = EXACT_RULE,
	[ADDRESS_METADATA] = EXACT_RULE,
};

bool match_needs_exact(enum address_class class)
{
	return closeness[class] == EXACT_RULE;
}

bool match_port(const struct host_rule *rule, unsigned int port)
{
	return rule->port == 0 || port == 0 || rule->port == port;
}

static bool takes_name(const struct host_rule *rule, const char *name)
{
	switch (rule->kind) {
	case HOST_NAME:
		return str_equal(rule->name, name);
	case HOST_SUBDOMAINS:
		return name_is_under(name, rule->name);
	case HOST_ANY:
		return true;
	case HOST_ADDRESS:
		return false;
	}
	return false;
}

bool match_name(const struct host_rule *rule, const char *name, enum address_class class)
{
	return takes_name(rule, name) && (class == ADDRESS_PUBLIC || rule->kind == HOST_NAME);
}

static bool takes_address(const struct host_rule *rule, const unsigned char ip[ADDRESS_BYTES])
{
	return rule->kind == HOST_ANY ||
	       (rule->kind == HOST_ADDRESS && address_has_prefix(ip, rule->address, rule->prefix));
}

bool match_address(const struct host_rule *rule, const unsigned char ip[ADDRESS_BYTES],
		   enum address_class class)
{
	unsigned int range;

	if (!takes_address(rule, ip))
		return false;
	/* "[::]/0" says IPv6. */
	if (rule->kind == HOST_ADDRESS && rule->prefix < 96 && address_is_ipv4(ip))
		return false;
	if (rule->kind == HOST_ANY || rule->is_public)
		return class == ADDRESS_PUBLIC;
	if (closeness[class] == ANY_RULE || rule->prefix == 8 * ADDRESS_BYTES)
		return true;
	range = address_range_prefix(ip);
	return closeness[class] == RULE_IN_RANGE && range > 0 && rule->prefix >= range;
}

static bool forbids_port(const struct host_rule *rule, unsigned int port)
{
	return rule->port == 0 || rule->port == port;
}

const struct host_rule *match_forbidden_name(const struct host_rules *rules, const char *name,
					     unsigned int port)
{
	for (size_t i = 0; i < rules->count; i++)
		if (forbids_port(&rules->items[i], port) && takes_name(&rules->items[i], name))
			return &rules->items[i];
	return NULL;
}

static bool takes_any(const struct host_rule *rule, const unsigned char ip[ADDRESS_BYTES],
		      const unsigned char (*inner)[ADDRESS_BYTES], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (takes_address(rule, inner[i]))
			return true;
	return takes_address(rule, ip);
}

const struct host_rule *match_forbidden_address(const struct host_rules *rules,
						const unsigned char ip[ADDRESS_BYTES],
						unsigned int port)
{
	unsigned char inner[ADDRESS_INNER_MAX][ADDRESS_BYTES];
	size_t count = address_inner(ip, inner);

	for (size_t i = 0; i < rules->count; i++)
		if (forbids_port(&rules->items[i], port) &&
		    takes_any(&rules->items[i], ip, (const unsigned char(*)[ADDRESS_BYTES])inner,
			      count))
			return &rules->items[i];
	return NULL;
}
