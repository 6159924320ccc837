#include "jail/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/fd.h"

#define RING_SIZE (256u * KIB) /* a power of two */
#define ALIGNMENT 8u

/*
 * Positions only grow; where they are in the ring is their remainder. The writer's is written by
 * the keeper, the reader's by the warden, each on a line of its own.
 */
struct shared {
	_Alignas(64) uint64_t written;
	_Alignas(64) uint64_t taken;
	_Alignas(64) char bytes[RING_SIZE];
};

/* Each side's own, in memory of its own: what the other side writes leads neither of them astray. */
struct record_ring {
	struct shared *shared;
	uint64_t written, taken; /* how far this side is with what it does */
	uint64_t pushed;         /* up to where the reader was woken */
	int event;
};

_Static_assert((size_t)RECORD_TEXTS *RECORD_TEXT_MAX * 4 < RING_SIZE, "several entries always fit");

int record_ring_new(struct record_ring **ret_ring)
{
	_cleanup_close_ int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct record_ring *ring;
	struct shared *shared;

	if (event < 0)
		return -errno;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return -errno;
	ring = calloc(1, sizeof(*ring));
	if (!ring) {
		munmap(shared, sizeof(*shared));
		return -ENOMEM;
	}
	*ring = (struct record_ring){ .shared = shared, .event = take_fd(&event) };
	*ret_ring = ring;
	return 0;
}

void record_ring_free(struct record_ring *ring)
{
	if (!ring)
		return;
	fd_close(ring->event);
	munmap(ring->shared, sizeof(*ring->shared));
	free(ring);
}

void *record_ring_memory(struct record_ring *ring)
{
	return ring->shared;
}

int record_ring_fd(const struct record_ring *ring)
{
	return ring->event;
}

static void copy_in(struct shared *ring, uint64_t at, const void *data, size_t len)
{
	size_t start = at % RING_SIZE, first = MIN(len, RING_SIZE - start);

	memcpy(ring->bytes + start, data, first);
	memcpy(ring->bytes, (const char *)data + first, len - first);
}

static void copy_out(const struct shared *ring, uint64_t at, void *data, size_t len)
{
	size_t start = at % RING_SIZE, first = MIN(len, RING_SIZE - start);

	memcpy(data, ring->bytes + start, first);
	memcpy((char *)data + first, ring->bytes, len - first);
}

static size_t rounded(size_t len)
{
	return (len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

int record_put(struct record_ring *ring, const struct record_entry *entry,
	       const char *const texts[static RECORD_TEXTS])
{
	struct record_entry full = *entry;
	uint64_t at = ring->written;
	size_t len = sizeof(full);

	for (int i = 0; i < RECORD_TEXTS; i++) {
		full.lengths[i] = texts[i] ? (uint32_t)strnlen(texts[i], RECORD_TEXT_MAX - 1) : 0;
		len += full.lengths[i];
	}
	if (rounded(len) >
	    RING_SIZE - (at - __atomic_load_n(&ring->shared->taken, __ATOMIC_ACQUIRE)))
		return -EAGAIN;
	copy_in(ring->shared, at, &full, sizeof(full));
	at += sizeof(full);
	for (int i = 0; i < RECORD_TEXTS; i++) {
		if (full.lengths[i])
			copy_in(ring->shared, at, texts[i], full.lengths[i]);
		at += full.lengths[i];
	}
	ring->written += rounded(len);
	__atomic_store_n(&ring->shared->written, ring->written, __ATOMIC_RELEASE);
	if (ring->written - ring->pushed > RING_SIZE / 2)
		record_push(ring);
	return 0;
}

bool record_is_waiting(const struct record_ring *ring)
{
	return ring->pushed != ring->written;
}

void record_push(struct record_ring *ring)
{
	const uint64_t one = 1;

	if (!record_is_waiting(ring))
		return;
	ring->pushed = ring->written;
	/* It fails only where the reader has not looked for 2^64 times. */
	(void)!write(ring->event, &one, sizeof(one));
}

/* What the other side says is looked at once, and believed only where it can be. */
int record_take(struct record_ring *ring, struct record_taken *ret_taken)
{
	uint64_t written = __atomic_load_n(&ring->shared->written, __ATOMIC_ACQUIRE),
		 at = ring->taken;
	struct record_entry *entry = &ret_taken->entry;
	uint64_t there = written - at, len = sizeof(*entry);

	if (there == 0)
		return 0;
	if (there > RING_SIZE || there < sizeof(*entry))
		return -EBADMSG;
	copy_out(ring->shared, at, entry, sizeof(*entry));
	for (int i = 0; i < RECORD_TEXTS; i++) {
		if (entry->lengths[i] >= RECORD_TEXT_MAX)
			return -EBADMSG;
		len += entry->lengths[i];
	}
	if (rounded(len) > there)
		return -EBADMSG;
	at += sizeof(*entry);
	for (int i = 0; i < RECORD_TEXTS; i++) {
		copy_out(ring->shared, at, ret_taken->texts[i], entry->lengths[i]);
		ret_taken->texts[i][entry->lengths[i]] = '\0';
		at += entry->lengths[i];
	}
	ring->taken += rounded(len);
	__atomic_store_n(&ring->shared->taken, ring->taken, __ATOMIC_RELEASE);
	return 1;
}
