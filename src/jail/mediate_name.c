#include "jail/mediate_name.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/mediate_act.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/target.h"

enum { NONE = -1 };

/* Which argument is what; NONE where the call has none. */
struct name_call {
	int number;
	int (*run)(struct name_request *request);  /* what the call returns, or -errno */
	int8_t fd, path;                           /* of the new name */
	int8_t old_fd, old_path;                   /* of what is moved or linked */
	int8_t text;                               /* of a symbolic link */
	uint8_t first;                             /* of what is particular to the call */
	int (*take)(struct name_request *request); /* of that, what the paths depend on, or NULL */
};

static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

int name_check(const struct name_request *rq, const struct walk *walk, enum appearance appearance)
{
	return guard_check(rq->mediator->guarded, rq->mediator->guarded_count, walk->dir,
			   walk->path, appearance);
}

/* The parent of the new name, with the guards' consent. */
static int reach(struct name_request *rq, enum appearance appearance)
{
	int r = walk_parent(&rq->new);

	if (r == 0 && rq->new.object >= 0)
		r = -EEXIST;
	return r < 0 ? r : name_check(rq, &rq->new, appearance);
}

static uint32_t own_arg(const struct name_request *rq, unsigned int i)
{
	return (uint32_t)rq->args[rq->call->first + i];
}

static int run_mkdir(struct name_request *rq)
{
	int r = reach(rq, APPEARS_DIRECTORY);

	return r < 0 ? r : result(mkdirat(rq->new.dir, rq->new.path, own_arg(rq, 0)));
}

static int run_mknod(struct name_request *rq)
{
	int r = reach(rq, APPEARS_LEAF);

	/* The filter lets through only kinds that have no device number. */
	return r < 0 ? r
		     : result(syscall(SYS_mknodat, rq->new.dir, rq->new.path, own_arg(rq, 0), 0));
}

static int run_symlink(struct name_request *rq)
{
	int r = reach(rq, APPEARS_ANYTHING);

	return r < 0 ? r : result(symlinkat(rq->text, rq->new.dir, rq->new.path));
}

/* A link to a symbolic link is one, too. */
static int run_link(struct name_request *rq)
{
	char link[LINK_SIZE];
	bool follows = rq->old.object >= 0 || (rq->flags & AT_SYMLINK_FOLLOW);
	int r = follows ? walk_object(&rq->old) : walk_parent(&rq->old);

	r = r < 0 ? r : reach(rq, APPEARS_ANYTHING);
	if (r < 0)
		return r;
	if (rq->old.object >= 0)
		return result(linkat(AT_FDCWD, own_link(rq->old.object, link), rq->new.dir,
				     rq->new.path, AT_SYMLINK_FOLLOW));
	return result(linkat(rq->old.dir, rq->old.path, rq->new.dir, rq->new.path, 0));
}

static int run_rename(struct name_request *rq)
{
	int r = walk_parent(&rq->old);

	r = r < 0 ? r : reach(rq, APPEARS_ANYTHING);
	/* Something appears at the old name as well. */
	if (r == 0 && (rq->flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)))
		r = name_check(rq, &rq->old, APPEARS_ANYTHING);
	return r < 0 ? r
		     : result(syscall(SYS_renameat2, rq->old.dir, rq->old.path, rq->new.dir,
				      rq->new.path, rq->flags));
}

static int run_open(struct name_request *rq)
{
	_cleanup_close_ int fd = name_open(rq);
	int r;

	if (fd < 0)
		return fd;
	r = reply_descriptor(rq->mediator->listener, rq->id, fd, rq->flags & O_CLOEXEC);
	return r < 0 ? r : -EINPROGRESS;
}

static int take_open(struct name_request *rq)
{
	rq->flags = (int)own_arg(rq, 0);
	rq->mode = own_arg(rq, 1);
	return 0;
}

static int take_rename(struct name_request *rq)
{
	rq->flags = (int)own_arg(rq, 0);
	return 0;
}

static int take_link(struct name_request *rq)
{
	rq->flags = (int)own_arg(rq, 0);
	return rq->flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) ? -EINVAL : 0;
}

