/* store_key.c - tenants and their keys; the good ones in memory, by the digest of their text */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "serve/store_internal.h"

#define KEY_PREFIX   "e2b_"
#define KEY_BYTES    20
#define KEY_SHOWN    12 /* 32 of its 160 bits */
#define USED_STEP_MS 60000

const char *const key_kind_names[KEY_KIND_COUNT] = { "user", "reviewer", "admin" };

static const struct column tenant_columns[] = {
	CHARS_OF(struct tenant, name),
	COLUMN_OF(struct tenant, COLUMN_U64, max_sandboxes),
	COLUMN_OF(struct tenant, COLUMN_U64, max_memory),
	COLUMN_OF(struct tenant, COLUMN_U64, max_disk),
	COLUMN_OF(struct tenant, COLUMN_REAL, max_cpu),
	COLUMN_OF(struct tenant, COLUMN_REAL, create_rate),
	CHARS_OF(struct tenant, policy),
	CHARS_OF(struct tenant, floor),
	COLUMN_OF(struct tenant, COLUMN_U64, created),
	COLUMN_OF(struct tenant, COLUMN_I64, number),
};
static const struct shape tenant_shape = SHAPE(struct tenant, tenant_columns);
/* The number is the file's to give. */
static const struct shape new_tenant_shape = { tenant_columns, ARRAY_SIZE(tenant_columns) - 1,
					       sizeof(struct tenant) };

static const struct column key_columns[] = {
	CHARS_OF(struct ring_key, key.id),
	CHARS_OF(struct ring_key, key.tenant),
	ENUM_OF(struct ring_key, key.kind, KEY_KIND_COUNT),
	CHARS_OF(struct ring_key, key.shown),
	COLUMN_OF(struct ring_key, COLUMN_U64, key.created),
	COLUMN_OF(struct ring_key, COLUMN_U64, key.used),
	COLUMN_OF(struct ring_key, COLUMN_U64, key.revoked),
	CHARS_OF(struct ring_key, digest),
};
static const struct shape key_shape = SHAPE(struct ring_key, key_columns);

/* --- tenants --- */

bool tenant_name_is_valid(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789-_.");

	return len > 0 && len <= TENANT_NAME_MAX && name[len] == '\0' &&
	       isalnum((unsigned char)name[0]);
}

static int check_tenant(const struct tenant *tenant, struct err *err)
{
	if (!tenant_name_is_valid(tenant->name))
		return err_set(err, -EINVAL,
			       "\"%.80s\" is no name for a tenant: letters, digits, \"-\", \"_\" "
			       "and \".\", at most %d, the first a letter or digit",
			       tenant->name, TENANT_NAME_MAX);
	if (!(tenant->max_cpu >= 0 && tenant->max_cpu <= 1e6))
		return err_set(err, -EINVAL, "tenant \"%s\": no such number of CPUs", tenant->name);
	if (!(tenant->create_rate >= 0 && tenant->create_rate <= 1e6))
		return err_set(err, -EINVAL, "tenant \"%s\": no such rate", tenant->name);
	return 0;
}

int store_put_tenant(struct store *store, const struct tenant *tenant, struct err *err)
{
	struct tenant row = *tenant;
	sqlite3_stmt *s = NULL;
	int r = check_tenant(tenant, err);

	if (r == 0)
		r = store_statement(store, STATEMENT_PUT_TENANT, &s, err);
	if (r < 0)
		return r;
	row.created = store_now();
	r = row_bind(s, &new_tenant_shape, &row);
	if (r < 0)
		return err_errno(err, r, "tenant \"%s\"", tenant->name);
	store->ring.is_loaded = false;
	store_set_durable(store, true);
	r = store_change(store, s, err);
	store_set_durable(store, false);
	return r;
}

