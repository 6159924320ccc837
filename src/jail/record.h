/*
 * record.h - what the keeper saw, on its way to the warden
 *
 * The keeper holds the seccomp listener, and so sees the calls that are worth a record. It has no
 * rights and no file of its own; the warden, outside, judges what the policy says of each and
 * writes it down (trace.h). Between them lies a ring in shared memory with one writer and one
 * reader:
 *
 *	struct record_ring *ring;
 *	r = record_ring_new(&ring);                  before the keeper is forked
 *	r = record_put(ring, &entry, texts);         the keeper; -EAGAIN: full
 *	while (record_take(ring, &taken) > 0) ...    the warden
 *
 * The warden is not woken for each entry: that would cost more than the call that is recorded. The
 * keeper writes to the ring's eventfd when the ring is half full, and otherwise when it has nothing
 * else to do and RECORD_DELAY_MS have passed since the oldest entry.
 *
 * Nothing is lost: when the ring is full the keeper waits for the reader, and the sandbox with it.
 *
 * The reader takes nothing of it on trust: an entry is copied once, and its lengths are checked on
 * the copy. A ring that makes no sense (-EBADMSG) means that the keeper is no longer ours, and is
 * the end of the sandbox.
 */
#ifndef BRIG_JAIL_RECORD_H
#define BRIG_JAIL_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RECORD_DELAY_MS 20
#define RECORD_TEXT_MAX 4096 /* of one text, with its NUL */

enum {
	RECORD_BASE,     /* where the path starts from: a directory; "" when the path is absolute */
	RECORD_PATH,     /* as the caller gave it */
	RECORD_BASE_TWO, /* of calls with two paths */
	RECORD_PATH_TWO,
	RECORD_TEXTS,
};

struct record_entry {
	uint64_t time; /* CLOCK_MONOTONIC, nanoseconds */
	uint64_t args[6];
	uint32_t number; /* of the system call */
	int32_t pid;     /* as the keeper sees it */
	uint32_t exec; /* which execve the process comes from: 1, 2, ...; 0 is the first process */
	uint32_t parent; /* of an execve: the one that its caller comes from */
	int32_t answer;  /* RECORD_CONTINUED, or what the keeper let the call return */
	uint32_t lengths[RECORD_TEXTS]; /* without NUL; 0 for none */
	bool is_unread;                 /* the caller's memory could not be read */
};

#define RECORD_CONTINUED INT32_MAX /* the kernel goes on, and decides */

/* An entry with its texts. */
struct record_taken {
	struct record_entry entry;
	char texts[RECORD_TEXTS][RECORD_TEXT_MAX];
};

struct record_ring;

/* Shared with every process that is forked later. */
[[nodiscard]] int record_ring_new(struct record_ring **ret_ring);
void record_ring_free(struct record_ring *ring);

/* What both sides can write to, for tests. */
void *record_ring_memory(struct record_ring *ring);

/* Readable when there is something to take. Both processes have it under the same number. */
int record_ring_fd(const struct record_ring *ring);

/* The keeper's side. Texts may be NULL. The entry's lengths are filled in. */
[[nodiscard]] int record_put(struct record_ring *ring, const struct record_entry *entry,
			     const char *const texts[static RECORD_TEXTS]);

/* Wakes the reader if something waits for it. */
void record_push(struct record_ring *ring);

/* Whether something waits that the reader has not been woken for. */
bool record_is_waiting(const struct record_ring *ring);

/* The warden's side: 1, 0 when there is nothing, or -EBADMSG. */
[[nodiscard]] int record_take(struct record_ring *ring, struct record_taken *ret_taken);

#endif
