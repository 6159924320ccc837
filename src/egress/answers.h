/*
 * answers.h - which address was given to this sandbox for which name, and until when
 *
 * A program resolves a name and connects to an address; the table joins the two. It holds what the
 * gate's own resolver answered for allowed names and nothing else, so a lost entry can only refuse
 * a connection that would have been allowed, never the other way: when it is full, the entry that
 * ends first makes room. Whether the name is allowed, and on which port, is asked of the policy anew
 * at every connection.
 *
 * Programs keep addresses for longer than their TTL says (Java: 30 s at least; connection pools: for
 * good), so an entry stays for ten minutes at least and a day at most. An address that changed
 * hands meanwhile gains nothing: the first bytes must still say the name.
 */
#ifndef BRIG_EGRESS_ANSWERS_H
#define BRIG_EGRESS_ANSWERS_H

#include "egress/name.h"

#define ANSWERS_MAX         1024
#define ANSWERS_HOLD_MIN_MS (600 * 1000ull)
#define ANSWERS_HOLD_MAX_MS (86400 * 1000ull)

struct answers {
	size_t count;
	struct answer_key {
		unsigned char ip[ADDRESS_BYTES];
		uint64_t until_ms;
	} keys[ANSWERS_MAX];
	char names[ANSWERS_MAX][NAME_SIZE]; /* apart: a look at the keys stays in the cache */
};

/* About 280 KB, of which only what was used is touched: from calloc or static memory. */
void answers_init(struct answers *answers);

/* now_ms is of a clock that never goes back. Adding the same pair again prolongs it. */
void answers_add(struct answers *answers, const unsigned char ip[ADDRESS_BYTES], const char *name,
		 uint32_t ttl, uint64_t now_ms);

/*
 * The names of an address, one after the other: start with *cursor = 0, ends with NULL. The string
 * is the table's and lives until the next answers_add().
 */
const char *answers_next(const struct answers *answers, const unsigned char ip[ADDRESS_BYTES],
			 uint64_t now_ms, size_t *cursor);

bool answers_has(const struct answers *answers, const unsigned char ip[ADDRESS_BYTES],
		 const char *name, uint64_t now_ms);

#endif
