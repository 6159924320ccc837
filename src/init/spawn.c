#include "init/spawn.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

/* A script without "#!" is one for sh, as every shell does it. */
static int execute_script(const char *path, const struct spawn *of)
{
	char **argv = of->script_argv;
	size_t count = 0;

	argv[count++] = (char *)(uintptr_t) "sh";
	argv[count++] = (char *)(uintptr_t)path;
	for (size_t i = 1; of->argv[i]; i++)
		argv[count++] = of->argv[i];
	argv[count] = NULL;
	return sys_execve("/bin/sh", argv, of->envp, 0);
}

static int execute_at(const char *path, const struct spawn *of)
{
	int r = sys_execve(path, of->argv, of->envp, 0);

	return r == -ENOEXEC ? execute_script(path, of) : r;
}

/* Looks the program up as execvp does: what is forbidden on the way is remembered, and the search goes
 * on. */
static int execute(const struct spawn *of)
{
	const char *name = of->argv[0], *p = of->search;
	size_t name_len = strlen(name);
	char path[PATH_MAX];
	int found = -ENOENT;

	if (strchr(name, '/'))
		return execute_at(name, of);
	if (name_len == 0)
		return -ENOENT;
	for (;;) {
		size_t len = strcspn(p, ":");

		if (len + name_len + 2 <= sizeof(path)) {
			int r;

			memcpy(path, p, len);
			path[len] = '/';
			/* An empty part of PATH is the working directory. */
			memcpy(path + len + (len > 0), name, name_len + 1);
			r = execute_at(path, of);
			/* A directory that may not be searched has nothing for us. */
			if (r == -EACCES && access(path, F_OK) == 0)
				found = r;
			else if (r != -EACCES && r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (p[len] == '\0')
			return found;
		p += len + 1;
	}
}

static int step_session(const struct spawn *of)
{
	if (!of->has_terminal)
		return setsid() < 0 ? -errno : 0;
	/* From the background, where SIGTTOU would stop us if it were not blocked. */
	return setpgid(0, 0) < 0 || tcsetpgrp(of->stdio[0], getpid()) < 0 ? -errno : 0;
}

/* None of them is below 3: main() sees to that. */
static int step_stdio(const struct spawn *of)
{
	for (int i = 0; i < 3; i++)
		if (dup2(of->stdio[i], i) < 0)
			return -errno;
	return sys_close_range(3, ~0u, 0);
}

static int step_user(const struct spawn *of)
{
	return user_become(&of->user, &of->rights);
}

static int step_directory(const struct spawn *of)
{
	return of->directory && chdir(of->directory) < 0 ? -errno : 0;
}

static int step_limits(const struct spawn *of)
{
	return syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &of->files, NULL) < 0 ? -errno : 0;
}

static int step_execute(const struct spawn *of)
{
	sigset_t none;

	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : execute(of);
}

enum step {
	STEP_FORK,
	STEP_SESSION,
	STEP_STDIO,
	STEP_USER,
	STEP_DIRECTORY,
	STEP_LIMITS,
	STEP_EXECUTE,
	STEP_COUNT,
};

static int (*const steps[STEP_COUNT])(const struct spawn *of) = {
	[STEP_SESSION] = step_session, [STEP_STDIO] = step_stdio,
	[STEP_USER] = step_user,       [STEP_DIRECTORY] = step_directory,
	[STEP_LIMITS] = step_limits,   [STEP_EXECUTE] = step_execute,
};

static int explain_directory(const struct spawn *of, int code, struct err *err)
{
	/* Not what a program that is missing gives: a client can tell them apart. */
	if (code == -ENOENT)
		return err_set(err, -ENOTDIR, "the directory \"%s\" does not exist", of->directory);
	return err_errno(err, code, "cannot start in the directory \"%s\"", of->directory);
}

static int explain_execute(const struct spawn *of, int code, struct err *err)
{
	if (code == -ENOENT && !strchr(of->argv[0], '/'))
		return err_set(err, code, "\"%s\" was not found in PATH", of->argv[0]);
	return err_errno(err, code, "cannot execute \"%s\"", of->argv[0]);
}

static int explain(const struct spawn *of, enum step step, int code, struct err *err)
{
	switch (step) {
	case STEP_USER:
		return err_errno(err, code, "cannot become the user \"%s\"", of->user.name);
	case STEP_DIRECTORY:
		return explain_directory(of, code, err);
	case STEP_EXECUTE:
		return explain_execute(of, code, err);
	case STEP_SESSION:
		return err_errno(err, code, "cannot make a session for \"%s\"", of->argv[0]);
	default:
		return err_errno(err, code, "cannot start \"%s\"", of->argv[0]);
	}
}

/* Written by the child while the parent sleeps: the compiler must not keep a copy. */
static volatile struct {
	enum step step;
	int code;
} failure;

_Noreturn static void become(const struct spawn *of)
{
	for (int i = STEP_FORK + 1; i < STEP_COUNT; i++) {
		int r = steps[i](of);

		if (r < 0) {
			failure.step = (enum step)i;
			failure.code = r;
			break;
		}
	}
	_exit(127);
}

pid_t spawn(const struct spawn *of, struct err *err)
{
	pid_t pid;

	failure.step = STEP_FORK;
	failure.code = 0;
	pid = vfork();
	if (pid == 0)
		become(of);
	if (pid < 0)
		return explain(of, STEP_FORK, -errno, err);
	if (failure.code == 0)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return explain(of, failure.step, failure.code, err);
}
