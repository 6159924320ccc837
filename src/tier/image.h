/*
 * image.h - what sandboxes left, under a name, for others to start from
 *
 *	images/NAME/manifest	which layers, the oldest first, and what they were made of
 *	layers/ID/		one layer (jail/layer.h): a tree for each place, manifest, lock
 *
 * in the state directory (trace/home.h). An image is the layers of the image that its sandbox was
 * started from, and one more with what that sandbox wrote: layers are shared by reference. With more
 * than IMAGE_LAYERS_MAX of them they become one.
 *
 *	_cleanup_(image_layers_done) struct image_layers from = IMAGE_LAYERS_NONE;
 *
 *	r = image_make(home, "tools", &source, NULL, &info, err);
 *	r = image_open(home, "tools", &from, err);
 *
 * Whatever is made is made under a name with a dot in front, which no image has, and renamed when
 * it is on the disk; the image last, so that a name always leads to something whole. Whoever makes or
 * uses a layer holds a lock on its file "lock": the maker an exclusive one, a sandbox that was started
 * from it a shared one, for as long as its warden lives. The kernel frees it with the process, however
 * that ended. What nobody holds and no image names is removed by image_sweep(). The moments in which
 * names appear, vanish or are looked up exclude each other by a lock on images/.lock.
 */
#ifndef BRIG_TIER_IMAGE_H
#define BRIG_TIER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "data/node.h"
#include "jail/layer.h"
#include "policy/policy.h"

#define IMAGE_LAYERS_MAX 8
#define IMAGE_NAME_MAX   64
#define IMAGE_ID_SIZE    16
#define IMAGE_TREES_MAX  256 /* of one layer */

/* Letters, digits, ".", "_", "-", at most IMAGE_NAME_MAX; neither "." nor "-" in front. */
bool image_name_is_valid(const char *name);

struct image_tree {
	char *name;    /* of the folder in the layer */
	char *path;    /* that it shows at: "/home/user", "/" */
	uint32_t mode; /* of its top */
};

struct image_layer {
	char id[IMAGE_ID_SIZE];
	char *path; /* of the folder, absolute, without symbolic links */
	int dir, lock;
	uint64_t bytes, files;
	struct image_tree *trees;
	size_t tree_count;
};

/* Layers that are held: none of them goes away until image_layers_done(). */
struct image_layers {
	char name[IMAGE_NAME_MAX + 1];
	enum isolation isolation; /* of the sandbox that it is of */
	bool has_range; /* owners are those of a range, from 0 on; else the user's alone */
	char *base;     /* the image of the policy that it lies on, or NULL */
	struct image_layer items[IMAGE_LAYERS_MAX]; /* the oldest first */
	size_t count;
};

#define IMAGE_LAYERS_NONE ((struct image_layers){ 0 })

/* home: the state directory (trace_home_open). */
[[nodiscard]] int image_open(int home, const char *name, struct image_layers *ret_layers,
			     struct err *err);

/* Layers by their ids: those of a sandbox, whatever its image is called by now. */
[[nodiscard]] int image_open_layers(int home, const struct strv *ids,
				    struct image_layers *ret_layers, struct err *err);
void image_layers_done(struct image_layers *layers);

/* What the newest layers have for a place; NULL: nothing. */
const struct image_tree *image_find_tree(const struct image_layer *layer, const char *path);
const struct image_tree *image_newest_tree(const struct image_layers *layers, const char *path);

/* All layers together into one folder that is the caller's and empty: a tree without marks. */
[[nodiscard]] int image_unpack(const struct image_layers *layers, const char *path, int to,
			       struct err *err);

/* What a sandbox wrote: of one that lives, or has just ended. */
struct image_source {
	int store; /* of a container; of the process tier the private folder */
	enum isolation isolation;
	uint32_t ids_first;                 /* of its range; 0: the user's own id alone */
	const struct strv *overlays;        /* paths inside, of upper 1 and so on */
	const struct strv *overlay_sources; /* the same on the host */
	const char *image;                  /* of the policy, or NULL for the host's system */
	const struct strv *layers;          /* ids of those that it was started from; may be NULL */
	const struct strv *made; /* names in the store that were made for mounts ("tmp/work"), and
				    are left out while nothing is in them; may be NULL */
};

struct image_info {
	char name[IMAGE_NAME_MAX + 1];
	uint64_t created; /* ms since 1970 */
	enum isolation isolation;
	bool has_range;
	char *base;
	struct strv layers; /* ids, the oldest first */
	struct strv
		overlays; /* paths that it has changes of, but for those that every sandbox has */
	uint64_t bytes, files; /* of all its layers */
	uint64_t left_out;     /* sockets and devices; only of image_make() */
};

#define IMAGE_INFO_NONE ((struct image_info){ 0 })
void image_info_done(struct image_info *info);

/* -EEXIST when there is one of that name. On any failure nothing of it is left. */
[[nodiscard]] int image_make(int home, const char *name, const struct image_source *source,
			     const struct layer_progress *progress, struct image_info *ret_info,
			     struct err *err);

/* Whether an image of that name can be made: before hours of work. */
[[nodiscard]] int image_check_new(int home, const char *name, struct err *err);

/* Sorted by name; one that cannot be read has only a name and created 0. The caller frees the list. */
[[nodiscard]] int image_list(int home, struct image_info **ret_images, size_t *ret_count,
			     struct err *err);
void image_list_free(struct image_info *images, size_t count);
[[nodiscard]] int image_look(int home, const char *name, struct image_info *ret_info,
			     struct err *err);

/* Takes the name away, and all layers that nobody needs. in_use: some stay until a sandbox ends. */
[[nodiscard]] int image_remove(int home, const char *name, bool *ret_in_use, struct err *err);

/* Removes what nobody needs: leftovers of what was killed, layers without an image or sandbox. */
[[nodiscard]] int image_sweep(int home, struct err *err);

[[nodiscard]] int image_info_to_node(const struct image_info *info, struct node **ret_node);
struct node *image_info_schema(void);

#endif
