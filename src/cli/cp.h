/*
 * cp.h - the parts of brig cp (private to cli/)
 *
 *	cp.c		what was asked for: which side, into which directory, under which name
 *	cp_in.c		from the host into a sandbox
 *	cp_out.c	out of a sandbox, which is hostile
 *	cp_move.c	the bytes of one file
 *
 * Whatever goes wrong with one file is a note, and the others are copied all the same. What ends the
 * copy as a whole (the sandbox is gone, memory is out, somebody pressed ^C) is an error.
 *
 * A descriptor of a file of the host never goes into the sandbox: each file has a pipe of its own.
 */
#ifndef BRIG_CLI_CP_H
#define BRIG_CLI_CP_H

#include <sys/stat.h>

#include "cli/client.h"
#include "cli/progress.h"
#include "jail/changes.h"

#define BITS_KEPT 01777 /* of a mode: neither setuid nor setgid goes from one world to another */
#define NS_PER_S  1000000000

struct copy {
	struct client client;
	const char *user; /* inside; NULL: the sandbox's own */
	struct progress line;
	const struct layer_progress *progress; /* NULL: nobody wants to see it */
	struct changes_outcome outcome;
	uint64_t bytes, files;
	size_t entries; /* that the sandbox has told of so far */
};

/* What the sandbox says about a path. */
struct far_entry {
	char *name;   /* owned: as it was listed, any bytes */
	char *target; /* owned: of a symbolic link; may be NULL */
	mode_t mode;  /* with the type */
	uint64_t size, modified;
};
void far_entry_done(struct far_entry *entry);

/* The beginning of a call for a file: its path, and the user. */
void copy_address(const struct copy *copy, struct draft *d, const char *path);

/* -ENOENT without words about it; others have some. */
[[nodiscard]] int copy_stat(struct copy *copy, const char *path, bool follow,
			    struct far_entry *ret_entry, struct err *err);
[[nodiscard]] int far_entry_take(const struct message *m, struct far_entry *ret_entry);

/* Counts what was moved, and shows it. */
void copy_moved(struct copy *copy, uint64_t bytes, uint64_t files);

/* Whether nothing more can be asked. */
bool copy_is_over(const struct copy *copy);

/* Notes what went wrong with one path, unless that ends the copy: then it returns code. */
[[nodiscard]] int copy_failed(struct copy *copy, const char *path, int code, const struct err *err);

/*
 * The bytes of one file, with a call that takes a pipe (its draft has all but the descriptor). Both
 * hear the answer at the same time, so a call that fails early does not wait for its pipe. says_end:
 * see WRITE_ENDED.
 */
[[nodiscard]] int move_in(struct copy *copy, struct draft *d, int from, bool says_end,
			  struct err *err);

/* bound: more bytes are a breach (-EFBIG). */
[[nodiscard]] int move_out(struct copy *copy, struct draft *d, int to, uint64_t bound,
			   struct err *err);

/* One source. to is where it goes: the name itself. Each returns 0, or -errno with err: the end. */
[[nodiscard]] int copy_in(struct copy *copy, const char *from, const char *to, struct err *err);
[[nodiscard]] int copy_in_stdin(struct copy *copy, const char *to, struct err *err);

/* dir and name: where it goes. shown: dir for a person. */
[[nodiscard]] int copy_out(struct copy *copy, const char *from, const struct far_entry *entry,
			   int dir, const char *name, struct err *err);

/* Into a descriptor, as it comes. */
[[nodiscard]] int copy_out_to(struct copy *copy, const char *from, int to, struct err *err);

#endif
