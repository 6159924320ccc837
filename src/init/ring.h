/*
 * ring.h - the newest output of a process, both of its streams in their order
 *
 * Bytes are counted from the first that the process ever wrote, whichever stream they went to; the ring
 * has those from begin to end, and what is before begin is gone. It takes no memory until there is
 * something to keep, and grows with it up to RING_MAX. A reader is nothing but an offset of its own.
 *
 * Where the stream changes there is a mark. There can be so many of them only; if two streams alternate
 * faster than that, less is kept.
 */
#ifndef BRIG_INIT_RING_H
#define BRIG_INIT_RING_H

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"

#define RING_MAX       (256 * KIB)
#define RING_MARKS_MAX 2048

struct ring {
	unsigned char *data; /* the byte at offset n is data[n % room] */
	size_t room;         /* a power of two, or 0 */
	uint64_t begin, end;
	struct ring_mark {
		uint64_t at;
		unsigned int stream;
	} * marks; /* a ring, too: the first is about begin, unless there is nothing */
	size_t mark_room, mark_first, mark_count;
};

/* Never fails: what there is no memory for is gone. bytes: what all rings take, which may grow to max. */
void ring_add(struct ring *ring, unsigned int stream, const void *data, size_t len, size_t *bytes,
	      size_t max);

/* So many bytes were written and are not kept, nor anything before them. */
void ring_skip(struct ring *ring, size_t len);

/* As much as lies behind each other in one stream, from at on, which is not before begin. */
size_t ring_piece(const struct ring *ring, uint64_t at, unsigned int *ret_stream,
		  const unsigned char **ret_data);

void ring_done(struct ring *ring, size_t *bytes);

#endif
