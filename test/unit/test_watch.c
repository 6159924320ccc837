#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "warden/watch.h"

/*
 * A keeper with something below it. It says one byte when all is in place, and everything ends with
 * the pipe that this test holds.
 */
struct tree {
	pid_t keeper;
	int ready, hold;
};

static void wait_for_the_end(int hold)
{
	char byte;

	while (read(hold, &byte, 1) > 0)
		;
	_exit(0);
}

static char *fill(size_t size, int sharing)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	/* Not all the same, so that no kernel merges it. */
	for (size_t i = 0; i < size; i += 4096)
		memcpy(p + i, &i, sizeof(i));
	return p;
}

static void say_ready(int ready)
{
	if (write(ready, "r", 1) != 1)
		_exit(1);
}

/* keep runs as the keeper, with the ends of the pipes. */
static void tree_start(struct tree *tree, void (*keep)(int ready, int hold))
{
	int ready[2], hold[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	tree->keeper = fork();
	assert_true(tree->keeper >= 0);
	if (tree->keeper == 0) {
		close(hold[1]);
		keep(ready[1], hold[0]);
		wait_for_the_end(hold[0]);
	}
	close(ready[1]);
	close(hold[0]);
	tree->ready = ready[0];
	tree->hold = hold[1];
	assert_int_equal(read(tree->ready, &byte, 1), 1);
}

static void tree_end(struct tree *tree)
{
	close(tree->hold);
	close(tree->ready);
	assert_int_equal(waitpid(tree->keeper, NULL, 0), tree->keeper);
}

static bool memory_over(const struct tree *tree, uint64_t limit)
{
	const struct tier_watch watch = { .memory = limit };

	return watch_memory_is_over(&watch, tree->keeper);
}

static bool cpu_over(const struct tree *tree, uint64_t limit)
{
	const struct tier_watch watch = { .cpu_time = limit };
	const struct cgroup none = CGROUP_NONE;

	return watch_cpu_is_over(&watch, &none, tree->keeper);
}

/* One below another, the last with 128 MiB. */
static void keep_grandchild(int ready, int hold)
{
	if (fork() == 0) {
		if (fork() == 0) {
			fill(128 * MIB, MAP_PRIVATE);
			say_ready(ready);
		}
		wait_for_the_end(hold);
	}
}

static void memory_of_a_tree(void **state)
{
	struct tree tree;

	(void)state;
	tree_start(&tree, keep_grandchild);
	assert_true(memory_over(&tree, 64 * MIB));
	assert_false(memory_over(&tree, 2 * GIB));
	tree_end(&tree);
}

/* Four of 64 MiB each: no single one is over. */
static void keep_siblings(int ready, int hold)
{
	int done[2];
	char byte;

	if (pipe(done) < 0)
		_exit(1);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			fill(64 * MIB, MAP_PRIVATE);
			say_ready(done[1]);
			wait_for_the_end(hold);
		}
	for (int i = 0; i < 4; i++)
		if (read(done[0], &byte, 1) != 1)
			_exit(1);
	say_ready(ready);
}

static void memory_is_summed(void **state)
{
	struct tree tree;

	(void)state;
	tree_start(&tree, keep_siblings);
	assert_true(memory_over(&tree, 240 * MIB));
	assert_false(memory_over(&tree, 2 * GIB));
	tree_end(&tree);
}

/* Five with the same 128 MiB: 640 resident, 128 in truth. */
static void keep_sharers(int ready, int hold)
{
	char *shared = fill(128 * MIB, MAP_SHARED);
	int done[2];
	char byte;

	if (pipe(done) < 0)
		_exit(1);
	for (int i = 0; i < 5; i++)
		if (fork() == 0) {
			for (size_t k = 0; k < 128 * MIB; k += 4096)
				shared[k + 100] = 1;
			say_ready(done[1]);
			wait_for_the_end(hold);
		}
	for (int i = 0; i < 5; i++)
		if (read(done[0], &byte, 1) != 1)
			_exit(1);
	say_ready(ready);
}

static void shared_memory_counts_once(void **state)
{
	struct tree tree;

	(void)state;
	tree_start(&tree, keep_sharers);
	assert_false(memory_over(&tree, 512 * MIB));
	tree_end(&tree);
}

static void keep_nothing(int ready, int hold)
{
	(void)hold;
	fill(128 * MIB, MAP_PRIVATE);
	say_ready(ready);
}

static void the_keeper_itself_does_not_count(void **state)
{
	struct tree tree;

	(void)state;
	tree_start(&tree, keep_nothing);
	assert_false(memory_over(&tree, 1));
	tree_end(&tree);
	/* Nor does one that is gone. */
	assert_false(memory_over(&tree, 1));
	assert_false(cpu_over(&tree, 0));
}

static void burn(int ms)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

static void keep_busy(int ready, int hold)
{
	if (fork() == 0) {
		burn(300);
		say_ready(ready);
		wait_for_the_end(hold);
	}
}

static void keep_reaped(int ready, int hold)
{
	pid_t pid = fork();

	(void)hold;
	if (pid == 0) {
		burn(300);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	say_ready(ready);
}

static void cpu_time_of_the_living_and_the_dead(void **state)
{
	void (*const keeps[])(int, int) = { keep_busy, keep_reaped };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++) {
		struct tree tree;

		tree_start(&tree, keeps[i]);
		assert_true(cpu_over(&tree, 200));
		/* What was used is bounded by what the test used, which is far from an hour. */
		assert_false(cpu_over(&tree, 3600000));
		tree_end(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_of_a_tree),
		cmocka_unit_test(memory_is_summed),
		cmocka_unit_test(shared_memory_counts_once),
		cmocka_unit_test(the_keeper_itself_does_not_count),
		cmocka_unit_test(cpu_time_of_the_living_and_the_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
