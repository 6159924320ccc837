/*
 * build.h - a template, built: the steps of a plan, one after the other, in a sandbox of their own (private to cli/)
 *
 * The sandbox is made from the image of the template that the plan begins with, each step is a command in it, and
 * what they left is kept as an image. All of it is done by brig itself ("brig create", "exec", "snapshot", "kill"),
 * run as children: a build has no power that its user does not have, and nothing of a client's is read on this side
 * of the wall. Files go in as a tar that is unpacked inside.
 *
 *	struct build build = BUILD;
 *	build.plan = &plan;
 *	r = build_run(&build, err);        build.image is there, or nothing is
 *	build_done(&build);
 */
#ifndef BRIG_CLI_BUILD_H
#define BRIG_CLI_BUILD_H

#include "cli/dockerfile.h"
#include "trace/event.h"

#define BUILD_IMAGE_SIZE 65
#define BUILD_LOG_MAX    (1 * MIB) /* of what the steps print */
#define BUILD_WALL       "2h"

struct build {
	const struct build_plan *plan;
	char *context;       /* where COPY finds files; NULL: in the archives of the steps */
	struct strv options; /* of "brig create" */
	char *from_image;    /* NULL or "": none */
	const char *shell;   /* of RUN */
	const char *
		copies_as; /* who owns what is copied where nobody says; NULL: who runs the steps */
	char image[BUILD_IMAGE_SIZE];
	bool is_quiet; /* steps are not announced */

	int log;             /* lines of JSON go there; -EBADF: for a person, on standard error */
	size_t logged;       /* bytes */
	bool is_full;        /* and it was said */
	char step[24];       /* "base", "1", "2", ..., "finalize" */
	struct node *env;    /* of the template so far */
	struct node *args;   /* of the build alone */
	struct node *inside; /* what the sandbox has of its own */
	char *workdir, *user;
	bool has_one_user; /* where the host gives brig no further ids, there is no root inside */
	bool has_workdir, has_user; /* some step has set it */
	char id[TRACE_ID_SIZE];
	uint64_t bytes; /* of the image */
};

#define BUILD ((struct build){ .log = -EBADF, .shell = "/bin/sh" })

[[nodiscard]] int build_run(struct build *build, struct err *err);
void build_done(struct build *build);

/* --- build_log.c --- */
void build_say(struct build *build, const char *level, const char *fmt, ...) _printf_(3, 4);
void build_output(struct build *build, const char *line, size_t len);
void build_result(struct build *build, struct node *result); /* the last line; takes it */

/* --- build_child.c --- */

/* Somebody wants us to end: from here on children are ended, and no new one is begun but to clear up. */
void build_watch_signals(void);
bool build_is_ended(void);
/* What is begun now clears up, and is not ended. */
void build_clear_up(void);

/*
 * brig with these words (program NULL), or another program. in: its standard input, taken; -EBADF: none. out: what it
 * prints on standard output; NULL: that goes to the log, as what it says on standard error always does, but for
 * out, where that is the error. The status as a shell says it, or -errno.
 */
[[nodiscard]] int build_child(struct build *build, const char *program, char *const *words, int in,
			      struct buf *out, struct err *err);

/* feed() writes the input, while the child runs. */
typedef int (*build_feed)(void *of, int to, struct err *err);
[[nodiscard]] int build_child_fed(struct build *build, char *const *words, build_feed feed,
				  void *of, struct err *err);

/* --- build_copy.c --- */
[[nodiscard]] int build_copy(struct build *build, const struct build_step *step, struct err *err);

/* A command in the sandbox as this user, with the variables so far; input: "-i" is among its options. */
[[nodiscard]] int build_words(struct build *build, const char *user, const char *workdir,
			      bool has_input, char *const *command, struct strv *words);
/* A script for /bin/sh or bash with arguments, its words prepared. -EINVAL with words when it fails. */
[[nodiscard]] int build_script(struct build *build, const char *user, const char *script,
			       const char *const *arguments, struct err *err);
[[nodiscard]] int build_expand(const struct build *build, const char *text, char **ret_text);

#endif
