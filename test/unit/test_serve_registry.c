/* The registry with a store of its own and without a single warden: test/serve has those. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "serve/registry.h"
#include "serve/serve.h"

static char home[64];
static struct serve serve;

static int set_up(void **state)
{
	const struct fleet_setup setup = { .brig = "/bin/true" };

	(void)state;
	snprintf(home, sizeof(home), "/tmp/brig-registry-XXXXXX");
	assert_non_null(mkdtemp(home));
	setenv("XDG_STATE_HOME", home, 1);
	serve = (struct serve){ 0 };
	assert_int_equal(loop_new(&serve.loop), 0);
	assert_int_equal(store_open(&serve.store, NULL), 0);
	assert_int_equal(fleet_new(serve.loop, &setup, &serve.fleet, NULL), 0);
	assert_int_equal(registry_new(&serve, &serve.registry, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	registry_free(serve.registry);
	fleet_free(serve.fleet);
	store_close(serve.store);
	loop_free(serve.loop);
	snprintf(command, sizeof(command), "rm -rf %s", home);
	return system(command);
}

static void turn_for(uint64_t ms)
{
	uint64_t end = clock_ms() + ms;

	do
		assert_true(loop_turn(serve.loop, 5) >= 0);
	while (clock_ms() < end);
}

static struct held held_of(const char *id, const char *tenant, uint64_t started)
{
	struct held held = { .template_id = strdup("base"),
			     .alias = strdup(""),
			     .metadata = strdup("{\"a\":\"b\"}"),
			     .env = strdup(""),
			     .network = strdup(""),
			     .extra = strdup(""),
			     .started = started,
			     .cpu = 1,
			     .memory = 512 * MIB,
			     .disk = 1 * GIB };

	snprintf(held.id, sizeof(held.id), "%s", id);
	snprintf(held.tenant, sizeof(held.tenant), "%s", tenant);
	return held;
}

static void add(const char *id, const char *tenant, uint64_t started)
{
	struct held held = held_of(id, tenant, started);

	assert_int_equal(registry_add(serve.registry, &held, NULL), 0);
	assert_null(held.metadata);
}

static void test_found_by_tenant_and_in_order(void **state)
{
	struct held twice = held_of("aaaaaaaaaaaa", "acme", 1);

	(void)state;
	add("aaaaaaaaaaaa", "acme", 10);
	add("cccccccccccc", "acme", 30);
	add("bbbbbbbbbbbb", "other", 20);
	assert_non_null(registry_find(serve.registry, "aaaaaaaaaaaa", "acme"));
	assert_non_null(registry_find(serve.registry, "aaaaaaaaaaaa", NULL));
	assert_null(registry_find(serve.registry, "aaaaaaaaaaaa", "other"));
	assert_null(registry_find(serve.registry, "dddddddddddd", NULL));
	assert_int_equal(registry_count(serve.registry, NULL), 3);
	assert_int_equal(registry_count(serve.registry, "acme"), 2);
	assert_string_equal(registry_at(serve.registry, 0)->id, "cccccccccccc");
	assert_string_equal(registry_at(serve.registry, 1)->id, "bbbbbbbbbbbb");
	assert_string_equal(registry_at(serve.registry, 2)->id, "aaaaaaaaaaaa");
	assert_null(registry_at(serve.registry, 3));
	assert_int_equal(registry_add(serve.registry, &twice, NULL), -EEXIST);
	registry_remove(serve.registry, "bbbbbbbbbbbb");
	assert_string_equal(registry_at(serve.registry, 1)->id, "aaaaaaaaaaaa");
	assert_int_equal(registry_count(serve.registry, NULL), 2);
}

static size_t rows(void)
{
	struct held *held = NULL;
	size_t count = 0;

	assert_int_equal(store_list_held(serve.store, &held, &count), 0);
	for (size_t i = 0; i < count; i++)
		held_done(&held[i]);
	free(held);
	return count;
}

static void test_the_store_has_it(void **state)
{
	size_t adopted, dropped;

	(void)state;
	add("aaaaaaaaaaaa", "acme", 10);
	add("bbbbbbbbbbbb", "acme", 20);
	assert_int_equal(rows(), 2);
	registry_remove(serve.registry, "aaaaaaaaaaaa");
	assert_int_equal(rows(), 1);
	/* Neither lives: the next start drops what is left. */
	registry_free(serve.registry);
	assert_int_equal(registry_new(&serve, &serve.registry, NULL), 0);
	assert_int_equal(registry_load(serve.registry, &adopted, &dropped, NULL), 0);
	assert_int_equal(adopted, 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(rows(), 0);
}

