/* openapi.c - the document (OpenAPI 3.1) that the table of routes comes to */
#include "serve/openapi.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "config.h"
#include "data/schema.h"
#include "data/yaml.h"

#define SCHEMAS_MAX 64

/* What is written, and which schemas by name it needs. The first failure sticks. */
struct draft_document {
	const struct route *routes;
	const struct doc_schema *schemas[SCHEMAS_MAX];
	size_t schema_count;
	int failure;
};

static void put(struct draft_document *d, struct node *map, const char *key, struct node *value)
{
	int r = node_set(map, key, value);

	d->failure = d->failure < 0 ? d->failure : r;
}

static void append(struct draft_document *d, struct node *list, struct node *value)
{
	int r = node_add(list, value);

	d->failure = d->failure < 0 ? d->failure : r;
}

static void put_text(struct draft_document *d, struct node *map, const char *key, const char *text)
{
	if (text)
		put(d, map, key, node_string(text));
}

/* Whole values without a point. */
static struct node *number_node(double value)
{
	return value == (double)(int64_t)value ? node_int((int64_t)value) : node_float(value);
}

static struct node *schema_of(struct draft_document *d, const struct doc_field *field);

static struct node *reference_to(struct draft_document *d, const struct doc_schema *schema)
{
	char path[128];
	struct node *node = node_map();
	size_t i = 0;

	while (i < d->schema_count && d->schemas[i] != schema)
		i++;
	if (i == d->schema_count && i < SCHEMAS_MAX)
		d->schemas[d->schema_count++] = schema;
	else if (i == d->schema_count)
		d->failure = -ENOSPC;
	snprintf(path, sizeof(path), "#/components/schemas/%s", schema->name);
	put(d, node, "$ref", node_string(path));
	return node;
}

static struct node *object_of(struct draft_document *d, const struct doc_field *fields)
{
	struct node *object = schema_object();

	for (; fields && fields->name; fields++) {
		int r = schema_add(object, fields->name, schema_of(d, fields), fields->is_required);

		d->failure = d->failure < 0 ? d->failure : r;
	}
	return object;
}

static const char *const type_names[] = {
	[DOC_TEXT] = "string",  [DOC_WHOLE] = "integer", [DOC_NUMBER] = "number",
	[DOC_BOOL] = "boolean", [DOC_LIST] = "array",    [DOC_MAP] = "object",
};

static void put_bounds(struct draft_document *d, struct node *schema, const struct doc_field *field)
{
	static const struct {
		const char *min, *max;
	} words[] = {
		[DOC_TEXT] = { "minLength", "maxLength" },
		[DOC_WHOLE] = { "minimum", "maximum" },
		[DOC_NUMBER] = { "minimum", "maximum" },
		[DOC_LIST] = { "minItems", "maxItems" },
		[DOC_MAP] = { "minProperties", "maxProperties" },
	};

	if (field->max <= 0 || field->kind == DOC_BOOL || field->names)
		return;
	put(d, schema, words[field->kind].min, number_node(field->min));
	put(d, schema, words[field->kind].max, number_node(field->max));
}

static struct node *simple_of(struct draft_document *d, const struct doc_field *field)
{
	struct node *schema = schema_type(type_names[field->kind]);
	size_t count = 0;

	while (field->names && field->names[count])
		count++;
	if (count && d->failure == 0)
		d->failure = schema_names(schema, "enum", field->names, count);
	put_text(d, schema, "pattern", field->pattern);
	put_bounds(d, schema, field);
	if (field->kind == DOC_LIST)
		put(d, schema, "items", schema_of(d, field->of));
	if (field->kind == DOC_MAP)
		put(d, schema, "additionalProperties", schema_of(d, field->of));
	if (field->keys) {
		struct node *names = node_map();

		put_text(d, names, "pattern", field->keys);
		put(d, schema, "propertyNames", names);
	}
	return schema;
}

static struct node *bare_schema_of(struct draft_document *d, const struct doc_field *field)
{
	switch (field->kind) {
	case DOC_OBJECT:
	case DOC_ELSEWHERE:
		return field->schema ? reference_to(d, field->schema) : object_of(d, field->of);
	case DOC_NOTHING:
		return schema_type("null");
	default:
		return simple_of(d, field);
	}
}

static struct node *schema_of(struct draft_document *d, const struct doc_field *field)
{
	struct node *schema = bare_schema_of(d, field), *fallback = NULL;
	struct err err = ERR_NONE;

	if (field->or_null)
		schema = schema_or_null(schema);
	put_text(d, schema, "description", field->summary);
	if (field->fallback) {
		int r = yaml_parse("default", field->fallback, strlen(field->fallback), &fallback,
				   &err);

		d->failure = d->failure < 0 ? d->failure : r;
		if (r == 0)
			put(d, schema, "default", fallback);
	}
	return schema;
}

