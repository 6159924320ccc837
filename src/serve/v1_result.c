#include "serve/v1_result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "data/schema.h"

bool result_is_one(const struct task *task)
{
	if (task->outcome == EXEC_EXITED || (task->outcome == EXEC_LOST && task->is_started))
		return true;
	/* As a shell would say it: 126 and 127. */
	return task->outcome == EXEC_FAILED &&
	       (task->failure.code == -ENOENT || task->failure.code == -EACCES);
}

struct node *result_error(unsigned int status, const char *text)
{
	struct node *map = node_map();
	int r = node_set(map, "code", node_int(status));

	r = r < 0 ? r : node_set(map, "message", node_string(text));
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

/* Why a program did not start stands where a shell would have put it. */
static struct node *text_of_errors(const struct task *task)
{
	_cleanup_(buf_done) struct buf text = BUF(1024);

	if (task->outcome != EXEC_FAILED)
		return result_text(&task->err);
	return buf_printf(&text, "brig: %s\n", task->failure.text) < 0
		       ? NULL
		       : node_string(buf_text(&text));
}

/* --- of exec: one row gives the value and its place in the schema --- */

static struct node *value_sandbox(const struct task *task)
{
	return node_string(task->sandbox);
}

static struct node *value_process(const struct task *task)
{
	return task->process ? node_int((int64_t)task->process) : node_null();
}

static struct node *value_exit_code(const struct task *task)
{
	int signal;

	return node_int(task_exit_code(task, &signal));
}

static struct node *value_signal(const struct task *task)
{
	char text[16];
	int signal;

	(void)task_exit_code(task, &signal);
	return signal ? node_string(signal_name(signal, text, sizeof(text))) : node_null();
}

static enum reason reason_of(const struct task *task)
{
	int signal;

	(void)task_exit_code(task, &signal);
	if (task->is_timeout)
		return REASON_TIMEOUT;
	if (task->outcome == EXEC_LOST)
		return REASON_KILLED;
	return signal ? REASON_SIGNAL : REASON_EXIT;
}

static struct node *value_reason(const struct task *task)
{
	return node_string(reason_names[reason_of(task)]);
}

static struct node *value_stdout(const struct task *task)
{
	return result_text(&task->out);
}

static struct node *value_stdout_base64(const struct task *task)
{
	return result_base64(&task->out);
}

static struct node *value_stderr_base64(const struct task *task)
{
	return result_base64(&task->err);
}

static struct node *value_truncated(const struct task *task)
{
	return node_bool(task->truncated);
}

static struct node *value_duration(const struct task *task)
{
	return node_int((int64_t)(task->ended_at - task->began));
}

static const char *const exec_reasons[] = { "exit", "signal", "timeout", "killed" };

static const struct {
	const char *name, *type;
	struct node *(*value)(const struct task *task);
	bool is_output; /* not in the last event of a stream, which had it */
	const char *summary;
} exec_fields[] = {
	{ "sandbox", "string", value_sandbox, false, "id of the sandbox" },
	{ "process", "integer|null", value_process, false,
	  "the command's number in the sandbox; null: it did not start" },
	{ "exit_code", "integer", value_exit_code, false,
	  "as a shell says it: the command's own, 128+n for signal n, 124 at the time limit, 126 "
	  "and 127 "
	  "when it cannot be executed or found" },
	{ "signal", "string|null", value_signal, false,
	  "the signal that ended the command, or null" },
	{ "reason", NULL, value_reason, false,
	  "why it ended; killed: the sandbox was ended, and the command with it" },
	{ "stdout", "string", value_stdout, true,
	  "standard output; bytes that are not UTF-8 replaced by U+FFFD" },
	{ "stderr", "string", text_of_errors, true, "standard error, likewise" },
	{ "stdout_base64", "string|null", value_stdout_base64, true,
	  "the exact bytes of standard output where stdout is not exact, else null" },
	{ "stderr_base64", "string|null", value_stderr_base64, true,
	  "likewise for standard error" },
	{ "truncated", "boolean", value_truncated, false,
	  "some output is missing: it was too long" },
	{ "duration_ms", "integer", value_duration, false, "from start to end" },
};

struct node *result_of_exec(const struct task *task)
{
	_cleanup_(node_freep) struct node *map = node_map();

