/*
 * snapshot.h - images that the daemon has made of sandboxes
 *
 * They lie with all other images of this user, under names that begin with "serve.": who uses brig by hand
 * beside the daemon keeps off these.
 */
#ifndef BRIG_SERVE_SNAPSHOT_H
#define BRIG_SERVE_SNAPSHOT_H

#include "serve/serve.h"

#define SNAPSHOT_IMAGE_SIZE   65
#define SNAPSHOT_BUILD_PREFIX "serve.template."
#define SNAPSHOT_FORK_PREFIX  "serve.fork." /* of a copy, until the last sandbox from it is there */

/* A new name, prefix in front. */
[[nodiscard]] int snapshot_image_name(const char *prefix,
				      char ret_name[static SNAPSHOT_IMAGE_SIZE]);

/* What the sandbox wrote becomes that image; ran() is told how it went. */
[[nodiscard]] int snapshot_run(struct serve *serve, const char *id, const char *image,
			       fleet_ran ran, void *of, struct err *err);
/* 0, or the failure in words. */
[[nodiscard]] int snapshot_failed(const struct fleet_output *output, struct err *err);

/* In the background; sandboxes that started from it keep its files. */
void snapshot_remove_image(struct serve *serve, const char *image);

/* At the start of the daemon, when the store is open: images of the daemon that no row needs. */
void snapshot_sweep(struct serve *serve);

#endif