static const struct {
	const char *name;
	struct doc_field field;
} path_parameters[] = {
	{ "id",
	  { .kind = DOC_TEXT,
	    .min = 1,
	    .max = 40,
	    .pattern = "^[a-z0-9]+$",
	    .summary = "of the sandbox" } },
	{ "name",
	  { .kind = DOC_TEXT,
	    .min = 1,
	    .max = 64,
	    .pattern = "^[a-z][a-z0-9-]*$",
	    .summary = "of a policy" } },
	{ "number",
	  { .kind = DOC_TEXT,
	    .min = 1,
	    .max = 18,
	    .pattern = "^[0-9]+$",
	    .summary = "of the process" } },
	{ "key",
	  { .kind = DOC_TEXT,
	    .min = 12,
	    .max = 12,
	    .pattern = "^[a-z0-9]+$",
	    .summary = "the id of a key" } },
};

static void add_parameter(struct draft_document *d, struct node *list, const char *place,
			  const char *name, const struct doc_field *field)
{
	struct node *parameter = node_map();
	struct doc_field bare = *field;
	bool is_path = str_equal(place, "path");

	put_text(d, parameter, "name", name);
	put_text(d, parameter, "in", place);
	put(d, parameter, "required", node_bool(is_path || field->is_required));
	put_text(d, parameter, "description", field->summary);
	bare.summary = NULL; /* it is said already */
	put(d, parameter, "schema", schema_of(d, &bare));
	append(d, list, parameter);
}

static void add_path_parameters(struct draft_document *d, struct node *list, const char *path)
{
	while ((path = strchr(path, '{'))) {
		size_t len = strcspn(++path, "}"), i = 0;

		while (i < ARRAY_SIZE(path_parameters) &&
		       (strlen(path_parameters[i].name) != len ||
			strncmp(path_parameters[i].name, path, len) != 0))
			i++;
		if (i < ARRAY_SIZE(path_parameters))
			add_parameter(d, list, "path", path_parameters[i].name,
				      &path_parameters[i].field);
		else
			d->failure = -EINVAL;
	}
}

const struct doc_field openapi_key_header = {
	.name = "Idempotency-Key",
	.kind = DOC_TEXT,
	.min = 1,
	.max = 255,
	.pattern = "^[A-Za-z0-9_-]+$",
	.summary = "the same answer again to the same request with the same key, for 24 hours",
};

static struct node *parameters_of(struct draft_document *d, const struct route *route)
{
	const struct route_doc *doc = route->doc;
	struct node *list = node_list();

	add_path_parameters(d, list, route->path);
	for (const struct doc_field *f = doc->query; f && f->name; f++)
		add_parameter(d, list, "query", f->name, f);
	for (const struct doc_field *f = doc->headers; f && f->name; f++)
		add_parameter(d, list, "header", f->name, f);
	if (doc->has_key)
		add_parameter(d, list, "header", openapi_key_header.name, &openapi_key_header);
	return list;
}

static struct node *content_of(struct draft_document *d, const char *type, struct node *schema)
{
	struct node *content = node_map(), *form = node_map();

	put(d, form, "schema", schema);
	put(d, content, type, form);
	return content;
}

/* "oneOf", each of which wants another field. */
static struct node *one_of(struct draft_document *d, const char *const *names)
{
	struct node *forms = node_list();

	for (; *names; names++) {
		struct node *form = node_map(), *required = node_list();

		append(d, required, node_string(*names));
		put(d, form, "required", required);
		append(d, forms, form);
	}
	return forms;
}

static struct node *json_body_of(struct draft_document *d, const struct route_doc *doc)
{
	struct node *schema = object_of(d, doc->body);

	if (doc->one_of)
		put(d, schema, "oneOf", one_of(d, doc->one_of));
	return content_of(d, "application/json", schema);
}

static struct node *body_of(struct draft_document *d, const struct route *route)
{
	const struct route_doc *doc = route->doc;
	struct node *body = node_map();

	put(d, body, "required", node_bool(doc->body && !route->body_is_optional));
	if (doc->body_type)
		put(d, body, "content", content_of(d, doc->body_type, node_map()));
	else
		put(d, body, "content", json_body_of(d, doc));
	return body;
}

static const struct doc_field error_fields[] = {
	{ "code", DOC_WHOLE, .is_required = true, .summary = "the status again" },
	{ "message", DOC_TEXT, .is_required = true,
	  .summary = "what is wrong, and what would help" },
	DOC_END,
};
static const struct doc_schema error_schema = { .name = "Error", .fields = error_fields };

