/* v1_task.c - one command, from its start to its end (v1.h) */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "serve/v1.h"

#define SIGNAL_BASE   128
#define EXIT_TIMEOUT  124
#define EXIT_NO_EXEC  126
#define EXIT_NO_FOUND 127

static void on_pulse(void *of)
{
	struct task *task = of;

	sse_comment(task->stream);
	if (loop_after(task->serve->loop, SSE_QUIET_MS, on_pulse, task, &task->pulse) < 0)
		task->pulse = 0;
}

static void on_timeout(void *of)
{
	struct task *task = of;

	task->timer = 0;
	task->is_timeout = true;
	exec_signal(task->exec, SIGKILL);
}

static struct node *started_node(const struct task *task)
{
	struct node *map = node_map();
	int r = node_set(map, "sandbox", node_string(task->sandbox));

	r = r < 0 ? r : node_set(map, "process", node_int((int64_t)task->process));
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

static void on_started(void *of, uint64_t process, uint64_t pid)
{
	struct task *task = of;

	(void)pid;
	task->is_started = true;
	task->process = process;
	if (task->stream)
		sse_take(task->stream, "started", 0, started_node(task));
}

/* As much as there is room for; the command goes on, and is told nothing of it. */
static void keep(struct task *task, struct buf *buf, const char *data, size_t len)
{
	size_t room = V1_OUTPUT_MAX - buf->len;

	if (len > room)
		task->truncated = true;
	if (buf_add(buf, data, MIN(len, room)) < 0)
		task->truncated = true;
}

static void on_output(void *of, enum exec_stream stream, const char *data, size_t len)
{
	struct task *task = of;
	bool is_err = stream == EXEC_ERROR;

	if (!task->stream) {
		keep(task, is_err ? &task->err : &task->out, data, len);
		return;
	}
	sse_bytes(task->stream, is_err ? "stderr" : "stdout",
		  is_err ? &task->rest_err : &task->rest_out, data, len);
	if (exchange_is_full(task->stream))
		exec_hold(task->exec);
}

void task_drained(struct task *task)
{
	if (task->exec)
		exec_go_on(task->exec);
}

static void stop_timers(struct task *task)
{
	task->timer = loop_cancel(task->serve->loop, task->timer);
	task->pulse = loop_cancel(task->serve->loop, task->pulse);
}

static void on_ended(void *of, const struct exec_end *end)
{
	struct task *task = of;

	task->exec = NULL;
	stop_timers(task);
	task->ended_at = loop_now(task->serve->loop);
	task->outcome = end->outcome;
	task->status = end->status;
	task->truncated |= end->dropped > 0;
	if (end->err)
		task->failure = *end->err;
	if (task->stream) {
		sse_flush(task->stream, "stdout", &task->rest_out);
		sse_flush(task->stream, "stderr", &task->rest_err);
	}
	task->ended(task->of, task);
}

int task_start(struct task *task, const struct v1_command *command, struct err *err)
{
	static const struct exec_ops ops = { .started = on_started,
					     .output = on_output,
					     .ended = on_ended };
	const struct exec_plan plan = {
		.argv = command->argv.items,
		.env = command->env.items,
		.cwd = command->cwd,
		.user = command->user,
		.has_input = command->has_input,
	};
	int r;

	task->out = BUF(V1_OUTPUT_MAX + 1);
	task->err = BUF(V1_OUTPUT_MAX + 1);
	task->began = loop_now(task->serve->loop);
	r = exec_start(task->serve, task->sandbox, &plan, &ops, task, &task->exec, err);
	if (r < 0)
		return r;
	if (command->has_input) {
		r = exec_write(task->exec, buf_text(&command->input), command->input.len);
		if (r < 0)
			return err_errno(err, r, "stdin");
		exec_write_end(task->exec);
	}
	if (command->timeout_ms)
		r = loop_after(task->serve->loop, command->timeout_ms, on_timeout, task,
			       &task->timer);
	if (r == 0 && task->stream)
		r = loop_after(task->serve->loop, SSE_QUIET_MS, on_pulse, task, &task->pulse);
	return r < 0 ? err_errno(err, r, "the command") : 0;
}

void task_done(struct task *task)
{
	stop_timers(task);
	if (task->exec) {
		exec_signal(task->exec, SIGKILL);
		exec_leave(task->exec);
	}
	task->exec = NULL;
	buf_done(&task->out);
	buf_done(&task->err);
}

int task_exit_code(const struct task *task, int *ret_signal)
{
	int signal = 0, code;

	if (task->outcome == EXEC_FAILED) {
		code = task->failure.code == -ENOENT ? EXIT_NO_FOUND : EXIT_NO_EXEC;
	} else if (task->outcome == EXEC_LOST) {
		signal = SIGKILL;
		code = SIGNAL_BASE + SIGKILL;
	} else if (WIFSIGNALED(task->status)) {
		signal = WTERMSIG(task->status);
		code = SIGNAL_BASE + signal;
	} else {
		code = WEXITSTATUS(task->status);
	}
	*ret_signal = signal;
	return task->is_timeout ? EXIT_TIMEOUT : code;
}
