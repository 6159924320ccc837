#include "serve/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "serve/exec_input.h"

#define BATCH        (256 * KIB)
#define READS_MAX    2           /* of one process in one turn: others wait */
#define PIPE_LARGE   (512 * KIB) /* of one that writes much; or as much as may be */
#define LOST_WAIT_MS 2000        /* until the registry says what happened to the sandbox */

/* One for all: what was read is gone from here when output() returns. */
static char batch[BATCH];

struct exec_pipe {
	struct exec *exec;
	enum exec_stream stream;
	int fd; /* -EBADF: at its end */
	loop_id watch;
	bool is_large;
};

struct exec {
	struct serve *serve;
	char sandbox[TRACE_ID_SIZE];
	const struct exec_ops *ops;
	void *of;
	call_id call;
	registry_watch end_watch;
	loop_id soon, lost; /* what is to be told soon; how long to wait for the registry */
	struct exec_pipe pipes[2];
	size_t piece_max;
	uint64_t process, pid;
	bool has_started, is_held;
	bool has_end; /* and ended() comes when the pipes are empty */
	struct exec_end end;
	struct err err;
	struct input input;
	struct buf early; /* input from before it was started */
	bool early_end;
	int early_signal;
	bool *is_gone; /* of who calls somebody just now */
};

static void pipe_close(struct exec_pipe *p)
{
	p->watch = loop_forget(p->exec->serve->loop, p->watch);
	p->fd = fd_close(p->fd);
}

static void orphan_started(void *of, uint64_t process, uint64_t pid)
{
	(void)process;
	(void)pid;
	exec_leave(of);
}

static void orphan_output(void *of, enum exec_stream stream, const char *data, size_t len)
{
	(void)of;
	(void)stream;
	(void)data;
	(void)len;
}

static void orphan_ended(void *of, const struct exec_end *end)
{
	(void)of;
	(void)end;
}

/* Left, but for the signal that it is to get as soon as it can. */
static const struct exec_ops orphan = { .started = orphan_started,
					.output = orphan_output,
					.ended = orphan_ended };

void exec_leave(struct exec *exec)
{
	if (!exec)
		return;
	if (exec->is_gone)
		*exec->is_gone = true;
	if (exec->early_signal && !exec->process && exec->call) {
		exec->is_gone = NULL;
		exec->ops = &orphan;
		exec->of = exec;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++)
		pipe_close(&exec->pipes[i]);
	exec->call = call_cancel(exec->serve->fleet, exec->call);
	exec->end_watch = registry_forget(exec->serve->registry, exec->end_watch);
	exec->soon = loop_cancel(exec->serve->loop, exec->soon);
	exec->lost = loop_cancel(exec->serve->loop, exec->lost);
	input_done(&exec->input);
	buf_done(&exec->early);
	free(exec);
}

static bool has_output(const struct exec *exec)
{
	return exec->pipes[0].fd >= 0 || exec->pipes[1].fd >= 0;
}

/* The end, if it is here. Then the exec is gone. */
static bool tell_end(struct exec *exec)
{
	const struct exec_ops *ops = exec->ops;
	struct exec_end end = exec->end;
	struct err err = exec->err;
	void *of = exec->of;

	if (!exec->has_end || has_output(exec) || exec->soon)
		return false;
	end.err = &err;
	exec_leave(exec);
	ops->ended(of, &end);
	return true;
}

static bool read_pipe(struct exec_pipe *p);

static void on_end(void *of)
{
	struct exec *exec = of;

	exec->soon = 0;
	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++)
		if (exec->has_started && read_pipe(&exec->pipes[i]))
			return;
	tell_end(exec);
}

/* ended() is never called out of somebody else's call to us. */
static void end_soon(struct exec *exec)
{
	if (!exec->soon && loop_soon(exec->serve->loop, on_end, exec, &exec->soon) < 0)
		tell_end(exec);
}

/* --- output --- */

/* All that was read, in pieces. Whether the exec is gone. */
static bool give(struct exec *exec, enum exec_stream stream, size_t len)
{
	bool is_gone = false;

	/* cppcheck-suppress autoVariables ; taken back below, unless it is gone itself */
	exec->is_gone = &is_gone;
	for (size_t at = 0; at < len && !is_gone; at += exec->piece_max)
		exec->ops->output(exec->of, stream, batch + at, MIN(exec->piece_max, len - at));
	if (!is_gone && exec->ops->paused)
		exec->ops->paused(exec->of);
	if (!is_gone)
		exec->is_gone = NULL;
	return is_gone;
}

