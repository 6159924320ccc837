/* Which execve a process comes from, with real processes. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
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

/* A process that waits, and executes a program when it is told to: 'x' one, 's' a shell that starts
 * another and tells its number, otherwise none that exists. */
struct process {
	pid_t pid;
	int orders, news;
};

static struct process sleeper(void)
{
	int orders[2], news[2];
	struct process p;
	char order;

	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(news, O_CLOEXEC), 0);
	p = (struct process){ fork(), orders[1], news[0] };
	assert_true(p.pid >= 0);
	if (p.pid == 0) {
		close(orders[1]);
		close(news[0]);
		while (read(orders[0], &order, 1) == 1) {
			if (order == 's' && dup2(news[1], STDOUT_FILENO) >= 0)
				execl("/bin/sh", "sh", "-c", "sleep 1000 & printf %8d $!; wait",
				      NULL);
			execl(order == 'x' ? "/bin/sleep" : "/nowhere", "sleep", "1000", NULL);
			if (write(news[1], "failed", 6) < 0)
				break;
		}
		_exit(0);
	}
	close(orders[0]);
	close(news[1]);
	return p;
}

/* Asks for a number and executes, as under a filter: true when it was done. */
static bool executes(const struct process *p, char order, uint32_t *ret_number)
{
	char news[6];

	*ret_number = lineage_exec(&lineage, p->pid);
	assert_int_equal(write(p->orders, &order, 1), 1);
	/* Closed by the execve. */
	return read(p->news, news, sizeof(news)) == 0;
}

static void end(const struct process *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	close(p->orders);
	close(p->news);
}

static void what_executed_has_a_number_of_its_own(void **state)
{
	struct process one = sleeper(), two = sleeper();
	uint32_t first, second;

	(void)state;
	assert_int_equal(number_of(one.pid), 0);
	assert_true(executes(&one, 'x', &first));
	assert_int_equal(first, 1);
	assert_int_equal(number_of(one.pid), 1);
	assert_true(executes(&two, 'x', &second));
	assert_int_equal(second, 2);
	assert_int_equal(number_of(two.pid), 2);
	assert_int_equal(number_of(one.pid), 1);
	end(&one);
	end(&two);
}

static void what_executed_nothing_has_its_parents_number(void **state)
{
	struct process shell = sleeper();
	uint32_t number = lineage_exec(&lineage, shell.pid);
	char text[9] = "";
	pid_t child;

	(void)state;
	assert_int_equal(write(shell.orders, "s", 1), 1);
	assert_int_equal(read(shell.news, text, 8), 8);
	child = (pid_t)strtol(text, NULL, 10);
	assert_int_equal(number_of(child), number);
	assert_int_equal(number_of(shell.pid), number);
	kill(child, SIGKILL);
	end(&shell);
}

/* Only what happened counts, however often it was tried before. */
static void a_failed_execve_changes_nothing(void **state)
{
	struct process p = sleeper();
	uint32_t before = number_of(p.pid), number;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_false(executes(&p, 'f', &number));
		/* Somebody else looks first, who cannot know. */
		assert_int_equal(number_of(getpid()), 0);
		assert_int_equal(number_of(p.pid), before);
	}
	assert_false(executes(&p, 'f', &number));
	assert_true(executes(&p, 'x', &number));
	assert_int_equal(number_of(p.pid), number);
	end(&p);
}

/* While it is not known what became of it, the process is what it was. */
static void an_execve_that_is_under_way(void **state)
{
	struct process p = sleeper();
	uint32_t before = number_of(p.pid), number = lineage_exec(&lineage, p.pid), exec = 99;
	char news[6];

	(void)state;
	/* As another thread of it, which does not know either. */
	lineage.slots[p.pid % LINEAGE_SLOTS].asker = 1;
	assert_int_equal(number_of(p.pid), before);
	assert_int_equal(write(p.orders, "x", 1), 1);
	assert_int_equal(read(p.news, news, sizeof(news)), 0);
	exec = number_of(p.pid);
	assert_int_equal(exec, number);
	end(&p);
}

/* A number of a process that is gone means nothing, and the next that has it starts anew. */
static void the_dead_are_forgotten(void **state)
{
	struct process p = sleeper();
	uint32_t number;

	(void)state;
	assert_true(executes(&p, 'x', &number));
	assert_int_equal(number_of(p.pid), number);
	end(&p);
	assert_int_equal(number_of(p.pid), 0);
}

/* More processes than there are slots: the number is right, or that of an ancestor. */
static void many(void **state)
{
	enum { COUNT = LINEAGE_SLOTS + 100 };
	static struct process all[COUNT];
	static uint32_t numbers[COUNT];
	const struct rlimit files = { 8192, 8192 };

	(void)state;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0) {
		print_message("too few descriptors for so many processes\n");
		skip();
	}
	for (size_t i = 0; i < COUNT; i++) {
		all[i] = sleeper();
		assert_true(executes(&all[i], 'x', &numbers[i]));
	}
	for (size_t i = COUNT - LINEAGE_SLOTS; i < COUNT; i++) {
		uint32_t number = number_of(all[i].pid);

		assert_true(number == numbers[i] || number == 0);
	}
	for (size_t i = 0; i < COUNT; i++)
		end(&all[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_executed_has_a_number_of_its_own),
		cmocka_unit_test(what_executed_nothing_has_its_parents_number),
		cmocka_unit_test(a_failed_execve_changes_nothing),
		cmocka_unit_test(an_execve_that_is_under_way),
		cmocka_unit_test(the_dead_are_forgotten),
		cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
