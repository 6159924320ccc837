/*
 * session.h - a command in a sandbox that lives, as its client sees it
 *
 * What is not a terminal the command has itself, as it is or as a pipe that is moved on; a terminal is
 * relayed (warden/streams.h). Between START and EXITED the client waits for whichever comes first:
 * output, keys, a message, a signal. Signals go on to the command's process group; the second one ends
 * the client, and the command goes on without it.
 *
 *	_cleanup_(session_done) struct session s = SESSION_NONE;
 *
 *	r = client_open(word, &s.client, err);
 *	r = r < 0 ? r : session_open(&s, &request, err);
 *	r = r < 0 ? r : session_start(&s, &draft, err);
 *	r = r < 0 ? r : session_run(&s, err);
 *
 * The warden is trusted; what it hands on from inside is not: the master of a terminal is looked at
 * before it is used, and a status is a number.
 */
#ifndef BRIG_CLI_SESSION_H
#define BRIG_CLI_SESSION_H

#include "cli/client.h"
#include "warden/streams.h"

enum session_end {
	SESSION_GOES_ON,
	SESSION_EXITED, /* status */
	SESSION_FAILED, /* it never started: err */
	SESSION_LOST,   /* the sandbox has ended */
	SESSION_LEFT,   /* by a signal to the client, which is status */
};

struct session {
	struct client client;
	struct terminal terminal;
	struct streams streams;
	int signals;
	uint32_t call;         /* of START or ATTACH */
	uint64_t process, pid; /* 0: it has not started */
	enum session_end end;
	int status;
	bool is_attached;       /* to one that others started: it goes on whatever happens to us */
	bool has_terminal;      /* it is at a terminal that only it has */
	unsigned int signalled; /* how often a signal came that is the command's */
	int early; /* one that came before we knew that it runs, which it may by then; or 0 */
	uint64_t deadline; /* ms, for the rest of the output */
};

#define SESSION_NONE                                  \
	((struct session){ .client = CLIENT_NONE,     \
			   .terminal = TERMINAL_NONE, \
			   .streams = STREAMS_NONE,   \
			   .signals = -EBADF })

struct session_request {
	bool has_terminal; /* -t: made by whom, says is_made_inside */
	bool has_input;    /* -i */
	bool is_made_inside;
	struct streams_request streams;
};

/* What the command will read and write; and signals are ours from here on. */
[[nodiscard]] int session_open(struct session *s, const struct session_request *request,
			       struct err *err);

/* Sends the START, completed by what the terminal is, with the descriptors. */
[[nodiscard]] int session_start(struct session *s, const struct session_request *request,
				struct draft *start, struct err *err);

/* Until s->end says how. */
void session_run(struct session *s, struct err *err);

/* For those who relay by messages (brig attach). */
[[nodiscard]] int session_open_signals(struct session *s, struct err *err);
void session_read_signals(struct session *s);
void session_suspend(struct session *s);
void session_signal(struct session *s, int signal);
void session_resize(struct session *s);

/* As a shell would say it. */
int session_exit_code(const struct session *s, const struct err *err);

void session_done(struct session *s);

#endif
