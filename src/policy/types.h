/*
 * types.h - what can be done with a value of each type of key (private to policy/)
 *
 * A field is a place in struct policy. parse adds to an empty field; merge puts a later value over
 * an earlier one; narrow keeps the smaller of two; to_node gives NULL in *ret_node for an unset
 * field.
 */
#ifndef BRIG_POLICY_TYPES_H
#define BRIG_POLICY_TYPES_H

#include "policy/keys.h"

/* Where the value stands, for messages and origins. */
struct place {
	const char *source;
	bool is_shipped, is_flag;
	bool is_tool;                 /* the manifest of a tool: no version, no extends */
	const char *key;              /* "limits.memory", or "--memory" for a flag */
	const char *value;            /* what a flag gives its argument: "write", or NULL */
	const struct policy_env *env; /* what relative paths mean */
};

struct type_ops {
	int (*parse)(const struct place *place, const struct node *node, void *field,
		     struct err *err);
	int (*merge)(void *field, const void *later);
	int (*narrow)(void *field, const void *by);
	int (*to_node)(const void *field, struct node **ret_node);
	int (*schema)(struct node *schema); /* adds to a map that has a description already */
	bool (*is_set)(const void *field);
	void (*init)(void *field);
	void (*done)(void *field);
};

const struct type_ops *type_ops_of(enum key_type type);

static inline void *key_field(const struct key *key, struct policy *policy)
{
	return (char *)policy + key->offset;
}

static inline const void *key_field_const(const struct key *key, const struct policy *policy)
{
	return (const char *)policy + key->offset;
}

/* "FILE:LINE:COLUMN: KEY: text" for a file, "--flag: text" for a flag; returns -EINVAL. */
int place_error(const struct place *place, const struct node *node, struct err *err,
		const char *fmt, ...) _printf_(4, 5);

/* Fills an origin from a place; owned by the caller's rule. */
int origin_make(const struct place *place, const struct node *node, struct origin *ret_origin);
int origin_copy(const struct origin *from, struct origin *ret_origin);

/* The text of a string or of a number as it was written; NULL for everything else. */
const char *scalar_text(const struct node *node);

/* Reads the keys of a map into an empty policy, but for "extends" and "version". load.c */
int policy_read_keys(const struct place *place, const struct node *map, struct policy *policy,
		     struct err *err);

/* Each file implements the types of one kind. */
extern const struct type_ops isolation_ops, on_deny_ops, record_ops, system_ops, text_ops, bool_ops,
	size_ops, duration_ops, cpus_ops, count_ops;                                  /* values.c */
extern const struct type_ops paths_ops;                                               /* paths.c */
extern const struct type_ops hosts_allow_ops, hosts_ask_ops, hosts_denied_ops;        /* hosts.c */
extern const struct type_ops env_ops, ports_ops, extensions_ops, strip_ops, flag_ops; /* words.c */
extern const struct type_ops secrets_ops, tools_ops;                                  /* later.c */

#endif
