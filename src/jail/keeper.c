#include "jail/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"
#include "base/title.h"
#include "jail/inside.h"
#include "jail/keeper_end.h"
#include "jail/launch.h"
#include "jail/supply.h"
#include "jail/tree.h"
#include "jail/mediate.h"

#define FREE_DESCRIPTORS 32 /* that the record of who is who leaves for the work itself */

#define BESIDE_MS 10 /* between looks at whether the child beside us has ended */

/* How much later than the warden's deadline ours is: only a warden that is stopped or stuck misses
 * its own. */
#define LATE_MS 1000

const char *const keeper_steps[STEP_COUNT] = {
	[STEP_SETUP] = "waiting for the warden",
	[STEP_PRIVILEGES] = "dropping privileges",
	[STEP_AFFINITY] = "setting the CPU affinity",
	[STEP_DOMAIN] = "entering the Landlock domain for signals",
	[STEP_SCOPE] = "checking that signals are confined",
	[STEP_FILTER] = "loading the system call filter",
	[STEP_FORK] = "starting a process",
	[STEP_SESSION] = "making a session",
	[STEP_TERMINAL] = "taking the terminal",
	[STEP_STDIO] = "setting up standard input and output",
	[STEP_CGROUP] = "entering the cgroup",
	[STEP_RLIMITS] = "setting resource limits",
	[STEP_FILES] = "entering the Landlock domain for files",
	[STEP_DESCRIPTORS] = "closing descriptors",
	[STEP_SETTLE] = "settling beside the program",
	[STEP_EXEC] = "executing the program",
};

static void tell(int control, const struct keeper_event *event)
{
	keeper_tell(control, event, -EBADF);
}

/* The cgroup is the keeper's to care for where it is not in it: in a container the janitor does. */
static struct cgroup cgroup_of(const struct jail *jail)
{
	return plan_has_namespaces(jail->plan) ? CGROUP_NONE : jail->cgroup;
}

/* What rarely has news; the listener and the mounts are polled beside it (watch_first). */
enum {
	NEWS_CONTROL = 1,
	NEWS_SIGNALS = 2,
	NEWS_OUTLET = 4,
	NEWS_RESOLVER = 8,
	NEWS_SUPPLY = 16,
	NEWS_RECORD = 32,
	NEWS_MAX = 7,
};

struct watch {
	pid_t first;
	int control, signals;
	int others; /* an epoll of all NEWS_... */
	bool ended, scoped, late;
	uint64_t deadline;        /* UINT64_MAX: none */
	bool more;                /* children that are still to be reaped */
	int mounts;               /* says when a mount has gone, or -EBADF */
	bool lost;                /* one that protects something */
	bool is_detaching;        /* a child beside us that raises no signal at its end */
	struct mediator mediator; /* listener -EBADF: none, or nobody is left to ask */
	struct keeper_event exit;
	struct recorder *recorder;
	struct outlet *outlet;
	int supply;         /* -EBADF: nothing is published */
	uint64_t next_look; /* at connects that wait for the gate */
	int record_timer;   /* ends when the warden is to be told of what was recorded */
	bool is_record_timed;
	struct executor *executor; /* of a container */
};

static void set_deadline(struct watch *watch, uint64_t left_ms)
{
	bool has_one = left_ms < UINT64_MAX / 1000000 / 2;

	watch->deadline = has_one ? clock_ms() + left_ms + LATE_MS : UINT64_MAX;
	watch->recorder->deadline = has_one ? watch->deadline * 1000000 : UINT64_MAX;
}

/* Without the scope that confines kill(-1): as good as a look at who is there. */
static void signal_descendants(int signal)
{
	static pid_t pids[TREE_MAX];
	size_t count = tree_below(getpid(), pids);

	for (size_t i = 0; i < count; i++)
		kill(pids[i], signal);
}

