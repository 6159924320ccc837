#include "jail/carry.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/carry_internal.h"
#include "jail/mediate_act.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/target.h"

#define DELETED       " (deleted)"
#define NAMELESS_FILE (O_TMPFILE & ~O_DIRECTORY)

enum { NONE = -1 };

/* Which argument is what; NONE where the call has none. */
struct carry_call {
	int number;
	int (*run)(struct carry_request *request); /* what the call returns, or -errno */
	int8_t fd, path;                           /* of the name, or of the object */
	int8_t old_fd, old_path;                   /* of what is moved or linked */
	int8_t text;                               /* of a symbolic link */
	uint8_t first;                             /* of what is particular to the call */
	bool makes;                                /* the target's umask counts */
};

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

static uint32_t own_arg(const struct carry_request *rq, unsigned int i)
{
	return (uint32_t)rq->name.args[rq->call->first + i];
}

void carry_strip(char *path, const struct stat *st)
{
	if (st->st_nlink == 0 && str_ends(path, DELETED))
		path[strlen(path) - strlen(DELETED)] = '\0';
}

int carry_locate(int fd, char path[static PATH_MAX])
{
	char link[LINK_SIZE];
	struct stat st;
	ssize_t len;

	if (is_on_proc(fd) || fstat(fd, &st) < 0)
		return TO_THE_KERNEL;
	len = readlink(own_link(fd, link), path, PATH_MAX);
	if (len <= 0 || len == PATH_MAX || path[0] != '/')
		return TO_THE_KERNEL;
	path[len] = '\0';
	carry_strip(path, &st);
	return 0;
}

/* The path of a name in its folder. */
static int append_name(struct spot *spot, const char *name)
{
	size_t len = strlen(spot->path), name_len = strcspn(name, "/");

	len = len == 1 ? 0 : len; /* of the root */
	if (name_len == 0 || len + 1 + name_len >= sizeof(spot->path))
		return TO_THE_KERNEL;
	spot->path[len] = '/';
	memcpy(spot->path + len + 1, name, name_len);
	spot->path[len + 1 + name_len] = '\0';
	return 0;
}

static bool is_dots(const char *name)
{
	size_t len = strcspn(name, "/");

	return name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
}

/* The same, also where Landlock would let the target. */
static int find_spot(const struct carry_request *rq, const struct walk *walk, struct spot *spot)
{
	/* Of "." and ".." and a link of /proc nothing can be made. */
	if (walk->object >= 0 || is_dots(walk->path) || carry_locate(walk->dir, spot->path) < 0)
		return TO_THE_KERNEL;
	spot->folder = carry_place_of(rq->carry, spot->path);
	if (!spot->folder || spot->folder->access != ACCESS_WRITE ||
	    append_name(spot, walk->path) < 0)
		return TO_THE_KERNEL;
	spot->self = carry_place_of(rq->carry, spot->path);
	return spot->self->access == ACCESS_WRITE ? 0 : TO_THE_KERNEL;
}

static bool is_granted(const struct spot *spot)
{
	return spot->folder->sure == ACCESS_WRITE && spot->self->sure == ACCESS_WRITE;
}

int carry_spot(const struct carry_request *rq, const struct walk *walk, struct spot *spot)
{
	int r = find_spot(rq, walk, spot);

	return r < 0 ? r : is_granted(spot) ? TO_THE_KERNEL : 0;
}

static bool has_component(const char *path, const char *name)
{
	size_t name_len = strcspn(name, "/");

	while (*path) {
		size_t len = strcspn(++path, "/");

		if (len == name_len && strncasecmp(path, name, len) == 0)
			return true;
		path += len;
	}
	return false;
}

int carry_check_new(const struct carry_request *rq, const struct walk *walk,
		    const struct spot *spot, enum appearance appearance)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < rq->carry->guarded_count; i++) {
		const char *const *guard = (const char *const *)&rq->carry->guarded[i];

		/* What is open again below a guarded place was judged. */
		if (!path_is_below(spot->path, *guard) && has_component(*guard, walk->path))
			r = guard_check(guard, 1, walk->dir, walk->path, appearance);
	}
	return r;
}

