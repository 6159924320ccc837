/*
 * streams.h - what the sandbox reads and writes
 *
 * Each of the three standard descriptors is passed on as it is (nothing to do, nothing to pay),
 * replaced by the sandbox's terminal, or made a pipe that the warden relays or captures. Whatever
 * the other side does, the warden never blocks on it: it writes only what poll says there is room
 * for.
 */
#ifndef BRIG_WARDEN_STREAMS_H
#define BRIG_WARDEN_STREAMS_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

#include "base/buf.h"
#include "output/inert.h"
#include "warden/terminal.h"

#define CAPTURE_MAX (1 * MIB) /* of each stream, without a limit in the policy */

#define PENDING_MAX 12416 /* three times what is read at once, and what the filter holds */

struct stream {
	int from;            /* our end; -EBADF when there is nothing (more) to relay */
	int to;              /* where it goes, or -EBADF: captured only */
	struct buf *capture; /* or NULL */
	bool is_inert;       /* passes through the filter for terminals */
	struct inert inert;
	bool owns_to;    /* closed with the stream */
	bool is_moved;   /* from pipe to pipe, without a copy */
	bool lacks_room; /* of one that is moved: there was none */
	uint64_t left;   /* bytes that still count, see streams_last() */
	char *pending;   /* ready to be written, PENDING_MAX; NULL until something is relayed */
	size_t pending_at, pending_len;
};

enum { STREAM_TERMINAL, STREAM_OUT, STREAM_ERR, STREAM_KEYS, STREAM_COUNT };

struct streams {
	struct stream items[STREAM_COUNT];
	int stdio[3];   /* for the sandbox; -EBADF: /dev/null */
	bool owned[3];  /* ours to close once it runs */
	uint64_t bytes; /* on output and error so far */
	uint64_t limit; /* of them, or UINT64_MAX */
	bool truncated, over_limit;
	bool keys_are_ours; /* set by the warden before each wait */
};

#define STREAMS_NONE                                                                       \
	((struct streams){ .items = { [0 ... STREAM_COUNT - 1] = { .from = -EBADF,         \
								   .to = -EBADF,           \
								   .left = UINT64_MAX } }, \
			   .stdio = { -EBADF, -EBADF, -EBADF } })

struct streams_request {
	bool capture;          /* --json: nothing is shown, all is kept */
	bool is_raw;           /* --raw: no filter */
	bool has_no_input;     /* /dev/null instead */
	bool has_no_terminal;  /* a terminal of ours is relayed by a pipe */
	uint64_t limit;        /* limits.output, or UINT64_MAX */
	struct buf *out, *err; /* for capture */
};

[[nodiscard]] int streams_open(const struct streams_request *request, struct terminal *terminal,
			       struct streams *ret_streams, struct err *err);

/* All that the sandbox has is the terminal. */
void streams_open_terminal(const struct streams_request *request, const struct terminal *terminal,
			   struct streams *ret_streams);

/* Once the sandbox has its ends: ours of them are closed. */
void streams_started(struct streams *streams, struct terminal *terminal);

/* Fills fds (room for STREAM_COUNT * 2) with what to wait for; streams_poll() acts on the answers.
 */
size_t streams_fds(const struct streams *streams, struct pollfd *fds);
void streams_poll(struct streams *streams, const struct pollfd *fds, size_t count);

/* Keys that were typed in the last streams_poll(), for the caller to look at. */
size_t streams_typed(const struct streams *streams, const char **ret_keys);

/* Nothing to relay any more but keys. */
bool streams_drained(const struct streams *streams);

/*
 * The program has ended, others may still hold its pipes: what is in them now is relayed, what they
 * write later is not.
 */
void streams_last(struct streams *streams);

/* What the filter owes the terminal; then closes all. */
void streams_done(struct streams *streams);

#endif
