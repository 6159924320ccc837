#include "jail/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/mediate_act.h"

/* The directory that a name would be made in. */
struct parent {
	struct stat st;
	char path[PATH_MAX]; /* "" when it is too deep to have one, and deeper than every guard */
};

static int parent_of(int dir, struct parent *ret_parent)
{
	char link[LINK_SIZE];
	ssize_t len;

	if (fstat(dir, &ret_parent->st) < 0)
		return -errno;
	len = readlink(own_link(dir, link), ret_parent->path, sizeof(ret_parent->path));
	if (len < 0 && errno != ENAMETOOLONG)
		return -errno;
	ret_parent->path[len < 0 || len == sizeof(ret_parent->path) ? 0 : len] = '\0';
	return 0;
}

/* Whether the first len bytes of a guarded path name the parent, now. */
static bool leads_to(const char *guard, size_t len, const struct parent *parent)
{
	_cleanup_close_ int fd = -EBADF;
	char prefix[PATH_MAX];
	struct stat st;

	if (len >= sizeof(prefix))
		return true;
	memcpy(prefix, guard, len);
	prefix[len] = '\0';
	/* Usually; and still when something was mounted over it since. */
	if (str_equal(parent->path, prefix))
		return true;
	fd = sys_openat2(AT_FDCWD, prefix, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
			 RESOLVE_NO_MAGICLINKS);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return false;
	/* Out of our reach, but perhaps not out of theirs. */
	if (fd < 0 || fstat(fd, &st) < 0)
		return true;
	return st.st_dev == parent->st.st_dev && st.st_ino == parent->st.st_ino;
}

/* Whether the name in the parent is the guarded path, or a step on the way that matters. */
static bool is_on_the_way(const char *guard, const struct parent *parent, const char *name,
			  size_t name_len, enum appearance appearance)
{
	for (const char *p = guard + 1; *p;) {
		size_t len = strcspn(p, "/");
		bool is_itself = p[len] == '\0';

		/* "/" is the prefix of the first component, "/a" of the next. */
		if (len == name_len && strncasecmp(p, name, len) == 0 &&
		    (is_itself || appearance == APPEARS_ANYTHING) &&
		    leads_to(guard, p - 1 == guard ? 1 : (size_t)(p - 1 - guard), parent))
			return true;
		p += len + !is_itself;
	}
	return false;
}

int guard_check(const char *const *guarded, size_t count, int dir, const char *name,
		enum appearance appearance)
{
	size_t name_len = strcspn(name, "/");
	struct parent parent;
	int r = parent_of(dir, &parent);

	for (size_t i = 0; r == 0 && i < count; i++)
		if (path_is_below(parent.path, guarded[i]) ||
		    is_on_the_way(guarded[i], &parent, name, name_len, appearance))
			r = -EACCES;
	return r;
}
