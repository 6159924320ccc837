#include "warden/result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/str.h"
#include "data/schema.h"
#include "output/text.h"
#include "tier/image.h"
#include "trace/event.h"

const char *const reason_names[REASON_COUNT] = {
	[REASON_EXIT] = "exit",     [REASON_SIGNAL] = "signal",       [REASON_TIMEOUT] = "timeout",
	[REASON_MEMORY] = "memory", [REASON_PIDS] = "pids",           [REASON_CPU] = "cpu",
	[REASON_DISK] = "disk",     [REASON_OUTPUT] = "output",       [REASON_LOST] = "lost",
	[REASON_RECORD] = "record", [REASON_CANCELLED] = "cancelled", [REASON_KILLED] = "killed",
	[REASON_IDLE] = "idle",     [REASON_INIT] = "init",
};

static const struct {
	int number;
	const char *name;
} signal_names[] = {
	{ SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },       { SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },   { SIGTRAP, "SIGTRAP" },     { SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },       { SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" }, { SIGSEGV, "SIGSEGV" },     { SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" },     { SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" }, { SIGXFSZ, "SIGXFSZ" },     { SIGVTALRM, "SIGVTALRM" },
	{ SIGPROF, "SIGPROF" }, { SIGIO, "SIGIO" },         { SIGSYS, "SIGSYS" },
	{ SIGPWR, "SIGPWR" },   { SIGSTKFLT, "SIGSTKFLT" },
};

const char *signal_name(int signal, char *text, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(signal_names); i++)
		if (signal_names[i].number == signal) {
			snprintf(text, size, "%s", signal_names[i].name);
			return text;
		}
	snprintf(text, size, "SIG%d", signal);
	return text;
}

typedef struct node *(*field_value)(const struct result *result);

static struct node *value_sandbox(const struct result *result)
{
	return node_string(result->sandbox);
}

static struct node *value_exit_code(const struct result *result)
{
	return node_int(result->exit_code);
}

static struct node *value_signal(const struct result *result)
{
	char text[16];

	return result->signal ? node_string(signal_name(result->signal, text, sizeof(text)))
			      : node_null();
}

static struct node *value_reason(const struct result *result)
{
	return node_string(reason_names[result->reason]);
}

struct node *result_text(const struct buf *bytes)
{
	_cleanup_(buf_done) struct buf text = BUF(bytes->len * 3 + 1);
	bool exact;

	return text_of(buf_text(bytes), bytes->len, &text, &exact) < 0
		       ? NULL
		       : node_bytes(buf_text(&text), text.len);
}

struct node *result_base64(const struct buf *bytes)
{
	_cleanup_(buf_done) struct buf text = BUF(bytes->len * 3 + 1),
				       code = BUF(bytes->len * 2 + 4);
	bool exact;

	if (text_of(buf_text(bytes), bytes->len, &text, &exact) < 0)
		return NULL;
	if (exact)
		return node_null();
	return base64_encode(buf_text(bytes), bytes->len, &code) < 0 ? NULL
								     : node_string(buf_text(&code));
}

static struct node *value_stdout(const struct result *result)
{
	return result_text(&result->out);
}

static struct node *value_stderr(const struct result *result)
{
	return result_text(&result->err);
}

static struct node *value_stdout_base64(const struct result *result)
{
	return result_base64(&result->out);
}

static struct node *value_stderr_base64(const struct result *result)
{
	return result_base64(&result->err);
}

static struct node *value_truncated(const struct result *result)
{
	return node_bool(result->truncated);
}

static struct node *value_duration(const struct result *result)
{
	return node_int((int64_t)result->duration_ms);
}

static struct node *value_cpu(const struct result *result)
{
	return node_int((int64_t)result->cpu_ms);
}

static struct node *value_peak(const struct result *result)
{
	return node_int((int64_t)result->peak_memory);
}

static struct node *value_policy(const struct result *result)
{
	return node_string(result->policy);
}

static struct node *value_isolation(const struct result *result)
{
	return node_string(result->isolation);
}

/* One row gives both the names in an object and its schema. */
static struct node *map_of(size_t count, const struct schema_part parts[],
			   const char *const values[])
{
	_cleanup_(node_freep) struct node *map = node_map();

	for (size_t i = 0; map && i < count; i++)
		if (node_set(map, parts[i].name, node_string(values[i])) < 0)
			return NULL;
	return take_ptr(&map);
}

static const struct schema_part wall_parts[] = { { .name = "name", .type = "string" },
						 { .name = "mechanism", .type = "string" },
						 { .name = "value", .type = "string" } };

