/* help.c - brig help and brig version */
#include <stdio.h>
#include <string.h>

#include "base/hook.h"
#include "cli/cli.h"
#include "config.h"
#include "policy/keys.h"

static const struct option no_options[] = { { 'h', "help", NULL, "this text" }, { 0 } };

/* Prints text in lines of at most 78 columns, each behind indent. */
static void print_wrapped(const char *text, int indent)
{
	int column = 0;

	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " \n");

		if (column > 0 && column + 1 + (int)len > 78) {
			putchar('\n');
			column = 0;
		}
		if (column == 0)
			column = printf("%*s", indent, "");
		else
			column += printf(" ");
		column += printf("%.*s", (int)len, p);
		p += len;
		if (*p == '\n') {
			putchar('\n');
			column = 0;
		}
		p += *p != '\0';
	}
	putchar('\n');
}

static void print_option(char letter, const char *name, const char *argument, const char *summary)
{
	char left[40], short_form[8] = "";

	if (letter)
		snprintf(short_form, sizeof(short_form), "-%c, ", letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", short_form, name, argument ? " " : "",
		 argument ? argument : "");
	printf("  %-25s %s\n", left, summary);
}

static void print_policy_options(void)
{
	printf("\nOptions of the policy (docs/policy.md, \"brig policy schema\"):\n");
	for (size_t i = 0; i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++) {
			const struct key_flag *flag = &policy_keys[i].flags[k];

			print_option(0, flag->name, flag->argument, flag->summary);
			if (policy_keys[i].needs)
				printf("  %-25s (needs %s: not in this version)\n", "",
				       policy_keys[i].needs);
		}
}

static void print_general(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);

	printf("brig runs what AI agents write inside walls that do not depend on their good "
	       "will.\n\n"
	       "Usage: brig COMMAND [options]\n\nCommands:\n");
	for (size_t i = 0; i < count; i++)
		printf("  %-10s %s\n", list[i]->name, list[i]->summary);
	printf("\nFirst steps:\n  brig doctor\n  brig run -- python3 script.py\n  brig help run\n");
}

void print_help(const struct verb *verb)
{
	if (!verb) {
		print_general();
		return;
	}
	printf("Usage: brig %s %s\n\n", verb->name, verb->usage);
	print_wrapped(verb->text, 0);
	printf("\nOptions:\n");
	for (const struct option *o = verb->options; o && o->name; o++)
		print_option(o->letter, o->name, o->argument, o->summary);
	if (verb->takes_policy)
		print_policy_options();
	printf("\nExamples:\n");
	for (const char *p = verb->example; *p;) {
		size_t len = strcspn(p, "\n");

		printf("  %.*s\n", (int)len, p);
		p += len + (p[len] == '\n');
	}
}

static int verb_help_main(int argc, char **argv)
{
	struct err err = ERR_NONE;
	const struct verb *verb = NULL;

	if (argc > 1 && !is_help(argv[1])) {
		verb = verb_find(argv[1], &err);
		if (!verb)
			return complain(&err);
	}
	print_help(verb);
	return 0;
}

static int verb_version_main(int argc, char **argv)
{
	_cleanup_(node_freep) struct node *root = NULL;
	int r;

	if (argc > 1 && is_help(argv[1])) {
		print_help(&verb_version);
		return 0;
	}
	if (argc > 1 && !str_equal(argv[1], "--json"))
		return complain_text("version takes only --json, found \"%s\"", argv[1]);
	if (argc <= 1) {
		printf("brig %s (%s%s)\n", BRIG_VERSION, BRIG_LIBC,
		       BRIG_HAS_TEST_HOOKS ? ", test build: walls can be knocked out, never use it"
					   : "");
		return 0;
	}
	root = node_map();
	r = root ? node_set(root, "version", node_string(BRIG_VERSION)) : -1;
	r = r < 0 ? r : node_set(root, "libc", node_string(BRIG_LIBC));
	r = r < 0 ? r : node_set(root, "test_build", node_bool(BRIG_HAS_TEST_HOOKS));
	return r < 0 ? complain_text("out of memory") : print_json(root);
}

static const struct option version_options[] = { { 0, "json", NULL, "print JSON" },
						 { 'h', "help", NULL, "this text" },
						 { 0 } };

const struct verb verb_help = {
	.name = "help",
	.usage = "[COMMAND]",
	.summary = "explain a command",
	.text = "Prints the commands of brig, or the options and examples of one.",
	.example = "brig help run",
	.options = no_options,
	.run = verb_help_main,
};

const struct verb verb_version = {
	.name = "version",
	.usage = "[--json]",
	.summary = "print the version",
	.text = "Prints the version, the C library that brig was built with, and whether it is a "
		"test build.",
	.example = "brig version",
	.options = version_options,
	.run = verb_version_main,
};
