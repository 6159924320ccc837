/*
 * trace.h - the event stream of a sandbox, written outside it
 *
 *	struct trace_request request = { .sandbox = id, .policy = digest, .isolation = "container",
 *					 .argv = argv };
 *	r = trace_open(&request, &trace, err);
 *	...
 *	r = trace_add(trace, &(struct trace_event){ .kind = TRACE_NET, .verdict = VERDICT_DENY,
 *						    .action = "connect", .object = "10.0.0.1:22",
 *						    .exec = 3, .parent = 1, .pid = pid,
 *						    .reason = "...", .allow_with = "..." });
 *	...
 *	r = trace_close(trace, reason_names[reason], exit_code);
 *
 * trace_open() makes the files (home.h), takes a lock that says that the writer lives, and writes
 * the first line. From then on only the two descriptors are used, so the caller may shut itself in:
 * write, pwrite and the clock is all that is needed. The lock lives as long as any process has
 * these descriptors: a child that stays has to close them.
 *
 * Events gather in a buffer and are written together: when it is full, when the oldest is older
 * than TRACE_DELAY_MS at the next one, and when trace_flush() is called. A caller that waits should
 * wait no longer than trace_due_ms() and flush then: what is still in the buffer is lost when the
 * writer is killed. Nothing is allocated after trace_open().
 *
 * Bounds: rates and bytes (budget.h). What is above them is not written but counted, and the count
 * is a line of its own before the next one ("dropped"), at the latest before the last. A refusal
 * that repeats the one before it is counted as well, and "count" says how many followed.
 *
 * What cannot be written (a full disk) fails this call and every later one with the same error: the
 * caller ends the sandbox. The head (head.h) then says what is whole and how much is lost.
 *
 * What this does not protect from: somebody who can write both the stream and its head, so the user
 * himself or root, can forge both; and as nothing is synced, a host that loses power may lose the
 * last seconds, which looks like a cut. It proves that nobody who could write only one of them, and
 * no accident, has changed what was recorded.
 */
#ifndef BRIG_TRACE_TRACE_H
#define BRIG_TRACE_TRACE_H

#include "base/err.h"
#include "trace/event.h"

#define TRACE_DELAY_MS 100
#define TRACE_KEEP     1000 /* streams that stay */

/* 0 stands for the default. */
struct trace_limits {
	uint64_t allowed_rate; /* events a second; 20000 */
	uint64_t denied_rate;  /* refusals a second; 2000 */
	uint64_t bytes;        /* of the stream; 64 MiB */
	unsigned int keep;     /* streams that stay; TRACE_KEEP */
};

struct trace_request {
	const char *home; /* state directory; NULL: the user's */
	const char *sandbox, *policy, *isolation;
	char *const *argv;
	struct trace_limits limits;
};

struct trace;

/* Nothing is left behind when it fails. Removes the oldest streams when there are twice too many. */
[[nodiscard]] int trace_open(const struct trace_request *request, struct trace **ret_trace,
			     struct err *err);

[[nodiscard]] int trace_add(struct trace *trace, const struct trace_event *event);
[[nodiscard]] int trace_flush(struct trace *trace);

/* How long what is in the buffer may still wait; -1: nothing is there (as poll wants it). */
int trace_due_ms(const struct trace *trace);

/* Writes the last line and frees the trace, also on failure. */
[[nodiscard]] int trace_close(struct trace *trace, const char *reason, int exit_code);

/* Frees it as it is, as if the writer had been killed. NULL allowed. */
void trace_free(struct trace *trace);

/*
 * Removes the oldest streams when there are more than keep (0: TRACE_KEEP), never one that is in
 * use. For when the answer has gone out, or for a process in the background: it costs next to nothing
 * when there is nothing to do, and some milliseconds once in a while. home as in the request.
 */
[[nodiscard]] int trace_tidy(const char *home, unsigned int keep);

/* Whether that has something to do, without looking far. */
bool trace_is_untidy(const char *home, unsigned int keep);

static inline void trace_freep(struct trace **trace)
{
	trace_free(*trace);
}

#endif
