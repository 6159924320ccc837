#include "jail/cgroup_find.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

/*
 * Both numbers are fixed by the kernel: the inode of the first cgroup namespace, and that of the
 * root directory of every hierarchy.
 */
#define INITIAL_NAMESPACE_INO 0xEFFFFFFBu
#define HIERARCHY_ROOT_INO    1u

#define MOUNTINFO_BLOCK (16 * KIB)

static bool list_has(const char *list, size_t len, const char *word)
{
	size_t word_len = strlen(word);

	while (len > 0) {
		const char *comma = memchr(list, ',', len);
		size_t item = comma ? (size_t)(comma - list) : len;

		if (item == word_len && memcmp(list, word, item) == 0)
			return true;
		if (!comma)
			return false;
		list += item + 1;
		len -= item + 1;
	}
	return false;
}

static bool path_leaves_root(const char *path)
{
	for (const char *p = path; p; p = strchr(p + 1, '/'))
		if (str_starts(p, "/..") && (p[3] == '/' || p[3] == '\0'))
			return true;
	return false;
}

/* Parses one line of len bytes. 1 when it is the line of the controller, 0 when it is another or
 * broken. */
static int line_parse(const char *line, size_t len, const char *controller,
		      struct cgroup_line *ret_line)
{
	const char *first = memchr(line, ':', len), *second;
	unsigned int id = 0;
	size_t path_len;

	if (!first || first == line || first - line > 9)
		return 0;
	for (const char *p = line; p < first; p++) {
		if (*p < '0' || *p > '9')
			return 0;
		id = id * 10 + (unsigned int)(*p - '0');
	}
	second = memchr(first + 1, ':', len - (size_t)(first + 1 - line));
	if (!second || second[1] != '/')
		return 0;
	if (*controller ? !list_has(first + 1, (size_t)(second - first - 1), controller)
			: id != 0 || second != first + 1)
		return 0;

	path_len = len - (size_t)(second + 1 - line);
	if (path_len >= sizeof(ret_line->path))
		return -ENAMETOOLONG;
	ret_line->id = id;
	memcpy(ret_line->path, second + 1, path_len);
	ret_line->path[path_len] = '\0';
	return path_leaves_root(ret_line->path) ? -EXDEV : 1;
}

int cgroup_line_find(const char *text, const char *controller, struct cgroup_line *ret_line)
{
	struct cgroup_line line;

	while (*text) {
		size_t len = strcspn(text, "\n");
		int r = line_parse(text, len, controller, &line);

		if (r < 0)
			return r;
		if (r > 0) {
			*ret_line = line;
			return 0;
		}
		text += len + (text[len] == '\n');
	}
	return -ENOENT;
}

/* Copies one field up to a space; mountinfo writes space, tab, newline and backslash as \ooo. */
static int field_copy(const char *field, char *text, size_t size)
{
	size_t n = 0;

	for (const char *p = field; *p && *p != ' ' && *p != '\n'; p++) {
		unsigned int c = (unsigned char)*p;

		if (*p == '\\') {
			c = 0;
			for (int i = 1; i <= 3; i++) {
				if (p[i] < '0' || p[i] > '7')
					return -EINVAL;
				c = c * 8 + (unsigned int)(p[i] - '0');
			}
			if (c == 0 || c > 0xff)
				return -EINVAL;
			p += 3;
		}
		if (n + 1 >= size)
			return -ENAMETOOLONG;
		text[n++] = (char)c;
	}
	text[n] = '\0';
	return n > 0 ? 0 : -EINVAL;
}

static const char *field_skip(const char *p, int count)
{
	while (p && count-- > 0) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p;
}

int cgroup_mount_parse(const char *line, struct cgroup_mount *ret_mount)
{
	/* "36 31 0:33 ROOT POINT rw,relatime shared:7 - TYPE SOURCE OPTIONS": the optional fields
	 * before the dash are any number, and no field before it can be a dash. */
	const char *root = field_skip(line, 3), *point = field_skip(line, 4);
	const char *dash = point ? strstr(point, " - ") : NULL;
	const char *type = dash ? dash + 3 : NULL, *options = field_skip(type, 2);
	struct cgroup_mount mount = { 0 };
	int r;

	if (!options)
		return -EINVAL;
	mount.is_v2 = str_starts(type, "cgroup2 ");
	if (!mount.is_v2 && !str_starts(type, "cgroup "))
		return -ENOENT;
	r = field_copy(root, mount.root, sizeof(mount.root));
	if (r == 0)
		r = field_copy(point, mount.point, sizeof(mount.point));
	if (r == 0)
		r = field_copy(options, mount.options, sizeof(mount.options));
	if (r < 0)
		return r;
	if (mount.root[0] != '/' || mount.point[0] != '/')
		return -EINVAL;
	*ret_mount = mount;
	return 0;
}

