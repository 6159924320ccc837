/*
 * e2b_logs.c - GET /sandboxes/{id}/logs and /v2/sandboxes/{id}/logs: the record of a sandbox as log lines
 *
 * The record is the one that "brig events" shows (trace/): what was tried inside, on what, and the verdict. A
 * refusal is a warning; programs that were started, names, connections and the sandbox's own start are told as
 * they are; files that were opened only to who asks for "debug". What a program printed is with whoever started it,
 * and is not in here.
 *
 * A record can have a million lines: some hundred are read in one turn of the loop, until there is enough.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "serve/e2b_control.h"
#include "trace/home.h"
#include "trace/reader.h"

#define LINES_A_TURN 256
#define LOGS_MAX     1000
#define SEARCH_MAX   256

enum level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_WARN, LEVEL_ERROR, LEVEL_COUNT };
static const char *const level_names[LEVEL_COUNT] = { "debug", "info", "warn", "error" };

struct search {
	struct request *q;
	bool is_old; /* the first version of the answer */
	int fd;
	struct reader reader;
	loop_id turn;
	uint64_t cursor; /* ms since 1970 */
	bool is_backward;
	enum level level;
	char words[SEARCH_MAX];
	size_t limit;
	struct node *entries[LOGS_MAX]; /* backward: the last ones, the oldest overwritten */
	size_t count;                   /* that fit so far */
};

static void search_free(struct search *search)
{
	search->turn = loop_cancel(search->q->serve->loop, search->turn);
	for (size_t i = 0; i < LOGS_MAX; i++)
		node_free(search->entries[i]);
	reader_done(&search->reader);
	fd_close(search->fd);
	free(search);
}

static void search_leave(struct request *q)
{
	search_free(q->of);
}

/* --- one event as a line --- */

static enum level level_of(const struct node *event)
{
	static const struct {
		const char *kind;
		enum level level;
	} rows[] = {
		{ "exec", LEVEL_INFO },   { "net", LEVEL_INFO },     { "dns", LEVEL_INFO },
		{ "limit", LEVEL_ERROR }, { "sandbox", LEVEL_INFO }, { "output", LEVEL_INFO },
	};
	const char *kind = trace_text(event, "kind");

	if (str_equal(trace_text(event, "verdict"), "deny"))
		return LEVEL_WARN;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_equal(kind, rows[i].kind))
			return rows[i].level;
	return LEVEL_DEBUG;
}

static uint64_t time_of(const struct node *event)
{
	const char *text = trace_text(event, "time"), *p;
	struct tm tm = { 0 };
	unsigned int us = 0;

	p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (p && *p == '.')
		(void)sscanf(p, ".%6u", &us);
	return p ? (uint64_t)timegm(&tm) * 1000 + us / 1000 : 0;
}

static void message_of(const struct node *event, struct buf *text)
{
	const char *reason = trace_text(event, "reason");
	bool is_denied = str_equal(trace_text(event, "verdict"), "deny");

	(void)buf_printf(text, "%s%s %s", is_denied ? "refused: " : "", trace_text(event, "action"),
			 trace_text(event, "object"));
	if (reason[0])
		(void)buf_printf(text, ": %s", reason);
}

/* Fields are texts there, whatever they are here. */
static int add_field(struct node *fields, const char *name, const struct node *value)
{
	char number[24];

	if (!value)
		return 0;
	if (value->kind == NODE_STRING)
		return node_set(fields, name, node_string(value->text));
	if (value->kind != NODE_INT)
		return 0;
	snprintf(number, sizeof(number), "%" PRId64, value->number);
	return node_set(fields, name, node_string(number));
}

static struct node *fields_of(const struct node *event)
{
	static const char *const names[] = { "kind", "action", "object", "verdict",   "pid",
					     "exec", "seq",    "reason", "allow_with" };
	struct node *fields = node_map();
	int r = fields ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
		r = add_field(fields, names[i], node_get(event, names[i]));
	if (r == 0)
		return fields;
	node_free(fields);
	return NULL;
}