/* Carries out one request of the warden. 0: there was none; negative when the sandbox must end now. */
static int obey(struct watch *watch)
{
	struct keeper_request request;
	ssize_t n = recv(watch->control, &request, sizeof(request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(request) || request.order == KEEPER_KILL)
		return -ECANCELED;
	if (request.order == KEEPER_DEADLINE)
		set_deadline(watch, request.value);
	else if (request.order == KEEPER_SIGNAL_ALL && watch->scoped)
		kill(-1, request.signal);
	else if (request.order == KEEPER_SIGNAL_ALL)
		signal_descendants(request.signal);
	else if (!watch->ended)
		kill(-watch->first, request.signal);
	return 1;
}

static int expect_news(int epoll, int fd, uint32_t events, uint32_t news)
{
	struct epoll_event event = { .events = events, .data.u32 = news };

	return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static void push_record(struct watch *watch)
{
	if (watch->recorder->ring)
		record_push(watch->recorder->ring);
	watch->is_record_timed = false;
}

/* By a timer that is set once for many calls: a time-out would be set anew for each. */
static void time_record(struct watch *watch)
{
	const struct itimerspec due = { .it_value = { .tv_nsec = RECORD_DELAY_MS * 1000000L } };

	if (watch->is_record_timed || !watch->recorder->ring ||
	    !record_is_waiting(watch->recorder->ring))
		return;
	if (watch->record_timer < 0) {
		watch->record_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (watch->record_timer >= 0 &&
		    expect_news(watch->others, watch->record_timer, EPOLLIN, NEWS_RECORD) < 0)
			watch->record_timer = fd_close(watch->record_timer);
	}
	watch->is_record_timed = watch->record_timer >= 0 &&
				 timerfd_settime(watch->record_timer, 0, &due, NULL) == 0;
	/* Without one, at once. */
	if (!watch->is_record_timed)
		push_record(watch);
}

/* One at a time, so that a flood of questions delays neither the warden nor the end. */
static void answer(struct watch *watch, short revents)
{
	int r = mediator_answer(&watch->mediator, revents);

	time_record(watch);
	if (r < 0 && r != -EAGAIN && r != -ENOENT)
		watch->mediator.listener = fd_close(watch->mediator.listener);
}

/* Reaps. False when the first process ended or no child is left. */
static bool look_after_children(struct watch *watch)
{
	struct signalfd_siginfo drop[8];
	int r;

	/* The content does not matter: one SIGCHLD may stand for many. */
	if (read(watch->signals, drop, sizeof(drop)) < 0 && errno != EINTR && errno != EAGAIN)
		return false;
	r = keeper_reap(watch->first, watch->control, &watch->exit, &watch->more);
	if (r > 0)
		watch->ended = true;
	return r == 0;
}

static int time_left(const struct watch *watch)
{
	uint64_t next = watch->deadline, now;

	if (next == UINT64_MAX && !watch->is_detaching && !watch->outlet->held_count)
		return -1;
	now = clock_ms();
	if (watch->outlet->held_count)
		next = MIN(next, now + OUTLET_LOOK_MS);
	if (watch->is_detaching)
		next = MIN(next, now + BESIDE_MS);
	return now >= next ? 0 : (int)MIN(next - now, (uint64_t)1000000);
}

/* Not more often than is good for those who wait. */
static void look_at_held(struct watch *watch)
{
	uint64_t now = clock_ms();

	if (now < watch->next_look)
		return;
	watch->next_look = now + OUTLET_LOOK_MS;
	outlet_look(watch->outlet, watch->mediator.listener);
}

/*
 * What is due by now. False at the deadline. A keeper that stood still together with its sandbox finds
 * an old deadline over, and the new one among its orders.
 */
static bool look_at_clock(struct watch *watch)
{
	if (watch->is_detaching)
		watch->is_detaching = beside_is_left();
	while (clock_ms() >= watch->deadline)
		if (obey(watch) <= 0)
			return false;
	return true;
}

static int expect_others(struct watch *watch)
{
	const struct outlet *outlet = watch->outlet;
	const struct {
		int fd;
		uint32_t events, news;
	} others[] = {
		{ watch->control, EPOLLIN, NEWS_CONTROL },
		{ watch->signals, EPOLLIN, NEWS_SIGNALS },
		{ outlet->channel, 0, NEWS_OUTLET },
		{ watch->supply, EPOLLIN, NEWS_SUPPLY },
		/* Once: they are handed over then, and live on. */
		{ outlet->datagrams, EPOLLIN | EPOLLONESHOT, NEWS_RESOLVER },
		{ outlet->listener, EPOLLIN | EPOLLONESHOT, NEWS_RESOLVER },
	};
	int r = 0;

	_Static_assert(ARRAY_SIZE(others) + 1 == NEWS_MAX, "these, and the timer of the record");
	watch->others = epoll_create1(EPOLL_CLOEXEC);
	if (watch->others < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(others) && r == 0; i++)
		r = expect_news(watch->others, others[i].fd, others[i].events, others[i].news);
	return r;
}

static unsigned int take_news(const struct watch *watch)
{
	struct epoll_event events[NEWS_MAX];
	unsigned int news = 0;
	int n = epoll_wait(watch->others, events, NEWS_MAX, 0);

	for (int i = 0; i < n; i++)
		news |= events[i].data.u32;
	return news;
}

/* False when the sandbox must end now. */
static bool look_at_others(struct watch *watch, unsigned int news)
{
	uint64_t times;

	if ((news & NEWS_SIGNALS || watch->more) && !look_after_children(watch))
		return false;
	if (news & NEWS_CONTROL && obey(watch) < 0)
		return false;
	if (news & NEWS_OUTLET) /* it was shut */
		return false;
	if (news & NEWS_RECORD) {
		(void)!read(watch->record_timer, &times, sizeof(times));
		push_record(watch);
	}
	if (news & NEWS_SUPPLY && supply_give(watch->supply) < 0)
		watch->supply = fd_close(watch->supply);
	if (news & NEWS_RESOLVER && outlet_open(watch->outlet) < 0)
		return false;
	if (watch->outlet->held_count)
		look_at_held(watch);
	return true;
}

/* Few descriptors are polled, as each call of the sandbox that waits for us pays for all of them. */
static void watch_first(struct watch *watch)
{
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = watch->mediator.listener, .events = POLLIN },
			{ .fd = watch->others, .events = POLLIN },
			{ .fd = watch->mounts, .events = POLLPRI },
		};

		if (poll(fds, ARRAY_SIZE(fds), watch->more ? 0 : time_left(watch)) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		watch->late = !look_at_clock(watch);
		watch->lost = fds[2].revents && !executor_is_intact(watch->executor);
		if (watch->late || watch->lost)
			return;
		if (!look_at_others(watch, fds[1].revents ? take_news(watch) : 0))
			return;
		if (fds[0].revents)
			answer(watch, fds[0].revents);
	}
}

