/* fleet_internal.h - what conversations (fleet.c), programs (runner.c) and makers (maker.c) share (private to serve/) */
#ifndef BRIG_SERVE_FLEET_INTERNAL_H
#define BRIG_SERVE_FLEET_INTERNAL_H

#include "serve/calls.h"
#include "serve/fleet.h"
#include "serve/id_table.h"

#define FLEET_TAG      "serve-"
#define FLEET_TAG_SIZE 32

/* Programs that run for the daemon, and those that wait for their turn. */
struct runs {
	struct run *first, *waiting, **last_waiting;
	size_t running, waiting_count;
	uint64_t last; /* number */
};

struct fleet {
	struct loop *loop;
	struct fleet_setup setup;
	char *brig;               /* the program */
	char tag[FLEET_TAG_SIZE]; /* of what this life of the daemon makes */
	int home;                 /* the state directory; -EBADF: not there yet */
	struct id_table members;
	struct calls calls;
	struct runs runs;
	struct maker *maker;
};

/* --- fleet.c --- */

/* From now on its end is told. The connection is made here: 0, or -ESRCH when it lives no more. */
[[nodiscard]] int fleet_watch(struct fleet *fleet, const char *id);

/* Whether its end is told. of: the fleet */
bool fleet_knows(void *of, const char *id);

/* --- runner.c --- */
[[nodiscard]] int runner_find_brig(const char *given, char **ret_path, struct err *err);
void runner_done(struct fleet *fleet);
/* brig with these words, and this socket as its descriptor 3. Nobody waits for its end. */
[[nodiscard]] int runner_start_helper(struct fleet *fleet, char *const words[], int socket);

/* --- maker.c --- */
[[nodiscard]] int maker_new(struct fleet *fleet);
void maker_free(struct maker *maker);

#endif
