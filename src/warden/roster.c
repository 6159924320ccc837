#include "warden/roster.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "data/yaml.h"
#include "trace/catalog.h"
#include "trace/home.h"

#define LIVE          "live"
#define NAMES         "names"
#define BACKLOG       128
#define MANIFEST_MAX  (256 * KIB)
#define DRAFT_SECONDS 60
#define PATH_SIZE     (sizeof(NAMES) + ROSTER_NAME_MAX + 32)

bool roster_name_is_valid(const char *name)
{
	size_t len =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return len > 0 && len <= ROSTER_NAME_MAX && name[len] == '\0' && name[0] != '.' &&
	       name[0] != '-';
}

static void manifest_path(const char *id, char path[static PATH_SIZE])
{
	snprintf(path, PATH_SIZE, LIVE "/%.*s", TRACE_ID_SIZE - 1, id);
}

static void socket_path(const char *id, char path[static PATH_SIZE])
{
	snprintf(path, PATH_SIZE, LIVE "/%.*s.socket", TRACE_ID_SIZE - 1, id);
}

static void name_path(const char *name, char path[static PATH_SIZE])
{
	snprintf(path, PATH_SIZE, NAMES "/%.*s", ROSTER_NAME_MAX, name);
}

/* The path of a socket is short, wherever the state directory is. */
static void socket_address(int home, const char *id, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path),
		 "/proc/self/fd/%d/" LIVE "/%.*s.socket", home, TRACE_ID_SIZE - 1, id);
}

static int open_home(bool make, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, make, err);

	if (home < 0 || !make)
		return take_fd(&home);
	if ((mkdirat(home, LIVE, 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(home, NAMES, 0700) < 0 && errno != EEXIST))
		return err_errno(err, -errno, "\"" LIVE "\" in the state directory");
	return take_fd(&home);
}

/*
 * Whoever gives a name or takes one away. Between a look at whose it is and what follows from that, it
 * would be somebody else's. A descriptor that holds the lock, or -errno.
 */