/* kill(-1) is only ever called when this was seen to be true: the warden is out of the keeper's
 * reach. */
static bool signals_are_scoped(pid_t warden)
{
	return kill(warden, 0) < 0 && errno == EPERM;
}

static void fail(int control, const struct launch_failure *failure)
{
	const struct keeper_event event = { .news = KEEPER_FAILED,
					    .step = (int)failure->step,
					    .op = failure->op,
					    .code = failure->code };

	tell(control, &event);
}

/*
 * The directory that a sandbox's cgroup was made in may have no write bit even for root. If the
 * warden dies, the keeper removes it, and needs this one capability for that, raised only after the
 * last process is gone. The first process drops it before anything else.
 */
static uint64_t kept_capabilities(const struct jail *jail)
{
	bool has_cgroup = false;

	/* Of a container's keeper, which is in the cgroup itself, it is the janitor's to remove. */
	if (plan_has_namespaces(jail->plan))
		return 0;
	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++)
		has_cgroup |= jail->cgroup.dir[i] >= 0;
	return has_cgroup && geteuid() == 0 ? 1ull << CAP_DAC_OVERRIDE : 0;
}

static int enclose_by_landlock(const struct jail *jail, pid_t warden,
			       struct launch_failure *failure)
{
	failure->step = STEP_DOMAIN;
	failure->code = landlock_enter(&jail->outer);
	if (failure->code == 0 && !signals_are_scoped(warden)) {
		failure->step = STEP_SCOPE;
		failure->code = -EPERM;
	}
	return failure->code;
}

/* The walls that the keeper shares with the workload. */
static int enclose(const struct jail *jail, pid_t warden, struct launch_failure *failure)
{
	int r = sys_no_new_privs();

	failure->step = STEP_PRIVILEGES;
	/* In a container the first process still has ids to change, and drops them itself. */
	if (r == 0 && !plan_has_namespaces(jail->plan))
		r = sys_drop_capabilities(kept_capabilities(jail));
	failure->code = r;
	if (r < 0)
		return r;
	if (jail->outer.fd >= 0)
		return enclose_by_landlock(jail, warden, failure);
	return 0;
}