struct node *result_enforcement(const struct result *result)
{
	_cleanup_(node_freep) struct node *list = node_list();

	for (size_t i = 0; list && i < result->report->count; i++) {
		const struct wall *wall = &result->report->walls[i];
		const char *const values[] = { wall->name, wall->mechanism, wall->value };

		if (node_add(list, map_of(ARRAY_SIZE(values), wall_parts, values)) < 0)
			return NULL;
	}
	return take_ptr(&list);
}

static const struct schema_part denial_parts[] = { { .name = "action", .type = "string" },
						   { .name = "object", .type = "string" },
						   { .name = "reason", .type = "string" },
						   { .name = "allow_with", .type = "string" } };

/* As in an event: null where the refusal is not by a rule of the policy. */
static struct node *rule_node(const struct denial *d)
{
	_cleanup_(node_freep) struct node *map = NULL;

	if (!d->rule_source[0])
		return node_null();
	map = node_map();
	if (!map || node_set(map, "source", node_string(d->rule_source)) < 0 ||
	    node_set(map, "key", node_string(d->rule_key)) < 0 ||
	    node_set(map, "line", node_int(d->rule_line)) < 0)
		return NULL;
	return take_ptr(&map);
}

static struct node *value_denials(const struct result *result)
{
	_cleanup_(node_freep) struct node *list = node_list();

	for (size_t i = 0; list && i < result->denial_count; i++) {
		const struct denial *d = &result->denials[i];
		const char *const values[] = { d->action, d->object, d->reason, d->allow_with };
		_cleanup_(node_freep) struct node *map =
			map_of(ARRAY_SIZE(values), denial_parts, values);

		if (!map || node_set(map, "rule", rule_node(d)) < 0 ||
		    node_add(list, take_ptr(&map)) < 0)
			return NULL;
	}
	return take_ptr(&list);
}

static struct node *value_left_out(const struct result *result)
{
	return node_int((int64_t)result->denials_left_out);
}

struct node *result_published(const struct result *result)
{
	_cleanup_(node_freep) struct node *list = node_list();

	for (size_t i = 0; list && i < result->published_count; i++) {
		const struct result_port *port = &result->published[i];
		_cleanup_(node_freep) struct node *map = node_map();

		if (!map || node_set(map, "address", node_string(port->address)) < 0 ||
		    node_set(map, "port", node_int(port->port)) < 0 ||
		    node_set(map, "inside", node_int(port->inside)) < 0 ||
		    node_add(list, take_ptr(&map)) < 0)
			return NULL;
	}
	return take_ptr(&list);
}

/* Filled in later by whoever looks at the changes. */
static struct node *value_no_folders(const struct result *result)
{
	(void)result;
	return node_list();
}

static struct node *value_no_export(const struct result *result)
{
	(void)result;
	return node_null();
}

enum shape {
	SHAPE_TEXT,
	SHAPE_TEXT_OR_NULL,
	SHAPE_NUMBER,
	SHAPE_BOOL,
	SHAPE_REASON,
	SHAPE_WALLS,
	SHAPE_DENIALS,
	SHAPE_PORTS,
	SHAPE_FOLDERS,
	SHAPE_OUTCOME_OR_NULL,
	SHAPE_IMAGE_OR_NULL
};

