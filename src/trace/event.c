#include "trace/event.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "data/schema.h"
#include "data/yaml.h"
#include "trace/cursor.h"

#define WORD_MAX 512  /* action, rule, policy, isolation, publish */
#define TEXT_MAX 1024 /* reason, allow_with */

const char *const trace_kind_names[TRACE_KIND_COUNT] = {
	[TRACE_EXEC] = "exec",       [TRACE_FILE] = "file",       [TRACE_NET] = "net",
	[TRACE_DNS] = "dns",         [TRACE_LIMIT] = "limit",     [TRACE_OUTPUT] = "output",
	[TRACE_SYSCALL] = "syscall", [TRACE_SANDBOX] = "sandbox",
};

const char *const verdict_names[3] = {
	[VERDICT_DENY] = "deny",
	[VERDICT_ASK] = "ask",
	[VERDICT_ALLOW] = "allow",
};

/* Every character of every field may need six bytes; the object stands there in base64 as well. */
static_assert(6 * (TRACE_OBJECT_MAX + 6 * WORD_MAX + 2 * TEXT_MAX) + 2 * TRACE_OBJECT_MAX + 1024 <
	      TRACE_LINE_MAX);

/* The object as far as it is written. A cut is never inside a character. */
static size_t object_length(const struct trace_event *event, size_t *ret_whole)
{
	const char *p = event->object ? event->object : "";
	size_t whole = event->object_len ? event->object_len : strlen(p), len = whole;

	if (len > TRACE_OBJECT_MAX) {
		len = TRACE_OBJECT_MAX;
		for (int i = 0; i < 3 && ((unsigned char)p[len] & 0xc0) == 0x80; i++)
			len--;
	}
	*ret_whole = whole;
	return len;
}

static bool put_text(struct cursor *c, const char *text, size_t max)
{
	if (!text)
		return false;
	(void)cursor_string(c, text, strnlen(text, max));
	return true;
}

static bool put_number(struct cursor *c, uint64_t value)
{
	cursor_number(c, value);
	return true;
}

/* Each writes its value, or says that the line has none. */
typedef bool (*field_put)(struct cursor *c, const struct trace_line *line);

static bool put_action(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->event->action ? line->event->action : "", WORD_MAX);
}

static bool is_refusal(const struct trace_line *line)
{
	return line->event->verdict == VERDICT_DENY && line->event->kind != TRACE_SANDBOX;
}

static bool put_allow_with(struct cursor *c, const struct trace_line *line)
{
	const char *text = line->event->allow_with;

	return put_text(c, text ? text : is_refusal(line) ? "" : NULL, TEXT_MAX);
}

static bool put_count(struct cursor *c, const struct trace_line *line)
{
	return line->count && put_number(c, line->count);
}

static bool put_cut(struct cursor *c, const struct trace_line *line)
{
	size_t whole, len = object_length(line->event, &whole);

	return whole > len && put_number(c, whole - len);
}

static bool put_denied(struct cursor *c, const struct trace_line *line)
{
	return line->end && put_number(c, line->end->denied);
}

static bool put_dropped(struct cursor *c, const struct trace_line *line)
{
	return line->dropped && put_number(c, line->dropped);
}

static bool put_exec(struct cursor *c, const struct trace_line *line)
{
	return put_number(c, line->event->exec);
}

static bool put_exit_code(struct cursor *c, const struct trace_line *line)
{
	return line->end && put_number(c, (uint64_t)MAX(line->end->exit_code, 0));
}

static bool put_isolation(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->isolation, WORD_MAX);
}

static bool put_kind(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, trace_kind_names[line->event->kind], WORD_MAX);
}

static bool put_mono(struct cursor *c, const struct trace_line *line)
{
	return put_number(c, line->mono);
}

static bool put_object(struct cursor *c, const struct trace_line *line)
{
	size_t whole, len = object_length(line->event, &whole);

	c->is_exact = cursor_string(c, line->event->object ? line->event->object : "", len);
	return true;
}

/* Stands behind the object in the table, which has found out whether it is needed. */
static bool put_object_base64(struct cursor *c, const struct trace_line *line)
{
	size_t whole;

	if (c->is_exact)
		return false;
	cursor_base64(c, line->event->object, object_length(line->event, &whole));
	return true;
}

static bool put_parent(struct cursor *c, const struct trace_line *line)
{
	return put_number(c, line->event->parent);
}

static bool put_pid(struct cursor *c, const struct trace_line *line)
{
	return put_number(c, (uint64_t)MAX(line->event->pid, 0));
}

static bool put_policy(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->policy, WORD_MAX);
}

static bool put_prev(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->prev, SHA256_HEX_SIZE);
}

static bool put_publish(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->event->publish, WORD_MAX);
}

static bool put_reason(struct cursor *c, const struct trace_line *line)
{
	const char *text = line->event->reason;

	return put_text(c, text ? text : is_refusal(line) ? "" : NULL, TEXT_MAX);
}

