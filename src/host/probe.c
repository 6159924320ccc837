#include "host/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

/*
 * The child keeps every signal blocked: a handler of the caller must not run twice, and Ctrl-C is
 * the caller's to answer. A core limit of 1 is what stops a dump into a pipe as well; 0 does not.
 */
static void child_settle(void)
{
	struct rlimit core;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getrlimit(RLIMIT_CORE, &core) == 0) {
		core.rlim_cur = MIN(core.rlim_max, (rlim_t)1);
		setrlimit(RLIMIT_CORE, &core);
	}
}

pid_t probe_fork(void)
{
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	/* No exit signal, no new stack: the same in the argument order of every architecture. Not
	 * clone3, which many container profiles refuse. */
	pid = (pid_t)syscall(SYS_clone, 0UL, 0UL, NULL, NULL, 0UL);
	if (pid == 0) {
		child_settle();
		return 0;
	}
	if (pid < 0)
		pid = -errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

int probe_wait(pid_t pid)
{
	int status;
	pid_t r;

	do
		r = waitpid(pid, &status, __WALL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

/* Waits until there is something to read or the writer is gone. */
static int wait_readable(int fd, uint64_t deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_ms();
		int r = poll(&p, 1, now < deadline ? (int)(deadline - now) : 0);

		if (r > 0)
			return 0;
		if (r == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

int probe_in_child(int (*fn)(const void *arg, struct probe_answer *answer), const void *arg,
		   struct probe_answer *ret_answer)
{
	_cleanup_close_ int from = -EBADF, to = -EBADF;
	struct probe_answer answer = { 0 };
	int ends[2], r;
	ssize_t n = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	pid = probe_fork();
	if (pid < 0)
		return pid;
	if (pid == 0) {
		answer.error = fn(arg, &answer);
		_exit(write(to, &answer, sizeof(answer)) != (ssize_t)sizeof(answer));
	}
	to = fd_close(to);
	r = wait_readable(from, clock_ms() + PROBE_DEADLINE_MS);
	/* Shorter than PIPE_BUF, so it comes whole or not at all. */
	if (r == 0)
		n = read(from, &answer, sizeof(answer));
	if (r < 0)
		kill(pid, SIGKILL);
	(void)!probe_wait(pid);
	if (r < 0)
		return r;
	if (n != (ssize_t)sizeof(answer))
		return -ECHILD;
	*ret_answer = answer;
	return 0;
}

void fact_ok(struct host_fact *fact, const char *fmt, ...)
{
	va_list ap;

	fact->ok = true;
	fact->remedy[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(fact->detail, sizeof(fact->detail), fmt, ap);
	va_end(ap);
	str_make_printable(fact->detail);
}

void fact_missing(struct host_fact *fact, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	fact->ok = false;
	fact->value = 0;
	snprintf(fact->remedy, sizeof(fact->remedy), "%s", remedy);
	str_make_printable(fact->remedy);
	va_start(ap, fmt);
	vsnprintf(fact->detail, sizeof(fact->detail), fmt, ap);
	va_end(ap);
	str_make_printable(fact->detail);
}

void fact_untried(struct host_fact *fact, int error)
{
	if (error == -ETIMEDOUT)
		fact_missing(fact, "", "no answer within %d ms", PROBE_DEADLINE_MS);
	else if (error == -ECHILD)
		fact_missing(fact, "", "the probe was killed");
	else
		fact_missing(fact, "", "could not be tried: %s", strerror(-error));
}

bool probe_under_seccomp(void)
{
	/* Answers without a file; where even that is refused, a filter did it. */
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}
