#include "warden/janitor.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/title.h"

/* Leaves nothing of the caller open: a pipe that stays open here would never end. */
static void let_go(const struct cgroup *cgroup, int waits_on, int warden)
{
	int keep[2 + 2 * CGROUP_CONTROL_COUNT];
	size_t count = 0;

	keep[count++] = waits_on;
	keep[count++] = warden;
	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		keep[count++] = cgroup->parent[i];
		keep[count++] = cgroup->dir[i];
	}
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	fd_close_others(keep, count);
}

/*
 * The pipe tells of a warden that has no more use for the cgroup. It does not always tell of one that
 * was killed: a keeper has the other end too until its program runs, and one that is frozen in that
 * moment keeps it.
 */
static void await_end(int waits_on, int warden)
{
	struct pollfd ends[] = { { .fd = waits_on, .events = POLLIN },
				 { .fd = warden, .events = POLLIN } };

	while (poll(ends, ARRAY_SIZE(ends), -1) < 0 && errno == EINTR)
		;
}

_Noreturn static void janitor_main(const struct cgroup *cgroup, int waits_on, int warden)
{
	struct cgroup own = *cgroup;
	sigset_t all;

	setsid();
	prctl(PR_SET_NAME, "brig-janitor");
	title_set("brig-janitor");
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	let_go(cgroup, waits_on, warden);
	(void)!chdir("/");
	/* Where the directories have no write bit even for root. */
	if (geteuid() == 0)
		(void)!sys_drop_capabilities(1ull << CAP_DAC_OVERRIDE | 1ull << CAP_KILL);
	await_end(waits_on, warden);
	if (geteuid() == 0)
		(void)!sys_raise_capabilities(1ull << CAP_DAC_OVERRIDE | 1ull << CAP_KILL);
	cgroup_sweep(&own);
	cgroup_done(&own);
	_exit(0);
}

int janitor_start(const struct cgroup *cgroup, struct err *err)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	_cleanup_close_ int warden = sys_pidfd_open(getpid());
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot make a pipe");
	theirs = pair[0];
	ours = pair[1];
	pid = sys_fork();
	if (pid < 0)
		return err_errno(err, pid, "cannot start a process");
	if (pid == 0) {
		close(ours);
		janitor_main(cgroup, theirs, warden);
	}
	return take_fd(&ours);
}
