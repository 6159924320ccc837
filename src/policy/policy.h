/*
 * policy.h - the manifest: what a sandbox may do, in typed form
 *
 * A policy is made in three steps, each a function without side effects but for reading the named
 * files once:
 *
 *	load     a YAML file or a shipped policy, with all that it extends, later keys over earlier
 * ones flags    of the command line on top: the person at the keyboard may widen narrow   by the
 * operator's and the project's file: the smaller of both at every point
 *
 * Relative paths and "~" become absolute as they are read.
 *
 * keys.h has one row per key; the parser, the flags, the defaults, the JSON Schema, the manual and
 * the canonical form all come from it. An unset key is not in the canonical form; its default is
 * what the row says.
 *
 * Merging (extends): a single value replaces; maps and lists add up, the later entry of the same
 * name winning; an empty map or list clears what was inherited, because an empty list is nothing.
 * Lists that forbid only add up.
 */
#ifndef BRIG_POLICY_POLICY_H
#define BRIG_POLICY_POLICY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "data/node.h"
#include "policy/extension.h"

/* Ordered by strength, so that a floor is a comparison. */
enum isolation {
	ISOLATION_UNSET,
	ISOLATION_PROCESS,
	ISOLATION_SCRIPT,
	ISOLATION_WASM,
	ISOLATION_CONTAINER,
	ISOLATION_GVISOR,
	ISOLATION_VM,
	ISOLATION_AUTO,
	ISOLATION_COUNT,
};
extern const char *const isolation_names[ISOLATION_COUNT];

enum access { ACCESS_NONE, ACCESS_READ, ACCESS_OVERLAY, ACCESS_WRITE, ACCESS_COUNT };
extern const char *const access_names[ACCESS_COUNT];

/* Whether the system that a sandbox sees can be changed by its own root (a container's). */
enum system_kind { SYSTEM_UNSET, SYSTEM_SEALED, SYSTEM_OWN };

enum on_deny { ON_DENY_UNSET, ON_DENY_FAIL, ON_DENY_ASK, ON_DENY_RECORD };
enum record { RECORD_UNSET, RECORD_OFF, RECORD_DENIED, RECORD_WRITES, RECORD_ALL };

/* Where a rule was written: for errors, "explain" and refusals. */
struct origin {
	char *source;      /* owned: file name, name of a shipped policy, or a flag such as
			      "--allow-write" */
	unsigned int line; /* 0 for a flag */
	bool is_shipped;   /* comes with brig: what it names may be missing on this host */
	bool is_flag;
};

struct path_rule {
	char *path; /* absolute, without "." and ".." */
	enum access access;
	struct origin origin;
};

/* Sorted by path, component by component; at most one rule per path. */
struct path_rules {
	struct path_rule *items;
	size_t count, room;
	bool cleared; /* written as an empty map: what was inherited is dropped when merged */
};

/* HOST_ANY: every name and every public address. */
enum host_kind { HOST_NAME, HOST_SUBDOMAINS, HOST_ADDRESS, HOST_ANY };

struct host_rule {
	enum host_kind kind;
	char *text; /* canonical: lower case, "api.example.com:443", "*.example.com:443",
		       "10.0.0.0/8:5432 raw" */
	char *name; /* without "*." and port; NULL for an address, and for all */
	unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
	unsigned int prefix;       /* of 128 */
	unsigned int port;         /* 0: any */
	bool is_raw;
	bool is_public; /* of an address: never for a special one that is in it */
	struct origin origin;
};

struct host_rules {
	struct host_rule *items;
	size_t count;
	bool cleared;
};

struct words {
	struct strv list; /* sorted, no duplicates */
	bool cleared;
};

#define LIMIT_UNSET UINT64_MAX

struct limits {
	uint64_t wall, cpu_time;       /* ms */
	uint64_t cpu;                  /* thousandths */
	uint64_t memory, disk, output; /* bytes */
	uint64_t pids, files;
};

struct policy {
	enum isolation isolation, floor;
	char *image;
	enum system_kind system;
	struct path_rules fs;
	struct host_rules net_allow, net_ask, net_deny;
	struct words net_publish;
	int net_inspect; /* -1 unset, 0, 1 */
	struct words env;
	struct limits limits;
	struct words allow;
	enum on_deny on_deny;
	enum record record;
	struct words output_strip, output_flag;
	uint64_t output_max;
	struct node *secrets, *tools; /* checked for their shape, kept as they were written */
};

