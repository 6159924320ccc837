/*
 * reader.h - the lines of a stream, one after the other
 *
 * The file may be anything: memory is bounded by TRACE_LINE_MAX, whatever its size. It may grow
 * while it is read: at its end reader_next() says 0, and later goes on where it was. A line that is
 * too long is passed over and told as such. What stands behind the last newline is no line (yet).
 */
#ifndef BRIG_TRACE_READER_H
#define BRIG_TRACE_READER_H

#include <stdbool.h>

#include "trace/event.h"

#define READER_SIZE (2 * TRACE_LINE_MAX)

struct reader {
	int fd;
	uint64_t limit; /* reads no further than this; UINT64_MAX: to the end */
	char *data;     /* READER_SIZE bytes */
	size_t from, to;
	uint64_t offset;  /* of the first byte that no line has had yet */
	uint64_t read;    /* so far */
	bool is_skipping; /* in a line that is too long */
};

/* fd stays the caller's. */
[[nodiscard]] int reader_init(struct reader *reader, int fd);
void reader_done(struct reader *reader);

/*
 * 1: a line without its newline, which stays until the next call; 0: none at present; -EMSGSIZE: a
 * line that is too long was passed over; or -errno.
 */
[[nodiscard]] int reader_next(struct reader *reader, const char **ret_line, size_t *ret_len);

/* How many bytes follow the last line, without a newline. */
uint64_t reader_tail(const struct reader *reader);

#endif
