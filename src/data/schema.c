#include "data/schema.h"

#include <errno.h>

static int schema_fill(struct node *schema, struct node *properties, struct node *required)
{
	int r = schema ? node_set(schema, "type", node_string("object")) : -ENOMEM;

	r = r < 0 ? r : node_set(schema, "additionalProperties", node_bool(false));
	if (r < 0) {
		node_free(properties);
		node_free(required);
		return r;
	}
	r = node_set(schema, "required", required);
	if (r < 0) {
		node_free(properties);
		return r;
	}
	return node_set(schema, "properties", properties);
}

int schema_object(struct node *properties, struct node *required, struct node **ret_schema)
{
	_cleanup_(node_freep) struct node *schema = node_map();
	int r = schema_fill(schema, properties, required);

	if (r == 0)
		*ret_schema = take_ptr(&schema);
	return r;
}

int schema_document(const char *title, struct node *properties, struct node *required,
		    struct node **ret_schema)
{
	_cleanup_(node_freep) struct node *schema = node_map();
	int r = schema_fill(schema, properties, required);

	r = r < 0 ? r
		  : node_set(schema, "$schema",
			     node_string("https://json-schema.org/draft/2020-12/schema"));
	r = r < 0 ? r : node_set(schema, "title", node_string(title));
	if (r == 0)
		*ret_schema = take_ptr(&schema);
	return r;
}

int schema_names(struct node *schema, const char *key, const char *const *names, size_t count)
{
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = node_add(list, node_string(names[i]));
	return r < 0 ? r : node_set(schema, key, take_ptr(&list));
}