/* What is there. Whether there may be more; false also when the exec is gone, and then *ret_gone. */
static bool read_batch(struct exec_pipe *p, bool *ret_gone)
{
	struct exec *exec = p->exec;
	ssize_t n;

	do
		n = read(p->fd, batch, sizeof(batch));
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		/* init closes its ends before it tells the end: then nothing is on the way. */
		if (n == 0 || errno != EAGAIN || exec->has_end)
			pipe_close(p);
		return false;
	}
	if ((size_t)n > exec->piece_max && !p->is_large) {
		p->is_large = true;
		(void)!fcntl(p->fd, F_SETPIPE_SZ, PIPE_LARGE);
	}
	*ret_gone = give(exec, p->stream, (size_t)n);
	return !*ret_gone && ((size_t)n == sizeof(batch) || exec->has_end);
}

/* Whether the exec is gone. */
static bool read_pipe(struct exec_pipe *p)
{
	struct exec *exec = p->exec;
	bool is_gone = false;

	for (int i = 0; i < READS_MAX && p->fd >= 0 && !exec->is_held; i++)
		if (!read_batch(p, &is_gone))
			break;
	return is_gone || tell_end(exec);
}

static void on_readable(void *of, uint32_t events)
{
	(void)events;
	read_pipe(of);
}

/* Not with an empty set of events while it is held: a pipe at its end would be told again and again. */
static void listen_to_pipes(struct exec *exec)
{
	bool is_heard = exec->has_started && !exec->is_held;

	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++) {
		struct exec_pipe *p = &exec->pipes[i];

		if (!is_heard)
			p->watch = loop_forget(exec->serve->loop, p->watch);
		else if (p->fd >= 0 && !p->watch &&
			 loop_watch(exec->serve->loop, p->fd, EPOLLIN, on_readable, p, &p->watch) <
				 0)
			pipe_close(p);
	}
}

void exec_hold(struct exec *exec)
{
	exec->is_held = true;
	listen_to_pipes(exec);
}

void exec_go_on(struct exec *exec)
{
	exec->is_held = false;
	listen_to_pipes(exec);
	/* What is there already no event tells, once the end is known. */
	if (exec->has_end)
		end_soon(exec);
}

/* --- what the sandbox says --- */

static void fail(struct exec *exec, enum exec_outcome outcome, int code, const char *text)
{
	exec->has_end = true;
	exec->end = (struct exec_end){ .outcome = outcome };
	err_set(&exec->err, code, "%s", text);
	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++)
		pipe_close(&exec->pipes[i]);
	end_soon(exec);
}

static void on_sandbox_ended(void *of)
{
	struct exec *exec = of;

	exec->end_watch = 0;
	fail(exec, EXEC_LOST, -ESRCH, "the sandbox has ended");
}

static void on_not_lost(void *of)
{
	struct exec *exec = of;

	exec->lost = 0;
	fail(exec, EXEC_FAILED, exec->err.code, exec->err.text);
}

/* That it is not there can mean the process or the sandbox: the registry will know. */
static void on_error(struct exec *exec, const struct message *m)
{
	int code = -(int)MIN(message_number(m, FIELD_CODE, EIO), (uint64_t)4095);
	struct err err = ERR_NONE;

	err_set(&err, code ? code : -EIO, "%s", message_text(m, FIELD_TEXT, ""));
	exec->err = err;
	if (err.code == -ESRCH && exec->end_watch &&
	    loop_after(exec->serve->loop, LOST_WAIT_MS, on_not_lost, exec, &exec->lost) == 0)
		return;
	fail(exec, EXEC_FAILED, err.code, err.text);
}

static void on_exited(struct exec *exec, const struct message *m)
{
	exec->has_end = true;
	exec->end = (struct exec_end){ .outcome = EXEC_EXITED,
				       .status = (int)(message_number(m, FIELD_STATUS, 0) & 0xffff),
				       .dropped = message_number(m, FIELD_DROPPED, 0) };
	/* Its pipes are closed already at the other side: to be read to their ends. */
	if (!exec->is_held)
		end_soon(exec);
}

