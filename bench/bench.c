/*
 * bench.c - starts commands in turns and measures how long each takes from spawn to exit
 *
 * In every round each command runs once, in an order that is shuffled anew; what disturbs the
 * machine disturbs them alike, and the ratios of a round stay true where the times do not. The
 * shuffle comes from a fixed seed, so two runs do the same. bench/README.md has the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cases.h"
#include "living.h"
#include "memory.h"
#include "report.h"
#include "start.h"
#include "stats.h"
#include "throughput.h"

#define SEED        UINT64_C(20250101)
#define MEMORY_POLL 10 /* milliseconds */

struct options {
	struct conditions conditions;
	size_t living;
	const char *json, *cases;
	bool memory;
};

static void shuffle(size_t *order, size_t count, struct random *random)
{
	for (size_t i = count; i > 1; i--) {
		size_t k = random_below(random, i), other = order[k];

		order[k] = order[i - 1];
		order[i - 1] = other;
	}
}

/* The last case, which is the one that the run is about, again and again and unmeasured. */
static int run_ahead(struct cases *cases, size_t times, const struct manner *manner,
		     struct err *err)
{
	struct bench_case *item = &cases->items[cases->count - 1];
	double ms = 0;

	for (size_t i = 0; i < times; i++) {
		int r = start_and_wait(item, manner, &ms, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int measure_once(struct bench_case *item, const struct conditions *conditions,
			const struct manner *manner, double *ret_value, struct err *err)
{
	if (conditions->callers)
		return throughput_slice(item, conditions->callers, conditions->slice_ms, ret_value,
					err);
	return start_and_wait(item, manner, ret_value, err);
}

static int run_rounds(struct cases *cases, const struct conditions *conditions,
		      const struct manner *manner, struct err *err)
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
			double value = 0;
			int r = measure_once(item, conditions, manner, &value, err);

			if (r < 0)
				return r;
			if (round >= conditions->warmup)
				item->values[round - conditions->warmup] = value;
		}
	}
	return 0;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       info.si_pid == pid;
}

/* Looks at the command and its helpers once the workload runs, and at the command itself, not at
 * what it starts, for as long as it lives. */
static int measure_memory(struct bench_case *item, struct err *err)
{
	pid_t pid = -1;
	int r = start_and_see(item, &pid, err);

	if (r < 0)
		return r;
	/* One that failed is gone already, and counted below. */
	if (memory_footprint(pid, &item->footprint) < 0)
		item->footprint.proportional_kib = -1;
	while (!has_ended(pid)) {
		item->peak_kib = MAX(item->peak_kib, memory_peak(pid));
		sleep_ms(MEMORY_POLL);
	}
	item->failures += !start_succeeded(pid);
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

static int measure_starts(struct cases *cases, struct conditions *conditions, struct err *err)
{
	_cleanup_close_ int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	const struct manner manner = { .home = home, .until_gone = conditions->until_gone };
	int r;

	r = run_ahead(cases, conditions->ahead, &manner, err);
	if (r < 0)
		return r;
	machine_read(&conditions->before);
	r = run_rounds(cases, conditions, &manner, err);
	machine_read(&conditions->after);
	return r;
}

/* The same while so many others live. They end also when the measurement fails. */
static int measure_among(struct cases *cases, struct options *options, struct err *err)
{
	struct conditions *conditions = &options->conditions;
	int r, ended;

	if (!cases->living)
		return err_set(err, -EINVAL, "no case is living");
	r = living_start(cases->living, options->living, &conditions->living, err);
	if (r < 0)
		return r;
	r = measure_starts(cases, conditions, err);
	ended = living_end(&conditions->living, r < 0 ? NULL : err);
	return r < 0 ? r : ended;
}

static int bench_starts(struct cases *cases, struct options *options, FILE *json, struct err *err)
{
	const struct conditions *conditions = &options->conditions;
	int r;

	r = options->living ? measure_among(cases, options, err)
			    : measure_starts(cases, &options->conditions, err);
	if (r == 0)
		r = report_choose_peer(cases, conditions, err);
	if (r == 0)
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
			    : bench_starts(&cases, options, json, err);
	if (json && fclose(json) != 0 && r == 0)
		r = err_errno(err, -errno, "\"%s\"", options->json);
	return r;
}

static int usage(void)
{
	fputs("usage: bench [--rounds N] [--warmup N] [--ahead N] [--living N] [--gone] [--json "
	      "FILE] CASES\n"
	      "       bench --callers N --slice MS [--rounds N] [--warmup N] [--json FILE] CASES\n"
	      "       bench --memory [--json FILE] CASES\n",
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
		{ "callers", required_argument, NULL, 'c' },
		{ "slice", required_argument, NULL, 's' },
		{ "living", required_argument, NULL, 'l' },
		{ "gone", no_argument, NULL, 'g' },
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
		case 'c':
			fine = read_count(optarg, 1, &conditions->callers);
			break;
		case 's':
			fine = read_count(optarg, 1, &conditions->slice_ms);
			break;
		case 'l':
			fine = read_count(optarg, 1, &options->living);
			break;
		case 'g':
			conditions->until_gone = true;
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
	struct options options = {
		.conditions = { .rounds = 200, .warmup = 10, .slice_ms = 1000, .seed = SEED },
	};
	struct err err = ERR_NONE;

	if (!read_options(argc, argv, &options))
		return usage();
	start_prepare();
	if (run(&options, &err) < 0) {
		fprintf(stderr, "bench: %s\n", err.text);
		return 1;
	}
	return 0;
}