int store_get_tenant(struct store *store, const char *name, struct tenant *ret_tenant)
{
	_cleanup_reset_ sqlite3_stmt *s = NULL;
	struct tenant found;
	int r = store_statement(store, STATEMENT_GET_TENANT, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
	r = store_next(store, s, NULL);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	r = row_read(s, &tenant_shape, &found);
	if (r == 0)
		*ret_tenant = found;
	return r;
}

int store_list_tenants(struct store *store, struct tenant **ret_tenants, size_t *ret_count)
{
	sqlite3_stmt *s = NULL;
	void *rows = NULL;
	int r = store_statement(store, STATEMENT_LIST_TENANTS, &s, NULL);

	if (r == 0)
		r = rows_list(store, s, &tenant_shape, &rows, ret_count);
	if (r < 0)
		return r;
	*ret_tenants = rows;
	return 0;
}

/* --- the ring --- */

void ring_done(struct ring *ring)
{
	free(ring->keys);
	free(ring->tenants);
	free(ring->slots);
	*ring = (struct ring){ 0 };
}

/* The digest's own beginning: nobody can choose it. */
static size_t slot_of(const struct ring *ring, const char *digest)
{
	size_t number = 0;

	for (int i = 0; i < 12; i++)
		number = number << 4 |
			 (size_t)(isdigit((unsigned char)digest[i]) ? digest[i] - '0'
								    : digest[i] - 'a' + 10);
	return number & (ring->slot_count - 1);
}

static void ring_place(struct ring *ring, size_t key)
{
	size_t slot = slot_of(ring, ring->keys[key].digest);

	while (ring->slots[slot])
		slot = (slot + 1) & (ring->slot_count - 1);
	ring->slots[slot] = (uint32_t)key + 1;
}

static size_t find_tenant(const struct ring *ring, const char *name)
{
	size_t i = 0;

	while (i < ring->tenant_count && !str_equal(ring->tenants[i].name, name))
		i++;
	return i;
}

static int ring_fill(struct ring *ring)
{
	size_t good = 0, tenant;

	for (size_t i = 0; i < ring->count; i++) {
		tenant = find_tenant(ring, ring->keys[i].key.tenant);
		if (ring->keys[i].key.revoked || tenant == ring->tenant_count)
			continue;
		ring->keys[good] = ring->keys[i];
		ring->keys[good++].tenant = tenant;
	}
	ring->count = good;
	ring->slot_count = 16;
	while (ring->slot_count < good * 2)
		ring->slot_count *= 2;
	ring->slots = calloc(ring->slot_count, sizeof(ring->slots[0]));
	if (!ring->slots)
		return -ENOMEM;
	for (size_t i = 0; i < good; i++)
		ring_place(ring, i);
	return 0;
}

static int list_ring_keys(struct store *store, struct ring_key **ret_keys, size_t *ret_count)
{
	sqlite3_stmt *s = NULL;
	void *rows = NULL;
	int r = store_statement(store, STATEMENT_LIST_KEYS, &s, NULL);

	if (r == 0)
		r = rows_list(store, s, &key_shape, &rows, ret_count);
	if (r < 0)
		return r;
	*ret_keys = rows;
	return 0;
}

static int read_data_version(struct store *store, int64_t *ret_version)
{
	_cleanup_reset_ sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_DATA_VERSION, &s, NULL);

	if (r == 0)
		r = store_next(store, s, NULL);
	if (r > 0)
		*ret_version = sqlite3_column_int64(s, 0);
	return r < 0 ? r : 0;
}

/* The version is read first: a change that comes while the rows are read is seen at the next call. */
static int ring_load(struct store *store, int64_t version)
{
	struct ring ring = { .data_version = version, .is_loaded = true };
	int r = list_ring_keys(store, &ring.keys, &ring.count);

	if (r == 0)
		r = store_list_tenants(store, &ring.tenants, &ring.tenant_count);
	if (r == 0)
		r = ring_fill(&ring);
	if (r < 0) {
		ring_done(&ring);
		return r;
	}
	ring_done(&store->ring);
	store->ring = ring;
	return 0;
}

