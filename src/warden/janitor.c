#include "warden/janitor.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/title.h"

/* Leaves nothing of the caller open: a pipe that stays open here would never end. */
static void let_go(const struct cgroup *cgroup, int waits_on)
{
	int keep[1 + 2 * CGROUP_CONTROL_COUNT];
	size_t count = 0;

	keep[count++] = waits_on;
	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		keep[count++] = cgroup->parent[i];
		keep[count++] = cgroup->dir[i];
	}
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	fd_close_others(keep, count);
}

_Noreturn static void janitor_main(const struct cgroup *cgroup, int waits_on)
{
	struct cgroup own = *cgroup;
	sigset_t all;
	char byte;

	setsid();
	prctl(PR_SET_NAME, "brig-janitor");
	title_set("brig-janitor");
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	let_go(cgroup, waits_on);
	(void)!chdir("/");
	/* Where the directories have no write bit even for root. */
	if (geteuid() == 0)
		(void)!sys_drop_capabilities(1ull << CAP_DAC_OVERRIDE | 1ull << CAP_KILL);
	while (read(waits_on, &byte, 1) < 0 && errno == EINTR)
		;
	if (geteuid() == 0)
		(void)!sys_raise_capabilities(1ull << CAP_DAC_OVERRIDE | 1ull << CAP_KILL);
	cgroup_sweep(&own);
	cgroup_done(&own);
	_exit(0);
}

int janitor_start(const struct cgroup *cgroup, struct err *err)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
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
		janitor_main(cgroup, theirs);
	}
	return take_fd(&ours);
}
