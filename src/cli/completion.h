/*
 * completion.h - what can stand behind a verb, taken out of the table of verbs (private to cli/)
 *
 * The usage of a verb and the arguments of its options say it already: words in small letters are to
 * be written as they are ("list"), words in capitals stand for something (SANDBOX, FILE).
 */
#ifndef BRIG_CLI_COMPLETION_H
#define BRIG_CLI_COMPLETION_H

#include "base/str.h"
#include "cli/cli.h"

enum offer {
	OFFER_SANDBOXES = 1, /* ids and names of those that live */
	OFFER_PLACES = 2,    /* the same with a colon behind */
	OFFER_FILES = 4,
	OFFER_POLICIES = 8, /* the shipped ones */
	OFFER_COMMANDS = 16,
	OFFER_VERBS = 32,
};

/* What a person may write: words as they are, and kinds of things (a set of enum offer). */
struct offers {
	struct strv words;
	unsigned int kinds;
};

[[nodiscard]] int offers_of_verb(const struct verb *verb, struct offers *ret_offers);
[[nodiscard]] int offers_of_argument(const char *argument, struct offers *ret_offers);
void offers_done(struct offers *offers);

/* An option as a shell sees it, of the verb's own and of the policy's keys. */
struct completed_option {
	char letter;
	const char *name, *argument, *summary;
	bool is_repeated; /* of the policy's: each adds to the others */
};

/* The option at an index; false behind the last. */
bool completed_option(const struct verb *verb, size_t index, struct completed_option *ret_option);

/* The scripts, on standard output. 0 or -ENOMEM. */
[[nodiscard]] int completion_bash(void);
[[nodiscard]] int completion_zsh(void);
[[nodiscard]] int completion_fish(void);

#endif
