#include "serve/v1_show.h"

#include <errno.h>

#include "serve/v1.h"

static const char *const state_names[HELD_COUNT + 1] = {
	[HELD_RUNNING] = "running", [HELD_PAUSED] = "paused"
};
static const char *const end_names[] = { "kill", "pause", NULL };
static const struct doc_field any_text = { .name = "value", .kind = DOC_TEXT };

static const struct doc_field usage_fields[] = {
	{ "cpu_ms", DOC_WHOLE, .is_required = true, .or_null = true, .summary = "CPU time so far" },
	{ "memory", DOC_WHOLE, .is_required = true, .or_null = true, .summary = "bytes, now" },
	{ "memory_peak", DOC_WHOLE, .is_required = true, .or_null = true,
	  .summary = "most bytes so far; null: nobody counts them on this host" },
	{ "memory_limit", DOC_WHOLE, .is_required = true, .or_null = true,
	  .summary = "bytes; null: none" },
	{ "processes", DOC_WHOLE, .is_required = true, .or_null = true, .summary = "that run" },
	DOC_END,
};
static const struct doc_schema usage_schema = { .name = "Usage", .fields = usage_fields };

static const struct doc_field size_fields[] = {
	{ "cpu", DOC_NUMBER, .is_required = true, .or_null = true,
	  .summary = "CPUs; null: without a limit" },
	{ "memory", DOC_WHOLE, .is_required = true, .or_null = true, .summary = "bytes" },
	{ "disk", DOC_WHOLE, .is_required = true, .or_null = true, .summary = "bytes" },
	DOC_END,
};

static const struct doc_field sandbox_fields[] = {
	{ "id", DOC_TEXT, .is_required = true, .summary = "letters and digits" },
	{ "state", DOC_TEXT, .is_required = true, .names = state_names, .summary = "what it does" },
	{ "template", DOC_TEXT, .is_required = true, .summary = "that it was made from" },
	{ "tenant", DOC_TEXT, .is_required = true, .summary = "whose it is" },
	{ "metadata", DOC_MAP, .is_required = true, .of = &any_text,
	  .summary = "as its client gave it" },
	{ "started", DOC_TEXT, .is_required = true, .or_null = true, .summary = "when" },
	{ "ends", DOC_TEXT, .is_required = true, .or_null = true,
	  .summary = "when its time is over; null: never" },
	{ "on_timeout", DOC_TEXT, .is_required = true, .names = end_names,
	  .summary = "what happens then" },
	{ "limits", DOC_OBJECT, .is_required = true, .of = size_fields, .summary = "that it has" },
	{ "usage", DOC_OBJECT, .is_required = true, .or_null = true, .schema = &usage_schema,
	  .summary = "what it uses; null where it was not asked for, or did not answer" },
	DOC_END,
};
const struct doc_schema show_sandbox_schema = { .name = "Sandbox", .fields = sandbox_fields };

static struct node *limits_node(const struct held *held)
{
	struct node *map = node_map();
	int r = node_set(map, "cpu", held->cpu > 0 ? node_float(held->cpu) : node_null());

	r = r < 0 ? r
		  : node_set(map, "memory",
			     held->memory ? node_int((int64_t)held->memory) : node_null());
	r = r < 0 ? r
		  : node_set(map, "disk", held->disk ? node_int((int64_t)held->disk) : node_null());
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

struct node *show_sandbox(const struct held *held, struct node *usage)
{
	_cleanup_(node_freep) struct node *map = node_map();
	struct node *const values[] = {
		node_string(held->id),
		node_string(state_names[held->state]),
		node_string(held->alias[0] ? held->alias : held->template_id),
		node_string(held->tenant),
		v1_json(held->metadata),
		v1_time(held->started),
		v1_time(held->ends),
		node_string(end_names[held->pauses]),
		limits_node(held),
		usage ? usage : node_null(),
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		int failed = node_set(map, sandbox_fields[i].name, values[i]);

		r = r < 0 ? r : failed;
	}
	return r < 0 ? NULL : take_ptr(&map);
}

struct node *show_usage(const struct message *status)
{
	static const struct {
		enum field field;
		uint64_t divisor;
	} rows[] = {
		{ FIELD_CPU, 1000 }, { FIELD_MEMORY, 1 },   { FIELD_PEAK, 1 },
		{ FIELD_LIMIT, 1 },  { FIELD_COUNT_OF, 1 },
	};
	struct node *map = node_map();
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++) {
		uint64_t value =
			message_number(status, rows[i].field, UINT64_MAX) / rows[i].divisor;
		bool is_known = message_has(status, rows[i].field) && value <= INT64_MAX;

		r = node_set(map, usage_fields[i].name,
			     is_known ? node_int((int64_t)value) : node_null());
	}
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}
