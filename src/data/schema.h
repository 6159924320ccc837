/*
 * schema.h - JSON Schemas as values
 *
 *	_cleanup_(node_freep) struct node *document = schema_document("brig list");
 *
 *	r = schema_add(document, "name", schema_type("string"), true);
 *	r = r < 0 ? r : schema_add(document, "sizes", schema_list(schema_type("integer")), false);
 *
 * What makes a schema takes over the ones that it is made of, and is NULL when one of them is, or
 * when memory is out: only the last call has to be checked.
 */
#ifndef BRIG_DATA_SCHEMA_H
#define BRIG_DATA_SCHEMA_H

#include "data/node.h"

struct node *schema_type(const char *type); /* "integer"; "string|null" for either */
struct node *schema_enum(const char *const *names, size_t count);
struct node *schema_list(struct node *item);
struct node *schema_or_null(struct node *schema);
struct node *schema_described(struct node *schema, const char *text);

/* A closed object, without a property yet; and the same as a document of its own. */
struct node *schema_object(void);
struct node *schema_document(const char *title);

[[nodiscard]] int schema_add(struct node *object, const char *name, struct node *schema,
			     bool is_required);

/* The map that schema_add() adds to. */
struct node *schema_properties(struct node *object);

/* A closed object whose properties are all of a simple type. */
struct schema_part {
	const char *name, *type;
	bool is_optional;
};
struct node *schema_parts(const struct schema_part *parts, size_t count);

/* schema[key] = list of names, for "enum" and "type". */
[[nodiscard]] int schema_names(struct node *schema, const char *key, const char *const *names,
			       size_t count);

#endif
