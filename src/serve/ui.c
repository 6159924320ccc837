/*
 * ui.c - the dashboard: files that a browser asks for. All it knows it gets from /v1 like anybody else.
 *
 * The policy for its content lets it load nothing from anywhere else, run no script that is not one of these files, and
 * be shown in no other page's frame: what a sandbox wrote and the dashboard shows stays text.
 */
#include "serve/ui.h"

#include <string.h>

#include "base/str.h"
#include "serve/serve.h"

static const char content_policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
	"data:; "
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'";

static const struct {
	const char *ending, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" },
	{ ".mjs", "text/javascript; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
	{ ".svg", "image/svg+xml" },
};

static const char *type_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_ends(name, types[i].ending))
			return types[i].type;
	return "application/octet-stream";
}

static void answer_file(struct request *q, const char *name)
{
	const struct text *known = head_find(&q->x->head, "if-none-match");

	for (const struct ui_file *file = ui_files; file->name; file++) {
		if (!str_equal(file->name, name))
			continue;
		exchange_header(q->x, "ETag", file->etag);
		exchange_header(q->x, "Cache-Control", "no-cache");
		exchange_header(q->x, "Content-Security-Policy", content_policy);
		exchange_header(q->x, "X-Content-Type-Options", "nosniff");
		exchange_header(q->x, "Referrer-Policy", "no-referrer");
		if (text_is(known, file->etag))
			answer_empty(q, 304);
		else
			exchange_answer(q->x, 200, type_of(name), file->data, file->len);
		return;
	}
	answer_error(q, 404, "the dashboard has no such file");
}

static void get_index(struct request *q)
{
	answer_file(q, "index.html");
}

static void get_file(struct request *q)
{
	answer_file(q, q->parameter[0]);
}

const struct route ui_routes[] = {
	{ METHOD_GET, "/", NEED_NOTHING, get_index, .is_quiet = true },
	{ METHOD_GET, "/ui/{file}", NEED_NOTHING, get_file, .is_quiet = true },
	{ 0 },
};
