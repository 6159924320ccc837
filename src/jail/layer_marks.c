#include "jail/layer_internal.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "base/str.h"

/*
 * brig mounts every overlay with "userxattr", so its marks are user.overlay.*. Of these a lower
 * layer is asked for "opaque" and, of directories, whether there is an "origin": then it may have
 * whiteouts in it. An origin of no bytes is a copy of something unknown, which is what it is here.
 * What a program inside an overlay gave such a name has one "overlay." more.
 */
#define USER    "user."
#define MARK    "user.overlay."
#define ESCAPED "user.overlay.overlay."
#define OPAQUE  MARK "opaque"
#define ORIGIN  MARK "origin"

/* What becomes of an attribute: its name in the copy, "" for nothing. */
static int name_in_copy(const char *name, bool is_plain, bool is_directory,
			char text[static XATTR_NAME_MAX + 1])
{
	text[0] = '\0';
	if (!str_starts(name, USER))
		return 0;
	if (str_starts(name, MARK) && is_plain)
		return snprintf(text, XATTR_NAME_MAX + 1, ESCAPED "%s", name + strlen(MARK)) >
				       XATTR_NAME_MAX
			       ? -ENAMETOOLONG
			       : 0;
	if (str_starts(name, MARK) && !str_starts(name, ESCAPED) &&
	    !(is_directory && (str_equal(name, OPAQUE) || str_equal(name, ORIGIN))))
		return 0;
	snprintf(text, XATTR_NAME_MAX + 1, "%s", name);
	return 0;
}

/* The names of all attributes, one behind the other. The caller frees them. 0: there are none. */
static ssize_t list_marks(int fd, char **ret_names)
{
	char *names;
	ssize_t len = flistxattr(fd, NULL, 0);

	if (len <= 0)
		return len < 0 && errno != EOPNOTSUPP ? -errno : 0;
	names = malloc((size_t)len + 1);
	if (!names)
		return -ENOMEM;
	len = flistxattr(fd, names, (size_t)len);
	if (len < 0) {
		free(names);
		return -errno;
	}
	names[len] = '\0';
	*ret_names = names;
	return len;
}

static int copy_mark(int from, const char *name, int to, const char *new_name, bool is_empty)
{
	_cleanup_free_ char *value = malloc(XATTR_SIZE_MAX);
	ssize_t len = value ? fgetxattr(from, name, value, XATTR_SIZE_MAX) : -1;

	if (!value)
		return -ENOMEM;
	if (len < 0)
		return -errno;
	return fsetxattr(to, new_name, value, is_empty ? 0 : (size_t)len, 0) < 0 ? -errno : 0;
}

int layer_marks_copy(int from, int to, bool is_plain, bool is_directory)
{
	_cleanup_free_ char *names = NULL;
	ssize_t len = list_marks(from, &names);
	char name[XATTR_NAME_MAX + 1];
	int r = (int)MIN(len, 0);

	for (const char *p = names; r == 0 && p < names + MAX(len, 0); p += strlen(p) + 1) {
		r = name_in_copy(p, is_plain, is_directory, name);
		if (r == 0 && name[0])
			r = copy_mark(from, p, to, name, str_equal(name, ORIGIN));
	}
	return r;
}

int layer_mark_opaque(int dir)
{
	return fsetxattr(dir, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

int layer_mark_whiteouts(int dir)
{
	return fsetxattr(dir, ORIGIN, "", 0, 0) < 0 ? -errno : 0;
}

/* The marks go first: what gets its name back may have that of one. */
int layer_marks_prune(int fd)
{
	_cleanup_free_ char *names = NULL;
	ssize_t len = list_marks(fd, &names);
	const char *end = names + MAX(len, 0);
	char name[XATTR_NAME_MAX + 1];
	int r = (int)MIN(len, 0);

	for (const char *p = names; r == 0 && p < end; p += strlen(p) + 1)
		if (str_starts(p, MARK) && !str_starts(p, ESCAPED) && fremovexattr(fd, p) < 0)
			r = -errno;
	for (const char *p = names; r == 0 && p < end; p += strlen(p) + 1) {
		if (!str_starts(p, ESCAPED))
			continue;
		snprintf(name, sizeof(name), MARK "%s", p + strlen(ESCAPED));
		r = copy_mark(fd, p, fd, name, false);
		if (r == 0 && fremovexattr(fd, p) < 0)
			r = -errno;
	}
	return r;
}
