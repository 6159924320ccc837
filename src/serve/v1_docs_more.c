/* v1_docs_more.c - what the routes of brig's own API take and give: records, policies, keys, the daemon */
#include "data/schema.h"
#include "serve/v1.h"
#include "trace/event.h"
#include "warden/result.h"

#define JSON   "application/json"
#define EVENTS "text/event-stream"

static const struct doc_field any_text = { .name = "value", .kind = DOC_TEXT };

/* --- the record --- */

static const char *const verdicts[] = { "allow", "deny", NULL };
static const char *const kinds[] = { "exec",  "file",   "net",     "dns", "syscall",
				     "limit", "output", "sandbox", NULL };
static const struct doc_field events_query[] = {
	{ "verdict", DOC_TEXT, .names = verdicts, .summary = "only these" },
	{ "kind", DOC_TEXT, .names = kinds, .summary = "only these" },
	{ "after", DOC_WHOLE, .max = 1e15, .fallback = "0",
	  .summary = "only events behind the one of this number (seq)" },
	{ "limit", DOC_WHOLE, .min = 1, .max = 1000, .fallback = "100", .summary = "of a page" },
	DOC_END,
};
static const struct doc_field events_headers[] = {
	{ "Last-Event-ID", DOC_TEXT, .min = 1, .max = 15, .pattern = "^[0-9]+$",
	  .summary = "as after, of a stream that is taken up again" },
	DOC_END,
};

/* As a part of this document the schema of an event is none of its own. */
static int event_schema(struct node **ret_schema)
{
	return trace_schema(ret_schema);
}

static const struct doc_schema an_event_schema = { .name = "Event", .make = event_schema };
static const struct doc_field an_event = { "event", DOC_ELSEWHERE, .schema = &an_event_schema };
static const struct doc_field page_fields[] = {
	{ "events", DOC_LIST, .is_required = true, .of = &an_event,
	  .summary = "as they stand in the record" },
	{ "next", DOC_WHOLE, .is_required = true, .or_null = true,
	  .summary = "for after, of the next page; null: there is none yet" },
	DOC_END,
};
static const struct doc_schema page_schema = { .name = "EventPage", .fields = page_fields };

const struct route_doc v1_doc_events = {
	.name = "listEvents",
	.tag = "sandboxes",
	.summary = "What was tried in it, and what was refused",
	.text = "With \"Accept: text/event-stream\" the events come as they happen, each with its "
		"seq as id; \"end\" is "
		"the last one, when the sandbox has ended.",
	.handle = v1_events,
	.is_of_sandbox = true,
	.query = events_query,
	.headers = events_headers,
	.answers = { { 200, JSON, &page_schema, "a page, or the stream" },
		     { 200, EVENTS, NULL, "a page, or the stream" } },
	.errors = DOC_404 | DOC_422 | DOC_502 | DOC_503,
};

/* --- what holds it --- */

static int walls_schema(struct node **ret_schema)
{
	*ret_schema = result_enforcement_schema();
	return *ret_schema ? 0 : -1;
}

static int ports_schema(struct node **ret_schema)
{
	*ret_schema = result_published_schema();
	return *ret_schema ? 0 : -1;
}

/* As the client gave it: any object. */
static int object_schema(struct node **ret_schema)
{
	*ret_schema = schema_type("object");
	return *ret_schema ? 0 : -1;
}

static const struct doc_schema enforcement = { .name = "Enforcement", .make = walls_schema };
static const struct doc_schema published = { .name = "Published", .make = ports_schema };
static const struct doc_schema any_object = { .name = "Object", .make = object_schema };
static const struct doc_field report_fields[] = {
	{ "id", DOC_TEXT, .is_required = true, .summary = "of the sandbox" },
	{ "isolation", DOC_TEXT, .is_required = true, .summary = "the tier" },
	{ "policy", DOC_TEXT, .is_required = true, .or_null = true,
	  .summary = "digest of the resolved policy" },
	{ "home", DOC_TEXT, .is_required = true, .summary = "inside" },
	{ "overlays", DOC_LIST, .is_required = true, .of = &any_text,
	  .summary = "paths inside whose changes are kept apart" },
	{ "published", DOC_ELSEWHERE, .is_required = true, .schema = &published,
	  .summary = "ports of the policy" },
	{ "enforcement", DOC_ELSEWHERE, .is_required = true, .schema = &enforcement,
	  .summary = "each wall, and what really holds it" },
	{ "network", DOC_ELSEWHERE, .is_required = true, .schema = &any_object,
	  .summary = "what its client asked for" },
	DOC_END,
};
static const struct doc_schema report_schema = { .name = "Report", .fields = report_fields };

