/*
 * v1_result.h - what a command came to, in the words of "brig run --json" and "brig exec --json"
 */
#ifndef BRIG_SERVE_V1_RESULT_H
#define BRIG_SERVE_V1_RESULT_H

#include "serve/denials.h"
#include "serve/v1.h"

/* Whether the end is a result at all, also that of a program that is not there; else the failure says why not. */
bool result_is_one(const struct task *task);

struct node *result_error(unsigned int status, const char *text);

/* Of a command in a sandbox that lives. NULL: out of memory. */
struct node *result_of_exec(const struct task *task);
[[nodiscard]] int result_exec_schema(struct node **ret_schema);

/* Of a run: the sandbox is gone. */
struct run_facts {
	uint64_t cpu_ms, peak_memory;
	unsigned int hits;        /* enum limit_hit */
	struct node *enforcement; /* taken over; NULL: none is known */
	char policy[80], isolation[16];
	const struct denials *denials;
};
struct node *result_of_run(const struct task *task, struct run_facts *facts);
[[nodiscard]] int result_run_schema(struct node **ret_schema);

#endif