bool cgroup_mount_has(const struct cgroup_mount *mount, const char *controller)
{
	if (!*controller)
		return mount->is_v2;
	return !mount->is_v2 && list_has(mount->options, strlen(mount->options), controller);
}

const char *cgroup_path_below(const char *path, const char *root)
{
	size_t len = strlen(root);

	if (len > 0 && root[len - 1] == '/')
		len--;
	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	while (*path == '/')
		path++;
	return path;
}

static int open_of_type(const char *path, bool is_v2)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	/* Something else may be mounted over the place since. */
	if ((unsigned long)fs.f_type != (is_v2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
		return -ENOENT;
	return take_fd(&fd);
}

/* Takes over fd on success. */
static int tree_set(int *fd, const char *own, struct cgroup_tree *ret_tree)
{
	struct stat st;

	if (strlen(own) >= sizeof(ret_tree->own))
		return -ENAMETOOLONG;
	if (fstatat(*fd, *own ? own : ".", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	ret_tree->mount = take_fd(fd);
	memcpy(ret_tree->own, own, strlen(own) + 1);
	return 0;
}

/*
 * In the first cgroup namespace our path counts from the root of the hierarchy; where a usual place
 * holds exactly that root, nothing is left to ask. In a container either may differ.
 */
static int find_in_usual_place(const char *controller, const char *path,
			       struct cgroup_tree *ret_tree)
{
	static const char *const unified[] = { "", "/unified" };
	struct stat st;

	if (stat("/proc/self/ns/cgroup", &st) < 0) {
		if (errno != ENOENT)
			return -errno;
	} else if (st.st_ino != INITIAL_NAMESPACE_INO) {
		return -ENOENT;
	}
	for (size_t i = 0; i < (*controller ? 1 : ARRAY_SIZE(unified)); i++) {
		_cleanup_close_ int fd = -EBADF;
		char place[64];
		int n;

		n = snprintf(place, sizeof(place), "/sys/fs/cgroup%s%s",
			     *controller ? "/" : unified[i], controller);
		if (n < 0 || (size_t)n >= sizeof(place))
			return -ENAMETOOLONG;
		fd = open_of_type(place, !*controller);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == HIERARCHY_ROOT_INO)
			return tree_set(&fd, path + 1, ret_tree);
	}
	return -ENOENT;
}

static int try_mount(const char *line, const char *controller, const char *path,
		     struct cgroup_tree *ret_tree)
{
	_cleanup_close_ int fd = -EBADF;
	struct cgroup_mount mount;
	const char *own;
	int r = cgroup_mount_parse(line, &mount);

	if (r < 0)
		return r;
	own = cgroup_path_below(path, mount.root);
	if (!own || !cgroup_mount_has(&mount, controller))
		return -ENOENT;
	fd = open_of_type(mount.point, mount.is_v2);
	return fd < 0 ? fd : tree_set(&fd, own, ret_tree);
}

struct search {
	const char *controller, *path;
	struct cgroup_tree *ret_tree;
	bool in_long_line; /* its beginning was thrown away */
};

/* Offers each whole line in text to try_mount; returns how many bytes they were, or -EEXIST once
 * the tree is found. */
static ssize_t try_lines(struct search *search, char *text)
{
	char *line = text, *end;

	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (!search->in_long_line &&
		    try_mount(line, search->controller, search->path, search->ret_tree) == 0)
			return -EEXIST;
		search->in_long_line = false;
	}
	return line - text;
}

static int find_in_mountinfo(struct search *search)
{
	_cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	char text[MOUNTINFO_BLOCK + 1];
	size_t have = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, text + have, sizeof(text) - 1 - have), used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENOENT;
		have += (size_t)n;
		text[have] = '\0';
		used = try_lines(search, text);
		if (used < 0)
			return 0;
		have -= (size_t)used;
		memmove(text, text + used, have);
		if (have == sizeof(text) - 1) {
			search->in_long_line = true;
			have = 0;
		}
	}
}

int cgroup_tree_find(const char *controller, const char *path, struct cgroup_tree *ret_tree)
{
	struct search search = { .controller = controller, .path = path, .ret_tree = ret_tree };

	if (find_in_usual_place(controller, path, ret_tree) == 0)
		return 0;
	return find_in_mountinfo(&search);
}

void cgroup_tree_done(struct cgroup_tree *tree)
{
	tree->mount = fd_close(tree->mount);
}
