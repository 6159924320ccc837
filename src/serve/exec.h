/*
 * exec.h - one process of a sandbox, as a request sees it: started or found, read, waited for
 *
 * What E2B's Start and Connect and brig's own exec and run have in common. The process belongs to the sandbox,
 * not to the request and not to the daemon: who leaves it (exec_leave) or dies changes nothing for it, and
 * whoever attaches later gets what it wrote meanwhile (up to what init keeps, 256 KiB), and its end.
 *
 *	static const struct exec_ops ops = { .started = on_started, .output = on_output, .ended = on_ended };
 *	char *const argv[] = { "sh", "-c", "echo hi", NULL };
 *	const struct exec_plan plan = { .argv = argv, .env = env.items, .cwd = "/tmp" };
 *
 *	r = exec_start(serve, id, &plan, &ops, request, &request->exec, err);
 *
 * started() is called once, then output() any number of times, then ended() once, as the very last; nothing
 * of this within exec_start() itself. ended() may also come without started(): the process could not be
 * started. After ended() the exec is gone; before that exec_leave() lets go of it at any time, also from
 * within one of these calls, and none is called again.
 *
 * Nothing is lost: while a reader is held (exec_hold: the client is slow, exchange_is_full()) the pipes
 * fill, and the process waits. All that it wrote has been given before ended() is called.
 *
 * What comes out of a sandbox is foreign: bytes, pids and statuses are what init said.
 */
#ifndef BRIG_SERVE_EXEC_H
#define BRIG_SERVE_EXEC_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "serve/serve.h"

#define EXEC_PIECE          (32 * KIB) /* most bytes of one output() */
#define EXEC_PIECE_TERMINAL (16 * KIB)
#define EXEC_INPUT_MAX      (16 * MIB) /* that wait to be read by a process */

struct exec;

enum exec_stream { EXEC_OUTPUT = 1, EXEC_ERROR = 2, EXEC_TERMINAL = 3 };

struct exec_plan {
	char *const *argv; /* NULL behind the last */
	char *const *env;  /* "NAME=value", over the sandbox's own; NULL: none. The last one wins */
	const char *cwd;   /* NULL or "": the sandbox's default */
	const char *user;  /* NULL or "": likewise */
	const char *label; /* kept by init and shown in lists; NULL: none. At most EXEC_LABEL_MAX */
	bool has_input;    /* exec_write() gives it some; else it reads /dev/null */
	bool has_terminal; /* then there is one stream, EXEC_TERMINAL, and an input in any case */
	unsigned int rows, columns; /* of it; 0: 24 and 80 */
	uint64_t timeout_ms; /* its group is killed then, by init, with or without us; 0: never */
	/* The end comes when nobody has its pipes open any more (but for one that was killed); else when the
	 * process itself has exited, whatever it left running in the background. */
	bool until_closed;
};

#define EXEC_LABEL_MAX (8 * KIB)

enum exec_outcome {
	EXEC_EXITED, /* status is as from wait() */
	EXEC_FAILED, /* err says why: it could not be started, or is not there (-ESRCH) */
	EXEC_LOST,   /* the sandbox has ended; its health says so already */
};

struct exec_end {
	enum exec_outcome outcome;
	int status;
	uint64_t
		dropped; /* bytes that nobody will see any more: it ran for long with nobody attached */
	const struct err *err; /* of EXEC_FAILED and EXEC_LOST */
};

struct exec_ops {
	void (*started)(void *of, uint64_t process,
			uint64_t pid); /* init's number; the pid inside */
	void (*output)(void *of, enum exec_stream stream, const char *data, size_t len);
	/* After as many output() as there were at once: for who puts them together. NULL allowed. */
	void (*paused)(void *of);
	void (*ended)(void *of, const struct exec_end *end);
};

/*
 * -errno: nothing was begun, nobody is called. What init refuses comes as ended() with EXEC_FAILED:
 *	-ENOTDIR  there is no such directory (cwd)
 *	-ENOENT   no such program        -EACCES  may not be executed
 *	-EINVAL   no such user, or a variable that is none
 */
[[nodiscard]] int exec_start(struct serve *serve, const char *sandbox, const struct exec_plan *plan,
			     const struct exec_ops *ops, void *of, struct exec **ret_exec,
			     struct err *err);

/*
 * One that runs already, or has ended not long ago, by init's number for it: what nobody was given yet, then
 * what it goes on to write, to its end. started() is called all the same.
 */
struct exec_found {
	uint64_t process, pid;
	bool has_terminal, is_running, is_kept; /* kept: it can be attached to */
	uint64_t ended;                         /* ms since 1970; 0: it runs */
	const char *label;                      /* "": none */
};
[[nodiscard]] int exec_attach(struct serve *serve, const char *sandbox,
			      const struct exec_found *found, bool until_closed,
			      const struct exec_ops *ops, void *of, struct exec **ret_exec,
			      struct err *err);

/* All that init knows of: one found() for each, then done(). In memory of the caller's, who may call
 * exec_list_cancel() at any time, also when it is over. */
struct exec_list {
	void (*found)(void *of, const struct exec_found *found);
	void (*done)(void *of, const struct err *err); /* err->code 0: that was all */
	void *of;
	struct serve *serve;
	call_id call;
	size_t count;
};
[[nodiscard]] int exec_list(struct serve *serve, const char *sandbox, struct exec_list *list,
			    struct err *err);
void exec_list_cancel(struct exec_list *list);

/* No more output() until exec_go_on(). Both may be called at any time, also twice. */
void exec_hold(struct exec *exec);
void exec_go_on(struct exec *exec);

/* Standard input, in the order of the calls. What does not fit is refused whole: -ENOBUFS. */
[[nodiscard]] int exec_write(struct exec *exec, const void *data, size_t len);
void exec_write_end(struct exec *exec);

/* A signal to the process and its group; ended() comes as always. */
void exec_signal(struct exec *exec, int signal);

/* Nobody is called any more; the process goes on. NULL allowed. */
void exec_leave(struct exec *exec);

/* "NAME=value" of the sandbox (its template's among them), for the beginning of a plan's env. */
[[nodiscard]] int exec_environment(struct serve *serve, const struct held *held, struct strv *env);

#endif
