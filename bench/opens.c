/*
 * opens.c - opens a file and closes it, many times
 *
 *	opens NUMBER PATH
 *
 * What one recorded open costs is the difference of two runs, divided by NUMBER.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long count = argc > 2 ? strtol(argv[1], NULL, 10) : 0;

	for (long i = 0; i < count; i++) {
		int fd = open(argv[2], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return 1;
		close(fd);
	}
	return 0;
}