/* The parent of a new name, with everybody's consent. */
static int reach(struct carry_request *rq, enum appearance appearance)
{
	struct walk *walk = &rq->name.new;
	struct spot spot;

	if (walk_parent(walk) < 0 || carry_spot(rq, walk, &spot) < 0)
		return TO_THE_KERNEL;
	return carry_check_new(rq, walk, &spot, appearance);
}

static int run_mkdir(struct carry_request *rq)
{
	int r = reach(rq, APPEARS_DIRECTORY);

	return r < 0 ? r : result(mkdirat(rq->name.new.dir, rq->name.new.path, own_arg(rq, 0)));
}

static int run_mknod(struct carry_request *rq)
{
	int r = reach(rq, APPEARS_LEAF);

	/* The filter lets through only kinds that have no device number. */
	return r < 0 ? r
		     : result(syscall(SYS_mknodat, rq->name.new.dir, rq->name.new.path,
				      own_arg(rq, 0), 0));
}

static int run_symlink(struct carry_request *rq)
{
	int r = reach(rq, APPEARS_ANYTHING);

	return r < 0 ? r : result(symlinkat(rq->name.text, rq->name.new.dir, rq->name.new.path));
}

/* A directory that a guarded place is, or lies in, stays where it is. */
static bool is_fixed(const struct carry_request *rq, const struct walk *walk,
		     const struct spot *spot)
{
	char name[NAME_MAX + 1];
	size_t len = strcspn(walk->path, "/");
	struct stat st;

	if (!carry_leads_to_guard(rq->carry, spot->path))
		return false;
	if (len >= sizeof(name))
		return true;
	memcpy(name, walk->path, len);
	name[len] = '\0';
	return fstatat(walk->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode);
}

static int remove_name(struct carry_request *rq, int flags)
{
	struct walk *walk = &rq->name.new;
	struct spot spot;

	if (walk_parent(walk) < 0 || carry_spot(rq, walk, &spot) < 0)
		return TO_THE_KERNEL;
	if ((flags & AT_REMOVEDIR) && is_fixed(rq, walk, &spot))
		return -EBUSY;
	return result(unlinkat(walk->dir, walk->path, flags));
}

static int run_unlinkat(struct carry_request *rq)
{
	return remove_name(rq, (int)own_arg(rq, 0));
}

#ifdef __x86_64__
static int run_unlink(struct carry_request *rq)
{
	return remove_name(rq, 0);
}

static int run_rmdir(struct carry_request *rq)
{
	return remove_name(rq, AT_REMOVEDIR);
}
#endif

static int move(struct carry_request *rq, unsigned int flags)
{
	struct walk *from = &rq->name.old, *to = &rq->name.new;
	struct spot old, new;
	int r;

	if (walk_parent(from) < 0 || walk_parent(to) < 0 || (flags & RENAME_WHITEOUT) ||
	    find_spot(rq, from, &old) < 0 || find_spot(rq, to, &new) < 0 ||
	    (is_granted(&old) && is_granted(&new)))
		return TO_THE_KERNEL;
	if (is_fixed(rq, from, &old) || ((flags & RENAME_EXCHANGE) && is_fixed(rq, to, &new)))
		return -EBUSY;
	r = carry_check_new(rq, to, &new, APPEARS_ANYTHING);
	if (r == 0 && (flags & RENAME_EXCHANGE))
		r = carry_check_new(rq, from, &old, APPEARS_ANYTHING);
	return r < 0 ? r
		     : result(syscall(SYS_renameat2, from->dir, from->path, to->dir, to->path,
				      flags));
}

static int run_rename(struct carry_request *rq)
{
	return move(rq, 0);
}

static int run_renameat2(struct carry_request *rq)
{
	return move(rq, own_arg(rq, 0));
}

