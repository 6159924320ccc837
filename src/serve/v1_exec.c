/* v1_exec.c - a command in a sandbox that lives */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/v1.h"
#include "serve/v1_result.h"

struct job {
	struct task task;
	struct request *q;
	bool is_detached;
};

static void job_gone(struct request *q)
{
	struct job *job = q->of;

	task_done(&job->task);
	free(job);
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct job *job = q->of;

	task_drained(&job->task);
}

static void refuse(struct request *q, const struct err *err)
{
	if (!exchange_is_begun(q->x)) {
		v1_refuse(q, err);
		return;
	}
	sse_take(q->x, "error", 0, result_error(v1_status(err), err->text));
	exchange_end(q->x);
}

static void on_ended(void *of, struct task *task)
{
	struct job *job = of;
	struct request *q = job->q;
	struct node *node;

	if (!result_is_one(task)) {
		refuse(q, &task->failure);
		return;
	}
	node = result_of_exec(task);
	if (!task->stream) {
		answer_take_json(q, 200, node);
		return;
	}
	sse_take(q->x, "result", 0, node);
	exchange_end(q->x);
}

/* The stream begins before the command does: what goes wrong from here on is an event. */
static void begin_stream(struct job *job)
{
	struct request *q = job->q;

	sse_begin(q);
	job->task.stream = q->x;
	q->x->drained = on_drained;
}

/* --- detached: it is started, and left alone --- */

static void on_detached(void *of, uint64_t process, uint64_t pid)
{
	struct job *job = of;
	struct exec *exec = job->task.exec;
	struct node *map = node_map();
	int r = node_set(map, "sandbox", node_string(job->task.sandbox));

	r = r < 0 ? r : node_set(map, "process", node_int((int64_t)process));
	r = r < 0 ? r : node_set(map, "pid", node_int((int64_t)pid));
	if (r < 0) {
		node_free(map);
		map = NULL;
	}
	job->task.exec = NULL;
	exec_leave(exec);
	answer_take_json(job->q, 202, map);
}

static void on_no_output(void *of, enum exec_stream stream, const char *data, size_t len)
{
	(void)of;
	(void)stream;
	(void)data;
	(void)len;
}

static void on_not_started(void *of, const struct exec_end *end)
{
	struct job *job = of;

	job->task.exec = NULL;
	v1_refuse(job->q, end->err);
}

static int start_detached(struct job *job, const struct v1_command *command, struct err *err)
{
	static const struct exec_ops ops = { .started = on_detached,
					     .output = on_no_output,
					     .ended = on_not_started };
	const struct exec_plan plan = {
		.argv = command->argv.items,
		.env = command->env.items,
		.cwd = command->cwd,
		.user = command->user,
	};

	if (command->has_input)
		return err_set(err, -EINVAL, "stdin: a detached command reads nothing");
	return exec_start(job->task.serve, job->task.sandbox, &plan, &ops, job, &job->task.exec,
			  err);
}

static int start(struct job *job, const struct v1_command *command, struct err *err)
{
	if (job->is_detached)
		return start_detached(job, command, err);
	if (sse_is_wanted(job->q))
		begin_stream(job);
	return task_start(&job->task, command, err);
}

void v1_exec(struct request *q)
{
	struct job *job = calloc(1, sizeof(*job));
	struct v1_command command;
	struct err err = ERR_NONE;

	if (!job) {
		answer_error(q, 503, "out of memory");
		return;
	}
	job->q = q;
	job->is_detached = doc_bool(q->body, "detach", false);
	job->task = (struct task){ .serve = q->serve, .ended = on_ended, .of = job };
	snprintf(job->task.sandbox, sizeof(job->task.sandbox), "%s", q->sandbox);
	q->of = job;
	q->gone = job_gone;
	if (q->held->state == HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is paused: resume it first");
		return;
	}
	if (v1_command_read(q->serve, q->body, q->held, 0, &command, &err) < 0) {
		v1_refuse(q, &err);
		return;
	}
	if (start(job, &command, &err) < 0)
		refuse(q, &err);
	v1_command_done(&command);
}
