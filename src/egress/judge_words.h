/*
 * judge_words.h - the words of a refusal (for judge.c)
 *
 * Whoever reads them may be a person or a model: each says what was tried, why it was refused, and
 * what would allow it, but offers nothing that opens the host or its credentials without saying so.
 */
#ifndef BRIG_EGRESS_JUDGE_WORDS_H
#define BRIG_EGRESS_JUDGE_WORDS_H

#include "egress/judge.h"

/* What the words are made of, besides the judgement itself. */
struct words_of {
	const struct policy *policy;
	const char *host;  /* name or address, as it was asked for */
	const char *name;  /* that leads to the address, or that the first bytes say; or NULL */
	const char *wrong; /* of the first bytes, or NULL */
	unsigned int port; /* 0: not known (a DNS question) */
	bool is_odd;       /* name is an address or a special name: never offered */
};

/* Sets object and, of a refusal, rule_text, reason and allow_with from the rest of the judgement. */
void judge_say(struct judgement *judgement, const struct words_of *of);

#endif