void policy_init(struct policy *policy);
void policy_done(struct policy *policy);

/* Where names are looked up, and what relative paths and "~" mean. All strings are the caller's. */
struct policy_env {
	const char *cwd;         /* absolute, canonical */
	const char *home;        /* absolute; NULL when there is none */
	const char *config_home; /* the user's folder of brig's files, or NULL */
};

/*
 * A name without a slash and without ".yaml" or ".json" is a shipped policy or one of the user's
 * (config_home/policies/ NAME.yaml); anything else is a file.
 */
[[nodiscard]] int policy_load(const char *name, const struct policy_env *env,
			      struct policy *ret_policy, struct err *err);

/* As policy_load for text that is already in memory; name is for messages. */
[[nodiscard]] int policy_parse(const char *name, const char *text, size_t len,
			       const struct policy_env *env, struct policy *ret_policy,
			       struct err *err);

/* Sets a key as the command line does: flag without dashes ("allow-write"), text as typed. */
[[nodiscard]] int policy_set_flag(struct policy *policy, const char *flag, const char *text,
				  const struct policy_env *env, struct err *err);

/* The smaller of both at every point. */
[[nodiscard]] int policy_narrow(struct policy *policy, const struct policy *by, struct err *err);

/* Fails with the first key that asks for something this version cannot do, in words. */
[[nodiscard]] int policy_check_built(const struct policy *policy, struct err *err);

/* The manifest as a tree, without unset keys, and its canonical digest ("sha256:..."). */
[[nodiscard]] int policy_to_node(const struct policy *policy, struct node **ret_node);
#define POLICY_DIGEST_SIZE 72
[[nodiscard]] int policy_digest(const struct policy *policy, char text[static POLICY_DIGEST_SIZE]);

/* The JSON Schema of a policy file. */
[[nodiscard]] int policy_schema(struct node **ret_node);

/* What the rules say about an absolute, canonical path: the rule of the nearest ancestor. NULL
 * rule: none. */
enum access policy_path_access(const struct path_rules *rules, const char *path,
			       const struct path_rule **ret_rule);

/* What the rules say about the folder that a rule's path is in. */
enum access policy_path_around(const struct path_rules *rules, const struct path_rule *rule);

/* Orders paths so that one stands directly before what lies below it, as rules are sorted. */
int policy_path_order(const char *a, const char *b);

/*
 * The first rule that takes rights away inside a wider one (".": write, ".git/hooks": read), which
 * a mechanism that only grants trees cannot express by itself. NULL when there is none.
 */
const struct path_rule *policy_path_conflict(const struct path_rules *rules,
					     const struct path_rule **ret_wider);

enum verdict { VERDICT_DENY, VERDICT_ASK, VERDICT_ALLOW };

/* Judges a connection by name (lower case, no trailing dot) or, with name NULL, by address, which is
 * taken for a public one. */
enum verdict policy_host_verdict(const struct policy *policy, const char *name,
				 const unsigned char address[16], unsigned int port,
				 const struct host_rule **ret_rule);

/* Does the policy let a variable of this name through? A pattern may end in "*"; "NAME=value" sets
 * one instead. */
bool policy_env_allows(const struct words *env, const char *name);

/* One entry of net.publish: where the host listens for a port of the sandbox. */
struct published {
	unsigned char ip[16];     /* IPv4 as ::ffff:a.b.c.d */
	uint16_t outside, inside; /* outside 0: any that is free */
};

/* "8080", "8080:80", "127.0.0.1:8080:80", "[::1]:0:80". False for anything else. */
bool policy_port_read(const char *text, struct published *ret_port);

/* Whether whoever grants a grants b: the same ports, at the same address or at one of all. */
bool policy_port_covers(const struct published *a, const struct published *b);

/* The shipped policies, by name, in alphabetical order; read when brig was built. */
struct shipped_policy {
	const char *name;
	const struct node *tree;
};
extern const struct shipped_policy shipped_policies[];
extern const size_t shipped_policy_count;

#endif
