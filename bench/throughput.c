#include "throughput.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "start.h"

#define CALLERS_MAX 64

struct caller {
	size_t starts, failures;
	int code; /* -errno when it could not start the command */
};

static void call(const struct bench_case *item, double deadline, struct caller *caller)
{
	struct bench_case copy = *item; /* with counts of its own */
	const struct manner manner = { .home = -EBADF };
	double ms = 0;

	copy.failures = 0;
	copy.mount_fd = -EBADF;
	do {
		caller->code = start_and_wait(&copy, &manner, &ms, NULL);
		caller->starts += caller->code == 0;
	} while (caller->code == 0 && now_ms() < deadline);
	caller->failures = copy.failures;
}

static int run_callers(const struct bench_case *item, size_t callers, double deadline,
		       struct caller *shared)
{
	pid_t pids[CALLERS_MAX] = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < callers; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			call(item, deadline, &shared[i]);
			_exit(0);
		}
		r = pids[i] < 0 ? -errno : 0;
	}
	for (size_t i = 0; i < callers; i++)
		if (pids[i] > 0 && !start_succeeded(pids[i]) && r == 0)
			r = -ECHILD;
	return r;
}

int throughput_slice(struct bench_case *item, size_t callers, size_t slice_ms,
		     double *ret_per_second, struct err *err)
{
	double begin = now_ms();
	size_t size = callers * sizeof(struct caller), starts = 0;
	struct caller *shared;
	int r;

	if (callers > CALLERS_MAX)
		return err_set(err, -EINVAL, "more than %d callers", CALLERS_MAX);
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return err_errno(err, -errno, "memory for %zu callers", callers);
	r = run_callers(item, callers, begin + (double)slice_ms, shared);
	for (size_t i = 0; i < callers; i++) {
		starts += shared[i].starts;
		item->failures += shared[i].failures;
		r = r < 0 ? r : shared[i].code;
	}
	*ret_per_second = (double)starts * 1e3 / (now_ms() - begin);
	munmap(shared, size);
	return r < 0 ? err_errno(err, r, "\"%s\": cannot be started", item->name) : 0;
}
