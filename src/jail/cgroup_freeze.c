/*
 * Stopping a cgroup as a whole, and giving back what memory it does not need meanwhile.
 *
 * On v2 a process is frozen in the trap that stops also pass through: the kernel says so in
 * cgroup.events, and SIGKILL still ends it. On v1 it is in the refrigerator that is made for a
 * machine that goes to sleep: SIGKILL waits until it is thawed. There the state is FREEZING as long as
 * somebody is missing, and is written again until he is not.
 *
 * Who is in a call that only a fatal signal interrupts is in neither before that call ends. Calls that
 * a keeper answers are of that kind, and a keeper that is frozen himself answers none; so one that
 * rests in the kernel, rather than being frozen, is enough after a while. It cannot come back to its
 * program without being frozen on the way.
 */
#include "jail/cgroup.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "jail/cgroup_list.h"
#include "jail/tree.h"

#define FREEZE_MS  3000
#define RESTING_MS 50 /* until who rests in the kernel counts as frozen */
#define NAP_MS     1
#define LEAVE_MS   20 /* for a child that was killed */

#define RECLAIM_STEP (16 * MIB)

static const struct {
	const char *file, *words[2], *state, *states[2];
} freezers[2] = {
	{ "freezer.state", { "THAWED", "FROZEN" }, "freezer.state", { "THAWED", "FROZEN" } },
	{ "cgroup.freeze", { "0", "1" }, "cgroup.events", { "frozen 0", "frozen 1" } },
};

static int ask(const struct cgroup *cg, bool frozen)
{
	bool is_v2 = cg->is_v2[CGROUP_FREEZE];

	return file_write_at(cg->dir[CGROUP_FREEZE], freezers[is_v2].file,
			     freezers[is_v2].words[frozen]);
}

static bool is_reached(const struct cgroup *cg, bool frozen)
{
	bool is_v2 = cg->is_v2[CGROUP_FREEZE];
	char text[256];

	return file_read_at(cg->dir[CGROUP_FREEZE], freezers[is_v2].state, text, sizeof(text)) ==
		       0 &&
	       strstr(text, freezers[is_v2].states[frozen]);
}

/* How many processes of one directory have a thread that runs; who cannot be asked counts. */
static int running_in(int dir)
{
	_cleanup_(cgroup_list_close) struct cgroup_list list = CGROUP_LIST_NONE;
	int running = cgroup_list_open(&list, dir);
	pid_t pid;

	while (running >= 0 && (pid = cgroup_list_next(&list)))
		running += !tree_is_in(pid, TREE_RESTS);
	return running;
}

static int visit_running(int parent, const char *name, int child)
{
	(void)parent;
	(void)name;
	return running_in(child);
}

static bool all_rest(const struct cgroup *cg)
{
	int dir = cg->dir[CGROUP_FREEZE];

	return running_in(dir) == 0 && cgroup_walk(dir, visit_running) == 0;
}

static int wait_for_state(const struct cgroup *cg, bool frozen)
{
	uint64_t begin = clock_ms(), now = begin;

	for (; !is_reached(cg, frozen); now = clock_ms()) {
		if (frozen && now >= begin + RESTING_MS && all_rest(cg))
			return 0;
		if (now >= begin + FREEZE_MS)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, NAP_MS);
		if (!cg->is_v2[CGROUP_FREEZE])
			(void)!ask(cg, frozen);
	}
	return 0;
}

int cgroup_freeze(const struct cgroup *cg, bool frozen, struct err *err)
{
	int r;

	if (!cgroup_has(cg, CGROUP_FREEZE))
		return err_set(err, -EINVAL, "the cgroup has no freezer");
	r = ask(cg, frozen);
	if (r == 0)
		r = wait_for_state(cg, frozen);
	if (r == 0)
		return 0;
	if (frozen)
		(void)!ask(cg, false);
	if (r != -ETIMEDOUT)
		return err_errno(err, r, "the cgroup cannot be %s", frozen ? "frozen" : "thawed");
	return err_set(err, r,
		       frozen ? "a process could not be frozen in %d ms"
			      : "not thawed in %d ms: a cgroup above may be frozen",
		       FREEZE_MS);
}

void cgroup_thaw_killed(const struct cgroup *cg)
{
	if (cgroup_has(cg, CGROUP_FREEZE) && !cg->is_v2[CGROUP_FREEZE])
		(void)!ask(cg, false);
}

bool cgroup_freezes(const struct cgroup *cg, pid_t pid)
{
	_cleanup_(cgroup_list_close) struct cgroup_list list = CGROUP_LIST_NONE;
	pid_t listed;

	if (!cgroup_has(cg, CGROUP_FREEZE) || cgroup_list_open(&list, cg->dir[CGROUP_FREEZE]) < 0)
		return false;
	while ((listed = cgroup_list_next(&list)))
		if (listed == pid)
			return true;
	return false;
}

/* In steps, each of which is short; -EAGAIN says that less than that was to be had. */
static void reclaim_v2(int dir, uint64_t end)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)RECLAIM_STEP);
	while (clock_ms() < end && file_write_at(dir, "memory.reclaim", text) == 0)
		;
}

/*
 * One write that goes on until nothing more is to be had, and may wait for a disk. So a child makes
 * it, and is left where it is too slow.
 */
static void reclaim_v1(int dir, uint64_t timeout_ms)
{
	_cleanup_close_ int pidfd = -EBADF;
	struct pollfd end = { .events = POLLIN };
	pid_t pid = sys_fork();

	if (pid == 0) {
		/* What it has open is open for others too, as long as it lives. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!file_write_at(dir, "memory.force_empty", "0");
		_exit(0);
	}
	if (pid < 0)
		return;
	pidfd = sys_pidfd_open(pid);
	end.fd = pidfd;
	if (pidfd < 0 || poll(&end, 1, (int)timeout_ms) != 1) {
		kill(pid, SIGKILL);
		/* Usually gone at once; a child that hangs in the kernel is not waited for. */
		(void)poll(&end, 1, LEAVE_MS);
	}
	(void)!waitpid(pid, NULL, WNOHANG);
}

void cgroup_reclaim(const struct cgroup *cg, uint64_t timeout_ms)
{
	if (!cgroup_has(cg, CGROUP_MEMORY))
		return;
	if (cg->is_v2[CGROUP_MEMORY])
		reclaim_v2(cg->dir[CGROUP_MEMORY], clock_ms() + timeout_ms);
	else
		reclaim_v1(cg->dir[CGROUP_MEMORY], MIN(timeout_ms, (uint64_t)60000));
}
