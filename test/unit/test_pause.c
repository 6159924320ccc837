/*
 * Real sandboxes of both tiers that stand still, by each mechanism: that nothing in them runs is seen in
 * the pipe that they write to all the time. Also what they use, since that is asked of the same ones.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "jail/pause.h"
#include "jail/tree.h"
#include "policy_case.h"
#include "tier/tier.h"
#include "warden/janitor.h"
#include "warden/seclude.h"
#include "warden/usage.h"

#define ROUNDS 20
#define TRIES  5000 /* of a millisecond: only a test that fails waits that long */

/* Two that write, and fork, and wait for what they forked. */
#define FORKING                                               \
	"while :; do (echo a); /bin/true; done & while :; do" \
	" echo b; /bin/true & wait $!; done"

/* Twenty that write all the time: one of them would be the first to run. */
#define MANY                                                                          \
	"i=0; while [ $i -lt 20 ]; do (while :; do echo a; done) & i=$((i+1)); done;" \
	" wait"

static const struct way {
	const char *mechanism, *fail; /* what the host must lack for it */
} ways[] = {
	{ "cgroup v2 freezer", NULL },
	{ "cgroup v1 freezer", "cgroup2=2" },
	{ "signals", "cgroup=95" },
};

/* The last one is the process tier without the scope that confines kill(-1). */
static struct scene {
	enum isolation isolation;
	const struct way *way;
	unsigned int weaken;
} scenes[2 * ARRAY_SIZE(ways) + 1];

static struct policy policy;
static struct tier_jail tj;
static bool is_prepared;
static pid_t other_warden; /* where this process is not the one */
static struct keeper keeper = KEEPER_NONE;
static int output = -EBADF, input = -EBADF; /* of its pipe */
static char scratch[] = "/tmp/brig-test-pause-XXXXXX";

static const char policy_text[] =
	"version: 1\nrecord: off\n"
	"fs: { /usr: read, /bin: read, /lib: read, /lib64: read, /etc/ld.so.cache: read,"
	" /dev/null: write }\n"
	/* So that the process tier has a cgroup as well. */
	"limits: { memory: 4G }\n";

/* Everything up to the start, so that whoever starts it and this process know the same cgroup. */
static void prepare(const struct scene *scene, uint64_t wall_ms)
{
	static int n;
	char id[40];
	const struct tier_request request = { .policy = &policy,
					      .env = &case_env,
					      .id = id,
					      .temporary = scratch,
					      .weaken = scene->weaken,
					      .lives = true,
					      .terminal = -EBADF };
	struct err err = ERR_NONE;
	uint32_t available;
	int pair[2], r;

	if (scene->way->fail && !BRIG_HAS_TEST_HOOKS) {
		print_message("SKIP: built without test hooks\n");
		skip();
	}
	snprintf(id, sizeof(id), "test-pause-%d-%d", getpid(), n++);
	if (scene->way->fail)
		setenv("BRIG_TEST_FAIL", scene->way->fail, 1);
	available = cgroup_available();
	r = tier_find(scene->isolation)->prepare(&request, &tj, &err);
	unsetenv("BRIG_TEST_FAIL");
	if (r < 0)
		fail_msg("%s", err.text);
	is_prepared = true;
	if (!str_equal(scene->way->mechanism, "signals") && !(available & 1u << CGROUP_FREEZE)) {
		print_message("SKIP: no %s here\n", scene->way->mechanism);
		skip();
	}
	assert_string_equal(pause_mechanism(&tj.jail.cgroup), scene->way->mechanism);
	tj.jail.wall_ms = wall_ms;
	tj.jail.keeps_store = false;
	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	output = pair[0];
	input = pair[1];
	assert_int_equal(fd_set_nonblock(input, 0), 0);
}

