/*
 * e2b_filesystem.c - filesystem.Filesystem of E2B's agent: Stat, MakeDir, Move, ListDir, Remove
 *
 * Each is a row of calls to init, one after the other, that ends in an answer. A list is put into the order in
 * which Go walks a tree, so all of it is here before the first byte goes out; it is bounded.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "serve/agent.h"
#include "serve/e2b_files.h"
#include "serve/entry.h"
#include "serve/turns.h"

#define LIST_MAX       (16 * MIB) /* of the entries of one list, as text */
#define DIRECTORY_MODE 0755

struct item {
	size_t path, path_len; /* in the text: below the directory */
	size_t json, json_len;
};

struct rpc {
	struct request *q;
	struct agent_place place;
	struct turn *call;
	uint64_t depth;
	struct buf text;
	struct item *items;
	size_t count, room, sent;
};

static void rpc_gone(struct request *q)
{
	struct rpc *rpc = q->of;

	rpc->call = turn_cancel(rpc->call);
	buf_done(&rpc->text);
	free(rpc->items);
	free(rpc);
}

/* NULL: it was answered. path: the field that has it. */
static struct rpc *rpc_new(struct request *q, const char *path)
{
	struct rpc *rpc = calloc(1, sizeof(*rpc));
	struct err err = ERR_NONE;

	if (!rpc) {
		agent_refuse(q, -ENOMEM, "out of memory");
		return NULL;
	}
	rpc->q = q;
	rpc->text = BUF(LIST_MAX);
	q->of = rpc;
	q->gone = rpc_gone;
	if (agent_user(q, rpc->place.user) < 0) {
		answer_error(q, 401, "invalid username");
		return NULL;
	}
	if (agent_path(q, agent_text(q->body, path, NULL), rpc->place.path, &err) < 0) {
		agent_fail(q, &err, "");
		return NULL;
	}
	return rpc;
}

static void fail(struct rpc *rpc, const struct err *err)
{
	agent_fail(rpc->q, err, rpc->place.user);
}

/* An ERROR, or what does not belong there, was answered; else false. */
static bool is_failure(struct rpc *rpc, const struct message *m, enum message_type wanted)
{
	struct err err = ERR_NONE;

	if (m->type == wanted)
		return false;
	(void)agent_error(m, &err);
	fail(rpc, &err);
	return true;
}

static void call(struct rpc *rpc, struct draft *d, call_message on_message)
{
	struct err err = ERR_NONE;

	agent_address(d, &rpc->place);
	if (turn_start(rpc->q->serve, rpc->q->sandbox, d, -EBADF, on_message, rpc, &rpc->call,
		       &err) < 0)
		fail(rpc, &err);
}

/* --- Stat, and the end of those that answer with an entry --- */

static void on_entry(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;
	struct buf *text = &rpc->text;

	if (is_last)
		rpc->call = NULL;
	if (is_failure(rpc, m, MESSAGE_ENTRY))
		return;
	buf_reset(text);
	buf_str(text, "{\"entry\":");
	if (entry_write(m, message_text(m, FIELD_PATH, ""), text) < 0 || buf_char(text, '}') < 0)
		agent_refuse(rpc->q, -ENOMEM, "out of memory");
	else
		exchange_answer(rpc->q->x, 200, "application/json", text->data, text->len);
}

static void stat_it(struct rpc *rpc, unsigned int flags, call_message on_message)
{
	struct draft d = DRAFT(MESSAGE_STAT, 0);

	entry_ask(&d, flags);
	call(rpc, &d, on_message);
}

void e2b_stat(struct request *q)
{
	struct rpc *rpc = rpc_new(q, "path");

	if (rpc)
		stat_it(rpc, 0, on_entry);
}

/* --- MakeDir --- */

/* What is there already: a directory is another error than anything else. */
static void on_existing(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;
	const char *path = message_text(m, FIELD_PATH, "");

	if (is_last)
		rpc->call = NULL;
	if (is_failure(rpc, m, MESSAGE_ENTRY))
		return;
	if (S_ISDIR(message_number(m, FIELD_MODE, 0)))
		agent_refuse(rpc->q, -EEXIST, "directory already exists: %.300s", path);
	else
		agent_refuse(rpc->q, -EINVAL,
			     "path already exists but it is not a directory: %.300s", path);
}

static void on_made(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;

	if (is_last)
		rpc->call = NULL;
	if (m->type == MESSAGE_ERROR && message_number(m, FIELD_CODE, 0) == EEXIST) {
		stat_it(rpc, STAT_FOLLOW, on_existing);
		return;
	}
	if (!is_failure(rpc, m, MESSAGE_DONE))
		stat_it(rpc, 0, on_entry);
}

void e2b_make(struct request *q)
{
	struct rpc *rpc = rpc_new(q, "path");
	struct draft d = DRAFT(MESSAGE_MAKE, 0);

	if (!rpc)
		return;
	draft_number(&d, FIELD_FLAGS, TREE_PARENTS);
	draft_number(&d, FIELD_MODE, DIRECTORY_MODE);
	call(rpc, &d, on_made);
}

/* --- Move --- */

static void on_moved(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;
	struct err err = ERR_NONE;

	if (is_last)
		rpc->call = NULL;
	if (is_failure(rpc, m, MESSAGE_DONE))
		return;
	if (agent_path(rpc->q, agent_text(rpc->q->body, "destination", NULL), rpc->place.path,
		       &err) < 0)
		fail(rpc, &err);
	else
		stat_it(rpc, 0, on_entry);
}

