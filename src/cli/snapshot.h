/*
 * snapshot.h - what a sandbox wrote becomes an image: "brig snapshot", "brig run --keep"
 */
#ifndef BRIG_CLI_SNAPSHOT_H
#define BRIG_CLI_SNAPSHOT_H

#include "data/node.h"
#include "tier/image.h"

/* Before anything runs: the name must be good and free. */
[[nodiscard]] int snapshot_check(const char *name, struct err *err);

/*
 * The sandbox has ended or is held. Says in one line on standard error what was made, or, for --json,
 * puts it into ret_node (image_info_schema).
 */
[[nodiscard]] int snapshot_make(const char *name, const struct image_source *source,
				struct node **ret_node, struct err *err);

#endif
