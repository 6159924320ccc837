/*
 * node_internal.h - what the readers and writers in this layer share about nodes
 */
#ifndef BRIG_DATA_NODE_INTERNAL_H
#define BRIG_DATA_NODE_INTERNAL_H

#include "data/node.h"

/*
 * Appends without a search for the key: a reader adds a million entries and looks for duplicates
 * once at the end. Takes over key (NULL in a list) and child, also when it fails.
 */
[[nodiscard]] int node_append(struct node *parent, char *key, struct node *child);

/* The entries by the bytes of their keys, equal keys in the order of the map. The caller frees the
 * array, which is NULL for an empty map. */
[[nodiscard]] int node_sorted(const struct node *map, const struct node_entry ***ret_sorted);

#endif
