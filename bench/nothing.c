/*
 * nothing.c - the smallest workload: starts and ends
 *
 * With a number it sleeps that many milliseconds first, so that the memory of what started it can
 * be read meanwhile. Linked statically against musl: of a start, only what the sandbox adds is
 * left.
 */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	long ms = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

	if (ms > 0)
		nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
	return 0;
}