/* Leaves only what the keeper needs: everything else would keep pipes of the workload open. */
static void drop_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		if (null >= 0)
			dup2(null, fd);
		else
			close(fd);
	if (null > 2)
		close(null);
}

/* A pipe of the warden that stays open here would hide from the workload that its reader is gone.
 */
static void close_inherited(const struct jail *jail, const struct watch *watch)
{
	int keep[11 + 2 * CGROUP_CONTROL_COUNT] = { watch->control,
						    watch->signals,
						    watch->mediator.listener,
						    jail->scratch.parent,
						    jail->scratch.dir,
						    jail->ids.lock,
						    jail->ring ? record_ring_fd(jail->ring)
							       : -EBADF,
						    jail->outlet,
						    watch->outlet->datagrams,
						    watch->outlet->listener,
						    watch->supply };
	size_t count = 11;

	for (int i = 0; i < CGROUP_CONTROL_COUNT && !plan_has_namespaces(jail->plan); i++) {
		keep[count++] = jail->cgroup.parent[i];
		keep[count++] = jail->cgroup.dir[i];
	}
	fd_close_others(keep, count);
}

static bool warden_is_gone(int control)
{
	struct pollfd fd = { .fd = control };

	return poll(&fd, 1, 0) == 1 && (fd.revents & POLLHUP);
}

