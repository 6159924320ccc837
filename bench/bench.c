/*
 * bench.c - starts commands in turns and measures how long each takes from spawn to exit
 *
 * In every round each command runs once, in an order that is shuffled anew; what disturbs the
 * machine disturbs them alike, and the ratios of a round stay true where the times do not. The
 * shuffle comes from a fixed seed, so two runs do the same. bench/README.md has the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cases.h"
#include "report.h"
#include "stats.h"

#define SEED          UINT64_C(20250101)
#define GIVE_UP_AFTER 60 /* seconds; a command that hangs is killed and counted as a failure */
#define MEMORY_POLL   10 /* milliseconds */

struct options {
	struct conditions conditions;
	const char *json, *cases;
	bool memory;
};

static volatile sig_atomic_t running;

static void on_alarm(int signal)
{
	(void)signal;
	if (running > 0)
		kill(running, SIGKILL);
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

static int start(const struct bench_case *item, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r;

	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	for (int fd = 0; r == 0 && fd <= 2; fd++)
		r = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn(&pid, item->argv.items[0], &actions, NULL, item->argv.items,
				environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	*ret_pid = pid;
	return 0;
}

/* Waits for the end, which the alarm brings if nothing else does. */
static bool succeeded(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* One start and end. A command that cannot be started is a mistake of the bench; one that fails is
 * counted. Changing the mount namespace is not part of the time. */
static int run_once(struct bench_case *item, int home, double *ret_ms, struct err *err)
{
	double begin, end;
	bool fine;
	pid_t pid = -1;
	int r;

	r = enter_mounts(item->mount_fd);
	if (r < 0)
		return err_errno(err, r, "\"%s\": cannot enter its mounts", item->name);
	alarm(GIVE_UP_AFTER);
	begin = now_ms();
	r = start(item, &pid);
	if (r < 0)
		return err_errno(err, r, "\"%s\": cannot start \"%s\"", item->name,
				 item->argv.items[0]);
	running = pid;
	fine = succeeded(pid);
	end = now_ms();
	running = 0;
	alarm(0);
	if (item->mount_fd >= 0)
		r = enter_mounts(home);
	if (r < 0)
		return err_errno(err, r, "cannot come back from the mounts of \"%s\"", item->name);
	item->failures += !fine;
	*ret_ms = end - begin;
	return 0;
}

static void shuffle(size_t *order, size_t count, struct random *random)
{
	for (size_t i = count; i > 1; i--) {
		size_t k = random_below(random, i), other = order[k];

		order[k] = order[i - 1];
		order[i - 1] = other;
	}
}

/* The last case, which is the one that the run is about, again and again and unmeasured. */
static int run_ahead(struct cases *cases, size_t times, int home, struct err *err)
{
	struct bench_case *item = &cases->items[cases->count - 1];
	double ms = 0;

	for (size_t i = 0; i < times; i++) {
		int r = run_once(item, home, &ms, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int run_rounds(struct cases *cases, const struct conditions *conditions, int home,
		      struct err *err)
{
	struct random random = { conditions->seed };
	size_t order[CASES_MAX];

	for (size_t i = 0; i < cases->count; i++)
		order[i] = i;
	for (size_t round = 0; round < conditions->warmup + conditions->rounds; round++) {
		for (size_t i = 0; round == conditions->warmup && i < cases->count; i++)
			cases->items[i].failures = 0;
		shuffle(order, cases->count, &random);
		for (size_t i = 0; i < cases->count; i++) {
			struct bench_case *item = &cases->items[order[i]];
			double ms = 0;
			int r = run_once(item, home, &ms, err);

			if (r < 0)
				return r;
			if (round >= conditions->warmup)
				item->ms[round - conditions->warmup] = ms;
		}
	}
	return 0;
}

/* VmHWM of the process in KiB; 0 when it is gone or has no memory any more. */
static long peak_of(pid_t pid)
{
	char path[64], line[256];
	long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (kib == 0 && fgets(line, sizeof(line), file))
		if (str_starts(line, "VmHWM:"))
			kib = strtol(line + strlen("VmHWM:"), NULL, 10);
	fclose(file);
	return kib;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       info.si_pid == pid;
}

/* Looks at the command itself, not at what it starts, for as long as it lives. */
static int measure_memory(struct bench_case *item, struct err *err)
{
	const struct timespec pause = { .tv_nsec = MEMORY_POLL * 1000000L };
	pid_t pid = -1;
	int r = start(item, &pid);

	if (r < 0)
		return err_errno(err, r, "\"%s\": cannot start \"%s\"", item->name,
				 item->argv.items[0]);
	running = pid;
	alarm(GIVE_UP_AFTER);
	while (!has_ended(pid)) {
		item->peak_kib = MAX(item->peak_kib, peak_of(pid));
		nanosleep(&pause, NULL);
	}
	item->failures += !succeeded(pid);
	running = 0;
	alarm(0);
	return 0;
}

static int bench_memory(struct cases *cases, FILE *json, struct err *err)
{
	for (size_t i = 0; i < cases->count; i++) {
		int r = measure_memory(&cases->items[i], err);

		if (r < 0)
			return r;
	}
	report_memory(stdout, cases);
	if (json)
		report_memory_json(json, cases);
	return 0;
}

static int bench_starts(struct cases *cases, struct conditions *conditions, FILE *json,
			struct err *err)
{
	_cleanup_close_ int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	int r;

	r = run_ahead(cases, conditions->ahead, home, err);
	if (r < 0)
		return r;
	machine_read(&conditions->before);
	r = run_rounds(cases, conditions, home, err);
	if (r < 0)
		return r;
	machine_read(&conditions->after);
	r = report_table(stdout, cases, conditions, err);
	if (r == 0 && json)
		r = report_json(json, cases, conditions, err);
	return r;
}

static int run(struct options *options, struct err *err)
{
	_cleanup_(cases_done) struct cases cases = { 0 };
	FILE *json = NULL;
	int r;

	r = cases_load(options->cases, options->conditions.rounds, &cases, err);
	if (r < 0)
		return r;
	if (options->json) {
		json = fopen(options->json, "ae");
		if (!json)
			return err_errno(err, -errno, "\"%s\"", options->json);
	}
	r = options->memory ? bench_memory(&cases, json, err)
			    : bench_starts(&cases, &options->conditions, json, err);
	if (json && fclose(json) != 0 && r == 0)
		r = err_errno(err, -errno, "\"%s\"", options->json);
	return r;
}

static int usage(void)
{
	fputs("usage: bench [--rounds N] [--warmup N] [--ahead N] [--memory] [--json FILE] CASES\n",
	      stderr);
	return 2;
}

/* Rounds are at least one; a count above a million is a typing error. */
static bool read_count(const char *text, size_t least, size_t *ret_count)
{
	struct err err = ERR_NONE;
	uint64_t count;

	if (parse_count(text, &count, &err) < 0 || count < least || count > 1000000)
		return false;
	*ret_count = (size_t)count;
	return true;
}

static bool read_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "ahead", required_argument, NULL, 'a' },
		{ "json", required_argument, NULL, 'j' },
		{ "memory", no_argument, NULL, 'm' },
		{ 0 },
	};
	struct conditions *conditions = &options->conditions;
	bool fine = true;
	int c;

	while (fine && (c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'r':
			fine = read_count(optarg, 1, &conditions->rounds);
			break;
		case 'w':
			fine = read_count(optarg, 0, &conditions->warmup);
			break;
		case 'a':
			fine = read_count(optarg, 0, &conditions->ahead);
			break;
		case 'j':
			options->json = optarg;
			break;
		case 'm':
			options->memory = true;
			break;
		default:
			fine = false;
		}
	}
	if (optind + 1 != argc)
		return false;
	options->cases = argv[optind];
	return fine;
}

int main(int argc, char **argv)
{
	struct options options = { .conditions = { .rounds = 200, .warmup = 10, .seed = SEED } };
	struct err err = ERR_NONE;

	if (!read_options(argc, argv, &options))
		return usage();
	signal(SIGALRM, on_alarm);
	if (run(&options, &err) < 0) {
		fprintf(stderr, "bench: %s\n", err.text);
		return 1;
	}
	return 0;
}