static void done(void *of, const struct err *err)
{
	*(int *)of = err->code ? err->code : 1;
}

/* No file may grow: the disk is full. */
static void fill_disk(bool is_full)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = is_full ? 0 : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_change_that_the_store_refuses(void **state)
{
	struct held *held, another = held_of("bbbbbbbbbbbb", "acme", 20);
	struct err err = ERR_NONE;
	int result = 0;

	(void)state;
	add("aaaaaaaaaaaa", "acme", 10);
	turn_for(5);
	held = registry_find(serve.registry, "aaaaaaaaaaaa", NULL);
	free(held->metadata);
	held->metadata = strdup("{}");
	held->ends = (uint64_t)time(NULL) * 2000;
	assert_int_equal(registry_save(serve.registry, held, NULL), 0);
	fill_disk(true);
	free(held->metadata);
	held->metadata = strdup("{\"c\":\"d\"}");
	held->ends = 0;
	held->state = HELD_PAUSED;
	assert_true(registry_save(serve.registry, held, NULL) < 0);
	assert_string_equal(held->metadata, "{}");
	assert_int_not_equal(held->ends, 0);
	assert_int_equal(held->state, HELD_RUNNING);
	assert_true(registry_add(serve.registry, &another, NULL) < 0);
	assert_null(another.metadata);
	assert_int_equal(registry_count(serve.registry, NULL), 1);
	/* Nothing is asked of a warden that would not be remembered. */
	assert_true(registry_pause(serve.registry, "aaaaaaaaaaaa", done, &result, &err) < 0);
	assert_int_equal(held->state, HELD_RUNNING);
	fill_disk(false);
	turn_for(5);
	assert_int_equal(result, 0);
	held->ends = 0;
	assert_int_equal(registry_save(serve.registry, held, NULL), 0);
}

static void count(void *of)
{
	(*(unsigned int *)of)++;
}

static void test_watchers_are_told_once(void **state)
{
	unsigned int told = 0, never = 0;
	registry_watch watch[100], gone;

	(void)state;
	add("aaaaaaaaaaaa", "acme", 10);
	assert_int_equal(registry_on_end(serve.registry, "bbbbbbbbbbbb", count, &told, &gone),
			 -ESRCH);
	for (size_t i = 0; i < ARRAY_SIZE(watch); i++)
		assert_int_equal(registry_on_end(serve.registry, "aaaaaaaaaaaa", count,
						 i % 2 ? &told : &never, &watch[i]),
				 0);
	for (size_t i = 0; i < ARRAY_SIZE(watch); i += 4)
		watch[i] = registry_forget(serve.registry, watch[i]);
	registry_remove(serve.registry, "aaaaaaaaaaaa");
	assert_int_equal(told, 0);
	/* Between the end and the telling. */
	for (size_t i = 2; i < ARRAY_SIZE(watch); i += 4)
		watch[i] = registry_forget(serve.registry, watch[i]);
	turn_for(10);
	assert_int_equal(told, 50);
	assert_int_equal(never, 0);
	for (size_t i = 0; i < ARRAY_SIZE(watch); i++)
		assert_int_equal(registry_forget(serve.registry, watch[i]), 0);
}

/* --- quotas --- */

static int reserve(const struct tenant *tenant, double cpu, uint64_t memory, uint64_t disk,
		   unsigned int *wait_s)
{
	struct err err = ERR_NONE;
	int r = registry_reserve(serve.registry, tenant, cpu, memory, disk, wait_s, &err);

	assert_true((r < 0) == (err.text[0] != '\0'));
	return r;
}

static void test_each_quota(void **state)
{
	const struct tenant tenants[] = {
		{ .name = "a", .max_sandboxes = 2 },
		{ .name = "b", .max_cpu = 2 },
		{ .name = "c", .max_memory = 1 * GIB },
		{ .name = "d", .max_disk = 2 * GIB },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tenants); i++) {
		unsigned int wait_s = 0;
		char id[] = "aaaaaaaaaaaa";
		struct usage usage;

		id[0] = (char)('a' + i);
		/* One that lives, one that is being made; a third does not fit. */
		add(id, tenants[i].name, i);
		assert_int_equal(reserve(&tenants[i], 1, 512 * MIB, 1 * GIB, &wait_s), 0);
		assert_int_equal(reserve(&tenants[i], 1, 512 * MIB, 1 * GIB, &wait_s), -EDQUOT);
		assert_in_range(wait_s, 1, 61);
		registry_usage(serve.registry, tenants[i].name, &usage);
		assert_int_equal(usage.sandboxes, 2);
		assert_int_equal(usage.memory, 1 * GIB);
		/* Nothing is as much as everything. */
		registry_unreserve(serve.registry, tenants[i].name, 1, 512 * MIB, 1 * GIB);
		assert_int_equal(reserve(&tenants[i], 1, UINT64_MAX, UINT64_MAX, &wait_s),
				 tenants[i].max_memory || tenants[i].max_disk ? -EDQUOT : 0);
	}
}

