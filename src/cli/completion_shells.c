/* completion_shells.c - the scripts of brig completion, one for each shell */
#include <stdio.h>

#include "cli/completion.h"
#include "policy/policy.h"

/* Text inside single quotes of a shell; escaped: characters that mean more to who reads it then. */
static void quoted(const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", stdout);
			continue;
		}
		if (strchr(escaped, *text))
			putchar('\\');
		putchar(*text);
	}
}

static void print_words(const struct strv *words)
{
	for (size_t i = 0; i < words->count; i++)
		printf("%s%s", i ? " " : "", words->items[i]);
}

static void print_policies(void)
{
	for (size_t i = 0; i < shipped_policy_count; i++)
		printf("%s%s", i ? " " : "", shipped_policies[i].name);
}

static void print_verbs(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);

	for (size_t i = 0; i < count; i++)
		printf("%s%s", i ? " " : "", list[i]->name);
}

/* The functions that offer a kind have the same names in all three. */
static const struct {
	unsigned int kind;
	const char *name;
} kind_names[] = {
	{ OFFER_SANDBOXES, "sandboxes" }, { OFFER_PLACES, "places" },     { OFFER_FILES, "files" },
	{ OFFER_POLICIES, "policies" },   { OFFER_COMMANDS, "commands" }, { OFFER_VERBS, "verbs" },
};

static void print_kinds(unsigned int kinds, const char *prefix, const char *between)
{
	const char *before = "";

	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
		if (kinds & kind_names[i].kind) {
			printf("%s%s%s", before, prefix, kind_names[i].name);
			before = between;
		}
}

/* bash: one arm of a case for each verb says what there is; _brig_offer finds what fits. */
static const char bash_head[] =
	"# bash completion for brig, made by \"brig completion bash\"\n"
	"_brig_offer() {\n"
	"\tlocal kind word\n"
	"\tCOMPREPLY+=($(compgen -W \"$1\" -- \"$cur\"))\n"
	"\tshift\n"
	"\tfor kind; do\n"
	"\t\tcase $kind in\n"
	"\t\tsandboxes)\n"
	"\t\t\tCOMPREPLY+=($(compgen -W \"$(\"$brig\" completion sandboxes 2>/dev/null)\" -- "
	"\"$cur\"))\n"
	"\t\t\t;;\n"
	"\t\tplaces)\n"
	"\t\t\tfor word in $(compgen -W \"$(\"$brig\" completion sandboxes 2>/dev/null)\" -- "
	"\"$cur\"); do\n"
	"\t\t\t\tCOMPREPLY+=(\"$word:\")\n"
	"\t\t\t\tcompopt -o nospace 2>/dev/null\n"
	"\t\t\tdone\n"
	"\t\t\t;;\n"
	"\t\tfiles)\n"
	"\t\t\twhile IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -f -- "
	"\"$cur\")\n"
	"\t\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\t\t;;\n"
	"\t\tpolicies) COMPREPLY+=($(compgen -W \"$policies\" -- \"$cur\")) ;;\n"
	"\t\tcommands) COMPREPLY+=($(compgen -c -- \"$cur\")) ;;\n"
	"\t\tverbs) COMPREPLY+=($(compgen -W \"$verbs\" -- \"$cur\")) ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"}\n\n"
	"_brig() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
	"brig=${COMP_WORDS[0]}\n"
	"\tlocal verb=${COMP_WORDS[1]} options words kinds i\n";

static const char bash_middle[] = "\tCOMPREPLY=()\n"
				  "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
				  "\t\t_brig_offer \"$verbs\"\n"
				  "\t\treturn\n"
				  "\tfi\n"
				  "\t# \"--option=value\" comes in three words.\n"
				  "\tif [ \"$cur\" = = ]; then\n"
				  "\t\tcur=\n"
				  "\telif [ \"$prev\" = = ]; then\n"
				  "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
				  "\tfi\n"
				  "\tcase $verb in\n";

static const char bash_tail[] = "\tesac\n"
				"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
				"\t\t[ \"${COMP_WORDS[i]}\" = -- ] && options=\n"
				"\tdone\n"
				"\tcase $cur in\n"
				"\t-*) _brig_offer \"$options\" ;;\n"
				"\t*) _brig_offer \"$words\" $kinds ;;\n"
				"\tesac\n"
				"}\n\n"
				"complete -F _brig brig\n";

