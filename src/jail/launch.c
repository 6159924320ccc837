#include "jail/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/sys.h"
#include "jail/beside.h"
#include "jail/execute.h"

/* Puts descriptors in place. Those that stand in each other's way are first moved above 2. */
static int place_stdio(const struct jail_command *command)
{
	int from[3];

	for (int i = 0; i < 3; i++) {
		from[i] = command->stdio[i];
		/* Opened by the warden: once the filter is loaded, an open may wait for the keeper. */
		if (from[i] < 0)
			from[i] = command->null;
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
	return sys_execve("/bin/sh", argv, command->envp, command->pass);
}

static int execute_at(const char *path, const struct jail_command *command)
{
	int r = sys_execve(path, command->argv, command->envp, command->pass);

	return r == -ENOEXEC ? execute_script(path, command) : r;
}

#define PROGRAM      4 /* where it is while it is executed */
#define PROGRAM_PATH "/proc/self/fd/4"

/* Looks the program up as execvp does: what is forbidden on the way is remembered, and the search
 * goes on. */
static int execute(const struct jail_command *command)
{
	const char *name = command->argv[0], *p = command->search;
	char path[PATH_MAX];
	int found = -ENOENT, r;

	if (command->program >= 0)
		return sys_execve(PROGRAM_PATH, command->argv, command->envp, command->pass);
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

/* It was sent before the program ran: there is nothing to wait for. */
static int receive_listener(int socket)
{
	int passed[FD_PASS_MAX], r;
	char byte;

	r = fd_receive(socket, &byte, sizeof(byte), passed);
	if (r < 0)
		return r;
	return passed[0] < 0 ? -EBADMSG : passed[0];
}

/* What the steps work with. */
struct launching {
	const struct jail *jail;
	const struct jail_command *command;
	int handover; /* the socket to send the listener over, or -EBADF */
	/* Beside the keeper, with its descriptors and directories: what is made there is its own. */
	bool is_beside;
	int listener;
};

static int step_privileges(struct launching *of)
{
	int r = sys_no_new_privs();

	(void)of;
	return r < 0 ? r : sys_drop_capabilities(0);
}

static int step_session(struct launching *of)
{
	(void)of;
	/*
	 * A group of its own in the keeper's session, as a shell would start it: a group whose
	 * leader's parent is in another session is orphaned, and the kernel ignores Ctrl-Z there.
	 * The keeper's death ends the first process; the keeper ends the rest.
	 */
	return setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

static int step_terminal(struct launching *of)
{
	if (of->command->terminal < 0)
		return 0;
	/* From the background: SIGTTOU is ignored since the warden's start. */
	return tcsetpgrp(of->command->terminal, getpid()) < 0 ? -errno : 0;
}

static int step_stdio(struct launching *of)
{
	return place_stdio(of->command);
}

static int step_cgroup(struct launching *of)
{
	return cgroup_enter(&of->jail->cgroup);
}

static int step_files(struct launching *of)
{
	return of->jail->inner.fd < 0 ? 0 : landlock_enter(&of->jail->inner);
}

/*
 * A mediated filter is not for the keeper, which would wait for its own answer, and is loaded here.
 * From now on no call may be one that is mediated: the keeper sleeps in vfork.
 */
static int step_filter(struct launching *of)
{
	int listener, r;

	if (!of->jail->filter)
		return 0;
	if (of->jail->mediation == MEDIATE_NOTHING)
		return filter_load(of->jail->filter);
	listener = filter_listen(of->jail->filter);
	if (listener < 0)
		return listener;
	if (of->is_beside) {
		of->listener = listener;
		return 0;
	}
	r = fd_send(of->handover, "", 1, &listener, 1);
	close(listener);
	return r;
}

/* What is not for the workload in general: the channel of init, and the file it is executed from. The
 * first descriptor that is nobody's. */
static int place_own(const struct jail_command *command)
{
	int channel = command->channel, program = command->program;

	if (channel < 0)
		return 3;
	/* Out of each other's way first. */
	channel = fcntl(channel, F_DUPFD_CLOEXEC, PROGRAM + 1);
	program = fcntl(program, F_DUPFD_CLOEXEC, PROGRAM + 1);
	if (channel < 0 || program < 0 || dup2(channel, JAIL_CHANNEL) < 0 ||
	    dup3(program, PROGRAM, O_CLOEXEC) < 0)
		return -errno;
	return PROGRAM + 1;
}

static int step_descriptors(struct launching *of)
{
	int r = of->is_beside ? sys_unshare(CLONE_FS | CLONE_FILES) : 0;

	if (r < 0)
		return r;
	r = place_own(of->command);
	if (r < 0 || hook_without("descriptors"))
		return r;
	return sys_close_range((unsigned int)r, ~0u, 0);
}

static int step_rlimits(struct launching *of)
{
	int r = set_rlimits(of->jail);

	return r < 0 ? r : reset_signals();
}

static int step_exec(struct launching *of)
{
	return execute(of->command);
}

static int (*const steps[STEP_COUNT])(struct launching *of) = {
	[STEP_PRIVILEGES] = step_privileges, [STEP_SESSION] = step_session,
	[STEP_TERMINAL] = step_terminal,     [STEP_STDIO] = step_stdio,
	[STEP_CGROUP] = step_cgroup,         [STEP_FILES] = step_files,
	[STEP_FILTER] = step_filter,         [STEP_DESCRIPTORS] = step_descriptors,
	[STEP_RLIMITS] = step_rlimits,       [STEP_EXEC] = step_exec,
};

static int keep_users(const struct op *op)
{
	/* Root of the sandbox's own ids: until now it is the caller. */
	int r = sys_become(0);

	r = r < 0 ? r : sys_no_new_privs();
	return r < 0 ? r
		     : sys_pass_capabilities(op->has_root ? SYS_ROOT_RIGHTS | SYS_INIT_MARK
							  : SYS_INIT_RIGHTS,
					     op->has_root);
}

static int run_op(struct launching *of, const struct op *op)
{
	if (op->kind == OP_USER)
		return execute_user(op);
	if (op->kind == OP_USERS)
		return keep_users(op);
	return op->kind == OP_STEP && steps[op->value] ? steps[op->value](of) : -ENOSYS;
}

/* The operations before the keeper is ready, or those after. -errno, and which failed. */
static int run_ops(struct launching *of, bool early, struct launch_failure *failure)
{
	const struct plan *plan = of->jail->plan;

	for (size_t i = 0; i < plan->count; i++) {
		const struct op *op = &plan->ops[i];
		int r;

		if (op->stage != STAGE_FIRST || op->is_early != early)
			continue;
		r = run_op(of, op);
		if (r < 0) {
			*failure = (struct launch_failure){ .step = STEP_SETUP,
							    .op = (int)i,
							    .code = r };
			if (op->kind == OP_STEP)
				failure->step = (enum keeper_step)op->value;
			return r;
		}
	}
	return 0;
}

/* Returns only when an operation fails. */
static void become_workload(struct launching *of, struct launch_failure *failure)
{
	if (run_ops(of, true, failure) == 0)
		(void)!run_ops(of, false, failure);
}

/* The first process while it waits beside the keeper. Both have it in their memory. */
static struct first {
	struct launching of;
	struct launch_failure failure;
	int may_go;  /* a futex, for the keeper to set */
	int is_here; /* a futex: the kernel clears it when this memory is left, by execve or exit */
} first;

static int wait_beside(void *arg)
{
	struct first *f = arg;
	int r;

	syscall(SYS_set_tid_address, &f->is_here);
	r = run_ops(&f->of, true, &f->failure);
	beside_await(&f->may_go);
	if (r == 0)
		(void)!run_ops(&f->of, false, &f->failure);
	return 0;
}

void launch_beside(const struct jail *jail, const struct jail_command *command,
		   struct executor *executor)
{
	first = (struct first){ .of = { .jail = jail,
					.command = command,
					.handover = -EBADF,
					.listener = -EBADF,
					.is_beside = true },
				.failure = { .op = -1 },
				.is_here = 1 };
	executor->afterwards = wait_beside;
	executor->afterwards_arg = &first;
}

static pid_t launch_waiting(const struct beside *beside, int *ret_listener,
			    struct launch_failure *failure)
{
	const struct timespec nap = { .tv_nsec = 50000000 };

	beside_signal(&first.may_go);
	/* It may be killed (by a memory limit) also before the kernel knows of the word. */
	while (__atomic_load_n(&first.is_here, __ATOMIC_ACQUIRE) && !beside_has_ended(beside))
		syscall(SYS_futex, &first.is_here, FUTEX_WAIT, 1, &nap, NULL, 0);
	*failure = first.failure;
	if (failure->code == 0 && beside_has_ended(beside))
		*failure = (struct launch_failure){ .step = STEP_FORK, .op = -1, .code = -ECHILD };
	if (failure->code < 0) {
		kill(beside->pid, SIGKILL);
		waitpid(beside->pid, NULL, __WALL);
	} else {
		*ret_listener = first.of.listener;
	}
	return beside->pid;
}

/*
 * Before Linux 6.3 two processes on one memory cannot be in different time namespaces. Then it is a
 * copy that starts the program; we wait for it in the same way.
 */
static pid_t start_copy(struct launching *of, struct launch_failure *failure)
{
	struct launch_failure *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	*failure = (struct launch_failure){ .step = STEP_FORK, .op = -1, .code = -ENOMEM };
	if (shared == MAP_FAILED)
		return -1;
	*shared = (struct launch_failure){ .op = -1 };
	pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		become_workload(of, shared);
		_exit(127);
	}
	if (pid < 0)
		failure->code = -errno;
	else
		*failure = *shared;
	munmap(shared, sizeof(*shared));
	return pid;
}

/* The same with our descriptors: on a stack of its own, as nobody may return into this one. */
static int become_workload_beside(void *arg)
{
	struct first *f = arg;

	become_workload(&f->of, &f->failure);
	return 127;
}

/*
 * Once sendmsg() waits for us, the child cannot send the listener; in a table of descriptors that
 * is ours too, it is there already. The child leaves the table before it closes anything.
 */
static pid_t start_sharing(struct launching *of, struct launch_failure *failure)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid;

	of->is_beside = true;
	first = (struct first){ .of = *of, .failure = { .op = -1 } };
	pid = clone(become_workload_beside, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &first);
	*failure = first.failure;
	if (pid < 0)
		*failure = (struct launch_failure){ .step = STEP_FORK, .op = -1, .code = -errno };
	if (failure->code < 0 && pid > 0)
		waitpid(pid, NULL, 0);
	of->listener = first.of.listener;
	return pid;
}

static pid_t start_child(struct launching *of, struct launch_failure *failure)
{
	/* Written by the child while the parent sleeps in vfork: the compiler must not keep a copy.
	 */
	static struct launch_failure shared;
	pid_t pid;

	shared = (struct launch_failure){ .op = -1 };
	pid = vfork();
	if (pid == 0) {
		become_workload(of, &shared);
		_exit(127);
	}
	if (pid < 0 && errno == EINVAL)
		return start_copy(of, failure);
	if (pid < 0)
		shared = (struct launch_failure){ .step = STEP_FORK, .op = -1, .code = -errno };
	*failure = shared;
	return pid;
}

pid_t launch(const struct jail *jail, const struct jail_command *command,
	     const struct executor *executor, int *ret_listener, struct launch_failure *failure)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	struct launching of = {
		.jail = jail, .command = command, .handover = -EBADF, .listener = -EBADF
	};
	int pair[2], listener = -EBADF;
	pid_t pid;

	if (executor && executor->afterwards && executor->beside.pid > 0)
		return launch_waiting(&executor->beside, ret_listener, failure);
	if (jail->resolver) {
		pid = start_sharing(&of, failure);
		*ret_listener = of.listener;
		return pid;
	}
	if (jail->mediation != MEDIATE_NOTHING && jail->filter) {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0) {
			*failure = (struct launch_failure){ .step = STEP_FILTER,
							    .op = -1,
							    .code = -errno };
			return -1;
		}
		ours = pair[0];
		theirs = of.handover = pair[1];
	}
	pid = start_child(&of, failure);
	if (failure->code == 0 && ours >= 0) {
		listener = receive_listener(ours);
		if (listener < 0)
			*failure = (struct launch_failure){ .step = STEP_FILTER,
							    .op = -1,
							    .code = listener };
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
