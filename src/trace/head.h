/*
 * head.h - what a stream must end with, kept apart from it
 *
 * A chain of hashes shows that nothing in it was changed, but not that nothing was cut from its
 * end. So the writer keeps two places of each stream in another file, fixed in size and written in
 * one call:
 *
 *	acked	up to here the lines are in the file
 *	next	up to here they were about to be written, in one go
 *
 * The order is: head, lines, head, lines, ...: each head acknowledges the lines before it and
 * announces those behind it. A writer that is killed leaves one of these:
 *
 *	killed ...			the head says		the file ends
 *	before the first head		nothing (empty)		at 0
 *	after a head, before lines	acked A, next B		at A
 *	in the middle of the lines	acked A, next B		between A and B, perhaps in a line
 *	after lines, before a head	acked A, next B		at B
 *	after the last head		closed, A		at A
 *
 * Everything else was not a crash. What a crash leaves between A and B cannot be told from the work
 * of somebody who cut the same lines off afterwards: at most one batch, of a stream that says
 * itself that it was interrupted. The head of a closed stream leaves no such room. A disk that was
 * full is written down, too: state failed, the last whole line, and how many bytes of a broken line
 * follow it.
 *
 * "sum" finds a head that was read while it was written. It is no signature: whoever can write both
 * the stream and its head can forge both.
 */
#ifndef BRIG_TRACE_HEAD_H
#define BRIG_TRACE_HEAD_H

#include "base/err.h"
#include "trace/event.h"

#define HEAD_SIZE 1024 /* of the file */

enum head_state { HEAD_OPEN, HEAD_CLOSED, HEAD_FAILED, HEAD_REMOVED, HEAD_STATE_COUNT };
extern const char *const head_state_names[HEAD_STATE_COUNT];

struct head_place {
	uint64_t bytes, seq;
	char hash[SHA256_HEX_SIZE]; /* of the last line; zeros before the first */
};

struct head {
	char sandbox[TRACE_ID_SIZE];
	enum head_state state;
	struct head_place acked, next;
	uint64_t denied; /* attempts refused so far */
	uint64_t tail;   /* HEAD_FAILED: bytes of a broken line behind acked */
	uint64_t lost;   /* HEAD_FAILED: events that could not be written */
};

/* The hash that the first line follows. */
#define HEAD_ZERO "0000000000000000000000000000000000000000000000000000000000000000"

void head_format(const struct head *head, char text[static HEAD_SIZE]);
[[nodiscard]] int head_parse(const char *text, size_t len, struct head *ret_head, struct err *err);

[[nodiscard]] int head_write(int fd, const struct head *head);

/* -ENODATA: it is there, but nothing was written to it. */
[[nodiscard]] int head_read(int home, const char *id, struct head *ret_head, struct err *err);

#endif
