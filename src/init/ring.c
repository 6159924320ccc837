#include "init/ring.h"

#include <stdbool.h>
#include <string.h>

#define ROOM_FIRST  ((size_t)4 * KIB)
#define MARKS_FIRST ((size_t)4)

static struct ring_mark *mark_at(const struct ring *ring, size_t index)
{
	return &ring->marks[(ring->mark_first + index) % ring->mark_room];
}

/* Forgets what is before an offset. */
static void forget(struct ring *ring, uint64_t before)
{
	ring->begin = before;
	while (ring->mark_count > 1 && mark_at(ring, 1)->at <= before) {
		ring->mark_first = (ring->mark_first + 1) % ring->mark_room;
		ring->mark_count--;
	}
	if (ring->begin == ring->end)
		ring->mark_count = 0;
}

static void copy_in(unsigned char *data, size_t room, uint64_t at, const unsigned char *from,
		    size_t len)
{
	size_t first = MIN(len, room - (size_t)(at % room));

	memcpy(data + at % room, from, first);
	if (len > first)
		memcpy(data, from + first, len - first);
}

static void grow(struct ring *ring, size_t len, size_t *bytes, size_t max)
{
	size_t need = (size_t)(ring->end - ring->begin) + len, room = MAX(ring->room, ROOM_FIRST);
	unsigned char *data;

	while (room < need && room < RING_MAX)
		room *= 2;
	if (room == ring->room || *bytes + room - ring->room > max)
		return;
	data = malloc(room);
	if (!data)
		return;
	for (uint64_t at = ring->begin; at < ring->end;) {
		size_t here = (size_t)(at % ring->room);
		size_t part = MIN(ring->room - here, (size_t)(ring->end - at));

		copy_in(data, room, at, ring->data + here, part);
		at += part;
	}
	free(ring->data);
	ring->data = data;
	*bytes += room - ring->room;
	ring->room = room;
}

static void grow_marks(struct ring *ring, size_t *bytes, size_t max)
{
	size_t room = ring->mark_room ? ring->mark_room * 2 : MARKS_FIRST;
	size_t more = (room - ring->mark_room) * sizeof(*ring->marks);
	struct ring_mark *marks;

	if (room > RING_MARKS_MAX || *bytes + more > max)
		return;
	marks = malloc(room * sizeof(*marks));
	if (!marks)
		return;
	for (size_t i = 0; i < ring->mark_count; i++)
		marks[i] = *mark_at(ring, i);
	free(ring->marks);
	ring->marks = marks;
	ring->mark_room = room;
	ring->mark_first = 0;
	*bytes += more;
}

/* False: there is no memory for a single one. */
static bool mark(struct ring *ring, unsigned int stream, size_t *bytes, size_t max)
{
	if (ring->mark_count > 0 && mark_at(ring, ring->mark_count - 1)->stream == stream)
		return true;
	if (ring->mark_count == ring->mark_room)
		grow_marks(ring, bytes, max);
	if (ring->mark_room == 0)
		return false;
	if (ring->mark_count == ring->mark_room)
		forget(ring, ring->mark_count > 1 ? mark_at(ring, 1)->at : ring->end);
	*mark_at(ring, ring->mark_count) = (struct ring_mark){ .at = ring->end, .stream = stream };
	ring->mark_count++;
	return true;
}

void ring_add(struct ring *ring, unsigned int stream, const void *data, size_t len, size_t *bytes,
	      size_t max)
{
	const unsigned char *p = data;

	grow(ring, len, bytes, max);
	while (len > 0) {
		size_t part = MIN(len, ring->room), kept;

		if (part == 0 || !mark(ring, stream, bytes, max)) {
			ring->end += len;
			forget(ring, ring->end);
			return;
		}
		kept = (size_t)(ring->end - ring->begin);
		ring->end += part;
		if (kept + part > ring->room)
			forget(ring, ring->end - ring->room);
		copy_in(ring->data, ring->room, ring->end - part, p, part);
		p += part;
		len -= part;
	}
}

void ring_skip(struct ring *ring, size_t len)
{
	ring->end += len;
	forget(ring, ring->end);
}

/* Index of the mark that an offset is behind. */
static size_t find_mark(const struct ring *ring, uint64_t at)
{
	size_t low = 0, high = ring->mark_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (mark_at(ring, middle)->at <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

size_t ring_piece(const struct ring *ring, uint64_t at, unsigned int *ret_stream,
		  const unsigned char **ret_data)
{
	uint64_t end = ring->end;
	size_t index, here;

	if (at < ring->begin || at >= end)
		return 0;
	index = find_mark(ring, at);
	if (index + 1 < ring->mark_count)
		end = mark_at(ring, index + 1)->at;
	here = (size_t)(at % ring->room);
	*ret_stream = mark_at(ring, index)->stream;
	*ret_data = ring->data + here;
	return MIN((size_t)(end - at), ring->room - here);
}

void ring_done(struct ring *ring, size_t *bytes)
{
	*bytes -= ring->room + ring->mark_room * sizeof(*ring->marks);
	free(ring->data);
	free(ring->marks);
	*ring = (struct ring){ 0 };
}
