#include "jail/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

bool plan_has_namespaces(const struct plan *plan)
{
	return plan_find(plan, OP_NAMESPACES) != NULL;
}

void keeper_tell(int control, const struct keeper_event *event, int descriptor)
{
	/* Nobody listens any more: the loop sees the end of the socket and acts on it. */
	(void)!fd_send(control, event, sizeof(*event), &descriptor, descriptor >= 0);
}

/* Whether the warden has a part in it that must come before ours. */
static bool waits_for_warden(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->ops[i].stage == STAGE_WARDEN && plan->ops[i].kind != OP_NAMESPACES)
			return true;
	return false;
}

static int wait_for_go(int control)
{
	struct keeper_request request;
	ssize_t n;

	do
		n = recv(control, &request, sizeof(request), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == sizeof(request) && request.order == KEEPER_GO ? 0 : -EPIPE;
}

int inside_set_up(const struct jail *jail, int control, struct executor *executor, int *ret_op)
{
	const struct op *cgroup = plan_find(jail->plan, OP_CGROUP);
	size_t failed = 0;
	int r = cgroup ? cgroup_enter_v1(&jail->cgroup) : 0;

	*ret_op = r < 0 ? (int)(cgroup - jail->plan->ops) : -1;
	r = r < 0 || !waits_for_warden(jail->plan) ? r : wait_for_go(control);
	if (r < 0)
		return r;
	r = execute_keeper(jail->plan, executor, &failed);
	if (r < 0) {
		*ret_op = (int)failed;
		return r;
	}
	if (jail->keeps_store) {
		const struct keeper_event event = { .news = KEEPER_STORE };

		keeper_tell(control, &event, executor->place[PLACE_STORE]);
	}
	executor_close(executor);
	return 0;
}

static int copy_terminal(int from, int to)
{
	struct termios settings;
	struct winsize size;

	if (tcgetattr(from, &settings) < 0 || tcsetattr(to, TCSANOW, &settings) < 0)
		return -errno;
	if (ioctl(from, TIOCGWINSZ, &size) == 0)
		(void)ioctl(to, TIOCSWINSZ, &size);
	return 0;
}

int inside_terminal(const struct jail *jail, const struct jail_command *command, int control)
{
	const struct keeper_event event = { .news = KEEPER_TERMINAL };
	_cleanup_close_ int master = -EBADF, slave = -EBADF;
	int unlock = 0, r;

	if (command->terminal < 0)
		return 0;
	master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	r = copy_terminal(command->terminal, slave);
	if (r < 0)
		return r;
	if (jail->ids.first && fchown(slave, IDS_USER, IDS_USER) < 0)
		return -errno;
	if (dup3(slave, command->terminal, O_CLOEXEC) < 0)
		return -errno;
	keeper_tell(control, &event, master);
	return 0;
}

int inside_settle(const struct jail *jail)
{
	const struct op *users = plan_find(jail->plan, OP_USERS);
	const struct op *user = users ?: plan_find(jail->plan, OP_USER);
	/* Where there are several users, to read the memory of all who ask us, and to end them. */
	uint64_t kept = users ? 1ull << CAP_SYS_PTRACE | 1ull << CAP_KILL : 0;
	int r = users && prctl(PR_SET_KEEPCAPS, 1) < 0 ? -errno : 0;

	r = r < 0 || !user ? r : execute_user(user);
	r = r < 0 ? r : sys_drop_capabilities(kept);
	r = r < 0 || !kept ? r : sys_raise_capabilities(kept);
	if (r < 0)
		return r;
	/* Changes of ids have reset it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

static int write_maps(const struct op *op, pid_t keeper)
{
	char path[40];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", keeper);
	r = file_write_at(AT_FDCWD, path, op->source);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", keeper);
	return r < 0 ? r : file_write_at(AT_FDCWD, path, op->text);
}

int inside_admit(const struct jail *jail, pid_t keeper, int control, bool in_v2, struct err *err)
{
	const struct keeper_request go = { .order = KEEPER_GO };
	char text[512];

	if (!waits_for_warden(jail->plan))
		return 0;
	for (size_t i = 0; i < jail->plan->count; i++) {
		const struct op *op = &jail->plan->ops[i];
		int r = 0;

		if (op->stage != STAGE_WARDEN)
			continue;
		if (op->kind == OP_CGROUP && !in_v2)
			r = cgroup_put_v2(&jail->cgroup, keeper);
		else if (op->kind == OP_IDS)
			r = write_maps(op, keeper);
		if (r < 0) {
			op_describe(op, text, sizeof(text));
			return err_errno(err, r, "the sandbox was not started: \"%s\" failed",
					 text);
		}
	}
	return send(control, &go, sizeof(go), MSG_NOSIGNAL) < 0
		       ? err_errno(err, -errno, "the sandbox was not started: the keeper is gone")
		       : 0;
}