static void begin(struct exec *exec)
{
	bool is_gone = false;

	exec->has_started = true;
	/* cppcheck-suppress autoVariables ; taken back below, unless it is gone itself */
	exec->is_gone = &is_gone;
	exec->ops->started(exec->of, exec->process, exec->pid);
	if (is_gone)
		return;
	exec->is_gone = NULL;
	listen_to_pipes(exec);
}

static void flush_early(struct exec *exec)
{
	int early = exec->early_signal;

	input_init(&exec->input, exec->serve, exec->sandbox, exec->process, EXEC_INPUT_MAX);
	if (exec->early.len > 0)
		(void)!input_add(&exec->input, exec->early.data, exec->early.len);
	buf_done(&exec->early);
	if (exec->early_end)
		input_end(&exec->input);
	exec->early_signal = 0;
	if (early)
		exec_signal(exec, early);
}

static void on_message(void *of, struct message *m, bool is_last)
{
	struct exec *exec = of;

	if (is_last)
		exec->call = 0;
	switch (m->type) {
	case MESSAGE_STARTED:
		exec->process = message_number(m, FIELD_PROCESS, 0);
		exec->pid = message_number(m, FIELD_PID, 0);
		flush_early(exec);
		begin(exec);
		break;
	case MESSAGE_EXITED:
		on_exited(exec, m);
		break;
	case MESSAGE_ERROR:
		on_error(exec, m);
		break;
	case MESSAGE_DONE:
	case MESSAGE_DATA:
	case MESSAGE_DATA_END:
		/* Not what was asked for. Who says so much more is not listened to. */
		exec->call = call_cancel(exec->serve->fleet, exec->call);
		fail(exec, EXEC_FAILED, -EPROTO, "the sandbox does not keep to the rules");
		break;
	default:
		break;
	}
}

/* --- beginnings --- */

static struct exec *exec_new(struct serve *serve, const char *sandbox, bool has_terminal,
			     const struct exec_ops *ops, void *of)
{
	struct exec *exec = malloc(sizeof(*exec));

	if (!exec)
		return NULL;
	*exec = (struct exec){ .serve = serve,
			       .ops = ops,
			       .of = of,
			       .piece_max = has_terminal ? EXEC_PIECE_TERMINAL : EXEC_PIECE,
			       .early = BUF(EXEC_INPUT_MAX) };
	snprintf(exec->sandbox, sizeof(exec->sandbox), "%s", sandbox);
	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++)
		exec->pipes[i] = (struct exec_pipe){ .exec = exec, .fd = -EBADF };
	exec->pipes[0].stream = has_terminal ? EXEC_TERMINAL : EXEC_OUTPUT;
	exec->pipes[1].stream = has_terminal ? EXEC_TERMINAL : EXEC_ERROR;
	return exec;
}

/*
 * Pipes whose other ends go to init, which is the workload's as far as we know. Whatever it does with them,
 * our ends are files of our own: that they do not block is nobody else's to change.
 */
static int make_pipes(struct exec *exec, int ret_theirs[static 2], struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(exec->pipes); i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0) {
			int code = -errno;

			for (size_t k = 0; k < i; k++)
				fd_close(ret_theirs[k]);
			return err_errno(err, code, "cannot make a pipe");
		}
		exec->pipes[i].fd = pair[0];
		ret_theirs[i] = pair[1];
	}
	return 0;
}

/* Sends the call that begins it, with the pipes for its output. */
static int call_with_pipes(struct exec *exec, struct draft *d, struct err *err)
{
	int theirs[2] = { -EBADF, -EBADF };
	int r = buf_failed(&d->fields);

	if (r < 0)
		r = err_set(err, -E2BIG, "arguments and variables are longer than %llu KiB",
			    (unsigned long long)(MESSAGE_MAX / KIB));
	else
		r = make_pipes(exec, theirs, err);
	if (r == 0)
		r = registry_on_end(exec->serve->registry, exec->sandbox, on_sandbox_ended, exec,
				    &exec->end_watch);
	if (r < 0) {
		fd_close(theirs[0]);
		fd_close(theirs[1]);
		draft_done(d);
		return err->code ? err->code : err_set(err, r, "the sandbox has ended");
	}
	return call_start(exec->serve->fleet, exec->sandbox, d, theirs, 2, on_message, exec,
			  &exec->call, err);
}

