#include "base/title.h"

#include <stddef.h>
#include <string.h>

static char *first;
static size_t size;

void title_init(int argc, char **argv)
{
	first = argc > 0 ? argv[0] : NULL;
	/* The kernel puts them behind each other; only what really is so is ours to overwrite. */
	for (int i = 0; i < argc && argv[i] == first + size; i++)
		size += strlen(argv[i]) + 1;
}

void title_set(const char *title)
{
	size_t len = strlen(title);

	if (size == 0)
		return;
	if (len >= size)
		len = size - 1;
	for (size_t i = 0; i < size; i++)
		first[i] = i < len ? title[i] : '\0';
}