/* What is to get a second name, pinned. A slash behind it leads to an error, or further. */
static int pin_old(struct carry_request *rq, int flags)
{
	struct walk *walk = &rq->name.old;

	if (walk->object >= 0)
		return 0;
	if (flags & AT_SYMLINK_FOLLOW)
		return walk_object(walk);
	if (walk_parent(walk) < 0 || walk->object >= 0 || strchr(walk->path, '/'))
		return TO_THE_KERNEL;
	walk->object = openat(walk->dir, walk->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return walk->object < 0 ? -errno : 0;
}

static int link_name(struct carry_request *rq, int flags)
{
	struct walk *walk = &rq->name.new;
	char link[LINK_SIZE], place[PATH_MAX];
	struct spot spot;
	int r;

	if (pin_old(rq, flags) < 0 || carry_locate(rq->name.old.object, place) < 0 ||
	    carry_access(rq->carry, place) != ACCESS_WRITE || walk_parent(walk) < 0 ||
	    find_spot(rq, walk, &spot) < 0 ||
	    (is_granted(&spot) && carry_place_of(rq->carry, place)->sure == ACCESS_WRITE))
		return TO_THE_KERNEL;
	r = carry_check_new(rq, walk, &spot, APPEARS_ANYTHING);
	return r < 0 ? r
		     : result(linkat(AT_FDCWD, own_link(rq->name.old.object, link), walk->dir,
				     walk->path, AT_SYMLINK_FOLLOW));
}

static int run_linkat(struct carry_request *rq)
{
	return link_name(rq, (int)own_arg(rq, 0));
}

#ifdef __x86_64__
static int run_link(struct carry_request *rq)
{
	return link_name(rq, 0);
}
#endif

/* The limit on the size of a file is the target's, and the keeper has none. */
static int check_size(const struct carry_request *rq, off_t size, off_t now)
{
	struct rlimit limit;

	if (size <= now)
		return 0;
	if (prlimit(rq->name.tid, RLIMIT_FSIZE, NULL, &limit) < 0)
		return -errno;
	return (rlim_t)size > limit.rlim_cur ? -EFBIG : 0;
}

static int run_truncate(struct carry_request *rq)
{
	off_t size = (off_t)rq->name.args[rq->call->first];
	struct walk *walk = &rq->name.new;
	char link[LINK_SIZE], path[PATH_MAX];
	const struct carry_place *place;
	struct stat st;
	int r;

	if (walk_object(walk) < 0 || fstat(walk->object, &st) < 0 || !S_ISREG(st.st_mode) ||
	    size < 0 || carry_locate(walk->object, path) < 0)
		return TO_THE_KERNEL;
	place = carry_place_of(rq->carry, path);
	if (!place || place->access != ACCESS_WRITE || place->sure == ACCESS_WRITE)
		return TO_THE_KERNEL;
	r = check_size(rq, size, st.st_size);
	return r < 0 ? r : result(truncate(own_link(walk->object, link), size));
}

static int run_open(struct carry_request *rq)
{
	_cleanup_close_ int fd = carry_open(rq);
	int r;

	if (fd < 0)
		return fd;
	r = reply_descriptor(rq->name.mediator->listener, rq->name.id, fd,
			     rq->name.flags & O_CLOEXEC);
	return r < 0 ? r : -EINPROGRESS;
}

#ifdef __x86_64__
static int run_creat(struct carry_request *rq)
{
	return run_open(rq);
}
#endif

/* clang-format off */
static const struct carry_call calls[] = {
	{ __NR_openat, run_open, 0, 1, NONE, NONE, NONE, 2, false },
	{ __NR_mkdirat, run_mkdir, 0, 1, NONE, NONE, NONE, 2, true },
	{ __NR_mknodat, run_mknod, 0, 1, NONE, NONE, NONE, 2, true },
	{ __NR_unlinkat, run_unlinkat, 0, 1, NONE, NONE, NONE, 2, false },
	{ __NR_symlinkat, run_symlink, 1, 2, NONE, NONE, 0, 3, false },
	{ __NR_linkat, run_linkat, 2, 3, 0, 1, NONE, 4, false },
	{ __NR_renameat, run_rename, 2, 3, 0, 1, NONE, 4, false },
	{ __NR_renameat2, run_renameat2, 2, 3, 0, 1, NONE, 4, false },
	{ __NR_truncate, run_truncate, NONE, 0, NONE, NONE, NONE, 1, false },
#ifdef __x86_64__
	{ __NR_open, run_open, NONE, 0, NONE, NONE, NONE, 1, false },
	{ __NR_creat, run_creat, NONE, 0, NONE, NONE, NONE, 1, false },
	{ __NR_mkdir, run_mkdir, NONE, 0, NONE, NONE, NONE, 1, true },
	{ __NR_mknod, run_mknod, NONE, 0, NONE, NONE, NONE, 1, true },
	{ __NR_unlink, run_unlink, NONE, 0, NONE, NONE, NONE, 1, false },
	{ __NR_rmdir, run_rmdir, NONE, 0, NONE, NONE, NONE, 1, false },
	{ __NR_symlink, run_symlink, NONE, 1, NONE, NONE, 0, 2, false },
	{ __NR_link, run_link, NONE, 1, NONE, 0, NONE, 2, false },
	{ __NR_rename, run_rename, NONE, 1, NONE, 0, NONE, 2, false },
#endif
};
/* clang-format on */

static const struct carry_call *find_call(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

bool carry_handles(int number)
{
	return find_call(number) != NULL;
}

/* Of an open. False when the call cannot be one of ours. */
static bool take_flags(struct carry_request *rq)
{
	struct name_request *name = &rq->name;

	if (rq->call->run == run_open) {
		name->flags = (int)own_arg(rq, 0);
		name->mode = own_arg(rq, 1);
	}
#ifdef __x86_64__
	if (rq->call->run == run_creat) {
		name->flags = O_CREAT | O_WRONLY | O_TRUNC;
		name->mode = own_arg(rq, 0);
	}
#endif
	return name->flags || rq->call->run == run_open
		       ? carry_open_concerns(rq->carry, name->flags)
		       : rq->carry->changes;
}

static int take_path(struct carry_request *rq, int8_t fd, int8_t path, bool may_be_empty,
		     struct walk *walk)
{
	const unsigned long long *args = rq->name.args;

	return walk_take(walk, rq->name.tid, fd == NONE ? AT_FDCWD : (int)args[fd], args[path],
			 may_be_empty);
}

/* Everything that comes from the target. */
static int take(struct carry_request *rq)
{
	const struct carry_call *call = rq->call;
	struct name_request *name = &rq->name;
	int r = 0;

	if (call->text != NONE)
		r = target_string(name->tid, name->args[call->text], name->text,
				  sizeof(name->text));
	if (r == 0 && call->old_path != NONE)
		r = take_path(rq, call->old_fd, call->old_path,
			      call->run == run_linkat && (own_arg(rq, 0) & AT_EMPTY_PATH),
			      &name->old);
	r = r < 0 ? r : take_path(rq, call->fd, call->path, false, &name->new);
	if (r == 0 && (call->makes || (name->flags & (O_CREAT | NAMELESS_FILE))))
		r = target_umask(name->tid, &name->umask);
	return r;
}

/* What the call returns, or -errno; TO_THE_KERNEL; -EINPROGRESS when it was answered, or will be. */
static int carry_out(struct carry_request *rq)
{
	mode_t ours;
	int r;

	/* What cannot be had of the target the kernel may have. */
	if (!take_flags(rq) || take(rq) < 0)
		return TO_THE_KERNEL;
	if (!reply_is_awaited(rq->name.mediator->listener, rq->name.id))
		return -ESRCH;
	/* A mask by itself, and not taken off the mode: where a directory has a default ACL the
	 * kernel does not use it. */
	ours = umask(rq->name.umask);
	r = rq->call->run(rq);
	umask(ours);
	return r;
}

static void carry_request_done(struct carry_request *rq)
{
	walk_done(&rq->name.new);
	walk_done(&rq->name.old);
}

int carry_answer(const struct mediator *m, const struct seccomp_notif *notif)
{
	_cleanup_(carry_request_done) struct carry_request rq = {
		.name = { .mediator = m,
			  .args = notif->data.args,
			  .id = notif->id,
			  .tid = (pid_t)notif->pid,
			  .new = WALK_NONE,
			  .old = WALK_NONE },
		.carry = m->carry,
		.call = find_call(notif->data.nr),
	};
	int r = carry_out(&rq);

	if (r == TO_THE_KERNEL)
		return reply_continue(m->listener, rq.name.id);
	return r == -EINPROGRESS ? 0 : reply_result(m->listener, rq.name.id, r);
}
