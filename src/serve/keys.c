#include "serve/keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/str.h"

#define EXIT_BRIG      125
#define DEFAULT_TENANT "default"

static void store_closep(struct store **store)
{
	store_close(*store);
}

static int complain(const struct err *err)
{
	fprintf(stderr, "brig: %s\n", err->text);
	return EXIT_BRIG;
}

static int complain_errno(int code, const char *what)
{
	struct err err = ERR_NONE;

	err_errno(&err, code, "%s", what);
	return complain(&err);
}

/* Takes the node; NULL: out of memory. */
static int print_json(struct node *taken)
{
	_cleanup_(node_freep) struct node *node = taken;
	_cleanup_(buf_done) struct buf text = BUF(64 * MIB);
	int r = node ? json_write(node, false, &text) : -ENOMEM;

	r = r < 0 ? r : buf_char(&text, '\n');
	r = r < 0 ? r : fd_write_all(1, buf_text(&text), text.len);
	return r < 0 && r != -EPIPE ? complain_errno(r, "cannot write the result") : 0;
}

static bool is_set(const struct node *request, const char *name)
{
	const struct node *value = node_get(request, name);

	return value && value->kind == NODE_BOOL && value->number;
}

static const char *text_of(const struct node *request, const char *name, const char *fallback)
{
	const struct node *value = node_get(request, name);

	return value && value->kind == NODE_STRING ? value->text : fallback;
}

/* --- as JSON --- */

/* 0 or "": none. */
static struct node *number_or_null(uint64_t number)
{
	return number ? node_int((int64_t)MIN(number, (uint64_t)INT64_MAX)) : node_null();
}

static struct node *real_or_null(double number)
{
	return number > 0 ? node_float(number) : node_null();
}

static struct node *text_or_null(const char *text)
{
	return text[0] ? node_string(text) : node_null();
}

struct node *key_to_node(const struct key *key)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "id", node_string(key->id)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "tenant", node_string(key->tenant));
	r = r < 0 ? r : node_set(map, "kind", node_string(key_kind_names[key->kind]));
	r = r < 0 ? r : node_set(map, "shown", node_string(key->shown));
	r = r < 0 ? r : node_set(map, "created_ms", node_int((int64_t)key->created));
	r = r < 0 ? r : node_set(map, "used_ms", number_or_null(key->used));
	r = r < 0 ? r : node_set(map, "revoked_ms", number_or_null(key->revoked));
	return r < 0 ? NULL : take_ptr(&map);
}

struct node *tenant_to_node(const struct tenant *tenant)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "name", node_string(tenant->name)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "number", node_int(tenant->number));
	r = r < 0 ? r : node_set(map, "created_ms", node_int((int64_t)tenant->created));
	r = r < 0 ? r : node_set(map, "max_sandboxes", number_or_null(tenant->max_sandboxes));
	r = r < 0 ? r : node_set(map, "max_cpu", real_or_null(tenant->max_cpu));
	r = r < 0 ? r : node_set(map, "max_memory", number_or_null(tenant->max_memory));
	r = r < 0 ? r : node_set(map, "max_disk", number_or_null(tenant->max_disk));
	r = r < 0 ? r : node_set(map, "create_rate", real_or_null(tenant->create_rate));
	r = r < 0 ? r : node_set(map, "policy", text_or_null(tenant->policy));
	r = r < 0 ? r : node_set(map, "floor", text_or_null(tenant->floor));
	return r < 0 ? NULL : take_ptr(&map);
}

/* --- create --- */

static double real_of(const struct node *value)
{
	return value->kind == NODE_FLOAT ? value->real : (double)value->number;
}

