/*
 * manifest.h - what a sandbox that lives is, as one object (private to warden/, but for its schema)
 *
 * "brig create --json" prints it, the roster keeps it (roster.h), and those who work on the files of a
 * sandbox read it. One row per key gives its place and its schema.
 */
#ifndef BRIG_WARDEN_MANIFEST_H
#define BRIG_WARDEN_MANIFEST_H

#include "data/node.h"

struct warden;

/* created: ms since 1970. */
[[nodiscard]] int manifest_make(const struct warden *w, uint64_t created, struct node **ret_node);

[[nodiscard]] int manifest_schema(struct node **ret_node);

#endif