static struct node *entry_of(const struct node *event, enum level level, const char *message)
{
	_cleanup_(node_freep) struct node *entry = node_map();
	int r = entry ? node_set(entry, "timestamp", node_string(trace_text(event, "time")))
		      : -ENOMEM;

	r = r < 0 ? r : node_set(entry, "level", node_string(level_names[level]));
	r = r < 0 ? r : node_set(entry, "message", node_string(message));
	r = r < 0 ? r : node_set(entry, "fields", fields_of(event));
	return r < 0 ? NULL : take_ptr(&entry);
}

/* --- the search --- */

static bool is_in_time(const struct search *search, const struct node *event)
{
	uint64_t at = time_of(event);

	return search->is_backward ? at <= search->cursor : at >= search->cursor;
}

/* 1: there are enough. */
static int take_line(struct search *search, const char *line, size_t len)
{
	_cleanup_(buf_done) struct buf message = BUF(TRACE_LINE_MAX);
	_cleanup_(node_freep) struct node *event = NULL;
	struct node *entry, **place;
	struct err err = ERR_NONE;
	enum level level;

	if (trace_line_parse(line, len, &event, &err) < 0)
		return 0;
	level = level_of(event);
	if (level < search->level || !is_in_time(search, event))
		return 0;
	message_of(event, &message);
	if (search->words[0] && !strstr(buf_text(&message), search->words))
		return 0;
	entry = entry_of(event, level, buf_text(&message));
	if (!entry)
		return -ENOMEM;
	place = &search->entries[search->count++ % search->limit];
	node_free(*place);
	*place = entry;
	return !search->is_backward && search->count == search->limit;
}

/* The lines in their order: forward as they were found, backward the newest first. */
static struct node *lines_of(struct search *search, struct node *(*shape)(const struct node *entry))
{
	size_t kept = search->limit ? MIN(search->count, search->limit) : 0;
	struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < kept && r == 0; i++) {
		size_t at = search->is_backward ? (search->count - 1 - i) % search->limit : i;

		r = node_add(list, shape(search->entries[at]));
	}
	if (r == 0)
		return list;
	node_free(list);
	return NULL;
}

static struct node *old_line(const struct node *entry)
{
	_cleanup_(node_freep) struct node *line = node_map();
	int r = line ? node_set(line, "timestamp", node_copy(node_get(entry, "timestamp")))
		     : -ENOMEM;

	r = r < 0 ? r : node_set(line, "line", node_copy(node_get(entry, "message")));
	return r < 0 ? NULL : take_ptr(&line);
}

static void search_end(struct search *search, int failure)
{
	_cleanup_(node_freep) struct node *map = node_map();
	struct request *q = search->q;
	int r = map ? failure : -ENOMEM;

	if (search->is_old) {
		r = r < 0 ? r : node_set(map, "logs", lines_of(search, old_line));
		r = r < 0 ? r : node_set(map, "logEntries", lines_of(search, node_copy));
	} else {
		r = r < 0 ? r : node_set(map, "logs", lines_of(search, node_copy));
	}
	q->of = NULL;
	q->gone = NULL;
	search_free(search);
	if (r < 0)
		answer_error(q, 500, "the record cannot be read: %s", strerror(-r));
	else
		answer_json(q, 200, map);
}

static void search_turn(void *of)
{
	struct search *search = of;
	const char *line;
	size_t len;
	int r = 1;

	search->turn = 0;
	for (size_t i = 0; i < LINES_A_TURN; i++) {
		r = reader_next(&search->reader, &line, &len);
		if (r == -EMSGSIZE)
			continue;
		if (r <= 0)
			break;
		r = take_line(search, line, len);
		if (r != 0) {
			search_end(search, MIN(r, 0));
			return;
		}
		r = 1;
	}
	if (r == 1 || r == -EMSGSIZE)
		r = loop_soon(search->q->serve->loop, search_turn, search, &search->turn) < 0
			    ? -ENOMEM
			    : 1;
	if (r <= 0)
		search_end(search, r);
}