static bool put_rule(struct cursor *c, const struct trace_line *line)
{
	const struct trace_rule *rule = &line->event->rule;

	if (!rule->source) {
		cursor_bytes(c, "null", 4);
		return true;
	}
	cursor_bytes(c, "{\"key\":", 7);
	put_text(c, rule->key ? rule->key : "", WORD_MAX);
	cursor_bytes(c, ",\"line\":", 8);
	cursor_number(c, rule->line);
	cursor_bytes(c, ",\"source\":", 10);
	put_text(c, rule->source, WORD_MAX);
	cursor_bytes(c, "}", 1);
	return true;
}

static bool put_sandbox(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->sandbox, TRACE_ID_SIZE);
}

static bool put_seq(struct cursor *c, const struct trace_line *line)
{
	return put_number(c, line->seq);
}

static bool put_time(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, line->time, TRACE_TIME_SIZE);
}

static bool put_verdict(struct cursor *c, const struct trace_line *line)
{
	return put_text(c, verdict_names[line->event->verdict], WORD_MAX);
}

enum shape { SHAPE_TEXT, SHAPE_NUMBER, SHAPE_KIND, SHAPE_VERDICT, SHAPE_RULE };

#define FIELD(name, shape, always, summary)                                             \
	{                                                                               \
#name, ",\"" #name "\":", sizeof(",\"" #name "\":") - 1, shape, always, \
			put_##name, summary                                             \
	}

/* In the order of the names' bytes: that is the order in the line. */
static const struct field {
	const char *name, *key;
	size_t key_len;
	enum shape shape;
	bool is_always;
	field_put put;
	const char *summary;
} fields[] = {
	FIELD(action, SHAPE_TEXT, true,
	      "what was tried: open, connect, query, mount, accept; start, end and dropped of the "
	      "stream"),
	FIELD(allow_with, SHAPE_TEXT, false,
	      "of a refusal: the flag or the YAML that would allow it; empty when nothing would"),
	FIELD(count, SHAPE_NUMBER, false,
	      "this line stands for so many attempts, all alike and in a row"),
	FIELD(cut, SHAPE_NUMBER, false, "bytes of the object that were left out: it is too long"),
	FIELD(denied, SHAPE_NUMBER, false,
	      "in the last line: how many attempts were refused, also those folded or dropped"),
	FIELD(dropped, SHAPE_NUMBER, false,
	      "so many events are missing here (refusals when verdict is deny): the rate or the "
	      "size was above its bound"),
	FIELD(exec, SHAPE_NUMBER, true,
	      "number of the execve that the process came from; 0 before the first"),
	FIELD(exit_code, SHAPE_NUMBER, false, "in the last line: as a shell says it"),
	FIELD(isolation, SHAPE_TEXT, false, "in the first line: the tier"),
	FIELD(kind, SHAPE_KIND, true, "what it is about"),
	FIELD(mono, SHAPE_NUMBER, true,
	      "nanoseconds since the stream began, by a clock that is never set"),
	FIELD(object, SHAPE_TEXT, true,
	      "path, address or name as it was asked for; in the first line the command, quoted as "
	      "for a shell"),
	FIELD(object_base64, SHAPE_TEXT, false,
	      "the exact bytes of the object where it is not UTF-8 or has a NUL"),
	FIELD(parent, SHAPE_NUMBER, true, "number of the execve that this one was started from"),
	FIELD(pid, SHAPE_NUMBER, true,
	      "thread that asked, as the sandbox counts; 0 for the warden itself"),
	FIELD(policy, SHAPE_TEXT, false, "in the first line: digest of the resolved policy"),
	FIELD(prev, SHAPE_TEXT, true,
	      "SHA-256 of the line before without its newline; zeros in the first"),
	FIELD(publish, SHAPE_TEXT, false,
	      "of an accept: the published port that the client, who is the object, came to"),
	FIELD(reason, SHAPE_TEXT, false,
	      "why it was refused, or nobody inside was reached; in the last line: why it ended"),
	FIELD(rule, SHAPE_RULE, true,
	      "the rule that decided: source (file, shipped policy or flag), key, line; or null"),
	FIELD(sandbox, SHAPE_TEXT, true, "id of the sandbox"),
	FIELD(seq, SHAPE_NUMBER, true, "number of the line, from 1"),
	FIELD(time, SHAPE_TEXT, true, "wall clock, RFC 3339, UTC"),
	FIELD(verdict, SHAPE_VERDICT, true, "allow or deny"),
};

ssize_t trace_line_write(const struct trace_line *line, char *text, size_t size)
{
	struct cursor c = { .at = text, .end = text + size };

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		char *before = c.at;

		cursor_bytes(&c, fields[i].key, fields[i].key_len);
		if (!fields[i].put(&c, line))
			c.at = before;
	}
	cursor_bytes(&c, "}\n", 2);
	if (c.is_over)
		return -EMSGSIZE;
	text[0] = '{'; /* in the place of the first comma */
	return c.at - text;
}

void trace_time_second(int64_t second, char text[static TRACE_TIME_SIZE])
{
	time_t t = (time_t)second;
	struct tm tm = { 0 };

	gmtime_r(&t, &tm);
	snprintf(text, TRACE_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u",
		 (unsigned int)(tm.tm_year + 1900) % 10000, (unsigned int)(tm.tm_mon + 1) % 100,
		 (unsigned int)tm.tm_mday % 100, (unsigned int)tm.tm_hour % 100,
		 (unsigned int)tm.tm_min % 100, (unsigned int)tm.tm_sec % 100);
}

