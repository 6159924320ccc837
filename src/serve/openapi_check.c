/* openapi_check.c - requests against what the table says of them */
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "http/decode.h"
#include "serve/openapi.h"

#define QUERY_VALUE_MAX (16 * KIB)
#define FIELDS_MAX      64 /* of one table */

static const struct doc_field *find_field(const struct doc_field *fields, const char *name)
{
	for (; fields && fields->name; fields++)
		if (str_equal(fields->name, name))
			return fields;
	return NULL;
}

/* A name that the table does not have, with the nearest that it has. */
static int say_unknown(const struct doc_field *fields, const char *what, const char *name,
		       struct err *err)
{
	const char *names[FIELDS_MAX], *near;
	size_t count = 0;

	for (; fields && fields->name && count < FIELDS_MAX; fields++)
		names[count++] = fields->name;
	near = str_nearest(name, names, count);
	return err_set(err, -EINVAL, "there is no %s \"%.100s\" here%s%s%s", what, name,
		       near ? " (is it \"" : "", near ? near : "", near ? "\"?)" : "");
}

static size_t count_characters(const char *text, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

static bool matches(const char *pattern, const char *text)
{
	regex_t regex;
	bool is_match;

	/* A table that has a pattern which is none fails every request: a test sees it. */
	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	is_match = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return is_match;
}

static int check_names(const struct doc_field *field, const char *text, const char *path,
		       struct err *err)
{
	_cleanup_(buf_done) struct buf list = BUF(512);

	for (size_t i = 0; field->names[i]; i++) {
		if (str_equal(field->names[i], text))
			return 0;
		(void)buf_printf(&list, "%s\"%s\"", i ? ", " : "", field->names[i]);
	}
	return err_set(err, -EINVAL, "%s: \"%.100s\" is none of %s", path, text, buf_text(&list));
}

static int check_text(const struct doc_field *field, const char *text, size_t len, const char *path,
		      struct err *err)
{
	size_t count;

	if (strlen(text) != len)
		return err_set(err, -EINVAL, "%s: a text with a NUL in it", path);
	if (field->names)
		return check_names(field, text, path, err);
	count = count_characters(text, len);
	if (field->max > 0 && ((double)count > field->max || (double)count < field->min))
		return err_set(err, -EINVAL, "%s: %zu characters, but %.0f to %.0f are allowed",
			       path, count, field->min, field->max);
	if (field->pattern && !matches(field->pattern, text))
		return err_set(err, -EINVAL, "%s: \"%.100s\" does not match %s", path, text,
			       field->pattern);
	return 0;
}

static int check_range(const struct doc_field *field, double value, const char *path,
		       struct err *err)
{
	if (field->max > 0 && !(value >= field->min && value <= field->max))
		return err_set(err, -EINVAL, "%s: %.15g is not within %.15g and %.15g", path, value,
			       field->min, field->max);
	return 0;
}

static int check_count(const struct doc_field *field, size_t count, const char *path,
		       struct err *err)
{
	if (field->max > 0 && ((double)count > field->max || (double)count < field->min))
		return err_set(err, -EINVAL, "%s: %zu entries, but %.0f to %.0f are allowed", path,
			       count, field->min, field->max);
	return 0;
}

static double value_of(const struct node *node)
{
	return node->kind == NODE_INT ? (double)node->number : node->real;
}

/* From 2^53 on there are no others. */
static bool is_whole(double value)
{
	const double all = 9007199254740992.0;

	return value >= all || value <= -all || (double)(int64_t)value == value;
}

/* As JSON Schema has it: 1.0 is a whole number, too. */
static bool has_kind(const struct node *node, enum doc_kind kind)
{
	switch (kind) {
	case DOC_TEXT:
		return node->kind == NODE_STRING;
	case DOC_WHOLE:
		return node->kind == NODE_INT || (node->kind == NODE_FLOAT && is_whole(node->real));
	case DOC_NUMBER:
		return node->kind == NODE_INT || node->kind == NODE_FLOAT;
	case DOC_BOOL:
		return node->kind == NODE_BOOL;
	case DOC_LIST:
		return node->kind == NODE_LIST;
	case DOC_MAP:
	case DOC_OBJECT:
		return node->kind == NODE_MAP;
	case DOC_NOTHING:
	case DOC_ELSEWHERE:
		break;
	}
	return false;
}

static const char *const kind_names[] = {
	[DOC_TEXT] = "a text",      [DOC_WHOLE] = "a whole number", [DOC_NUMBER] = "a number",
	[DOC_BOOL] = "a boolean",   [DOC_LIST] = "a list",          [DOC_MAP] = "an object",
	[DOC_OBJECT] = "an object", [DOC_ELSEWHERE] = "",
};

static int check_value(const struct doc_field *field, const struct node *node, const char *path,
		       struct err *err);

static int check_object(const struct doc_field *fields, const struct node *node, const char *path,
			struct err *err)
{
	char inner[256];
	int r = 0;

	for (size_t i = 0; i < node->count && r == 0; i++) {
		const char *key = node->entries[i].key;
		const struct doc_field *field = find_field(fields, key);

		snprintf(inner, sizeof(inner), "%s%s%s", path, path[0] ? "." : "", key);
		r = field ? check_value(field, node->entries[i].value, inner, err)
			  : say_unknown(fields, "field", inner, err);
	}
	for (; r == 0 && fields && fields->name; fields++)
		if (fields->is_required && !node_get(node, fields->name))
			return err_set(err, -EINVAL, "%s%s%s: it is missing", path,
				       path[0] ? "." : "", fields->name);
	return r;
}

/* Lists, and maps of any names. */
static int check_entries(const struct doc_field *field, const struct node *node, const char *path,
			 struct err *err)
{
	char inner[256];
	int r = check_count(field, node->count, path, err);

	for (size_t i = 0; i < node->count && r == 0; i++) {
		if (field->keys && !matches(field->keys, node->entries[i].key))
			return err_set(err, -EINVAL, "%s: \"%.100s\" does not match %s", path,
				       node->entries[i].key, field->keys);
		if (node->entries[i].key)
			snprintf(inner, sizeof(inner), "%s.%s", path, node->entries[i].key);
		else
			snprintf(inner, sizeof(inner), "%s[%zu]", path, i);
		r = check_value(field->of, node->entries[i].value, inner, err);
	}
	return r;
}

/* Depth is that of the tables, not of the input. */
static int check_value(const struct doc_field *field, const struct node *node, const char *path,
		       struct err *err)
{
	if (node->kind == NODE_NULL && field->or_null)
		return 0;
	if (!has_kind(node, field->kind))
		return err_set(err, -EINVAL, "%s: %s is wanted here, not %s", path,
			       kind_names[field->kind], node_kind_name(node->kind));
	switch (field->kind) {
	case DOC_TEXT:
		return check_text(field, node->text, node->len, path, err);
	case DOC_WHOLE:
	case DOC_NUMBER:
		return check_range(field, value_of(node), path, err);
	case DOC_LIST:
	case DOC_MAP:
		return check_entries(field, node, path, err);
	case DOC_OBJECT:
		return check_object(field->schema ? field->schema->fields : field->of, node, path,
				    err);
	case DOC_BOOL:
	case DOC_NOTHING:
	case DOC_ELSEWHERE:
		break;
	}
	return 0;
}

int doc_check(const struct doc_field *fields, const struct node *body, struct err *err)
{
	if (!body || body->kind != NODE_MAP)
		return err_set(err, -EINVAL, "the body has to be a JSON object");
	return check_object(fields, body, "", err);
}

/* A number as JSON writes it, and nothing else: no "0x1", " 1", "inf". */
static bool read_number(const char *text, bool must_be_whole, double *ret_value)
{
	const char *digits = text[0] == '-' ? text + 1 : text;
	size_t len = strspn(digits, "0123456789");
	char *end;

	if (len == 0 || (len > 1 && digits[0] == '0') || len > 18)
		return false;
	if (digits[len] == '.' && !must_be_whole) {
		size_t more = strspn(digits + len + 1, "0123456789");

		len = more ? len + 1 + more : 0;
	}
	if (len == 0 || digits[len] != '\0')
		return false;
	*ret_value = strtod(text, &end);
	return *end == '\0';
}

static int check_parameter(const struct doc_field *field, const char *text, struct err *err)
{
	double value;

	if (field->kind == DOC_TEXT)
		return is_utf8(text, strlen(text))
			       ? check_text(field, text, strlen(text), field->name, err)
			       : err_set(err, -EINVAL, "%s: it is no UTF-8", field->name);
	if (field->kind == DOC_BOOL)
		return str_equal(text, "true") || str_equal(text, "false")
			       ? 0
			       : err_set(err, -EINVAL, "%s: \"true\" or \"false\" is wanted",
					 field->name);
	if (!read_number(text, field->kind == DOC_WHOLE, &value))
		return err_set(err, -EINVAL, "%s: %s is wanted here", field->name,
			       kind_names[field->kind]);
	return check_range(field, value, field->name, err);
}

int doc_check_query(const struct doc_field *fields, const struct text *query, struct err *err)
{
	_cleanup_free_ char *value_text = malloc(QUERY_VALUE_MAX);
	struct text rest = *query, name, value;
	bool seen[FIELDS_MAX] = { 0 };
	int r = value_text ? 0 : -ENOMEM;

	while (r == 0 && query_next(&rest, &name, &value)) {
		char text[256];
		const struct doc_field *field;

		if (percent_decode(&name, true, text, sizeof(text)) < 0)
			return err_set(err, -EINVAL, "a parameter of the query has no good name");
		field = find_field(fields, text);
		if (!field)
			return say_unknown(fields, "parameter", text, err);
		if (seen[field - fields])
			return err_set(err, -EINVAL, "%s: it is given twice", text);
		seen[field - fields] = true;
		if (percent_decode(&value, true, value_text, QUERY_VALUE_MAX) < 0)
			return err_set(err, -EINVAL, "%s: what it is set to cannot be read", text);
		r = check_parameter(field, value_text, err);
	}
	for (size_t i = 0; r == 0 && fields && fields[i].name; i++)
		if (fields[i].is_required && !seen[i])
			r = err_set(err, -EINVAL, "%s: this parameter is missing in the query",
				    fields[i].name);
	return r;
}

static int check_header(const struct request *q, const struct doc_field *field, struct err *err)
{
	const struct text *value = head_find(&q->x->head, field->name);
	char text[512];

	if (!value)
		return 0;
	if (value->len >= sizeof(text))
		return err_set(err, -EINVAL, "%s: it is too long", field->name);
	memcpy(text, value->data, value->len);
	text[value->len] = '\0';
	return check_parameter(field, text, err);
}

/* Fields of the head that the row names. */
static int check_headers(const struct request *q, const struct route_doc *doc, struct err *err)
{
	int r = doc->has_key ? check_header(q, &openapi_key_header, err) : 0;

	for (const struct doc_field *f = doc->headers; r == 0 && f && f->name; f++)
		r = check_header(q, f, err);
	return r;
}

static int check_one_of(const char *const *names, const struct node *body, struct err *err)
{
	_cleanup_(buf_done) struct buf list = BUF(256);
	size_t count = 0;

	for (size_t i = 0; names && names[i]; i++) {
		count += node_get(body, names[i]) != NULL;
		(void)buf_printf(&list, "%s\"%s\"", i ? ", " : "", names[i]);
	}
	return !names || count == 1
		       ? 0
		       : err_set(err, -EINVAL, "exactly one of %s is wanted", buf_text(&list));
}

static int check_request(const struct request *q, struct err *err)
{
	const struct route_doc *doc = q->route->doc;
	int r = doc_check_query(doc->query, &q->x->head.query, err);

	r = r < 0 ? r : check_headers(q, doc, err);
	if (r == 0 && doc->body && (q->body || !q->route->body_is_optional))
		r = doc_check(doc->body, q->body, err);
	if (r == 0 && q->body)
		r = check_one_of(doc->one_of, q->body, err);
	return r;
}

void openapi_handle(struct request *q)
{
	const struct route_doc *doc = q->route->doc;
	struct err err = ERR_NONE;

	if (check_request(q, &err) < 0) {
		answer_error(q, 400, "%s", err.code ? err.text : "out of memory");
		return;
	}
	if (doc->is_of_sandbox) {
		q->held = registry_find(q->serve->registry, q->parameter[0], q->tenant_name);
		if (!q->held) {
			answer_error(q, 404, "there is no sandbox \"%.40s\"", q->parameter[0]);
			return;
		}
		snprintf(q->sandbox, sizeof(q->sandbox), "%s", q->held->id);
	}
	doc->handle(q);
}

const char *doc_text(const struct node *body, const char *name, const char *fallback)
{
	const struct node *node = node_get(body, name);

	return node && node->kind == NODE_STRING ? node->text : fallback;
}

double doc_number(const struct node *body, const char *name, double fallback)
{
	const struct node *node = node_get(body, name);

	return node && (node->kind == NODE_INT || node->kind == NODE_FLOAT) ? value_of(node)
									    : fallback;
}

bool doc_bool(const struct node *body, const char *name, bool fallback)
{
	const struct node *node = node_get(body, name);

	return node && node->kind == NODE_BOOL ? node->number != 0 : fallback;
}

const char *doc_query_text(const struct request *q, const char *name, char *text, size_t size)
{
	return query_get(q, name, 0, text, size) < 0 ? NULL : text;
}

double doc_query_number(const struct request *q, const char *name, double fallback)
{
	char text[64];
	double value;

	return doc_query_text(q, name, text, sizeof(text)) && read_number(text, false, &value)
		       ? value
		       : fallback;
}