/* What the request names is changed, what it does not name stays. */
static int change_tenant(const struct node *request, struct tenant *tenant, struct err *err)
{
	const struct {
		const char *name;
		uint64_t *number;
		double *real;
		char *text;
		size_t size;
	} parts[] = {
		{ "max_sandboxes", .number = &tenant->max_sandboxes },
		{ "max_memory", .number = &tenant->max_memory },
		{ "max_disk", .number = &tenant->max_disk },
		{ "max_cpu", .real = &tenant->max_cpu },
		{ "create_rate", .real = &tenant->create_rate },
		{ "policy", .text = tenant->policy, .size = sizeof(tenant->policy) },
		{ "floor", .text = tenant->floor, .size = sizeof(tenant->floor) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const struct node *value = node_get(request, parts[i].name);
		bool is_number = value && (value->kind == NODE_INT || value->kind == NODE_FLOAT);

		if (!value)
			continue;
		if (parts[i].number && value->kind == NODE_INT && value->number >= 0)
			*parts[i].number = (uint64_t)value->number;
		else if (parts[i].real && is_number)
			*parts[i].real = real_of(value);
		else if (parts[i].text && value->kind == NODE_STRING && value->len < parts[i].size)
			memcpy(parts[i].text, value->text, value->len + 1);
		else
			return err_set(err, -EINVAL, "key: \"%s\" cannot be that", parts[i].name);
	}
	return 0;
}

/* The tenant as it is, or a new one, with what the request says of it. */
static int ready_tenant(struct store *store, const struct node *request, struct tenant *ret_tenant,
			struct err *err)
{
	const char *name = text_of(request, "tenant", DEFAULT_TENANT);
	struct tenant tenant = { 0 };
	int r = store_get_tenant(store, name, &tenant);

	if (r < 0 && r != -ENOENT)
		return err_errno(err, r, "cannot read the tenants");
	if (r == -ENOENT &&
	    snprintf(tenant.name, sizeof(tenant.name), "%s", name) > TENANT_NAME_MAX)
		return err_set(err, -ENAMETOOLONG, "the tenant's name is longer than %d letters",
			       TENANT_NAME_MAX);
	r = change_tenant(request, &tenant, err);
	r = r < 0 ? r : store_put_tenant(store, &tenant, err);
	if (r == 0)
		*ret_tenant = tenant;
	return r;
}

static enum key_kind kind_of(const struct node *request)
{
	const char *kind = text_of(request, "kind", key_kind_names[KEY_USER]);
	enum key_kind i = KEY_USER;

	while (i < KEY_KIND_COUNT && !str_equal(kind, key_kind_names[i]))
		i++;
	return i;
}

/* The key alone is what a script reads; what a person should know stands beside it. */
static int print_new(const struct node *request, const struct key *key, const char *text)
{
	struct node *node;

	if (is_set(request, "json")) {
		node = key_to_node(key);
		if (node && node_set(node, "key", node_string(text)) < 0) {
			node_free(node);
			node = NULL;
		}
		return print_json(node);
	}
	fprintf(stderr, "brig: key %s of tenant \"%s\" (%s); it is not shown again\n", key->id,
		key->tenant, key_kind_names[key->kind]);
	printf("%s\n", text);
	return fflush(stdout) == 0 ? 0 : complain_errno(-errno, "cannot write the key");
}

int keys_create(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	enum key_kind kind = kind_of(request);
	char text[KEY_TEXT_SIZE];
	struct err err = ERR_NONE;
	struct tenant tenant = { 0 };
	struct key key = { 0 };
	int r;

	if (kind == KEY_KIND_COUNT)
		return complain_errno(-EINVAL, "key: no such kind");
	r = store_open(&store, &err);
	if (r == 0)
		r = ready_tenant(store, request, &tenant, &err);
	if (r == 0)
		r = store_make_key(store, tenant.name, kind, &key, text, &err);
	if (r < 0)
		return complain(&err);
	r = print_new(request, &key, text);
	/* A key that nobody has seen is nobody's. */
	if (r != 0)
		(void)!store_revoke_key(store, key.id, &key, &err);
	explicit_bzero(text, sizeof(text));
	return r;
}

/* --- list --- */

static void format_time(uint64_t ms, char *text, size_t size)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (ms == 0)
		snprintf(text, size, "never");
	else if (!localtime_r(&seconds, &tm) || strftime(text, size, "%Y-%m-%d %H:%M", &tm) == 0)
		snprintf(text, size, "?");
}

static void add_quota(struct buf *out, const char *what, const char *value)
{
	buf_printf(out, "%s%s %s", out->len ? ", " : "", what, value);
}

static void add_size(struct buf *out, const char *what, uint64_t bytes)
{
	char text[24];

	if (bytes == 0)
		return;
	format_size(bytes, text, sizeof(text));
	add_quota(out, what, text);
}

static void add_real(struct buf *out, const char *what, double value)
{
	char text[32];

	if (!(value > 0))
		return;
	snprintf(text, sizeof(text), "%g", value);
	add_quota(out, what, text);
}

