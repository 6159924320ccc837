/*
 * manual.c - brig manual: man/brig.1 and the tables of the documents, from the same tables as
 * everything else
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "config.h"
#include "policy/keys.h"
#include "tier/tier.h"
#include "trace/event.h"

/* Text for roff: a leading dot or quote and every backslash or hyphen would mean something else. */
static void roff(const char *text)
{
	bool line_start = true;

	for (const char *p = text; *p; p++) {
		if (line_start && (*p == '.' || *p == '\''))
			printf("\\&");
		line_start = *p == '\n';
		if (*p == '\\')
			printf("\\e");
		else if (*p == '-')
			printf("\\-");
		else if (*p == '\n' && p[1] == '\n')
			printf("\n.PP"), line_start = false;
		else
			putchar(*p);
	}
	putchar('\n');
}

static void roff_option(char letter, const char *name, const char *argument, const char *summary,
			const char *needs)
{
	printf(".TP\n.B ");
	if (letter)
		printf("\\-%c,\\ ", letter);
	printf("\\-\\-");
	for (const char *p = name; *p; p++)
		printf(*p == '-' ? "\\-" : "%c", *p);
	if (argument)
		printf("\\ \\fI%s\\fR", argument);
	putchar('\n');
	roff(summary);
	if (needs)
		printf("(Needs %s, which this version does not have yet.)\n", needs);
}

static void roff_verb(const struct verb *verb)
{
	printf(".SS brig %s %s\n", verb->name, verb->usage);
	roff(verb->text);
	for (const struct option *o = verb->options; o && o->name; o++)
		roff_option(o->letter, o->name, o->argument, o->summary, NULL);
	for (size_t i = 0; verb->takes_policy && i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++) {
			const struct key_flag *flag = &policy_keys[i].flags[k];

			roff_option(0, flag->name, flag->argument, flag->summary,
				    policy_keys[i].needs);
		}
	printf(".PP\nExamples:\n.PP\n.nf\n.RS\n");
	roff(verb->example);
	printf(".RE\n.fi\n");
}

static void print_man(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);

	printf(".\\\" made by \"brig manual\" from the tables in the source\n"
	       ".TH BRIG 1 \"\" \"brig %s\" \"User Commands\"\n.SH NAME\nbrig \\- run what AI "
	       "agents write, "
	       "inside walls\n.SH SYNOPSIS\n.B brig\n.I command\n[options]\n.SH DESCRIPTION\n",
	       BRIG_VERSION);
	roff("brig runs a command inside walls that do not depend on its good will. One policy "
	     "says what the "
	     "command may read, write, reach and use up; what cannot be enforced on this host "
	     "refuses the start.");
	printf(".SH COMMANDS\n");
	for (size_t i = 0; i < count; i++)
		roff_verb(list[i]);
	printf(".SH POLICY\n");
	roff("A policy is YAML (JSON is YAML). It begins with \"version: 1\" and may name shipped "
	     "policies in "
	     "\"extends\". Keys:");
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];

		printf(".TP\n.B %s\n", key->name);
		printf("%s (default: %s).\n", key->summary, key->initial);
		if (key->more)
			roff(key->more);
		if (key->needs)
			printf("Needs %s, which this version does not have yet: a start is "
			       "refused.\n",
			       key->needs);
	}
	printf(".SH FILES\n.TP\n.I ~/.config/brig/policy.yaml\nthe policy of \"brig run\" without "
	       "\\-\\-policy\n.TP\n.I ~/.config/brig/policies/NAME.yaml\nyour own policies, for "
	       "\\-\\-policy NAME "
	       "and \"extends\"\n.TP\n.I .brig.yaml\nin the working directory: narrows\n.TP\n.I "
	       "/etc/brig/policy.yaml\nthe operator's: narrows\n.TP\n.I ~/.local/state/brig\n"
	       "events of sandboxes; $XDG_STATE_HOME/brig, for root /var/lib/brig\n");
	printf(".SH EXIT STATUS\nThat of the command; 128+n for signal n, 124 at the time limit, "
	       "125 for an error of "
	       "brig itself, 126 and 127 when the command cannot be executed or found.\n");
}

static void print_keys(void)
{
	printf("| key | flags | default | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct key *key = &policy_keys[i];

		printf("| `%s` | ", key->name);
		for (size_t k = 0; k < KEY_MAX_FLAGS && key->flags[k].name; k++)
			printf("%s`--%s %s`", k ? " " : "", key->flags[k].name,
			       key->flags[k].argument);
		printf(" | %s | %s.", key->initial, key->summary);
		if (key->more)
			printf(" %s", key->more);
		if (key->needs)
			printf(" *Needs %s: not in this version, a start is refused.*", key->needs);
		printf(" |\n");
	}
}

static void print_tiers(void)
{
	printf("| tier | walls | for | in this version |\n|---|---|---|---|\n");
	for (size_t i = 0; i < tier_count; i++)
		printf("| `%s` | %s | %s | %s |\n", isolation_names[tiers[i].isolation],
		       tiers[i].walls, tiers[i].purpose, tiers[i].prepare ? "yes" : "no");
}

static void print_events(void)
{
	printf("| field | in | meaning |\n|---|---|---|\n");
	for (size_t i = 0; i < trace_field_count(); i++) {
		const char *name, *summary;
		bool is_always;

		trace_field_describe(i, &name, &summary, &is_always);
		printf("| `%s` | %s | %s |\n", name, is_always ? "every line" : "some", summary);
	}
}

static const struct option manual_options[] = { { 'h', "help", NULL, "this text" }, { 0 } };

static int verb_manual_main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*print)(void);
	} parts[] = { { "man", print_man },
		      { "keys", print_keys },
		      { "tiers", print_tiers },
		      { "events", print_events } };

	if (argc > 1 && is_help(argv[1])) {
		print_help(&verb_manual);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (argc <= 1 ? i == 0 : str_equal(argv[1], parts[i].name)) {
			parts[i].print();
			return 0;
		}
	return complain_text("manual: use \"man\", \"keys\", \"tiers\" or \"events\"");
}

const struct verb verb_manual = {
	.name = "manual",
	.usage = "[man | keys | tiers | events]",
	.summary = "print the manual page and the tables of the documents",
	.text = "Prints the manual page in roff, or a Markdown table of the policy's keys, of "
		"the tiers or of the fields of an event. The "
		"documents that come with brig hold exactly this output.",
	.example = "brig manual | man -l -",
	.options = manual_options,
	.run = verb_manual_main,
};