void e2b_move(struct request *q)
{
	struct rpc *rpc = rpc_new(q, "source");
	struct draft d = DRAFT(MESSAGE_MOVE, 0);
	struct err err = ERR_NONE;
	char to[PATH_MAX];

	if (!rpc)
		return;
	if (agent_path(q, agent_text(q->body, "destination", NULL), to, &err) < 0) {
		fail(rpc, &err);
		return;
	}
	draft_text(&d, FIELD_TO, to);
	draft_number(&d, FIELD_FLAGS, MOVE_PARENTS);
	call(rpc, &d, on_moved);
}

/* --- Remove --- */

static void on_removed(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;

	if (is_last)
		rpc->call = NULL;
	if (!is_failure(rpc, m, MESSAGE_DONE))
		exchange_answer(rpc->q->x, 200, "application/json", "{}", 2);
}

void e2b_remove(struct request *q)
{
	struct rpc *rpc = rpc_new(q, "path");
	struct draft d = DRAFT(MESSAGE_REMOVE, 0);

	if (!rpc)
		return;
	draft_number(&d, FIELD_FLAGS, TREE_RECURSIVE | TREE_OPTIONAL);
	call(rpc, &d, on_removed);
}

/* --- ListDir --- */

/* The order of a walk: a directory before what is in it, and that before what comes behind it by name. So a
 * slash is less than every other byte. */
static int by_walk(const void *a, const void *b, void *of)
{
	const struct item *x = a, *y = b;
	const char *text = of;
	size_t len = MIN(x->path_len, y->path_len);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[x->path + i],
			      d = (unsigned char)text[y->path + i];

		if (c != d)
			return c == '/' ? -1 : d == '/' ? 1 : c < d ? -1 : 1;
	}
	return x->path_len < y->path_len ? -1 : x->path_len > y->path_len;
}

static void send_list(struct rpc *rpc)
{
	struct exchange *x = rpc->q->x;

	for (; rpc->sent < rpc->count && !exchange_is_full(x); rpc->sent++) {
		const struct item *item = &rpc->items[rpc->sent];

		if (rpc->sent > 0)
			exchange_write(x, ",", 1);
		exchange_write(x, rpc->text.data + item->json, item->json_len);
	}
	if (rpc->sent == rpc->count) {
		exchange_write(x, "]}", 2);
		exchange_end(x);
	}
}

static void on_drained(struct exchange *x)
{
	struct request *q = x->of;
	struct rpc *rpc = q->of;

	if (exchange_is_begun(x) && rpc->sent < rpc->count)
		send_list(rpc);
}

static void answer_list(struct rpc *rpc)
{
	static const char head[] = "{\"entries\":[";
	struct exchange *x = rpc->q->x;

	if (rpc->count > 0)
		qsort_r(rpc->items, rpc->count, sizeof(*rpc->items), by_walk, rpc->text.data);
	x->drained = on_drained;
	exchange_begin(x, 200, "application/json", -1);
	exchange_write(x, head, sizeof(head) - 1);
	send_list(rpc);
}

static int keep_item(struct rpc *rpc, const struct message *m)
{
	const char *below = message_text(m, FIELD_PATH, "");
	struct buf *text = &rpc->text;
	char path[2 * PATH_MAX];
	struct item *item;

	if (rpc->count == rpc->room) {
		size_t room = MAX(rpc->room * 2, (size_t)64);
		struct item *items = reallocarray(rpc->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		rpc->items = items;
		rpc->room = room;
	}
	if (snprintf(path, sizeof(path), "%s/%s",
		     str_equal(rpc->place.path, "/") ? "" : rpc->place.path,
		     below) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	item = &rpc->items[rpc->count];
	item->path = text->len;
	item->path_len = strlen(below);
	buf_str(text, below);
	item->json = text->len;
	if (buf_failed(text) < 0 || entry_write(m, path, text) < 0)
		return -E2BIG;
	item->json_len = text->len - item->json;
	rpc->count++;
	return 0;
}

static void on_listed(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;
	struct err err = ERR_NONE;
	int r = 0;

	if (is_last)
		rpc->call = NULL;
	if (m->type == MESSAGE_ENTRY) {
		r = keep_item(rpc, m);
	} else if (!is_failure(rpc, m, MESSAGE_DONE)) {
		answer_list(rpc);
		return;
	}
	if (r < 0) {
		rpc->call = turn_cancel(rpc->call);
		err_set(&err, r, "\"%.300s\": there is too much in it: list a part of it",
			rpc->place.path);
		fail(rpc, &err);
	}
}

/* The directory itself: where it is, and that it is one. */
static void on_directory(void *of, struct message *m, bool is_last)
{
	struct rpc *rpc = of;
	struct draft d = DRAFT(MESSAGE_LIST, 0);

	if (is_last)
		rpc->call = NULL;
	if (is_failure(rpc, m, MESSAGE_ENTRY))
		return;
	if (!S_ISDIR(message_number(m, FIELD_MODE, 0))) {
		agent_refuse(rpc->q, -ENOTDIR, "path is not a directory: %.300s", rpc->place.path);
		return;
	}
	snprintf(rpc->place.path, sizeof(rpc->place.path), "%s", message_text(m, FIELD_PATH, "/"));
	entry_ask(&d, 0);
	draft_number(&d, FIELD_DEPTH, rpc->depth);
	call(rpc, &d, on_listed);
}

void e2b_list(struct request *q)
{
	struct rpc *rpc = rpc_new(q, "path");

	if (!rpc)
		return;
	rpc->depth = MAX(agent_number(q->body, "depth", 1), 1u);
	stat_it(rpc, STAT_FOLLOW, on_directory);
}
