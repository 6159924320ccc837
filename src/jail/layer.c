#include "jail/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "jail/ids.h"
#include "jail/layer_internal.h"
#include "jail/scratch.h"

#define ID_NOBODY 65534u

/* One directory on the way down. */
struct level {
	struct names names; /* in the source */
	size_t next;
	struct stat st;     /* of the source */
	struct stat target; /* is_kept: of the target, before */
	bool is_kept;       /* the target had it before */
	bool has_whiteouts; /* in the target, by this copy */
};

struct copy {
	struct layer_how *how;
	struct trail from, to;
	struct level *levels;
	size_t count, room;
	struct content_ways ways;
	int top;        /* the target's */
	int links;      /* a folder in it: the first copy of each file with several names */
	char name[32];  /* of that */
	const char *at; /* the name that is being copied */
};

static struct level *level_of(const struct copy *copy)
{
	return &copy->levels[copy->count - 1];
}

/* Owners first: a change of owner takes setuid bits away. */
static uint32_t new_id(const struct layer_how *how, uint32_t id)
{
	switch (how->ids) {
	case LAYER_IDS_SHIFT:
		return id - how->first < IDS_COUNT ? id - how->first : ID_NOBODY;
	case LAYER_IDS_ONE:
		return how->first;
	default:
		return id;
	}
}