/* Sessions, signals and what else a keeper is. */
static int become_keeper(struct watch *watch)
{
	sigset_t children, all;

	/* Its own session: signals to the caller's terminal or group are the warden's business. */
	setsid();
	prctl(PR_SET_NAME, "brig-keeper");
	title_set("brig-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* All of them: a process of the sandbox that joins our group can make the kernel send it
	 * SIGTTIN. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	watch->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	return watch->signals < 0 ? -errno : 0;
}

/* Everything that has to be there before the workload is. */
static int prepare(struct jail *jail, const struct jail_command *command, pid_t warden,
		   struct watch *watch, struct launch_failure *failure)
{
	struct executor *executor = watch->executor;
	bool contained = plan_has_namespaces(jail->plan);

	*failure = (struct launch_failure){ .step = STEP_FORK, .op = -1 };
	failure->code = become_keeper(watch);
	/* Before anything is started: all that a process is, its children are. */
	if (failure->code == 0 && jail->has_affinity &&
	    sched_setaffinity(0, sizeof(jail->affinity), &jail->affinity) < 0) {
		failure->step = STEP_AFFINITY;
		failure->code = -errno;
	}
	if (failure->code == 0 && contained) {
		/* Before the program can run, the warden's death is ours. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		failure->step = STEP_SETUP;
		executor_init(executor);
		/* A controlling terminal is inherited at birth, and we have none yet. */
		if (command->terminal < 0)
			launch_beside(jail, command, executor);
		failure->code = inside_set_up(jail, watch->control, executor, &failure->op);
		jail->inner = executor->grants;
	}
	if (failure->code == 0 && contained) {
		failure->step = STEP_TERMINAL;
		failure->code = inside_terminal(jail, command, watch->control);
	}
	if (failure->code == 0 && command->program_is_file && jail->inner.fd >= 0) {
		failure->step = STEP_FILES;
		failure->code =
			landlock_grant(&jail->inner, command->program, false, LANDLOCK_READ);
	}
	if (failure->code == 0)
		enclose(jail, warden, failure);
	/* The memory of a container's keeper is nobody's, from before the program is there. */
	if (contained)
		prctl(PR_SET_DUMPABLE, 0);
	if (failure->code == 0 && command->terminal >= 0 &&
	    ioctl(command->terminal, TIOCSCTTY, 0) < 0) {
		failure->step = STEP_TERMINAL;
		failure->code = -errno;
	}
	return failure->code;
}

/* All that there may be, now that the first process has its own limit; some stay free for the work. */
static void take_descriptors(struct lineage *lineage)
{
	struct rlimit limit;

	fd_raise_limit();
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		lineage->fd_end = (int)MIN(limit.rlim_cur, (rlim_t)INT_MAX) - FREE_DESCRIPTORS;
	lineage->fd_end = MAX(lineage->fd_end, 1);
}

/* From the first process to the moment when the sandbox must end. */
static void run(const struct jail *jail, const struct jail_command *command, struct watch *watch)
{
	struct launch_failure failure = { .op = -1 };
	struct keeper_event event = { .news = KEEPER_STARTED };

	watch->first =
		launch(jail, command, plan_has_namespaces(jail->plan) ? watch->executor : NULL,
		       &watch->mediator.listener, &failure);
	if (jail->outlet >= 0 && plan_has_namespaces(jail->plan)) {
		watch->outlet->datagrams = watch->executor->network.sockets.datagrams;
		watch->outlet->listener = watch->executor->network.sockets.listener;
	}
	close_inherited(jail, watch);
	drop_stdio();
	take_descriptors(&watch->recorder->lineage);
	if (failure.code == 0 && plan_has_namespaces(jail->plan)) {
		failure.step = STEP_SETTLE;
		failure.code = inside_settle(jail);
		watch->is_detaching = beside_is_left();
	}
	if (failure.code == 0) {
		failure.step = STEP_SETTLE;
		failure.code = expect_others(watch);
	}
	if (failure.code < 0) {
		fail(watch->control, &failure);
		return;
	}
	if (watch->executor->protection_count > 0) {
		watch->mounts = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
		/* Also what went before we began to listen; and if we cannot, all is lost. */
		watch->lost = watch->mounts < 0 || !executor_is_intact(watch->executor);
	}
	set_deadline(watch, jail->wall_ms);
	event.pid = watch->first;
	/* Only at a terminal does the warden need to know; elsewhere it can sleep on. */
	if (command->terminal >= 0)
		tell(watch->control, &event);
	if (!watch->lost)
		watch_first(watch);
}

/* Ends what is left, removes what was made, and says how it went. */
static void finish(const struct jail *jail, struct watch *watch)
{
	struct keeper_event event = { .news = KEEPER_EMPTY };
	struct cgroup cgroup = cgroup_of(jail);
	const struct keeper_ending ending = { .cgroup = &cgroup,
					      .scoped = watch->scoped,
					      .signals = watch->signals,
					      .control = watch->control,
					      .first = watch->first };
	bool is_kept;
	int code;

	/* The usual end: nothing else is left, and one message says it all. */
	if (watch->ended &&
	    keeper_reap(watch->first, watch->control, &watch->exit, &watch->more) != -ECHILD)
		tell(watch->control, &watch->exit);
	code = keeper_end_all(&ending, &watch->exit);
	/* What the sandbox left in its folder is not its running time, and may take long to remove.
	 */
	is_kept = jail->keeps_store && !warden_is_gone(watch->control);
	if (jail->scratch.dir >= 0 && !is_kept &&
	    unlinkat(jail->scratch.parent, jail->scratch.name, AT_REMOVEDIR) < 0)
		tell(watch->control, &event);
	event.news = KEEPER_FINISHED;
	event.is_late = watch->late;
	event.is_lost = watch->lost;
	event.has_status = watch->exit.news == KEEPER_EXITED;
	event.status = watch->exit.code;
	event.code = is_kept ? 0 : scratch_remove(&jail->scratch);
	event.code = code < 0 ? code : event.code;
	/* The warden reads the counters before it removes the cgroup; without a warden it is ours
	 * to remove. */
	if (warden_is_gone(watch->control)) {
		(void)!sys_raise_capabilities(kept_capabilities(jail));
		cgroup_done(&cgroup);
	}
	getrusage(RUSAGE_CHILDREN, &event.usage);
	push_record(watch);
	tell(watch->control, &event);
}

_Noreturn static void keeper_main(struct jail *jail, const struct jail_command *command,
				  int control, pid_t warden)
{
	/* What confines kill(-1) to the sandbox. */
	bool scoped = jail->outer.fd >= 0 || plan_has_namespaces(jail->plan);
	/* Shared with the process beside us, and large: nothing of it is touched without need. */
	static struct executor executor;
	static struct recorder recorder;
	static struct outlet outlet;
	struct launch_failure failure;
	struct watch watch = { .control = control,
			       .executor = &executor,
			       .signals = -EBADF,
			       .others = -EBADF,
			       .supply = jail->supply,
			       .mounts = -EBADF,
			       .record_timer = -EBADF,
			       .scoped = scoped,
			       .deadline = UINT64_MAX,
			       .mediator = { .listener = -EBADF,
					     .mediation = jail->mediation,
					     .guarded = jail->guarded,
					     .guarded_count = jail->guarded_count,
					     .writable = jail->writable,
					     .writable_count = jail->writable_count,
					     .readable = jail->readable,
					     .readable_count = jail->readable_count,
					     .carry = jail->carry,
					     .scoped = scoped,
					     .conditions = jail->conditions,
					     .published = jail->published,
					     .published_count = jail->published_count,
					     .control = control } };

	recorder = (struct recorder){ .ring = jail->ring, .deadline = UINT64_MAX };
	watch.recorder = &recorder;
	watch.mediator.recorder = jail->ring ? &recorder : NULL;
	outlet.channel = jail->outlet;
	outlet.datagrams = outlet.listener = -EBADF;
	outlet.resolver = jail->resolver;
	watch.outlet = &outlet;
	watch.mediator.outlet = jail->outlet >= 0 ? &outlet : NULL;
	if (prepare(jail, command, warden, &watch, &failure) < 0)
		fail(control, &failure);
	else
		run(jail, command, &watch);
	finish(jail, &watch);
	_exit(0);
}

/* The process itself, in the namespaces and the cgroup that the plan says. */
static pid_t keeper_fork(const struct jail *jail, bool *ret_in_v2)
{
	const struct op *namespaces = plan_find(jail->plan, OP_NAMESPACES);
	int cgroup = cgroup_v2_fd(&jail->cgroup);
	pid_t pid;

	*ret_in_v2 = false;
	if (!namespaces)
		return sys_fork();
	pid = sys_fork_into(namespaces->value, cgroup);
	*ret_in_v2 = pid >= 0 && cgroup >= 0;
	/* A filter around us may refuse clone3, the only call that can. */
	return pid == -ENOSYS && cgroup >= 0 ? sys_fork_into(namespaces->value, -EBADF) : pid;
}

static int refuse_fork(const struct jail *jail, int code, struct err *err)
{
	const struct op *namespaces = plan_find(jail->plan, OP_NAMESPACES);
	char text[256];

	if (!namespaces)
		return err_errno(err, code, "cannot start a process");
	op_describe(namespaces, text, sizeof(text));
	return err_errno(err, code, "the sandbox was not started: \"%s\" failed", text);
}

int keeper_start(struct jail *jail, const struct jail_command *command, struct keeper *ret_keeper,
		 struct err *err)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	pid_t warden = getpid(), pid;
	bool in_v2;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_errno(err, -errno, "cannot become a subreaper");
	pid = keeper_fork(jail, &in_v2);
	if (pid < 0)
		return refuse_fork(jail, pid, err);
	if (pid == 0) {
		/* The number of our end would let the workload pretend to be the warden. */
		close(ours);
		keeper_main(jail, command, theirs, warden);
	}
	r = plan_has_namespaces(jail->plan) ? inside_admit(jail, pid, ours, in_v2, err) : 0;
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return r;
	}
	*ret_keeper = (struct keeper){ .pid = pid, .control = take_fd(&ours) };
	return 0;
}

static int request_send(const struct keeper *keeper, const struct keeper_request *request)
{
	ssize_t n;

	do
		n = send(keeper->control, request, sizeof(*request), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int keeper_order(const struct keeper *keeper, enum keeper_order order, int signal)
{
	return request_send(keeper,
			    &(struct keeper_request){ .order = (int)order, .signal = signal });
}

int keeper_deadline(const struct keeper *keeper, uint64_t left_ms)
{
	return request_send(keeper,
			    &(struct keeper_request){ .order = KEEPER_DEADLINE, .value = left_ms });
}

int keeper_next(const struct keeper *keeper, struct keeper_event *ret_event)
{
	struct keeper_event event;
	int passed[FD_PASS_MAX], r;

	r = fd_receive(keeper->control, &event, sizeof(event), passed);
	if (r < 0)
		return r;
	event.descriptor = passed[0];
	*ret_event = event;
	return 0;
}