static const struct field {
	const char *name;
	enum shape shape;
	field_value value;
	const char *summary;
} fields[] = {
	{ "sandbox", SHAPE_TEXT, value_sandbox, "id of the sandbox" },
	{ "exit_code", SHAPE_NUMBER, value_exit_code,
	  "as a shell says it: the program's own, 128+n for signal n, 124 at the time limit, 126 "
	  "and 127 when the "
	  "program cannot be executed or found" },
	{ "signal", SHAPE_TEXT_OR_NULL, value_signal,
	  "the signal that ended the program, or null" },
	{ "reason", SHAPE_REASON, value_reason,
	  "why it ended, from what the kernel and the warden saw" },
	{ "stdout", SHAPE_TEXT, value_stdout,
	  "standard output; bytes that are not UTF-8 replaced by U+FFFD" },
	{ "stderr", SHAPE_TEXT, value_stderr, "standard error, likewise" },
	{ "stdout_base64", SHAPE_TEXT_OR_NULL, value_stdout_base64,
	  "the exact bytes of standard output where stdout is not exact, else null" },
	{ "stderr_base64", SHAPE_TEXT_OR_NULL, value_stderr_base64, "likewise for standard error" },
	{ "truncated", SHAPE_BOOL, value_truncated,
	  "some output is missing: it was over the limit" },
	{ "duration_ms", SHAPE_NUMBER, value_duration, "from start to end" },
	{ "cpu_ms", SHAPE_NUMBER, value_cpu, "CPU time of all processes" },
	{ "peak_memory", SHAPE_NUMBER, value_peak,
	  "bytes: of all processes together with a memory cgroup, else of the largest one" },
	{ "policy", SHAPE_TEXT, value_policy, "digest of the resolved policy" },
	{ "isolation", SHAPE_TEXT, value_isolation, "the tier that ran it" },
	{ "enforcement", SHAPE_WALLS, result_enforcement, "one entry per wall: what really held" },
	{ "denials", SHAPE_DENIALS, value_denials,
	  "distinct refused actions, at most 64: what was tried, the rule that refused it, and "
	  "what "
	  "would allow it" },
	{ "denials_left_out", SHAPE_NUMBER, value_left_out,
	  "how many more refused actions there were, for which there was no room" },
	{ "published", SHAPE_PORTS, result_published,
	  "with net.publish: the address and port that the host listened at, and the port inside" },
	{ "folders", SHAPE_FOLDERS, value_no_folders,
	  "with --diff or --commit: the overlays, what changed in them, and what came back" },
	{ "export", SHAPE_OUTCOME_OR_NULL, value_no_export,
	  "with --export: how many files, links and directories, and what was left out" },
	{ "kept", SHAPE_IMAGE_OR_NULL, value_no_export, "with --keep: the image that was made" },
};

int result_to_node(const struct result *result, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *map = node_map();
	int r = map ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		r = node_set(map, fields[i].name, fields[i].value(result));
	if (r < 0)
		return r;
	*ret_node = take_ptr(&map);
	return 0;
}

static struct node *schema_denials(void)
{
	_cleanup_(node_freep) struct node *item =
		schema_parts(denial_parts, ARRAY_SIZE(denial_parts));

	if (schema_add(item, "rule", trace_rule_schema(), true) < 0)
		return NULL;
	return schema_list(take_ptr(&item));
}

struct node *result_published_schema(void)
{
	static const struct schema_part parts[] = { { .name = "address", .type = "string" },
						    { .name = "port", .type = "integer" },
						    { .name = "inside", .type = "integer" } };

	return schema_list(schema_parts(parts, ARRAY_SIZE(parts)));
}

static struct node *schema_folders(void)
{
	static const struct schema_part parts[] = {
		{ .name = "folder", .type = "string" },
		{ .name = "changes", .type = "array" },
		{ .name = "problems", .type = "array" },
		{ .name = "commit", .type = "object", .is_optional = true },
	};

	return schema_list(schema_parts(parts, ARRAY_SIZE(parts)));
}

static struct node *schema_outcome(void)
{
	static const struct schema_part parts[] = { { .name = "applied", .type = "integer" },
						    { .name = "notes", .type = "array" },
						    { .name = "more", .type = "integer" } };

	return schema_or_null(schema_parts(parts, ARRAY_SIZE(parts)));
}

struct node *result_enforcement_schema(void)
{
	return schema_list(schema_parts(wall_parts, ARRAY_SIZE(wall_parts)));
}

static struct node *schema_shape(enum shape shape)
{
	switch (shape) {
	case SHAPE_TEXT:
		return schema_type("string");
	case SHAPE_TEXT_OR_NULL:
		return schema_type("string|null");
	case SHAPE_NUMBER:
		return schema_type("integer");
	case SHAPE_BOOL:
		return schema_type("boolean");
	case SHAPE_REASON:
		return schema_enum(reason_names, REASON_COUNT);
	case SHAPE_WALLS:
		return result_enforcement_schema();
	case SHAPE_DENIALS:
		return schema_denials();
	case SHAPE_PORTS:
		return result_published_schema();
	case SHAPE_FOLDERS:
		return schema_folders();
	case SHAPE_OUTCOME_OR_NULL:
		return schema_outcome();
	case SHAPE_IMAGE_OR_NULL:
		return schema_or_null(image_info_schema());
	}
	return NULL;
}

int result_schema(struct node **ret_node)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig result");
	int r = document ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		r = schema_add(document, fields[i].name,
			       schema_described(schema_shape(fields[i].shape), fields[i].summary),
			       true);
	if (r == 0)
		*ret_node = take_ptr(&document);
	return r;
}
