/* make_internal.h - one sandbox on its way (private to make*.c) */
#ifndef BRIG_SERVE_MAKE_INTERNAL_H
#define BRIG_SERVE_MAKE_INTERNAL_H

#include "serve/make.h"

struct make {
	struct serve *serve;
	struct make_order order;
	char tenant[TENANT_NAME_MAX + 1];
	char id[TRACE_ID_SIZE]; /* "": there is none yet */
	double cpu;             /* what was reserved */
	uint64_t memory, disk;
	make_done done; /* NULL: nobody waits any more */
	void *of;
	uint64_t began;     /* loop_now() */
	call_id call;       /* the one step that is being waited for */
	loop_id timer;      /* until the ready command is tried again */
	loop_id bound;      /* of the template's commands, however often */
	uint64_t ready_end; /* loop_now(): it had its time then */
};

/* Sizes and rules within the tenant's policy, and the row as it will be. */
[[nodiscard]] int make_bound(struct make *make, const struct tenant *tenant, struct err *err);
[[nodiscard]] int make_fill_held(struct make_order *order);

/* Each frees the make. */
void make_fail(struct make *make, const struct err *err);
void make_finish(struct make *make);

/* The template's commands, if there are any; then make_finish(). */
void make_start(struct make *make);

#endif
