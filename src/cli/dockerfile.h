/*
 * dockerfile.h - a Dockerfile, read into the steps of a template's build
 *
 * The same steps come from a file that a person wrote and from a client of the daemon (build_plan_read), and are
 * done by the same code (build.h). Variables are put in when a step is done, since only then is known what they
 * are: "$" in front of a name, "\$" for a dollar.
 *
 * What cannot be done is refused in words when it is read, before anything runs: several stages, heredocs, files
 * from other images and from the network. What changes nothing here (EXPOSE, LABEL) is a note.
 */
#ifndef BRIG_CLI_DOCKERFILE_H
#define BRIG_CLI_DOCKERFILE_H

#include "base/str.h"
#include "data/node.h"

#define BUILD_STEPS_MAX    1024
#define DOCKERFILE_MAX     (1 * MIB)
#define BUILD_BASE         "base"
#define BUILD_DEFAULT_USER "user" /* of the base template */

enum step_kind { STEP_RUN, STEP_COPY, STEP_ENV, STEP_ARG, STEP_WORKDIR, STEP_USER, STEP_KINDS };
extern const char *const step_names[STEP_KINDS];

/*
 * RUN      one word: for the shell; several where is_exec: a program and its arguments
 * COPY     sources, and where they go last
 * ENV      name, value, name, value, ...
 * ARG      name, value: for the build alone
 * WORKDIR  a directory;  USER  a user
 */
struct build_step {
	enum step_kind kind;
	unsigned int line; /* of the file; 0 */
	bool is_exec;
	struct strv args;
	char *user;         /* RUN: not the one of the steps before; NULL */
	char *owner, *mode; /* COPY; NULL */
	char *archive;      /* COPY: a tar with the sources; NULL: they are in the context */
};

struct build_plan {
	char *from; /* a template */
	struct build_step *steps;
	size_t count;
	char *start, *ready; /* commands; NULL */
	struct strv notes;   /* what was passed over, a line each */
};

#define BUILD_PLAN ((struct build_plan){ 0 })
void build_plan_done(struct build_plan *plan);

/* name is for messages. */
[[nodiscard]] int dockerfile_read(const char *name, const char *text, size_t len,
				  struct build_plan *ret_plan, struct err *err);

/* {"from", "steps": [{"type", "args", "archive"?}], "startCmd", "readyCmd"}, as clients of the daemon say it. */
[[nodiscard]] int build_plan_read(const struct node *node, struct build_plan *ret_plan,
				  struct err *err);

#endif