/* As the warden does it. */
static int start(const char *script, struct err *err)
{
	static char *script_argv[6];
	char *const envp[] = { (char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL };
	char *const argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t)script, NULL };
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const struct jail_command command = { .argv = argv,
					      .envp = envp,
					      .script_argv = script_argv,
					      .search = "/usr/bin:/bin",
					      .stdio = { null, input, null },
					      .null = null,
					      .terminal = -EBADF,
					      .pass = tj.pass,
					      .program = -EBADF,
					      .channel = -EBADF };
	int r = 0;

	if (tj.is_contained && plan_find(&tj.plan, OP_CGROUP)) {
		tj.janitor = janitor_start(&tj.jail.cgroup, err);
		r = MIN(tj.janitor, 0);
	}
	return r < 0 ? r : keeper_start(&tj.jail, &command, &keeper, err);
}

static void begin(const struct scene *scene, const char *script, uint64_t wall_ms)
{
	struct err err = ERR_NONE;

	prepare(scene, wall_ms);
	if (start(script, &err) < 0) {
		if (geteuid() != 0 && scene->isolation == ISOLATION_CONTAINER) {
			print_message("SKIP: %s\n", err.text);
			skip();
		}
		fail_msg("%s", err.text);
	}
	input = fd_close(input);
}