	for (size_t i = 0; i < ARRAY_SIZE(exec_fields); i++)
		if (!(task->stream && exec_fields[i].is_output) &&
		    node_set(map, exec_fields[i].name, exec_fields[i].value(task)) < 0)
			return NULL;
	return take_ptr(&map);
}

int result_exec_schema(struct node **ret_schema)
{
	_cleanup_(node_freep) struct node *object = schema_object();
	int r = object ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(exec_fields) && r == 0; i++) {
		struct node *schema = exec_fields[i].type
					      ? schema_type(exec_fields[i].type)
					      : schema_enum(exec_reasons, ARRAY_SIZE(exec_reasons));

		r = schema_add(object, exec_fields[i].name,
			       schema_described(schema, exec_fields[i].summary), true);
	}
	if (r == 0)
		*ret_schema = take_ptr(&object);
	return r;
}

/* --- of run: the table of "brig run --json" itself --- */

static enum reason reason_of_run(const struct task *task, const struct run_facts *facts,
				 int exit_code)
{
	static const struct {
		unsigned int hit;
		enum reason reason;
	} hits[] = { { HIT_MEMORY, REASON_MEMORY },
		     { HIT_DISK, REASON_DISK },
		     { HIT_PIDS, REASON_PIDS } };
	enum reason reason = reason_of(task);

	/* The warden knows better why it ended. */
	if (task->outcome == EXEC_LOST && facts->denials && facts->denials->has_ended)
		return facts->denials->reason;
	if (reason != REASON_EXIT && reason != REASON_SIGNAL)
		return reason;
	for (size_t i = 0; i < ARRAY_SIZE(hits) && exit_code != 0; i++)
		if (facts->hits & hits[i].hit)
			return hits[i].reason;
	return reason;
}

static void fill_result(struct result *result, const struct task *task,
			const struct run_facts *facts)
{
	snprintf(result->sandbox, sizeof(result->sandbox), "%s", task->sandbox);
	result->exit_code = task_exit_code(task, &result->signal);
	result->reason = reason_of_run(task, facts, result->exit_code);
	result->out = task->out;
	result->err = task->err;
	result->truncated = task->truncated;
	result->duration_ms = task->ended_at - task->began;
	result->cpu_ms = facts->cpu_ms;
	result->peak_memory = facts->peak_memory;
	snprintf(result->policy, sizeof(result->policy), "%s", facts->policy);
	result->isolation = facts->isolation;
	if (facts->denials) {
		memcpy(result->denials, facts->denials->items, sizeof(result->denials));
		result->denial_count = facts->denials->count;
		result->denials_left_out = facts->denials->left_out;
	}
}

static const char *const output_names[] = { "stdout", "stderr", "stdout_base64", "stderr_base64" };

static bool is_output(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(output_names); i++)
		if (str_equal(output_names[i], name))
			return true;
	return false;
}

/* The same without what the events before had. */
static struct node *without_output(const struct node *all)
{
	struct node *map = node_map();

	for (size_t i = 0; i < all->count; i++)
		if (!is_output(all->entries[i].key) &&
		    node_set(map, all->entries[i].key, node_copy(all->entries[i].value)) < 0) {
			node_free(map);
			return NULL;
		}
	return map;
}

struct node *result_of_run(const struct task *task, struct run_facts *facts)
{
	static const struct report no_report;
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_free_ struct result *result = calloc(1, sizeof(*result));
	struct node *walls = take_ptr(&facts->enforcement);

	if (!result) {
		node_free(walls);
		return NULL;
	}
	fill_result(result, task, facts);
	result->report = &no_report;
	if (result_to_node(result, &node) < 0) {
		node_free(walls);
		return NULL;
	}
	if (walls && node_set(node, "enforcement", walls) < 0)
		return NULL;
	if (node_set(node, "stderr", text_of_errors(task)) < 0)
		return NULL;
	return task->stream ? without_output(node) : take_ptr(&node);
}

int result_run_schema(struct node **ret_schema)
{
	return result_schema(ret_schema);
}
