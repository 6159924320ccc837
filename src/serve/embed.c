/*
 * embed.c - runs during the build: the files of the dashboard as one table in C
 *
 *	embed FILE...	prints it
 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/sha256.h"

static int fail(const char *path, const char *why)
{
	fprintf(stderr, "embed: %s: %s\n", path, why);
	return 1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int print_file(const char *path, size_t index, size_t *ret_len,
		      char hash[static SHA256_HEX_SIZE])
{
	static unsigned char data[4 * MIB];
	FILE *file = fopen(path, "rb");
	size_t len;

	if (!file)
		return fail(path, "cannot be opened");
	len = fread(data, 1, sizeof(data), file);
	fclose(file);
	if (len == sizeof(data))
		return fail(path, "is too long");
	sha256_hex(data, len, hash);
	printf("static const unsigned char file_%zu[] = {", index);
	for (size_t i = 0; i < len; i++)
		printf("%s%u,", i % 24 == 0 ? "\n" : "", data[i]);
	printf("0\n};\n");
	*ret_len = len;
	return 0;
}

int main(int argc, char **argv)
{
	static char table[64 * KIB];
	size_t used = 0;

	printf("#include \"serve/ui.h\"\n\n");
	for (int i = 1; i < argc; i++) {
		char hash[SHA256_HEX_SIZE];
		size_t len;

		if (print_file(argv[i], (size_t)i, &len, hash) != 0)
			return 1;
		used += (size_t)snprintf(table + used, sizeof(table) - used,
					 "\t{ \"%s\", \"\\\"%.16s\\\"\", file_%d, %zu },\n",
					 base_name(argv[i]), hash, i, len);
		if (used >= sizeof(table))
			return fail(argv[i], "is one file too many");
	}
	printf("const struct ui_file ui_files[] = {\n%s\t{ 0 },\n};\n", table);
	return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