/* Behind an option that wants something nothing else can stand. */
static int bash_argument(const struct completed_option *o)
{
	struct offers offers;
	int r = offers_of_argument(o->argument, &offers);

	if (r < 0)
		return r;
	printf("\t\t--%s", o->name);
	if (o->letter)
		printf(" | -%c", o->letter);
	printf(")\n\t\t\t_brig_offer \"");
	print_words(&offers.words);
	printf("\"%s", offers.kinds ? " " : "");
	print_kinds(offers.kinds, "", " ");
	printf("\n\t\t\treturn\n\t\t\t;;\n");
	offers_done(&offers);
	return 0;
}

static void bash_options(const struct verb *verb)
{
	struct completed_option o;

	printf("\t\toptions=\"");
	for (size_t i = 0; completed_option(verb, i, &o); i++) {
		printf("%s--%s", i ? " " : "", o.name);
		if (o.letter)
			printf(" -%c", o.letter);
	}
	printf("\"\n");
}

static int bash_verb(const struct verb *verb)
{
	struct completed_option o;
	struct offers offers;
	int r = offers_of_verb(verb, &offers);

	if (r < 0)
		return r;
	printf("\t%s)\n\t\tcase $prev in\n", verb->name);
	for (size_t i = 0; r == 0 && completed_option(verb, i, &o); i++)
		r = o.argument ? bash_argument(&o) : 0;
	printf("\t\tesac\n");
	bash_options(verb);
	printf("\t\twords=\"");
	print_words(&offers.words);
	printf("\" kinds=\"");
	print_kinds(offers.kinds, "", " ");
	printf("\"\n\t\t;;\n");
	offers_done(&offers);
	return r;
}

int completion_bash(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);
	int r = 0;

	fputs(bash_head, stdout);
	printf("\tlocal verbs=\"");
	print_verbs();
	printf("\"\n\tlocal policies=\"");
	print_policies();
	printf("\"\n");
	fputs(bash_middle, stdout);
	for (size_t i = 0; i < count && r == 0; i++)
		r = bash_verb(list[i]);
	fputs(bash_tail, stdout);
	return r;
}

/* zsh: _arguments knows how to deal with options; a function for each kind says what there is. */
static const char zsh_head[] =
	"#compdef brig\n"
	"# zsh completion for brig, made by \"brig completion zsh\"\n\n"
	"_brig_sandboxes() {\n"
	"\tlocal -a found\n"
	"\tfound=(${(f)\"$(${_brig_program:-brig} completion sandboxes 2>/dev/null)\"})\n"
	"\tcompadd -a found\n"
	"}\n"
	"_brig_places() {\n"
	"\tlocal -a found\n"
	"\tfound=(${(f)\"$(${_brig_program:-brig} completion sandboxes 2>/dev/null)\"})\n"
	"\tcompadd -S : -a found\n"
	"}\n"
	"_brig_files() { _files }\n"
	"_brig_commands() { _command_names -e }\n";

static const char zsh_tail[] = "\tesac\n"
			       "}\n\n"
			       "if [ \"$funcstack[1]\" = _brig ]; then\n"
			       "\t_brig \"$@\"\n"
			       "else\n"
			       "\tcompdef _brig brig\n"
			       "fi\n";

/* The action of a spec: "(a b)" for words, a function for one kind, both as alternatives. */
static void zsh_action(const struct offers *offers)
{
	const char *between = "";

	if (offers->words.count > 0 && offers->kinds == 0) {
		putchar('(');
		print_words(&offers->words);
		putchar(')');
		return;
	}
	if (offers->words.count == 0 && offers->kinds == 0) {
		putchar(' '); /* something, nobody knows what */
		return;
	}
	printf("{");
	if (offers->words.count > 0) {
		printf("compadd ");
		print_words(&offers->words);
		between = "; ";
	}
	printf("%s", between);
	print_kinds(offers->kinds, "_brig_", "; ");
	printf("}");
}

static int zsh_option(const struct completed_option *o)
{
	struct offers offers = { 0 };
	int r = o->argument ? offers_of_argument(o->argument, &offers) : 0;

	if (r < 0)
		return r;
	printf(" \\\n\t\t\t");
	if (o->letter)
		printf("'(-%c --%s)'{-%c,--%s%s}'", o->letter, o->name, o->letter, o->name,
		       o->argument ? "=" : "");
	else
		printf("'%s--%s%s", o->is_repeated ? "*" : "", o->name, o->argument ? "=" : "");
	putchar('[');
	quoted(o->summary, "[]:\\");
	putchar(']');
	if (o->argument) {
		putchar(':');
		quoted(o->argument, ":\\");
		putchar(':');
		zsh_action(&offers);
	}
	putchar('\'');
	offers_done(&offers);
	return 0;
}

