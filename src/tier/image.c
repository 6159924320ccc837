#include "tier/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "data/schema.h"
#include "data/yaml.h"
#include "jail/ids.h"
#include "tier/image_internal.h"

#define BELOW (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool image_name_is_valid(const char *name)
{
	size_t len = strspn(name, LETTERS "._-");

	return len > 0 && len <= IMAGE_NAME_MAX && name[len] == '\0' && name[0] != '.' &&
	       name[0] != '-';
}

static bool is_id(const char *id)
{
	size_t len = strspn(id, LETTERS);

	return len > 0 && len < IMAGE_ID_SIZE && id[len] == '\0';
}

int image_folder(int home, const char *name, bool make)
{
	int fd;

	if (make && mkdirat(home, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(home, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int image_lock(int home, int operation)
{
	_cleanup_close_ int images = image_folder(home, IMAGES, true), fd = -EBADF;
	int r;

	if (images < 0)
		return images;
	fd = openat(images, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	do
		r = flock(fd, operation);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : take_fd(&fd);
}

/* What it says is ours, and it is read as if it were not. */
int manifest_read(int dir, const char *what, struct node **ret_map, struct err *err)
{
	_cleanup_(buf_done) struct buf text = BUF(YAML_MAX_BYTES);
	_cleanup_(node_freep) struct node *map = NULL;
	_cleanup_close_ int fd = sys_openat2(
		dir, MANIFEST, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0, BELOW);
	struct stat st;
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EBADMSG;

	r = r < 0 ? r : fd_read_all(fd, &text);
	if (r < 0)
		return err_errno(err, r, "%s", what);
	r = yaml_parse(what, buf_text(&text), text.len, &map, err);
	if (r < 0)
		return r;
	if (map->kind != NODE_MAP)
		return err_set(err, -EBADMSG, "%s: its manifest is not a map", what);
	*ret_map = take_ptr(&map);
	return 0;
}

int manifest_write(int dir, const struct node *map)
{
	_cleanup_(buf_done) struct buf text = BUF(YAML_MAX_BYTES);
	_cleanup_close_ int fd = -EBADF;
	int r = json_write(map, false, &text);

	r = r < 0 ? r : buf_char(&text, '\n');
	if (r < 0)
		return r;
	fd = openat(dir, MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, buf_text(&text), text.len);
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static const char *text_of(const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);

	return node && node->kind == NODE_STRING ? node->text : NULL;
}

static uint64_t number_of(const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);

	return node && node->kind == NODE_INT && node->number > 0 ? (uint64_t)node->number : 0;
}

/* A list of texts; false when it is something else. */
static bool read_list(const struct node *map, const char *key, struct strv *ret_list)
{
	const struct node *list = node_get(map, key);

	if (!list || list->kind != NODE_LIST)
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (list->entries[i].value->kind != NODE_STRING ||
		    strv_add(ret_list, list->entries[i].value->text) < 0)
			return false;
	return true;
}

void image_info_done(struct image_info *info)
{
	free(info->base);
	strv_done(&info->layers);
	strv_done(&info->overlays);
	*info = IMAGE_INFO_NONE;
}

static bool read_isolation(const char *name, enum isolation *ret_isolation)
{
	if (!name)
		return false;
	for (int i = ISOLATION_UNSET; i < ISOLATION_COUNT; i++)
		if (isolation_names[i] && str_equal(isolation_names[i], name)) {
			*ret_isolation = (enum isolation)i;
			return true;
		}
	return false;
}

static int fill_info(const struct node *map, struct image_info *info)
{
	const char *base = text_of(map, "image"), *ids = text_of(map, "ids");

	info->created = number_of(map, "created");
	info->bytes = number_of(map, "bytes");
	info->files = number_of(map, "files");
	info->base = base ? strdup(base) : NULL;
	info->has_range = ids && str_equal(ids, "range");
	if (base && !info->base)
		return -ENOMEM;
	if (!read_isolation(text_of(map, "isolation"), &info->isolation) || !ids ||
	    !read_list(map, "layers", &info->layers) ||
	    !read_list(map, "overlays", &info->overlays) || info->layers.count == 0 ||
	    info->layers.count > IMAGE_LAYERS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < info->layers.count; i++)
		if (!is_id(info->layers.items[i]))
			return -EBADMSG;
	return 0;
}

int image_read(int images, const char *name, struct image_info *ret_info, struct err *err)
{
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	_cleanup_(node_freep) struct node *map = NULL;
	_cleanup_close_ int dir = -EBADF;
	char what[IMAGE_NAME_MAX + 16];
	int r;

	snprintf(what, sizeof(what), "image \"%.64s\"", name);
	dir = images < 0 ? images : image_folder(images, name, false);
	if (dir == -ENOENT)
		return err_set(err, -ENOENT, "there is no %s (\"brig image ls\" lists them)", what);
	if (dir < 0)
		return err_errno(err, dir, "%s", what);
	r = manifest_read(dir, what, &map, err);
	if (r < 0)
		return r;
	snprintf(info.name, sizeof(info.name), "%.64s", name);
	r = fill_info(map, &info);
	if (r < 0)
		return r == -ENOMEM ? r
				    : err_set(err, r,
					      "%s: its manifest is damaged (\"brig image rm %s\" "
					      "removes it)",
					      what, name);
	*ret_info = info;
	info = IMAGE_INFO_NONE;
	return 0;
}

static int check_name(const char *name, struct err *err)
{
	return image_name_is_valid(name) ? 0
					 : err_set(err, -EINVAL,
						   "\"%.80s\" cannot be the name of an image: "
						   "letters, digits, \".\", "
						   "\"_\" and \"-\", at most %d, and neither \".\" "
						   "nor \"-\" in front",
						   name, IMAGE_NAME_MAX);
}

int image_look(int home, const char *name, struct image_info *ret_info, struct err *err)
{
	_cleanup_close_ int images = -EBADF;
	int r = check_name(name, err);

	if (r < 0)
		return r;
	images = image_folder(home, IMAGES, false);
	return image_read(images, name, ret_info, err);
}

int image_check_new(int home, const char *name, struct err *err)
{
	_cleanup_close_ int images = -EBADF;
	struct stat st;
	int r = check_name(name, err);

	if (r < 0)
		return r;
	images = image_folder(home, IMAGES, true);
	if (images < 0)
		return err_errno(err, images, "\"%s\" in the state directory", IMAGES);
	if (fstatat(images, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, -EEXIST,
			       "there is an image \"%s\" already: take another name, or remove it "
			       "(brig image rm %s)",
			       name, name);
	return errno == ENOENT ? 0 : err_errno(err, -errno, "image \"%s\"", name);
}

static void layer_close(struct image_layer *layer)
{
	fd_close(layer->dir);
	fd_close(layer->lock);
	free(layer->path);
	for (size_t i = 0; i < layer->tree_count; i++) {
		free(layer->trees[i].name);
		free(layer->trees[i].path);
	}
	free(layer->trees);
}

void image_layers_done(struct image_layers *layers)
{
	for (size_t i = 0; i < layers->count; i++)
		layer_close(&layers->items[i]);
	free(layers->base);
	*layers = IMAGE_LAYERS_NONE;
}

static int find_path(int fd, char **ret_path)
{
	char link[40], path[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path));
	if (len < 0 || len >= (ssize_t)sizeof(path))
		return len < 0 ? -errno : -ENAMETOOLONG;
	*ret_path = strndup(path, (size_t)len);
	return *ret_path ? 0 : -ENOMEM;
}

/* A name of a tree goes into an option of a mount: nothing but what we make ourselves. */
static bool is_tree_name(const char *name)
{
	return name && *name && strlen(name) < 16 && strspn(name, LETTERS "-") == strlen(name) &&
	       name[0] != '-';
}

static int read_tree(struct image_layer *layer, const struct node *map)
{
	struct image_tree *tree = &layer->trees[layer->tree_count];
	const char *name = text_of(map, "name"), *path = text_of(map, "path");
	struct stat st;

	if (!is_tree_name(name) || !path || path[0] != '/')
		return -EBADMSG;
	if (fstatat(layer->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -EBADMSG;
	*tree = (struct image_tree){ strdup(name), strdup(path), st.st_mode & 01777 };
	layer->tree_count++;
	return tree->name && tree->path ? 0 : -ENOMEM;
}

static int read_trees(struct image_layer *layer, const struct node *map)
{
	const struct node *trees = node_get(map, "trees");
	int r = 0;

	if (!trees || trees->kind != NODE_LIST || trees->count > IMAGE_TREES_MAX)
		return -EBADMSG;
	layer->trees = calloc(MAX(trees->count, (size_t)1), sizeof(*layer->trees));
	if (!layer->trees)
		return -ENOMEM;
	for (size_t i = 0; i < trees->count && r == 0; i++)
		r = read_tree(layer, trees->entries[i].value);
	return r;
}

static int open_lock(int dir)
{
	_cleanup_close_ int fd =
		openat(dir, LAYER_LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	return take_fd(&fd);
}

static int layer_open(int layers, const char *id, struct image_layer *layer, struct err *err)
{
	_cleanup_(node_freep) struct node *map = NULL;
	char what[48];
	int r;

	snprintf(what, sizeof(what), "layer \"%.16s\"", id);
	if (!is_id(id))
		return err_set(err, -EINVAL, "%s is none", what);
	snprintf(layer->id, sizeof(layer->id), "%s", id);
	layer->dir = layers < 0
			     ? layers
			     : sys_openat2(layers, id, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, BELOW);
	layer->lock = layer->dir < 0 ? layer->dir : open_lock(layer->dir);
	if (layer->lock < 0)
		return err_errno(err, layer->lock, "%s of the image cannot be held", what);
	r = manifest_read(layer->dir, what, &map, err);
	if (r < 0)
		return r;
	layer->bytes = number_of(map, "bytes");
	layer->files = number_of(map, "files");
	r = read_trees(layer, map);
	r = r < 0 ? r : find_path(layer->dir, &layer->path);
	return r < 0 ? err_errno(err, r, "%s of the image is damaged", what) : 0;
}

/* The names stand still meanwhile. */
static int open_all(int home, const struct strv *ids, struct image_layers *layers, struct err *err)
{
	_cleanup_close_ int folder = image_folder(home, LAYERS, false);
	int r = 0;

	if (ids->count > IMAGE_LAYERS_MAX)
		return err_set(err, -E2BIG, "more than %d layers", IMAGE_LAYERS_MAX);
	for (size_t i = 0; i < ids->count && r == 0; i++) {
		layers->items[layers->count] =
			(struct image_layer){ .dir = -EBADF, .lock = -EBADF };
		r = layer_open(folder, ids->items[i], &layers->items[layers->count++], err);
	}
	return r;
}

int image_open_layers(int home, const struct strv *ids, struct image_layers *ret_layers,
		      struct err *err)
{
	_cleanup_(image_layers_done) struct image_layers layers = IMAGE_LAYERS_NONE;
	_cleanup_close_ int lock = -EBADF;
	int r;

	if (ids && ids->count > 0) {
		lock = image_lock(home, LOCK_SH);
		r = lock < 0 ? err_errno(err, lock, "the images cannot be locked")
			     : open_all(home, ids, &layers, err);
		if (r < 0)
			return r;
	}
	*ret_layers = layers;
	layers = IMAGE_LAYERS_NONE;
	return 0;
}

int image_open(int home, const char *name, struct image_layers *ret_layers, struct err *err)
{
	_cleanup_(image_layers_done) struct image_layers layers = IMAGE_LAYERS_NONE;
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	_cleanup_close_ int lock = -EBADF;
	int r = check_name(name, err);

	if (r < 0)
		return r;
	lock = image_lock(home, LOCK_SH);
	if (lock < 0)
		return err_errno(err, lock, "the images cannot be locked");
	r = image_look(home, name, &info, err);
	r = r < 0 ? r : open_all(home, &info.layers, &layers, err);
	if (r < 0)
		return r;
	snprintf(layers.name, sizeof(layers.name), "%s", name);
	layers.isolation = info.isolation;
	layers.has_range = info.has_range;
	layers.base = take_ptr(&info.base);
	*ret_layers = layers;
	layers = IMAGE_LAYERS_NONE;
	return 0;
}

const struct image_tree *image_find_tree(const struct image_layer *layer, const char *path)
{
	for (size_t i = 0; i < layer->tree_count; i++)
		if (str_equal(layer->trees[i].path, path))
			return &layer->trees[i];
	return NULL;
}

const struct image_tree *image_newest_tree(const struct image_layers *layers, const char *path)
{
	const struct image_tree *tree = NULL;

	for (size_t i = layers->count; i-- > 0 && !tree;)
		tree = image_find_tree(&layers->items[i], path);
	return tree;
}

int image_unpack(const struct image_layers *layers, const char *path, int to, struct err *err)
{
	struct layer_how how = {
		.ids = LAYER_IDS_ONE, .first = geteuid(), .is_below = true, .keeps_top = true
	};
	int r = 0;

	for (size_t i = layers->count; i-- > 0 && r == 0;) {
		const struct image_tree *tree = image_find_tree(&layers->items[i], path);

		if (tree)
			r = layer_copy(layers->items[i].dir, tree->name, to, ".", &how, err);
	}
	return r < 0 ? r : layer_prune(to, ".", err);
}

static int strv_node(const struct strv *list, struct node *map, const char *key)
{
	_cleanup_(node_freep) struct node *node = node_list();
	int r = node ? 0 : -ENOMEM;

	for (size_t i = 0; i < list->count && r == 0; i++)
		r = node_add(node, node_string(list->items[i]));
	return r < 0 ? r : node_set(map, key, take_ptr(&node));
}

int image_info_to_node(const struct image_info *info, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? node_set(map, "name", node_string(info->name)) : -ENOMEM;

	r = r < 0 ? r : node_set(map, "created", node_int((int64_t)info->created));
	r = r < 0 ? r
		  : node_set(map, "isolation",
			     info->created ? node_string(isolation_names[info->isolation])
					   : node_null());
	r = r < 0 ? r : node_set(map, "ids", node_string(info->has_range ? "range" : "own"));
	r = r < 0 ? r : node_set(map, "image", info->base ? node_string(info->base) : node_null());
	r = r < 0 ? r : strv_node(&info->layers, map, "layers");
	r = r < 0 ? r : strv_node(&info->overlays, map, "overlays");
	r = r < 0 ? r : node_set(map, "bytes", node_int((int64_t)info->bytes));
	r = r < 0 ? r : node_set(map, "files", node_int((int64_t)info->files));
	if (r == 0)
		*ret_node = take_ptr(&map);
	return r;
}

struct node *image_info_schema(void)
{
	static const struct schema_part parts[] = {
		{ .name = "name", .type = "string" },
		{ .name = "created", .type = "integer" },
		{ .name = "isolation", .type = "string|null" },
		{ .name = "ids", .type = "string" },
		{ .name = "image", .type = "string|null" },
		{ .name = "bytes", .type = "integer" },
		{ .name = "files", .type = "integer" },
	};
	_cleanup_(node_freep) struct node *object = schema_parts(parts, ARRAY_SIZE(parts));
	int r = object ? schema_add(object, "layers", schema_list(schema_type("string")), true)
		       : -ENOMEM;

	r = r < 0 ? r : schema_add(object, "overlays", schema_list(schema_type("string")), true);
	return r < 0 ? NULL : take_ptr(&object);
}
