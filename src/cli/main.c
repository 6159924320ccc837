/* main.c - finds the verb; everything else is in a file of its own */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"

int main(int argc, char **argv)
{
	struct err err = ERR_NONE;
	const struct verb *verb;

	if (argc < 2) {
		print_help(NULL);
		return EXIT_BRIG;
	}
	if (str_equal(argv[1], "--help") || str_equal(argv[1], "-h"))
		argv[1][0] = '\0';
	verb = argv[1][0] == '\0'                ? &verb_help
	       : str_equal(argv[1], "--version") ? &verb_version
						 : verb_find(argv[1], &err);
	if (!verb)
		return complain(&err);
	return verb->run(argc - 1, argv + 1);
}
