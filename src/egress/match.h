/*
 * match.h - which rule speaks for a name or an address (for judge.c)
 *
 * Stricter than a comparison of rules: a special place needs a rule that means it. Port 0 in a
 * question stands for any port where a rule allows, and for all of them where one forbids.
 */
#ifndef BRIG_EGRESS_MATCH_H
#define BRIG_EGRESS_MATCH_H

#include "egress/address.h"
#include "policy/policy.h"

/* Takes the rule at its word: for the lists that forbid. Inner addresses count too. */
const struct host_rule *match_forbidden_name(const struct host_rules *rules, const char *name,
					     unsigned int port);
const struct host_rule *match_forbidden_address(const struct host_rules *rules,
						const unsigned char ip[ADDRESS_BYTES],
						unsigned int port);

/* Does an allow rule speak for this name, port aside? A wildcard does not for a special name. */
bool match_name(const struct host_rule *rule, const char *name, enum address_class class);

/* Does an allow rule speak for this address, port aside? */
bool match_address(const struct host_rule *rule, const unsigned char ip[ADDRESS_BYTES],
		   enum address_class class);

/* Whether an address of this class must be named by itself, not by a range. */
bool match_needs_exact(enum address_class class);

bool match_port(const struct host_rule *rule, unsigned int port);

#endif