static void draft_plan(struct draft *d, const struct exec_plan *plan)
{
	uint64_t flags = START_KEPT | START_READ;

	flags |= plan->has_input ? START_INPUT : 0;
	flags |= plan->has_terminal ? START_TERMINAL : 0;
	flags |= plan->until_closed ? START_CLOSED : 0;
	for (char *const *word = plan->argv; *word; word++)
		draft_text(d, FIELD_ARGUMENT, *word);
	for (char *const *variable = plan->env; variable && *variable; variable++)
		draft_text(d, FIELD_VARIABLE, *variable);
	draft_text(d, FIELD_DIRECTORY, plan->cwd && plan->cwd[0] ? plan->cwd : NULL);
	draft_text(d, FIELD_USER, plan->user && plan->user[0] ? plan->user : NULL);
	draft_text(d, FIELD_LABEL, plan->label);
	draft_number(d, FIELD_FLAGS, flags);
	if (plan->timeout_ms)
		draft_number(d, FIELD_LEFT, plan->timeout_ms);
	if (plan->has_terminal && plan->rows && plan->columns) {
		draft_number(d, FIELD_ROWS, plan->rows);
		draft_number(d, FIELD_COLUMNS, plan->columns);
	}
}

int exec_start(struct serve *serve, const char *sandbox, const struct exec_plan *plan,
	       const struct exec_ops *ops, void *of, struct exec **ret_exec, struct err *err)
{
	struct exec *exec = exec_new(serve, sandbox, plan->has_terminal, ops, of);
	struct draft d = DRAFT(MESSAGE_START, 0);
	int r;

	if (!exec)
		return err_set(err, -ENOMEM, "out of memory");
	draft_plan(&d, plan);
	r = call_with_pipes(exec, &d, err);
	if (r < 0) {
		exec_leave(exec);
		return r;
	}
	*ret_exec = exec;
	return 0;
}

static void on_attached(void *of)
{
	struct exec *exec = of;
	bool has_end = exec->has_end;

	exec->soon = 0;
	if (has_end && exec->end.outcome != EXEC_EXITED) {
		tell_end(exec);
		return;
	}
	if (has_end)
		end_soon(exec);
	begin(exec);
}

int exec_attach(struct serve *serve, const char *sandbox, const struct exec_found *found,
		bool until_closed, const struct exec_ops *ops, void *of, struct exec **ret_exec,
		struct err *err)
{
	struct exec *exec = exec_new(serve, sandbox, found->has_terminal, ops, of);
	struct draft d = DRAFT(MESSAGE_ATTACH, 0);
	int r;

	if (!exec)
		return err_set(err, -ENOMEM, "out of memory");
	exec->process = found->process;
	exec->pid = found->pid;
	draft_number(&d, FIELD_PROCESS, found->process);
	draft_number(&d, FIELD_FLAGS,
		     ATTACH_FOLLOW | ATTACH_WHOLE | ATTACH_REST |
			     (until_closed ? ATTACH_CLOSED : 0));
	r = call_with_pipes(exec, &d, err);
	if (r == 0) {
		r = loop_soon(serve->loop, on_attached, exec, &exec->soon);
		if (r < 0)
			err_set(err, r, "out of memory");
	}
	if (r < 0) {
		exec_leave(exec);
		return r;
	}
	flush_early(exec);
	*ret_exec = exec;
	return 0;
}

/* --- input and signals --- */

int exec_write(struct exec *exec, const void *data, size_t len)
{
	int r;

	if (exec->process) {
		r = input_add(&exec->input, data, len);
	} else {
		r = buf_add(&exec->early, data, len);
		exec->early.failure = 0;
	}
	return r == -ENOSPC ? -ENOBUFS : r;
}

void exec_write_end(struct exec *exec)
{
	if (exec->process)
		input_end(&exec->input);
	else
		exec->early_end = true;
}

static void on_signalled(void *of, struct message *m, bool is_last)
{
	(void)of;
	(void)m;
	(void)is_last;
}

void exec_signal(struct exec *exec, int signal)
{
	struct draft d = DRAFT(MESSAGE_SIGNAL, 0);
	struct err err = ERR_NONE;
	call_id call;

	if (!exec->process) {
		exec->early_signal = signal;
		return;
	}
	draft_number(&d, FIELD_PROCESS, exec->process);
	draft_number(&d, FIELD_SIGNAL, (uint64_t)signal);
	draft_number(&d, FIELD_FLAGS, SIGNAL_GROUP);
	(void)!call_start(exec->serve->fleet, exec->sandbox, &d, NULL, 0, on_signalled, NULL, &call,
			  &err);
}