static int lock_names(int home)
{
	_cleanup_close_ int fd =
		openat(home, NAMES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	return take_fd(&fd);
}

/* The text of a name's link, if it is an id. */
static bool read_name(int home, const char *name, char ret_id[static TRACE_ID_SIZE])
{
	char path[PATH_SIZE], text[TRACE_ID_SIZE];
	ssize_t len;

	name_path(name, path);
	len = readlinkat(home, path, text, sizeof(text));
	if (len <= 0 || len >= (ssize_t)sizeof(text))
		return false;
	text[len] = '\0';
	if (!trace_id_is_valid(text))
		return false;
	memcpy(ret_id, text, (size_t)len + 1);
	return true;
}

static int open_manifest(int home, const char *id)
{
	char path[PATH_SIZE];

	manifest_path(id, path);
	return trace_file_open(home, path, NULL);
}

/* Whether a warden has it; not there is dead as well. */
static bool is_alive(int home, const char *id)
{
	_cleanup_close_ int manifest = open_manifest(home, id);

	return manifest >= 0 && trace_is_alive(manifest);
}

/* Under the lock of the names: only where it is that sandbox's. */
static void remove_name(int home, const char *name, const char *id)
{
	char path[PATH_SIZE], owner[TRACE_ID_SIZE];

	if (!roster_name_is_valid(name) || !read_name(home, name, owner) || !str_equal(owner, id))
		return;
	name_path(name, path);
	(void)!unlinkat(home, path, 0);
}

/* Under the lock that the warden would have, so that only the dead go. */
static bool remove_dead(int home, const char *id)
{
	_cleanup_close_ int names = is_alive(home, id) ? -EBUSY : lock_names(home);
	_cleanup_close_ int manifest = names < 0 ? names : open_manifest(home, id);
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *name;
	char path[PATH_SIZE];
	bool alive;

	if (manifest < 0 || flock(manifest, LOCK_EX | LOCK_NB) < 0)
		return false;
	if (roster_read(id, &node, &alive, NULL) == 0 && (name = node_get(node, "name")) &&
	    name->kind == NODE_STRING)
		remove_name(home, name->text, id);
	socket_path(id, path);
	(void)!unlinkat(home, path, 0);
	manifest_path(id, path);
	return unlinkat(home, path, 0) == 0;
}

/* The lock is there before the file has its name. */
static int write_manifest(struct roster_place *place, const struct node *manifest)
{
	_cleanup_(buf_done) struct buf text = BUF(MANIFEST_MAX);
	char draft[PATH_SIZE], path[PATH_SIZE];
	int r = json_write(manifest, true, &text);

	manifest_path(place->id, path);
	snprintf(draft, sizeof(draft), LIVE "/.%s", place->id);
	if (r < 0)
		return r;
	place->manifest = trace_file_make(place->home, draft, O_WRONLY);
	if (place->manifest < 0)
		return place->manifest;
	if (flock(place->manifest, LOCK_EX | LOCK_NB) < 0)
		r = -errno;
	r = r < 0 ? r : fd_write_all(place->manifest, buf_text(&text), text.len);
	if (r == 0 && renameat(place->home, draft, place->home, path) < 0)
		r = -errno;
	if (r < 0)
		(void)!unlinkat(place->home, draft, 0);
	return r;
}

static int listen_at(struct roster_place *place)
{
	struct sockaddr_un address;

	socket_address(place->home, place->id, &address);
	place->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (place->socket < 0)
		return -errno;
	if (bind(place->socket, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(place->socket, BACKLOG) < 0)
		return -errno;
	return 0;
}

/* Under the lock of the names. A dead owner makes room. */
static int take_name(struct roster_place *place, const char *name, struct err *err)
{
	char path[PATH_SIZE], owner[TRACE_ID_SIZE];

	name_path(name, path);
	for (int i = 0; i < 2; i++) {
		if (symlinkat(place->id, place->home, path) == 0) {
			snprintf(place->name, sizeof(place->name), "%s", name);
			return 0;
		}
		if (errno != EEXIST)
			return err_errno(err, -errno, "the name \"%s\"", name);
		if (read_name(place->home, name, owner) && is_alive(place->home, owner))
			return err_set(err, -EEXIST,
				       "the name \"%s\" is taken by sandbox %s (brig kill %s)",
				       name, owner, owner);
		(void)!unlinkat(place->home, path, 0);
	}
	return err_set(err, -EEXIST, "the name \"%s\" is taken", name);
}

int roster_enter(const char *id, const char *name, const struct node *manifest,
		 struct roster_place *ret_place, struct err *err)
{
	struct roster_place place = ROSTER_PLACE_NONE;
	_cleanup_close_ int names = -EBADF;
	int r;

	snprintf(place.id, sizeof(place.id), "%s", id);
	place.home = open_home(true, err);
	if (place.home < 0)
		return place.home;
	/* Until the manifest is there: without one, the owner of a name counts as dead. */
	names = lock_names(place.home);
	r = names < 0 ? err_errno(err, names, "\"" NAMES "\" in the state directory") : 0;
	if (r == 0 && name)
		r = take_name(&place, name, err);
	if (r == 0) {
		r = write_manifest(&place, manifest);
		r = r < 0 ? r : listen_at(&place);
		if (r < 0)
			err_errno(err, r, "cannot enter the sandbox in the state directory");
	}
	names = fd_close(names);
	if (r < 0) {
		roster_leave(&place);
		return r;
	}
	*ret_place = place;
	return 0;
}

void roster_leave(struct roster_place *place)
{
	char path[PATH_SIZE];

	if (place->home < 0)
		return;
	if (place->name[0]) {
		int names = lock_names(place->home);

		(void)names;
		remove_name(place->home, place->name, place->id);
		fd_close(names);
	}
	socket_path(place->id, path);
	(void)!unlinkat(place->home, path, 0);
	manifest_path(place->id, path);
	if (place->manifest >= 0)
		(void)!unlinkat(place->home, path, 0);
	fd_close(place->manifest);
	fd_close(place->home);
	fd_close(place->socket);
	*place = ROSTER_PLACE_NONE;
}

/* Drafts and sockets have a dot in their names, ids have none. */
static int list_ids(int home, struct strv *ret_ids)
{
	return catalog_ids(home, LIVE, ret_ids);
}

static int find_prefix(int home, const char *word, char ret_id[static TRACE_ID_SIZE],
		       struct err *err)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	const char *found = NULL;
	int r = list_ids(home, &ids);

	if (r < 0)
		return err_errno(err, r, "\"" LIVE "\" in the state directory");
	for (size_t i = 0; i < ids.count; i++) {
		if (!str_starts(ids.items[i], word))
			continue;
		if (found)
			return err_set(err, -EINVAL,
				       "\"%s\" could be more than one sandbox (%s, %s): write more "
				       "of it",
				       word, found, ids.items[i]);
		found = ids.items[i];
	}
	if (!found)
		return err_set(err, -ESRCH, "there is no sandbox \"%s\" (see \"brig ps\")", word);
	snprintf(ret_id, TRACE_ID_SIZE, "%s", found);
	return 0;
}

int roster_find(const char *word, char ret_id[static TRACE_ID_SIZE], struct err *err)
{
	_cleanup_close_ int home = open_home(false, NULL);
	char path[PATH_SIZE];

	if (home < 0 || !roster_name_is_valid(word))
		return err_set(err, -ESRCH, "there is no sandbox \"%s\" (see \"brig ps\")", word);
	if (trace_id_is_valid(word)) {
		manifest_path(word, path);
		if (faccessat(home, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			snprintf(ret_id, TRACE_ID_SIZE, "%s", word);
			return 0;
		}
	}
	if (read_name(home, word, ret_id))
		return 0;
	return find_prefix(home, word, ret_id, err);
}

/* A socket that is connected, or -errno. */
static int reach(int home, const char *id, int flags)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	struct sockaddr_un address;

	if (fd < 0)
		return -errno;
	socket_address(home, id, &address);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

int roster_connect(const char *id, struct err *err)
{
	_cleanup_close_ int home = open_home(false, NULL);
	int fd = home < 0 ? -ENOENT : reach(home, id, 0);

	if (fd == -ENOENT)
		return err_set(err, -ESRCH, "there is no sandbox \"%s\" (see \"brig ps\")", id);
	if (fd == -ECONNREFUSED)
		return err_set(err, -ESRCH, "sandbox %s is dead: its warden was killed", id);
	return fd < 0 ? err_errno(err, fd, "cannot reach sandbox %s", id) : fd;
}

int roster_open(void)
{
	return open_home(false, NULL);
}

int roster_connect_at(int home, const char *id)
{
	return reach(home, id, SOCK_NONBLOCK);
}

static int read_manifest(int home, const char *id, struct node **ret_manifest, bool *ret_is_alive,
			 struct err *err)
{
	_cleanup_close_ int manifest = home < 0 ? home : open_manifest(home, id);
	_cleanup_(buf_done) struct buf text = BUF(MANIFEST_MAX);
	int r;

	if (manifest < 0)
		return err_set(err, -ESRCH, "there is no sandbox \"%s\" (see \"brig ps\")", id);
	*ret_is_alive = trace_is_alive(manifest);
	r = fd_read_all(manifest, &text);
	if (r < 0)
		return err_errno(err, r, "the manifest of sandbox %s", id);
	return yaml_parse(id, buf_text(&text), text.len, ret_manifest, err);
}

int roster_read(const char *id, struct node **ret_manifest, bool *ret_is_alive, struct err *err)
{
	_cleanup_close_ int home = open_home(false, NULL);

	return read_manifest(home, id, ret_manifest, ret_is_alive, err);
}

int roster_read_at(int home, const char *id, struct node **ret_manifest, bool *ret_is_alive)
{
	return read_manifest(home, id, ret_manifest, ret_is_alive, NULL);
}

int roster_ids(struct strv *ret_ids, struct err *err)
{
	_cleanup_close_ int home = open_home(false, NULL);
	int r = home < 0 ? 0 : list_ids(home, ret_ids);

	return r < 0 ? err_errno(err, r, "\"" LIVE "\" in the state directory") : 0;
}

/* Of a warden that was killed while it wrote; one that writes now is younger. */
static void sweep_drafts(int home)
{
	_cleanup_(catalog_closep) DIR *dir = NULL;
	const struct dirent *entry;
	struct stat st;

	if (catalog_open(home, LIVE, &dir) < 0)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] == '.' && trace_id_is_valid(entry->d_name + 1) &&
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_mtime + DRAFT_SECONDS < time(NULL))
			(void)!unlinkat(dirfd(dir), entry->d_name, 0);
}

size_t roster_sweep(size_t most)
{
	_cleanup_close_ int home = open_home(false, NULL);
	_cleanup_(strv_done) struct strv ids = { 0 };
	size_t removed = 0, first;

	if (home < 0 || list_ids(home, &ids) < 0 || ids.count == 0)
		return 0;
	/* Another beginning each time: none of many is left out for ever. */
	first = (size_t)getpid() % ids.count;
	for (size_t i = 0; i < ids.count && (most == 0 || i < most); i++)
		removed += remove_dead(home, ids.items[(first + i) % ids.count]);
	if (most == 0)
		sweep_drafts(home);
	return removed;
}
