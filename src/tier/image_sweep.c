#include "tier/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "tier/image_internal.h"

/* All names of a folder. */
static int list_names(int dir, struct strv *ret_names)
{
	_cleanup_close_ int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;
	int r = 0;

	if (!stream)
		return -errno;
	take_fd(&own);
	while (r == 0 && (entry = readdir(stream)))
		if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
			r = strv_add(ret_names, entry->d_name);
	closedir(stream);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct image_info *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void image_list_free(struct image_info *images, size_t count)
{
	for (size_t i = 0; i < count; i++)
		image_info_done(&images[i]);
	free(images);
}

static void read_all(int images, const struct strv *names, struct image_info *list, size_t *count)
{
	for (size_t i = 0; i < names->count; i++) {
		struct err err = ERR_NONE;
		struct image_info *info = &list[*count];

		if (!image_name_is_valid(names->items[i]))
			continue;
		if (image_read(images, names->items[i], info, &err) < 0)
			snprintf(info->name, sizeof(info->name), "%s", names->items[i]);
		(*count)++;
	}
}

int image_list(int home, struct image_info **ret_images, size_t *ret_count, struct err *err)
{
	_cleanup_close_ int images = image_folder(home, IMAGES, false);
	_cleanup_(strv_done) struct strv names = { 0 };
	struct image_info *list;
	size_t count = 0;
	int r = images == -ENOENT ? 0 : images < 0 ? images : list_names(images, &names);

	if (r < 0)
		return err_errno(err, r, "\"%s\" in the state directory", IMAGES);
	list = calloc(names.count + 1, sizeof(*list));
	if (!list)
		return err_errno(err, -ENOMEM, "images");
	read_all(images, &names, list, &count);
	if (count > 0)
		qsort(list, count, sizeof(*list), compare);
	*ret_images = list;
	*ret_count = count;
	return 0;
}

/* Layers that images name. False when one of them cannot be read: then any could be named. */
static bool find_named(int home, struct strv *ret_named)
{
	struct image_info *images = NULL;
	size_t count = 0;
	bool is_sure = image_list(home, &images, &count, NULL) == 0;

	for (size_t i = 0; i < count; i++) {
		is_sure &= images[i].layers.count > 0;
		for (size_t k = 0; k < images[i].layers.count; k++)
			is_sure &= strv_add(ret_named, images[i].layers.items[k]) == 0;
	}
	image_list_free(images, count);
	return is_sure;
}

/* Whether nobody makes or uses it. Without a lock it never was finished. */
static bool is_free(int layers, const char *name)
{
	_cleanup_close_ int dir = image_folder(layers, name, false), lock = -EBADF;

	if (dir < 0)
		return false;
	lock = openat(dir, LAYER_LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (lock < 0)
		return errno == ENOENT;
	return flock(lock, LOCK_EX | LOCK_NB) == 0;
}

/* Out of the way first: that takes no time, and nobody finds it any more. */
static int put_away(int dir, const char *name)
{
	char gone[80];

	snprintf(gone, sizeof(gone), GONE_PREFIX "%.32s",
		 str_starts(name, NEW_PREFIX) ? name + strlen(NEW_PREFIX) : name);
	return sys_rename_noreplace(dir, name, dir, gone);
}

static void put_away_layers(int layers, const struct strv *named, bool is_sure)
{
	_cleanup_(strv_done) struct strv names = { 0 };

	if (list_names(layers, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		bool is_leftover = str_starts(name, NEW_PREFIX);

		if (!is_leftover && (name[0] == '.' || !is_sure || strv_has(named, name)))
			continue;
		if (is_free(layers, name))
			(void)!put_away(layers, name);
	}
}

/* Images are made under the lock that we hold. */
static void put_away_images(int images)
{
	_cleanup_(strv_done) struct strv names = { 0 };

	if (list_names(images, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++)
		if (str_starts(names.items[i], NEW_PREFIX))
			(void)!put_away(images, names.items[i]);
}

/* This takes time, and nobody waits for us any more. One at a time. */
static int remove_gone(int dir)
{
	_cleanup_close_ int lock =
		openat(dir, ".sweep", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	_cleanup_(strv_done) struct strv names = { 0 };
	int r;

	if (lock < 0)
		return -errno;
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	r = list_names(dir, &names);
	for (size_t i = 0; i < names.count; i++)
		if (str_starts(names.items[i], GONE_PREFIX)) {
			int gone = layer_remove(dir, names.items[i]);

			r = r < 0 ? r : gone;
		}
	return r;
}

int image_sweep(int home, struct err *err)
{
	_cleanup_close_ int images = image_folder(home, IMAGES, true);
	_cleanup_close_ int layers = image_folder(home, LAYERS, true);
	_cleanup_close_ int lock = -EBADF;
	_cleanup_(strv_done) struct strv named = { 0 };
	bool is_sure;
	int r, more;

	lock = images < 0 ? images : layers < 0 ? layers : image_lock(home, LOCK_EX);
	if (lock < 0)
		return err_errno(err, lock, "the images cannot be swept");
	is_sure = find_named(home, &named);
	put_away_images(images);
	put_away_layers(layers, &named, is_sure);
	lock = fd_close(lock);
	r = remove_gone(images);
	more = remove_gone(layers);
	r = r < 0 ? r : more;
	return r < 0 ? err_errno(err, r, "not all that nobody needs could be removed") : 0;
}

/* Whether layers are still there that no image names. */
static bool is_in_use(int home, const struct strv *layers)
{
	_cleanup_close_ int folder = image_folder(home, LAYERS, false);
	_cleanup_(strv_done) struct strv named = { 0 };

	(void)find_named(home, &named);
	for (size_t i = 0; i < layers->count; i++)
		if (!strv_has(&named, layers->items[i]) &&
		    faccessat(folder, layers->items[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static int take_name(int home, const char *name, struct err *err)
{
	_cleanup_close_ int images = -EBADF, lock = image_lock(home, LOCK_EX);
	char gone[IMAGE_NAME_MAX + 16];
	int r;

	if (lock < 0)
		return err_errno(err, lock, "the images cannot be locked");
	images = image_folder(home, IMAGES, false);
	/* One that is being removed may have had that name, too. */
	for (unsigned int i = 0;; i++) {
		snprintf(gone, sizeof(gone), GONE_PREFIX "%.32s-%u", name, i);
		r = images < 0 ? images : sys_rename_noreplace(images, name, images, gone);
		if (r != -EEXIST || i == 1000)
			break;
	}
	if (r == -ENOENT)
		return err_set(err, r, "there is no image \"%s\" (\"brig image ls\" lists them)",
			       name);
	if (r == 0 && fsync(images) < 0)
		r = -errno;
	return r < 0 ? err_errno(err, r, "image \"%s\" cannot be removed", name) : 0;
}

int image_remove(int home, const char *name, bool *ret_in_use, struct err *err)
{
	_cleanup_(image_info_done) struct image_info info = IMAGE_INFO_NONE;
	int r;

	if (!image_name_is_valid(name))
		return err_set(err, -ENOENT, "\"%.80s\" cannot be the name of an image", name);
	/* One that is damaged goes, too. */
	(void)!image_look(home, name, &info, NULL);
	r = take_name(home, name, err);
	r = r < 0 ? r : image_sweep(home, err);
	if (r == 0)
		*ret_in_use = is_in_use(home, &info.layers);
	return r;
}
