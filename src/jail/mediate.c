#include "jail/mediate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/guard.h"
#include "jail/mediate_act.h"
#include "jail/mediate_name.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/shared.h"
#include "jail/syscalls.h"
#include "jail/target.h"

#define AT_FLAGS_KNOWN (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)

/* Which argument is what; NONE where the call has none. */
enum { NONE = -1 };

struct call {
	int number;
	const struct act *act; /* NULL for scheduling: first is the number of the process */
	int8_t fd;             /* the descriptor to start from, or the object where no path is */
	int8_t path;
	int8_t flags;  /* AT_... */
	uint8_t first; /* of what is particular to the act */
	bool nofollow;
	bool null_path; /* NULL for the path means the descriptor itself */
};

/* clang-format off */
#define BY_PATH(call, act)        { __NR_##call, &act_##act, NONE, 0, NONE, 1, false, false }
#define BY_LINK(call, act)        { __NR_##call, &act_##act, NONE, 0, NONE, 1, true, false }
#define BY_FD(call, act)          { __NR_##call, &act_##act, 0, NONE, NONE, 1, false, false }
#define AT(call, act)             { __NR_##call, &act_##act, 0, 1, NONE, 2, false, false }
#define AT_WITH(call, act, flags) { __NR_##call, &act_##act, 0, 1, flags, 2, false, false }
#define SCHEDULING(call, process) { __NR_##call, NULL, NONE, NONE, NONE, process, false, false }

static const struct call calls[] = {
	BY_FD(fchmod, chmod), AT(fchmodat, chmod), AT_WITH(fchmodat2, chmod, 3),
	BY_FD(fchown, chown), AT_WITH(fchownat, chown, 4),
	{ __NR_utimensat, &act_times, 0, 1, 3, 2, false, true },
	BY_PATH(setxattr, setxattr), BY_LINK(lsetxattr, setxattr), BY_FD(fsetxattr, setxattr),
	{ __NR_setxattrat, &act_setxattrat, 0, 1, 2, 3, false, false },
	BY_PATH(removexattr, removexattr), BY_LINK(lremovexattr, removexattr),
	BY_FD(fremovexattr, removexattr),
	{ __NR_removexattrat, &act_removexattr, 0, 1, 2, 3, false, false },
	{ __NR_inotify_add_watch, &act_watch, NONE, 1, NONE, 0, false, false },
	SCHEDULING(setpriority, 1), SCHEDULING(ioprio_set, 1), SCHEDULING(sched_setparam, 0),
	SCHEDULING(sched_setscheduler, 0), SCHEDULING(sched_setattr, 0),
	SCHEDULING(sched_setaffinity, 0),
#ifdef __x86_64__
	BY_PATH(chmod, chmod), BY_PATH(chown, chown), BY_LINK(lchown, chown),
	BY_PATH(utime, seconds), BY_PATH(utimes, timevals),
	{ __NR_futimesat, &act_timevals, 0, 1, NONE, 2, false, true },
#endif
};
/* clang-format on */

