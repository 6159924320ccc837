/*
 * verify.h - was a stream changed since it was written?
 *
 * Finds any change, cut (also at the end), reordering, insertion, double or missing line in a
 * stream whose head is intact, and says the first line where it breaks. What a writer that was
 * killed leaves (head.h) is not a break; it is told apart by the state. A stream that is being
 * written is checked as far as its head has acknowledged it.
 *
 * What it cannot find, trace.h says: both files forged together, and a stream that was removed
 * together with its head.
 */
#ifndef BRIG_TRACE_VERIFY_H
#define BRIG_TRACE_VERIFY_H

#include "trace/head.h"

enum verify_state {
	VERIFY_COMPLETE,    /* from the first to the last line */
	VERIFY_RUNNING,     /* so far */
	VERIFY_INTERRUPTED, /* the writer was killed */
	VERIFY_FAILED,      /* the writer could not write (a full disk), and said so */
	VERIFY_BROKEN,
	VERIFY_STATE_COUNT,
};
extern const char *const verify_state_names[VERIFY_STATE_COUNT];

struct verdict_of_stream {
	enum verify_state state;
	uint64_t lines; /* that are as they were written */
	uint64_t line;  /* VERIFY_BROKEN: the first that is not, from 1; 0: the head */
	uint64_t lost;  /* VERIFY_FAILED: events that were not written */
	char text[256]; /* in words */
};

/*
 * The pure part, for lines from anywhere. head NULL: there is none, or it cannot be read, and why
 * says so. is_alive: only what the head acknowledges counts.
 */
struct verify {
	const char *sandbox;
	const struct head *head; /* NULL: there is none */
	bool is_alive;
	uint64_t seq, bytes;
	char hash[SHA256_HEX_SIZE];
	bool is_ended, is_broken;
	struct verdict_of_stream result;
};

void verify_init(struct verify *v, const char *sandbox, const struct head *head, bool is_alive);

/* The next line; false: it is broken, and no more need follow. text NULL: a line that is too long. */
bool verify_line(struct verify *v, const char *text, size_t len);

/* There are no more lines, but tail bytes that are none. */
void verify_end(struct verify *v, uint64_t tail, struct verdict_of_stream *ret_verdict);

/* A stream of the state directory. -errno only where nothing can be said of it. */
[[nodiscard]] int verify_stream(int home, const char *id, struct verdict_of_stream *ret_verdict,
				struct err *err);

#endif