const struct route_doc v1_doc_report = {
	.name = "getReport",
	.tag = "sandboxes",
	.summary = "What really holds it: every wall, and the policy",
	.handle = v1_report,
	.is_of_sandbox = true,
	.answers = { { 200, JSON, &report_schema, "the enforcement report" } },
	.errors = DOC_404 | DOC_502,
};

/* --- policies --- */

static const struct doc_field policies_fields[] = {
	{ "policies", DOC_LIST, .is_required = true, .of = &any_text,
	  .summary = "that come with brig, by name" },
	{ "default", DOC_TEXT, .is_required = true, .or_null = true,
	  .summary = "what the tenant's sandboxes have; null: a file of the operator's" },
	DOC_END,
};
static const struct doc_schema policies_schema = { .name = "Policies", .fields = policies_fields };
const struct route_doc v1_doc_policies = {
	.name = "listPolicies",
	.tag = "policies",
	.summary = "The policies that can be named",
	.handle = v1_policies,
	.answers = { { 200, JSON, &policies_schema, "their names" } },
};

static const struct doc_field policy_fields[] = {
	{ "name", DOC_TEXT, .is_required = true, .summary = "of the policy" },
	{ "digest", DOC_TEXT, .is_required = true, .summary = "of its canonical form" },
	{ "rules", DOC_ELSEWHERE, .is_required = true, .schema = &any_object,
	  .summary = "as in a policy file, with all that it extends" },
	DOC_END,
};
static const struct doc_schema policy_schema_of = { .name = "Policy", .fields = policy_fields };
const struct route_doc v1_doc_policy = {
	.name = "getPolicy",
	.tag = "policies",
	.summary = "What a policy says",
	.handle = v1_policy,
	.answers = { { 200, JSON, &policy_schema_of, "the policy" } },
	.errors = DOC_404 | DOC_503,
};

/* --- keys --- */

static const char *const key_kinds[] = { "user", "reviewer", "admin", NULL };
static const char *const floors[] = { "process", "container", "gvisor", "vm", NULL };

#define KEY_FIELDS                                                                                \
	{ "id", DOC_TEXT, .is_required = true, .summary = "of the key, to revoke it" },           \
		{ "tenant", DOC_TEXT, .is_required = true, .summary = "whose it is" },            \
		{ "kind", DOC_TEXT, .is_required = true, .names = key_kinds,                      \
		  .summary = "what it is for" },                                                  \
		{ "shown", DOC_TEXT, .is_required = true, .summary = "how it begins" },           \
		{ "created", DOC_TEXT, .is_required = true, .or_null = true, .summary = "when" }, \
		{ "used", DOC_TEXT, .is_required = true, .or_null = true,                         \
		  .summary = "when, last; null: never" },                                         \
	{                                                                                         \
		"revoked", DOC_TEXT, .is_required = true, .or_null = true,                        \
				     .summary = "when; null: it is good"                          \
	}

static const struct doc_field key_fields[] = { KEY_FIELDS, DOC_END };
static const struct doc_field new_key_fields[] = {
	KEY_FIELDS,
	{ "key", DOC_TEXT, .is_required = true,
	  .summary = "the key itself: shown this once, kept nowhere" },
	DOC_END,
};
static const struct doc_schema key_schema = { .name = "Key", .fields = key_fields };
static const struct doc_schema new_key_schema = { .name = "NewKey", .fields = new_key_fields };
static const struct doc_field a_key = { "key", DOC_OBJECT, .schema = &key_schema };
static const struct doc_field keys_fields[] = {
	{ "keys", DOC_LIST, .is_required = true, .of = &a_key, .summary = "revoked ones, too" },
	DOC_END,
};
static const struct doc_schema keys_schema = { .name = "Keys", .fields = keys_fields };

