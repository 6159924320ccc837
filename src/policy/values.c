/* values.c - keys with a single value: names out of a list, text, switches, numbers with units */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "data/schema.h"
#include "policy/types.h"

const char *const isolation_names[ISOLATION_COUNT] = {
	[ISOLATION_UNSET] = "unset",
	[ISOLATION_PROCESS] = "process",
	[ISOLATION_SCRIPT] = "script",
	[ISOLATION_WASM] = "wasm",
	[ISOLATION_CONTAINER] = "container",
	[ISOLATION_GVISOR] = "gvisor",
	[ISOLATION_VM] = "vm",
	[ISOLATION_AUTO] = "auto",
};

const char *const access_names[ACCESS_COUNT] = {
	[ACCESS_NONE] = "none",
	[ACCESS_READ] = "read",
	[ACCESS_OVERLAY] = "overlay",
	[ACCESS_WRITE] = "write",
};

static const char *const on_deny_names[] = { "unset", "fail", "ask", "record" };
static const char *const record_names[] = { "unset", "off", "denied", "writes", "all" };
static const char *const system_names[] = { "unset", "sealed", "own" };

int place_error(const struct place *place, const struct node *node, struct err *err,
		const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (place->is_flag)
		return err_set(err, -EINVAL, "%s: %s", place->key, text);
	return err_set(err, -EINVAL, "%s:%u:%u: %s: %s", place->source, node->line, node->column,
		       place->key, text);
}

int origin_make(const struct place *place, const struct node *node, struct origin *ret_origin)
{
	char *source = strdup(place->is_flag ? place->key : place->source);

	if (!source)
		return -ENOMEM;
	*ret_origin = (struct origin){
		.source = source,
		.line = place->is_flag ? 0 : node->line,
		.is_shipped = place->is_shipped,
		.is_flag = place->is_flag,
	};
	return 0;
}

int origin_copy(const struct origin *from, struct origin *ret_origin)
{
	char *source = strdup(from->source);

	if (!source)
		return -ENOMEM;
	*ret_origin = *from;
	ret_origin->source = source;
	return 0;
}

const char *scalar_text(const struct node *node)
{
	switch (node->kind) {
	case NODE_STRING:
	case NODE_INT:
	case NODE_FLOAT:
		return node->text;
	default:
		return NULL;
	}
}

/* Enumerations: index 0 is "unset". */

static int parse_name(const struct place *place, const struct node *node, const char *const *names,
		      size_t count, int *field, struct err *err)
{
	_cleanup_(buf_done) struct buf all = BUF(256);
	const char *nearest;

	if (node->kind != NODE_STRING)
		return place_error(place, node, err, "expected a name, found %s",
				   node_kind_name(node->kind));
	for (size_t i = 1; i < count; i++)
		if (str_equal(node->text, names[i])) {
			*field = (int)i;
			return 0;
		}
	nearest = str_nearest(node->text, names + 1, count - 1);
	if (nearest)
		return place_error(place, node, err, "\"%s\" is not known, did you mean \"%s\"?",
				   node->text, nearest);
	for (size_t i = 1; i < count; i++)
		buf_printf(&all, "%s%s", i > 1 ? ", " : "", names[i]);
	return place_error(place, node, err, "\"%s\" is not known, use one of %s", node->text,
			   buf_text(&all));
}

/* Without the first, which is "unset". */
static int schema_choice(struct node *schema, const char *const *names, size_t count)
{
	return schema_names(schema, "enum", names + 1, count - 1);
}

static int merge_int(void *field, const void *later)
{
	if (*(const int *)later > 0)
		*(int *)field = *(const int *)later;
	return 0;
}

static void init_int(void *field)
{
	*(int *)field = 0;
}

static bool is_set_int(const void *field)
{
	return *(const int *)field > 0;
}

static void done_nothing(void *field)
{
	(void)field;
}

static int parse_isolation(const struct place *place, const struct node *node, void *field,
			   struct err *err)
{
	return parse_name(place, node, isolation_names, ISOLATION_COUNT, field, err);
}

/* Two floors: the higher one. "auto" as a floor is no floor, and as a wish it gives way to any
 * other. */
static int narrow_isolation(void *field, const void *by)
{
	int a = *(int *)field, b = *(const int *)by;

	if (a == ISOLATION_AUTO)
		a = ISOLATION_UNSET;
	if (b == ISOLATION_AUTO)
		b = ISOLATION_UNSET;
	if (MAX(a, b) > 0)
		*(int *)field = MAX(a, b);
	return 0;
}

static int isolation_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_string(isolation_names[*(const int *)field]);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_isolation(struct node *schema)
{
	return schema_choice(schema, isolation_names, ISOLATION_COUNT);
}

const struct type_ops isolation_ops = { parse_isolation,   merge_int,        narrow_isolation,
					isolation_to_node, schema_isolation, is_set_int,
					init_int,          done_nothing };

