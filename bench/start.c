#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

static volatile sig_atomic_t running;

static void on_alarm(int signal)
{
	(void)signal;
	if (running > 0)
		kill(running, SIGKILL);
}

void start_prepare(void)
{
	signal(SIGALRM, on_alarm);
}

double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* setns puts us into the root of the new namespace; the cases run where the bench was started. */
static int enter_mounts(int fd)
{
	char cwd[PATH_MAX];

	if (fd < 0)
		return 0;
	if (!getcwd(cwd, sizeof(cwd)) || setns(fd, CLONE_NEWNS) < 0 || chdir(cwd) < 0)
		return -errno;
	return 0;
}

int start_case(const struct bench_case *item, int out, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r;

	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	for (int fd = 0; r == 0 && fd <= 2; fd++)
		r = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (r == 0 && out >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(&pid, item->argv.items[0], &actions, NULL, item->argv.items,
				environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	*ret_pid = pid;
	return 0;
}

bool start_succeeded(pid_t pid)
{
	int status = 0;
	bool fine = true;

	running = pid;
	alarm(GIVE_UP_AFTER);
	while (fine && waitpid(pid, &status, 0) < 0)
		fine = errno == EINTR;
	running = 0;
	alarm(0);
	return fine && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int pipe_wait(int fd, int ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char byte;
	int r;

	do
		r = poll(&poll_fd, 1, ms);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	r = (int)read(fd, &byte, 1);
	if (r < 0)
		return -errno;
	return r == 1 ? 0 : -EPIPE;
}

/* From spawn to the end; with a pipe, to the end of all that held it. */
static int time_case(const struct bench_case *item, const int *ends, double *ret_ms, bool *ret_fine)
{
	double begin = now_ms();
	bool fine;
	pid_t pid = -1;
	int r = start_case(item, ends ? ends[1] : -1, &pid);

	if (r < 0)
		return r;
	if (ends)
		close(ends[1]);
	fine = start_succeeded(pid);
	while (ends && (r = pipe_wait(ends[0], GIVE_UP_AFTER * 1000)) == 0)
		;
	*ret_ms = now_ms() - begin;
	*ret_fine = fine && (!ends || r == -EPIPE);
	return 0;
}

static int time_until_gone(const struct bench_case *item, double *ret_ms, bool *ret_fine)
{
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = time_case(item, ends, ret_ms, ret_fine);
	close(ends[0]);
	if (r < 0)
		close(ends[1]);
	return r;
}

int start_and_wait(struct bench_case *item, const struct manner *manner, double *ret_ms,
		   struct err *err)
{
	bool fine = false;
	int r;

	r = enter_mounts(item->mount_fd);
	if (r < 0)
		return err_errno(err, r, "\"%s\": cannot enter its mounts", item->name);
	r = manner->until_gone ? time_until_gone(item, ret_ms, &fine)
			       : time_case(item, NULL, ret_ms, &fine);
	if (r < 0)
		return err_errno(err, r, "\"%s\": cannot start \"%s\"", item->name,
				 item->argv.items[0]);
	if (item->mount_fd >= 0)
		r = enter_mounts(manner->home);
	if (r < 0)
		return err_errno(err, r, "cannot come back from the mounts of \"%s\"", item->name);
	item->failures += !fine;
	return 0;
}

int start_and_see(const struct bench_case *item, pid_t *ret_pid, struct err *err)
{
	int ends[2], r;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "a pipe");
	r = start_case(item, ends[1], &pid);
	close(ends[1]);
	if (r < 0)
		err_errno(err, r, "\"%s\": cannot start \"%s\"", item->name, item->argv.items[0]);
	/* One that fails writes nothing; the caller sees that at its end. */
	else if (pipe_wait(ends[0], GIVE_UP_AFTER * 1000) == -ETIMEDOUT)
		kill(pid, SIGKILL);
	close(ends[0]);
	*ret_pid = pid;
	return r;
}
