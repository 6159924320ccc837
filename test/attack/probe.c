#include "probe.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { SUCCEEDED = 0, DENIED = 1, NOT_TRIED = 2, NOT_THERE = 3 };

static const char *const class_names[CLASS_COUNT] = {
	[ESCAPE] = "Escape",    [HOST_LEAK] = "HostLeak", [EXFIL] = "Exfil", [LATERAL] = "Lateral",
	[HOST_DOS] = "HostDoS", [PEER_DOS] = "PeerDoS",   [TWIN] = "Twin",
};

static struct attack *attacks;
static char **scene_words;

void attack_add(struct attack *attack)
{
	struct attack **at = &attacks;

	while (*at && strcmp((*at)->name, attack->name) < 0)
		at = &(*at)->next;
	attack->next = *at;
	*at = attack;
}

static const char *scene_find(const char *key)
{
	size_t len = strlen(key);

	for (char **word = scene_words; word && *word; word++)
		if (strncmp(*word, key, len) == 0 && (*word)[len] == '=')
			return *word + len + 1;
	return NULL;
}

int scene_has(const char *key)
{
	return scene_find(key) != NULL;
}

const char *scene(const char *key)
{
	const char *value = scene_find(key);

	errno = ENODATA;
	if (!value)
		cannot(key);
	return value;
}

long scene_number(const char *key)
{
	return strtol(scene(key), NULL, 0);
}

const char *path_of(const char *format, ...)
{
	static char paths[8][4096];
	static unsigned int turn;
	char *path = paths[turn++ % 8];
	va_list list;

	va_start(list, format);
	vsnprintf(path, sizeof(paths[0]), format, list);
	va_end(list);
	return path;
}

const char *outside(const char *name)
{
	return path_of("%s/%s", scene("outside"), name);
}

const char *readable(const char *name)
{
	return path_of("%s/%s", scene("readable"), name);
}

const char *inside(const char *name)
{
	return path_of("%s/%s", scene("work"), name);
}

void denied(int code)
{
	fprintf(stderr, "denied: %s\n", strerror(code));
	exit(DENIED);
}

void not_there(int code)
{
	fprintf(stderr, "not there: %s\n", strerror(code));
	exit(NOT_THERE);
}

/* How a call fails where a namespace or a root has nothing by that name. */
static int means_absence(int code)
{
	return code == ENOENT || code == ESRCH || code == EROFS || code == EXDEV ||
	       code == ECONNREFUSED || code == ENETUNREACH || code == EHOSTUNREACH;
}

void cannot(const char *what)
{
	if (means_absence(errno))
		not_there(errno);
	fprintf(stderr, "not tried: %s: %s\n", what, strerror(errno));
	exit(NOT_TRIED);
}

void need(long result, const char *what)
{
	if (result < 0)
		cannot(what);
}

static int is_one_of(int code, const int *codes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (codes[i] == code)
			return 1;
	return 0;
}

long expect_denied_by(long result, const int *codes, size_t count)
{
	if (result >= 0)
		return result;
	if (is_one_of(errno, codes, count))
		denied(errno);
	cannot("an error that no wall gives");
}

long past_the_gate_by(long result, const int *codes, size_t count)
{
	return result < 0 && is_one_of(errno, codes, count) ? 0 : result;
}

void leak(const void *data, size_t len)
{
	if (fwrite(data, 1, len, stdout) != len || fflush(stdout) != 0)
		cannot("standard output");
}

void leak_fd(int fd)
{
	char data[4096];
	ssize_t n = raw(SYS_read, fd, data, sizeof(data));

	leak(data, (size_t)expect_denied(n, EACCES, EPERM, EIO));
}

void leak_file(const char *path)
{
	leak_fd((int)expect_denied(raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC), EACCES,
				   EPERM, ENOENT));
}

void spoil_fd(int fd)
{
	need(raw(SYS_write, fd, "spoiled", 7), "write");
}

void spoil_file(const char *path)
{
	spoil_fd((int)expect_denied(raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC), EACCES,
				    EPERM, EROFS, ENOENT));
}

int in_child(void (*run)(void *), void *argument)
{
	pid_t pid = (pid_t)raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	need(pid, "fork");
	if (pid == 0) {
		run(argument);
		_exit(SUCCEEDED);
	}
	need(waitpid(pid, &status, 0), "wait");
	return status;
}

static int list(void)
{
	for (const struct attack *attack = attacks; attack; attack = attack->next) {
		const char *slash = strrchr(attack->file, '/');

		printf("%s\t%s\t%s\t%s\n", attack->name, class_names[attack->class],
		       slash ? slash + 1 : attack->file, attack->what);
	}
	return 0;
}

static int run(const char *name, char **words)
{
	scene_words = words;
	for (const struct attack *attack = attacks; attack; attack = attack->next)
		if (strcmp(attack->name, name) == 0) {
			attack->run();
			return SUCCEEDED;
		}
	errno = ENOENT;
	cannot(name);
}

/* Two parents above a command, in the places of the warden and the keeper. */
static int keep(char **command, int depth)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (depth > 0)
			exit(keep(command, depth - 1));
		execv(command[0], command);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NOT_TRIED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What a setuid program does for its caller. */
static int write_for(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return DENIED;
	spoil_fd(fd);
	return SUCCEEDED;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (strcmp(verb, "list") == 0)
		return list();
	if (strcmp(verb, "run") == 0 && argc > 2)
		return run(argv[2], argv + 3);
	if (strcmp(verb, "keep") == 0 && argc > 2)
		return keep(argv + 2, 1);
	if (strcmp(verb, "victim") == 0 && argc > 4)
		return victim_main(argv + 2);
	if (strcmp(verb, "write") == 0 && argc > 2)
		return write_for(argv[2]);
	fprintf(stderr, "attack list | run NAME KEY=VALUE... | keep COMMAND... | write PATH | "
			"victim FILE KEY WORD\n");
	return NOT_TRIED;
}