/* Which refusals a route has by itself: by its row, or because its doc says so. */
static bool has_body(const struct route *route)
{
	return route->doc->body || route->doc->body_type;
}

static bool has_key(const struct route *route)
{
	return route->need != NEED_NOTHING;
}

static bool is_limited(const struct route *route)
{
	return route->need == NEED_ADMIN || route->need == NEED_REVIEWER;
}

static bool has_parameter(const struct route *route)
{
	return strchr(route->path, '{') != NULL;
}

static bool is_any(const struct route *route)
{
	(void)route;
	return true;
}

static const struct {
	unsigned int status;
	unsigned int error; /* enum doc_error */
	bool (*is)(const struct route *route);
	const char *summary;
} refusals[] = {
	{ 400, 0, is_any, "the request is not what this document says" },
	{ 401, 0, has_key, "no key, or one that is not good" },
	{ 403, DOC_403, is_limited, "the key does not allow it" },
	{ 404, DOC_404, has_parameter, "there is nothing of this name, or it is somebody else's" },
	{ 406, DOC_406, NULL, "it cannot be had in the form that is asked for" },
	{ 409, DOC_409, NULL, "its state does not allow it" },
	{ 413, 0, has_body, "the body is too long" },
	{ 414, 0, is_any, "the address is too long" },
	{ 415, DOC_415, NULL, "the body is packed in a way that is not known here" },
	{ 416, DOC_416, NULL, "there is no such part of it" },
	{ 422, DOC_422, NULL,
	  "the request is well-formed, but cannot be done: the message says why" },
	{ 426, DOC_426, NULL, "another version of WebSocket" },
	{ 429, DOC_429, NULL, "more than the tenant's quota; Retry-After says when to ask again" },
	{ 431, 0, is_any, "the head is too long" },
	{ 502, DOC_502, NULL, "the sandbox ended meanwhile" },
	{ 503, DOC_503, NULL, "not now: starting, stopping, or too much at once" },
	{ 504, DOC_504, NULL, "the sandbox did not answer in time" },
	{ 507, DOC_507, NULL, "no room left" },
};

static void refusal_name(unsigned int status, char text[static 24])
{
	snprintf(text, 24, "Refused%u", status);
}

/* All of them, by name. */
static struct node *refusals_of(struct draft_document *d)
{
	struct node *responses = node_map();

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct node *response = node_map();
		char name[24];

		put_text(d, response, "description", refusals[i].summary);
		put(d, response, "content",
		    content_of(d, "application/json", reference_to(d, &error_schema)));
		refusal_name(refusals[i].status, name);
		put(d, responses, name, response);
	}
	return responses;
}

static void add_refusals(struct draft_document *d, struct node *responses,
			 const struct route *route)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct node *response;
		char status[16], name[24], path[64];

		if (!(route->doc->errors & refusals[i].error) &&
		    !(refusals[i].is && refusals[i].is(route)))
			continue;
		response = node_map();
		refusal_name(refusals[i].status, name);
		snprintf(path, sizeof(path), "#/components/responses/%s", name);
		put_text(d, response, "$ref", path);
		snprintf(status, sizeof(status), "%u", refusals[i].status);
		put(d, responses, status, response);
	}
}

/* From what made a sandbox to what can be done with it. */
static struct node *links_of(struct draft_document *d)
{
	struct node *links = node_map();

	for (const struct route *route = d->routes; route->handle; route++) {
		struct node *link, *parameters;

		if (!route->doc->is_of_sandbox)
			continue;
		link = node_map();
		parameters = node_map();
		put_text(d, link, "operationId", route->doc->name);
		put_text(d, parameters, "id", "$response.body#/id");
		put(d, link, "parameters", parameters);
		put(d, links, route->doc->name, link);
	}
	return links;
}

/* Several answers of one status are forms of the same one: by what the client accepts, or by what is there. */
static void add_answer(struct draft_document *d, struct node *responses,
		       const struct doc_answer *answer, bool makes_sandbox)
{
	const struct node *found;
	struct node *response, *content, *schema;
	char status[16];

	snprintf(status, sizeof(status), "%u", answer->status);
	found = node_get(responses, status);
	response = found ? node_copy(found) : node_map();
	put_text(d, response, "description", answer->summary);
	if (answer->type) {
		found = node_get(response, "content");
		content = found ? node_copy(found) : node_map();
		schema = answer->schema ? reference_to(d, answer->schema) : NULL;
		if (schema) {
			struct node *form = node_map();

			put(d, form, "schema", schema);
			put(d, content, answer->type, form);
		} else {
			put(d, content, answer->type, node_map());
		}
		put(d, response, "content", content);
	}
	if (makes_sandbox)
		put(d, response, "links", links_of(d));
	put(d, responses, status, response);
}

