/*
 * nothing.c - the smallest workload: starts and ends
 *
 * With a number it says so on its standard output, one byte, and sleeps that many milliseconds, so
 * that one knows when it runs and can look at what started it meanwhile. Linked statically against
 * musl: of a start, only what the sandbox adds is left.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long ms = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

	if (ms <= 0)
		return 0;
	if (write(STDOUT_FILENO, ".", 1) != 1)
		return 1;
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
	return 0;
}