static const struct call *find_call(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

/* Reads a decimal number of at most nine digits and moves *p behind it. */
static bool scan_number(const char **p, int *ret_number)
{
	int number = 0, digits = 0;

	for (; **p >= '0' && **p <= '9' && digits < 9; digits++)
		number = number * 10 + *(*p)++ - '0';
	*ret_number = number;
	return digits > 0;
}

/* Whether text starts with /proc/PID/fd/ where PID is the target's own. */
static bool names_own_process(const struct request *rq, const char **text)
{
	const char *p = *text;
	int number;
	pid_t pid;

	if (!str_starts(p, "/proc/"))
		return false;
	p += strlen("/proc/");
	if (!scan_number(&p, &number) || !str_starts(p, "/fd/"))
		return false;
	if (number != rq->tid && (target_process(rq->tid, &pid) < 0 || number != pid))
		return false;
	*text = p + strlen("/fd/");
	return true;
}

/*
 * The spellings of a descriptor of one's own, perhaps with a path behind. True when rq->path was
 * one: the descriptor is in *ret_fd, and rq->path is what is left, "" for the object itself.
 */
static bool names_descriptor(struct request *rq, int *ret_fd)
{
	static const char *const prefixes[] = { "/proc/self/fd/", "/proc/thread-self/fd/",
						"/dev/fd/" };
	const char *p = rq->path;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(prefixes) && p == rq->path; i++)
		if (str_starts(p, prefixes[i]))
			p += strlen(prefixes[i]);
	if (p == rq->path && !names_own_process(rq, &p))
		return false;
	if (!scan_number(&p, &fd) || (*p != '\0' && *p != '/') || (*p == '\0' && rq->nofollow))
		return false;
	if (*p == '/') {
		p += strspn(p, "/");
		p = *p ? p : ".";
	}
	memmove(rq->path, p, strlen(p) + 1);
	*ret_fd = fd;
	return true;
}

/* Copies the path, "" where the call means its descriptor, and opens what it starts from. */
static int take_path(struct request *rq, unsigned int flags)
{
	const struct call *call = rq->call;
	int fd = call->fd == NONE ? AT_FDCWD : (int)rq->args[call->fd];
	uint64_t address = call->path == NONE ? 0 : rq->args[call->path];
	int r = 0;

	rq->path[0] = '\0';
	if (address || (!(flags & AT_EMPTY_PATH) && call->path != NONE &&
			!(call->null_path && fd != AT_FDCWD))) {
		r = target_string(rq->tid, address, rq->path, sizeof(rq->path));
		if (r == 0 && rq->path[0] == '\0' && !(flags & AT_EMPTY_PATH))
			r = -ENOENT;
	}
	if (r < 0)
		return r;
	if (rq->path[0] == '/' && !names_descriptor(rq, &fd))
		return 0;
	rq->base = target_open(rq->tid, fd);
	return MIN(rq->base, 0);
}

/* Everything that comes from the target. */
static int take(struct request *rq)
{
	const struct call *call = rq->call;
	unsigned int flags = call->flags == NONE ? 0 : (unsigned int)rq->args[call->flags];
	int r;

	if (flags & ~(unsigned int)AT_FLAGS_KNOWN)
		return -EINVAL;
	rq->nofollow = call->nofollow || (flags & AT_SYMLINK_NOFOLLOW);
	r = call->act->copy ? call->act->copy(rq) : 0;
	return r < 0 ? r : take_path(rq, flags);
}

/* In a container the mounts judge, and the sandbox may have a root of its own inside (nested). */
static bool is_container(const struct mediator *m)
{
	return m->mediation == MEDIATE_MODES || m->mediation == MEDIATE_NAMES;
}

static int pin(const struct mediator *m, struct request *rq)
{
	uint64_t flags = O_PATH | O_CLOEXEC, resolve = RESOLVE_NO_MAGICLINKS;

	if (rq->path[0] == '\0') {
		rq->object = take_fd(&rq->base);
		return 0;
	}
	flags |= rq->nofollow ? O_NOFOLLOW : 0;
	flags |= rq->only_directory ? O_DIRECTORY : 0;
	if (is_container(m) && rq->path[0] == '/') {
		rq->base = target_root(rq->tid);
		if (rq->base < 0)
			return rq->base;
		resolve |= RESOLVE_IN_ROOT;
	}
	rq->object = sys_openat2(rq->base, rq->path, flags, 0, resolve);
	return MIN(rq->object, 0);
}

/* Such a file shows as "/memfd:name (deleted)", as if it had been in the root directory. */
static bool is_memfd(const struct request *rq, const char *path)
{
	return S_ISREG(rq->st.st_mode) && rq->st.st_nlink == 0 && str_starts(path, "/memfd:") &&
	       str_ends(path, " (deleted)");
}

/* Objects that are in no tree and belong to whoever holds them. Other kinds without a place,
 * namespaces among them, are the kernel's and everybody's; a pipe may be the caller's, whose mode
 * keeps the sandbox from opening its other end. */
