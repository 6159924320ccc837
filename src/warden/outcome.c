#include "warden/warden_internal.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "jail/execute.h"

#define SIGNAL_BASE 128

/* No block or no inode is left of what the disk limit gave. */
static bool store_is_full(const struct warden *w)
{
	struct statvfs fs;

	return w->request->policy->limits.disk != LIMIT_UNSET && w->tj->store >= 0 &&
	       fstatvfs(w->tj->store, &fs) == 0 && (fs.f_bavail == 0 || fs.f_ffree == 0);
}

unsigned int warden_hits(const struct warden *w)
{
	const struct cgroup *cgroup = &w->tj->jail.cgroup;
	unsigned int hits = store_is_full(w) ? HIT_DISK : 0;
	uint64_t count;

	if (cgroup_hits(cgroup, CGROUP_MEMORY, &count) == 0 && count > 0)
		hits |= HIT_MEMORY;
	if (cgroup_hits(cgroup, CGROUP_PIDS, &count) == 0 && count > 0)
		hits |= HIT_PIDS;
	return hits;
}

/* What the kernel counted decides; what the program said (its exit status) only whether it
 * mattered. */
static void find_reason(struct warden *w)
{
	struct result *result = w->result;
	unsigned int hits;

	if (w->was_ended_by_us)
		return;
	hits = result->exit_code != 0 ? warden_hits(w) : 0;
	if (hits & HIT_MEMORY)
		result->reason = REASON_MEMORY;
	else if (result->signal == SIGXCPU && w->tj->watch.cpu_time &&
		 result->cpu_ms >= w->tj->watch.cpu_time)
		result->reason = REASON_CPU;
	else if (result->signal == SIGXFSZ && w->request->policy->limits.disk != LIMIT_UNSET)
		result->reason = REASON_DISK;
	else if (hits & HIT_DISK)
		result->reason = REASON_DISK;
	else if (hits & HIT_PIDS)
		result->reason = REASON_PIDS;
	else if (w->request->lives)
		result->reason = REASON_INIT;
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

	w->result->duration_ms = (w->ended ? w->ended : clock_ms()) - w->started;
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

int warden_find_outcome(struct warden *w, struct err *err)
{
	int r = 0;

	find_usage(w);
	if (w->failure.news == KEEPER_FAILED)
		r = start_failed(w, err);
	else
		find_exit_code(w);
	find_denials(w);
	return r;
}