static struct node *operation_of(struct draft_document *d, const struct route *route)
{
	const struct route_doc *doc = route->doc;
	struct node *operation = node_map(), *tags = node_list(), *responses = node_map();

	put_text(d, operation, "operationId", doc->name);
	append(d, tags, node_string(doc->tag));
	put(d, operation, "tags", tags);
	put_text(d, operation, "summary", doc->summary);
	put_text(d, operation, "description", doc->text);
	if (route->need == NEED_NOTHING)
		put(d, operation, "security", node_list());
	put(d, operation, "parameters", parameters_of(d, route));
	if (has_body(route))
		put(d, operation, "requestBody", body_of(d, route));
	for (size_t i = 0; i < ARRAY_SIZE(doc->answers) && doc->answers[i].status; i++)
		add_answer(d, responses, &doc->answers[i], doc->makes_sandbox);
	add_refusals(d, responses, route);
	put(d, operation, "responses", responses);
	return operation;
}

static void add_route(struct draft_document *d, struct node *paths, const struct route *route)
{
	const struct node *found = node_get(paths, route->path);
	struct node *item = found ? node_copy(found) : node_map();
	char method[16];
	size_t i = 0;

	for (const char *p = method_names[route->method]; *p && i < sizeof(method) - 1; p++)
		method[i++] = (char)tolower((unsigned char)*p);
	method[i] = '\0';
	put(d, item, method, operation_of(d, route));
	put(d, paths, route->path, item);
}

/* Schemas may need others, which are appended meanwhile. */
static struct node *schemas_of(struct draft_document *d)
{
	struct node *schemas = node_map();

	for (size_t i = 0; i < d->schema_count && d->failure == 0; i++) {
		const struct doc_schema *schema = d->schemas[i];
		struct node *node = NULL;

		if (schema->make)
			d->failure = schema->make(&node);
		else if (schema->item)
			node = schema_list(schema_of(d, schema->item));
		else
			node = object_of(d, schema->fields);
		if (d->failure == 0)
			put(d, schemas, schema->name, node);
		else
			node_free(node);
	}
	return schemas;
}

static struct node *security_scheme(struct draft_document *d, const char *const words[])
{
	struct node *scheme = node_map();

	for (size_t i = 0; words[i]; i += 2)
		put_text(d, scheme, words[i], words[i + 1]);
	return scheme;
}

static void put_security(struct draft_document *d, struct node *document, struct node *components)
{
	static const char *const key[] = { "type", "apiKey",    "in", "header",
					   "name", "X-API-Key", NULL };
	static const char *const bearer[] = { "type", "http", "scheme", "bearer", NULL };
	struct node *schemes = node_map(), *security = node_list(), *by_key = node_map(),
		    *by_bearer = node_map();

	put(d, schemes, "key", security_scheme(d, key));
	put(d, schemes, "bearer", security_scheme(d, bearer));
	put(d, components, "securitySchemes", schemes);
	put(d, by_key, "key", node_list());
	put(d, by_bearer, "bearer", node_list());
	append(d, security, by_key);
	append(d, security, by_bearer);
	put(d, document, "security", security);
}

static struct node *info_of(struct draft_document *d)
{
	struct node *info = node_map(), *license = node_map();

	put_text(d, info, "title", "brig");
	put_text(d, info, "version", BRIG_VERSION);
	put_text(d, info, "summary", "sandboxes for what AI agents write");
	put_text(
		d, info, "description",
		"brig's own API. A key goes into X-API-Key, or Authorization: Bearer. Bodies are "
		"JSON objects "
		"whatever Content-Type says; unknown fields, wrong types and values out of bounds "
		"are refused "
		"with 400, what is well-formed but cannot be done with 422. Every refusal is "
		"{\"code\", "
		"\"message\"}. Times are RFC 3339 in UTC, durations are seconds, sizes are bytes.");
	put_text(d, license, "name", "Apache-2.0");
	put_text(d, license, "identifier", "Apache-2.0");
	put(d, info, "license", license);
	return info;
}

int openapi_make(const struct route *routes, struct node **ret_document)
{
	struct draft_document d = { .routes = routes };
	struct node *document = node_map(), *paths = node_map(), *components = node_map();

	put_text(&d, document, "openapi", "3.1.0");
	put(&d, document, "info", info_of(&d));
	for (; routes->handle; routes++)
		add_route(&d, paths, routes);
	put(&d, document, "paths", paths);
	put(&d, components, "responses", refusals_of(&d));
	put(&d, components, "schemas", schemas_of(&d));
	put_security(&d, document, components);
	put(&d, document, "components", components);
	if (d.failure < 0) {
		node_free(document);
		return d.failure;
	}
	*ret_document = document;
	return 0;
}
