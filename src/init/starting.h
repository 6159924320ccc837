/*
 * starting.h - what a START says, made ready to be spawned
 *
 *	_cleanup_(starting_done) struct starting s = STARTING(init);
 *	r = starting_read(&s, m, NULL, err);
 *	... s.spawn.stdio, by descriptors of the message or a terminal ...
 *	pid = spawn(&s.spawn, err);
 *
 * The words stay in the message, which has to live as long.
 */
#ifndef BRIG_INIT_STARTING_H
#define BRIG_INIT_STARTING_H

#include <limits.h>

#include "init/init.h"
#include "init/spawn.h"

#define STARTING_OWN 8 /* variables that are not the message's */

struct starting {
	struct spawn spawn;
	char own[STARTING_OWN][600]; /* HOME and others, where they are not the sandbox's */
	size_t own_count;
	char directory[PATH_MAX]; /* where it begins in the user's home */
	int to_close[3];          /* the child's descriptors that are not in the message */
};

#define STARTING(of)                                                                   \
	((struct starting){ .spawn = { .rights = (of)->rights, .files = (of)->files }, \
			    .to_close = { -EBADF, -EBADF, -EBADF } })

/* Arguments, user (where the message names none: this one, or NULL), variables, directory. */
[[nodiscard]] int starting_read(struct starting *s, const struct message *m, const char *user,
				struct err *err);

/* Sets "NAME=value" over what the message says. More than there is room for is left out. */
void starting_set(struct starting *s, const char *fmt, ...) _printf_(2, 3);

/* A terminal of the user's; the slave is closed with the rest. */
[[nodiscard]] int starting_make_terminal(struct starting *s, const struct message *m,
					 int *ret_master, struct err *err);

void starting_done(struct starting *s);

#endif