static void test_room_is_told_from_the_time_that_is_left(void **state)
{
	const struct tenant tenant = { .name = "acme", .max_sandboxes = 1 };
	unsigned int wait_s = 0;
	struct held *held;

	(void)state;
	add("aaaaaaaaaaaa", "acme", 1);
	held = registry_find(serve.registry, "aaaaaaaaaaaa", NULL);
	held->ends = (uint64_t)time(NULL) * 1000 + 20000;
	assert_int_equal(registry_save(serve.registry, held, NULL), 0);
	assert_int_equal(reserve(&tenant, 0, 0, 0, &wait_s), -EDQUOT);
	assert_in_range(wait_s, 18, 21);
}

static void test_the_rate(void **state)
{
	struct tenant tenant = { .name = "acme", .create_rate = 100 };
	unsigned int wait_s = 0, made = 0;

	(void)state;
	turn_for(0);
	while (made < 5000 && reserve(&tenant, 0, 0, 0, &wait_s) == 0)
		made++;
	/* Ten seconds' worth, and what came meanwhile. */
	assert_in_range(made, 1000, 1200);
	assert_int_equal(wait_s, 1);
	turn_for(60);
	for (int i = 0; i < 3; i++)
		assert_int_equal(reserve(&tenant, 0, 0, 0, &wait_s), 0);
	tenant.create_rate = 0.01;
	snprintf(tenant.name, sizeof(tenant.name), "slow");
	assert_int_equal(reserve(&tenant, 0, 0, 0, &wait_s), 0);
	assert_int_equal(reserve(&tenant, 0, 0, 0, &wait_s), -EDQUOT);
	assert_in_range(wait_s, 99, 101);
}

/* --- changes of one that is not there --- */

static void test_nothing_to_change(void **state)
{
	struct err err = ERR_NONE;
	int result = 0;

	(void)state;
	assert_int_equal(registry_kill(serve.registry, "aaaaaaaaaaaa", done, &result, &err),
			 -ESRCH);
	assert_int_equal(registry_pause(serve.registry, "aaaaaaaaaaaa", done, &result, &err),
			 -ESRCH);
	turn_for(5);
	assert_int_equal(result, 0);
}

/* Its warden is gone, and nobody has said so yet. */
static void test_changes_that_the_warden_does_not_hear(void **state)
{
	struct err err = ERR_NONE;
	int result = 0;

	(void)state;
	add("aaaaaaaaaaaa", "acme", 1);
	turn_for(5);
	assert_int_equal(registry_pause(serve.registry, "aaaaaaaaaaaa", done, &result, &err), 0);
	assert_int_equal(result, 0);
	turn_for(5);
	assert_int_equal(result, -ESRCH);
	assert_int_equal(registry_find(serve.registry, "aaaaaaaaaaaa", NULL)->state, HELD_RUNNING);
	result = 0;
	assert_int_equal(registry_kill(serve.registry, "aaaaaaaaaaaa", done, &result, &err), 0);
	assert_null(registry_find(serve.registry, "aaaaaaaaaaaa", NULL));
	turn_for(5);
	assert_int_equal(result, 1);
	assert_int_equal(rows(), 0);
}

static void test_time_is_over(void **state)
{
	struct held held = held_of("aaaaaaaaaaaa", "acme", 1);

	(void)state;
	held.ends = 1;
	assert_int_equal(registry_add(serve.registry, &held, NULL), 0);
	turn_for(20);
	assert_int_equal(registry_count(serve.registry, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_by_tenant_and_in_order, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_the_store_has_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_change_that_the_store_refuses, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_watchers_are_told_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_each_quota, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_room_is_told_from_the_time_that_is_left,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_rate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_to_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changes_that_the_warden_does_not_hear, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_time_is_over, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
