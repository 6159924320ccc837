/*
 * keys.h - one row per key of a policy
 *
 * The row gives the key's name in YAML, its type, the flags that set it, its default, what it
 * means, and what it still lacks in this version. Everything else is derived: a new key is a new
 * row (and, rarely, a new type in types.h).
 */
#ifndef BRIG_POLICY_KEYS_H
#define BRIG_POLICY_KEYS_H

#include "policy/policy.h"

enum key_type {
	KEY_ISOLATION,
	KEY_ON_DENY,
	KEY_RECORD,
	KEY_SYSTEM,
	KEY_TEXT,
	KEY_BOOL,
	KEY_SIZE,
	KEY_DURATION,
	KEY_CPUS,
	KEY_COUNT,
	KEY_PATHS,
	KEY_HOSTS_ALLOWED,
	KEY_HOSTS_ASKED,
	KEY_HOSTS_DENIED, /* a list that forbids: only adds up */
	KEY_ENV,
	KEY_PORTS,
	KEY_EXTENSIONS,
	KEY_STRIP,
	KEY_FLAG,
	KEY_SECRETS,
	KEY_TOOLS,
	KEY_TYPE_COUNT,
};

struct key_flag {
	const char *name;     /* without dashes */
	const char *value;    /* for a map: what the flag gives its argument, "write" */
	const char *argument; /* "PATH" */
	const char *summary;
};

#define KEY_MAX_FLAGS 4

struct key {
	const char *name; /* "limits.memory": a dot separates the section */
	enum key_type type;
	size_t offset; /* of the field in struct policy */
	struct key_flag flags[KEY_MAX_FLAGS];
	const char *initial; /* the default, in words of the manual */
	const char *summary; /* one line, for help and schema */
	const char *more;    /* further sentences for the manual, or NULL */
	const char *needs;   /* what this version does not have yet, or NULL when the key works */
};

extern const struct key policy_keys[];
extern const size_t policy_key_count;

const struct key *key_find(const char *name);

/* The key that a flag sets, and which of its flags it is. NULL when there is none. */
const struct key *key_of_flag(const char *flag, const struct key_flag **ret_flag);

#endif
