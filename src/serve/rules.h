/*
 * rules.h - what a client of the field says about the network, as rules of a policy
 *
 *	{ "allowOut": ["api.example.com", "1.1.1.0/24"], "denyOut": ["0.0.0.0/0"] }
 *
 * There, everything that is public is open unless denyOut names it, and allowOut wins over denyOut. Here, nothing is
 * open unless a rule names it, and deny wins over allow. So:
 *
 *	denyOut has 0.0.0.0/0, or there is to be no internet   what allowOut names, and nothing else
 *	else                                                   anything public, without what denyOut names; from
 *	                                                       that, what allowOut names is cut out
 *
 * A name is good for TLS and HTTP that names it, on any port; an address for anything over TCP. What only
 * somebody on this host may open (its own addresses, loopback, private and other special ranges) cannot be
 * opened by a client, and what brig cannot do is refused in words, never passed over.
 *
 * Pure: no files, no connections.
 */
#ifndef BRIG_SERVE_RULES_H
#define BRIG_SERVE_RULES_H

#include "base/str.h"
#include "data/node.h"
#include "policy/policy.h"

#define RULES_MAX 500 /* of each kind: a warden takes a thousand in all */

struct rules {
	struct strv allow, deny; /* as in net.allow and net.deny */
};

#define RULES_NONE ((struct rules){ 0 })
void rules_done(struct rules *rules);

/* Whether the client says anything about the way out at all; else the policy's own rules hold. */
bool rules_are_asked(const struct node *network, bool internet);

/*
 * network: the client's object, or NULL. internet: what allow_internet_access says; true where it is not
 * there. -EINVAL in words.
 */
[[nodiscard]] int rules_read(const struct node *network, bool internet, struct rules *ret_rules,
			     struct err *err);

/* What both allow; what either forbids stays forbidden. */
[[nodiscard]] int rules_within(struct rules *rules, const struct policy *ceiling, struct err *err);

/* Whether they are those of the policy already. */
bool rules_are_of(const struct rules *rules, const struct policy *policy);

#endif