/* "sandboxes 50, memory 8G, floor container" */
static void describe(const struct tenant *tenant, struct buf *out)
{
	char text[24];

	if (tenant->max_sandboxes) {
		snprintf(text, sizeof(text), "%" PRIu64, tenant->max_sandboxes);
		add_quota(out, "sandboxes", text);
	}
	add_real(out, "cpu", tenant->max_cpu);
	add_size(out, "memory", tenant->max_memory);
	add_size(out, "disk", tenant->max_disk);
	add_real(out, "rate", tenant->create_rate);
	if (tenant->policy[0])
		add_quota(out, "policy", tenant->policy);
	if (tenant->floor[0])
		add_quota(out, "floor", tenant->floor);
}

struct listing {
	struct key *keys;
	struct tenant *tenants;
	size_t key_count, tenant_count;
};

static void listing_done(struct listing *l)
{
	free(l->keys);
	free(l->tenants);
}

static const struct tenant *tenant_of(const struct listing *l, const struct key *key)
{
	for (size_t i = 0; i < l->tenant_count; i++)
		if (str_equal(l->tenants[i].name, key->tenant))
			return &l->tenants[i];
	return NULL;
}

static int print_text(const struct listing *l)
{
	int width = (int)strlen("TENANT");

	for (size_t i = 0; i < l->key_count; i++)
		width = MAX(width, (int)strlen(l->keys[i].tenant));
	printf("%-12s  %-*s  %-8s  %-12s  %-16s  %-16s  %s\n", "ID", width, "TENANT", "KIND", "KEY",
	       "CREATED", "USED", "QUOTAS");
	for (size_t i = 0; i < l->key_count; i++) {
		const struct key *key = &l->keys[i];
		const struct tenant *tenant = tenant_of(l, key);
		_cleanup_(buf_done) struct buf quotas = BUF(4096);
		char created[32], used[32], revoked[32];

		format_time(key->created, created, sizeof(created));
		format_time(key->used, used, sizeof(used));
		format_time(key->revoked, revoked, sizeof(revoked));
		if (key->revoked)
			buf_printf(&quotas, "revoked %s", revoked);
		else if (tenant)
			describe(tenant, &quotas);
		if (quotas.data)
			str_make_printable(quotas.data);
		printf("%-12s  %-*s  %-8s  %-12s  %-16s  %-16s  %s\n", key->id, width, key->tenant,
		       key_kind_names[key->kind], key->shown, created, used,
		       quotas.len ? buf_text(&quotas) : "-");
	}
	return fflush(stdout) == 0 || errno == EPIPE ? 0 : complain_errno(-errno, "cannot write");
}

static int print_list_json(const struct listing *l)
{
	_cleanup_(node_freep) struct node *map = node_map();
	_cleanup_(node_freep) struct node *keys = node_list();
	_cleanup_(node_freep) struct node *tenants = node_list();
	int r = map && keys && tenants ? 0 : -ENOMEM;

	for (size_t i = 0; i < l->key_count && r == 0; i++)
		r = node_add(keys, key_to_node(&l->keys[i]));
	for (size_t i = 0; i < l->tenant_count && r == 0; i++)
		r = node_add(tenants, tenant_to_node(&l->tenants[i]));
	r = r < 0 ? r : node_set(map, "keys", take_ptr(&keys));
	r = r < 0 ? r : node_set(map, "tenants", take_ptr(&tenants));
	return print_json(r < 0 ? NULL : take_ptr(&map));
}

/* Where nothing was made yet there is nothing to list, and nothing is made now. */
int keys_list(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	_cleanup_(listing_done) struct listing l = { 0 };
	struct err err = ERR_NONE;
	int r = store_open_existing(&store, &err);

	if (r < 0 && r != -ENOENT)
		return complain(&err);
	if (store) {
		r = store_list_keys(store, &l.keys, &l.key_count);
		r = r < 0 ? r : store_list_tenants(store, &l.tenants, &l.tenant_count);
		if (r < 0)
			return complain_errno(r, "cannot read the keys");
	}
	return is_set(request, "json") ? print_list_json(&l) : print_text(&l);
}

/* --- revoke --- */

int keys_revoke(const struct node *request)
{
	_cleanup_(store_closep) struct store *store = NULL;
	const char *id = text_of(request, "id", "");
	struct err err = ERR_NONE;
	struct key key = { 0 };
	int r = store_open_existing(&store, &err);

	if (r == -ENOENT)
		err_set(&err, r, "there is no key \"%.16s\": there are none at all yet", id);
	if (r == 0)
		r = store_revoke_key(store, id, &key, &err);
	if (r < 0)
		return complain(&err);
	if (is_set(request, "json"))
		return print_json(key_to_node(&key));
	printf("%s\n", key.id);
	return fflush(stdout) == 0 ? 0 : complain_errno(-errno, "cannot write");
}
