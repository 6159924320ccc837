#include "warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/execute.h"
#include "jail/keeper.h"
#include "warden/door.h"
#include "warden/environment.h"
#include "warden/janitor.h"
#include "warden/publish.h"
#include "warden/streams.h"
#include "warden/terminal.h"
#include "warden/watch.h"
#include "warden/witness.h"

#define GRACE_MS 400 /* between the signal that a program expects and the end of everything */
#define OVERDUE_MS \
	3000 /* for the keeper to finish after it was told to kill; then we do it ourselves */
#define DRAIN_MS          1000 /* for output that a slow reader has not taken when all is over */
#define SIGNAL_BASE       128
#define EXIT_NOT_RECORDED 125
#define KILL_CPUS         64000 /* thousandths: as good as no limit */

enum phase { PHASE_RUNNING, PHASE_ENDING, PHASE_KILLED, PHASE_FINISHED };

struct warden {
	const struct warden_request *request;
	struct tier_jail *tj;
	struct result *result;
	struct keeper keeper;
	struct terminal terminal;
	struct streams streams;
	int signals; /* signalfd */
	enum phase phase;
	uint64_t started, ended, phase_deadline, wall_deadline, next_watch;
	bool was_ended_by_us; /* reason is set already */
	int cancel_signal;
	pid_t first;
	bool has_terminal;  /* the one made inside has come */
	const char *search; /* the sandbox's PATH, while its environment is there */
	int status;         /* of the first process, as from wait */
	bool has_status;
	struct keeper_event failure; /* news == KEEPER_FAILED */
	struct record_ring *ring;    /* what the keeper saw; NULL: nothing is recorded */
	struct witness witness;
	struct door door;
	struct publish publish;
	struct rusage usage;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Twelve characters of an alphabet without lookalikes: 60 bits that nobody guesses. */
static int make_id(char id[static RESULT_ID_SIZE], struct err *err)
{
	static const char alphabet[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[12];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_errno(err, -errno, "cannot get random numbers");
	for (size_t i = 0; i < sizeof(bytes); i++)
		id[i] = alphabet[bytes[i] % 32];
	id[sizeof(bytes)] = '\0';
	return 0;
}

/* Signals that the caller may send us. What he ignores (nohup) stays ignored. */
static int open_signals(struct warden *w, struct err *err)
{
	static const int wanted[] = { SIGINT,   SIGTERM, SIGHUP,  SIGQUIT,
				      SIGWINCH, SIGTSTP, SIGCONT, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct sigaction now;

		if (sigaction(wanted[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN &&
		    wanted[i] != SIGCHLD)
			continue;
		sigaddset(&set, wanted[i]);
	}
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	/* A limit on the size of files is an error of the write to the record, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	/* We may write to the terminal from the background, as the program could without brig. */
	signal(SIGTTOU, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_errno(err, -errno, "cannot block signals");
	w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signals < 0 ? err_errno(err, -errno, "cannot wait for signals") : 0;
}

static void order(struct warden *w, enum keeper_order what, int signal)
{
	/* A keeper that is gone is noticed by its pidfd. */
	(void)!keeper_order(&w->keeper, what, signal);
}

/* The first reason counts: what follows from it is not another one. */
static void set_reason(struct warden *w, enum reason reason)
{
	if (w->was_ended_by_us || w->has_status)
		return;
	w->result->reason = reason;
	w->was_ended_by_us = true;
}

static void kill_now(struct warden *w)
{
	if (w->phase >= PHASE_KILLED)
		return;
	/* A thousand processes that share a tenth of a CPU take seconds to die. */
	if (cgroup_has(&w->tj->jail.cgroup, CGROUP_CPU))
		(void)!cgroup_limit(&w->tj->jail.cgroup, CGROUP_CPU, KILL_CPUS, NULL);
	order(w, KEEPER_KILL, 0);
	w->phase = PHASE_KILLED;
	w->phase_deadline = now_ms() + OVERDUE_MS;
}

/* Tells the program first, then ends everything. */
static void end_softly(struct warden *w, enum reason reason, int signal)
{
	if (w->phase != PHASE_RUNNING) {
		/* Asked twice: no more grace. */
		kill_now(w);
		return;
	}
	set_reason(w, reason);
	order(w, KEEPER_SIGNAL, signal);
	order(w, KEEPER_SIGNAL, SIGCONT);
	w->phase = PHASE_ENDING;
	w->phase_deadline = now_ms() + GRACE_MS;
}

/*
 * Stops the whole sandbox, then ourselves, as Ctrl-Z does without brig. By SIGTSTP, which the
 * kernel drops where no shell would ever continue us. The keeper watches the time meanwhile.
 */
static void suspend(struct warden *w)
{
	sigset_t stop, before;

	order(w, KEEPER_SIGNAL_ALL, SIGSTOP);
	terminal_leave(&w->terminal);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	terminal_enter(&w->terminal);
	terminal_follow_size(&w->terminal);
	order(w, KEEPER_SIGNAL_ALL, SIGCONT);
}

/* Children but the keeper, whose number must stay its own until we are done with it. */
static void reap_others(const struct warden *w)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
	       info.si_pid != w->keeper.pid) {
		(void)waitpid(info.si_pid, NULL, WNOHANG);
		info.si_pid = 0;
	}
}

static void on_signal(struct warden *w, int signal)
{
	switch (signal) {
	case SIGCHLD:
		reap_others(w);
		break;
	case SIGCONT:
		/* From the background to the foreground: the terminal is ours again. */
		terminal_enter(&w->terminal);
		break;
	case SIGWINCH:
		terminal_follow_size(&w->terminal);
		break;
	case SIGTSTP:
		suspend(w);
		break;
	default:
		if (!w->cancel_signal)
			w->cancel_signal = signal;
		end_softly(w, REASON_CANCELLED, signal);
	}
}

static void read_signals(struct warden *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == sizeof(info))
		on_signal(w, (int)info.ssi_signo);
}

static void on_news(struct warden *w, const struct keeper_event *event)
{
	switch (event->news) {
	case KEEPER_TERMINAL:
		terminal_replace(&w->terminal, event->descriptor);
		w->has_terminal = true;
		break;
	case KEEPER_STORE:
		fd_close(w->tj->store);
		w->tj->store = event->descriptor;
		return;
	case KEEPER_STARTED:
		/* A number of another pid namespace means nothing here; the group in front is it. */
		w->first = w->tj->is_contained ? tcgetpgrp(w->terminal.master) : event->pid;
		break;
	case KEEPER_FAILED:
		w->failure = *event;
		break;
	case KEEPER_STOPPED:
		/* Only at a terminal: elsewhere a program could stop the clock by stopping itself.
		 */
		if (w->terminal.is_raw)
			suspend(w);
		break;
	case KEEPER_EXITED:
		w->status = event->code;
		w->has_status = true;
		if (w->phase < PHASE_KILLED) {
			w->phase = PHASE_KILLED;
			w->phase_deadline = now_ms() + OVERDUE_MS;
		}
		break;
	case KEEPER_EMPTY:
		w->ended = now_ms();
		w->phase = PHASE_KILLED;
		w->phase_deadline = UINT64_MAX;
		break;
	case KEEPER_FINISHED:
		if (event->is_late)
			set_reason(w, REASON_TIMEOUT);
		if (event->is_lost)
			set_reason(w, REASON_LOST);
		if (event->has_status) {
			w->status = event->status;
			w->has_status = true;
		}
		w->usage = event->usage;
		w->phase = PHASE_FINISHED;
		w->phase_deadline = now_ms() + DRAIN_MS;
		break;
	default:
		break;
	}
	fd_close(event->descriptor);
}

/* The keeper should never go before it has said that all is over; if it does, its work is ours. */
static void keeper_lost(struct warden *w)
{
	if (w->phase == PHASE_FINISHED)
		return;
	(void)!cgroup_kill(&w->tj->jail.cgroup);
	/* A pid namespace has died with it; and the janitor is a child of ours. */
	if (!w->tj->is_contained)
		(void)!descendants_kill(OVERDUE_MS);
	(void)!scratch_remove(&w->tj->jail.scratch);
	w->phase = PHASE_FINISHED;
	w->phase_deadline = now_ms() + DRAIN_MS;
}

static void read_news(struct warden *w)
{
	struct keeper_event event;
	int r;

	while ((r = keeper_next(&w->keeper, &event)) == 0)
		on_news(w, &event);
	if (r != -EAGAIN)
		keeper_lost(w);
}

static void check_deadlines(struct warden *w, uint64_t now)
{
	if (w->phase == PHASE_RUNNING && now >= w->wall_deadline)
		end_softly(w, REASON_TIMEOUT, SIGTERM);
	else if (w->phase == PHASE_ENDING && now >= w->phase_deadline)
		kill_now(w);
	else if (w->phase == PHASE_KILLED && now >= w->phase_deadline) {
		(void)!kill(w->keeper.pid, SIGKILL);
		keeper_lost(w);
	}
}

static void check_watch(struct warden *w, uint64_t now)
{
	const struct tier_watch *watch = &w->tj->watch;

	if (w->phase >= PHASE_KILLED || now < w->next_watch)
		return;
	w->next_watch = now + WATCH_INTERVAL_MS;
	if (watch->memory && watch_memory_is_over(watch, w->keeper.pid)) {
		set_reason(w, REASON_MEMORY);
		kill_now(w);
	} else if (watch->cpu_time &&
		   watch_cpu_is_over(watch, &w->tj->jail.cgroup, w->keeper.pid)) {
		set_reason(w, REASON_CPU);
		kill_now(w);
	}
}

static int poll_timeout(const struct warden *w, uint64_t now)
{
	uint64_t next = w->wall_deadline;

	if (w->phase != PHASE_RUNNING)
		next = w->phase_deadline;
	if ((w->tj->watch.memory || w->tj->watch.cpu_time) && w->phase < PHASE_KILLED)
		next = MIN(next, w->next_watch);
	if (w->witness.trace && w->witness.failure == 0 && trace_due_ms(w->witness.trace) >= 0)
		next = MIN(next, now + (uint64_t)trace_due_ms(w->witness.trace));
	if (door_timeout(&w->door) >= 0)
		next = MIN(next, now + (uint64_t)door_timeout(&w->door));
	if (publish_timeout(&w->publish) >= 0)
		next = MIN(next, now + (uint64_t)publish_timeout(&w->publish));
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)MIN(next - now + 1, (uint64_t)1000000);
}

/* Takes what the keeper saw; also what can no longer be written, or the keeper would wait for room. */
static void read_record(struct warden *w)
{
	static struct record_taken taken;
	uint64_t count;
	int r = 0;

	if (!w->ring)
		return;
	(void)!read(record_ring_fd(w->ring), &count, sizeof(count));
	while ((r = record_take(w->ring, &taken)) > 0)
		if (w->witness.failure == 0)
			witness_take(&w->witness, &taken);
	if (w->witness.failure == 0)
		w->witness.failure = r;
}

/* What waits in the stream's buffer is written when nothing new comes. */
static void flush_record(struct warden *w)
{
	if (w->witness.trace && w->witness.failure == 0 && trace_due_ms(w->witness.trace) == 0)
		w->witness.failure = trace_flush(w->witness.trace);
}

/* What cannot be recorded any more cannot go on, whoever found out. */
static void check_record(struct warden *w)
{
	if (w->witness.failure == 0)
		return;
	set_reason(w, REASON_RECORD);
	kill_now(w);
}

static void check_output(struct warden *w)
{
	const char *keys;
	size_t len = streams_typed(&w->streams, &keys);

	if (w->streams.over_limit) {
		set_reason(w, REASON_OUTPUT);
		kill_now(w);
	}
	if (len > 0 && w->phase == PHASE_RUNNING && w->first &&
	    terminal_interrupt_is_ignored(&w->terminal, w->first, keys, len)) {
		w->cancel_signal = SIGINT;
		end_softly(w, REASON_CANCELLED, SIGINT);
	}
}

static bool is_over(const struct warden *w, uint64_t now)
{
	return w->phase == PHASE_FINISHED &&
	       ((streams_drained(&w->streams) && publish_is_drained(&w->publish)) ||
		now >= w->phase_deadline);
}

#define OWN_FDS 3

static void supervise(struct warden *w)
{
	for (uint64_t now = now_ms(); !is_over(w, now); now = now_ms()) {
		struct pollfd fds[OWN_FDS + STREAM_COUNT + DOOR_FDS + PUBLISH_FDS] = {
			{ .fd = w->keeper.control, .events = POLLIN },
			{ .fd = w->signals, .events = POLLIN },
			{ .fd = w->ring ? record_ring_fd(w->ring) : -1, .events = POLLIN },
		};
		size_t count, doors, ports;

		/* In the background keys are not ours: reading them would stop us. */
		w->streams.keys_are_ours = w->terminal.is_raw;
		count = streams_fds(&w->streams, fds + OWN_FDS);

		if (w->phase == PHASE_FINISHED) {
			fds[0].fd = -1;
			publish_close(&w->publish);
		}
		doors = door_fds(&w->door, fds + OWN_FDS + count);
		ports = publish_fds(&w->publish, fds + OWN_FDS + count + doors);
		if (poll(fds, OWN_FDS + count + doors + ports, poll_timeout(w, now)) < 0 &&
		    errno != EINTR)
			break;
		streams_poll(&w->streams, fds + OWN_FDS, count);
		door_poll(&w->door, fds + OWN_FDS + count, doors);
		publish_poll(&w->publish, fds + OWN_FDS + count + doors, ports);
		check_output(w);
		if (fds[1].revents)
			read_signals(w);
		if (fds[2].revents)
			read_record(w);
		if (fds[0].revents)
			read_news(w);
		flush_record(w);
		check_record(w);
		now = now_ms();
		check_deadlines(w, now);
		check_watch(w, now);
	}
}

/* No block or no inode is left of what the disk limit gave. */
static bool store_is_full(const struct warden *w)
{
	struct statvfs fs;

	return w->request->policy->limits.disk != LIMIT_UNSET && w->tj->store >= 0 &&
	       fstatvfs(w->tj->store, &fs) == 0 && (fs.f_bavail == 0 || fs.f_ffree == 0);
}

/* What the kernel counted decides; what the program said (its exit status) only whether it
 * mattered. */
static void find_reason(struct warden *w)
{
	const struct cgroup *cgroup = &w->tj->jail.cgroup;
	struct result *result = w->result;
	uint64_t hits;

	if (w->was_ended_by_us)
		return;
	if (result->exit_code != 0 && cgroup_hits(cgroup, CGROUP_MEMORY, &hits) == 0 && hits > 0)
		result->reason = REASON_MEMORY;
	else if (result->signal == SIGXCPU && w->tj->watch.cpu_time &&
		 result->cpu_ms >= w->tj->watch.cpu_time)
		result->reason = REASON_CPU;
	else if (result->signal == SIGXFSZ && w->request->policy->limits.disk != LIMIT_UNSET)
		result->reason = REASON_DISK;
	else if (result->exit_code != 0 && store_is_full(w))
		result->reason = REASON_DISK;
	else if (result->exit_code != 0 && cgroup_hits(cgroup, CGROUP_PIDS, &hits) == 0 && hits > 0)
		result->reason = REASON_PIDS;
	else
		result->reason = result->signal ? REASON_SIGNAL : REASON_EXIT;
}

static void find_exit_code(struct warden *w)
{
	struct result *result = w->result;

	if (!w->has_status) {
		/* The keeper was lost before it could tell. */
		result->signal = SIGKILL;
		result->exit_code = SIGNAL_BASE + SIGKILL;
	} else if (WIFSIGNALED(w->status)) {
		result->signal = WTERMSIG(w->status);
		result->exit_code = SIGNAL_BASE + result->signal;
	} else {
		result->exit_code = WEXITSTATUS(w->status);
	}
	find_reason(w);
	if (result->reason == REASON_TIMEOUT)
		result->exit_code = 124;
	else if (result->reason == REASON_CANCELLED)
		result->exit_code = SIGNAL_BASE + w->cancel_signal;
}

static void find_usage(struct warden *w)
{
	const struct cgroup *cgroup = &w->tj->jail.cgroup;
	const struct rusage *u = &w->usage;
	uint64_t value;

	w->result->duration_ms = (w->ended ? w->ended : now_ms()) - w->started;
	w->result->truncated = w->streams.truncated;
	w->result->cpu_ms = (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000 +
			    (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1000;
	w->result->peak_memory = (uint64_t)u->ru_maxrss * KIB;
	if (cgroup_cpu_used(cgroup, &value) == 0)
		w->result->cpu_ms = value / 1000;
	if (cgroup_memory_peak(cgroup, &value) == 0)
		w->result->peak_memory = value;
}

/* A call of a foreign ABI is the one refusal that the kernel shows us by itself. */
static void find_denials(struct warden *w)
{
	static const struct denial foreign = {
		.action = "syscall",
		.object = "a system call of a foreign ABI (i386 or x32), or SIGSYS sent by the "
			  "program itself",
		.reason = "the filter knows the native calls only; a foreign ABI would bypass it",
		.allow_with = "",
	};

	if (w->result->signal == SIGSYS)
		witness_deny(&w->witness, &foreign);
}

/* The pipes that we made: whoever holds one may also open it again (/dev/stdout). */
static void give_pipes(const struct warden *w)
{
	uint32_t user = w->tj->jail.ids.first ? w->tj->jail.ids.first + IDS_USER : 0;

	for (int i = 0; i < 3 && user; i++)
		if (w->streams.owned[i])
			(void)!fchown(w->streams.stdio[i], user, user);
}

/* The program that the sandbox would have found, as the host sees it. NULL when there is none. */
static char *find_program(const char *name, const char *search)
{
	char path[PATH_MAX];

	if (strchr(name, '/'))
		return realpath(name, NULL);
	for (const char *p = search;; p++) {
		size_t len = strcspn(p, ":");

		if (snprintf(path, sizeof(path), "%.*s/%s", len ? (int)len : 1, len ? p : ".",
			     name) < (int)sizeof(path) &&
		    access(path, X_OK) == 0)
			return realpath(path, NULL);
		p += len;
		if (*p == '\0')
			return NULL;
	}
}

static void deny_exec(struct warden *w, const char *path, const struct path_rule *rule)
{
	struct denial d = { .action = "exec" };

	snprintf(d.object, sizeof(d.object), "%s", path);
	if (rule) {
		snprintf(d.rule_source, sizeof(d.rule_source), "%s", rule->origin.source);
		snprintf(d.rule_key, sizeof(d.rule_key), "fs");
		d.rule_line = rule->origin.line;
	}
	snprintf(d.reason, sizeof(d.reason), "%s",
		 rule ? "the policy does not let the sandbox read this file"
		      : "no rule of the policy covers this path");
	witness_offer(&d, "--allow-read", path);
	witness_deny(&w->witness, &d);
}

/* In words, why the program was not executed: the policy's refusal is told apart from the host's.
 */
static void explain_exec(struct warden *w, const char *program, int code, struct err *err)
{
	_cleanup_free_ char *real = find_program(program, w->search);
	const struct path_rule *rule;
	/* In a container what the policy closes is not there; in an image it may be anything. */
	bool is_hidden = w->tj->is_contained && code == -ENOENT && real &&
			 access(real, X_OK) == 0 && !policy_has_image(w->request->policy) &&
			 policy_path_access(&w->request->policy->fs, real, &rule) == ACCESS_NONE;

	if ((code == -ENOENT || code == -ENOTDIR) && !is_hidden)
		err_set(err, code,
			strchr(program, '/') ? "\"%s\" does not exist"
					     : "\"%s\" was not found in PATH",
			program);
	else if (!is_hidden &&
		 (code != -EACCES || !real || access(real, X_OK) < 0 ||
		  policy_path_access(&w->request->policy->fs, real, &rule) != ACCESS_NONE))
		err_errno(err, code, "cannot execute \"%s\"", program);
	else {
		err_set(err, code,
			"the policy does not let the sandbox read \"%s\" (add --allow-read %s)",
			real, real);
		deny_exec(w, real, rule);
	}
}

/* Names what failed: an operation of the plan, or a step that is in none. */
static int refuse_start(const struct warden *w, const struct keeper_event *f, struct err *err)
{
	const struct plan *plan = &w->tj->plan;
	char text[1024];

	if (f->op >= 0 && (size_t)f->op < plan->count) {
		op_describe(&plan->ops[f->op], text, sizeof(text));
		return err_errno(err, f->code, "the sandbox was not started: \"%.300s\" failed",
				 text);
	}
	return err_errno(err, f->code, "the sandbox was not started: %s failed",
			 f->step >= 0 && f->step < STEP_COUNT ? keeper_steps[f->step]
							      : "the set-up");
}

/* The start failed: either the program could not be executed, which is a result, or a wall did not
 * come up. */
static int start_failed(struct warden *w, struct err *err)
{
	const struct keeper_event *f = &w->failure;

	if (f->step != STEP_EXEC)
		return refuse_start(w, f, err);
	w->result->exit_code = f->code == -ENOENT || f->code == -ENOTDIR ? 127 : 126;
	w->result->reason = REASON_EXIT;
	explain_exec(w, w->request->argv[0], f->code, err);
	return 0;
}

/* In memory of our own: the keeper overwrites what was the command line. */
static int copy_arguments(char *const *argv, struct strv *ret_argv)
{
	int r = 0;

	for (size_t i = 0; argv[i] && r == 0; i++)
		r = strv_add(ret_argv, argv[i]);
	return r;
}

static int start(struct warden *w, const struct strv *env, struct err *err)
{
	_cleanup_(strv_done) struct strv argv = { 0 };
	_cleanup_free_ char **script_argv = NULL;
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct jail_command command = {
		.envp = env->items,
		.search = w->search,
		.stdio = { w->streams.stdio[0], w->streams.stdio[1], w->streams.stdio[2] },
		.null = null,
		.terminal = w->terminal.slave,
		.pass = w->tj->pass,
	};
	int r = null < 0 ? -errno : copy_arguments(w->request->argv, &argv);

	if (null < 0)
		return err_errno(err, r, "\"/dev/null\"");
	if (r == 0)
		script_argv = calloc(argv.count + 2, sizeof(*script_argv));
	if (!script_argv)
		return err_errno(err, -ENOMEM, "cannot start a process");
	command.argv = argv.items;
	command.script_argv = script_argv;
	give_pipes(w);
	r = keeper_start(&w->tj->jail, &command, &w->keeper, err);
	streams_started(&w->streams, &w->terminal);
	return r;
}

/* Where a container has a cgroup, somebody who survives us has to remove it. */
static int hire_janitor(struct tier_jail *tj, struct err *err)
{
	if (!tj->is_contained || !plan_find(&tj->plan, OP_CGROUP))
		return 0;
	tj->janitor = janitor_start(&tj->jail.cgroup, err);
	return MIN(tj->janitor, 0);
}

/*
 * Keys that were typed before the sandbox's own terminal is there would be lost. A set-up that
 * hangs (a dead network file system) is ended like anything else.
 */
static void await_terminal(struct warden *w)
{
	while (w->tj->is_contained && w->terminal.master >= 0 && !w->has_terminal &&
	       w->failure.news != KEEPER_FAILED && w->phase == PHASE_RUNNING) {
		struct pollfd fds[] = { { .fd = w->keeper.control, .events = POLLIN },
					{ .fd = w->signals, .events = POLLIN } };

		if (poll(fds, ARRAY_SIZE(fds), poll_timeout(w, now_ms())) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			read_signals(w);
		if (fds[0].revents)
			read_news(w);
		check_deadlines(w, now_ms());
	}
}

/* Before the keeper is forked, as both have it. */
static int open_ring(struct warden *w, struct err *err)
{
	int r;

	w->witness =
		(struct witness){ .policy = w->request->policy, .tj = w->tj, .result = w->result };
	if (w->tj->record == RECORD_OFF || !w->tj->jail.filter)
		return 0;
	r = record_ring_new(&w->ring);
	if (r < 0)
		return err_errno(err, r, "cannot make room for the record");
	w->tj->jail.ring = w->ring;
	return 0;
}

/* The same for the ways to the network and in from there, where the plan has them. */
static int open_door(struct warden *w, struct err *err)
{
	const struct seclusion seclusion = { .cgroup = &w->tj->jail.cgroup,
					     .scratch = w->tj->jail.scratch.dir,
					     .keeps_files = w->request->keeps_store };
	int r = publish_open(&w->witness, &seclusion, &w->publish, &w->tj->jail.supply, err);

	if (r < 0 || !w->tj->has_gate)
		return r;
	r = door_open(&w->witness, &seclusion, &w->door, &w->tj->jail.outlet, err);
	if (r < 0 || w->tj->is_contained)
		return r;
	return door_share(&w->door, &w->tj->jail.resolver, err);
}

/*
 * While the sandbox sets itself up, so that nobody waits for the file system. Until then what
 * happens inside waits in the ring; if there is nowhere to write it, the sandbox ends.
 */
static int open_stream(struct warden *w, struct err *err)
{
	const struct trace_request request = { .sandbox = w->result->sandbox,
					       .policy = w->result->policy,
					       .isolation = w->result->isolation,
					       .argv = w->request->argv };
	int r = w->ring ? trace_open(&request, &w->witness.trace, err) : 0;

	if (r < 0) {
		(void)!kill(w->keeper.pid, SIGKILL);
		keeper_lost(w);
	}
	return r;
}

/* A record that is not whole is told, and is never a success. */
static void close_stream(struct warden *w, struct err *err)
{
	struct trace *trace = w->witness.trace;
	int r = w->witness.failure;

	w->witness.trace = NULL;
	if (!trace)
		return;
	if (r < 0)
		trace_free(trace);
	else
		r = trace_close(trace, reason_names[w->result->reason], w->result->exit_code);
	if (r == 0)
		return;
	w->result->reason = REASON_RECORD;
	if (w->result->exit_code == 0)
		w->result->exit_code = EXIT_NOT_RECORDED;
	err_errno(err, r, "the record of the sandbox could not be written");
}

/* From the first open descriptor to the last process. The jail was prepared. */
static int run_prepared(struct warden *w, struct err *err)
{
	_cleanup_(strv_done) struct strv env = { 0 };
	const struct limits *limits = &w->request->policy->limits;
	const struct environment_own own = { w->tj->home, w->tj->temporary, w->tj->user };
	int r = environment_make(w->request->policy, w->request->environ, &own, &env);

	if (r < 0)
		return err_errno(err, r, "cannot make the environment");
	report_add(&w->tj->report, "environment", "allow list", "%zu variables", env.count);
	w->started = now_ms();
	w->wall_deadline = limits->wall == LIMIT_UNSET ? UINT64_MAX : w->started + limits->wall;
	w->next_watch = w->started + WATCH_INTERVAL_MS;
	w->search = environment_get(&env, "PATH", "");
	r = hire_janitor(w->tj, err);
	r = r < 0 ? r : open_ring(w, err);
	r = r < 0 ? r : open_door(w, err);
	r = r < 0 ? r : start(w, &env, err);
	w->tj->jail.outlet = fd_close(w->tj->jail.outlet);
	w->tj->jail.supply = fd_close(w->tj->jail.supply);
	r = r < 0 ? r : open_stream(w, err);
	if (r < 0)
		return r;
	await_terminal(w);
	terminal_enter(&w->terminal);
	supervise(w);
	terminal_leave(&w->terminal);
	read_record(w);
	find_usage(w);
	if (w->failure.news == KEEPER_FAILED)
		r = start_failed(w, err);
	else
		find_exit_code(w);
	find_denials(w);
	if (r == 0)
		close_stream(w, err);
	return r;
}

static void warden_close(struct warden *w)
{
	streams_done(&w->streams);
	terminal_done(&w->terminal);
	w->signals = fd_close(w->signals);
	w->keeper.control = fd_close(w->keeper.control);
	door_done(&w->door);
	publish_done(&w->publish);
	trace_free(w->witness.trace);
	record_ring_free(w->ring);
	w->witness.trace = NULL;
	w->ring = NULL;
}

static int open_ends(struct warden *w, struct err *err)
{
	const struct warden_request *request = w->request;
	uint64_t limit = request->policy->limits.output;
	const struct streams_request streams = {
		.capture = request->capture,
		.is_raw = request->is_raw,
		.limit = limit == LIMIT_UNSET ? UINT64_MAX : limit,
		.out = &w->result->out,
		.err = &w->result->err,
	};
	uint64_t capture = limit == LIMIT_UNSET ? CAPTURE_MAX : limit;
	int r = open_signals(w, err);

	w->result->out = BUF(capture);
	w->result->err = BUF(capture);
	r = r < 0 ? r : terminal_open(request->capture ? 0 : 7, &w->terminal, err);
	return r < 0 ? r : streams_open(&streams, &w->terminal, &w->streams, err);
}

static struct tier_request tier_request_of(const struct warden_request *request, const char *id)
{
	return (struct tier_request){ .policy = request->policy,
				      .env = request->env,
				      .id = id,
				      .temporary = request->temporary,
				      .weaken = request->weaken,
				      .keeps_store = request->keeps_store,
				      .terminal = -EBADF };
}

int warden_plan(const struct warden_request *request, struct tier_jail *ret_tj, struct err *err)
{
	char id[RESULT_ID_SIZE];
	struct tier_request prepare = tier_request_of(request, id);
	int r = make_id(id, err);

	return r < 0 ? r : request->tier->prepare(&prepare, ret_tj, err);
}

/*
 * Programs that are often made the first process of a container and do not reap what is left to
 * them: there a dead child would stay for good.
 */
static bool init_reaps(void)
{
	static const char *const others[] = {
		"sleep", "tail", "cat", "node", "java", "ruby", "php"
	};
	char name[32];

	if (file_read_at(AT_FDCWD, "/proc/1/comm", name, sizeof(name)) < 0 ||
	    str_starts(name, "python"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_equal(name, others[i]))
			return false;
	return true;
}

/* Its exit takes its namespaces along, which takes time that nobody has to wait for. */
static void leave_keeper(const struct warden *w)
{
	if (w->keeper.pid && (!w->tj->is_contained || !init_reaps()))
		waitpid(w->keeper.pid, NULL, 0);
}

int warden_run(const struct warden_request *request, struct tier_jail *tj,
	       struct result *ret_result, struct err *err)
{
	static struct warden w;
	struct tier_request prepare = tier_request_of(request, ret_result->sandbox);
	int r;

	w = (struct warden){ .request = request,
			     .tj = tj,
			     .result = ret_result,
			     .keeper = KEEPER_NONE,
			     .terminal = TERMINAL_NONE,
			     .streams = STREAMS_NONE,
			     .door = DOOR_NONE,
			     .publish = PUBLISH_NONE,
			     .signals = -EBADF };
	ret_result->report = &tj->report;
	r = make_id(ret_result->sandbox, err);
	r = r < 0 ? r : open_ends(&w, err);
	if (r == 0) {
		prepare.terminal = w.terminal.slave;
		r = request->tier->prepare(&prepare, tj, err);
	}
	if (r < 0) {
		warden_close(&w);
		return r;
	}
	r = run_prepared(&w, err);
	warden_close(&w);
	/* Last, so that its exit and our tear-down overlap; and always, because not every init
	 * reaps. */
	leave_keeper(&w);
	/* The keeper has removed the private folder; if there never was one, it is ours to remove.
	 */
	if (!w.keeper.pid)
		(void)!scratch_remove(&tj->jail.scratch);
	if (r < 0)
		tier_jail_done(tj);
	return r;
}

/* Old streams are removed when nobody waits for us any more. */
static bool tidy_streams(void)
{
	pid_t pid;

	if (!trace_is_untidy(NULL, 0))
		return false;
	pid = fork();
	if (pid != 0)
		return pid > 0;
	/* Nothing of the caller's stays open: somebody may wait for the end of a pipe. */
	setsid();
	fd_close_others(NULL, 0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	(void)!trace_tidy(NULL, 0);
	_exit(0);
}

void warden_leave(struct tier_jail *tj)
{
	bool is_tidying = tj->record != RECORD_OFF && tidy_streams();
	bool has_left = (tj->jail.ids.first || is_tidying) && !init_reaps();

	tier_jail_done(tj);
	/* Who mapped ids, and the janitor: where nobody else would reap them, we have to. */
	while (has_left && waitpid(-1, NULL, 0) > 0)
		;
}
