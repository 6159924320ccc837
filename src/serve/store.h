/*
 * store.h - what the daemon must not forget: tenants, keys, sandboxes, templates (SQLite, WAL)
 *
 * One file in the state directory (serve/state.db, 0600). What a function here has said yes to survives
 * kill -9 of the daemon; the machine's own crash may take the last moments. "brig key" opens the same file
 * beside a running daemon: keys and tenants are looked up anew when the file says that it changed.
 *
 * Rows come out as structs whose texts are the row's, freed with it (xxx_done). Lists come as arrays.
 */
#ifndef BRIG_SERVE_STORE_H
#define BRIG_SERVE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/event.h"

#define KEY_TEXT_SIZE   (4 + 40 + 1) /* "e2b_" and 20 random bytes in hex */
#define KEY_ID_SIZE     13
#define TENANT_NAME_MAX 64
#define TOKEN_SIZE      65

struct store;

/* Makes what is missing. */
[[nodiscard]] int store_open(struct store **ret_store, struct err *err);
/* -ENOENT: nobody has made one yet, and nothing is made now. */
[[nodiscard]] int store_open_existing(struct store **ret_store, struct err *err);
void store_close(struct store *store);

/* --- tenants and keys --- */

/* 0 or NULL in a quota: none. */
struct tenant {
	char name[TENANT_NAME_MAX + 1];
	uint64_t max_sandboxes, max_memory, max_disk; /* bytes */
	double max_cpu;
	double create_rate; /* sandboxes a second, in the long run */
	char policy[256];   /* the ceiling: a shipped policy or a file; "": the daemon's */
	char floor[16];     /* weakest tier; "": the policy's */
	uint64_t created;   /* ms since 1970 */
	int64_t number;     /* small, never used again: for ranges of ids and cgroups */
};

enum key_kind { KEY_USER, KEY_REVIEWER, KEY_ADMIN, KEY_KIND_COUNT };
extern const char *const key_kind_names[KEY_KIND_COUNT];

struct key {
	char id[KEY_ID_SIZE];
	char tenant[TENANT_NAME_MAX + 1];
	enum key_kind kind;
	char shown[16];         /* how it begins, to tell it from others */
	uint64_t created, used; /* ms since 1970; used: 0 never, to the minute */
	uint64_t revoked;       /* 0: it is good */
};

/* Letters, digits, "-", "_" and ".", the first one a letter or digit: it becomes the name of a cgroup. */
bool tenant_name_is_valid(const char *name);

/* Makes the tenant if there is none, else changes it; created and number are the store's to say. */
[[nodiscard]] int store_put_tenant(struct store *store, const struct tenant *tenant,
				   struct err *err);
[[nodiscard]] int store_get_tenant(struct store *store, const char *name,
				   struct tenant *ret_tenant); /* -ENOENT */
[[nodiscard]] int store_list_tenants(struct store *store, struct tenant **ret_tenants,
				     size_t *ret_count);

/* text is shown once and kept nowhere. */
[[nodiscard]] int store_make_key(struct store *store, const char *tenant, enum key_kind kind,
				 struct key *ret_key, char ret_text[static KEY_TEXT_SIZE],
				 struct err *err);
/* By id, by the beginning of an id, or by the key itself (all of it, or as it is shown). A key that was revoked
 * before stays as it is. */
[[nodiscard]] int store_revoke_key(struct store *store, const char *id_or_beginning,
				   struct key *ret_key, struct err *err);
[[nodiscard]] int store_list_keys(struct store *store, struct key **ret_keys, size_t *ret_count);

/*
 * Whose key this is: by the hash of the text, so the time says nothing of what is stored. From memory but for
 * when somebody changed the file. -EACCES: nobody's, or revoked. The tenant stays until the next call.
 */
[[nodiscard]] int store_check_key(struct store *store, const char *text, size_t len,
				  struct key *ret_key, const struct tenant **ret_tenant);

/* --- sandboxes --- */

enum held_state { HELD_RUNNING, HELD_PAUSED, HELD_COUNT };