/* One look at memory that is shared with whoever else has the file open: microseconds. */
static int ring_refresh(struct store *store)
{
	int64_t version = 0;
	int r = read_data_version(store, &version);

	if (r < 0 || (store->ring.is_loaded && store->ring.data_version == version))
		return r;
	return ring_load(store, version);
}

static bool is_same_digest(const char *a, const char *b)
{
	unsigned char difference = 0;

	for (size_t i = 0; i < SHA256_HEX_SIZE - 1; i++)
		difference |= (unsigned char)(a[i] ^ b[i]);
	return difference == 0;
}

static struct ring_key *ring_find(struct ring *ring, const char *digest)
{
	struct ring_key *k;

	if (ring->count == 0)
		return NULL;
	for (size_t slot = slot_of(ring, digest); ring->slots[slot];
	     slot = (slot + 1) & (ring->slot_count - 1)) {
		k = &ring->keys[ring->slots[slot] - 1];
		if (is_same_digest(k->digest, digest))
			return k;
	}
	return NULL;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_key_text(const char *text, size_t len)
{
	if (len != KEY_TEXT_SIZE - 1 || !str_starts(text, KEY_PREFIX))
		return false;
	for (size_t i = strlen(KEY_PREFIX); i < len; i++)
		if (!is_hex(text[i]))
			return false;
	return true;
}

/* To the minute, and not at all while somebody else writes: it is only for people to look at. */
static void note_use(struct store *store, struct ring_key *k)
{
	uint64_t minute = store_now() / USED_STEP_MS * USED_STEP_MS;
	sqlite3_stmt *s = NULL;

	if (k->key.used >= minute)
		return;
	k->key.used = minute;
	if (store_statement(store, STATEMENT_USE_KEY, &s, NULL) < 0)
		return;
	(void)sqlite3_bind_text(s, 1, k->key.id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 2, (int64_t)minute);
	(void)sqlite3_busy_timeout(store->db, 0);
	(void)store_change(store, s, NULL);
	(void)sqlite3_busy_timeout(store->db, STORE_BUSY_MS);
}

int store_check_key(struct store *store, const char *text, size_t len, struct key *ret_key,
		    const struct tenant **ret_tenant)
{
	char digest[SHA256_HEX_SIZE];
	struct ring_key *k;
	int r = ring_refresh(store);

	if (r < 0)
		return r;
	if (!is_key_text(text, len))
		return -EACCES;
	sha256_hex(text, len, digest);
	k = ring_find(&store->ring, digest);
	if (!k)
		return -EACCES;
	note_use(store, k);
	*ret_key = k->key;
	*ret_tenant = &store->ring.tenants[k->tenant];
	return 0;
}

/* --- keys --- */

static int make_id(char id[static KEY_ID_SIZE])
{
	static const char alphabet[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[KEY_ID_SIZE - 1];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		id[i] = alphabet[bytes[i] % 32];
	id[sizeof(bytes)] = '\0';
	return 0;
}

static int make_text(char text[static KEY_TEXT_SIZE])
{
	unsigned char bytes[KEY_BYTES];
	char *p = stpcpy(text, KEY_PREFIX);

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		p += sprintf(p, "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

int store_make_key(struct store *store, const char *tenant, enum key_kind kind, struct key *ret_key,
		   char ret_text[static KEY_TEXT_SIZE], struct err *err)
{
	struct ring_key row = { .key = { .kind = kind, .created = store_now() } };
	char text[KEY_TEXT_SIZE];
	sqlite3_stmt *s = NULL;
	struct tenant owner;
	int r = store_get_tenant(store, tenant, &owner);

	if (r < 0)
		return err_errno(err, r, "tenant \"%.80s\"", tenant);
	memcpy(row.key.tenant, owner.name, sizeof(row.key.tenant));
	r = make_id(row.key.id);
	if (r == 0)
		r = make_text(text);
	if (r < 0)
		return err_errno(err, r, "cannot get random numbers");
	snprintf(row.key.shown, sizeof(row.key.shown), "%.*s", KEY_SHOWN, text);
	sha256_hex(text, strlen(text), row.digest);
	r = store_statement(store, STATEMENT_PUT_KEY, &s, err);
	if (r < 0)
		return r;
	r = row_bind(s, &key_shape, &row);
	if (r < 0)
		return err_errno(err, r, "the new key");
	store->ring.is_loaded = false;
	store_set_durable(store, true);
	r = store_change(store, s, err);
	store_set_durable(store, false);
	if (r < 0)
		return r;
	*ret_key = row.key;
	memcpy(ret_text, text, KEY_TEXT_SIZE);
	explicit_bzero(text, sizeof(text));
	return 0;
}

int store_list_keys(struct store *store, struct key **ret_keys, size_t *ret_count)
{
	struct ring_key *rows = NULL;
	struct key *keys;
	size_t count = 0;
	int r = list_ring_keys(store, &rows, &count);

	if (r < 0)
		return r;
	keys = calloc(count + 1, sizeof(*keys));
	for (size_t i = 0; keys && i < count; i++)
		keys[i] = rows[i].key;
	free(rows);
	if (!keys)
		return -ENOMEM;
	*ret_keys = keys;
	*ret_count = count;
	return 0;
}

enum likeness { UNLIKE, REVOKED_LIKE, LIKE, SAME };

/* How well a key fits what a person wrote. */
static enum likeness likeness_of(const struct ring_key *k, const char *word, const char *digest)
{
	if (str_equal(k->key.id, word) || is_same_digest(k->digest, digest))
		return SAME;
	if (!str_starts(k->key.id, word) &&
	    !(strlen(word) > strlen(KEY_PREFIX) && str_starts(k->key.shown, word)))
		return UNLIKE;
	return k->key.revoked ? REVOKED_LIKE : LIKE;
}

static int no_key(const char *word, struct err *err)
{
	return err_set(err, -ENOENT, "there is no key \"%.16s\": \"brig key list\" shows all",
		       word);
}

static int find_key(const struct ring_key *keys, size_t count, const char *word, size_t *ret_place,
		    struct err *err)
{
	enum likeness best = UNLIKE;
	char digest[SHA256_HEX_SIZE];
	size_t found = 0;

	sha256_hex(word, strlen(word), digest);
	for (size_t i = 0; i < count && word[0]; i++) {
		enum likeness like = likeness_of(&keys[i], word, digest);

		if (like == UNLIKE || like < best)
			continue;
		found = like > best ? 1 : found + 1;
		best = like;
		*ret_place = i;
	}
	if (found == 0)
		return no_key(word, err);
	if (found > 1)
		return err_set(err, -ENOTUNIQ,
			       "%zu keys begin with \"%.16s\": write more of the id", found, word);
	return 0;
}

static int revoke(struct store *store, struct key *key, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_REVOKE_KEY, &s, err);

	if (r < 0)
		return r;
	key->revoked = store_now();
	(void)sqlite3_bind_text(s, 1, key->id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 2, (int64_t)key->revoked);
	store->ring.is_loaded = false;
	store_set_durable(store, true);
	r = store_change(store, s, err);
	store_set_durable(store, false);
	return r;
}

int store_revoke_key(struct store *store, const char *id_or_beginning, struct key *ret_key,
		     struct err *err)
{
	_cleanup_free_ struct ring_key *keys = NULL;
	struct key key;
	size_t count = 0, found = 0;
	int r = list_ring_keys(store, &keys, &count);

	if (r < 0)
		return err_errno(err, r, "the keys in \"%s\"", store->path);
	if (!keys)
		return no_key(id_or_beginning, err);
	r = find_key(keys, count, id_or_beginning, &found, err);
	if (r < 0)
		return r;
	key = keys[found].key;
	if (!key.revoked)
		r = revoke(store, &key, err);
	if (r == 0)
		*ret_key = key;
	return r;
}
