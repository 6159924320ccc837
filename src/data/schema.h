/*
 * schema.h - pieces of JSON Schema that several documents share
 */
#ifndef BRIG_DATA_SCHEMA_H
#define BRIG_DATA_SCHEMA_H

#include "data/node.h"

/* A closed object: nothing but the properties, and all that are in required. Takes over both, also
 * on failure. */
[[nodiscard]] int schema_object(struct node *properties, struct node *required,
				struct node **ret_schema);

/* The same as a document of its own. */
[[nodiscard]] int schema_document(const char *title, struct node *properties, struct node *required,
				  struct node **ret_schema);

/* schema[key] = list of names, for "enum" and "type". */
[[nodiscard]] int schema_names(struct node *schema, const char *key, const char *const *names,
			       size_t count);

#endif
