#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hook.h"
#include "policy_case.h"
#include "tier/limits.h"

/* With the hook every cgroup is refused, so nothing is made and the fallbacks show. */
static int prepare(const char *text, struct tier_jail *pj, struct err *err)
{
	struct policy policy;
	int r;

	*pj = (struct tier_jail){ .jail.cgroup = CGROUP_NONE };
	case_parse(text, &policy);
	setenv("BRIG_TEST_FAIL", "cgroup=95", 1);
	r = limits_prepare(&policy.limits, "test", pj, err);
	unsetenv("BRIG_TEST_FAIL");
	policy_done(&policy);
	return r;
}

static const struct wall *wall_of(const struct tier_jail *pj, const char *name)
{
	for (size_t i = 0; i < pj->report.count; i++)
		if (str_equal(pj->report.walls[i].name, name))
			return &pj->report.walls[i];
	fail_msg("no wall \"%s\"", name);
	return NULL;
}

static const struct jail_rlimit *rlimit_of(const struct tier_jail *pj, int resource)
{
	for (unsigned int i = 0; i < pj->jail.rlimit_count; i++)
		if (pj->jail.rlimits[i].resource == resource)
			return &pj->jail.rlimits[i];
	fail_msg("no limit of resource %d", resource);
	return NULL;
}

static void need_hooks(void)
{
	if (!BRIG_HAS_TEST_HOOKS) {
		print_message("a build without hooks\n");
		skip();
	}
}

static void no_limits(void **state)
{
	struct tier_jail pj;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(prepare("version: 1\n", &pj, &err), 0);
	assert_int_equal(pj.report.count, 0);
	assert_int_equal(pj.jail.rlimit_count, 0);
	assert_int_equal(pj.watch.memory + pj.watch.cpu_time, 0);
	assert_false(pj.jail.has_affinity);
}

static const char *pids_value(const char *text, bool lives, bool is_contained)
{
	static struct tier_jail pj;
	struct err err = ERR_NONE;
	struct policy policy;

	pj = (struct tier_jail){ .jail.cgroup = CGROUP_NONE,
				 .lives = lives,
				 .is_contained = is_contained };
	case_parse(text, &policy);
	setenv("BRIG_TEST_FAIL", "cgroup=95", 1);
	assert_int_equal(limits_prepare(&policy.limits, "test", &pj, &err), 0);
	unsetenv("BRIG_TEST_FAIL");
	policy_done(&policy);
	assert_int_equal(rlimit_of(&pj, RLIMIT_NPROC)->hard, 20 + is_contained + lives);
	return wall_of(&pj, "pids")->value;
}

/* Neither the keeper nor init is one of those that were asked for. */
static void what_is_ours_does_not_count(void **state)
{
	(void)state;
	need_hooks();
	assert_string_equal(pids_value("version: 1\nlimits: { pids: 20 }\n", false, true), "20");
	assert_string_equal(pids_value("version: 1\nlimits: { pids: 20 }\n", true, true), "20");
}

/* A policy without limits. */
static void live(bool without_cgroups, bool is_contained, struct tier_jail *pj)
{
	struct err err = ERR_NONE;
	struct policy policy;
	char id[40];

	snprintf(id, sizeof(id), "test-limits-%d", getpid());
	*pj = (struct tier_jail){ .jail.cgroup = CGROUP_NONE,
				  .lives = true,
				  .is_contained = is_contained };
	case_parse("version: 1\n", &policy);
	if (without_cgroups)
		setenv("BRIG_TEST_FAIL", "cgroup=95", 1);
	assert_int_equal(limits_prepare(&policy.limits, id, pj, &err), 0);
	unsetenv("BRIG_TEST_FAIL");
	policy_done(&policy);
}

static void who_lives_gets_what_there_is(void **state)
{
	uint32_t available = cgroup_available();
	struct tier_jail pj;

	(void)state;
	live(false, true, &pj);
	assert_int_equal(cgroup_has(&pj.jail.cgroup, CGROUP_FREEZE),
			 (available >> CGROUP_FREEZE) & 1);
	/* Each hierarchy of v1 would cost milliseconds; on v2 they come with it. */
	if (cgroup_has(&pj.jail.cgroup, CGROUP_MEMORY))
		assert_true(pj.jail.cgroup.is_v2[CGROUP_MEMORY]);
	assert_int_equal(str_starts(wall_of(&pj, "pause")->mechanism, "cgroup v"),
			 cgroup_has(&pj.jail.cgroup, CGROUP_FREEZE));
	cgroup_done(&pj.jail.cgroup);
}

/* It would have to be moved there. */
static void the_process_tier_is_paused_by_signals(void **state)
{
	struct tier_jail pj;

	(void)state;
	live(false, false, &pj);
	assert_int_equal(cgroup_v2_fd(&pj.jail.cgroup), -EBADF);
	assert_string_equal(wall_of(&pj, "pause")->mechanism, "signals");
}

