#include "trace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int reader_init(struct reader *reader, int fd)
{
	*reader = (struct reader){ .fd = fd, .limit = UINT64_MAX, .data = malloc(READER_SIZE) };
	return reader->data ? 0 : -ENOMEM;
}

void reader_done(struct reader *reader)
{
	free(reader->data);
	reader->data = NULL;
}

uint64_t reader_tail(const struct reader *reader)
{
	return reader->read - reader->offset;
}

/* More bytes behind those that are there: how many, 0 at the end. */
static ssize_t fill(struct reader *r)
{
	size_t room;
	ssize_t n;

	if (r->from > 0) {
		memmove(r->data, r->data + r->from, r->to - r->from);
		r->to -= r->from;
		r->from = 0;
	}
	room = READER_SIZE - r->to;
	if (room > r->limit - r->read)
		room = (size_t)(r->limit - r->read);
	do
		n = room ? pread(r->fd, r->data + r->to, room, (off_t)r->read) : 0;
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r->to += (size_t)n;
	r->read += (uint64_t)n;
	return n;
}

static void consume(struct reader *r, size_t len)
{
	r->from += len;
	r->offset += len;
}

int reader_next(struct reader *r, const char **ret_line, size_t *ret_len)
{
	for (;;) {
		const char *line = r->data + r->from;
		size_t have = r->to - r->from;
		const char *end = have ? memchr(line, '\n', have) : NULL;
		size_t len = end ? (size_t)(end - line) : have;
		ssize_t n;

		if (len >= TRACE_LINE_MAX) {
			r->is_skipping = true;
			consume(r, len);
			continue;
		}
		if (end && r->is_skipping) {
			r->is_skipping = false;
			consume(r, len + 1);
			return -EMSGSIZE;
		}
		if (end) {
			consume(r, len + 1);
			*ret_line = line;
			*ret_len = len;
			return 1;
		}
		n = fill(r);
		if (n <= 0)
			return (int)n;
	}
}