static bool is_private(const struct request *rq, const char *path)
{
	return path[0] != '/' ? S_ISSOCK(rq->st.st_mode) : is_memfd(rq, path);
}

static bool is_device(const struct request *rq)
{
	return S_ISCHR(rq->st.st_mode) || S_ISBLK(rq->st.st_mode);
}

static bool is_in(const char *path, const char *const *trees, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (path_is_below(path, trees[i]))
			return true;
	return false;
}

static bool may_look(const struct mediator *m, const char *path)
{
	return m->carry ? carry_access(m->carry, path) >= ACCESS_READ
			: is_in(path, m->readable, m->readable_count);
}

static bool may_change(const struct mediator *m, const char *path)
{
	return m->carry ? carry_access(m->carry, path) == ACCESS_WRITE
			: is_in(path, m->writable, m->writable_count);
}

/* Whether the pinned object is the sandbox's to change, or to look at. */
static int judge(const struct mediator *m, struct request *rq)
{
	const struct act *act = rq->call->act;
	char link[LINK_SIZE], path[PATH_MAX];
	ssize_t len;

	if (fstat(rq->object, &rq->st) < 0)
		return -errno;
	/* Of several users we are one, and must not do for another what he may not. */
	if (is_container(m))
		return target_may_own(rq->tid, rq->st.st_uid) ? 0 : act->refusal;
	len = readlink(own_link(rq->object, link), path, sizeof(path));
	if (len < 0)
		return -errno;
	if (len == sizeof(path))
		return -ENAMETOOLONG;
	path[len] = '\0';
	if (!is_memfd(rq, path))
		carry_strip(path, &rq->st);
	if (act->only_looks)
		return may_look(m, path) && !path_is_below(path, "/proc") ? 0 : act->refusal;
	if (is_private(rq, path))
		return 0;
	if (is_device(rq) || path_is_below(path, "/proc"))
		return act->refusal;
	return may_change(m, path) ? 0 : act->refusal;
}

static void request_done(struct request *rq)
{
	rq->base = fd_close(rq->base);
	rq->object = fd_close(rq->object);
	rq->watcher = fd_close(rq->watcher);
}

/* What the call returns: not negative, or -errno. */
static int carry_out(const struct mediator *m, const struct call *call,
		     const struct seccomp_notif *notif)
{
	_cleanup_(request_done) struct request rq = { .call = call,
						      .args = notif->data.args,
						      .own = notif->data.args + call->first,
						      .tid = (pid_t)notif->pid,
						      .base = -EBADF,
						      .object = -EBADF,
						      .watcher = -EBADF };
	int r = take(&rq);

	if (r < 0)
		return r;
	if (!reply_is_awaited(m->listener, notif->id))
		return -ESRCH;
	r = pin(m, &rq);
	r = r < 0 ? r : judge(m, &rq);
	return r < 0 ? r : call->act->run(&rq);
}

/* Only a number is judged, and a number does not change behind our back. */
static int judge_process(const struct mediator *m, const struct call *call,
			 const struct seccomp_notif *notif)
{
	pid_t pid = (pid_t)notif->data.args[call->first];
	int r = m->scoped ? target_is_reachable(pid) : target_descends(pid, getpid());

	return r < 0 ? r : r == 0 ? -EPERM : 0;
}

