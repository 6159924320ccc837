/*
 * result.h - what a run came to, as one object
 *
 * One row per field (result.c) gives the JSON, its schema and the manual. Everything in it comes
 * from the kernel or from the warden, nothing from what the program claims.
 */
#ifndef BRIG_WARDEN_RESULT_H
#define BRIG_WARDEN_RESULT_H

#include "base/buf.h"
#include "data/node.h"
#include "tier/report.h"

enum reason {
	REASON_EXIT,
	REASON_SIGNAL,
	REASON_TIMEOUT,
	REASON_MEMORY,
	REASON_PIDS,
	REASON_CPU,
	REASON_DISK,
	REASON_OUTPUT,
	REASON_RECORD, /* what it did could not be recorded any more */
	REASON_LOST,   /* a protected path was replaced on the host, and its protection with it */
	REASON_CANCELLED,
	REASON_KILLED, /* a sandbox that lives: somebody wanted it to end */
	REASON_IDLE,   /* nobody wanted anything of it for too long */
	REASON_INIT,   /* its init ended, or broke the rules */
	REASON_COUNT,
};
extern const char *const reason_names[REASON_COUNT];

#define RESULT_ID_SIZE     16
#define RESULT_MAX_DENIALS 64
#define RESULT_MAX_PORTS   64

/* The shape of a refusal at every layer. */
struct denial {
	char action[32], object[256], reason[256], allow_with[288];
	char rule_source[128], rule_key[32]; /* the rule that decided; "": none names it */
	unsigned int rule_line;              /* 0 for a flag */
};

/* A port of the sandbox that the host listened for. */
struct result_port {
	char address[64];
	uint16_t port, inside;
};

struct result {
	char sandbox[RESULT_ID_SIZE];
	int exit_code; /* as a shell would say it: 128+n for a signal, 124 for the time limit */
	int signal;    /* that ended the first process, or 0 */
	enum reason reason;
	struct buf out, err; /* captured, with --json */
	bool truncated;
	uint64_t duration_ms, cpu_ms, peak_memory;
	char policy[80]; /* digest */
	const char *isolation;
	const struct report *report;
	struct denial denials[RESULT_MAX_DENIALS];
	size_t denial_count;
	struct result_port published[RESULT_MAX_PORTS];
	size_t published_count;
	uint64_t denials_left_out; /* distinct or not: there was no room for them */
};

[[nodiscard]] int result_to_node(const struct result *result, struct node **ret_node);
[[nodiscard]] int result_schema(struct node **ret_node);

/* Parts of it, by themselves; NULL: out of memory. */
struct node *result_enforcement(const struct result *result);
struct node *result_published(const struct result *result);
struct node *result_enforcement_schema(void);
struct node *result_published_schema(void);

/* Output as text; and its exact bytes, null in the JSON where the text already says it exactly. */
struct node *result_text(const struct buf *bytes);
struct node *result_base64(const struct buf *bytes);

/* "SIGKILL" for 9. */
const char *signal_name(int signal, char *text, size_t size);

#endif