static int parse_on_deny(const struct place *place, const struct node *node, void *field,
			 struct err *err)
{
	return parse_name(place, node, on_deny_names, ARRAY_SIZE(on_deny_names), field, err);
}

/* fail is the strictest, then ask, then record: the order of the enumeration. Unset means fail. */
static int narrow_on_deny(void *field, const void *by)
{
	int a = *(int *)field, b = *(const int *)by;

	if (a == ON_DENY_UNSET || b == ON_DENY_UNSET)
		*(int *)field = a == b ? ON_DENY_UNSET : ON_DENY_FAIL;
	else
		*(int *)field = MIN(a, b);
	return 0;
}

static int on_deny_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_string(on_deny_names[*(const int *)field]);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_on_deny(struct node *schema)
{
	return schema_choice(schema, on_deny_names, ARRAY_SIZE(on_deny_names));
}

const struct type_ops on_deny_ops = { parse_on_deny,  merge_int,  narrow_on_deny, on_deny_to_node,
				      schema_on_deny, is_set_int, init_int,       done_nothing };

static int parse_record(const struct place *place, const struct node *node, void *field,
			struct err *err)
{
	return parse_name(place, node, record_names, ARRAY_SIZE(record_names), field, err);
}

/* More record is the stricter side; unset is the default, all. */
static int narrow_record(void *field, const void *by)
{
	int a = *(int *)field, b = *(const int *)by;

	*(int *)field = a == RECORD_UNSET || b == RECORD_UNSET ? RECORD_UNSET : MAX(a, b);
	return 0;
}

static int record_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_string(record_names[*(const int *)field]);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_record(struct node *schema)
{
	return schema_choice(schema, record_names, ARRAY_SIZE(record_names));
}

const struct type_ops record_ops = { parse_record,  merge_int,  narrow_record, record_to_node,
				     schema_record, is_set_int, init_int,      done_nothing };

static int parse_system(const struct place *place, const struct node *node, void *field,
			struct err *err)
{
	return parse_name(place, node, system_names, ARRAY_SIZE(system_names), field, err);
}

/* Only where both say so it is the sandbox's own. Unset means sealed. */
static int narrow_system(void *field, const void *by)
{
	int a = *(int *)field, b = *(const int *)by;

	if (a != SYSTEM_OWN || b != SYSTEM_OWN)
		*(int *)field = a == SYSTEM_UNSET ? SYSTEM_UNSET : SYSTEM_SEALED;
	return 0;
}

static int system_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_string(system_names[*(const int *)field]);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_system(struct node *schema)
{
	return schema_choice(schema, system_names, ARRAY_SIZE(system_names));
}

const struct type_ops system_ops = { parse_system,  merge_int,  narrow_system, system_to_node,
				     schema_system, is_set_int, init_int,      done_nothing };

/* Text. */

static int parse_text(const struct place *place, const struct node *node, void *field,
		      struct err *err)
{
	char *text;

	if (node->kind != NODE_STRING)
		return place_error(place, node, err, "expected text, found %s",
				   node_kind_name(node->kind));
	if (node->len == 0)
		return place_error(place, node, err, "must not be empty");
	text = strdup(node->text);
	if (!text)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = text;
	return 0;
}

