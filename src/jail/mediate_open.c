#include "jail/mediate_name.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/mediate_act.h"
#include "jail/mediate_reply.h"
#include "jail/target.h"
#include "jail/waiter.h"

#define GO_ROUND_AGAIN   (-ERESTART) /* a link was followed, or something changed on the way */
#define OWN_TERMINAL     makedev(5, 0)
#define PTS_MAJOR        136
#define PTS_PATH_SIZE    32
#define WAITER_LOOKS_US  100000
#define ROUNDS_MAX       64 /* more than links are followed */
#define WITHOUT_A_WAIT   (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define ONLY_AT_CREATION (O_CREAT | O_EXCL | O_NOFOLLOW)

/* The keeper may not wait and opened it so; the target may. */
static int as_asked(const struct name_request *rq, long fd)
{
	int r;

	if (fd < 0)
		return -errno;
	r = rq->flags & O_NONBLOCK ? 0 : fd_set_nonblock((int)fd, 0);
	if (r < 0)
		fd_close((int)fd);
	return r < 0 ? r : (int)fd;
}

static int reopen(const struct name_request *rq, int object)
{
	char link[LINK_SIZE];

	return as_asked(rq, open(own_link(object, link),
				 (rq->flags & ~ONLY_AT_CREATION) | WITHOUT_A_WAIT));
}

static void look_up(int signal)
{
	(void)signal;
}

/* Waits for the other end in the target's place, for as long as the target does. */
_Noreturn static void wait_in_fifo(const struct name_request *rq, int object)
{
	const struct itimerval often = { { 0, WAITER_LOOKS_US }, { 0, WAITER_LOOKS_US } };
	const struct sigaction interrupt = { .sa_handler = look_up };
	int listener = rq->mediator->listener, fd;
	char link[LINK_SIZE];
	sigset_t alarm_only;

	fd_close_others((int[]){ listener, object }, 2);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigaction(SIGALRM, &interrupt, NULL);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	do
		fd = open(own_link(object, link),
			  (rq->flags & ~ONLY_AT_CREATION) | O_NOCTTY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR && reply_is_awaited(listener, rq->id));
	if (fd < 0 || reply_descriptor(listener, rq->id, fd, rq->flags & O_CLOEXEC) < 0)
		(void)!reply_result(listener, rq->id, fd < 0 ? -errno : -EMFILE);
	_exit(0);
}

static int start_waiter(const struct name_request *rq, int object)
{
	pid_t pid = waiter_fork();

	if (pid == 0)
		wait_in_fifo(rq, object);
	return pid < 0 ? pid : -EINPROGRESS;
}

static int open_fifo(const struct name_request *rq, int object)
{
	int mode = rq->flags & O_ACCMODE, fd = -ENXIO;

	/* To write without waiting succeeds exactly when there is a reader; to read always does. */
	if (mode != O_RDONLY || (rq->flags & O_NONBLOCK))
		fd = reopen(rq, object);
	if (fd != -ENXIO || (rq->flags & O_NONBLOCK))
		return fd;
	return start_waiter(rq, object);
}

static int open_terminal(const struct name_request *rq, int object)
{
	_cleanup_close_ int named = -EBADF;
	char path[PTS_PATH_SIZE];
	dev_t terminal;
	struct stat st;
	int r;

	if (getsid(rq->tid) == getsid(0))
		return reopen(rq, object);
	r = target_terminal(rq->tid, &terminal);
	if (r < 0)
		return r;
	if (major(terminal) != PTS_MAJOR)
		return -ENXIO;
	snprintf(path, sizeof(path), "/dev/pts/%u", minor(terminal));
	named = sys_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
			    RESOLVE_NO_MAGICLINKS);
	if (named < 0 || fstat(named, &st) < 0 || st.st_rdev != terminal)
		return -ENXIO;
	return reopen(rq, named);
}

static bool is_own_terminal(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == OWN_TERMINAL;
}

int name_reopen(const struct name_request *rq, int object)
{
	struct stat st;

	if (fstat(object, &st) < 0)
		return -errno;
	return S_ISFIFO(st.st_mode) ? open_fifo(rq, object) : reopen(rq, object);
}

/* What exists, and was reached by a link of /proc or needs care. */
static int open_object(const struct name_request *rq, int object)
{
	struct stat st;

	if (fstat(object, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (S_ISFIFO(st.st_mode))
		return open_fifo(rq, object);
	return is_own_terminal(&st) ? open_terminal(rq, object) : reopen(rq, object);
}

static int pin_and_open(const struct name_request *rq)
{
	_cleanup_close_ int object =
		openat(rq->new.dir, rq->new.path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (object < 0 || fstat(object, &st) < 0)
		return errno == ENOENT ? GO_ROUND_AGAIN : -errno;
	return S_ISFIFO(st.st_mode) || is_own_terminal(&st) ? open_object(rq, object)
							    : GO_ROUND_AGAIN;
}

static int open_last(struct name_request *rq)
{
	bool follows = !(rq->flags & (O_EXCL | O_NOFOLLOW));
	const struct walk *walk = &rq->new;
	struct stat st;
	int r = name_check(rq, walk, APPEARS_LEAF);

	if (r < 0)
		return r;
	/* With O_EXCL, or a slash behind, the kernel refuses whatever is there. */
	if (!(rq->flags & O_EXCL) && !strchr(walk->path, '/') &&
	    fstatat(walk->dir, walk->path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISLNK(st.st_mode) && follows) {
			r = walk_follow(&rq->new);
			return r < 0 ? r : GO_ROUND_AGAIN;
		}
		if (S_ISFIFO(st.st_mode) || is_own_terminal(&st))
			return pin_and_open(rq);
	}
	r = as_asked(rq, syscall(SYS_openat, walk->dir, walk->path,
				 rq->flags | O_NOFOLLOW | WITHOUT_A_WAIT, rq->mode));
	/* Somebody else put a link there since. */
	return r == -ELOOP && follows ? GO_ROUND_AGAIN : r;
}

int name_open(struct name_request *rq)
{
	int r = GO_ROUND_AGAIN;

	for (int i = 0; i < ROUNDS_MAX && r == GO_ROUND_AGAIN; i++) {
		r = walk_parent(&rq->new);
		if (r == 0)
			r = rq->new.object >= 0 ? open_object(rq, rq->new.object) : open_last(rq);
	}
	return r == GO_ROUND_AGAIN ? -ELOOP : r;
}
