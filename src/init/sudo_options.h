/*
 * sudo_options.h - the words behind "sudo", as far as they mean something where nobody has a password
 */
#ifndef BRIG_INIT_SUDO_OPTIONS_H
#define BRIG_INIT_SUDO_OPTIONS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum sudo_action { SUDO_RUN, SUDO_NOTHING, SUDO_LIST, SUDO_HELP, SUDO_VERSION };

struct sudo_options {
	enum sudo_action action;
	const char *user;      /* -u, or NULL */
	const char *directory; /* -D, or NULL */
	const char *kept;      /* variables of --preserve-env=A,B, or NULL */
	bool keeps_all;        /* -E */
	bool sets_home;        /* -H */
	bool is_login;         /* -i */
	bool is_shell;         /* -s */
	char **variables;      /* NAME=value before the command */
	size_t variable_count;
	char **command; /* NULL at its end; empty: none */
};

/* Points into argv. -EINVAL in words. */
[[nodiscard]] int sudo_parse(int argc, char **argv, struct sudo_options *ret_options,
			     struct err *err);

/* Whether a variable of the caller's is kept. */
bool sudo_keeps(const struct sudo_options *options, const char *variable);

/* Words as one line for a shell, each character that could mean something to it escaped. */
[[nodiscard]] int sudo_join(char *const *words, struct buf *out);

#endif
