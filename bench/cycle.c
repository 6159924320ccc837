/*
 * cycle.c - a whole life from the command line: brig create, brig exec, brig kill, each a process of its own
 *
 *	cycle BRIG TIER COMMAND [ARGUMENT...]
 *
 * What a shell does for three commands, without the time that a shell takes.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Runs it to its end; what it prints goes to out. */
static int run(char **argv, int out)
{
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0)
		return 1;
	posix_spawn_file_actions_destroy(&actions);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	char id[32] = "", *create[] = { argv[1], "create", "--isolation", argv[2], NULL };
	char *exec[64] = { argv[1], "exec", id, "--" }, *kill[] = { argv[1], "kill", id, NULL };
	int null = open("/dev/null", O_RDWR), ends[2];
	ssize_t len;

	if (argc < 4 || argc > 60 || pipe2(ends, O_CLOEXEC) < 0 || run(create, ends[1]) != 0)
		return 1;
	len = read(ends[0], id, sizeof(id) - 1);
	id[len > 0 ? strcspn(id, "\n") : 0] = '\0';
	memcpy(exec + 4, argv + 3, (size_t)(argc - 2) * sizeof(*argv));
	return run(exec, null) | run(kill, null);
}