static int zsh_verb(const struct verb *verb)
{
	struct completed_option o;
	struct offers offers;
	int r = offers_of_verb(verb, &offers);

	if (r < 0)
		return r;
	printf("\t%s)\n\t\t_arguments", verb->name);
	for (size_t i = 0; r == 0 && completed_option(verb, i, &o); i++)
		r = zsh_option(&o);
	if (offers.words.count > 0 || offers.kinds != 0) {
		printf(" \\\n\t\t\t'*:word:");
		zsh_action(&offers);
		putchar('\'');
	}
	printf("\n\t\t;;\n");
	offers_done(&offers);
	return r;
}

int completion_zsh(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);
	int r = 0;

	fputs(zsh_head, stdout);
	printf("_brig_policies() { compadd ");
	print_policies();
	printf(" }\n_brig_verbs() {\n\tlocal -a verbs\n\tverbs=(\n");
	for (size_t i = 0; i < count; i++) {
		printf("\t\t'%s:", list[i]->name);
		quoted(list[i]->summary, ":\\");
		printf("'\n");
	}
	printf("\t)\n\t_describe command verbs\n}\n\n_brig() {\n"
	       "\tlocal _brig_program=$words[1]\n"
	       "\tif (( CURRENT == 2 )); then\n\t\t_brig_verbs\n\t\treturn\n\tfi\n"
	       "\tshift words\n\t(( CURRENT-- ))\n\tcase $words[1] in\n");
	for (size_t i = 0; i < count && r == 0; i++)
		r = zsh_verb(list[i]);
	fputs(zsh_tail, stdout);
	return r;
}

/* fish: one line for each thing there is. */
static const char fish_head[] = "# fish completion for brig, made by \"brig completion fish\"\n"
				"function __brig_sandboxes\n"
				"\tset -l program (commandline -opc)[1]\n"
				"\t$program completion sandboxes 2>/dev/null\n"
				"end\n"
				"function __brig_places\n"
				"\t__brig_sandboxes | string replace -r '$' ':'\n"
				"end\n"
				"function __brig_files\n"
				"\t__fish_complete_path (commandline -ct)\n"
				"end\n"
				"function __brig_commands\n"
				"\t__fish_complete_command\n"
				"end\n"
				"complete -c brig -f\n";

static void fish_action(const struct offers *offers)
{
	if (offers->words.count == 0 && offers->kinds == 0)
		return;
	printf(" -a '");
	print_words(&offers->words);
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
		if (offers->kinds & kind_names[i].kind)
			printf(" (__brig_%s)", kind_names[i].name);
	putchar('\'');
}

static int fish_option(const struct verb *verb, const struct completed_option *o)
{
	struct offers offers = { 0 };
	int r = o->argument ? offers_of_argument(o->argument, &offers) : 0;

	if (r < 0)
		return r;
	printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s", verb->name, o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (o->argument)
		printf(" -x");
	fish_action(&offers);
	printf(" -d '");
	quoted(o->summary, "\\");
	printf("'\n");
	offers_done(&offers);
	return 0;
}

static int fish_verb(const struct verb *verb)
{
	struct completed_option o;
	struct offers offers;
	int r = offers_of_verb(verb, &offers);

	if (r < 0)
		return r;
	printf("complete -c brig -n __fish_use_subcommand -a %s -d '", verb->name);
	quoted(verb->summary, "\\");
	printf("'\n");
	if (offers.words.count > 0 || offers.kinds != 0) {
		printf("complete -c brig -n '__fish_seen_subcommand_from %s'", verb->name);
		fish_action(&offers);
		printf("\n");
	}
	for (size_t i = 0; r == 0 && completed_option(verb, i, &o); i++)
		r = fish_option(verb, &o);
	offers_done(&offers);
	return r;
}

int completion_fish(void)
{
	const struct verb *const *list;
	size_t count = verb_list(&list);
	int r = 0;

	fputs(fish_head, stdout);
	printf("function __brig_policies\n\tstring split ' ' '");
	print_policies();
	printf("'\nend\nfunction __brig_verbs\n\tstring split ' ' '");
	print_verbs();
	printf("'\nend\n");
	for (size_t i = 0; i < count && r == 0; i++)
		r = fish_verb(list[i]);
	return r;
}