static int open_record(const char *id, struct err *err)
{
	_cleanup_close_ int home = trace_home_open(NULL, false, err);
	char path[TRACE_PATH_SIZE];

	if (home < 0)
		return home;
	trace_stream_path(id, path);
	return trace_file_open(home, path, err);
}

/* A sandbox that records nothing has no record: that is no error. */
static void search_begin(struct search *search, const char *id)
{
	struct request *q = search->q;
	struct err err = ERR_NONE;
	int r;

	search->fd = open_record(id, &err);
	r = search->fd < 0 ? search->fd : reader_init(&search->reader, search->fd);
	if (r == 0 && search->limit > 0)
		r = loop_soon(q->serve->loop, search_turn, search, &search->turn);
	if (r < 0 || search->limit == 0)
		search_end(search, r == -ENOENT ? 0 : r);
}

static struct search *search_new(struct request *q)
{
	struct search *search = calloc(1, sizeof(*search));

	if (!search) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	search->q = q;
	search->fd = -EBADF;
	search->limit = LOGS_MAX;
	search->level = LEVEL_INFO;
	q->of = search;
	q->gone = search_leave;
	return search;
}

/* It was answered already. */
static void search_refused(struct search *search)
{
	search->q->of = NULL;
	search->q->gone = NULL;
	search_free(search);
}

static bool read_limit(struct search *search)
{
	uint64_t limit = LOGS_MAX;

	if (!query_number(search->q, "limit", INT32_MAX, &limit))
		return false;
	search->limit = MIN(limit, (uint64_t)LOGS_MAX);
	return true;
}

static bool read_word(struct request *q, const char *name, const char *const *words, size_t count,
		      size_t *value)
{
	char text[32];
	int r = query_get(q, name, 0, text, sizeof(text));

	if (r == -ENOENT)
		return true;
	for (size_t i = 0; r == 0 && i < count; i++)
		if (str_equal(text, words[i])) {
			*value = i;
			return true;
		}
	refuse(q, 400, "\"%s\" must be one of: %s, %s%s%s", name, words[0], words[1],
	       count > 2 ? ", ..., " : "", count > 2 ? words[count - 1] : "");
	return false;
}

static bool read_search(struct search *search)
{
	static const char *const directions[] = { "forward", "backward" };
	struct request *q = search->q;
	size_t direction = 0, level = LEVEL_INFO;
	int r;

	if (!read_word(q, "direction", directions, 2, &direction) ||
	    !read_word(q, "level", level_names, LEVEL_COUNT, &level))
		return false;
	search->is_backward = direction == 1;
	search->level = (enum level)level;
	search->cursor = search->is_backward ? UINT64_MAX : 0;
	r = query_get(q, "search", 0, search->words, sizeof(search->words));
	if (r < 0 && r != -ENOENT) {
		refuse(q, 400, "\"search\" is longer than %d bytes, or has odd ones",
		       SEARCH_MAX - 1);
		return false;
	}
	return query_number(q, "cursor", INT64_MAX, &search->cursor);
}

void control_logs(struct request *q)
{
	const struct held *held = own_sandbox(q);
	struct search *search = held ? search_new(q) : NULL;

	if (!search)
		return;
	search->is_old = true;
	if (read_limit(search) && query_number(q, "start", INT64_MAX, &search->cursor))
		search_begin(search, held->id);
	else
		search_refused(search);
}

void control_logs_v2(struct request *q)
{
	const struct held *held = own_sandbox(q);
	struct search *search = held ? search_new(q) : NULL;

	if (!search)
		return;
	if (read_limit(search) && read_search(search))
		search_begin(search, held->id);
	else
		search_refused(search);
}