static int receive(const struct mediator *m, short revents, struct seccomp_notif *ret_notif)
{
	if (!(revents & POLLIN))
		return revents ? -EPIPE : -EAGAIN;
	if (ioctl(m->listener, SECCOMP_IOCTL_NOTIF_RECV, ret_notif) < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return 0;
}

/* What the filter would have said without some of its conditions. What waits because the network
 * is shared has its answer already, but for opens that anybody may make. */
static unsigned int verdict_without(const struct mediator *m, const struct seccomp_notif *notif,
				    unsigned int conditions)
{
	uint64_t args[6];

	memcpy(args, notif->data.args, sizeof(args));
	return syscall_verdict(m->conditions & ~(conditions | WITH_SHARED),
			       (uint32_t)notif->data.nr, args);
}

/* Of what is carried out here, that which is recorded before; the rest is told of when it is
 * refused. */
static bool is_recorded_too(const struct mediator *m, const struct seccomp_notif *notif)
{
	if (m->carry && carry_handles(notif->data.nr))
		return verdict_without(m, notif, WITH_CARRY | WITH_CARRY_READS) == MEDIATE;
	return (m->conditions & WITH_CHANGES) && name_call_find(notif->data.nr);
}

/* 1 when the call is answered, 0 when it is still to be carried out, or -errno. */
static int record(const struct mediator *m, const struct seccomp_notif *notif)
{
	unsigned int verdict = verdict_without(m, notif, WITH_TELL | WITH_CHANGES | WITH_READS);
	bool is_refused = verdict != ALLOW && verdict != MEDIATE;
	int answer = is_refused ? -(int)verdict : RECORD_CONTINUED, r;

	if (verdict == MEDIATE && !is_recorded_too(m, notif))
		return 0;
	if (!recorder_put(m->recorder, notif, m->listener, m->control, &answer))
		return -EPIPE;
	if (verdict == MEDIATE && answer == RECORD_CONTINUED)
		return 0;
	r = answer == RECORD_CONTINUED ? reply_continue(m->listener, notif->id)
				       : reply_result(m->listener, notif->id, answer);
	return r < 0 ? r : 1;
}

/* A connect where there is a gate: what is not an internet socket's, the kernel decides. */
static int answer_connect(const struct mediator *m, const struct seccomp_notif *notif)
{
	uint32_t exec = m->recorder ? recorder_exec(m->recorder, (pid_t)notif->pid) : 0;
	int r = outlet_offer(m->outlet, m->listener, notif, exec), answer = RECORD_CONTINUED;

	if (r > 0)
		return 0;
	if (r < 0)
		return reply_result(m->listener, notif->id, shared_unread(m, notif, r));
	if (m->recorder && !recorder_put(m->recorder, notif, m->listener, m->control, &answer))
		return -EPIPE;
	return answer == RECORD_CONTINUED ? reply_continue(m->listener, notif->id)
					  : reply_result(m->listener, notif->id, answer);
}

/* Metadata and scheduling: carried out or judged here, and told of when that is a refusal. */
static int answer_here(const struct mediator *m, const struct seccomp_notif *notif)
{
	const struct call *call = find_call(notif->data.nr);
	int r, answer;

	if (!call)
		return reply_result(m->listener, notif->id, -ENOSYS);
	r = call->act ? carry_out(m, call, notif) : judge_process(m, call, notif);
	answer = r;
	if (m->recorder && (r == -EPERM || r == -EACCES) &&
	    !recorder_put(m->recorder, notif, m->listener, m->control, &answer))
		return -EPIPE;
	if (r == 0 && !call->act)
		return reply_continue(m->listener, notif->id);
	return reply_result(m->listener, notif->id, r);
}

int mediator_answer(const struct mediator *m, short revents)
{
	struct seccomp_notif notif = { 0 }; /* as the kernel demands */
	const struct name_call *name;
	int r = receive(m, revents, &notif);

	if (r == 0 && m->outlet && notif.data.nr == __NR_connect)
		return answer_connect(m, &notif);
	if (r == 0 && m->outlet && m->outlet->resolver)
		r = shared_answer(m, &notif);
	if (r == 0 && m->recorder)
		r = record(m, &notif);
	if (r != 0)
		return MIN(r, 0);
	if (m->carry && carry_handles(notif.data.nr))
		return carry_answer(m, &notif);
	name = m->mediation == MEDIATE_NAMES ? name_call_find(notif.data.nr) : NULL;
	return name ? name_answer(m, name, &notif) : answer_here(m, &notif);
}
