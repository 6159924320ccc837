/*
 * cli.h - verbs and options as tables
 *
 * One row per verb, one row per option; help, manual and parsing come from them. An option that
 * sets a key of the policy has no row here: it is in the table of keys (policy/keys.h) and taken
 * over where a verb says so.
 *
 * Exit status: a verb's own; 125 for an error of brig itself, always with one line on standard
 * error.
 */
#ifndef BRIG_CLI_CLI_H
#define BRIG_CLI_CLI_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "data/node.h"
#include "policy/policy.h"

#define EXIT_BRIG 125

struct option {
	char letter;          /* short form; 0: none */
	const char *name;     /* without dashes */
	const char *argument; /* NULL: a switch */
	const char *summary;
};

struct verb {
	const char *name;
	const char *usage;   /* behind "brig NAME" */
	const char *summary; /* one line */
	const char *text;    /* paragraphs for help and manual, separated by an empty line */
	const char *example; /* lines of a shell */
	const struct option *options;      /* up to one without a name */
	bool takes_policy;                 /* the options of the policy's keys as well */
	int (*run)(int argc, char **argv); /* argv[0] is the verb */
};

size_t verb_list(const struct verb *const **ret_verbs);
const struct verb *verb_find(const char *name, struct err *err); /* NULL: err suggests one */

extern const struct verb verb_run, verb_create, verb_exec, verb_attach, verb_logs, verb_doctor,
	verb_policy, verb_events, verb_manual, verb_version, verb_help;
extern const struct verb verb_ps, verb_stats, verb_cp, verb_port, verb_net, verb_pause, verb_resume,
	verb_extend, verb_kill, verb_snapshot, verb_image, verb_diff, verb_export, verb_completion;
extern const struct verb verb_serve, verb_key, verb_template;

/*
 * Goes through the options of a verb. Returns 1 with the option's name and value (NULL for a
 * switch), 0 at the first argument that is no option (its index in *at; "--" is skipped), or
 * -EINVAL. An option may be written --user root, --user=root, -u root or -uroot; switches may share
 * a word (-it), the last of which may be an option with a value.
 */
struct args {
	int argc;
	char **argv;
	int at;     /* begin with 1 */
	int letter; /* begin with 0: the next one in argv[at] is behind this */
};
[[nodiscard]] int args_next(struct args *args, const struct verb *verb, const char **ret_name,
			    const char **ret_value, struct err *err);

bool is_help(const char *word); /* --help or -h, for verbs that take next to nothing else */

/* Prints "brig: TEXT" and returns EXIT_BRIG. */
int complain(const struct err *err);
int complain_text(const char *fmt, ...) _printf_(1, 2);

/* Prints a tree as JSON on standard output; the status to exit with. */
int print_json(const struct node *node);

void print_help(const struct verb *verb); /* NULL: of brig as a whole */

/* Where policies are looked up for this process; the strings stay until the end. */
[[nodiscard]] int policy_env_here(struct policy_env *ret_env, struct err *err);

#endif
