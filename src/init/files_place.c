/*
 * files_place.c - names in directories, new files beside them, and what is written into them
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"
#include "init/files_internal.h"

#define LINKS_MAX  40 /* as many as the kernel follows */
#define BLOCK_SIZE 4096
#define TRIES      16

#define FRESH_PREFIX ".brig-"

/* Cuts the last name off a path, which is then where it lies. */
static int cut_name(char *path, char name[static NAME_MAX + 1])
{
	char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	if (*last == '\0' || str_equal(last, ".") || str_equal(last, ".."))
		return -EISDIR;
	if (strlen(last) > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, last, strlen(last) + 1);
	if (!slash)
		memcpy(path, ".", 2);
	else if (slash == path)
		slash[1] = '\0';
	else
		slash[0] = '\0';
	return 0;
}

/* Opens the directory of a path, which begins at the one before it. */
static int enter(struct place *p, char *path)
{
	int r = cut_name(path, p->name);
	int dir;

	if (r < 0)
		return r;
	dir = openat(p->dir < 0 ? AT_FDCWD : p->dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd_close(p->dir);
	p->dir = dir;
	return 0;
}

int place_find(const char *path, bool follow, struct place *ret_place)
{
	_cleanup_(place_done) struct place p = PLACE_NONE;
	char text[PATH_MAX];
	int r;

	if (strlen(path) >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, path, strlen(path) + 1);
	for (int i = 0; i <= LINKS_MAX; i++) {
		ssize_t len;

		r = enter(&p, text);
		if (r < 0)
			return r;
		len = follow ? readlinkat(p.dir, p.name, text, sizeof(text)) : -1;
		if (len < 0) {
			*ret_place = p;
			p.dir = -EBADF;
			return 0;
		}
		if (len == sizeof(text))
			return -ENAMETOOLONG;
		text[len] = '\0';
	}
	return -ELOOP;
}

void place_done(struct place *p)
{
	p->dir = fd_close(p->dir);
}

static int look(const char *path, struct stat *ret_st)
{
	return stat(path, ret_st) < 0 ? -errno : 0;
}

static bool is_directory(struct task *t, const char *path)
{
	struct stat st;

	return AS_EITHER(t, look(path, &st)) == 0 && S_ISDIR(st.st_mode);
}

static mode_t own_mask(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return mask;
}

int place_make_directory(struct task *t, const struct place *place, mode_t mode)
{
	int r = mkdirat(place->dir, place->name, mode) < 0 ? -errno : 0;

	if (t->is_lent && (r == -EACCES || r == -EPERM))
		r = lend_directory(t, place, mode & ~own_mask());
	return r;
}

int files_make_directory(struct task *t, const char *path, mode_t mode)
{
	_cleanup_(place_done) struct place place = PLACE_NONE;
	int r = mkdir(path, mode) < 0 ? -errno : 0;

	if (!t->is_lent || (r != -EACCES && r != -EPERM))
		return r;
	r = AS_EITHER(t, place_find(path, false, &place));
	return r < 0 ? r : place_make_directory(t, &place, mode);
}

/* One directory of the way; that somebody else makes it at the same time is as good. */
static int make_one(struct task *t, const char *path)
{
	int r = files_make_directory(t, path, 0777);

	return r == -EEXIST || (r < 0 && is_directory(t, path)) ? 0 : r;
}

int files_make_parents(struct task *t, const char *path)
{
	char text[PATH_MAX];
	size_t end = strlen(path), at = 0;
	int r = 0;

	while (end > 0 && path[end - 1] == '/')
		end--;
	while (end > 0 && path[end - 1] != '/')
		end--;
	if (end >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, path, end);
	text[end] = '\0';
	if (end == 0 || is_directory(t, text))
		return 0;
	while (r == 0 && at < end) {
		at += strspn(text + at, "/");
		at += strcspn(text + at, "/");
		if (at < end) {
			text[at] = '\0';
			r = make_one(t, text);
			text[at] = '/';
		}
	}
	return r < 0 ? r : is_directory(t, text) ? 0 : -ENOTDIR;
}

void files_fresh_name(char name[static FRESH_SIZE])
{
	uint64_t number = clock_ms();

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	snprintf(name, FRESH_SIZE, FRESH_PREFIX "%016llx", (unsigned long long)number);
}

bool files_is_fresh_name(const char *name)
{
	return str_starts(name, FRESH_PREFIX) && strlen(name) == FRESH_SIZE - 1 &&
	       strspn(name + strlen(FRESH_PREFIX), "0123456789abcdef") == 16;
}

static bool is_zero(const char *block)
{
	return block[0] == 0 && memcmp(block, block + 1, BLOCK_SIZE - 1) == 0;
}

/* How many bytes from here on are to be written, or, where these are zeros, left out. */
static size_t next_run(const struct sink *s, const char *data, size_t len, bool *ret_hole)
{
	size_t first = BLOCK_SIZE - s->at % BLOCK_SIZE, n = MIN(first, len);

	*ret_hole = !s->appends && first == BLOCK_SIZE && len >= BLOCK_SIZE && is_zero(data);
	if (s->appends)
		return len;
	if (*ret_hole)
		n = BLOCK_SIZE;
	while (len - n >= BLOCK_SIZE && is_zero(data + n) == *ret_hole)
		n += BLOCK_SIZE;
	return *ret_hole || len - n >= BLOCK_SIZE ? n : len;
}

static int write_run(struct sink *s, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = s->appends ? write(s->fd, data, len)
				       : pwrite(s->fd, data, len, (off_t)s->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		s->at += (size_t)n;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int sink_put(struct sink *s, const void *data, size_t len)
{
	const char *p = data;

	if (s->at > (uint64_t)INT64_MAX - len)
		return -EFBIG;
	while (len > 0) {
		bool is_hole;
		size_t n = next_run(s, p, len, &is_hole);
		int r = 0;

		if (is_hole)
			s->at += n;
		else
			r = write_run(s, p, n);
		if (r < 0)
			return r;
		p += n;
		len -= n;
	}
	return 0;
}

int sink_finish(const struct sink *s)
{
	int r;

	if (s->appends)
		return 0;
	do
		r = ftruncate(s->fd, (off_t)s->at);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int fresh_lend(struct fresh *f)
{
	int r;

	task_be(f->task, AS_ROOT);
	r = lend(f->place->dir, &f->lent);
	task_be(f->task, AS_USER);
	if (r < 0)
		return r;
	f->fd = openat(f->lent.dir, LENT_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	r = f->fd < 0 ? -errno : 0;
	if (r < 0)
		fresh_done(f);
	return r;
}

static int fresh_open(struct fresh *f)
{
	for (int i = 0; i < TRIES; i++) {
		files_fresh_name(f->name);
		f->fd = openat(f->place->dir, f->name,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	f->name[0] = '\0';
	return -errno;
}

int fresh_make(struct task *t, const struct place *place, struct fresh *ret_fresh)
{
	struct fresh f = { .task = t, .place = place, .lent = LENT_NONE };
	int r;

	r = fresh_open(&f);
	if (t->is_lent && (r == -EACCES || r == -EPERM))
		r = fresh_lend(&f);
	if (r == 0)
		*ret_fresh = f;
	return r;
}

/* Where the file system does not know it by itself: a second name replaces nothing either. */
static int rename_new(struct fresh *f)
{
	int dir = f->place->dir;
	int r = sys_rename_noreplace(dir, f->name, dir, f->place->name);

	if (r != -EINVAL && r != -ENOSYS)
		return r;
	if (linkat(dir, f->name, dir, f->place->name, 0) < 0)
		return -errno;
	(void)!unlinkat(dir, f->name, 0);
	return 0;
}

/* Out of the folder that was lent: what is then done with it is the same for all. */
static int take_back(struct fresh *f)
{
	files_fresh_name(f->name);
	if (renameat(f->lent.dir, LENT_NAME, f->place->dir, f->name) < 0) {
		f->name[0] = '\0';
		return -errno;
	}
	lent_done(&f->lent);
	return 0;
}

static int rename_fresh(struct fresh *f, bool exclusive)
{
	int dir = f->place->dir;
	int r = f->lent.dir < 0 ? 0 : take_back(f);

	if (r < 0)
		return r;
	if (exclusive)
		return rename_new(f);
	return renameat(dir, f->name, dir, f->place->name) < 0 ? -errno : 0;
}

int fresh_keep(struct fresh *f, bool exclusive)
{
	bool is_lent = f->lent.dir >= 0;
	int r;

	if (is_lent)
		task_be(f->task, AS_ROOT);
	r = rename_fresh(f, exclusive);
	if (r < 0 && f->name[0])
		(void)!unlinkat(f->place->dir, f->name, 0);
	f->name[0] = '\0';
	if (is_lent)
		task_be(f->task, AS_USER);
	return r;
}

void fresh_done(struct fresh *f)
{
	f->fd = fd_close(f->fd);
	if (f->lent.dir >= 0) {
		task_be(f->task, AS_ROOT);
		lent_done(&f->lent);
		task_be(f->task, AS_USER);
	}
	if (f->name[0])
		(void)!unlinkat(f->place->dir, f->name, 0);
	f->name[0] = '\0';
}

void *files_open_directory(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(
		dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)take_fd(&fd);
	return d;
}
