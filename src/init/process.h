/*
 * process.h - what init started for somebody, from its start until nobody needs to know of it
 *
 * A process whose output is kept stays known after its end, with its number and its ring, until
 * PROCESSES_ENDED newer ones have ended or the memory is needed; any other is forgotten then. A number
 * is never used again.
 */
#ifndef BRIG_INIT_PROCESS_H
#define BRIG_INIT_PROCESS_H

#include "init/init.h"
#include "init/leader.h"
#include "init/ring.h"

#define PROCESSES_ENDED 64
#define RINGS_MAX       (32 * MIB) /* of memory; beyond, rings do not grow */
#define RINGS_MANY      (24 * MIB) /* from here on those of ended processes go, the oldest first */
#define RINGS_SPARE     (16 * MIB) /* for those that are read by one who must lose nothing */
#define INPUT_MAX       (256 * KIB)
#define INPUT_WAITS_MAX 64
#define ARGUMENTS_SHOWN 512

enum { STREAM_OUTPUT = 1, STREAM_ERROR = 2 };
enum process_state { PROCESS_STARTING, PROCESS_LIVING, PROCESS_ENDED };

/* An INPUT that is answered when all of it was taken. */
struct input_wait {
	struct call call;
	struct process *process;
	struct input_wait *next;
	uint64_t until; /* bytes of input so far, with its own */
};

struct process {
	struct call call; /* of START: open while somebody waits for its end */
	struct init *init;
	uint64_t number;
	enum process_state state;
	unsigned int flags; /* enum start_flag; START_KEPT also where a terminal is kept */
	pid_t pid, leader;  /* leader: 0 without a terminal */
	int status;
	int stopped;           /* the signal of a stop that was not told yet; 0 */
	uint64_t since, ended; /* ms since 1970 */
	uint64_t deadline;     /* clock_ms; 0: none */
	bool was_killed; /* by a signal; or somebody asked for its end, and nobody waits for heirs */
	char *arguments; /* each with its NUL, cut off */
	size_t arguments_len;
	char user[64];
	char *label;           /* or NULL */
	struct source reports; /* of the leader */
	struct stream {
		struct source from;
		struct process *process;
		unsigned int number;
		bool is_large; /* the pipe was made larger */
		bool is_resting;
		size_t left; /* of an ended process: bytes in the pipe that may be its own */
	} streams[2];        /* its output and error; or the master of its terminal */
	int terminal;        /* for RESIZE, or -EBADF */
	int master;          /* to be passed with STARTED, or -EBADF */
	struct ring ring;
	struct source input;
	struct buf pending;
	size_t written;       /* bytes of it */
	uint64_t input_bytes; /* in all */
	bool input_ends;      /* after what is pending */
	struct input_wait *waits;
	unsigned int reader_count; /* and those who hold it for a moment */
	unsigned int whole_count;  /* of the readers: who must lose nothing */
	uint64_t given;            /* how far one of those got that has left */
	struct reader *first;      /* the one that is part of START; or NULL */
	uint64_t dropped;          /* what that one lost: there was no memory */
};

#define STREAM_ENDLESS SIZE_MAX

/* The process that a message names; else it was answered. */
struct process *process_find(struct init *init, const struct message *m);

/* In the table, with a number, not yet started. NULL, and err: there are too many. */
struct process *process_new(struct init *init, struct err *err);
void process_free(struct process *p);

void process_started(struct process *p); /* tells it, and begins to listen */
void process_take_report(struct init *init, struct source *source, uint32_t events);

void process_set_deadline(struct process *p, uint64_t ms);

/* EXITED, on the call of START, if that is open. */
void process_tell_end(struct process *p);

/* Rings of processes that have ended go while there are too many bytes in all. */
void processes_shrink(struct init *init);

/* Forgets it, if it has ended, and nobody has a use for it. */
void process_review(struct process *p);

/* input.c */
void input_ready(struct init *init, struct source *source, uint32_t events);
void input_close(struct process *p);

/* output.c */
void process_take_output(struct init *init, struct source *source, uint32_t events);
void process_listen(struct process *p); /* or does not, while a reader holds it up */
void process_drain(struct process *p);  /* at its end */
void process_close_streams(struct process *p);
bool process_is_closed(const struct process *p); /* nobody can write to its pipes any more */
bool process_is_dry(const struct process *p);    /* it has ended, and all it wrote was taken */

/* reader.c: there is more, or it has ended. The caller holds the process. */
void readers_pump(struct process *p);

/* Whether one that must lose nothing is behind: then there must not be more. */
bool readers_hold(const struct process *p);

/* From the pipe of a process to the one reader there is, if that can be; bytes, which the ring has not. */
size_t readers_move(struct process *p, struct stream *stream, size_t len);

/* The first reader, out of START. */
[[nodiscard]] int reader_start(struct process *p, struct message *m, struct err *err);
void reader_credit(struct reader *r, const struct message *m);
void reader_free(struct reader *r);

#endif
