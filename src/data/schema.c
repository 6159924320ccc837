#include "data/schema.h"

#include <errno.h>

#include "base/str.h"

/* The map with one entry more; takes over both. */
static struct node *with(struct node *map, const char *key, struct node *value)
{
	if (node_set(map, key, value) == 0)
		return map;
	node_free(map);
	return NULL;
}

struct node *schema_type(const char *type)
{
	size_t len = strcspn(type, "|");
	_cleanup_(node_freep) struct node *either = NULL;

	if (type[len] == '\0')
		return with(node_map(), "type", node_string(type));
	either = node_list();
	if (node_add(either, node_bytes(type, len)) < 0 ||
	    node_add(either, node_string(type + len + 1)) < 0)
		return NULL;
	return with(node_map(), "type", take_ptr(&either));
}

struct node *schema_enum(const char *const *names, size_t count)
{
	_cleanup_(node_freep) struct node *schema = node_map();

	return schema_names(schema, "enum", names, count) < 0 ? NULL : take_ptr(&schema);
}

struct node *schema_list(struct node *item)
{
	return with(schema_type("array"), "items", item);
}

struct node *schema_or_null(struct node *schema)
{
	_cleanup_(node_freep) struct node *either = node_list();

	if (node_add(either, schema) < 0 || node_add(either, schema_type("null")) < 0)
		return NULL;
	return with(node_map(), "anyOf", take_ptr(&either));
}

struct node *schema_described(struct node *schema, const char *text)
{
	return with(schema, "description", node_string(text));
}

struct node *schema_object(void)
{
	struct node *schema = with(schema_type("object"), "additionalProperties", node_bool(false));

	schema = with(schema, "required", node_list());
	return with(schema, "properties", node_map());
}

struct node *schema_document(const char *title)
{
	struct node *schema = with(schema_object(), "$schema",
				   node_string("https://json-schema.org/draft/2020-12/schema"));

	return with(schema, "title", node_string(title));
}

static struct node *part_of(struct node *object, const char *name)
{
	/* The object is the caller's to change, and so is what it is made of. */
	return (struct node *)(uintptr_t)node_get(object, name);
}

struct node *schema_properties(struct node *object)
{
	return part_of(object, "properties");
}

int schema_add(struct node *object, const char *name, struct node *schema, bool is_required)
{
	int r = node_set(schema_properties(object), name, schema);

	return r < 0 || !is_required ? r : node_add(part_of(object, "required"), node_string(name));
}

struct node *schema_parts(const struct schema_part *parts, size_t count)
{
	_cleanup_(node_freep) struct node *object = schema_object();

	for (size_t i = 0; i < count; i++)
		if (schema_add(object, parts[i].name, schema_type(parts[i].type),
			       !parts[i].is_optional) < 0)
			return NULL;
	return take_ptr(&object);
}

int schema_names(struct node *schema, const char *key, const char *const *names, size_t count)
{
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = node_add(list, node_string(names[i]));
	return r < 0 ? r : node_set(schema, key, take_ptr(&list));
}