static int set_owner(const struct copy *copy, int dir, const char *name, const struct stat *st)
{
	if (geteuid() != 0)
		return 0;
	return fchownat(dir, name, new_id(copy->how, st->st_uid), new_id(copy->how, st->st_gid),
			AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}

/* Whatever is open: attributes while we may still write, the mode behind the owner, times last. */
static int finish_open(const struct copy *copy, int from, int to, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	int r = layer_marks_copy(from, to, copy->how->is_plain, S_ISDIR(st->st_mode));

	r = r < 0 ? r : set_owner(copy, to, "", st);
	if (r < 0)
		return r;
	return fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0 ? -errno : 0;
}

/* The name of a file among those that have several. */
static void link_name(const struct stat *st, char text[static 32])
{
	snprintf(text, 32, "%" PRIx64, (uint64_t)st->st_ino);
}

static int open_links(struct copy *copy)
{
	uint64_t number;
	int fd;

	if (copy->links >= 0)
		return 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(copy->name, sizeof(copy->name), ".brig-%016" PRIx64, number);
	if (mkdirat(copy->top, copy->name, 0700) < 0)
		return -errno;
	fd = openat(copy->top, copy->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	copy->links = fd < 0 ? -errno : fd;
	return MIN(copy->links, 0);
}

/* 1: it was copied before, and has one more name now. */
static int link_again(struct copy *copy, const struct stat *st)
{
	char known[32];
	int r;

	if (st->st_nlink < 2)
		return 0;
	link_name(st, known);
	r = open_links(copy);
	if (r < 0)
		return r;
	if (linkat(copy->links, known, copy->to.dir, copy->at, 0) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	if (errno != EMLINK)
		return -errno;
	/* As many names as the file system takes: the next ones belong to another copy. */
	return unlinkat(copy->links, known, 0) < 0 ? -errno : 0;
}

static int remember_link(struct copy *copy, const struct stat *st)
{
	char known[32];

	if (st->st_nlink < 2)
		return 0;
	link_name(st, known);
	return linkat(copy->to.dir, copy->at, copy->links, known, 0) < 0 ? -errno : 0;
}

static int copy_file(struct copy *copy, const struct stat *st)
{
	_cleanup_close_ int from = -EBADF, to = -EBADF;
	struct stat opened;
	int r;

	from = upper_open_file(copy->from.dir, copy->at, &opened);
	if (from < 0)
		return from;
	to = openat(copy->to.dir, copy->at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (to < 0)
		return -errno;
	r = layer_content(from, to, (uint64_t)st->st_size, &copy->ways, copy->how);
	return r < 0 ? r : finish_open(copy, from, to, st);
}

/* What cannot be opened: by its name, in a directory that nobody else may enter. */
static int finish_closed(struct copy *copy, const struct stat *st)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	int r = set_owner(copy, copy->to.dir, copy->at, st);

	if (r < 0)
		return r;
	if (!S_ISLNK(st->st_mode) && fchmodat(copy->to.dir, copy->at, st->st_mode & 07777, 0) < 0)
		return -errno;
	return utimensat(copy->to.dir, copy->at, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_symlink(struct copy *copy, const struct stat *st)
{
	_cleanup_free_ char *target = NULL;
	int r = upper_readlink(copy->from.dir, copy->at, &target);

	if (r < 0)
		return r;
	if (symlinkat(target, copy->to.dir, copy->at) < 0)
		return -errno;
	return finish_closed(copy, st);
}

static int copy_pipe(struct copy *copy, const struct stat *st)
{
	if (mkfifoat(copy->to.dir, copy->at, 0600) < 0)
		return -errno;
	return finish_closed(copy, st);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Any user may make one. They belong to nobody in particular, and have no times. */
static int copy_whiteout(struct copy *copy)
{
	level_of(copy)->has_whiteouts = true;
	return mknodat(copy->to.dir, copy->at, S_IFCHR | 0600, 0) < 0 ? -errno : 0;
}

static int push_level(struct copy *copy, const struct stat *st, const struct stat *target,
		      bool is_kept)
{
	struct level level = { .st = *st, .target = *target, .is_kept = is_kept };
	int r = names_list(copy->from.dir, &level.names);

	if (r < 0)
		return r;
	if (copy->count == copy->room) {
		size_t room = copy->room ? copy->room * 2 : 32;
		struct level *levels = reallocarray(copy->levels, room, sizeof(*levels));

		if (!levels) {
			names_done(&level.names);
			return -ENOMEM;
		}
		copy->levels = levels;
		copy->room = room;
	}
	copy->levels[copy->count++] = level;
	return 0;
}

static int enter(struct copy *copy, bool is_kept)
{
	struct stat st, target;
	int r;

	if (!is_kept && mkdirat(copy->to.dir, copy->at, 0700) < 0)
		return -errno;
	r = trail_down(&copy->from, copy->at, false, &st);
	r = r < 0 ? r : trail_down(&copy->to, copy->at, true, &target);
	return r < 0 ? r : push_level(copy, &st, &target, is_kept);
}

static int remove_links(struct copy *copy)
{
	if (copy->links < 0)
		return 0;
	copy->links = fd_close(copy->links);
	return layer_remove(copy->top, copy->name);
}

/* A directory of the target that is not gone into any more, which its mode may forbid from now on. */
static int finish_level(const struct copy *copy, const struct level *level, bool is_top, int to)
{
	const struct timespec times[] = { level->target.st_atim, level->target.st_mtim };

	if (!level->is_kept && !(is_top && copy->how->keeps_top))
		return finish_open(copy, copy->from.dir, to, &level->st);
	return fchmod(to, level->target.st_mode & 07777) < 0 || futimens(to, times) < 0 ? -errno
											: 0;
}

/* Everything in it is there: now it gets what it had. */
static int leave(struct copy *copy)
{
	struct level *level = level_of(copy);
	bool is_top = copy->count == 1;
	_cleanup_close_ int left = -EBADF;
	int r = is_top ? remove_links(copy) : 0;

	r = r < 0 ? r : trail_up(&copy->to, &left);
	r = r < 0 ? r : finish_level(copy, level, is_top, left);
	names_done(&level->names);
	copy->count--;
	return r < 0 ? r : trail_up(&copy->from, NULL);
}

/* While it may still be written. A newer directory hides what the older one below it hides. */
static int mark_level(struct copy *copy)
{
	const struct level *level = level_of(copy);
	int r = level->has_whiteouts ? layer_mark_whiteouts(copy->to.dir) : 0;

	if (r == 0 && level->is_kept && upper_mark(copy->from.dir) == MARK_OPAQUE)
		r = layer_mark_opaque(copy->to.dir);
	return r;
}

/* Something else than a directory lies below one: nothing further down shows through. */
static int stop_below(struct copy *copy)
{
	struct trail trail = TRAIL_NONE;
	struct stat st;
	int r = trail_begin(&trail, copy->to.dir, copy->at, true, &st);

	r = r < 0 ? r : layer_mark_opaque(trail.dir);
	trail_done(&trail);
	return r;
}

static int is_opaque(const struct copy *copy)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	enum mark mark;

	fd = upper_open(copy->to.dir, copy->at, OPEN_DIR, &st);
	if (fd < 0)
		return fd;
	mark = upper_mark(fd);
	/* As it was: only a trail gives a mode back by itself. */
	if (geteuid() != 0 && fchmod(fd, st.st_mode & 07777) < 0)
		return -errno;
	return mark == MARK_OPAQUE;
}

/* The newer layer has something of this name. */
static int copy_below(struct copy *copy, const struct stat *st, const struct stat *newer)
{
	int r;

	if (!S_ISDIR(newer->st_mode))
		return 0;
	r = is_opaque(copy);
	if (r != 0)
		return MIN(r, 0);
	return S_ISDIR(st->st_mode) ? enter(copy, true) : stop_below(copy);
}

static int copy_new(struct copy *copy, const struct stat *st)
{
	int r;

	if (S_ISDIR(st->st_mode))
		return enter(copy, false);
	r = link_again(copy, st);
	if (r != 0)
		return MIN(r, 0);
	r = S_ISREG(st->st_mode)   ? copy_file(copy, st)
	    : S_ISLNK(st->st_mode) ? copy_symlink(copy, st)
				   : copy_pipe(copy, st);
	if (hook_errno("die_in_copy"))
		kill(getpid(), SIGKILL);
	return r < 0 ? r : remember_link(copy, st);
}

static int copy_entry(struct copy *copy)
{
	struct stat st, newer;

	if (fstatat(copy->from.dir, copy->at, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (copy->how->is_below &&
	    fstatat(copy->to.dir, copy->at, &newer, AT_SYMLINK_NOFOLLOW) == 0)
		return copy_below(copy, &st, &newer);
	if (is_whiteout(&st) && !copy->how->is_plain)
		return copy_whiteout(copy);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode) &&
	    !S_ISFIFO(st.st_mode)) {
		copy->how->left_out++;
		return 0;
	}
	copy->how->files++;
	layer_tell(copy->how);
	return copy_new(copy, &st);
}

static int copy_all(struct copy *copy)
{
	int r = 0;

	while (r == 0 && copy->count > 0) {
		struct level *level = level_of(copy);

		if (level->next == level->names.count) {
			r = mark_level(copy);
			r = r < 0 ? r : leave(copy);
			continue;
		}
		/* The names stay where they are when levels move. */
		copy->at = level->names.items[level->next++];
		r = copy_entry(copy);
	}
	return r;
}

/* Where the copy is, for words: the last names of the way. */
static void say_where(const struct copy *copy, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = copy->count > 4 ? copy->count - 4 : 0; i < copy->count; i++) {
		const struct level *level = &copy->levels[i];

		if (level->next > 0 && len < size)
			len += (size_t)snprintf(text + len, size - len, "/%.100s",
						level->names.items[level->next - 1]);
	}
}

static int say_failure(const struct copy *copy, const char *tree, int code, struct err *err)
{
	char where[416];

	say_where(copy, where, sizeof(where));
	if (code == -ENOSPC || code == -EDQUOT)
		return err_errno(err, code, "\"%s%s\" cannot be copied", tree, where);
	if (code == -EOPNOTSUPP)
		return err_set(err, code,
			       "\"%s%s\" cannot be copied: the file system of the copy has no "
			       "extended attributes of users",
			       tree, where);
	if (code == -ESTALE)
		return err_set(err, code, "\"%s%s\" was moved while it was copied", tree, where);
	return err_errno(err, code, "\"%s%s\" cannot be copied", tree, where);
}

static void copy_done(struct copy *copy)
{
	while (copy->count > 0)
		names_done(&copy->levels[--copy->count].names);
	free(copy->levels);
	trail_done(&copy->from);
	trail_done(&copy->to);
	(void)!remove_links(copy);
	fd_close(copy->top);
}

static int begin(struct copy *copy, int from_dir, const char *from, int to_dir, const char *to)
{
	bool is_kept = false;
	struct stat st, target;
	int r;

	if (str_equal(to, "."))
		is_kept = copy->how->is_below;
	else if (mkdirat(to_dir, to, 0700) < 0) {
		if (errno != EEXIST || !copy->how->is_below)
			return -errno;
		is_kept = true;
	}
	r = trail_begin(&copy->from, from_dir, from, false, &st);
	r = r < 0 ? r : trail_begin(&copy->to, to_dir, to, true, &target);
	if (r < 0)
		return r;
	copy->top = fcntl(copy->to.dir, F_DUPFD_CLOEXEC, 3);
	return copy->top < 0 ? -errno : push_level(copy, &st, &target, is_kept);
}

int layer_copy(int from_dir, const char *from, int to_dir, const char *to, struct layer_how *how,
	       struct err *err)
{
	_cleanup_(copy_done) struct copy copy = {
		.how = how,
		.from = TRAIL_NONE,
		.to = TRAIL_NONE,
		.top = -EBADF,
		.links = -EBADF,
	};
	int r = begin(&copy, from_dir, from, to_dir, to);

	r = r < 0 ? r : copy_all(&copy);
	return r < 0 ? say_failure(&copy, from, r, err) : 0;
}

/* A walk through one tree. */
struct prune {
	struct trail trail;
	struct level *levels;
	size_t count, room;
};

static int prune_enter(struct prune *prune, int dir, const char *name)
{
	struct level level = { 0 };
	int r = trail_begin(&prune->trail, dir, name, true, &level.st);

	r = r < 0 ? r : layer_marks_prune(prune->trail.dir);
	r = r < 0 ? r : names_list(prune->trail.dir, &level.names);
	if (r < 0)
		return r;
	if (prune->count == prune->room) {
		size_t room = prune->room ? prune->room * 2 : 32;
		struct level *levels = reallocarray(prune->levels, room, sizeof(*levels));

		if (!levels) {
			names_done(&level.names);
			return -ENOMEM;
		}
		prune->levels = levels;
		prune->room = room;
	}
	prune->levels[prune->count++] = level;
	return 0;
}

static int prune_file(const struct prune *prune, const char *name)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	mode_t mode;
	int r;

	fd = upper_open_file(prune->trail.dir, name, &st);
	if (fd < 0)
		return fd;
	mode = st.st_mode & 07777;
	/* An attribute is set and removed by who may write. */
	if (geteuid() != 0 && !(mode & 0200) && fchmod(fd, mode | 0200) < 0)
		return -errno;
	r = layer_marks_prune(fd);
	if (geteuid() != 0 && !(mode & 0200) && fchmod(fd, mode) < 0)
		return -errno;
	return r;
}

static int prune_entry(struct prune *prune, const char *name)
{
	struct stat st;

	if (fstatat(prune->trail.dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (is_whiteout(&st))
		return unlinkat(prune->trail.dir, name, 0) < 0 ? -errno : 0;
	if (S_ISDIR(st.st_mode))
		return prune_enter(prune, prune->trail.dir, name);
	return S_ISREG(st.st_mode) ? prune_file(prune, name) : 0;
}

/* Taking something out has changed its time. */
static int prune_leave(struct prune *prune)
{
	struct level *level = &prune->levels[--prune->count];
	const struct timespec times[] = { level->st.st_atim, level->st.st_mtim };

	names_done(&level->names);
	return futimens(prune->trail.dir, times) < 0 ? -errno : trail_up(&prune->trail, NULL);
}

int layer_prune(int dir, const char *name, struct err *err)
{
	struct prune prune = { .trail = TRAIL_NONE };
	int r = prune_enter(&prune, dir, name);

	while (r == 0 && prune.count > 0) {
		struct level *level = &prune.levels[prune.count - 1];

		r = level->next == level->names.count
			    ? prune_leave(&prune)
			    : prune_entry(&prune, level->names.items[level->next++]);
	}
	while (prune.count > 0)
		names_done(&prune.levels[--prune.count].names);
	free(prune.levels);
	trail_done(&prune.trail);
	return r < 0 ? err_errno(err, r, "\"%s\" cannot be put together", name) : 0;
}

int layer_remove(int dir, const char *name)
{
	struct scratch folder = SCRATCH_NONE;
	int r;

	if (snprintf(folder.name, sizeof(folder.name), "%s", name) >= (int)sizeof(folder.name))
		return -ENAMETOOLONG;
	folder.parent = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	folder.dir = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = folder.dir < 0 ? (errno == ENOENT ? 0 : -errno) : scratch_remove(&folder);
	scratch_done(&folder);
	return r;
}

int layer_is_written(int dir, const char *name, uint32_t mode)
{
	_cleanup_(names_done) struct names names = { 0 };
	struct trail trail = TRAIL_NONE;
	struct stat st;
	int r = trail_begin(&trail, dir, name, false, &st);

	r = r < 0 ? r : names_list(trail.dir, &names);
	trail_done(&trail);
	return r < 0 ? r : names.count > 0 || (st.st_mode & 07777) != mode;
}
