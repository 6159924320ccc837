#include "jail/changes_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#define BITS_DROPPED 06000

/* What was on the host when conflicts were looked for; for a new directory, what was made. */
struct seen {
	bool left_alone; /* noted already */
	bool finish;     /* a directory whose mode is set at the end */
	ino_t inode;
	struct timespec mtime;
	off_t size;
};

struct commit {
	const struct changes *changes;
	struct seen *seen; /* one per change */
	int upper, target;
	struct timespec since;
	uint64_t linked; /* bytes that files with several links in the upper layer may still take */
	struct changes_outcome *outcome;
};

#define note(commit, what, path, ...) \
	change_notes_add(&(commit)->outcome->notes, what, path, __VA_ARGS__)

static int note_failure(struct commit *commit, const char *path, int code)
{
	switch (code) {
	case -ENOMEM:
		return code;
	case -ELOOP:
	case -ENOTDIR:
		return note(commit, CHANGE_CONFLICT, path,
			    "a folder on its path was replaced on the host");
	case -ENOENT:
		return note(commit, CHANGE_CONFLICT, path, "its folder is not on the host");
	case -EEXIST:
		return note(commit, CHANGE_CONFLICT, path, "exists on the host by now");
	case -EXDEV:
		return note(commit, CHANGE_REFUSED, path, "behind a mount point of the host");
	case -ESTALE:
		return note(commit, CHANGE_CONFLICT, path, "was changed on the host meanwhile");
	case -EFBIG:
		return note(commit, CHANGE_REFUSED, path,
			    "too large, or one of many hard links to a large file");
	default:
		return note(commit, CHANGE_FAILED, path, "%s", strerror(-code));
	}
}

static bool touched(const struct commit *commit, const struct stat *st)
{
	return st->st_ctim.tv_sec != commit->since.tv_sec
		       ? st->st_ctim.tv_sec > commit->since.tv_sec
		       : st->st_ctim.tv_nsec >= commit->since.tv_nsec;
}

/* The path of a change that was on the host before, or NULL. */
static const char *old_path(const struct change *change)
{
	return change->kind == CHANGE_ADDED     ? NULL
	       : change->kind == CHANGE_RENAMED ? change->from
						: change->path;
}

/*
 * Goes through a directory of the host. Without remove it only looks: 1 when something in it was
 * touched, or what keeps it from being removed. With remove, everything but the directories goes,
 * then those from the innermost out.
 */
static int each_in_dir(const struct commit *commit, const char *path, bool remove,
		       struct todo *dirs)
{
	_cleanup_(names_done) struct names names = { 0 };
	_cleanup_close_ int dir = tree_open(commit->target, path, OPEN_DIR);
	struct stat st;
	int r;