static int merge_text(void *field, const void *later)
{
	const char *text = *(char *const *)later;
	char *copy;

	if (!text)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

static int narrow_text(void *field, const void *by)
{
	/* Only the image: the other side's choice counts where it has one. */
	return merge_text(field, by);
}

static int text_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_string(*(char *const *)field);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_text(struct node *schema)
{
	int r = node_set(schema, "type", node_string("string"));

	return r < 0 ? r : node_set(schema, "minLength", node_int(1));
}

static bool is_set_text(const void *field)
{
	return *(char *const *)field;
}

static void init_text(void *field)
{
	*(char **)field = NULL;
}

static void done_text(void *field)
{
	free(*(char **)field);
	*(char **)field = NULL;
}

const struct type_ops text_ops = { parse_text,  merge_text,  narrow_text, text_to_node,
				   schema_text, is_set_text, init_text,   done_text };

/* Switches: -1 unset, 0, 1. */

static int parse_bool(const struct place *place, const struct node *node, void *field,
		      struct err *err)
{
	if (node->kind != NODE_BOOL)
		return place_error(place, node, err, "expected true or false, found %s",
				   node_kind_name(node->kind));
	*(int *)field = (int)node->number;
	return 0;
}

static int merge_bool(void *field, const void *later)
{
	if (*(const int *)later >= 0)
		*(int *)field = *(const int *)later;
	return 0;
}

/* Only net.inspect: looking closer is the narrower side. */
static int narrow_bool(void *field, const void *by)
{
	*(int *)field = MAX(*(int *)field, *(const int *)by);
	return 0;
}

static int bool_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_bool(*(const int *)field);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_bool(struct node *schema)
{
	return node_set(schema, "type", node_string("boolean"));
}

static bool is_set_bool(const void *field)
{
	return *(const int *)field >= 0;
}

static void init_bool(void *field)
{
	*(int *)field = -1;
}

const struct type_ops bool_ops = { parse_bool,  merge_bool,  narrow_bool, bool_to_node,
				   schema_bool, is_set_bool, init_bool,   done_nothing };

/* Numbers with units: a limit of 0 would let nothing start and is refused. */

typedef int (*number_parser)(const char *text, uint64_t *ret, struct err *err);

static int parse_number(const struct place *place, const struct node *node, void *field,
			number_parser parser, struct err *err)
{
	const char *text = scalar_text(node);
	struct err inner = ERR_NONE;
	uint64_t value;

	if (!text)
		return place_error(place, node, err, "expected a number, found %s",
				   node_kind_name(node->kind));
	if (parser(text, &value, &inner) < 0)
		return place_error(place, node, err, "%s", inner.text);
	if (value == 0)
		return place_error(place, node, err,
				   "must be more than 0; leave the key out for no limit");
	*(uint64_t *)field = value;
	return 0;
}

static int merge_number(void *field, const void *later)
{
	if (*(const uint64_t *)later != LIMIT_UNSET)
		*(uint64_t *)field = *(const uint64_t *)later;
	return 0;
}

static int narrow_number(void *field, const void *by)
{
	*(uint64_t *)field = MIN(*(uint64_t *)field, *(const uint64_t *)by);
	return 0;
}

static bool is_set_number(const void *field)
{
	return *(const uint64_t *)field != LIMIT_UNSET;
}

static void init_number(void *field)
{
	*(uint64_t *)field = LIMIT_UNSET;
}

static int schema_number(struct node *schema, const char *pattern)
{
	_cleanup_(node_freep) struct node *types = node_list();
	int r = types ? node_add(types, node_string("string")) : -ENOMEM;

	r = r < 0 ? r : node_add(types, node_string("number"));
	r = r < 0 ? r : node_set(schema, "type", take_ptr(&types));
	r = r < 0 ? r : node_set(schema, "pattern", node_string(pattern));
	return r < 0 ? r : node_set(schema, "exclusiveMinimum", node_int(0));
}

static int number_to_node(const void *field, void (*format)(uint64_t, char *, size_t),
			  struct node **ret_node)
{
	char text[32];

	format(*(const uint64_t *)field, text, sizeof(text));
	*ret_node = node_string(text);
	return *ret_node ? 0 : -ENOMEM;
}

static int parse_key_size(const struct place *place, const struct node *node, void *field,
			  struct err *err)
{
	return parse_number(place, node, field, parse_size, err);
}

static int size_to_node(const void *field, struct node **ret_node)
{
	return number_to_node(field, format_size, ret_node);
}

static int schema_size(struct node *schema)
{
	return schema_number(schema, "^[0-9]+(\\.[0-9]+)?([KMGT](i?B)?|B)?$");
}

const struct type_ops size_ops = { parse_key_size, merge_number,  narrow_number, size_to_node,
				   schema_size,    is_set_number, init_number,   done_nothing };

static int parse_key_duration(const struct place *place, const struct node *node, void *field,
			      struct err *err)
{
	return parse_number(place, node, field, parse_duration, err);
}

static int duration_to_node(const void *field, struct node **ret_node)
{
	return number_to_node(field, format_duration, ret_node);
}

static int schema_duration(struct node *schema)
{
	int r = node_set(schema, "type", node_string("string"));

	return r < 0 ? r
		     : node_set(schema, "pattern", node_string("^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)$"));
}

const struct type_ops duration_ops = { parse_key_duration, merge_number,    narrow_number,
				       duration_to_node,   schema_duration, is_set_number,
				       init_number,        done_nothing };

static int parse_key_cpus(const struct place *place, const struct node *node, void *field,
			  struct err *err)
{
	return parse_number(place, node, field, parse_cpus, err);
}

static int cpus_to_node(const void *field, struct node **ret_node)
{
	return number_to_node(field, format_cpus, ret_node);
}

static int schema_cpus(struct node *schema)
{
	return schema_number(schema, "^[0-9]+(\\.[0-9]{1,3})?$");
}

const struct type_ops cpus_ops = { parse_key_cpus, merge_number,  narrow_number, cpus_to_node,
				   schema_cpus,    is_set_number, init_number,   done_nothing };

static int parse_key_count(const struct place *place, const struct node *node, void *field,
			   struct err *err)
{
	return parse_number(place, node, field, parse_count, err);
}

static int count_to_node(const void *field, struct node **ret_node)
{
	*ret_node = node_int((int64_t) * (const uint64_t *)field);
	return *ret_node ? 0 : -ENOMEM;
}

static int schema_count(struct node *schema)
{
	return schema_number(schema, "^[0-9]+$");
}

const struct type_ops count_ops = { parse_key_count, merge_number,  narrow_number, count_to_node,
				    schema_count,    is_set_number, init_number,   done_nothing };
