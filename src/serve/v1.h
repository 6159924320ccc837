/*
 * v1.h - what the files of brig's own API share (private to v1*.c)
 *
 * The rows are in v1.c, what they say of themselves in v1_docs.c, the handlers by subject in the others.
 */
#ifndef BRIG_SERVE_V1_H
#define BRIG_SERVE_V1_H

#include "serve/exec.h"
#include "serve/make.h"
#include "serve/once.h"
#include "serve/openapi.h"
#include "serve/serve.h"
#include "serve/sse.h"

#define V1_OUTPUT_MAX  (1 * MIB) /* of each stream that is answered as a whole */
#define V1_TIMEOUT_MAX 86400     /* seconds: of a command */
#define V1_LIFE_MAX    2592000   /* seconds: of a sandbox */
#define V1_RUN_TIMEOUT 60
#define V1_LIFE        300

/* --- handlers --- */
void v1_run(struct request *q);
void v1_create(struct request *q);
void v1_list(struct request *q);
void v1_get(struct request *q);
void v1_change(struct request *q);
void v1_delete(struct request *q);
void v1_pause(struct request *q);
void v1_resume(struct request *q);
void v1_report(struct request *q);
void v1_exec(struct request *q);
void v1_terminal(struct request *q);
void v1_processes(struct request *q);
void v1_signal(struct request *q);
void v1_read_file(struct request *q);
void v1_write_file(struct request *q);
void v1_remove_file(struct request *q);
void v1_events(struct request *q);
void v1_policies(struct request *q);
void v1_policy(struct request *q);
void v1_keys(struct request *q);
void v1_make_key(struct request *q);
void v1_revoke_key(struct request *q);
void v1_host(struct request *q);
void v1_health(struct request *q);
void v1_ready(struct request *q);
void v1_metrics(struct request *q);
void v1_openapi(struct request *q);

/* --- v1_docs.c --- */
extern const struct route_doc v1_doc_run, v1_doc_create, v1_doc_list, v1_doc_get, v1_doc_change,
	v1_doc_delete, v1_doc_pause, v1_doc_resume, v1_doc_report, v1_doc_exec, v1_doc_terminal,
	v1_doc_processes, v1_doc_signal, v1_doc_read_file, v1_doc_write_file, v1_doc_remove_file,
	v1_doc_events, v1_doc_policies, v1_doc_policy, v1_doc_keys, v1_doc_make_key,
	v1_doc_revoke_key, v1_doc_host, v1_doc_health, v1_doc_ready, v1_doc_metrics, v1_doc_openapi;

/* --- v1_answer.c --- */

/* As answer_err(), but what was well-formed and cannot be done is 422. */
void v1_refuse(struct request *q, const struct err *err);
unsigned int v1_status(const struct err *err);
void v1_refuse_full(struct request *q, unsigned int wait_s, const struct err *err); /* 429 */

/* A time as clients get it; null where there is none (0). */
struct node *v1_time(uint64_t ms);
/* What JSON text of the store says, as a tree again; an empty map for "". NULL: out of memory. */
struct node *v1_json(const char *text);

/* --- v1_wish.c: what a client wants of a new sandbox --- */

/* policy, net, limits, template, env of a body; -EINVAL (also what there is none of) and others, with words. */
[[nodiscard]] int v1_wish(struct request *q, struct make_order *ret_order, struct err *err);

/* Whether a policy of this name comes with brig: others are files of this host, and not for clients to name. */
bool v1_is_shipped(const char *name);

/* --- v1_command.c: what a client wants to run --- */
struct v1_command {
	struct strv argv, env;
	const char *cwd, *user; /* of the body */
	struct buf input;
	bool has_input;
	uint64_t timeout_ms;
};
/* held: whose variables come first; NULL: none. */
[[nodiscard]] int v1_command_read(struct serve *serve, const struct node *body,
				  const struct held *held, uint64_t default_timeout_s,
				  struct v1_command *ret_command, struct err *err);
void v1_command_done(struct v1_command *command);

/*
 * One command, from its start to its end, with its output collected, or sent on as events. Whoever waits for it
 * gets ended() once; task_free() at any time ends the command, if it has not ended.
 */
struct task {
	struct serve *serve;
	struct exchange *stream; /* to send output to; NULL: it is collected */
	void (*ended)(void *of, struct task *task);
	void *of;

	struct exec *exec;
	char sandbox[TRACE_ID_SIZE];
	uint64_t process;
	loop_id timer, pulse;
	struct buf out, err;
	struct sse_rest rest_out, rest_err;
	bool truncated, is_timeout, is_started;
	uint64_t began, ended_at; /* loop_now() */
	uint64_t timeout_ms;
	enum exec_outcome outcome;
	int status;
	struct err failure;
};

[[nodiscard]] int task_start(struct task *task, const struct v1_command *command, struct err *err);
void task_drained(struct task *task); /* the client reads again */
void task_done(struct task *task);
/* As a shell says it; and the signal, or 0. */
int task_exit_code(const struct task *task, int *ret_signal);

#endif