static bool is_name_of(const struct node *value, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (value->kind == NODE_STRING && str_equal(value->text, names[i]))
			return true;
	return false;
}

static bool is_rule(const struct node *value)
{
	const struct node *key = node_get(value, "key"), *line = node_get(value, "line");
	const struct node *source = node_get(value, "source");

	return value->kind == NODE_NULL ||
	       (value->kind == NODE_MAP && value->count == 3 && key && key->kind == NODE_STRING &&
		line && line->kind == NODE_INT && source && source->kind == NODE_STRING);
}

static bool fits(enum shape shape, const struct node *value)
{
	switch (shape) {
	case SHAPE_TEXT:
		return value->kind == NODE_STRING;
	case SHAPE_NUMBER:
		return value->kind == NODE_INT && value->number >= 0;
	case SHAPE_KIND:
		return is_name_of(value, trace_kind_names, TRACE_KIND_COUNT);
	case SHAPE_VERDICT:
		return is_name_of(value, verdict_names, ARRAY_SIZE(verdict_names));
	case SHAPE_RULE:
		return is_rule(value);
	}
	return false;
}

/* Both are sorted, so one walk finds what is missing, wrong or too much. */
static int check_fields(const struct node *map, struct err *err)
{
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct node_entry *entry = at < map->count ? &map->entries[at] : NULL;

		if (!entry || !str_equal(entry->key, fields[i].name)) {
			if (fields[i].is_always)
				return err_set(err, -EBADMSG, "\"%s\" is missing", fields[i].name);
			continue;
		}
		if (!fits(fields[i].shape, entry->value))
			return err_set(err, -EBADMSG, "\"%s\" is not what it should be",
				       fields[i].name);
		at++;
	}
	if (at < map->count)
		return err_set(err, -EBADMSG, "there is an unknown \"%s\"", map->entries[at].key);
	return 0;
}

int trace_line_parse(const char *text, size_t len, struct node **ret_node, struct err *err)
{
	_cleanup_(buf_done) struct buf again = BUF(TRACE_LINE_MAX);
	_cleanup_(node_freep) struct node *node = NULL;
	int r;

	if (len == 0 || len >= TRACE_LINE_MAX || text[0] != '{')
		return err_set(err, -EBADMSG, "it is no JSON object of a sane length");
	r = yaml_parse("line", text, len, &node, err);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || node->kind != NODE_MAP)
		return err_set(err, -EBADMSG, "it is no JSON object");
	r = json_write(node, true, &again);
	if (r == -ENOMEM)
		return err_set(err, r, "out of memory");
	if (r < 0 || again.len != len || memcmp(again.data, text, len) != 0)
		return err_set(err, -EBADMSG, "it is not written as brig writes an event");
	r = check_fields(node, err);
	if (r == 0)
		*ret_node = take_ptr(&node);
	return r;
}

const char *trace_text(const struct node *line, const char *name)
{
	const struct node *value = node_get(line, name);

	return value && value->kind == NODE_STRING ? value->text : "";
}

int64_t trace_number(const struct node *line, const char *name)
{
	const struct node *value = node_get(line, name);

	return value && value->kind == NODE_INT ? value->number : 0;
}

bool trace_is(const struct node *line, const char *kind, const char *action)
{
	return str_equal(trace_text(line, "kind"), kind) &&
	       str_equal(trace_text(line, "action"), action);
}

struct node *trace_rule_schema(void)
{
	static const struct schema_part parts[] = { { .name = "source", .type = "string" },
						    { .name = "key", .type = "string" },
						    { .name = "line", .type = "integer" } };

	return schema_or_null(schema_parts(parts, ARRAY_SIZE(parts)));
}

static struct node *schema_shape(enum shape shape)
{
	switch (shape) {
	case SHAPE_TEXT:
		return schema_type("string");
	case SHAPE_NUMBER:
		return schema_type("integer");
	case SHAPE_KIND:
		return schema_enum(trace_kind_names, TRACE_KIND_COUNT);
	case SHAPE_VERDICT:
		return schema_enum(verdict_names, ARRAY_SIZE(verdict_names));
	case SHAPE_RULE:
		return trace_rule_schema();
	}
	return NULL;
}

int trace_schema(struct node **ret_schema)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig event");
	int r = document ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		r = schema_add(document, fields[i].name,
			       schema_described(schema_shape(fields[i].shape), fields[i].summary),
			       fields[i].is_always);
	if (r == 0)
		*ret_schema = take_ptr(&document);
	return r;
}

size_t trace_field_count(void)
{
	return ARRAY_SIZE(fields);
}

void trace_field_describe(size_t index, const char **ret_name, const char **ret_summary,
			  bool *ret_is_always)
{
	*ret_name = fields[index].name;
	*ret_summary = fields[index].summary;
	*ret_is_always = fields[index].is_always;
}
