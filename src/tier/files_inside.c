#include "tier/files_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define DEPTH_MAX \
	64 /* deeper than rules lie in each other in practice; what is deeper is carried */

struct identity {
	dev_t device;
	ino_t inode;
};

struct expansion {
	const struct landlock *ll;
	struct files_granted *granted;
	struct err *err;
	unsigned int depth;
	struct identity *way; /* that must not be granted */
	size_t way_count;
};

static int expand(struct expansion *x, int folder, const char *path);

/* The same folder may be mounted at a second place, which no path tells. */
static bool is_on_the_way(const struct expansion *x, const struct stat *st)
{
	for (size_t i = 0; i < x->way_count; i++)
		if (x->way[i].device == st->st_dev && x->way[i].inode == st->st_ino)
			return true;
	return false;
}

static size_t count_components(const struct carry *carry)
{
	size_t count = 0;

	for (size_t i = 0; i < carry->guarded_count; i++)
		for (const char *p = carry->guarded[i]; *p; p++)
			count += *p == '/';
	return count;
}

/* What every guarded path leads through, and itself. */
static int find_way(struct expansion *x)
{
	const struct carry *carry = &x->granted->carry;
	char prefix[PATH_MAX];
	struct stat st;

	x->way = calloc(count_components(carry) + 1, sizeof(*x->way));
	if (!x->way)
		return err_errno(x->err, -ENOMEM, "cannot look at the rules for files");
	for (size_t i = 0; i < carry->guarded_count; i++)
		for (const char *p = carry->guarded[i]; *p;) {
			p += 1 + strcspn(p + 1, "/");
			snprintf(prefix, sizeof(prefix), "%.*s", (int)(p - carry->guarded[i]),
				 carry->guarded[i]);
			if (lstat(prefix, &st) == 0 && !is_on_the_way(x, &st))
				x->way[x->way_count++] = (struct identity){ st.st_dev, st.st_ino };
		}
	return 0;
}

static bool can_be_executed(const struct stat *st)
{
	return S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && (st->st_mode & 0111));
}

static int grant(const struct expansion *x, int fd, const char *path, const struct stat *st)
{
	int r;

	if (x->granted->executable.count >= INSIDE_MAX)
		return 0;
	r = landlock_grant(x->ll, fd, S_ISDIR(st->st_mode), LANDLOCK_READ);
	r = r < 0 ? r : strv_add(&x->granted->executable, path);
	return r < 0 ? err_errno(x->err, r, "\"%s\"", path) : 0;
}

static int take_name(struct expansion *x, int folder, const char *parent, const char *name)
{
	_cleanup_close_ int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	const struct carry *carry = &x->granted->carry;
	char path[PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", parent[1] ? parent : "", name) >=
		    sizeof(path) ||
	    fd < 0 || fstat(fd, &st) < 0 || !can_be_executed(&st))
		return 0;
	/* A rule of its own was, or will be, granted by itself. */
	if (str_equal(carry_place_of(carry, path)->path, path))
		return 0;
	if (carry_floor(carry, path) >= ACCESS_READ)
		return is_on_the_way(x, &st) ? 0 : grant(x, fd, path, &st);
	return S_ISDIR(st.st_mode) ? expand(x, fd, path) : 0;
}

static int expand(struct expansion *x, int folder, const char *path)
{
	int fd =
		x->depth < DEPTH_MAX ? openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	/* Not ours to read: nothing in it can be granted, and the keeper could not open it either. */
	if (!dir) {
		fd_close(fd);
		return 0;
	}
	x->depth++;
	while (r == 0 && (entry = readdir(dir)))
		if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
			r = take_name(x, dirfd(dir), path, entry->d_name);
	x->depth--;
	closedir(dir);
	return r;
}

int files_grant_inside(int tree, const char *path, const struct landlock *ll,
		       struct files_granted *granted, struct err *err)
{
	struct expansion x = { .ll = ll, .granted = granted, .err = err };
	int r = find_way(&x);

	r = r < 0 ? r : expand(&x, tree, path);
	free(x.way);
	return r;
}
