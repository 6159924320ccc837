#include "jail/pause.h"

#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "jail/tree.h"

#define RECLAIM_MS 300

#define STOP_MS    3000
#define AGAIN_MS   20 /* between orders: what forked past one meets the next */
#define RESTING_MS 50 /* until who rests in the kernel counts as stopped */
#define NAP_MS     1

#define STOPPED "TtZX"

static pid_t pids[TREE_MAX];

const char *pause_mechanism(const struct cgroup *cg)
{
	if (!cgroup_has(cg, CGROUP_FREEZE))
		return "signals";
	return cg->is_v2[CGROUP_FREEZE] ? "cgroup v2 freezer" : "cgroup v1 freezer";
}

const char *pause_words(const struct cgroup *cg)
{
	if (!cgroup_has(cg, CGROUP_FREEZE))
		return "stops every process; its end continues also what was stopped before";
	if (!cgroup_has(cg, CGROUP_MEMORY))
		return "freezes every process";
	return "freezes every process, gives back memory that files hold";
}

static int keeper_fails(struct err *err, int r)
{
	return err_errno(err, r, "the keeper takes no orders");
}

/* How many are below the keeper, or -1 where one is in none of the states. */
static ssize_t count_if(const struct keeper *keeper, const char *states)
{
	size_t count = tree_below(keeper->pid, pids);

	for (size_t i = 0; i < count; i++)
		if (!tree_is_in(pids[i], states))
			return -1;
	return (ssize_t)count;
}

/*
 * Seen twice: a process that was made between a look at its parent and the parent's stop is not in the
 * first picture. The parent of a vfork() waits in the kernel for a child that is stopped, and is never
 * stopped itself.
 */
static bool all_stand(const struct keeper *keeper, bool is_patient)
{
	const char *states = is_patient ? STOPPED : STOPPED "D";
	ssize_t count = count_if(keeper, states);

	return count >= 0 && count_if(keeper, states) == count;
}

int pause_by_signals(const struct keeper *keeper, struct err *err)
{
	uint64_t begin = clock_ms(), now = begin, next = begin;
	int r = 0;

	for (; r == 0 || r == -EAGAIN; now = clock_ms()) {
		if (now >= next) {
			r = keeper_order(keeper, KEEPER_SIGNAL_ALL, SIGSTOP);
			next = now + AGAIN_MS;
		}
		if (all_stand(keeper, now < begin + RESTING_MS))
			return 0;
		if (now >= begin + STOP_MS)
			r = -ETIMEDOUT;
		(void)poll(NULL, 0, NAP_MS);
	}
	if (r != -ETIMEDOUT)
		return keeper_fails(err, r);
	(void)!keeper_order(keeper, KEEPER_SIGNAL_ALL, SIGCONT);
	return err_set(err, r, "a process could not be stopped in %d ms", STOP_MS);
}

static bool has_stopped(const struct keeper *keeper)
{
	size_t count = tree_below(keeper->pid, pids);

	for (size_t i = 0; i < count; i++)
		if (tree_is_in(pids[i], "T"))
			return true;
	return false;
}

int continue_by_signals(const struct keeper *keeper, struct err *err)
{
	int r = keeper_order(keeper, KEEPER_SIGNAL_ALL, SIGCONT);
	uint64_t end = clock_ms() + STOP_MS;

	if (r < 0)
		return keeper_fails(err, r);
	/* Until the keeper has done it. Who is stopped again by then is so by his own doing. */
	while (clock_ms() < end && has_stopped(keeper))
		(void)poll(NULL, 0, NAP_MS);
	return 0;
}

int pause_begin(const struct cgroup *cg, const struct keeper *keeper, struct err *err)
{
	int r;

	if (!cgroup_has(cg, CGROUP_FREEZE))
		return pause_by_signals(keeper, err);
	r = cgroup_freeze(cg, true, err);
	if (r == 0)
		cgroup_reclaim(cg, RECLAIM_MS);
	return r;
}

int pause_end(const struct cgroup *cg, const struct keeper *keeper, uint64_t left_ms,
	      struct err *err)
{
	int r = keeper_deadline(keeper, left_ms);

	if (r < 0)
		return keeper_fails(err, r);
	return cgroup_has(cg, CGROUP_FREEZE) ? cgroup_freeze(cg, false, err)
					     : continue_by_signals(keeper, err);
}

int pause_kill(const struct cgroup *cg, const struct keeper *keeper, struct err *err)
{
	bool is_keeper_frozen = cgroup_freezes(cg, keeper->pid);
	size_t count = is_keeper_frozen ? tree_below(keeper->pid, pids) : 0;
	int r;

	/* Nothing of it ends or begins while all are frozen, so the numbers are theirs. */
	for (size_t i = 0; i < count; i++)
		(void)!kill(pids[i], SIGKILL);
	r = keeper_order(keeper, KEEPER_KILL, 0);
	if (is_keeper_frozen)
		return cgroup_freeze(cg, false, err);
	/* It kills and thaws; frozen or stopped, what is killed runs no more. */
	return r < 0 ? keeper_fails(err, r) : 0;
}
