/*
 * v1_run.c - one command in a sandbox of its own, which is gone afterwards
 *
 *	making     a sandbox by what the client wants (make.h)
 *	files      what it gave is written inside
 *	running    the command
 *	looking    what it used, before the sandbox goes
 *	ending     the sandbox is killed
 *	reading    what was refused, out of the record
 *
 * A client that leaves takes the run along, unless it gave a key to ask for the answer again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/v1.h"
#include "serve/v1_result.h"
#include "serve/v1_upload.h"
#include "warden/roster.h"

#define MARK      "{\"run\":true}" /* of a sandbox that is one run's: nobody else knows of it */
#define MARGIN_MS 60000 /* that the sandbox has beyond its command: for files, and for us */

struct run {
	struct serve *serve;
	struct request *q; /* NULL: the client has left */
	struct once once;
	bool is_stream;
	struct make *making;
	struct v1_command command;
	struct node *files; /* the list of the body; NULL: none */
	struct upload upload;
	char id[TRACE_ID_SIZE]; /* "": there is no sandbox (yet, or any more) */
	struct task task;
	call_id call;
	struct run_facts facts;
	struct denials *denials;
	loop_id soon;
};

/* With whatever is there of it. */
static void run_free(struct run *run)
{
	struct err err = ERR_NONE;

	make_leave(run->making);
	upload_done(&run->upload);
	run->call = call_cancel(run->serve->fleet, run->call);
	run->soon = loop_cancel(run->serve->loop, run->soon);
	task_done(&run->task);
	if (run->id[0] && registry_find(run->serve->registry, run->id, NULL) &&
	    registry_kill(run->serve->registry, run->id, NULL, NULL, &err) < 0)
		log_line(LOG_WARNING, "sandbox %s of a run cannot be ended: %s", run->id, err.text);
	once_drop(&run->once);
	v1_command_done(&run->command);
	node_free(run->facts.enforcement);
	node_free(run->files);
	if (run->denials)
		denials_done(run->denials);
	free(run->denials);
	free(run);
}

static void run_gone(struct request *q)
{
	struct run *run = q->of;

	run->q = NULL;
	if (!once_is_kept(&run->once))
		run_free(run);
}

/* Nobody is left to be told. */
static void let_go(struct run *run)
{
	if (run->q) {
		run->q->gone = NULL;
		run->q->of = NULL;
		run->q->x->drained = NULL;
	}
	run_free(run);
}

static void fail(struct run *run, unsigned int wait_s, const struct err *err)
{
	struct request *q = run->q;
	struct err copy = *err;

	let_go(run);
	if (!q)
		return;
	if (!exchange_is_begun(q->x)) {
		v1_refuse_full(q, wait_s, &copy);
		return;
	}
	sse_take(q->x, "error", 0, result_error(v1_status(&copy), copy.text));
	exchange_end(q->x);
}

static void finish(struct run *run)
{
	struct request *q = run->q;
	struct node *node;

	run->facts.denials = run->denials;
	node = result_of_run(&run->task, &run->facts);
	if (node)
		once_end(&run->once, 200, node);
	let_go(run);
	if (!q)
		node_free(node);
	else if (!exchange_is_begun(q->x))
		answer_take_json(q, 200, node);
	else {
		sse_take(q->x, "result", 0, node);
		exchange_end(q->x);
	}
}

/* --- reading --- */

static void read_on(void *of)
{
	struct run *run = of;

	run->soon = 0;
	if (denials_step(run->denials) <= 0 ||
	    loop_soon(run->serve->loop, read_on, run, &run->soon) < 0)
		finish(run);
}

static void read_record(struct run *run)
{
	run->denials = calloc(1, sizeof(*run->denials));
	if (!run->denials || denials_open(run->task.sandbox, run->denials) < 0) {
		free(take_ptr(&run->denials));
		finish(run);
		return;
	}
	read_on(run);
}

/* --- ending --- */

static void on_killed(void *of, struct message *m, bool is_last)
{
	struct run *run = of;

	(void)m;
	if (!is_last)
		return;
	run->call = 0;
	read_record(run);
}

/* Over our own line and not by registry_kill(): that could not be left when the client does. */
static void end_sandbox(struct run *run)
{
	struct draft d = DRAFT(MESSAGE_KILL, 0);
	struct err err = ERR_NONE;

	if (call_start(run->serve->fleet, run->id, &d, NULL, 0, on_killed, run, &run->call, &err) <
	    0)
		read_record(run);
}

/* --- looking --- */

static void on_status(void *of, struct message *m, bool is_last)
{
	struct run *run = of;

	if (!is_last)
		return;
	run->call = 0;
	if (m->type == MESSAGE_STATUS_IS) {
		run->facts.cpu_ms = message_number(m, FIELD_CPU, 0) / 1000;
		run->facts.peak_memory = message_number(m, FIELD_PEAK, 0);
		run->facts.hits = (unsigned int)message_number(m, FIELD_HITS, 0);
	}
	end_sandbox(run);
}

static void on_ended(void *of, struct task *task)
{
	struct run *run = of;
	struct draft d = DRAFT(MESSAGE_STATUS, 0);
	struct err err = ERR_NONE;

	if (!result_is_one(task)) {
		fail(run, 0, &task->failure);
		return;
	}
	/* One that has ended by itself is read about at once. */
	if (call_start(run->serve->fleet, run->id, &d, NULL, 0, on_status, run, &run->call, &err) <
	    0)
		end_sandbox(run);
}

