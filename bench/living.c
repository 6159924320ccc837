#include "living.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "memory.h"
#include "start.h"

#define AT_ONCE       8     /* so many starts at a time */
#define READY_WITHIN  30000 /* milliseconds */
#define SETTLE        1000
#define GONE_WITHIN   20000
#define TELLING_COUNT 500 /* below it, other programs change the available memory more */

/* All of them write into one pipe: a byte when they run, and its end when the last is gone. Static,
 * as the signal handler ends them too. */
static struct {
	pid_t *pids;
	volatile size_t count;
	int pipe;
} all = { .pipe = -EBADF };

static void end_all(int signal_number)
{
	for (size_t i = 0; i < all.count; i++)
		if (all.pids[i] > 0)
			kill(all.pids[i], signal_number);
}

static void on_end(int signal_number)
{
	end_all(SIGTERM);
	_exit(128 + signal_number);
}

static int wait_ready(size_t upto, size_t *ready, struct err *err)
{
	for (; *ready < upto; ++*ready) {
		int r = pipe_wait(all.pipe, READY_WITHIN);

		if (r < 0)
			return err_set(err, r, "%zu sandboxes were started and only %zu run",
				       all.count, *ready);
	}
	return 0;
}

static int start_all(const struct bench_case *item, size_t count, struct err *err)
{
	size_t ready = 0;
	int ends[2], r = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "a pipe");
	all.pipe = ends[0];
	while (r == 0 && all.count < count) {
		r = start_case(item, ends[1], &all.pids[all.count]);
		if (r < 0) {
			err_errno(err, r, "\"%s\": cannot start \"%s\"", item->name,
				  item->argv.items[0]);
			break;
		}
		all.count++;
		if (all.count > AT_ONCE)
			r = wait_ready(all.count - AT_ONCE, &ready, err);
	}
	close(ends[1]);
	return r < 0 ? r : wait_ready(count, &ready, err);
}

static long kib_each(long less, long more, size_t count)
{
	return count < TELLING_COUNT ? 0 : (more - less) / (long)count;
}

int living_start(const struct bench_case *item, size_t count, struct living *ret_living,
		 struct err *err)
{
	struct living living = { .count = count };
	long before = memory_available();
	int r;

	all.pids = calloc(count, sizeof(*all.pids));
	if (!all.pids)
		return err_errno(err, -ENOMEM, "%zu sandboxes", count);
	signal(SIGINT, on_end);
	signal(SIGTERM, on_end);
	r = start_all(item, count, err);
	if (r < 0) {
		int ended = living_end(&living, NULL);

		return ended == -EBUSY ? err_prefix(err, "something is left of them") : r;
	}
	sleep_ms(SETTLE);
	living.taken_kib = kib_each(memory_available(), before, count);
	*ret_living = living;
	return 0;
}

/* True once they have all ended. */
static bool reap_all(double deadline)
{
	size_t left = all.count;

	while (left > 0 && now_ms() < deadline) {
		left = 0;
		for (size_t i = 0; i < all.count; i++)
			if (all.pids[i] > 0 && waitpid(all.pids[i], NULL, WNOHANG) == 0)
				left++;
			else
				all.pids[i] = 0;
		if (left > 0)
			sleep_ms(10);
	}
	return left == 0;
}

int living_end(struct living *living, struct err *err)
{
	long before = memory_available();
	bool polite;
	int r = 0;

	end_all(SIGTERM);
	polite = reap_all(now_ms() + GONE_WITHIN);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (!polite) {
		end_all(SIGKILL);
		(void)reap_all(now_ms() + GONE_WITHIN);
	}
	while (r == 0)
		r = pipe_wait(all.pipe, GONE_WITHIN);
	all.count = 0;
	free(all.pids);
	all.pids = NULL;
	all.pipe = fd_close(all.pipe);
	if (r != -EPIPE)
		return err_set(err, -EBUSY, "the sandboxes have ended and something of them runs");
	sleep_ms(SETTLE);
	living->returned_kib = kib_each(before, memory_available(), living->count);
	return polite ? 0 : err_set(err, -ETIME, "sandboxes did not end when asked to");
}
