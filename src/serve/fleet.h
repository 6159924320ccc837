/*
 * fleet.h - the sandboxes as the daemon sees them: one conversation with each warden, and how they come to be
 *
 * The daemon is a client of wardens like any other (proto/message.h): it connects when somebody wants
 * something of a sandbox and keeps the connection; calls of many requests share it. Nothing here waits.
 *
 *	struct draft d = DRAFT(MESSAGE_STAT, 0);                  // the number is given by call_start()
 *	draft_text(&d, FIELD_PATH, path);
 *	r = call_start(fleet, id, &d, NULL, 0, on_message, request, &request->call, err);
 *
 * on_message() gets each answer of the call; the last one is DONE, ERROR, EXITED or whatever ends that type
 * of call by the table, and is_last says so. When the warden is lost it gets a made-up ERROR with code
 * ESRCH and is_last. After is_last the call is gone; before that call_cancel() ends it, and on_message() is
 * not called again. Descriptors of a message are the receiver's: message_take_descriptor(), else they are
 * closed.
 *
 * The fleet knows nothing of tenants, keys and routes.
 */
#ifndef BRIG_SERVE_FLEET_H
#define BRIG_SERVE_FLEET_H

#include "base/err.h"
#include "base/str.h"
#include "data/node.h"
#include "http/loop.h"
#include "proto/channel.h"
#include "trace/event.h"

struct fleet;
typedef uint64_t call_id; /* place and generation; 0: none */

typedef void (*call_message)(void *of, struct message *m, bool is_last);

struct fleet_setup {
	/* The sandbox has ended, or its warden is gone; once for each that was known (made, adopted). */
	void (*ended)(void *of, const char *id);
	void *of;
	const char
		*brig; /* the program; NULL: the one beside ours, or where an installation has it */
};

[[nodiscard]] int fleet_new(struct loop *loop, const struct fleet_setup *setup,
			    struct fleet **ret_fleet, struct err *err);
void fleet_free(struct fleet *fleet); /* sandboxes live on */

/* Takes the call's draft in any case (draft_done is done here) and the descriptors. -ESRCH: no such sandbox. */
[[nodiscard]] int call_start(struct fleet *fleet, const char *id, struct draft *d, int *descriptors,
			     size_t count, call_message on_message, void *of, call_id *ret_call,
			     struct err *err);
call_id call_cancel(struct fleet *fleet, call_id call); /* 0, to be stored */

/* More of a call that is open: DATA, DATA_END, CREDIT. */
[[nodiscard]] int call_send(struct fleet *fleet, call_id call, struct draft *d);

/*
 * Runs brig itself (the program beside this one) with these words behind it, and gives what it printed:
 * create, snapshot, image rm, ... with --json. status: as from wait(). Output is bounded (1 MiB of each).
 * The child gets no descriptor of ours, and dies with nobody: what it began it ends.
 */
struct fleet_output {
	int status;
	const char *out, *err; /* terminated; err: without the final newline and without "brig: " */
	size_t out_len;
};
typedef void (*fleet_ran)(void *of, const struct fleet_output *output);
[[nodiscard]] int fleet_run(struct fleet *fleet, char *const words[], fleet_ran ran, void *of,
			    uint64_t *ret_run, struct err *err);
uint64_t fleet_forget_run(struct fleet *fleet, uint64_t run); /* ran() is not called any more; 0 */

/*
 * Makes a sandbox: as fleet_run() of "create --json" with these options, but by the quickest way there is.
 * manifest: what "brig create --json" prints, or NULL with words. From then on ended() is told of it.
 */
typedef void (*fleet_made)(void *of, const struct node *manifest, const struct err *err);
[[nodiscard]] int fleet_make(struct fleet *fleet, char *const options[], fleet_made made, void *of,
			     struct err *err);

/* At the start of the daemon: does this sandbox live? If so it is watched, and ended() told. */
bool fleet_adopt(struct fleet *fleet, const char *id);

/* What "create --tag" is given for a sandbox of this life that others make for the daemon. */
const char *fleet_tag(const struct fleet *fleet);

/*
 * Ends those that an earlier life of the daemon made and that nobody knows; how many they were. What the
 * fleet makes bears a tag (create --tag) that is another one in each life, so what is being made now is not
 * among them. A child of an earlier life may still be at work: look once more later.
 */
size_t fleet_sweep(struct fleet *fleet, bool (*is_held)(void *of, const char *id), void *of);

#endif
