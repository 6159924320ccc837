/*
 * later.c - keys whose shape is fixed and checked, and whose working is still to come: secrets and
 * tools
 *
 * They are kept as they were written. A start that has them is refused (policy_check_built), so
 * nothing depends on them silently.
 */
#include <errno.h>

#include "policy/types.h"

static int check_map_keys(const struct place *place, const struct node *map,
			  const char *const *names, size_t count, struct err *err)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct node_entry *entry = &map->entries[i];
		const struct node at = { .line = entry->line, .column = entry->column };
		const char *nearest;
		bool known = false;

		for (size_t k = 0; k < count; k++)
			known |= str_equal(entry->key, names[k]);
		if (known)
			continue;
		nearest = str_nearest(entry->key, names, count);
		return nearest ? place_error(place, &at, err,
					     "unknown key \"%s\", did you mean \"%s\"?", entry->key,
					     nearest)
			       : place_error(place, &at, err, "unknown key \"%s\"", entry->key);
	}
	return 0;
}

static int want_text(const struct place *place, const struct node *map, const char *key,
		     struct err *err)
{
	const struct node *value = node_get(map, key);

	if (!value)
		return place_error(place, map, err, "\"%s\" is missing", key);
	if (value->kind != NODE_STRING || value->len == 0)
		return place_error(place, value, err, "\"%s\" must be text", key);
	return 0;
}

static int want_map(const struct place *place, const struct node *node, struct err *err)
{
	if (node->kind == NODE_MAP)
		return 0;
	return place_error(place, node, err, "expected a map, found %s",
			   node_kind_name(node->kind));
}

static int check_secret(const struct place *place, const struct node *secret, struct err *err)
{
	static const char *const keys[] = { "from", "inject" };
	static const char *const inject_keys[] = { "host", "header" };
	const struct node *inject = node_get(secret, "inject");
	int r = want_map(place, secret, err);

	r = r < 0 ? r : check_map_keys(place, secret, keys, ARRAY_SIZE(keys), err);
	r = r < 0 ? r : want_text(place, secret, "from", err);
	if (r < 0 || !inject)
		return r;
	r = want_map(place, inject, err);
	r = r < 0 ? r : check_map_keys(place, inject, inject_keys, ARRAY_SIZE(inject_keys), err);
	r = r < 0 ? r : want_text(place, inject, "host", err);
	return r < 0 ? r : want_text(place, inject, "header", err);
}

/* A tool's manifest has the keys of a policy, and says how often it gets a sandbox of its own. */
static int check_tool(const struct place *place, const struct node *tool, struct err *err)
{
	_cleanup_(node_freep) struct node *rest = NULL;
	struct place here = *place;
	struct policy policy;
	int r = want_map(place, tool, err);

	if (r < 0)
		return r;
	rest = node_map();
	if (!rest)
		return -ENOMEM;
	rest->line = tool->line;
	rest->column = tool->column;
	for (size_t i = 0; i < tool->count; i++) {
		const struct node_entry *entry = &tool->entries[i];

		if (str_equal(entry->key, "isolate")) {
			const char *text =
				entry->value->kind == NODE_STRING ? entry->value->text : "";

			if (!str_equal(text, "call") && !str_equal(text, "session"))
				return place_error(place, entry->value, err,
						   "\"isolate\" is call or session");
			continue;
		}
		r = node_set(rest, entry->key, node_copy(entry->value));
		if (r < 0)
			return r;
		rest->entries[rest->count - 1].line = entry->line;
		rest->entries[rest->count - 1].column = entry->column;
	}
	policy_init(&policy);
	here.is_tool = true;
	r = policy_read_keys(&here, rest, &policy, err);
	policy_done(&policy);
	return r;
}

static int parse_each(const struct place *place, const struct node *node, void *field,
		      int (*check)(const struct place *, const struct node *, struct err *),
		      struct err *err)
{
	struct node **kept = field, *copy;
	int r = want_map(place, node, err);

	for (size_t i = 0; r == 0 && i < node->count; i++)
		r = check(place, node->entries[i].value, err);
	if (r < 0)
		return r;
	copy = node_copy(node);
	if (!copy)
		return -ENOMEM;
	node_free(*kept);
	*kept = copy;
	return 0;
}

static int parse_secrets(const struct place *place, const struct node *node, void *field,
			 struct err *err)
{
	return parse_each(place, node, field, check_secret, err);
}

static int parse_tools(const struct place *place, const struct node *node, void *field,
		       struct err *err)
{
	return parse_each(place, node, field, check_tool, err);
}

static int merge_map(void *field, const void *later)
{
	struct node **into = field;
	const struct node *from = *(struct node *const *)later;

	if (!from)
		return 0;
	if (!*into || from->count == 0) {
		node_free(*into);
		*into = node_copy(from);
		return *into ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < from->count; i++) {
		int r = node_set(*into, from->entries[i].key, node_copy(from->entries[i].value));

		if (r < 0)
			return r;
	}
	return 0;
}

/* What both give in the same words; anything else is not granted. */
static int narrow_map(void *field, const void *by)
{
	struct node **into = field, *both;
	const struct node *other = *(struct node *const *)by;

	if (!*into)
		return 0;
	both = node_map();
	for (size_t i = 0; both && i < (*into)->count; i++) {
		const struct node_entry *entry = &(*into)->entries[i];
		const struct node *twin = other ? node_get(other, entry->key) : NULL;

		if (twin && node_equal(twin, entry->value) &&
		    node_set(both, entry->key, node_copy(entry->value)) < 0) {
			node_free(both);
			return -ENOMEM;
		}
	}
	if (!both)
		return -ENOMEM;
	node_free(*into);
	*into = both;
	return 0;
}

static int map_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_copy(*(struct node *const *)field);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_secrets(struct node *schema)
{
	static const char text[] =
		"GITHUB_TOKEN: { from: env:GITHUB_TOKEN, inject: { host: api.github.com, "
		"header: \"Authorization: Bearer {}\" } }";
	int r = node_set(schema, "type", node_string("object"));

	return r < 0 ? r : node_set(schema, "$comment", node_string(text));
}

static int schema_tools(struct node *schema)
{
	static const char text[] =
		"name of a tool: keys of this schema that narrow the policy, and isolate: "
		"call or session";
	int r = node_set(schema, "type", node_string("object"));

	return r < 0 ? r : node_set(schema, "$comment", node_string(text));
}

static bool is_set_map(const void *field)
{
	return *(struct node *const *)field;
}

static void init_map(void *field)
{
	*(struct node **)field = NULL;
}

static void done_map(void *field)
{
	node_free(*(struct node **)field);
	*(struct node **)field = NULL;
}

const struct type_ops secrets_ops = { parse_secrets,  merge_map,  narrow_map, map_to_node,
				      schema_secrets, is_set_map, init_map,   done_map };
const struct type_ops tools_ops = { parse_tools,  merge_map,  narrow_map, map_to_node,
				    schema_tools, is_set_map, init_map,   done_map };
