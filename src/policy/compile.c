/*
 * compile.c - a program of the build: shipped policies as C
 *
 * Reading a policy's YAML is a tenth of a start, and the shipped ones never change. So the build
 * reads them, with the same reader, and prints the trees as constants that brig links: compile
 * policies/base.yaml ... > shipped.c
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "data/yaml.h"

/* A C string literal; octal escapes, because a hexadecimal one would swallow the digits behind it.
 */
static void print_text(const char *text)
{
	putchar('"');
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			printf("\\%c", *p);
		else if (*p < 0x20 || *p > 0x7e)
			printf("\\%03o", *p);
		else
			putchar(*p);
	}
	putchar('"');
}

/* Prints the children first, then the node; returns its number. */
static unsigned int print_node(const struct node *node, unsigned int *serial)
{
	unsigned int numbers[1024], own;

	for (size_t i = 0; i < node->count && i < ARRAY_SIZE(numbers); i++)
		numbers[i] = print_node(node->entries[i].value, serial);
	own = (*serial)++;
	if (node->count > 0)
		printf("static const struct node_entry e%u[] = {\n", own);
	for (size_t i = 0; i < node->count && i < ARRAY_SIZE(numbers); i++) {
		const struct node_entry *entry = &node->entries[i];

		printf("\t{ (char *)");
		if (entry->key)
			print_text(entry->key);
		else
			printf("NULL");
		printf(", %u, %u, (struct node *)&n%u },\n", entry->line, entry->column,
		       numbers[i]);
	}
	if (node->count > 0)
		printf("};\n");
	printf("static const struct node n%u = { .kind = %d, .line = %u, .column = %u, .number = "
	       "%" PRId64 ", .real = %a, .count = %zu",
	       own, (int)node->kind, node->line, node->column, node->number, node->real,
	       node->count);
	if (node->text) {
		printf(", .len = %zu, .text = (char *)", node->len);
		print_text(node->text);
	}
	if (node->count > 0)
		printf(", .entries = (struct node_entry *)e%u", own);
	printf(" };\n");
	return own;
}

static int print_policy(const char *path, unsigned int *serial, unsigned int *ret_number)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(buf_done) struct buf text = BUF(YAML_MAX_BYTES);
	_cleanup_(node_freep) struct node *tree = NULL;
	struct err err = ERR_NONE;

	if (fd < 0 || fd_read_all(fd, &text) < 0) {
		fprintf(stderr, "compile: cannot read \"%s\"\n", path);
		return -1;
	}
	if (yaml_parse(path, buf_text(&text), text.len, &tree, &err) < 0) {
		fprintf(stderr, "compile: %s\n", err.text);
		return -1;
	}
	*ret_number = print_node(tree, serial);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int serial = 0, numbers[64];

	printf("/* made by src/policy/compile.c */\n#include \"policy/policy.h\"\n\n"
	       "#pragma GCC diagnostic ignored \"-Wcast-qual\"\n\n");
	for (int i = 1; i < argc && i < (int)ARRAY_SIZE(numbers); i++)
		if (print_policy(argv[i], &serial, &numbers[i]) < 0)
			return 1;
	printf("\nconst struct shipped_policy shipped_policies[] = {\n");
	for (int i = 1; i < argc && i < (int)ARRAY_SIZE(numbers); i++) {
		const char *slash = strrchr(argv[i], '/'), *name = slash ? slash + 1 : argv[i];

		printf("\t{ \"%.*s\", &n%u },\n", (int)strcspn(name, "."), name, numbers[i]);
	}
	printf("};\nconst size_t shipped_policy_count = %d;\n", argc - 1);
	return 0;
}