/* --- running --- */

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct run *run = q->of;

	task_drained(&run->task);
}

static void begin_stream(struct run *run)
{
	if (!run->q)
		return;
	sse_begin(run->q);
	run->task.stream = run->q->x;
	run->q->x->drained = on_drained;
}

/* The sandbox's own variables, under those of the command. */
static int complete_environment(struct run *run, const struct held *held)
{
	struct strv env = { 0 };
	int r = exec_environment(run->serve, held, &env);

	for (size_t i = 0; i < run->command.env.count && r == 0; i++)
		r = strv_add(&env, run->command.env.items[i]);
	if (r < 0) {
		strv_done(&env);
		return r;
	}
	strv_done(&run->command.env);
	run->command.env = env;
	return 0;
}

static void start_command(struct run *run)
{
	struct err err = ERR_NONE;

	run->task.serve = run->serve;
	run->task.ended = on_ended;
	run->task.of = run;
	snprintf(run->task.sandbox, sizeof(run->task.sandbox), "%s", run->id);
	if (run->is_stream)
		begin_stream(run);
	if (task_start(&run->task, &run->command, &err) < 0)
		fail(run, 0, &err);
}

static void on_uploaded(void *of, const struct err *err)
{
	struct run *run = of;

	if (err->code)
		fail(run, 0, err);
	else
		start_command(run);
}

/* What it is, from its manifest: there is nobody to ask for it later. */
static void read_manifest(struct run *run)
{
	_cleanup_(node_freep) struct node *manifest = NULL;
	const struct node *walls;
	struct err err = ERR_NONE;
	bool is_alive;

	if (roster_read(run->id, &manifest, &is_alive, &err) < 0)
		return;
	snprintf(run->facts.policy, sizeof(run->facts.policy), "%s",
		 doc_text(manifest, "policy", ""));
	snprintf(run->facts.isolation, sizeof(run->facts.isolation), "%s",
		 doc_text(manifest, "isolation", ""));
	walls = node_get(manifest, "enforcement");
	run->facts.enforcement = walls ? node_copy(walls) : NULL;
}

static void on_made(void *of, const struct held *held, const struct err *err)
{
	struct run *run = of;
	struct err failed = ERR_NONE;
	int r;

	run->making = NULL;
	if (!held) {
		fail(run, 0, err);
		return;
	}
	snprintf(run->id, sizeof(run->id), "%s", held->id);
	read_manifest(run);
	r = complete_environment(run, held);
	if (r < 0) {
		err_errno(&failed, r, "the environment");
		fail(run, 0, &failed);
		return;
	}
	if (!run->files) {
		start_command(run);
		return;
	}
	run->upload = (struct upload){ .fleet = run->serve->fleet,
				       .files = run->files,
				       .user = run->command.user,
				       .done = on_uploaded,
				       .of = run };
	snprintf(run->upload.sandbox, sizeof(run->upload.sandbox), "%s", run->id);
	upload_start(&run->upload);
}

/* --- the beginning --- */

static int prepare(struct run *run, struct request *q, struct make_order *order, struct err *err)
{
	const struct node *files = node_get(q->body, "files");
	int r;

	r = v1_command_read(run->serve, q->body, NULL, V1_RUN_TIMEOUT, &run->command, err);
	r = r < 0 || !files ? r : upload_check(files, err);
	r = r < 0 ? r : v1_wish(q, order, err);
	if (r < 0)
		return r;
	order->timeout_ms = run->command.timeout_ms + MARGIN_MS;
	order->held.extra = strdup(MARK);
	if (!order->held.extra)
		return -ENOMEM;
	run->files = files ? node_copy(files) : NULL;
	return files && !run->files ? -ENOMEM : 0;
}

void v1_sweep(struct serve *serve)
{
	struct held *held;
	size_t i = 0;

	while ((held = registry_at(serve->registry, i))) {
		struct err err = ERR_NONE;

		/* The one that is killed leaves the list at once. */
		if (!str_equal(held->extra, MARK) ||
		    registry_kill(serve->registry, held->id, NULL, NULL, &err) < 0)
			i++;
	}
}

void v1_run(struct request *q)
{
	struct make_order order = MAKE_ORDER;
	struct run *run;
	struct err err = ERR_NONE;
	unsigned int wait_s = 0;
	int r;

	if (sse_is_wanted(q) && head_find(&q->x->head, "Idempotency-Key")) {
		answer_error(q, 400, "Idempotency-Key: a stream of events cannot be had twice");
		return;
	}
	run = calloc(1, sizeof(*run));
	if (!run) {
		answer_error(q, 503, "out of memory");
		return;
	}
	run->serve = q->serve;
	run->command.input = BUF(0);
	run->is_stream = sse_is_wanted(q);
	run->task = (struct task){ .serve = q->serve };
	if (once_begin(q, &run->once) != 0) {
		run_free(run);
		return;
	}
	run->q = q;
	q->of = run;
	q->gone = run_gone;
	r = prepare(run, q, &order, &err);
	if (r < 0)
		make_order_done(&order);
	else
		r = make_begin(q->serve, q->tenant, &order, on_made, run, &run->making, &wait_s,
			       &err);
	if (r < 0 && !err.code)
		err_errno(&err, r, "the run");
	if (r < 0)
		fail(run, wait_s, &err);
}