static void who_lives_starts_without_cgroups_too(void **state)
{
	struct tier_jail pj;

	(void)state;
	need_hooks();
	live(true, true, &pj);
	assert_int_equal(cgroup_v2_fd(&pj.jail.cgroup), -EBADF);
	assert_string_equal(wall_of(&pj, "pause")->mechanism, "signals");
	assert_non_null(strstr(wall_of(&pj, "pause")->value, "stopped before"));
	assert_int_equal(pj.report.count, 1);
}

static void what_needs_no_cgroup(void **state)
{
	struct tier_jail pj;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(
		prepare("version: 1\nlimits: { wall: 90s, output: 64K, disk: 1M, files: 20 }\n",
			&pj, &err),
		0);
	assert_string_equal(wall_of(&pj, "wall")->mechanism, "timer of the warden");
	assert_string_equal(wall_of(&pj, "output")->value, "64K");
	assert_int_equal(rlimit_of(&pj, RLIMIT_FSIZE)->soft, MIB);
	assert_int_equal(rlimit_of(&pj, RLIMIT_FSIZE)->hard, MIB);
	/* The report does not promise more than holds. */
	assert_non_null(strstr(wall_of(&pj, "disk")->value, "each file"));
	assert_int_equal(rlimit_of(&pj, RLIMIT_NOFILE)->soft, 20);
	assert_int_equal(rlimit_of(&pj, RLIMIT_NOFILE)->hard, 20);
	assert_int_equal(pj.report.count, 4);
}

static void without_a_cgroup(void **state)
{
	struct tier_jail pj;
	struct err err = ERR_NONE;

	(void)state;
	need_hooks();
	assert_int_equal(
		prepare("version: 1\nlimits: { memory: 64M, cpu_time: 1500ms }\n", &pj, &err), 0);
	assert_int_equal(rlimit_of(&pj, RLIMIT_DATA)->hard, 64 * MIB);
	assert_int_equal(pj.watch.memory, 64 * MIB);
	assert_string_equal(wall_of(&pj, "memory")->mechanism, "rlimit and watch");
	/* Whole seconds, rounded up, and one more before the end. */
	assert_int_equal(rlimit_of(&pj, RLIMIT_CPU)->soft, 2);
	assert_int_equal(rlimit_of(&pj, RLIMIT_CPU)->hard, 3);
	assert_int_equal(pj.watch.cpu_time, 1500);
	assert_string_equal(wall_of(&pj, "cpu_time")->mechanism, "rlimit and watch");
}

static void cpus_without_a_cgroup(void **state)
{
	struct tier_jail pj;
	struct err err = ERR_NONE;

	(void)state;
	need_hooks();
	assert_int_equal(prepare("version: 1\nlimits: { cpu: 1 }\n", &pj, &err), 0);
	assert_true(pj.jail.has_affinity);
	assert_int_equal(CPU_COUNT(&pj.jail.affinity), 1);
	assert_string_equal(wall_of(&pj, "cpu")->mechanism, "CPU affinity");
	assert_true(prepare("version: 1\nlimits: { cpu: 0.5 }\n", &pj, &err) < 0);
	assert_non_null(strstr(err.text, "limits.cpu: a fraction of a CPU cannot be enforced"));
}

static void processes_without_a_cgroup(void **state)
{
	struct tier_jail pj;
	struct err err = ERR_NONE;
	int r;

	(void)state;
	need_hooks();
	r = prepare("version: 1\nlimits: { pids: 5 }\n", &pj, &err);
	if (getuid() == 0) {
		assert_true(r < 0);
		assert_non_null(strstr(err.text, "limits.pids cannot be enforced for root"));
	} else {
		assert_int_equal(r, 0);
		/* This test is one of the tasks that are there already. */
		assert_true(rlimit_of(&pj, RLIMIT_NPROC)->soft >= 6);
	}
}

/* What the caller's own hard limit does not allow is refused, not shortened. */
static void above_the_hard_limit(void **state)
{
	struct rlimit before;
	struct tier_jail pj;
	struct err err = ERR_NONE;
	char text[60];
	int r;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	if (before.rlim_max == RLIM_INFINITY)
		skip();
	snprintf(text, sizeof(text), "version: 1\nlimits: { files: %llu }\n",
		 (unsigned long long)before.rlim_max + 1);
	r = prepare(text, &pj, &err);
	assert_int_equal(r, -EPERM);
	assert_non_null(strstr(err.text, "limits.files: "));
	assert_non_null(strstr(err.text, "hard limit"));
	snprintf(text, sizeof(text), "version: 1\nlimits: { files: %llu }\n",
		 (unsigned long long)before.rlim_max);
	assert_int_equal(prepare(text, &pj, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ours_does_not_count),
		cmocka_unit_test(who_lives_gets_what_there_is),
		cmocka_unit_test(the_process_tier_is_paused_by_signals),
		cmocka_unit_test(who_lives_starts_without_cgroups_too),
		cmocka_unit_test(no_limits),
		cmocka_unit_test(what_needs_no_cgroup),
		cmocka_unit_test(without_a_cgroup),
		cmocka_unit_test(cpus_without_a_cgroup),
		cmocka_unit_test(processes_without_a_cgroup),
		cmocka_unit_test(above_the_hard_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
