#include "jail/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"

/* Puts descriptors in place. Those that stand in each other's way are first moved above 2. */
static int place_stdio(const struct jail_command *command)
{
	int from[3];

	for (int i = 0; i < 3; i++) {
		from[i] = command->stdio[i];
		if (from[i] < 0)
			from[i] = open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY);
		if (from[i] >= 0 && from[i] < 3 && from[i] != i)
			from[i] = fcntl(from[i], F_DUPFD, 3);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (from[i] == i ? fcntl(i, F_SETFD, 0) < 0 : dup2(from[i], i) < 0)
			return -errno;
	return 0;
}

static int reset_signals(void)
{
	/* SIG_DFL, no flags, empty mask, as the kernel has it: libcs refuse to touch the two that
	 * they use themselves, which may come in ignored like any other. */
	static const uint64_t standard[4];
	sigset_t none;

	for (int signal = 1; signal <= 64; signal++)
		if (signal != SIGKILL && signal != SIGSTOP)
			syscall(SYS_rt_sigaction, signal, standard, NULL, 8);
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int set_rlimits(const struct jail *jail)
{
	/*
	 * 1 and not 0: with 0 the kernel would still start a handler that core_pattern pipes to, on
	 * the host and often as root.
	 */
	const struct rlimit core = { 1, 1 };

	if (setrlimit(RLIMIT_CORE, &core) < 0)
		return -errno;
	for (unsigned int i = 0; i < jail->rlimit_count; i++) {
		const struct rlimit limit = { jail->rlimits[i].soft, jail->rlimits[i].hard };

		if (setrlimit(jail->rlimits[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

/* A script without "#!" is one for sh, as every shell does it. */
static int execute_script(const char *path, const struct jail_command *command)
{
	char **argv = command->script_argv;
	size_t count = 0;

	argv[count++] = (char *)(uintptr_t) "sh";
	argv[count++] = (char *)(uintptr_t)path;
	for (size_t i = 1; command->argv[i]; i++)
		argv[count++] = command->argv[i];
	argv[count] = NULL;
	execve("/bin/sh", argv, command->envp);
	return -errno;
}

static int execute_at(const char *path, const struct jail_command *command)
{
	execve(path, command->argv, command->envp);
	return errno == ENOEXEC ? execute_script(path, command) : -errno;
}

/* Looks the program up as execvp does: what is forbidden on the way is remembered, and the search
 * goes on. */
static int execute(const struct jail_command *command)
{
	const char *name = command->argv[0], *p = command->search;
	char path[PATH_MAX];
	int found = -ENOENT, r;

	if (strchr(name, '/'))
		return execute_at(name, command);
	for (;;) {
		size_t len = strcspn(p, ":"), name_len = strlen(name);

		if (len + name_len + 2 <= sizeof(path)) {
			memcpy(path, p, len);
			path[len] = '/';
			/* An empty part of PATH is the working directory. */
			memcpy(path + len + (len > 0), name, name_len + 1);
			r = execute_at(path, command);
			if (r == -EACCES)
				found = r;
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (p[len] == '\0')
			return found;
		p += len + 1;
	}
}

union listener_control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static int send_listener(int socket, int listener)
{
	union listener_control control = { .room = { 0 } };
	char byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control.room) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(listener));
	memcpy(CMSG_DATA(header), &listener, sizeof(listener));
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* It was sent before the program ran: there is nothing to wait for. */
static int receive_listener(int socket)
{
	union listener_control control = { .room = { 0 } };
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control.room) };
	const struct cmsghdr *header;
	int listener;

	if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(sizeof(listener)))
		return -EBADMSG;
	memcpy(&listener, CMSG_DATA(header), sizeof(listener));
	return listener;
}

/* What the steps work with. */
struct plan {
	const struct jail *jail;
	const struct jail_command *command;
	int handover; /* the socket to send the listener over, or -EBADF */
};

static int step_privileges(const struct plan *plan)
{
	(void)plan;
	return sys_drop_capabilities(0);
}

static int step_session(const struct plan *plan)
{
	(void)plan;
	/*
	 * A group of its own in the keeper's session, as a shell would start it: a group whose
	 * leader's parent is in another session is orphaned, and the kernel ignores Ctrl-Z there.
	 * The keeper's death ends the first process; the keeper ends the rest.
	 */
	return setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

static int step_terminal(const struct plan *plan)
{
	if (plan->command->terminal < 0)
		return 0;
	/* From the background: SIGTTOU is ignored since the warden's start. */
	return tcsetpgrp(plan->command->terminal, getpid()) < 0 ? -errno : 0;
}

static int step_stdio(const struct plan *plan)
{
	return place_stdio(plan->command);
}

static int step_cgroup(const struct plan *plan)
{
	return cgroup_enter(&plan->jail->cgroup);
}

static int step_files(const struct plan *plan)
{
	return plan->jail->inner.fd < 0 ? 0 : landlock_enter(&plan->jail->inner);
}

/*
 * A mediated filter is not for the keeper, which would wait for its own answer, and is loaded here.
 * From now on no call may be one that is mediated: the keeper sleeps in vfork.
 */
static int step_filter(const struct plan *plan)
{
	int listener, r;

	if (plan->handover < 0)
		return 0;
	listener = filter_listen(plan->jail->filter);
	if (listener < 0)
		return listener;
	r = send_listener(plan->handover, listener);
	close(listener);
	return r;
}

static int step_descriptors(const struct plan *plan)
{
	(void)plan;
	return hook_without("descriptors") ? 0 : sys_close_range(3, ~0u, 0);
}

static int step_rlimits(const struct plan *plan)
{
	int r = set_rlimits(plan->jail);

	return r < 0 ? r : reset_signals();
}

static int step_exec(const struct plan *plan)
{
	return execute(plan->command);
}

static const struct {
	enum keeper_step step;
	int (*run)(const struct plan *plan);
} steps[] = {
	{ STEP_PRIVILEGES, step_privileges }, { STEP_SESSION, step_session },
	{ STEP_TERMINAL, step_terminal },     { STEP_STDIO, step_stdio },
	{ STEP_CGROUP, step_cgroup },         { STEP_FILES, step_files },
	{ STEP_FILTER, step_filter },         { STEP_DESCRIPTORS, step_descriptors },
	{ STEP_RLIMITS, step_rlimits },       { STEP_EXEC, step_exec },
};

/* Returns only when a step fails. */
static void become_workload(const struct plan *plan, struct launch_failure *failure)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i].run(plan);

		if (r < 0) {
			*failure = (struct launch_failure){ .step = steps[i].step, .code = r };
			return;
		}
	}
}

static pid_t start_child(const struct plan *plan, struct launch_failure *failure)
{
	/* Written by the child while the parent sleeps in vfork: the compiler must not keep a copy.
	 */
	static struct launch_failure shared;
	pid_t pid;

	shared = (struct launch_failure){ 0 };
	pid = vfork();
	if (pid == 0) {
		become_workload(plan, &shared);
		_exit(127);
	}
	if (pid < 0)
		shared = (struct launch_failure){ .step = STEP_FORK, .code = -errno };
	*failure = shared;
	return pid;
}

pid_t launch(const struct jail *jail, const struct jail_command *command, int *ret_listener,
	     struct launch_failure *failure)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	struct plan plan = { .jail = jail, .command = command, .handover = -EBADF };
	int pair[2], listener = -EBADF;
	pid_t pid;

	if (jail->mediated && jail->filter) {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0) {
			*failure = (struct launch_failure){ .step = STEP_FILTER, .code = -errno };
			return -1;
		}
		ours = pair[0];
		theirs = plan.handover = pair[1];
	}
	pid = start_child(&plan, failure);
	if (failure->code == 0 && ours >= 0) {
		listener = receive_listener(ours);
		if (listener < 0)
			*failure = (struct launch_failure){ .step = STEP_FILTER, .code = listener };
	}
	if (failure->code < 0 && pid > 0) {
		/* It has ended by itself, unless the listener was lost. */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (failure->code == 0)
		*ret_listener = listener;
	return pid;
}
