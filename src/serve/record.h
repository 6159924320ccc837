/*
 * record.h - the stream of events of a sandbox (trace/reader.h), as a client asks for it
 *
 * Lines behind a number, of some kinds, with some verdict; what does not fit is passed over by its text, without being
 * read as JSON. A stream may be long and the daemon has one thread: after RECORD_SLICE bytes it is time for others.
 */
#ifndef BRIG_SERVE_RECORD_H
#define BRIG_SERVE_RECORD_H

#include "base/err.h"
#include "trace/reader.h"

#define RECORD_SLICE (512 * KIB)

struct recording {
	int fd;
	struct reader reader;
	uint64_t after;      /* seq */
	const char *verdict; /* "deny"; NULL: any */
	unsigned int kinds;  /* a bit set of enum trace_kind; 0: all */
	bool has_ended;      /* the last line was passed, whether it was wanted or not */
	uint64_t slice_end;  /* bytes read so far, at which it is time for others */
};

#define RECORDING_NONE ((struct recording){ .fd = -EBADF })

/* The stream of this sandbox; set what is wanted afterwards. -ENOENT: there is none (any more). */
[[nodiscard]] int record_open(const char *id, struct recording *ret_record, struct err *err);
void record_done(struct recording *record);

/*
 * 1: a line that is wanted, until the next call, with its number; 0: none at present; -EAGAIN: the slice is used up, go
 * on in another turn; -errno.
 */
[[nodiscard]] int record_next(struct recording *record, const char **ret_line, size_t *ret_len,
			      uint64_t *ret_seq);
void record_new_slice(struct recording *record);

/* The text of a field of a line, between its quotes and still escaped; false: there is none. */
bool record_field(const char *line, size_t len, const char *name, const char **ret_text,
		  size_t *ret_len);

#endif
