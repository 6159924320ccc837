/*
 * terminal.h - a terminal of its own for the sandbox
 *
 * The workload never gets the user's terminal: through it, it could push input into the user's
 * shell, read what is typed elsewhere and write sequences that the terminal obeys. Where standard
 * input, output or error is a terminal, the sandbox gets a pseudo-terminal in its place, and the
 * warden relays:
 *
 *	interactive  standard input is a terminal and brig does not stand in a pipeline: keys go in,
 * output comes out, the user's terminal is in raw mode, window size and suspension follow output
 * only  otherwise: what the sandbox writes comes out; keys stay with the user's terminal
 *
 * In a pipeline ("brig run -- grep x | less") standard input is the user's terminal, opened anew
 * for reading only: relaying keys would steal them from the other program.
 */
#ifndef BRIG_WARDEN_TERMINAL_H
#define BRIG_WARDEN_TERMINAL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "base/err.h"

/* The size of one without a window. */
#define TERMINAL_ROWS    24
#define TERMINAL_COLUMNS 80

struct terminal {
	int outer;  /* the user's terminal: 0, 1 or 2; -EBADF when none of them is one */
	int sink;   /* where output goes: a non-blocking description of the terminal */
	int master; /* our side of the pseudo-terminal */
	int slave;  /* the sandbox's side, until it is started */
	bool is_interactive;
	bool is_raw; /* the user's terminal is in raw mode now */
	struct termios saved;
};

#define TERMINAL_NONE \
	((struct terminal){ .outer = -EBADF, .sink = -EBADF, .master = -EBADF, .slave = -EBADF })

/* Looks at the descriptors named in use (bit set of 0, 1, 2); leaves TERMINAL_NONE when none is a
 * terminal. */
[[nodiscard]] int terminal_open(unsigned int use, struct terminal *ret_terminal, struct err *err);

/*
 * One that was asked for, whatever our own descriptors are: output goes to standard output. has_keys:
 * standard input is a terminal, and its keys go in.
 */
[[nodiscard]] int terminal_make(bool has_keys, struct terminal *ret_terminal, struct err *err);

/* A non-blocking description of the terminal behind a descriptor, to write to. */
int terminal_sink(int fd);

/* What claims to be the master of a pseudo-terminal is one. */
bool terminal_is_master(int fd);

/* The sandbox made a terminal of its own: its master takes the place of ours. */
void terminal_replace(struct terminal *terminal, int master);

void terminal_follow_size(const struct terminal *terminal);

/* Raw mode on, where the terminal is interactive and ours (we are in the foreground); off. */
void terminal_enter(struct terminal *terminal);
void terminal_leave(struct terminal *terminal);

/* Would Ctrl-C, typed now, reach the first process, and does that process ignore it? */
bool terminal_interrupt_is_ignored(const struct terminal *terminal, pid_t first, const char *typed,
				   size_t len);

void terminal_done(struct terminal *terminal);

#endif
