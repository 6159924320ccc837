/*
 * e2b_process.h - what the routes of process.Process share (private to e2b_process*.c)
 *
 * All of it is the Connect protocol with JSON. Nothing about processes is kept here: the tag of one, and
 * how it was started, stand in the label that init keeps for it, so a daemon that was killed and started
 * again knows as much as before. A request names a process by its pid inside or by its tag; which one of
 * init's that is, is found by asking for the list.
 */
#ifndef BRIG_SERVE_E2B_PROCESS_H
#define BRIG_SERVE_E2B_PROCESS_H

#include "http/connect.h"
#include "serve/exec.h"

#define RPC_BODY_MAX  (1 * MIB)
#define RPC_INPUT_MAX (16 * MIB) /* of one SendInput, encoded */
#define TAG_MAX       1024
#define EXIT_KEPT_MS  30000 /* how long one that has ended can be connected to */

/* --- e2b_process.c --- */

/* The answer of a call that is no stream: {}, or an error. */
void rpc_done(struct request *q);
void rpc_error(struct request *q, enum connect_code code, const char *fmt, ...) _printf_(3, 4);

/* false: it was answered with 415. */
bool rpc_has_type(struct request *q, const char *type);

/* Connect-Timeout-Ms: 0 where there is none. -EINVAL. */
[[nodiscard]] int rpc_timeout(const struct request *q, uint64_t *ret_ms);

/* A number of proto3's JSON (also as text) that fits 32 bits; absent or null: the fallback. -EINVAL. */
[[nodiscard]] int rpc_number(const struct node *map, const char *key, uint32_t fallback,
			     uint32_t *ret);
const struct node *rpc_get(const struct node *map,
			   const char *key); /* NULL also where it is null */

/* --- e2b_process_find.c: {"pid": 5} or {"tag": "x"} --- */

struct find {
	struct exec_list list;
	uint64_t pid;
	char *tag;    /* NULL: by pid */
	bool running; /* one that has ended is none */
	struct exec_found best;
	bool is_found;
	void (*done)(void *of, const struct exec_found *found, const struct err *err);
	void *of;
};

/* selector: the message that names it. -EINVAL: it names none; -errno as exec_list(). */
[[nodiscard]] int find_begin(struct find *find, struct request *q, const struct node *selector,
			     struct err *err);
/* found is NULL where there is none; its label is gone by then. */
void find_end(struct find *find);
/* "process with pid 5 not found" */
void find_explain(const struct find *find, char *ret, size_t size);

/* Whether a process is one of Start's; what stands in its label, or NULL where that is cut off or odd. */
bool label_is_ours(const char *label);
struct node *label_read(const char *label);
/* With as much of it as fits. tag: NULL or text. */
[[nodiscard]] int label_write(struct buf *buf, const struct node *config, const char *tag);

/* --- e2b_process_stream.c, e2b_process_input.c --- */
void process_start(struct request *q);
void process_connect(struct request *q);
void process_send_input(struct request *q);
void process_stream_input(struct request *q);

/* What Go's os.ProcessState says: "exit status 3", "signal: killed". */
void status_words(int status, char *ret, size_t size);

#endif