	if (dir < 0)
		return dir;
	if (fstat(dir, &st) < 0)
		return -errno;
	if (remove && geteuid() != 0 && st.st_uid == geteuid() && (st.st_mode & 0300) != 0300 &&
	    fchmod(dir, 0700) < 0)
		return -errno;
	r = names_list(dir, &names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *below = path_join(path, names.items[i]);

		if (!below)
			return -ENOMEM;
		if (fstatat(dir, names.items[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!remove && touched(commit, &st))
			return 1;
		if (S_ISDIR(st.st_mode))
			r = todo_add(dirs, below, false, 0);
		else if (remove && unlinkat(dir, names.items[i], 0) < 0 && errno != ENOENT)
			r = -errno;
	}
	return r;
}

static int each_in_tree(const struct commit *commit, const char *path, bool remove)
{
	_cleanup_(todo_done) struct todo dirs = { 0 };
	int r = todo_add(&dirs, path, false, 0);

	for (size_t i = 0; i < dirs.count && r == 0; i++)
		r = each_in_dir(commit, dirs.items[i].path, remove, &dirs);
	for (size_t i = dirs.count; remove && r == 0 && i-- > 0;) {
		_cleanup_close_ int parent = -EBADF;
		const char *name;

		parent = tree_open_parent(commit->target, dirs.items[i].path, &name);
		if (parent < 0)
			return parent;
		if (unlinkat(parent, name, AT_REMOVEDIR) < 0)
			r = errno == ENOTEMPTY ? -ESTALE : -errno;
	}
	return r;
}

/* Whether the addition that comes after a deletion of the same path will not be let out. */
static bool is_refused(const struct commit *commit, const struct change *change)
{
	_cleanup_free_ char *target = NULL;

	if (S_ISLNK(change->new_mode))
		return upper_readlink(commit->upper, change->path, &target) < 0 ||
		       !link_stays_inside(change->path, target);
	return !S_ISREG(change->new_mode) && !S_ISDIR(change->new_mode);
}

/* A file that came from the lower layer, which does not have it any more. */
static bool was_copied_up(const struct commit *commit, const char *path)
{
	const char *name;
	_cleanup_close_ int parent = tree_open_parent(commit->upper, path, &name), fd = -EBADF;

	if (parent >= 0)
		fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && (fgetxattr(fd, "user.overlay.origin", NULL, 0) >= 0 ||
			   fgetxattr(fd, "trusted.overlay.origin", NULL, 0) >= 0);
}

/* Looks at what a change is about to replace or remove. Notes a conflict, or remembers what was
 * seen. */
static int look(struct commit *commit, size_t i)
{
	const struct change *change = &commit->changes->items[i];
	const char *path = old_path(change), *name;
	struct seen *seen = &commit->seen[i];
	_cleanup_close_ int parent = -EBADF;
	struct stat st;
	int r;

	if (!path && S_ISREG(change->new_mode) && was_copied_up(commit, change->path)) {
		seen->left_alone = true;
		return note(commit, CHANGE_CONFLICT, change->path, "was removed on the host");
	}
	if (!path)
		return 0;
	seen->left_alone = true;
	/* The host keeps what it has rather than nothing; the note comes with the addition. */
	if (change_replaces(commit->changes, i) && is_refused(commit, change + 1))
		return 0;
	parent = tree_open_parent(commit->target, path, &name);
	r = parent < 0 ? parent : 0;
	if (r == 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == -ENOENT && (change->kind == CHANGE_DELETED || change->kind == CHANGE_RENAMED)) {
		commit->outcome->applied += change->kind == CHANGE_DELETED;
		return 0; /* both sides agree */
	}
	if (r == -ENOENT)
		return note(commit, CHANGE_CONFLICT, path, "was removed on the host");
	if (r < 0)
		return note_failure(commit, path, r);
	if ((st.st_mode & S_IFMT) != (change->old_mode & S_IFMT))
		return note(commit, CHANGE_CONFLICT, path,
			    "was replaced by something else on the host");
	if (touched(commit, &st))
		return note(commit, CHANGE_CONFLICT, path,
			    "was changed on the host since the start");
	if (change->kind == CHANGE_DELETED && S_ISDIR(st.st_mode)) {
		r = each_in_tree(commit, path, false);
		if (r > 0)
			return note(commit, CHANGE_CONFLICT, path,
				    "something in it was changed on the host since the start");
		if (r < 0)
			return note_failure(commit, path, r);
	}
	*seen = (struct seen){ .inode = st.st_ino, .mtime = st.st_mtim, .size = st.st_size };
	return 0;
}

/* Our own changes touch the times of directories; of a file nothing may differ. */
static bool is_as_seen(const struct seen *seen, const struct stat *st)
{
	return st->st_ino == seen->inode &&
	       (S_ISDIR(st->st_mode) ||
		(st->st_size == seen->size && st->st_mtim.tv_sec == seen->mtime.tv_sec &&
		 st->st_mtim.tv_nsec == seen->mtime.tv_nsec));
}

static int remove_old(struct commit *commit, size_t i)
{
	const char *path = old_path(&commit->changes->items[i]), *name;
	_cleanup_close_ int parent = tree_open_parent(commit->target, path, &name);
	struct stat st;

	if (parent < 0)
		return parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!is_as_seen(&commit->seen[i], &st))
		return -ESTALE;
	if (S_ISDIR(st.st_mode))
		return each_in_tree(commit, path, true);
	return unlinkat(parent, name, 0) < 0 ? -errno : 0;
}

/* To be declared behind the descriptor of its directory, so that it is released before that. */
struct temp {
	int dir; /* not owned */
	char name[32];
};

/* Where another process has renamed it away, there is nothing of ours to remove. */
static void temp_done(struct temp *temp)
{
	if (temp->name[0])
		unlinkat(temp->dir, temp->name, 0);
}

static void temp_name(struct temp *temp, int dir)
{
	uint64_t number = 0;

	/* EINTR and the like: the caller's O_EXCL tells whether the name was free. */
	(void)syscall(SYS_getrandom, &number, sizeof(number), 0);
	temp->dir = dir;
	snprintf(temp->name, sizeof(temp->name), ".brig-%016llx", (unsigned long long)number);
}

/*
 * Moves what was made to its place. Without an old file it must be free; with one, that must be
 * what was seen.
 */
static int publish(struct temp *temp, const char *name, const struct seen *old)
{
	struct stat st;
	int r;

	if (!old) {
		r = sys_rename_noreplace(temp->dir, temp->name, temp->dir, name);
		if (r == -EINVAL || r == -ENOSYS) /* a file system without it */
			return linkat(temp->dir, temp->name, temp->dir, name, 0) < 0 ? -errno : 0;
	} else {
		if (fstatat(temp->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? -ESTALE : -errno;
		if (!is_as_seen(old, &st))
			return -ESTALE;
		r = renameat(temp->dir, temp->name, temp->dir, name) < 0 ? -errno : 0;
	}
	if (r == 0)
		temp->name[0] = '\0';
	return r;
}

/*
 * The owner of the file that is replaced, also when that needs rights that we lack: then it is an
 * error. What root makes anew belongs to whoever the directory belongs to.
 */
static int set_owner(int fd, int parent, const char *name, const struct seen *old)
{
	struct stat now, want;

	if (fstat(fd, &now) < 0)
		return -errno;
	if (old ? fstatat(parent, name, &want, AT_SYMLINK_NOFOLLOW) < 0 : fstat(parent, &want) < 0)
		return -errno;
	if (!old && geteuid() != 0)
		return 0;
	if (now.st_uid == want.st_uid && now.st_gid == want.st_gid)
		return 0;
	return fchown(fd, want.st_uid, want.st_gid) < 0 ? -errno : 0;
}

/*
 * With an ACL the group bits of the mode are its mask. A copy without the ACL would hand the mask
 * to the group.
 */
static int set_acl(int fd, int parent, const char *name)
{
	static const char attribute[] = "system.posix_acl_access";
	_cleanup_close_ int old = tree_open(parent, name, OPEN_FILE);
	char acl[4096];
	ssize_t n;

	if (old < 0)
		return 0; /* not even its owner can read it, so nobody it names could */
	n = fgetxattr(old, attribute, acl, sizeof(acl));
	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	return fsetxattr(fd, attribute, acl, (size_t)n, 0) < 0 ? -errno : 0;
}

static int put_file(struct commit *commit, const struct change *change, const struct seen *old)
{
	_cleanup_close_ int from = -EBADF, parent = -EBADF, to = -EBADF;
	_cleanup_(temp_done) struct temp temp = { .dir = -EBADF };
	const char *name;
	struct stat st;
	int r;

	from = upper_open_file(commit->upper, change->path, &st);
	if (from < 0)
		return from;
	parent = tree_open_parent(commit->target, change->path, &name);
	if (parent < 0)
		return parent;
	temp_name(&temp, parent);
	to = openat(parent, temp.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0) {
		temp.name[0] = '\0';
		return -errno;
	}
	r = content_copy(from, to, (uint64_t)st.st_size, st.st_nlink > 1 ? &commit->linked : NULL);
	r = r < 0 ? r : set_owner(to, parent, name, old);
	r = r < 0 || !old ? r : set_acl(to, parent, name);
	if (r < 0)
		return r;
	if (fchmod(to, change->new_mode & 07777 & ~BITS_DROPPED) < 0 ||
	    futimens(to, (const struct timespec[]){ { .tv_nsec = UTIME_OMIT }, st.st_mtim }) < 0)
		return -errno;
	return publish(&temp, name, old);
}

static int put_link(struct commit *commit, const struct change *change, const struct seen *old)
{
	_cleanup_close_ int parent = -EBADF;
	_cleanup_(temp_done) struct temp temp = { .dir = -EBADF };
	_cleanup_free_ char *target = NULL;
	const char *name;
	struct stat st;
	int r;

	r = upper_readlink(commit->upper, change->path, &target);
	if (r < 0)
		return r;
	if (!link_stays_inside(change->path, target)) {
		r = note(commit, CHANGE_REFUSED, change->path,
			 "a symbolic link that leads out of the folder");
		return r < 0 ? r : 1;
	}
	parent = tree_open_parent(commit->target, change->path, &name);
	if (parent < 0)
		return parent;
	temp_name(&temp, parent);
	if (symlinkat(target, parent, temp.name) < 0) {
		temp.name[0] = '\0';
		return -errno;
	}
	if (geteuid() == 0 && fstat(parent, &st) == 0 &&
	    fchownat(parent, temp.name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return publish(&temp, name, old);
}

/* Only for us until everything is in it; its mode comes last. */
static int put_dir(struct commit *commit, const struct change *change, struct seen *seen)
{
	_cleanup_close_ int parent = -EBADF, dir = -EBADF;
	const char *name;
	struct stat st;

	parent = tree_open_parent(commit->target, change->path, &name);
	if (parent < 0)
		return parent;
	if (mkdirat(parent, name, 0700) < 0)
		return -errno;
	dir = tree_open(parent, name, OPEN_DIR);
	if (dir < 0 || fstat(dir, &st) < 0)
		return dir < 0 ? dir : -errno;
	if (st.st_uid != geteuid())
		return -ESTALE;
	seen->inode = st.st_ino;
	seen->finish = true;
	return set_owner(dir, parent, name, NULL);
}

/* A directory of the host, still the one that was seen. */
static int open_seen_dir(const struct commit *commit, const char *path, const struct seen *seen,
			 struct stat *ret_st)
{
	_cleanup_close_ int dir = tree_open(commit->target, path, OPEN_DIR);

	if (dir >= 0 && fstat(dir, ret_st) < 0)
		return -errno;
	if (dir >= 0 && !is_as_seen(seen, ret_st))
		return -ESTALE;
	return take_fd(&dir);
}

/* Opens up a directory whose mode changes, so that what comes into it or goes can; the mode itself
 * comes last. */
static int open_up(struct commit *commit, const struct change *change, struct seen *seen)
{
	struct stat st;
	_cleanup_close_ int dir = open_seen_dir(commit, change->path, seen, &st);

	if (dir < 0)
		return dir;
	seen->finish = true;
	return fchmod(dir, (st.st_mode & 07777) | 0700) < 0 ? -errno : 0;
}

/* The bits that the host itself gave to a directory stay: what is made in a setgid directory
 * belongs to its group. */
static int finish_dir(struct commit *commit, const struct change *change, const struct seen *seen)
{
	struct stat st;
	_cleanup_close_ int dir = open_seen_dir(commit, change->path, seen, &st);
	mode_t mode = change->new_mode & 07777 & ~BITS_DROPPED;

	if (dir < 0)
		return dir;
	if (change->kind == CHANGE_ADDED || (change->new_mode & S_ISGID))
		mode |= st.st_mode & S_ISGID;
	if (fchmod(dir, mode) < 0)
		return -errno;
	if (change->new_mode & BITS_DROPPED & ~mode)
		return note(commit, CHANGE_DROPPED, change->path,
			    "without its setuid or setgid bit");
	return 0;
}

/* A file that has another name keeps its mode under that one: it is replaced by a copy. */
static int put_mode(struct commit *commit, const struct change *change, const struct seen *seen)
{
	_cleanup_close_ int fd = tree_open(commit->target, change->path, OPEN_FILE);
	struct stat st;

	if (fd == -EACCES)
		return put_file(commit, change, seen);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!is_as_seen(seen, &st))
		return -ESTALE;
	if (st.st_nlink > 1)
		return put_file(commit, change, seen);
	return fchmod(fd, change->new_mode & 07777 & ~BITS_DROPPED) < 0 ? -errno : 0;
}

/* 0: done; 1: refused and noted. */
static int put_one(struct commit *commit, const struct change *change, struct seen *seen)
{
	bool fresh = change->kind == CHANGE_ADDED || change->kind == CHANGE_RENAMED;
	int r;

	if (S_ISDIR(change->new_mode))
		return fresh ? put_dir(commit, change, seen) : 0;
	if (S_ISLNK(change->new_mode))
		return put_link(commit, change, fresh ? NULL : seen);
	if (!S_ISREG(change->new_mode)) {
		r = note(commit, CHANGE_REFUSED, change->path, "a device, pipe or socket");
		return r < 0 ? r : 1;
	}
	if (change->kind == CHANGE_MODE)
		r = put_mode(commit, change, seen);
	else
		r = put_file(commit, change, fresh ? NULL : seen);
	if (r == 0 && (change->new_mode & BITS_DROPPED))
		r = note(commit, CHANGE_DROPPED, change->path, "without its setuid or setgid bit");
	return r;
}

static int put(struct commit *commit, size_t i)
{
	const struct change *change = &commit->changes->items[i];
	struct seen *seen = &commit->seen[i];
	int r = put_one(commit, change, seen);

	if (r > 0)
		return 0;
	if (r < 0)
		return note_failure(commit, change->path, r);
	commit->outcome->applied++;
	/* The new name is there; the old one goes unless the host has changed it. */
	if (change->kind != CHANGE_RENAMED || seen->left_alone)
		return 0;
	r = remove_old(commit, i);
	return r < 0 ? note_failure(commit, change->from, r) : 0;
}

enum phase {
	PHASE_LOOK,   /* conflicts, before anything of ours touches times */
	PHASE_OPEN,   /* directories that will be written to */
	PHASE_DELETE, /* before something else comes under the same name */
	PHASE_PUT,    /* a directory before what is in it */
	PHASE_FINISH, /* backwards: a directory may become closed to us */
	PHASE_COUNT
};

static int apply(struct commit *commit, enum phase phase, size_t i)
{
	const struct change *change = &commit->changes->items[i];
	struct seen *seen = &commit->seen[i];
	bool dir_mode = change->kind == CHANGE_MODE && S_ISDIR(change->new_mode);
	int r = 0;

	if (phase == PHASE_LOOK)
		return look(commit, i);
	/* In a rename, left_alone is about the old name only. */
	if (seen->left_alone && change->kind != CHANGE_RENAMED)
		return 0;
	switch (phase) {
	case PHASE_OPEN:
		r = dir_mode ? open_up(commit, change, seen) : 0;
		break;
	case PHASE_DELETE:
		if (change->kind != CHANGE_DELETED)
			return 0;
		r = remove_old(commit, i);
		commit->outcome->applied += r == 0;
		break;
	case PHASE_PUT:
		return change->kind == CHANGE_DELETED ? 0 : put(commit, i);
	case PHASE_FINISH:
		r = seen->finish ? finish_dir(commit, change, seen) : 0;
		break;
	default:
		break;
	}
	if (r < 0) {
		seen->left_alone = true;
		return note_failure(commit, change->path, r);
	}
	return 0;
}

int changes_commit(const struct changes *changes, int upper, int target,
		   const struct timespec *since, struct changes_outcome *outcome, struct err *err)
{
	_cleanup_free_ struct seen *seen = calloc(changes->count + 1, sizeof(*seen));
	struct commit commit = {
		.changes = changes,
		.seen = seen,
		.upper = upper,
		.target = target,
		.since = *since,
		.linked = CHANGES_LINKED_MAX,
		.outcome = outcome,
	};

	if (changes->truncated)
		return err_set(err, -E2BIG,
			       "more than %d changes cannot be applied: export them instead",
			       CHANGES_MAX);
	if (!seen)
		return err_errno(err, -ENOMEM, "the changes cannot be applied");
	for (enum phase phase = 0; phase < PHASE_COUNT; phase++)
		for (size_t n = 0; n < changes->count; n++) {
			size_t i = phase == PHASE_FINISH ? changes->count - 1 - n : n;
			int r = apply(&commit, phase, i);

			if (r < 0)
				return err_errno(err, r, "not all changes could be applied");
		}
	return 0;
}
