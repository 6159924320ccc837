/*
 * event.h - one event, as one line
 *
 * One row per field (event.c) gives the line, its check when it is read again, the schema and the
 * manual. A line is canonical JSON (keys in the order of their bytes, no white space), so equal
 * events give equal bytes, and whoever reads a line that is not canonical knows that it was not
 * written here.
 *
 * What the sandbox chose (the object) is foreign: control characters are escaped, so that an event
 * is one line whatever it names; what is no UTF-8, and NUL, becomes U+FFFD and the exact bytes
 * stand in object_base64; more than TRACE_OBJECT_MAX bytes are cut, and "cut" says how many are
 * missing. Words of our own (reason, allow_with, rule) are cut at a bound, too.
 *
 * Nothing here allocates while it writes: the caller gives room for TRACE_LINE_MAX bytes.
 */
#ifndef BRIG_TRACE_EVENT_H
#define BRIG_TRACE_EVENT_H

#include <sys/types.h>

#include "base/sha256.h"
#include "data/node.h"
#include "policy/policy.h"

#define TRACE_ID_SIZE    16         /* with the NUL */
#define TRACE_LINE_MAX   (64 * KIB) /* of any line, with its newline */
#define TRACE_OBJECT_MAX 4096
#define TRACE_TIME_SIZE  28 /* "2026-01-31T23:59:59.123456Z" */

enum trace_kind {
	TRACE_EXEC,
	TRACE_FILE,
	TRACE_NET,
	TRACE_DNS,
	TRACE_SYSCALL,
	TRACE_LIMIT,
	TRACE_OUTPUT,
	TRACE_SANDBOX, /* of the stream itself: start, end, dropped */
	TRACE_KIND_COUNT,
};
extern const char *const trace_kind_names[TRACE_KIND_COUNT];
extern const char *const verdict_names[3]; /* by enum verdict */

/* Where the rule that decided was written. Without a source there is none. */
struct trace_rule {
	const char *source; /* a file, the name of a shipped policy, or a flag */
	const char *key;    /* "net.allow" */
	unsigned int line;  /* 0 for a flag */
};

/* What happened. All strings stay the caller's; NULL means "". */
struct trace_event {
	enum trace_kind kind;
	enum verdict verdict;
	const char *action; /* "open", "connect", "query", "mount" */
	const char *object; /* as asked */
	size_t object_len;  /* 0: up to the NUL */
	uint64_t exec;   /* number of the execve that this process came from; 0: before the first */
	uint64_t parent; /* number of the execve that started that one */
	pid_t pid;
	struct trace_rule rule;
	const char *reason, *allow_with; /* of a refusal */
	const char *publish;             /* of a client from outside: "127.0.0.1:8080:80" */
	uint64_t at; /* CLOCK_MONOTONIC, ns, when it happened; 0, or what cannot be: now */
};

/* What only the last line has. */
struct trace_end {
	int exit_code;
	uint64_t denied; /* attempts that were refused: recorded, folded and dropped */
};

/* An event with all that its line says. */
struct trace_line {
	const struct trace_event *event;
	const char *sandbox, *time, *prev;
	uint64_t seq, mono;
	uint64_t count, dropped;        /* 0: not in the line */
	const char *policy, *isolation; /* NULL: not in the line */
	const struct trace_end *end;    /* NULL: not the last line */
};

/* Writes the line with its newline; the length, or -EMSGSIZE. */
[[nodiscard]] ssize_t trace_line_write(const struct trace_line *line, char *text, size_t size);

/* "2026-01-31T23:59:59", 19 characters. */
void trace_time_second(int64_t second, char text[static TRACE_TIME_SIZE]);

/*
 * Reads a line (without its newline) that anyone may have written. What is accepted is canonical
 * and has the fields that the schema says, with their types. err says what is wrong.
 */
[[nodiscard]] int trace_line_parse(const char *text, size_t len, struct node **ret_node,
				   struct err *err);

/* Of a line that trace_line_parse() accepted: "" and 0 where a field is not there. */
const char *trace_text(const struct node *line, const char *name);
int64_t trace_number(const struct node *line, const char *name);
bool trace_is(const struct node *line, const char *kind, const char *action);

[[nodiscard]] int trace_schema(struct node **ret_schema);
struct node *trace_rule_schema(void); /* of "rule" alone; NULL: out of memory */

/* The rows, for a document. */
size_t trace_field_count(void);
void trace_field_describe(size_t index, const char **ret_name, const char **ret_summary,
			  bool *ret_is_always);

#endif
