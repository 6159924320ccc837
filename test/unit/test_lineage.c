/* Which execve a process comes from, with real processes. */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail/lineage.h"

static struct lineage lineage;

/* Each time so much later that it is looked up anew. */
static uint32_t number_of(pid_t pid)
{
	static uint64_t now;

	now += 10000000;
	return lineage_of(&lineage, pid, now);
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void what_executed_nothing_has_its_parents_number(void **state)
{
	int ends[2];
	pid_t child, grandchild;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		grandchild = fork();
		if (grandchild != 0 && write(ends[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(number_of(child), 0);
	assert_int_equal(lineage_exec(&lineage, child), 1);
	assert_int_equal(number_of(child), 1);
	assert_int_equal(number_of(grandchild), 1);
	assert_int_equal(lineage_exec(&lineage, grandchild), 2);
	assert_int_equal(number_of(grandchild), 2);
	assert_int_equal(number_of(child), 1);
	kill(grandchild, SIGKILL);
	end(child);
	close(ends[0]);
	close(ends[1]);
}

/* A number of a process that is gone means nothing, and the next that has it starts anew. */
static void the_dead_are_forgotten(void **state)
{
	pid_t pid = sleeper();
	uint32_t number = lineage_exec(&lineage, pid);

	(void)state;
	assert_int_equal(number_of(pid), number);
	end(pid);
	assert_int_equal(number_of(pid), 0);
}

/* More processes than there are slots: the number is right, or that of an ancestor. */
static void many(void **state)
{
	enum { COUNT = LINEAGE_SLOTS + 100 };
	pid_t pids[COUNT];
	uint32_t numbers[COUNT];

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		pids[i] = sleeper();
		numbers[i] = lineage_exec(&lineage, pids[i]);
	}
	for (size_t i = COUNT - LINEAGE_SLOTS; i < COUNT; i++)
		assert_true(number_of(pids[i]) == numbers[i] || number_of(pids[i]) == 0);
	for (size_t i = 0; i < COUNT; i++)
		end(pids[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_executed_nothing_has_its_parents_number),
		cmocka_unit_test(the_dead_are_forgotten),
		cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