/*
 * One that lives, or is paused. Texts are never NULL. JSON texts are objects or "". Written when it is made
 * (before the client is told), changed as a whole, deleted when it has ended.
 */
struct held {
	char id[TRACE_ID_SIZE];
	char tenant[TENANT_NAME_MAX + 1];
	enum held_state state;
	char *template_id, *alias;      /* alias: the name that was asked for */
	char *metadata, *env;           /* JSON: of texts */
	char *network;                  /* JSON as the client gave it; "" */
	char *extra;                    /* JSON: whatever else a route needs to know again */
	char token[TOKEN_SIZE];         /* for the data plane; "": none is needed */
	char traffic_token[TOKEN_SIZE]; /* for ports; "": they are open */
	uint64_t started, ends;         /* ms since 1970; ends: 0 never */
	bool pauses;                    /* at the end of its time, instead of being killed */
	bool resumes;                   /* when somebody wants something of it while it is paused */
	double cpu;                     /* what it counts against the quota, and says of itself */
	uint64_t memory, disk;
};

void held_done(struct held *held);
[[nodiscard]] int held_copy(const struct held *held, struct held *ret_copy);

[[nodiscard]] int store_put_held(struct store *store, const struct held *held, struct err *err);
[[nodiscard]] int store_delete_held(struct store *store, const char *id); /* 0 also without one */
/* All of them, for the start of the daemon, which then has them in memory (serve/registry.h). */
[[nodiscard]] int store_list_held(struct store *store, struct held **ret_held, size_t *ret_count);

/* --- templates: an image under names; snapshots are templates too --- */

enum template_kind { TEMPLATE_BUILT, TEMPLATE_SNAPSHOT };

struct template
{
	char id[33];
	char tenant[TENANT_NAME_MAX + 1]; /* "": of all */
	enum template_kind kind;
	char *name;           /* as clients say it; "" for a snapshot without one */
	char *tags;           /* JSON list of texts, "default" among them */
	char *image;          /* brig's name for it (tier/image.h); "": none, the host alone */
	char *env;            /* JSON */
	char *workdir, *user; /* "" */
	char *start, *ready;  /* commands; "" */
	char *source;         /* a snapshot's sandbox; "" */
	double cpu;
	uint64_t memory, disk;
	uint64_t bytes; /* of its image */
	uint64_t created, updated;
};

void template_done(struct template *t);
[[nodiscard]] int store_put_template(struct store *store, const struct template *t,
				     struct err *err);
[[nodiscard]] int store_delete_template(struct store *store, const char *id); /* -ENOENT */
/* Of all images of a tenant's own. */
[[nodiscard]] int store_template_bytes(struct store *store, const char *tenant,
				       uint64_t *ret_bytes);
/*
 * By id, name, or either with ":tag", of this tenant or of all; the tenant's own first. Without a tag it is the
 * one with "default", else the newest. -ENOENT.
 */
[[nodiscard]] int store_get_template(struct store *store, const char *tenant, const char *word,
				     struct template *ret_template);
/* Of this tenant (NULL: of any) and of all, the newest first. */
[[nodiscard]] int store_list_templates(struct store *store, const char *tenant,
				       struct template **ret_templates, size_t *ret_count);

/* --- answers that a repeated request gets again (24 hours) --- */

/*
 * request: a hash of what was asked. 1: done before, with its answer (the caller frees the body); 0: new, and
 * claimed until store_keep_answer() or store_drop_answer(); -EBUSY: being done; -EEXIST: the same key for
 * something else. Claims are in memory: they go with the process that made the answer. A tenant's oldest answers
 * make room for new ones (a thousand, or 32 MiB of them).
 */
[[nodiscard]] int store_claim_answer(struct store *store, const char *tenant, const char *key,
				     const char *request, unsigned int *ret_status,
				     char **ret_body);
[[nodiscard]] int store_keep_answer(struct store *store, const char *tenant, const char *key,
				    unsigned int status, const char *body);
void store_drop_answer(struct store *store, const char *tenant, const char *key);

#endif
