/*
 * openapi.h - brig's own API in words: what a route takes and gives, as a table
 *
 * Each row of v1_routes bears a route_doc. From it come the OpenAPI document, and the check of every request
 * before its handler sees it: what the document does not say is refused (a field, a parameter that is not there,
 * another type, a bound), and what it says is what a handler can rely on. So the two cannot differ.
 *
 *	static const struct doc_field patch_body[] = {
 *		{ "timeout", DOC_NUMBER, .min = 1, .max = 86400, .summary = "seconds from now" },
 *		DOC_END,
 *	};
 *
 * The answers are told by schemas; a test compares them with what is answered.
 */
#ifndef BRIG_SERVE_OPENAPI_H
#define BRIG_SERVE_OPENAPI_H

#include "data/node.h"
#include "serve/serve.h"

enum doc_kind {
	DOC_NOTHING, /* the row that ends a table */
	DOC_TEXT,
	DOC_WHOLE,
	DOC_NUMBER,
	DOC_BOOL,
	DOC_LIST,      /* of what the first row of `of` says */
	DOC_MAP,       /* any names, likewise */
	DOC_OBJECT,    /* the rows of `of`, and no others */
	DOC_ELSEWHERE, /* of an answer: what `schema` makes */
};

struct doc_schema;

struct doc_field {
	const char *name;
	enum doc_kind kind;
	bool is_required, or_null;
	/* TEXT: characters; WHOLE, NUMBER: the value; LIST, MAP: entries. max 0: without bounds. */
	double min, max;
	const char *pattern; /* TEXT: a regular expression that means the same to POSIX and ECMA */
	const char *keys;    /* MAP: likewise, for its names */
	const char *const *names; /* TEXT: one of these, NULL behind the last */
	const struct doc_field *of;
	const struct doc_schema *schema; /* OBJECT, ELSEWHERE: by its name, in place of `of` */
	const char *summary;
	const char *fallback; /* JSON: what it is when it is left out; NULL: nothing */
};

#define DOC_END              \
	{                    \
		.name = NULL \
	}

/* A schema that has a name in the document. */
struct doc_schema {
	const char *name;
	const struct doc_field *fields;        /* of an object; or */
	int (*make)(struct node **ret_schema); /* one that is known elsewhere */
	const struct doc_field *item;          /* or a list of these */
};

struct doc_answer {
	unsigned int status;             /* 0: ends the list */
	const char *type;                /* of the content; NULL: none */
	const struct doc_schema *schema; /* of JSON */
	const char *summary;
};

/* Refusals besides those that every route has by its row. */
enum doc_error {
	DOC_404 = 1,
	DOC_409 = 2,
	DOC_422 = 4,
	DOC_426 = 8,
	DOC_429 = 16,
	DOC_502 = 32,
	DOC_503 = 64,
	DOC_507 = 128,
	DOC_403 = 256,
	DOC_416 = 512,
	DOC_406 = 1024,
	DOC_415 = 2048,
	DOC_504 = 4096,
};

struct route_doc {
	const char *name, *tag, *summary, *text; /* text: more of it, or NULL */
	route_handler handle;                    /* after the check */
	bool is_of_sandbox; /* {id}: the request has `held` and `sandbox`, or was answered with 404 */
	bool makes_sandbox;                             /* whose id the answer has */
	bool has_key;                                   /* "Idempotency-Key" is heeded */
	const struct doc_field *query, *headers, *body; /* NULL: none */
	const char *const *one_of; /* exactly one of these fields of the body is there; NULL */
	const char *body_type;     /* of a body that is not JSON; NULL */
	struct doc_answer answers[4];
	unsigned int errors; /* enum doc_error */
};

/* The handler of every row: checks the request by the row's doc, and hands it on. */
void openapi_handle(struct request *q);

/* Whether a body is what the rows say: 0, or -EINVAL with words. For tests and openapi_handle(). */
[[nodiscard]] int doc_check(const struct doc_field *fields, const struct node *body,
			    struct err *err);
/* The query of a request likewise: unknown, doubled or wrong parameters. */
[[nodiscard]] int doc_check_query(const struct doc_field *fields, const struct text *query,
				  struct err *err);

/* What "Idempotency-Key" has to look like. */
extern const struct doc_field openapi_key_header;

/* The document. */
[[nodiscard]] int openapi_make(const struct route *routes, struct node **ret_document);

/* Values of a body that was checked; the fallback where they are left out or null. */
const char *doc_text(const struct node *body, const char *name, const char *fallback);
double doc_number(const struct node *body, const char *name, double fallback);
bool doc_bool(const struct node *body, const char *name, bool fallback);

/* Values of a query that was checked; texts longer than size were refused by their row's max. */
const char *doc_query_text(const struct request *q, const char *name, char *text, size_t size);
double doc_query_number(const struct request *q, const char *name, double fallback);

#endif
