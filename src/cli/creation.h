/*
 * creation.h - a sandbox that lives, from the words of "brig create" to its warden (private to cli/)
 *
 * What "brig create" does once and "brig forge" for whoever asks, by the same steps:
 *
 *	r = creation_read(&c, argc, argv, err);    its options
 *	r = creation_load(&c, &env, err);          policy, tier, image
 *	r = creation_start(&c, &news);             a warden, and where it tells how it went
 *	... news are read to their end, into text ...
 *	r = creation_judge(&c, &text, err);        0: it lives, text is its manifest
 *	                                           -EAGAIN: to be started again, in a weaker tier
 *	                                           else it failed
 *	creation_done(&c);
 *
 * The warden has nothing of ours but where it tells its news, and goes on without us. If nobody is there
 * any more to be told, it ends: a sandbox whose id nobody knows is of no use.
 */
#ifndef BRIG_CLI_CREATION_H
#define BRIG_CLI_CREATION_H

#include "cli/grant.h"
#include "warden/roster.h"

#define CREATION_NEWS_MAX   (256 * KIB)
#define CREATION_SLICE_SIZE 65 /* jail/cgroup.h */

/* All options of "brig create". */
extern const struct option creation_options[];

struct creation {
	struct grant grant;
	bool json, schema, help;
	const char *from;
	uint64_t idle_ms;
	/* Copies: the command line becomes the warden's title. */
	char name[ROSTER_NAME_MAX + 1], tag[ROSTER_NAME_MAX + 1], slice[CREATION_SLICE_SIZE];
	uint64_t owner; /* of the slice's ids */

	/* From creation_load() on. */
	const struct policy_env *env;
	bool has_policy;
	struct policy policy;
	char digest[POLICY_DIGEST_SIZE]; /* "": nobody reads it */
	const struct tier *tier;
	struct image_layers layers; /* held for as long as the warden lives */
};

/* argv[0] is the verb; words stay the caller's, and must stay. */
[[nodiscard]] int creation_read(struct creation *c, int argc, char **argv, struct err *err);
[[nodiscard]] int creation_load(struct creation *c, const struct policy_env *env, struct err *err);
[[nodiscard]] int creation_start(struct creation *c, int *ret_news);
[[nodiscard]] int creation_judge(struct creation *c, const struct buf *news, struct err *err);
void creation_done(struct creation *c);

#endif
