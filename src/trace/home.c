#include "trace/home.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#define BELOW (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

const char *const trace_folders[TRACE_FOLDERS] = { "sandboxes", "heads",  "spares", "live",
						   "names",     "images", "layers", "serve" };

static const char *home_of_user(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user;

	if (home && home[0] == '/')
		return home;
	user = getpwuid(geteuid());
	return user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

int trace_home_path(char path[static PATH_MAX], struct err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home;
	int len;

	if (state && state[0] == '/')
		len = snprintf(path, PATH_MAX, "%s/brig", state);
	else if (geteuid() == 0)
		len = snprintf(path, PATH_MAX, "/var/lib/brig");
	else if ((home = home_of_user()))
		len = snprintf(path, PATH_MAX, "%s/.local/state/brig", home);
	else
		return err_set(err, -ENOENT,
			       "there is no home for the event stream: set XDG_STATE_HOME");
	if (len >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG,
			       "the path of the state directory is too long: set XDG_STATE_HOME");
	return 0;
}

/* With every directory above it that is missing, closed to others as XDG asks. */
static int make_path(const char *path)
{
	char text[PATH_MAX];

	if (snprintf(text, sizeof(text), "%s", path) >= (int)sizeof(text))
		return -ENAMETOOLONG;
	for (char *p = strchr(text + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(text, 0700) < 0 && errno != EEXIST && access(text, F_OK) < 0)
			return -errno;
		*p = '/';
	}
	return mkdir(text, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int check_home(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, -errno, "the state directory \"%s\"", path);
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "the state directory \"%s\" belongs to another user (uid %u): set "
			       "XDG_STATE_HOME to a directory of your own",
			       path, st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
			       "the state directory \"%s\" can be written by others: run \"chmod "
			       "700 %s\"",
			       path, path);
	return 0;
}

/* Links on the way to it are the user's own business; it must not be one itself. */
static int open_directory(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int trace_home_open(const char *path, bool make, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	char own[PATH_MAX];
	int r = path ? 0 : trace_home_path(own, err);

	if (r < 0)
		return r;
	path = path ? path : own;
	fd = open_directory(path);
	if (fd == -ENOENT && make) {
		r = make_path(path);
		fd = r < 0 ? r : open_directory(path);
	}
	if (fd == -ENOTDIR || fd == -ELOOP)
		return err_set(err, -ENOTDIR,
			       "the state directory \"%s\" is a symbolic link or no directory: "
			       "remove it, or set XDG_STATE_HOME",
			       path);
	if (fd < 0)
		return err_errno(err, fd,
				 "the state directory \"%s\" (set XDG_STATE_HOME to "
				 "another one)",
				 path);
	r = check_home(fd, path, err);
	return r < 0 ? r : take_fd(&fd);
}

bool trace_id_is_valid(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	return len > 0 && len < TRACE_ID_SIZE && id[len] == '\0';
}

void trace_stream_path(const char *id, char path[static TRACE_PATH_SIZE])
{
	snprintf(path, TRACE_PATH_SIZE, "sandboxes/%.15s/events.ndjson", id);
}

void trace_head_path(const char *id, char path[static TRACE_PATH_SIZE])
{
	snprintf(path, TRACE_PATH_SIZE, "heads/%.15s", id);
}

int trace_file_open(int home, const char *path, struct err *err)
{
	_cleanup_close_ int fd = sys_openat2(
		home, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0, BELOW);
	struct stat st;

	if (fd < 0)
		return err_errno(err, fd, "\"%s\" in the state directory", path);
	if (fstat(fd, &st) < 0)
		return err_errno(err, -errno, "\"%s\" in the state directory", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, -EBADMSG,
			       "\"%s\" in the state directory is no plain file of yours", path);
	return take_fd(&fd);
}

int trace_file_make(int home, const char *path, int flags)
{
	return sys_openat2(home, path, (uint64_t)flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			   0600, BELOW);
}

bool trace_is_alive(int stream)
{
	bool is_alive = flock(stream, LOCK_SH | LOCK_NB) < 0;

	if (!is_alive)
		(void)flock(stream, LOCK_UN);
	return is_alive;
}
