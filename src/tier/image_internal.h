/*
 * image_internal.h - what image.c (reading), image_make.c (making) and image_sweep.c (removing) share
 */
#ifndef BRIG_TIER_IMAGE_INTERNAL_H
#define BRIG_TIER_IMAGE_INTERNAL_H

#include "tier/image.h"

#define IMAGES "images"
#define LAYERS "layers"

#define NEW_PREFIX  ".new-"  /* being made */
#define GONE_PREFIX ".gone-" /* being removed */

#define LAYER_LOCK "lock"
#define MANIFEST   "manifest"

/* The folder of the state directory, made where it is missing and make is set. */
int image_folder(int home, const char *name, bool make);

/* Waits for the lock on the names of images (LOCK_SH, LOCK_EX); the descriptor that holds it. */
int image_lock(int home, int operation);

/* dir/manifest, at most 1 MiB. */
int manifest_read(int dir, const char *what, struct node **ret_map, struct err *err);

/* Written and on the disk. */
int manifest_write(int dir, const struct node *map);

int image_read(int images, const char *name, struct image_info *ret_info, struct err *err);

#endif
