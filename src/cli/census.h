/*
 * census.h - asks the wardens of many sandboxes at once how they are
 *
 *	_cleanup_(census_done) struct census census = { 0 };
 *
 *	r = census_take(NULL, false, &census, err);
 *
 * All are asked before the first answer is waited for, so a thousand take hardly longer than one. A
 * warden that does not answer within CENSUS_MS in all is silent: the others are told of all the same.
 */
#ifndef BRIG_CLI_CENSUS_H
#define BRIG_CLI_CENSUS_H

#include "base/str.h"
#include "data/node.h"
#include "proto/message.h"
#include "trace/event.h"

#define CENSUS_MS 1000

#define UNKNOWN UINT64_MAX

enum look_state {
	LOOK_SILENT,   /* it lives, and did not answer in time */
	LOOK_ANSWERED, /* the figures hold */
	LOOK_LOST,     /* its warden was killed */
	LOOK_GONE,     /* ended meanwhile */
};

struct look {
	char id[TRACE_ID_SIZE];
	struct node *manifest; /* owned; NULL where it cannot be read */
	enum look_state state;
	/* Each may be UNKNOWN. */
	uint64_t sandbox_state; /* enum sandbox_state */
	uint64_t time;          /* ms since 1970 */
	uint64_t left;          /* ms; UNKNOWN: no deadline */
	uint64_t cpu;           /* us */
	uint64_t memory, peak, limit, processes, disk, disk_size;
};

struct census {
	struct look *looks;
	size_t count;
};

/*
 * ids: those to ask, or NULL for all that live; one that has ended meanwhile is in the result as
 * LOOK_GONE. with_usage: what only init knows is asked for as well (the disk).
 */
[[nodiscard]] int census_take(const struct strv *ids, bool with_usage, struct census *ret_census,
			      struct err *err);
void census_done(struct census *census);

/* One word for a person: a state of the warden's, or "lost", "gone", "?". */
const char *look_word(const struct look *look);

#endif
