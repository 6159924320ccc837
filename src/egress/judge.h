/*
 * judge.h - may this sandbox ask for this name, connect to this address, say these first bytes?
 *
 * One question per step of a connection, each answered with a struct judgement from the policy, the
 * host's own addresses and the table of answers:
 *
 *	judge_question   a DNS question: is there any port on which the name is allowed?
 *	judge_alias      a name behind it in a chain of aliases: only a deny rule stops it
 *	judge_answer     an address that upstream gave for it: may it be told inside?
 *	judge_address    connect(): by a rule for the address, or since it was told for a name whose
 *	                 rule allows this port
 *	judge_first      the first bytes: do they say a name that it was told for?
 *	judge_again      a connection that is there, by rules that are new
 *
 * Deny beats ask beats allow. "ask" is a refusal with words of its own until somebody can be asked.
 * A rule for a name never speaks for an address of a special class (address.h), whatever the name
 * resolves to: loopback, link-local, metadata endpoints and the host's own addresses need a rule
 * with just this address, the other classes (private networks and the like) a rule that names the
 * address or a range inside the special one; "0.0.0.0/0" names neither. A deny rule for an IPv4
 * address also stops the IPv6 addresses that hide it; a rule for IPv6 with a prefix shorter than
 * ::ffff:0:0/96 does not speak for IPv4 in allow, but does in deny.
 *
 * "*:443" speaks for every name that is not special and every public address, and is a rule for the
 * address in what follows.
 *
 * A connection by a rule for the address has no name to compare: its first bytes may say any name
 * that no deny or ask rule takes, and Host may be the address itself.
 *
 * Nothing is kept: a change of the policy holds for the next question.
 */
#ifndef BRIG_EGRESS_JUDGE_H
#define BRIG_EGRESS_JUDGE_H

#include "egress/answers.h"
#include "egress/hello.h"
#include "egress/tunnel.h"
#include "policy/policy.h"

/* What verdicts are made from; all of it the caller's. own and answers may be NULL. */
struct judge {
	const struct policy *policy;
	const struct address_list *own;
	const struct answers *answers;
};

enum judge_cause {
	JUDGE_ALLOWED,    /* by a rule */
	JUDGE_DENIED,     /* by a rule of net.deny */
	JUDGE_ASKED,      /* by a rule of net.ask */
	JUDGE_NO_RULE,    /* nothing names it */
	JUDGE_OTHER_PORT, /* the name or address is allowed, on another port: rule says which */
	JUDGE_UNRESOLVED, /* the address was never told for an allowed name, or too long ago */
	JUDGE_SPECIAL,    /* a special address that no rule names closely enough */
	JUDGE_REBINDING,  /* the same, reached through a name that is allowed */
	JUDGE_NOT_A_NAME, /* an address in place of a name, or bytes that are no name */
	JUDGE_TUNNEL,     /* data in the labels below a wildcard */
	JUDGE_WRONG_NAME, /* first bytes: a name that this connection is not for */
	JUDGE_NO_NAME,    /* first bytes: TLS without SNI, HTTP without Host */
	JUDGE_PROTOCOL,   /* first bytes: neither, and the rule is not raw; or malformed */
	JUDGE_CAUSE_COUNT,
};

/*
 * The texts have the sizes and the meaning of the fields of struct denial (the result), are empty
 * when allowed, and hold no control characters.
 */
struct judgement {
	bool is_allowed;
	bool is_raw; /* any protocol: the first bytes need no look */
	enum judge_cause cause;
	enum address_class class;
	const struct host_rule *rule; /* that decided; NULL for none. The policy's. */
	char name[NAME_SIZE]; /* that it is allowed for, or "" (one of them, for the event) */
	char object[256];     /* "example.com:443" */
	char rule_text[256];  /* "policy.yaml:3: net.deny \"example.com:443\"" or "net.allow" */
	char reason[256];
	char allow_with
		[256]; /* "--allow-net example.com:443, or net: { allow: [...] }"; may be "" */
};

/* name as dns_query_parse gave it, or any text. tunnel may be NULL, and is charged when allowed. */
void judge_question(const struct judge *judge, const char *name, struct tunnel *tunnel,
		    uint64_t now_ms, struct judgement *ret_judgement);

void judge_alias(const struct judge *judge, const char *name, const char *alias,
		 struct judgement *ret_judgement);

/*
 * ip was found for name, which judge_question allowed. Refused: leave it out of the reply and of the
 * table (if none is left, the reply is NXDOMAIN) and record the judgement.
 */
void judge_answer(const struct judge *judge, const char *name,
		  const unsigned char ip[ADDRESS_BYTES], struct judgement *ret_judgement);

void judge_address(const struct judge *judge, const struct address *address, uint64_t now_ms,
		   struct judgement *ret_judgement);

/*
 * connected_ms is the time that judge_address was asked with, so that an answer which ends between
 * the connection and its first bytes still counts. The rules are asked anew.
 */
void judge_first(const struct judge *judge, const struct address *address, uint64_t connected_ms,
		 const struct first_bytes *first, struct judgement *ret_judgement);

/* A connection that is there. */
struct judged {
	struct address address;
	const char *name; /* what its first bytes said, else what it was made for; "" for none */
	bool is_told; /* the address was told for that name, and its first bytes say it where they
			     were looked at: the name speaks for the address, also when that answer has
			     been forgotten. Else it is the program's word, and can only be denied. */
	bool is_raw;  /* nobody looked at its first bytes: only a rule that is raw lets it go on */
};

void judge_again(const struct judge *judge, const struct judged *judged,
		 struct judgement *ret_judgement);

#endif
