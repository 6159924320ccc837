#include "tier/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"
#include "jail/ids.h"
#include "tier/image_internal.h"
#include "tier/view.h"

/* A place that a sandbox may write, and where the store has it. */
struct place {
	char in_store[40];
	const char *path;
	char name[40]; /* of the tree in a layer */
	uint32_t mode; /* of its top, when nothing happened */
	bool is_share; /* nothing of the host is below it */
};

/* One layer on its way. */
struct making {
	int home;
	const struct image_source *source;
	const struct layer_progress *progress;
	struct image_layers parents;
	bool is_merged; /* the parents' content goes into it */
	bool has_range;
	char id[IMAGE_ID_SIZE], folder[IMAGE_ID_SIZE + 16];
	int layers, dir, lock;
	struct node *trees; /* for its manifest */
	struct strv overlays;
	uint64_t bytes, files, left_out;
	struct err *err;
};

static void making_done(struct making *m)
{
	image_layers_done(&m->parents);
	node_free(m->trees);
	strv_done(&m->overlays);
	fd_close(m->dir);
	fd_close(m->lock);
	fd_close(m->layers);
}

static int make_id(char id[static IMAGE_ID_SIZE])
{
	static const char alphabet[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[12];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		id[i] = alphabet[bytes[i] % 32];
	id[sizeof(bytes)] = '\0';
	return 0;
}

/* The folder appears together with its lock, for whoever sweeps. */
static int begin_layer(struct making *m)
{
	_cleanup_close_ int names = image_lock(m->home, LOCK_SH);
	int r = names < 0 ? names : make_id(m->id);

	if (r < 0)
		return r;
	snprintf(m->folder, sizeof(m->folder), NEW_PREFIX "%s", m->id);
	m->layers = image_folder(m->home, LAYERS, true);
	if (m->layers < 0)
		return m->layers;
	if (mkdirat(m->layers, m->folder, 0700) < 0)
		return -errno;
	m->dir = image_folder(m->layers, m->folder, false);
	if (m->dir < 0)
		return m->dir;
	m->lock = openat(m->dir, LAYER_LOCK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return m->lock < 0 || flock(m->lock, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

/* Owners as they are stored; the process tier has one, who is the user of a container. */
static struct layer_how how_of(const struct making *m)
{
	struct layer_how how = { .ids = LAYER_IDS_SAME, .progress = m->progress };

	if (m->source->isolation != ISOLATION_CONTAINER && m->has_range) {
		how.ids = LAYER_IDS_ONE;
		how.first = IDS_USER;
	} else if (m->source->ids_first) {
		how.ids = LAYER_IDS_SHIFT;
		how.first = m->source->ids_first;
	}
	return how;
}

static int add_tree(struct making *m, const struct place *place)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "name", node_string(place->name)) : -ENOMEM;

	if (!is_utf8(place->path, strlen(place->path)))
		return err_set(m->err, -EILSEQ,
			       "\"%s\" is not UTF-8: an image cannot say where it belongs",
			       place->path);
	r = r < 0 ? r : node_set(map, "path", node_string(place->path));
	r = r < 0 ? r : node_add(m->trees, take_ptr(&map));
	if (r == 0 && m->trees->count > IMAGE_TREES_MAX)
		return err_set(m->err, -E2BIG, "more than %d overlays", IMAGE_TREES_MAX);
	return r;
}

static void count(struct making *m, const struct layer_how *how)
{
	m->bytes = how->bytes;
	m->files = how->files;
	m->left_out = how->left_out;
}

/* One name that was made for a mount: gone from the copy, if it still is what was made. */
static void leave_out(struct making *m, const char *path)
{
	_cleanup_close_ int parent = -EBADF;
	char text[PATH_MAX], *slash;
	struct stat st;

	if (snprintf(text, sizeof(text), "%s", path) >= (int)sizeof(text))
		return;
	slash = strrchr(text, '/');
	*slash = '\0';
	parent = sys_openat2(m->dir, text, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (parent < 0 || fstatat(parent, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0))
		(void)!unlinkat(parent, slash + 1, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

/* The deepest first. What is not empty stays. */
static void leave_out_made(struct making *m, const struct place *place)
{
	const struct strv *made = m->source->made;
	size_t len = strlen(place->in_store);
	char path[PATH_MAX];

	for (size_t i = made ? made->count : 0; i-- > 0;)
		if (str_starts(made->items[i], place->in_store) && made->items[i][len] == '/' &&
		    snprintf(path, sizeof(path), "%s%s", place->name, made->items[i] + len) <
			    (int)sizeof(path))
			leave_out(m, path);
}

/* What the sandbox itself wrote there. 1: something. */
static int copy_own(struct making *m, const struct place *place)
{
	const struct image_tree *parent = image_newest_tree(&m->parents, place->path);
	struct layer_how how = how_of(m);
	int r = layer_is_written(m->source->store, place->in_store,
				 parent ? parent->mode : place->mode);

	/* An image of the policy may have the place itself. */
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(m->err, r, "\"%s\" of the sandbox cannot be read", place->path);
	if (r == 0)
		return 0;
	how.is_plain = place->is_share && !parent;
	how.bytes = m->bytes;
	how.files = m->files;
	how.left_out = m->left_out;
	r = layer_copy(m->source->store, place->in_store, m->dir, place->name, &how, m->err);
	count(m, &how);
	if (r < 0)
		return r;
	leave_out_made(m, place);
	r = layer_is_written(m->dir, place->name, parent ? parent->mode : place->mode);
	if (r == 0 && unlinkat(m->dir, place->name, AT_REMOVEDIR) < 0)
		return -errno;
	return r;
}

/* And what lies below that, from the newest down: what is there hides what comes. 1: something. */
static int copy_parents(struct making *m, const struct place *place)
{
	struct layer_how how = { .ids = LAYER_IDS_SAME,
				 .is_below = true,
				 .progress = m->progress,
				 .bytes = m->bytes,
				 .files = m->files };
	int r = 0, found = 0;

	for (size_t i = m->parents.count; i-- > 0 && r == 0;) {
		const struct image_layer *layer = &m->parents.items[i];
		const struct image_tree *tree = image_find_tree(layer, place->path);

		if (!tree)
			continue;
		found = 1;
		r = layer_copy(layer->dir, tree->name, m->dir, place->name, &how, m->err);
	}
	count(m, &how);
	if (r == 0 && found && place->is_share)
		r = layer_prune(m->dir, place->name, m->err);
	return r < 0 ? r : found;
}

static int copy_place(struct making *m, const struct place *place, bool is_own)
{
	int own = is_own ? copy_own(m, place) : 0;
	int below = own < 0 || !m->is_merged ? 0 : copy_parents(m, place);

	if (own < 0 || below < 0)
		return MIN(own, below);
	return own || below ? add_tree(m, place) : 0;
}

static const struct place shares[] = {
	{ .in_store = "home", .path = VIEW_HOME, .name = "home", .mode = 0755, .is_share = true },
	{ .in_store = "tmp", .path = VIEW_TMP, .name = "tmp", .mode = 01777, .is_share = true },
	{ .in_store = "var-tmp",
	  .path = "/var/tmp",
	  .name = "vartmp",
	  .mode = 01777,
	  .is_share = true },
	{ .in_store = UPPER_PREFIX "0", .path = "/", .name = "root", .mode = 0755 },
};

static int copy_shares(struct making *m)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(shares) && r == 0; i++)
		r = copy_place(m, &shares[i], true);
	return r;
}

static bool is_share(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (str_equal(shares[i].path, path))
			return true;
	return false;
}

static int copy_overlays(struct making *m)
{
	const struct strv *overlays = m->source->overlays;
	int r = 0;

	for (size_t i = 0; overlays && i < overlays->count && r == 0; i++) {
		struct place place = { .path = overlays->items[i], .mode = 0755 };

		snprintf(place.in_store, sizeof(place.in_store), UPPER_PREFIX "%zu", i + 1);
		snprintf(place.name, sizeof(place.name), "overlay%zu", i + 1);
		r = copy_place(m, &place, true);
	}
	return r;
}

/* Merged: what the layers have and this sandbox did not show. */
static int copy_rest(struct making *m)
{
	size_t number = m->source->overlays ? m->source->overlays->count : 0;
	_cleanup_(strv_done) struct strv seen = { 0 };
	int r = 0;

	for (size_t i = 0; i < m->parents.count; i++)
		for (size_t k = 0; k < m->parents.items[i].tree_count && r == 0; k++) {
			struct place place = { .path = m->parents.items[i].trees[k].path };

			if (is_share(place.path) || strv_has(&seen, place.path) ||
			    (m->source->overlays && strv_has(m->source->overlays, place.path)))
				continue;
			snprintf(place.name, sizeof(place.name), "overlay%zu", ++number);
			r = strv_add(&seen, place.path);
			r = r < 0 ? r : copy_place(m, &place, false);
		}
	return r;
}

/* The private folder is the home, whatever its mode. */
static int copy_private(struct making *m)
{
	static const struct place home = { ".", VIEW_HOME, "home", 0, true };

	return copy_place(m, &home, true);
}

static int copy_all(struct making *m)
{
	int r;

	if (m->source->isolation != ISOLATION_CONTAINER)
		return copy_private(m);
	r = copy_shares(m);
	r = r < 0 ? r : copy_overlays(m);
	return r < 0 || !m->is_merged ? r : copy_rest(m);
}

static int write_layer(struct making *m)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "bytes", node_int((int64_t)m->bytes)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "files", node_int((int64_t)m->files));
	r = r < 0 ? r : node_set(map, "trees", take_ptr(&m->trees));
	r = r < 0 ? r : manifest_write(m->dir, map);
	/* All of it: one call for the file system is faster than one for each file. */
	return r < 0 ? r : syncfs(m->dir) < 0 ? -errno : 0;
}

/* The paths of overlays that the image has something for. */
static int find_overlays(const struct making *m, const struct image_layer *own,
			 struct strv *ret_overlays)
{
	int r = 0;

	for (size_t i = 0; i <= m->parents.count && r == 0; i++) {
		const struct image_layer *layer = i < m->parents.count ? &m->parents.items[i] : own;

		for (size_t k = 0; k < layer->tree_count && r == 0; k++)
			if (!is_share(layer->trees[k].path) &&
			    !strv_has(ret_overlays, layer->trees[k].path))
				r = strv_add(ret_overlays, layer->trees[k].path);
	}
	return r;
}

static int fill_info(struct making *m, const char *name, struct image_info *info)
{
	_cleanup_(image_layers_done) struct image_layers own = IMAGE_LAYERS_NONE;
	_cleanup_(strv_done) struct strv id = { 0 };
	struct timespec now;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(info->name, sizeof(info->name), "%s", name);
	info->created = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	info->isolation = m->source->isolation;
	info->has_range = m->has_range;
	info->base = m->source->image ? strdup(m->source->image) : NULL;
	info->bytes = m->bytes;
	info->files = m->files;
	info->left_out = m->left_out;
	for (size_t i = 0; i < m->parents.count && !m->is_merged && r == 0; i++) {
		r = strv_add(&info->layers, m->parents.items[i].id);
		info->bytes += m->parents.items[i].bytes;
		info->files += m->parents.items[i].files;
	}
	r = r < 0 ? r : strv_add(&info->layers, m->id);
	r = r < 0 ? r : strv_add(&id, m->id);
	if (r < 0 || (m->source->image && !info->base))
		return -ENOMEM;
	r = image_open_layers(m->home, &id, &own, m->err);
	return r < 0 ? r : find_overlays(m, &own.items[0], &info->overlays);
}

/* For the test of what a kill leaves. */
static void die_at(const char *hook)
{
	if (hook_errno(hook))
		kill(getpid(), SIGKILL);
}

static int sync_folder(int fd)
{
	return fsync(fd) < 0 ? -errno : 0;
}

/* The image itself: a folder with a manifest, that gets its name when it is on the disk. */
static int publish_image(struct making *m, const struct image_info *info)
{
	_cleanup_close_ int images = image_folder(m->home, IMAGES, true), dir = -EBADF;
	_cleanup_(node_freep) struct node *map = NULL;
	int r = images < 0 ? images : image_info_to_node(info, &map);
	char folder[IMAGE_ID_SIZE + 16];

	if (r < 0)
		return r;
	snprintf(folder, sizeof(folder), NEW_PREFIX "%s", m->id);
	if (mkdirat(images, folder, 0700) < 0)
		return -errno;
	dir = image_folder(images, folder, false);
	r = dir < 0 ? dir : manifest_write(dir, map);
	r = r < 0 ? r : sync_folder(dir);
	die_at("die_before_name");
	r = r < 0 ? r : sys_rename_noreplace(images, folder, images, info->name);
	if (r < 0) {
		(void)!layer_remove(images, folder);
		return r;
	}
	return sync_folder(images);
}

/* From here on others see it: first the layer, which nobody names yet, then the image. */
static int publish(struct making *m, const char *name, struct image_info *info)
{
	_cleanup_close_ int names = -EBADF;
	int r;

	if (flock(m->lock, LOCK_SH) < 0)
		return -errno;
	/* It is held by us, so nobody sweeps it. */
	r = sys_rename_noreplace(m->layers, m->folder, m->layers, m->id);
	if (r < 0)
		return r;
	snprintf(m->folder, sizeof(m->folder), "%s", m->id);
	r = sync_folder(m->layers);
	die_at("die_before_image");
	r = r < 0 ? r : fill_info(m, name, info);
	if (r < 0)
		return r;
	names = image_lock(m->home, LOCK_EX);
	return names < 0 ? names : publish_image(m, info);
}

static int make(struct making *m, const char *name, struct image_info *info)
{
	int r = begin_layer(m);

	r = r < 0 ? r : copy_all(m);
	die_at("die_after_copy");
	r = r < 0 ? r : write_layer(m);
	r = r < 0 ? r : publish(m, name, info);
	if (r < 0 && m->layers >= 0 && m->folder[0])
		(void)!layer_remove(m->layers, m->folder);
	if (r == -EEXIST && !m->err->code)
		return err_set(m->err, r, "there is an image \"%s\" already", name);
	return r < 0 && !m->err->code ? err_errno(m->err, r, "image \"%s\" cannot be made", name)
				      : r;
}

int image_make(int home, const char *name, const struct image_source *source,
	       const struct layer_progress *progress, struct image_info *ret_info, struct err *err)
{
	_cleanup_(making_done) struct making m = {
		.home = home,
		.source = source,
		.progress = progress,
		.layers = -EBADF,
		.dir = -EBADF,
		.lock = -EBADF,
		.trees = node_list(),
		.err = err,
	};
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	int r = m.trees ? image_check_new(home, name, err) : -ENOMEM;

	if (r < 0)
		return r;
	/* What was killed before is not worth a failure now. */
	(void)!image_sweep(home, NULL);
	m.has_range =
		source->isolation == ISOLATION_CONTAINER ? source->ids_first != 0 : ids_possible();
	/* The private folder is copied as a whole. */
	if (source->isolation == ISOLATION_CONTAINER)
		r = image_open_layers(home, source->layers, &m.parents, err);
	if (r < 0)
		return r;
	m.is_merged = m.parents.count == IMAGE_LAYERS_MAX;
	r = make(&m, name, &info);
	if (r < 0)
		return r;
	*ret_info = info;
	info = IMAGE_INFO_NONE;
	return 0;
}
