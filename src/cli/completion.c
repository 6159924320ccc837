/* completion.c - brig completion: the verbs and options, for the TAB key of a shell */
#include "cli/completion.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "cli/live.h"
#include "policy/keys.h"
#include "policy/policy.h"
#include "warden/roster.h"

static const struct option completion_options[] = {
	{ 'h', "help", NULL, "this text" },
	{ 0 },
};

/* What words in capitals stand for. */
static const struct {
	const char *word;
	unsigned int kinds;
} meanings[] = {
	{ "SANDBOX", OFFER_SANDBOXES }, { "SANDBOX:PATH", OFFER_PLACES },
	{ "FILE", OFFER_FILES },        { "FILE.tar", OFFER_FILES },
	{ "DIR", OFFER_FILES },         { "PATH", OFFER_FILES },
	{ "SOURCE", OFFER_FILES },      { "DESTINATION", OFFER_FILES },
	{ "COMMAND", OFFER_COMMANDS },  { "FILE|NAME", OFFER_FILES | OFFER_POLICIES },
};

void offers_done(struct offers *offers)
{
	strv_done(&offers->words);
}

static bool is_small(const char *word)
{
	for (const char *p = word; *p; p++)
		if (!islower((unsigned char)*p) && *p != '-')
			return false;
	return *word && *word != '-';
}

/* One word of a usage, without brackets and dots. */
static int take_word(struct offers *offers, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (str_equal(word, meanings[i].word)) {
			offers->kinds |= meanings[i].kinds;
			return 0;
		}
	/* "options" is not one to write. */
	if (!is_small(word) || str_equal(word, "options") || strv_has(&offers->words, word))
		return 0;
	return strv_add(&offers->words, word);
}

/* "FILE|NAME" is a kind of its own; "TIME|never" are two words. */
static int take_words(struct offers *offers, char *word)
{
	char *rest = word, *part;
	int r = take_word(offers, word);

	if (r < 0 || !strchr(word, '|') || str_equal(word, "FILE|NAME"))
		return r;
	while (r == 0 && (part = strsep(&rest, "|")))
		r = take_word(offers, part);
	return r;
}

static int take_usage(struct offers *offers, const char *usage)
{
	_cleanup_free_ char *copy = strdup(usage);
	char *rest = copy, *word;
	int r = copy ? 0 : -ENOMEM;

	while (r == 0 && (word = strsep(&rest, " []."))) {
		/* What follows a letter is its argument. */
		if (word[0] == '-' && word[1] && word[1] != '-' && rest && *rest != '-') {
			char *before = rest;

			if (word[2] == '\0' && isupper((unsigned char)*rest))
				(void)strsep(&rest, " []");
			else
				rest = before;
			continue;
		}
		if (*word)
			r = take_words(offers, word);
	}
	return r;
}

int offers_of_verb(const struct verb *verb, struct offers *ret_offers)
{
	struct offers offers = { 0 };
	int r = take_usage(&offers, verb->usage);

	if (r < 0) {
		offers_done(&offers);
		return r;
	}
	/* A command of a sandbox is not one of this host; that of "help" is a verb. */
	if (offers.kinds & OFFER_SANDBOXES)
		offers.kinds &= ~(unsigned int)OFFER_COMMANDS;
	if (str_equal(verb->name, "help"))
		offers.kinds = OFFER_VERBS;
	*ret_offers = offers;
	return 0;
}

int offers_of_argument(const char *argument, struct offers *ret_offers)
{
	_cleanup_free_ char *copy = strdup(argument);
	struct offers offers = { 0 };
	int r = copy ? 0 : -ENOMEM;

	if (str_equal(argument, "TIER"))
		for (size_t i = ISOLATION_UNSET + 1; i < ISOLATION_COUNT && r == 0; i++)
			r = strv_add(&offers.words, isolation_names[i]);
	else if (r == 0)
		r = take_words(&offers, copy);
	if (r < 0) {
		offers_done(&offers);
		return r;
	}
	*ret_offers = offers;
	return 0;
}

bool completed_option(const struct verb *verb, size_t index, struct completed_option *ret_option)
{
	const struct option *o = verb->options;

	for (; o && o->name; o++)
		if (index-- == 0) {
			*ret_option = (struct completed_option){ o->letter, o->name, o->argument,
								 o->summary, false };
			return true;
		}
	for (size_t i = 0; verb->takes_policy && i < policy_key_count; i++)
		for (size_t k = 0; k < KEY_MAX_FLAGS && policy_keys[i].flags[k].name; k++)
			if (index-- == 0) {
				const struct key_flag *flag = &policy_keys[i].flags[k];

				*ret_option =
					(struct completed_option){ 0, flag->name, flag->argument,
								   flag->summary, true };
				return true;
			}
	return false;
}

/* For the scripts: nobody is asked, so that no key is slow. */
static int print_sandboxes(void)
{
	_cleanup_(strv_done) struct strv ids = { 0 };
	struct err err = ERR_NONE;

	if (roster_ids(&ids, &err) < 0)
		return complain(&err);
	for (size_t i = 0; i < ids.count; i++) {
		_cleanup_(node_freep) struct node *manifest = NULL;
		const char *name;
		bool is_alive;

		if (roster_read(ids.items[i], &manifest, &is_alive, NULL) < 0 || !is_alive)
			continue;
		printf("%s\n", ids.items[i]);
		name = manifest_text(manifest, "name");
		if (name && roster_name_is_valid(name))
			printf("%s\n", name);
	}
	return 0;
}

static int verb_completion_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*print)(void);
	} shells[] = { { "bash", completion_bash },
		       { "zsh", completion_zsh },
		       { "fish", completion_fish } };

	if (argc == 2 && is_help(argv[1])) {
		print_help(&verb_completion);
		return 0;
	}
	if (argc == 2 && str_equal(argv[1], "sandboxes"))
		return print_sandboxes();
	for (size_t i = 0; i < ARRAY_SIZE(shells) && argc == 2; i++)
		if (str_equal(argv[1], shells[i].name))
			return shells[i].print() < 0 ? complain_text("out of memory") : 0;
	return complain_text("completion: use \"bash\", \"zsh\" or \"fish\"");
}

const struct verb verb_completion = {
	.name = "completion",
	.usage = "bash | zsh | fish | sandboxes",
	.summary = "print what makes the TAB key of a shell complete brig's words",
	.text = "Prints a script for the shell that completes verbs, options and their arguments, "
		"sandboxes that live, shipped policies and files. \"make install\" puts the "
		"scripts where the shells look for them. sandboxes prints the ids and names that "
		"the scripts offer.",
	.example = "source <(brig completion bash)\n"
		   "brig completion zsh > \"${fpath[1]}/_brig\"\n"
		   "brig completion fish > ~/.config/fish/completions/brig.fish",
	.options = completion_options,
	.run = verb_completion_main,
};