#ifdef __x86_64__
static int take_creat(struct name_request *rq)
{
	rq->flags = O_CREAT | O_WRONLY | O_TRUNC;
	rq->mode = own_arg(rq, 0);
	return 0;
}
#endif

/* clang-format off */
static const struct name_call calls[] = {
	{ __NR_openat, run_open, 0, 1, NONE, NONE, NONE, 2, take_open },
	{ __NR_mkdirat, run_mkdir, 0, 1, NONE, NONE, NONE, 2, NULL },
	{ __NR_mknodat, run_mknod, 0, 1, NONE, NONE, NONE, 2, NULL },
	{ __NR_symlinkat, run_symlink, 1, 2, NONE, NONE, 0, 3, NULL },
	{ __NR_linkat, run_link, 2, 3, 0, 1, NONE, 4, take_link },
	{ __NR_renameat, run_rename, 2, 3, 0, 1, NONE, 4, NULL },
	{ __NR_renameat2, run_rename, 2, 3, 0, 1, NONE, 4, take_rename },
#ifdef __x86_64__
	{ __NR_open, run_open, NONE, 0, NONE, NONE, NONE, 1, take_open },
	{ __NR_creat, run_open, NONE, 0, NONE, NONE, NONE, 1, take_creat },
	{ __NR_mkdir, run_mkdir, NONE, 0, NONE, NONE, NONE, 1, NULL },
	{ __NR_mknod, run_mknod, NONE, 0, NONE, NONE, NONE, 1, NULL },
	{ __NR_symlink, run_symlink, NONE, 1, NONE, NONE, 0, 2, NULL },
	{ __NR_link, run_link, NONE, 1, NONE, 0, NONE, 2, NULL },
	{ __NR_rename, run_rename, NONE, 1, NONE, 0, NONE, 2, NULL },
#endif
};
/* clang-format on */

const struct name_call *name_call_find(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

static int take_path(struct name_request *rq, int8_t fd, int8_t path, bool may_be_empty,
		     struct walk *walk)
{
	return walk_take(walk, rq->tid, fd == NONE ? AT_FDCWD : (int)rq->args[fd], rq->args[path],
			 may_be_empty);
}

/* Everything that comes from the target. */
static int take(struct name_request *rq)
{
	const struct name_call *call = rq->call;
	int r = call->take ? call->take(rq) : 0;

	if (r == 0 && call->text != NONE)
		r = target_string(rq->tid, rq->args[call->text], rq->text, sizeof(rq->text));
	if (r == 0 && call->old_path != NONE)
		r = take_path(rq, call->old_fd, call->old_path,
			      call->run == run_link && (rq->flags & AT_EMPTY_PATH), &rq->old);
	r = r < 0 ? r : take_path(rq, call->fd, call->path, false, &rq->new);
	return r < 0 ? r : target_umask(rq->tid, &rq->umask);
}

static void name_request_done(struct name_request *rq)
{
	walk_done(&rq->new);
	walk_done(&rq->old);
}

/* What the call returns, or -errno; -EINPROGRESS when it was answered, or will be. */
static int carry_out(struct name_request *rq)
{
	int r = take(rq);
	mode_t ours;

	if (r < 0)
		return r;
	if (!reply_is_awaited(rq->mediator->listener, rq->id))
		return -ESRCH;
	/* A mask by itself, and not taken off the mode: where a directory has a default ACL the
	 * kernel does not use it. */
	ours = umask(rq->umask);
	r = rq->call->run(rq);
	umask(ours);
	return r;
}

int name_answer(const struct mediator *mediator, const struct name_call *call,
		const struct seccomp_notif *notif)
{
	_cleanup_(name_request_done) struct name_request rq = { .mediator = mediator,
								.call = call,
								.args = notif->data.args,
								.id = notif->id,
								.tid = (pid_t)notif->pid,
								.new = WALK_NONE,
								.old = WALK_NONE };
	int r = carry_out(&rq);

	return r == -EINPROGRESS ? 0 : reply_result(mediator->listener, rq.id, r);
}
