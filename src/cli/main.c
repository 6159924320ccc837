/* main.c - finds the verb; everything else is in a file of its own */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/title.h"
#include "cli/cli.h"
#include "cli/forge.h"

/* A descriptor of ours in a gap among 0, 1 and 2 would become the command's. */
static void fill_gaps(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_NOCTTY);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

int main(int argc, char **argv)
{
	struct err err = ERR_NONE;
	const struct verb *verb;

	fill_gaps();
	title_init(argc, argv);
	if (argc < 2) {
		print_help(NULL);
		return EXIT_BRIG;
	}
	if (str_equal(argv[1], "forge"))
		return forge_main(argc - 1, argv + 1);
	if (is_help(argv[1]))
		argv[1][0] = '\0';
	verb = argv[1][0] == '\0'                ? &verb_help
	       : str_equal(argv[1], "--version") ? &verb_version
						 : verb_find(argv[1], &err);
	if (!verb)
		return complain(&err);
	return verb->run(argc - 1, argv + 1);
}
