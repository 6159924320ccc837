/* v1_keys.c - keys and the tenants they belong to, for who has an admin's key */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/v1.h"

static struct node *key_node(const struct key *key, const char *text)
{
	struct node *map = node_map();
	int r = node_set(map, "id", node_string(key->id));

	r = r < 0 ? r : node_set(map, "tenant", node_string(key->tenant));
	r = r < 0 ? r : node_set(map, "kind", node_string(key_kind_names[key->kind]));
	r = r < 0 ? r : node_set(map, "shown", node_string(key->shown));
	r = r < 0 ? r : node_set(map, "created", v1_time(key->created));
	r = r < 0 ? r : node_set(map, "used", v1_time(key->used));
	r = r < 0 ? r : node_set(map, "revoked", v1_time(key->revoked));
	if (text)
		r = r < 0 ? r : node_set(map, "key", node_string(text));
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

void v1_keys(struct request *q)
{
	_cleanup_(node_freep) struct node *list = node_list();
	_cleanup_free_ struct key *keys = NULL;
	struct node *map = node_map();
	size_t count = 0;
	int r = store_list_keys(q->serve->store, &keys, &count);

	for (size_t i = 0; i < count && r == 0; i++)
		r = node_add(list, key_node(&keys[i], NULL));
	r = r < 0 ? r : node_set(map, "keys", take_ptr(&list));
	if (r < 0) {
		node_free(map);
		answer_err(q, &(struct err){ .code = r, .text = "the keys cannot be read" });
		return;
	}
	answer_take_json(q, 200, map);
}

/* What the body says of the tenant; the rest stays as it is. */
static void set_quotas(const struct node *body, struct tenant *tenant)
{
	const char *policy = doc_text(body, "policy", NULL), *floor = doc_text(body, "floor", NULL);

	tenant->max_sandboxes =
		(uint64_t)doc_number(body, "max_sandboxes", (double)tenant->max_sandboxes);
	tenant->max_memory = (uint64_t)doc_number(body, "max_memory", (double)tenant->max_memory);
	tenant->max_disk = (uint64_t)doc_number(body, "max_disk", (double)tenant->max_disk);
	tenant->max_cpu = doc_number(body, "max_cpu", tenant->max_cpu);
	tenant->create_rate = doc_number(body, "create_rate", tenant->create_rate);
	if (policy)
		snprintf(tenant->policy, sizeof(tenant->policy), "%s", policy);
	if (floor)
		snprintf(tenant->floor, sizeof(tenant->floor), "%s", floor);
}

static int put_tenant(struct request *q, const char *name, struct err *err)
{
	const char *policy = doc_text(q->body, "policy", NULL);
	struct tenant tenant = { 0 };
	int r;

	if (!tenant_name_is_valid(name))
		return err_set(err, -EINVAL, "tenant: \"%.64s\" cannot be a name", name);
	if (policy && !v1_is_shipped(policy))
		return err_set(err, -EINVAL, "policy: there is no \"%.64s\" (GET /v1/policies)",
			       policy);
	r = store_get_tenant(q->serve->store, name, &tenant);
	if (r < 0 && r != -ENOENT)
		return err_errno(err, r, "tenant");
	snprintf(tenant.name, sizeof(tenant.name), "%s", name);
	set_quotas(q->body, &tenant);
	return store_put_tenant(q->serve->store, &tenant, err);
}

static enum key_kind kind_of(const char *name)
{
	enum key_kind kind = KEY_USER;

	for (size_t i = 0; i < KEY_KIND_COUNT; i++)
		if (str_equal(name, key_kind_names[i]))
			kind = (enum key_kind)i;
	return kind;
}

void v1_make_key(struct request *q)
{
	const char *tenant = doc_text(q->body, "tenant", "default");
	char text[KEY_TEXT_SIZE];
	struct err err = ERR_NONE;
	struct key key;
	int r = put_tenant(q, tenant, &err);

	r = r < 0 ? r
		  : store_make_key(q->serve->store, tenant,
				   kind_of(doc_text(q->body, "kind", "user")), &key, text, &err);
	if (r < 0) {
		v1_refuse(q, &err);
		return;
	}
	exchange_header(q->x, "Cache-Control", "no-store");
	answer_take_json(q, 201, key_node(&key, text));
	explicit_bzero(text, sizeof(text));
}

void v1_revoke_key(struct request *q)
{
	struct err err = ERR_NONE;
	struct key key;
	int r = -ENOENT;

	/* The store takes a beginning as well, which is for people: a program that cuts an id off means no other. */
	if (strlen(q->parameter[0]) == KEY_ID_SIZE - 1)
		r = store_revoke_key(q->serve->store, q->parameter[0], &key, &err);
	else
		err_set(&err, r, "there is no key \"%.20s\"", q->parameter[0]);
	if (r == -ENOENT || r == -EINVAL)
		answer_error(q, 404, "%s", err.text);
	else if (r < 0)
		v1_refuse(q, &err);
	else
		answer_take_json(q, 200, key_node(&key, NULL));
}
