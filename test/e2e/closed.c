/*
 * closed.c - asks for things in ways that make the question hard to read
 *
 *	closed try FILE OTHER ADDRESS PORT   each call once: its name and errno
 *	closed ask FILE OTHER ADDRESS PORT   the same after prctl(PR_SET_DUMPABLE, 0)
 *	closed places FILE                   FILE, named by strings in odd places of memory
 *	closed toggle FILE ROUNDS            makes FILE0, FILE1, ... while a thread opens and closes the
 *	                                     page that has the name
 *	closed fail FILE                     execve that fails in every way, then opens FILE
 *
 * Static: when its file cannot be read, neither could the loader open a library.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    4096
#define TOO_BIG (8 << 20)

static void say(const char *what, long r)
{
	printf("%s %d\n", what, r < 0 ? errno : 0);
	fflush(stdout);
}

static long open_file(const char *path, int flags)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);

	if (fd >= 0)
		close((int)fd);
	return fd;
}

/* In a child: an execve that succeeds does not come back. */
static long execute(const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl(path, "executed", (char *)NULL);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

static int each(char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[3])) };
	struct sockaddr_in *far = (struct sockaddr_in *)8;
	int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, argv[2], &to.sin_addr);
	say("read", open_file(argv[0], O_RDONLY));
	say("write", open_file(argv[0], O_WRONLY | O_CREAT));
	say("relative", open_file("relative", O_RDONLY));
	say("mkdir", mkdir(argv[1], 0700));
	say("rename", rename(argv[0], argv[1]));
	say("exec", execute("/bin/true"));
	say("chmod", chmod(argv[0], 02755));
	if (tcp >= 0) {
		say("connect", connect(tcp, (struct sockaddr *)&to, sizeof(to)));
		say("nowhere", connect(tcp, (struct sockaddr *)far, sizeof(to)));
		say("long", connect(tcp, (struct sockaddr *)&to, 4000));
		say("short", connect(tcp, (struct sockaddr *)&to, 7));
	}
	if (udp >= 0)
		say("send", sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	return 0;
}

static char *pages(size_t count)
{
	char *at = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	return at == MAP_FAILED ? NULL : at;
}

/* FILE at the end of a page, with its NUL the last byte, or up to three bytes into the next. */
static int places(const char *path)
{
	char *at = pages(3), *name;
	size_t len = strlen(path);

	munmap(at + 2 * PAGE, PAGE);
	name = memcpy(at + 2 * PAGE - len - 1, path, len + 1);
	say("before a hole", open_file(name, O_RDONLY));
	name = memcpy(at + PAGE - len + 2, path, len + 1);
	say("across", open_file(name, O_RDONLY));
	memset(at + PAGE, '/', PAGE);
	say("without an end", open_file(at + PAGE + 100, O_RDONLY));
	say("in the hole", open_file(at + 2 * PAGE, O_RDONLY));
	memset(at, '/', 2 * PAGE);
	say("too long", open_file(at, O_RDONLY));
	memcpy(at, path, len + 1);
	mprotect(at, PAGE, PROT_NONE);
	say("closed page", open_file(at, O_RDONLY));
	mprotect(at, PAGE, PROT_READ);
	say("opened page", open_file(at, O_RDONLY));
	say("nowhere", open_file(NULL, O_RDONLY));
	say("kernel", open_file((const char *)-PAGE, O_RDONLY));
	say("mkdir", mkdir((const char *)8, 0700));
	say("rename", rename(path, (const char *)8));
	say("exec", execute((const char *)8));
	return 0;
}

static char *toggled;
static volatile bool is_over;

static void *toggle(void *unused)
{
	(void)unused;
	while (!is_over) {
		mprotect(toggled, PAGE, PROT_NONE);
		mprotect(toggled, PAGE, PROT_READ);
	}
	return NULL;
}

/* Each round with a name of its own, written through another view of the page. */
static int race(const char *path, long rounds)
{
	int memfd = memfd_create("name", 0);
	char *name = ftruncate(memfd, PAGE) < 0
			     ? MAP_FAILED
			     : mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, memfd, 0);
	pthread_t thread;

	toggled = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, memfd, 0);
	if (pthread_create(&thread, NULL, toggle, NULL) != 0)
		return 1;
	for (long i = 0; i < rounds; i++) {
		snprintf(name, PAGE, "%s%ld", path, i);
		open_file(toggled, O_WRONLY | O_CREAT);
	}
	is_over = true;
	pthread_join(thread, NULL);
	return 0;
}

static void *fail_beside(void *unused)
{
	(void)unused;
	execl("/nowhere/thread", "x", (char *)NULL);
	return NULL;
}

static int fail(const char *path)
{
	char *none[] = { NULL }, *big = calloc(1, TOO_BIG);
	char *argv[] = { big, NULL };
	pthread_t thread;

	memset(big, 'x', TOO_BIG - 1);
	syscall(SYS_execve, "/nowhere/missing", none, none);
	syscall(SYS_execve, (const char *)8, none, none);
	syscall(SYS_execve, "/dev", none, none);
	syscall(SYS_execve, "/bin/true", argv, none);
	syscall(SYS_execve, "/bin/true", (char **)8, none);
	if (pthread_create(&thread, NULL, fail_beside, NULL) == 0)
		pthread_join(thread, NULL);
	say("read", open_file(path, O_RDONLY));
	/* Its children are the same program. */
	if (fork() == 0)
		_exit(open_file(path, O_RDONLY) < 0);
	wait(NULL);
	execl("/proc/self/exe", "closed", "places", path, (char *)NULL);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "try") == 0)
		return each(argv + 2);
	if (argc == 6 && strcmp(argv[1], "ask") == 0) {
		say("prctl", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
		return each(argv + 2);
	}
	if (argc == 3 && strcmp(argv[1], "places") == 0)
		return places(argv[2]);
	if (argc == 4 && strcmp(argv[1], "toggle") == 0)
		return race(argv[2], atol(argv[3]));
	if (argc == 3 && strcmp(argv[1], "fail") == 0)
		return fail(argv[2]);
	return 2;
}
