/*
 * races.c - changes its mind about a path while somebody judges it
 *
 *	races GOOD BAD OLD ROUNDS    one thread writes GOOD and BAD, in turns, over the path that another one
 *	                             opens, makes and moves OLD to; GOOD and BAD are of the same length
 *
 * Prints how often each call succeeded, and how often one was refused. Whether BAD came to be, its owner says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile char path[4096];
static const char *good, *bad, *old;
static size_t len;
static atomic_bool is_over;
static long done[4], refused;

/* Only the bytes that differ, so that a torn path is rare. */
static void *rewrite(void *unused)
{
	while (!is_over) {
		for (size_t i = 0; i < len; i++)
			if (good[i] != bad[i])
				path[i] = bad[i];
		for (size_t i = 0; i < len; i++)
			if (good[i] != bad[i])
				path[i] = good[i];
	}
	return unused;
}

static void count(int which, long r)
{
	if (r >= 0)
		done[which]++;
	else if (errno == EACCES || errno == EPERM || errno == EROFS)
		refused++;
}

static void make_old(void)
{
	close(open(old, O_WRONLY | O_CREAT, 0600));
}

static void once(void)
{
	const char *raced = (const char *)(size_t)path;
	long fd = syscall(SYS_openat, AT_FDCWD, raced, O_WRONLY | O_CREAT, 0600);

	count(0, fd);
	if (fd >= 0)
		close((int)fd);
	unlink(good);
	count(1, syscall(SYS_mkdirat, AT_FDCWD, raced, 0700));
	rmdir(good);
	count(2, syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, raced, 0));
	unlink(good);
	make_old();
	count(3, syscall(SYS_symlinkat, "nowhere", AT_FDCWD, raced));
	unlink(good);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 5 || strlen(argv[1]) != strlen(argv[2]))
		return 2;
	good = argv[1];
	bad = argv[2];
	old = argv[3];
	len = strlen(good);
	memcpy((char *)(size_t)path, good, len + 1);
	make_old();
	if (pthread_create(&thread, NULL, rewrite, NULL) != 0)
		return 2;
	for (long i = atol(argv[4]); i > 0; i--)
		once();
	is_over = true;
	pthread_join(thread, NULL);
	printf("%ld %ld %ld %ld %ld\n", done[0], done[1], done[2], done[3], refused);
	return 0;
}