const struct route_doc v1_doc_keys = {
	.name = "listKeys",
	.tag = "keys",
	.summary = "All keys of all tenants",
	.handle = v1_keys,
	.answers = { { 200, JSON, &keys_schema, "none of them can be read from it" } },
	.errors = DOC_503,
};

static const struct doc_field make_key_body[] = {
	{ "tenant", DOC_TEXT, .min = 1, .max = 64, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
	  .fallback = "default", .summary = "made where there is none of this name" },
	{ "kind", DOC_TEXT, .names = key_kinds, .fallback = "user", .summary = "what it is for" },
	{ "max_sandboxes", DOC_WHOLE, .max = 1000000,
	  .summary = "of the tenant, at once; 0: any number" },
	{ "max_cpu", DOC_NUMBER, .max = 100000, .summary = "CPUs of all its sandboxes" },
	{ "max_memory", DOC_WHOLE, .max = 1e15, .summary = "bytes, likewise" },
	{ "max_disk", DOC_WHOLE, .max = 1e15, .summary = "bytes, likewise" },
	{ "create_rate", DOC_NUMBER, .max = 100000,
	  .summary = "sandboxes a second, in the long run" },
	{ "policy", DOC_TEXT, .min = 1, .max = 64, .pattern = "^[a-z][a-z0-9-]*$",
	  .summary = "a shipped policy that bounds all its sandboxes" },
	{ "floor", DOC_TEXT, .names = floors, .summary = "the weakest tier for its sandboxes" },
	DOC_END,
};
const struct route_doc v1_doc_make_key = {
	.name = "createKey",
	.tag = "keys",
	.summary = "A new key, and what its tenant may have",
	.handle = v1_make_key,
	.body = make_key_body,
	.answers = { { 201, JSON, &new_key_schema, "shown this once" } },
	.errors = DOC_422 | DOC_503 | DOC_507,
};

const struct route_doc v1_doc_revoke_key = {
	.name = "revokeKey",
	.tag = "keys",
	.summary = "Makes a key worthless, at once",
	.handle = v1_revoke_key,
	.answers = { { 200, JSON, &key_schema, "the key that was" } },
	.errors = DOC_404 | DOC_409 | DOC_422 | DOC_503 | DOC_507,
};

/* --- host and daemon --- */

static const struct doc_schema host_schema = { .name = "Host", .make = object_schema };
const struct route_doc v1_doc_host = {
	.name = "getHost",
	.tag = "host",
	.summary = "What this host can enforce, as \"brig doctor --json\" says it",
	.handle = v1_host,
	.answers = { { 200, JSON, &host_schema, "looked at some seconds ago, at most" } },
	.errors = DOC_503,
};

static const struct doc_field state_fields[] = {
	{ "status", DOC_TEXT, .is_required = true, .summary = "ok, or ready" },
	{ "version", DOC_TEXT, .is_required = true, .summary = "of brig" },
	DOC_END,
};
static const struct doc_schema state_schema = { .name = "State", .fields = state_fields };
const struct route_doc v1_doc_health = {
	.name = "getHealth",
	.tag = "host",
	.summary = "Whether the daemon lives",
	.handle = v1_health,
	.answers = { { 200, JSON, &state_schema, "it does" } },
};
const struct route_doc v1_doc_ready = {
	.name = "getReadiness",
	.tag = "host",
	.summary = "Whether requests should be sent here: its state can be written, and it is not "
		   "stopping",
	.handle = v1_ready,
	.answers = { { 200, JSON, &state_schema, "they should" } },
	.errors = DOC_503,
};

const struct route_doc v1_doc_metrics = {
	.name = "getMetrics",
	.tag = "host",
	.summary = "Counters for Prometheus, with an admin's key",
	.handle = v1_metrics,
	.answers = { { 200, "text/plain", NULL, "version 0.0.4 of the text format" } },
	.errors = DOC_503,
};

static const struct doc_schema document_schema = { .name = "OpenAPI", .make = object_schema };
const struct route_doc v1_doc_openapi = {
	.name = "getOpenAPI",
	.tag = "host",
	.summary = "This document",
	.handle = v1_openapi,
	.answers = { { 200, JSON, &document_schema, "OpenAPI 3.1" } },
};
