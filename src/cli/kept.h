/*
 * kept.h - output that a sandbox kept, as it comes by ATTACH, to our own standard output and error
 *
 * For brig attach (one process, to its end, perhaps with input) and brig logs (any number). What comes
 * is shown before more is taken, and credit given for it then, so a reader who is slow holds nobody's
 * memory but the ring of the process. For a terminal it passes the filter (output/inert.h), with a
 * state of its own for each stream of each process.
 *
 *	_cleanup_(kept_done) struct kept kept = { .session = &session, .process = ... };
 *
 *	r = kept_open(&kept, err);
 *	r = r < 0 ? r : kept_add(&kept, process, title, err);
 *	kept_run(&kept, err);
 */
#ifndef BRIG_CLI_KEPT_H
#define BRIG_CLI_KEPT_H

#include "cli/session.h"

/* Where it goes: never more than one piece waits. */
struct outlet {
	int to;
	bool owns_to;
	bool is_inert;
	struct buf waiting;
	size_t written; /* bytes of it */
};

struct kept_source {
	uint64_t process;
	char title[256]; /* its words, printable */
	bool is_running; /* at least when we asked */
	uint32_t call;   /* 0: not asked yet */
	bool is_over;
	uint64_t dropped; /* bytes, as far as they were told */
	struct kept_stream {
		struct inert inert;
		unsigned char rest[4]; /* of a character that is not whole, for JSON */
		size_t rest_len;
	} streams[2];
};

struct kept {
	struct session *session;
	bool is_raw;
	bool json;
	bool is_following;   /* until the processes end */
	bool has_headers;    /* whose output it is, where there are several */
	bool has_input;      /* our standard input goes to the first */
	bool is_interactive; /* and it is a terminal in raw mode */

	struct outlet outlets[2];
	struct kept_source *sources;
	size_t count;
	const struct kept_source *last; /* under whose header we are */
	uint32_t owed_call;             /* credit, when what waits is written */
	uint64_t owed;
	uint32_t input_call; /* an INPUT that is not answered yet */
	bool input_is_over;
	bool has_failed; /* in words, of one of several */
	int failure;     /* of our own output */
};

[[nodiscard]] int kept_open(struct kept *kept, struct err *err);
[[nodiscard]] int kept_add(struct kept *kept, uint64_t process, const char *title, bool is_running);

/*
 * Until all has come (session->end is SESSION_EXITED, or SESSION_GOES_ON where no status came), or
 * somebody left.
 */
void kept_run(struct kept *kept, struct err *err);

/* What the filters owe the terminal. */
void kept_done(struct kept *kept);

#endif
