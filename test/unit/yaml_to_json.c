/*
 * yaml_to_json - reads YAML from standard input and prints it as canonical JSON, or says what is
 * wrong and exits with 1; test/e2e compares it with another reader.
 *
 * With "-0" the input is many documents with a NUL behind each, answered by a line each that begins
 * with "+" (JSON) or "-" (the error): a process for every document would be slow.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "data/yaml.h"

static int convert(const char *text, size_t len, struct buf *answer, struct err *err)
{
	_cleanup_(node_freep) struct node *node = NULL;
	int r = yaml_parse("stdin", text, len, &node, err);

	return r < 0 ? r : json_write(node, true, answer);
}

static int convert_one(const struct buf *input)
{
	_cleanup_(buf_done) struct buf answer = BUF(16 * MIB);
	struct err err = ERR_NONE;

	if (convert(buf_text(input), input->len, &answer, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	puts(buf_text(&answer));
	return 0;
}

static int convert_many(const struct buf *input)
{
	const char *p = buf_text(input), *end = p + input->len;

	while (p < end) {
		_cleanup_(buf_done) struct buf answer = BUF(16 * MIB);
		struct err err = ERR_NONE;
		size_t len = strlen(p);

		if (convert(p, len, &answer, &err) < 0)
			printf("-%s\n", err.text);
		else
			printf("+%s\n", buf_text(&answer));
		p += len + 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(buf_done) struct buf input = BUF(256 * MIB);
	int r = fd_read_all(STDIN_FILENO, &input);

	if (r < 0) {
		fprintf(stderr, "standard input: %s\n", strerror(-r));
		return 1;
	}
	return argc > 1 && str_equal(argv[1], "-0") ? convert_many(&input) : convert_one(&input);
}
