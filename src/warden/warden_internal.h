/*
 * warden_internal.h - what the parts of warden.h share
 *
 * warden.c prepares, starts and leaves; live.c does that for a sandbox that lives; supervise.c waits from the first process to the last;
 * outcome.c says afterwards how it ended, and why.
 */
#ifndef BRIG_WARDEN_WARDEN_INTERNAL_H
#define BRIG_WARDEN_WARDEN_INTERNAL_H

#include <sys/resource.h>

#include "jail/keeper.h"
#include "warden/desk.h"
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
	struct strv env;    /* of the sandbox */
	const char *search; /* its PATH */
	int status;         /* of the first process, as from wait */
	bool has_status;
	struct keeper_event failure; /* news == KEEPER_FAILED */
	struct record_ring *ring;    /* what the keeper saw; NULL: nothing is recorded */
	struct witness witness;
	struct door door;
	struct publish publish;
	struct rusage usage;
	bool program_is_file; /* Landlock has to let it be executed */
	int program, channel; /* of init, until it runs; -EBADF: the request's command is started */
	struct desk desk;     /* of a sandbox that lives */
	bool is_frozen;       /* paused or held: the keeper may be as well */
	uint64_t quiet_after; /* init was asked to start something, and may not have done it yet */
	uint64_t idle_deadline; /* when to look whether anybody wants anything; UINT64_MAX: never */
};

#define WARDEN(request_of, jail_of, result_of)         \
	((struct warden){ .request = (request_of),     \
			  .tj = (jail_of),             \
			  .result = (result_of),       \
			  .keeper = KEEPER_NONE,       \
			  .terminal = TERMINAL_NONE,   \
			  .streams = STREAMS_NONE,     \
			  .door = DOOR_NONE,           \
			  .publish = PUBLISH_NONE,     \
			  .desk = DESK_NONE,           \
			  .program = -EBADF,           \
			  .idle_deadline = UINT64_MAX, \
			  .channel = -EBADF,           \
			  .signals = -EBADF })

int warden_make_id(char id[static RESULT_ID_SIZE], struct err *err);
[[nodiscard]] int warden_open_signals(struct warden *w, struct err *err);
struct tier_request warden_tier_request(const struct warden_request *request, const char *id);

/* Starts what was prepared, with all that the warden keeps beside it; and the end of the record. */
[[nodiscard]] int warden_begin(struct warden *w, struct err *err);
[[nodiscard]] int warden_end(struct warden *w, struct err *err);

void warden_close(struct warden *w);
void warden_leave_keeper(const struct warden *w); /* reaps it, where nobody else does */

/* Until nothing of the sandbox is left and its output is taken, or the reader is too slow. */
void warden_supervise(struct warden *w);

/*
 * Keys that were typed before the sandbox's own terminal is there would be lost. A set-up that
 * hangs (a dead network file system) is ended like anything else.
 */
void warden_await_terminal(struct warden *w);

/* One wait while the sandbox is still being set up: for the keeper, a signal, init, or that time. */
void warden_wait(struct warden *w, uint64_t until);

/* Takes what the keeper saw; also what can no longer be written, or the keeper would wait for room. */
void warden_read_record(struct warden *w);

/* The first reason counts: what follows from it is not another one. */
void warden_set_reason(struct warden *w, enum reason reason);

/* Tells the programs first, then ends everything; at once. */
void warden_end_softly(struct warden *w, enum reason reason, int signal);
void warden_kill_now(struct warden *w);

/* When to look at the sums again. Rarely or never where nothing runs but the init of one that lives. */
uint64_t warden_next_watch(const struct warden *w, uint64_t now);

/* Of a sandbox that lives: ends it when nobody wants anything of it. */
void warden_check_idle(struct warden *w, uint64_t now);

/* Ends the sandbox without its keeper. */
void warden_kill_keeper(struct warden *w);

/* The limits that the kernel held so far (enum limit_hit): a program that failed may have failed of them. */
unsigned int warden_hits(const struct warden *w);

/* Fills in the result when all is over. -errno: a wall did not come up, and nothing ran. */
[[nodiscard]] int warden_find_outcome(struct warden *w, struct err *err);

#endif
