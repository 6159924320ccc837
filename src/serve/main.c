/*
 * main.c - brig-serve: the daemon, and what works on its state beside it
 *
 * Started by brig (cli/serve.h) with one JSON object, whose "verb" is a row here. What a person wrote was
 * read and checked there; what is wrong all the same is told in one line.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "serve/keys.h"
#include "serve/openapi.h"
#include "serve/serve.h"
#include "serve/templates.h"

#define EXIT_BRIG 125

/* For scripts/docs and whoever wants the document without a daemon. */
static int print_openapi(const struct node *request)
{
	_cleanup_(node_freep) struct node *document = NULL;
	_cleanup_(buf_done) struct buf text = BUF(4 * MIB);

	(void)request;
	if (openapi_make(v1_routes, &document) < 0 || json_write(document, false, &text) < 0) {
		fprintf(stderr, "brig-serve: out of memory\n");
		return EXIT_BRIG;
	}
	return puts(buf_text(&text)) < 0 || fflush(stdout) != 0 ? EXIT_BRIG : 0;
}

static const struct {
	const char *verb;
	int (*run)(const struct node *request);
} verbs[] = {
	{ "serve", daemon_main },
	{ "openapi", print_openapi },
	{ "key-create", keys_create },
	{ "key-list", keys_list },
	{ "key-revoke", keys_revoke },
	{ "template-put", templates_put },
	{ "template-get", templates_get },
	{ "template-list", templates_list },
	{ "template-delete", templates_delete },
};

int main(int argc, char **argv)
{
	_cleanup_(node_freep) struct node *request = NULL;
	struct err err = ERR_NONE;
	const struct node *verb;

	if (argc != 2 || json_read(argv[1], strlen(argv[1]), NULL, &request, &err) < 0) {
		fprintf(stderr, "brig-serve: this is a part of brig: use \"brig serve\"\n");
		return EXIT_BRIG;
	}
	verb = node_get(request, "verb");
	for (size_t i = 0; verb && verb->kind == NODE_STRING && i < ARRAY_SIZE(verbs); i++)
		if (str_equal(verb->text, verbs[i].verb))
			return verbs[i].run(request);
	fprintf(stderr, "brig-serve: no such verb: brig and brig-serve are of two versions\n");
	return EXIT_BRIG;
}
