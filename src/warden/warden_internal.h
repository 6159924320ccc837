/*
 * warden_internal.h - what the parts of warden.h share
 *
 * warden.c prepares, starts and leaves; supervise.c waits from the first process to the last;
 * outcome.c says afterwards how it ended, and why.
 */
#ifndef BRIG_WARDEN_WARDEN_INTERNAL_H
#define BRIG_WARDEN_WARDEN_INTERNAL_H

#include <sys/resource.h>

#include "jail/keeper.h"
#include "warden/door.h"
#include "warden/publish.h"
#include "warden/streams.h"
#include "warden/terminal.h"
#include "warden/warden.h"
#include "warden/witness.h"

enum phase { PHASE_RUNNING, PHASE_ENDING, PHASE_KILLED, PHASE_FINISHED };

struct warden {
	const struct warden_request *request;
	struct tier_jail *tj;
	struct result *result;
	struct keeper keeper;
	struct terminal terminal;
	struct streams streams;
	int signals; /* signalfd */
	enum phase phase;
	uint64_t started, ended, phase_deadline, wall_deadline, next_watch;
	bool was_ended_by_us; /* reason is set already */
	int cancel_signal;
	pid_t first;
	bool has_terminal;  /* the one made inside has come */
	const char *search; /* the sandbox's PATH, while its environment is there */
	int status;         /* of the first process, as from wait */
	bool has_status;
	struct keeper_event failure; /* news == KEEPER_FAILED */
	struct record_ring *ring;    /* what the keeper saw; NULL: nothing is recorded */
	struct witness witness;
	struct door door;
	struct publish publish;
	struct rusage usage;
};

/* Until nothing of the sandbox is left and its output is taken, or the reader is too slow. */
void warden_supervise(struct warden *w);

/*
 * Keys that were typed before the sandbox's own terminal is there would be lost. A set-up that
 * hangs (a dead network file system) is ended like anything else.
 */
void warden_await_terminal(struct warden *w);

/* Takes what the keeper saw; also what can no longer be written, or the keeper would wait for room. */
void warden_read_record(struct warden *w);

/* Ends the sandbox without its keeper. */
void warden_kill_keeper(struct warden *w);

/* Fills in the result when all is over. -errno: a wall did not come up, and nothing ran. */
[[nodiscard]] int warden_find_outcome(struct warden *w, struct err *err);

#endif
