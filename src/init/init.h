/*
 * init.h - what the parts of brig-init share: one loop, its sources, and the calls that are open
 *
 * There is one thread and one epoll. A source is a descriptor that something waits for; it is a part of
 * what waits (a process, a reader, a connection). One event is taken at a time, so that what one event
 * frees is never behind another. A call is a number that the warden chose; it is open while messages
 * for it may still come or go.
 *
 * Nothing waits but the loop. What is to be sent is queued by the channel; while too much of it waits
 * (init_is_congested) nobody makes more, and the warden is not listened to: it has to read first.
 */
#ifndef BRIG_INIT_INIT_H
#define BRIG_INIT_INIT_H

#include <stddef.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/fd.h"
#include "init/user.h"
#include "proto/channel.h"

#define PROCESSES_MAX 1024 /* that init knows, with those that ended and are kept */
#define READERS_MAX   1024
#define DIALS_MAX     256
#define ERRANDS_MAX   64

#define container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct init;

struct source {
	int fd;          /* owned; -EBADF: none */
	uint32_t events; /* that are waited for; 0: none, and not even the end is told */
	void (*ready)(struct init *init, struct source *source, uint32_t events);
};

#define SOURCE(function) ((struct source){ .fd = -EBADF, .ready = (function) })

struct call;

/* What comes for an open call. NULL: it is of no interest. */
struct call_kind {
	void (*receive)(struct init *init, struct call *call,
			struct message *m); /* DATA, CREDIT... */
	void (*cancel)(struct init *init, struct call *call);
};

struct call {
	struct call *next;
	const struct call_kind *kind; /* NULL: not open */
	uint32_t number;
};

struct process;
struct reader;
struct dial;
struct errand;
struct asker;

struct init {
	struct channel channel;
	struct source warden;   /* the channel's descriptor, which the channel owns */
	struct source children; /* a signalfd */
	struct source rest;     /* a timer: until those who write much are listened to again */
	int epoll;
	bool is_congested;
	bool has_messages; /* received and not looked at: no event will tell */
	bool has_news;     /* likewise: of an errand */
	bool has_children; /* likewise: to be reaped */

	/* What it found itself with. */
	struct rights rights;
	struct rlimit files; /* of descriptors, for the children; its own is as high as can be */

	struct call *calls;
	struct process **processes; /* in the order of their numbers */
	size_t process_count, process_room;
	uint64_t last_number;
	size_t ring_bytes;       /* of all processes */
	uint64_t first_deadline; /* of a process (clock_ms); 0: none */
	struct reader **readers;
	size_t reader_count, reader_room;
	struct dial *dials;
	size_t dial_count;
	struct errand *errands;
	size_t errand_count; /* at work: their calls are open */
	size_t errand_past;  /* answered, and not yet reaped */
	struct {
		struct source listener;
		struct asker *askers; /* who did not start anything yet */
		size_t count;
		bool is_taking; /* one of them has still to accept */
		uint64_t retry; /* clock_ms: nothing could be forked; 0: no matter */
	} sudo;
};

/* loop.c */
[[nodiscard]] int loop_open(struct init *init);
int loop_run(struct init *init); /* until the channel ends; 0, or -errno of how it failed */

/* Waits for other events from now on. A descriptor that cannot be waited for (a file) is -EPERM. */
int source_watch(struct init *init, struct source *source, uint32_t events);
void source_close(struct init *init, struct source *source);

/* After something was queued: whether it is too much. */
void loop_check_queue(struct init *init);

/* A window, with the credit that a message gives: never more than can be on the way. */
static inline uint64_t window_with(uint64_t window, const struct message *m)
{
	uint64_t more = message_number(m, FIELD_SIZE, 0);

	return more > MESSAGE_WINDOW - window ? MESSAGE_WINDOW : window + more;
}

/* call.c */
void call_open(struct init *init, struct call *call, uint32_t number, const struct call_kind *kind);
void call_close(struct init *init, struct call *call); /* also when it is not open */
void call_handle(struct init *init, struct message *m);

void answer_send(struct init *init, struct draft *d); /* and draft_done() */
void answer_err(struct init *init, uint32_t call, const struct err *err);

/* Whether another few descriptors can be had without danger for the channel; else -EMFILE, in words. */
[[nodiscard]] int init_has_room(struct err *err);

/* Every part gets a turn when the channel is free again. */
void processes_resume(struct init *init);
void readers_resume(struct init *init);
void dials_resume(struct init *init);
void errands_resume(struct init *init);

/* start.c, process.c, input.c */
void process_start(struct init *init, struct message *m);
void process_signal(struct init *init, struct message *m);
void process_resize(struct init *init, struct message *m);
void process_input(struct init *init, struct message *m);
void process_input_end(struct init *init, struct message *m);
void process_list(struct init *init, struct message *m);
void process_reap(struct init *init);  /* everything that has ended, or so many of it */
void processes_end(struct init *init); /* those whose time is over */
void processes_listen(struct init *init, struct source *source, uint32_t events);

/* reader.c, dial.c, usage.c */
void reader_attach(struct init *init, struct message *m);
void dial_start(struct init *init, struct message *m);
void usage_tell(struct init *init, struct message *m);

/* sudo.c */
[[nodiscard]] int sudo_open(struct init *init, const char *name);
int sudo_time_left(const struct init *init); /* as errand_time_left() */
void sudo_end_late(struct init *init);
void sudo_read_reports(struct init *init); /* before what they tell of is reaped */

/* errand.c: the calls of files.h */
void errand_start(struct init *init, struct message *m);
void errand_reaped(struct init *init, pid_t pid);
bool errand_is_own(const struct init *init, pid_t pid);
int errand_time_left(const struct init *init); /* ms until errands_end(), -1: none is to be */
void errands_end(struct init *init);           /* those that were cancelled and go on */

#endif
