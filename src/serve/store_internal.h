/*
 * store_internal.h - what the files of the store share: statements, and rows as structs
 *
 * A struct that is kept is described once, by its columns in their order; binding,
 * reading, copying and freeing follow from that. A statement is prepared at its first use and kept.
 *
 *	sqlite3_stmt *s;
 *
 *	r = store_statement(store, STATEMENT_PUT_HELD, &s, err);
 *	r = row_bind(s, &held_shape, held);
 *	r = store_change(store, s, err);
 */
#ifndef BRIG_SERVE_STORE_INTERNAL_H
#define BRIG_SERVE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "base/sha256.h"
#include "serve/store.h"

#define STORE_BUSY_MS 500 /* the daemon waits for nobody longer than that */

enum statement {
	STATEMENT_DATA_VERSION,
	STATEMENT_PUT_TENANT,
	STATEMENT_GET_TENANT,
	STATEMENT_LIST_TENANTS,
	STATEMENT_PUT_KEY,
	STATEMENT_LIST_KEYS,
	STATEMENT_REVOKE_KEY,
	STATEMENT_USE_KEY,
	STATEMENT_PUT_HELD,
	STATEMENT_DELETE_HELD,
	STATEMENT_LIST_HELD,
	STATEMENT_PUT_TEMPLATE,
	STATEMENT_DELETE_TEMPLATE,
	STATEMENT_TEMPLATE_BYTES,
	STATEMENT_GET_TEMPLATE,
	STATEMENT_LIST_TEMPLATES,
	STATEMENT_PUT_ANSWER,
	STATEMENT_GET_ANSWER,
	STATEMENT_FORGET_ANSWERS,
	STATEMENT_FORGET_MANY_ANSWERS,
	STATEMENT_COUNT,
};

/* A key with what finds it: the digest of its text. */
struct ring_key {
	char digest[SHA256_HEX_SIZE];
	struct key key;
	size_t tenant; /* place in the ring's tenants */
};

/* All good keys in memory: a table of places (from 1) with open addressing. */
struct ring {
	struct ring_key *keys;
	size_t count;
	struct tenant *tenants;
	size_t tenant_count;
	uint32_t *slots;
	size_t slot_count;    /* a power of two */
	int64_t data_version; /* of the file when it was read */
	bool is_loaded;
};

/* An answer that is being made. */
struct claim {
	char *tenant, *key, *request;
};

struct store {
	sqlite3 *db;
	char *path;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	struct ring ring;
	struct claim *claims;
	size_t claim_count;
	unsigned int answers_kept;
};

/* 0 for SQLITE_OK, ROW and DONE; else -errno with words. */
int store_failure(struct store *store, int code, struct err *err);

[[nodiscard]] int store_statement(struct store *store, enum statement which, sqlite3_stmt **ret,
				  struct err *err);
/* Runs a statement that gives no rows, and makes it ready for its next use. */
[[nodiscard]] int store_change(struct store *store, sqlite3_stmt *s, struct err *err);
/* 1: a row; 0: no more. After 0 or a failure it is ready for its next use. */
[[nodiscard]] int store_next(struct store *store, sqlite3_stmt *s, struct err *err);
void store_reset(sqlite3_stmt *s);
[[nodiscard]] int store_run(struct store *store, const char *sql, struct err *err);

/*
 * Changes of keys and tenants reach the disk before they are said to be done: a key that was revoked must
 * not be good again after the machine went down. What sandboxes live need not: they went down with it.
 */
void store_set_durable(struct store *store, bool is_durable);

uint64_t store_now(void); /* ms since 1970 */

/* --- rows --- */

enum column_kind {
	COLUMN_CHARS, /* an array of char with its size */
	COLUMN_TEXT,  /* a pointer, the struct's own */
	COLUMN_U64,
	COLUMN_I64,
	COLUMN_REAL,
	COLUMN_BOOL,
	COLUMN_ENUM, /* size: how many there are */
};

struct column {
	enum column_kind kind;
	size_t offset, size;
};

struct shape {
	const struct column *rows;
	size_t count, size; /* size: of the struct */
};

#define SHAPE(type, list)                            \
	{                                            \
		list, ARRAY_SIZE(list), sizeof(type) \
	}
#define CHARS_OF(type, member)                                                       \
	{                                                                            \
		COLUMN_CHARS, offsetof(type, member), sizeof(((type *)NULL)->member) \
	}
#define COLUMN_OF(type, kind, member)           \
	{                                       \
		kind, offsetof(type, member), 0 \
	}
#define ENUM_OF(type, member, count)                       \
	{                                                  \
		COLUMN_ENUM, offsetof(type, member), count \
	}

/* Parameters from 1, columns from 0. A text that does not fit its array, or a number that no enum has: -EBADMSG. */
[[nodiscard]] int row_bind(sqlite3_stmt *s, const struct shape *shape, const void *of);
[[nodiscard]] int row_read(sqlite3_stmt *s, const struct shape *shape, void *ret);
[[nodiscard]] int row_copy(const struct shape *shape, const void *of, void *ret);
void row_done(const struct shape *shape, void *of);

/* All rows of a statement whose parameters are bound. */
[[nodiscard]] int rows_list(struct store *store, sqlite3_stmt *s, const struct shape *shape,
			    void **ret_rows, size_t *ret_count);

void ring_done(struct ring *ring);
void claims_done(struct store *store);

/* A statement that is made ready for its next use when it goes out of scope. */
static inline void store_resetp(sqlite3_stmt **s)
{
	store_reset(*s);
}
#define _cleanup_reset_ _cleanup_(store_resetp)

#endif
