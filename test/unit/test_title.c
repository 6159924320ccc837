#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/title.h"

static size_t cmdline(char *text, size_t size)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, size);

	close(fd);
	return n < 0 ? 0 : (size_t)n;
}

/* In a child: the arguments are gone afterwards. */
static int try_title(int argc, char **argv)
{
	static const char secret[] = "secret-argument";
	char text[512];
	size_t len;

	title_init(argc, argv);
	len = cmdline(text, sizeof(text));
	if (!memmem(text, len, secret, strlen(secret)))
		return 1;
	title_set("keeper");
	len = cmdline(text, sizeof(text));
	if (memmem(text, len, secret, strlen(secret)) || memmem(text, len, "other", 5))
		return 2;
	if (strcmp(text, "keeper") != 0)
		return 3;
	/* One that is too long is cut, and writes nothing behind the end. */
	title_set("a title that is much longer than all of the arguments together were before it, "
		  "and then some more of it, so that it certainly does not fit");
	return text[0] ? 0 : 4;
}

static char *self;

static void arguments_are_gone(void **state)
{
	int status = -1;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		execl(self, self, "secret-argument", "other", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(arguments_are_gone) };

	if (argc > 1)
		return try_title(argc, argv);
	self = argv[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