static int clean_up(void **state)
{
	(void)state;
	unsetenv("BRIG_TEST_FAIL");
	if (other_warden)
		(void)!kill(other_warden, SIGKILL);
	other_warden = 0;
	if (keeper.pid) {
		/* What a test that failed half way has not thawed. */
		(void)!cgroup_kill(&tj.jail.cgroup);
		if (cgroup_has(&tj.jail.cgroup, CGROUP_FREEZE))
			(void)!cgroup_freeze(&tj.jail.cgroup, false, NULL);
		(void)!kill(keeper.pid, SIGKILL);
		(void)!waitpid(keeper.pid, NULL, 0);
		if (!cgroup_has(&tj.jail.cgroup, CGROUP_FREEZE))
			(void)!descendants_kill(TRIES);
	}
	if (is_prepared) {
		(void)!scratch_remove(&tj.jail.scratch);
		tier_jail_done(&tj);
	}
	is_prepared = false;
	keeper.control = fd_close(keeper.control);
	keeper = KEEPER_NONE;
	output = fd_close(output);
	input = fd_close(input);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

/* How many bytes have come since. */
static size_t drain(void)
{
	char text[65536];
	size_t total = 0;
	ssize_t n;

	while ((n = read(output, text, sizeof(text))) > 0)
		total += (size_t)n;
	return total;
}

static void assert_moves(void)
{
	struct keeper_event event = { .code = 0 };
	size_t bytes = 0;

	(void)drain();
	for (int i = 0; i < TRIES && bytes == 0; i++, usleep(1000)) {
		bytes = drain();
		if (keeper_next(&keeper, &event) == 0 && event.news != KEEPER_STOPPED)
			fail_msg("news %d, step %d, code %d", event.news, event.step, event.code);
	}
	assert_true(bytes > 0);
}

static void assert_stands(void)
{
	(void)drain();
	for (int i = 0; i < ROUNDS; i++, usleep(1000))
		assert_int_equal(drain(), 0);
}

static void stand(void)
{
	struct err err = ERR_NONE;

	if (pause_begin(&tj.jail.cgroup, &keeper, &err) < 0)
		fail_msg("%s", err.text);
}

static void go_on(uint64_t left_ms)
{
	struct err err = ERR_NONE;

	if (pause_end(&tj.jail.cgroup, &keeper, left_ms, &err) < 0)
		fail_msg("%s", err.text);
}

static void await_end(struct keeper_event *ret_event)
{
	for (int i = 0; i < TRIES; i++, usleep(1000)) {
		int r = keeper_next(&keeper, ret_event);

		(void)drain();
		if (r == 0)
			fd_close(ret_event->descriptor);
		if (r == 0 && ret_event->news == KEEPER_FINISHED)
			return;
		if (r < 0 && r != -EAGAIN)
			break;
	}
	fail_msg("the keeper did not tell of the end");
}

static const struct wall *wall_of(const char *name)
{
	for (size_t i = 0; i < tj.report.count; i++)
		if (str_equal(tj.report.walls[i].name, name))
			return &tj.report.walls[i];
	fail_msg("no wall \"%s\"", name);
	return NULL;
}

static void it_stands_still_and_goes_on(void **state)
{
	const struct scene *scene = *state;

	begin(scene, FORKING, UINT64_MAX);
	assert_string_equal(wall_of("pause")->mechanism, scene->way->mechanism);
	for (int i = 0; i < 5; i++) {
		assert_moves();
		stand();
		assert_stands();
		go_on(UINT64_MAX);
	}
	assert_moves();
}

/* The keeper of a container is in the cgroup, that of the process tier is not. */
static void its_end_is_told_and_it_does_not_run_again(void **state)
{
	const struct scene *scene = *state;
	struct keeper_event event;
	struct err err = ERR_NONE;
	size_t bytes;

	begin(scene, MANY, UINT64_MAX);
	assert_moves();
	assert_int_equal(cgroup_freezes(&tj.jail.cgroup, keeper.pid),
			 tj.is_contained && cgroup_has(&tj.jail.cgroup, CGROUP_FREEZE));
	stand();
	(void)drain();
	if (pause_kill(&tj.jail.cgroup, &keeper, &err) < 0)
		fail_msg("%s", err.text);
	bytes = 0;
	for (int i = 0; i < TRIES; i++, usleep(1000)) {
		bytes += drain();
		if (keeper_next(&keeper, &event) == 0 && event.news == KEEPER_FINISHED)
			break;
	}
	assert_int_equal(event.news, KEEPER_FINISHED);
	assert_int_equal(event.code, 0);
	assert_int_equal(bytes, 0);
}

/* The keeper's own is a second later than what it is told. */
#define OVER_MS 1500
#define HOUR_MS 3600000

static void its_deadline_moves(void **state)
{
	struct keeper_event event;

	begin(*state, FORKING, 1);
	assert_int_equal(keeper_deadline(&keeper, UINT64_MAX), 0);
	usleep(OVER_MS * 1000);
	assert_moves();
	assert_int_equal(keeper_deadline(&keeper, HOUR_MS), 0);
	assert_moves();
	assert_int_equal(keeper_deadline(&keeper, 0), 0);
	await_end(&event);
	assert_true(event.is_late);
}

/* The old deadline is over when the keeper wakes up, and the new one waits for it. */
static void a_deadline_told_at_the_end_of_the_pause_counts(void **state)
{
	struct keeper_event event;

	begin(*state, FORKING, UINT64_MAX);
	if (!tj.is_contained || !cgroup_has(&tj.jail.cgroup, CGROUP_FREEZE))
		return; /* its keeper is awake, and told at once */
	assert_moves();
	assert_int_equal(keeper_deadline(&keeper, 2000), 0);
	/* Enough for the keeper to read it; if it is not, the test is easier to pass. */
	usleep(100000);
	stand();
	usleep((2000 + OVER_MS) * 1000);
	go_on(HOUR_MS);
	assert_moves();
	stand();
	go_on(0);
	await_end(&event);
	assert_true(event.is_late);
}

static bool moves(void)
{
	for (int i = 0; i < TRIES; i++, usleep(1000))
		if (drain() > 0)
			return true;
	return false;
}

/* ---- a warden that is killed ---- */

#define PIDS_MAX 64

static bool is_gone(pid_t pid)
{
	return tree_is_in(pid, "ZX");
}

static bool has_directories(void)
{
	struct stat st;

	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (tj.jail.cgroup.parent[i] >= 0 &&
		    fstatat(tj.jail.cgroup.parent[i], tj.jail.cgroup.name, &st, 0) == 0)
			return true;
	return false;
}

/* Pauses, tells who is there, and waits to be killed. */
_Noreturn static void be_warden(int told)
{
	static pid_t pids[TREE_MAX];
	struct keeper_event event;
	struct err err = ERR_NONE;
	size_t count;

	if (start(FORKING, &err) < 0)
		_exit(90);
	input = fd_close(input);
	if (!moves()) {
		if (keeper_next(&keeper, &event) == 0)
			print_message("news %d, step %s, code %d\n", event.news,
				      keeper_steps[event.step], event.code);
		_exit(94);
	}
	if (pause_begin(&tj.jail.cgroup, &keeper, &err) < 0)
		_exit(91);
	count = tree_below(keeper.pid, pids);
	if (count >= PIDS_MAX)
		_exit(92);
	pids[count++] = keeper.pid;
	if (write(told, pids, count * sizeof(*pids)) < 0)
		_exit(93);
	for (;;)
		pause();
}

static void a_killed_warden_leaves_nothing(void **state)
{
	pid_t pids[PIDS_MAX];
	size_t count, alive = 0, left = 1;
	int told[2], status;
	ssize_t n;

	prepare(*state, UINT64_MAX);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	other_warden = fork();
	assert_true(other_warden >= 0);
	if (other_warden == 0)
		be_warden(told[1]);
	close(told[1]);
	input = fd_close(input);
	n = read(told[0], pids, sizeof(pids));
	close(told[0]);
	if (n <= 0) {
		waitpid(other_warden, &status, 0);
		if (geteuid() != 0) {
			print_message("SKIP: the sandbox does not start here\n");
			skip();
		}
		fail_msg("the warden ended with %#x", status);
	}
	count = (size_t)n / sizeof(*pids);
	for (size_t i = 0; i < count; i++)
		alive += !is_gone(pids[i]);
	assert_true(alive >= 3); /* the keeper and two shells */
	assert_stands();
	assert_int_equal(kill(other_warden, SIGKILL), 0);
	assert_int_equal(waitpid(other_warden, &status, 0), other_warden);
	other_warden = 0;
	for (int i = 0; i < TRIES && (left > 0 || has_directories()); i++, usleep(1000)) {
		left = 0;
		for (size_t p = 0; p < count; p++)
			left += !is_gone(pids[p]);
	}
	assert_int_equal(left, 0);
	assert_false(has_directories());
	/* And none of them ran once more. */
	assert_int_equal(drain(), 0);
}

/* ---- a warden that has shut itself in ---- */

#define SHOULD(condition)                          \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

_Noreturn static void be_shut_in(void)
{
	const struct seclusion seclusion = { .cgroup = &tj.jail.cgroup,
					     .scratch = tj.jail.scratch.dir };
	struct usage before, after;

	if (start(FORKING, NULL) < 0)
		_exit(0); /* as told by the other tests */
	SHOULD(moves());
	SHOULD(seclude(&seclusion) == 0);
	for (int i = 0; i < 3; i++) {
		SHOULD(moves());
		SHOULD(pause_begin(&tj.jail.cgroup, &keeper, NULL) == 0);
		(void)drain();
		usage_read(&tj.jail.cgroup, keeper.pid, &before);
		usleep(ROUNDS * 1000);
		usage_read(&tj.jail.cgroup, keeper.pid, &after);
		SHOULD(drain() == 0);
		SHOULD(before.processes >= 1 && before.processes < PIDS_MAX);
		SHOULD(after.processes == before.processes);
		SHOULD(before.all == before.processes + 2);
		SHOULD(before.memory > 0 && before.memory < GIB);
		if (cgroup_has(&tj.jail.cgroup, CGROUP_PIDS))
			/* Also those that have ended and were not asked for yet. */
			SHOULD(after.tasks > after.processes && after.tasks < PIDS_MAX);
		else
			SHOULD(after.tasks == USAGE_UNKNOWN);
		if (cgroup_has(&tj.jail.cgroup, CGROUP_CPUACCT))
			SHOULD(before.cpu_us > 0 && after.cpu_us >= before.cpu_us);
		SHOULD(pause_end(&tj.jail.cgroup, &keeper, UINT64_MAX, NULL) == 0);
	}
	SHOULD(moves());
	SHOULD(pause_begin(&tj.jail.cgroup, &keeper, NULL) == 0);
	SHOULD(pause_kill(&tj.jail.cgroup, &keeper, NULL) == 0);
	for (int i = 0; i < TRIES && !is_gone(keeper.pid); i++)
		usleep(1000);
	SHOULD(is_gone(keeper.pid));
	_exit(0);
}

static void it_works_from_a_warden_that_has_shut_itself_in(void **state)
{
	int status;

	prepare(*state, UINT64_MAX);
	other_warden = fork();
	assert_true(other_warden >= 0);
	if (other_warden == 0)
		be_shut_in();
	assert_int_equal(waitpid(other_warden, &status, 0), other_warden);
	other_warden = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("line %d (of each 250) was not as it should be, status %x",
			 WEXITSTATUS(status) - 1, status);
}

/* ---- usage ---- */

static void what_it_uses_is_counted(void **state)
{
	struct usage first = { 0 }, later = { 0 };

	begin(*state, "sleep 600 & sleep 600 & while :; do echo a; done", UINT64_MAX);
	assert_moves();
	/* The shell, which is the first process, has two children, and the keeper is not one. What
	 * the keeper had beside it for its start ends by itself. */
	for (int i = 0; i < TRIES && first.processes != 2; i++, usleep(1000)) {
		(void)drain();
		usage_read(&tj.jail.cgroup, keeper.pid, &first);
	}
	assert_int_equal(first.processes, 2);
	assert_int_equal(first.all, 4);
	for (int i = 0; i < TRIES && later.cpu_us <= first.cpu_us; i++, usleep(1000)) {
		(void)drain();
		usage_read(&tj.jail.cgroup, keeper.pid, &later);
	}
	assert_true(later.cpu_us > first.cpu_us);
	assert_true(first.memory > 0 && first.memory < GIB);
	if (cgroup_has(&tj.jail.cgroup, CGROUP_MEMORY)) {
		if (later.memory_peak != USAGE_UNKNOWN)
			assert_true(later.memory_peak >= first.memory);
		assert_int_equal(first.memory_limit, cgroup_has(&tj.jail.cgroup, CGROUP_MEMORY)
							     ? 4 * GIB
							     : USAGE_UNKNOWN);
		assert_int_equal(cgroup_limit(&tj.jail.cgroup, CGROUP_MEMORY, 512 * MIB, NULL), 0);
		usage_read(&tj.jail.cgroup, keeper.pid, &later);
		assert_int_equal(later.memory_limit, 512 * MIB);
	} else {
		assert_int_equal(first.memory_peak, USAGE_UNKNOWN);
		assert_int_equal(first.memory_limit, cgroup_has(&tj.jail.cgroup, CGROUP_MEMORY)
							     ? 4 * GIB
							     : USAGE_UNKNOWN);
	}
}

static int set_up(void **state)
{
	static const enum isolation isolations[] = { ISOLATION_CONTAINER, ISOLATION_PROCESS };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(scenes) - 1; i++)
		scenes[i] = (struct scene){ isolations[i / ARRAY_SIZE(ways)],
					    &ways[i % ARRAY_SIZE(ways)], 0 };
	scenes[ARRAY_SIZE(scenes) - 1] =
		(struct scene){ ISOLATION_PROCESS, &ways[ARRAY_SIZE(ways) - 1], WEAKEN_SIGNALS };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	case_parse(policy_text, &policy);
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0)
		return -1;
	setenv("XDG_STATE_HOME", scratch, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	policy_done(&policy);
	return rmdir(scratch);
}

#define TEST(f, n)                                        \
	{                                                 \
#f ", " #n, f, NULL, clean_up, &scenes[n] \
	}
#define ALL(f) TEST(f, 0), TEST(f, 1), TEST(f, 2), TEST(f, 3), TEST(f, 4), TEST(f, 5)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(it_stands_still_and_goes_on),
		TEST(it_stands_still_and_goes_on, 6),
		ALL(its_end_is_told_and_it_does_not_run_again),
		TEST(its_end_is_told_and_it_does_not_run_again, 6),
		ALL(its_deadline_moves),
		ALL(a_deadline_told_at_the_end_of_the_pause_counts),
		ALL(a_killed_warden_leaves_nothing),
		ALL(it_works_from_a_warden_that_has_shut_itself_in),
		ALL(what_it_uses_is_counted),
	};

	cmocka_set_test_filter(getenv("ONLY"));
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
