/*
 * v1_files.c - the files of a sandbox: a file's content, what is in a folder, writing, removing
 *
 * All of it is done by the sandbox's init with the rights of one of its users, as for the field's clients, and bytes go the
 * same ways as theirs (serve/agent.h, serve/e2b_files.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "serve/e2b_files.h"
#include "serve/v1.h"

#define LIST_MAX  (4 * MIB) /* of JSON */
#define LIST_FULL (LIST_MAX - 64 * KIB)

struct errand {
	struct request *q;
	struct agent_place place;
	call_id call;
	struct buf list; /* entries, with commas between them */
};

static void errand_gone(struct request *q)
{
	struct errand *errand = q->of;

	errand->call = call_cancel(q->serve->fleet, errand->call);
	buf_done(&errand->list);
	free(errand);
}

static void take_place(struct request *q, struct agent_place *place)
{
	if (!doc_query_text(q, "path", place->path, sizeof(place->path)))
		snprintf(place->path, sizeof(place->path), ".");
	if (!doc_query_text(q, "user", place->user, sizeof(place->user)))
		place->user[0] = '\0';
}

static struct errand *errand_begin(struct request *q)
{
	struct errand *errand;

	if (q->held->state == HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is paused: resume it first");
		return NULL;
	}
	errand = calloc(1, sizeof(*errand));
	if (!errand) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	errand->q = q;
	take_place(q, &errand->place);
	q->of = errand;
	q->gone = errand_gone;
	return errand;
}

/* What is not there is 404, what may not be done 403; all else that cannot be is 422. */
static void refuse(struct request *q, const struct err *err)
{
	if (err->code == -ENOENT)
		answer_error(q, 404, "%s", err->text);
	else if (err->code == -EACCES || err->code == -EPERM || err->code == -EROFS)
		answer_error(q, 403, "%s", err->text);
	else if (err->code == -ENOTEMPTY)
		answer_error(q, 409, "%s", err->text);
	else
		v1_refuse(q, err);
}

static void refuse_message(struct request *q, const struct message *m)
{
	struct err err = ERR_NONE;

	(void)agent_error(m, &err);
	refuse(q, &err);
}

static void ask(struct errand *errand, struct draft *d, call_message on_message)
{
	struct request *q = errand->q;
	struct err err = ERR_NONE;

	agent_address(d, &errand->place);
	if (call_start(q->serve->fleet, q->sandbox, d, NULL, 0, on_message, errand, &errand->call,
		       &err) < 0)
		refuse(q, &err);
}

/* --- reading --- */

static const char *kind_of(uint64_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	default:
		return "other";
	}
}

/* Names are foreign: what is no UTF-8 in them becomes U+FFFD when it is written. */
static struct node *entry_node(const struct message *m)
{
	const char *target = message_text(m, FIELD_TARGET, NULL);
	uint64_t mode = message_number(m, FIELD_MODE, 0);
	struct node *map = node_map();
	char octal[8];
	int r;

	snprintf(octal, sizeof(octal), "%04o", (unsigned int)(mode & 07777));
	r = node_set(map, "path", node_string(message_text(m, FIELD_PATH, "")));
	r = r < 0 ? r : node_set(map, "kind", node_string(kind_of(mode)));
	r = r < 0 ? r
		  : node_set(map, "size",
			     node_int((int64_t)(message_number(m, FIELD_SIZE, 0) & INT64_MAX)));
	r = r < 0 ? r : node_set(map, "mode", node_string(octal));
	r = r < 0 ? r : node_set(map, "uid", node_int((uint32_t)message_number(m, FIELD_UID, 0)));
	r = r < 0 ? r : node_set(map, "gid", node_int((uint32_t)message_number(m, FIELD_GID, 0)));
	r = r < 0 ? r
		  : node_set(map, "modified",
			     v1_time(message_number(m, FIELD_MODIFIED, 0) / 1000000));
	r = r < 0 ? r : node_set(map, "target", target ? node_string(target) : node_null());
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

static void answer_list(struct errand *errand, bool is_truncated)
{
	_cleanup_(buf_done) struct buf text = BUF(LIST_MAX + 64);
	struct exchange *x = errand->q->x;

	if (buf_failed(&errand->list) < 0 ||
	    buf_printf(&text, "{\"entries\":[%s],\"truncated\":%s}", buf_text(&errand->list),
		       is_truncated ? "true" : "false") < 0)
		answer_error(errand->q, 503, "out of memory");
	else
		exchange_answer(x, 200, "application/json", text.data, text.len);
}

static int add_entry(struct buf *list, const struct message *m)
{
	_cleanup_(node_freep) struct node *entry = entry_node(m);

	if (!entry)
		return -ENOMEM;
	if (list->len)
		(void)buf_char(list, ',');
	return json_write(entry, true, list);
}

static void on_entry(void *of, struct message *m, bool is_last)
{
	struct errand *errand = of;
	bool is_full = false;

	if (is_last)
		errand->call = 0;
	if (m->type == MESSAGE_ERROR) {
		refuse_message(errand->q, m);
		return;
	}
	if (m->type == MESSAGE_ENTRY)
		is_full = add_entry(&errand->list, m) < 0 || errand->list.len > LIST_FULL;
	if (!is_last && !is_full)
		return;
	errand->call = call_cancel(errand->q->serve->fleet, errand->call);
	answer_list(errand, !is_last);
}

static void list_folder(struct errand *errand)
{
	struct draft d = DRAFT(MESSAGE_LIST, 0);

	errand->list = BUF(LIST_MAX);
	draft_number(&d, FIELD_DEPTH, (uint64_t)doc_query_number(errand->q, "depth", 1));
	ask(errand, &d, on_entry);
}

static void on_stat(void *of, struct message *m, bool is_last)
{
	struct errand *errand = of;
	struct request *q = errand->q;
	struct agent_place place = errand->place;

	if (!is_last)
		return;
	errand->call = 0;
	if (m->type == MESSAGE_ERROR) {
		refuse_message(q, m);
	} else if (S_ISDIR(message_number(m, FIELD_MODE, 0))) {
		list_folder(errand);
	} else if (!S_ISREG(message_number(m, FIELD_MODE, 0))) {
		answer_error(q, 422, "it is neither a file nor a folder");
	} else {
		errand_gone(q);
		q->of = NULL;
		q->gone = NULL;
		q->refuse = refuse;
		e2b_download(q, &place);
	}
}

void v1_read_file(struct request *q)
{
	struct errand *errand = errand_begin(q);
	struct draft d = DRAFT(MESSAGE_STAT, 0);

	if (!errand)
		return;
	draft_number(&d, FIELD_FLAGS, STAT_FOLLOW);
	ask(errand, &d, on_stat);
}

/* --- removing --- */

static void on_removed(void *of, struct message *m, bool is_last)
{
	struct errand *errand = of;

	if (!is_last)
		return;
	errand->call = 0;
	if (m->type == MESSAGE_ERROR)
		refuse_message(errand->q, m);
	else
		answer_empty(errand->q, 204);
}

void v1_remove_file(struct request *q)
{
	struct errand *errand = errand_begin(q);
	struct draft d = DRAFT(MESSAGE_REMOVE, 0);
	char text[8];

	if (!errand)
		return;
	if (doc_query_text(q, "recursive", text, sizeof(text)) && str_equal(text, "true"))
		draft_number(&d, FIELD_FLAGS, TREE_RECURSIVE);
	ask(errand, &d, on_removed);
}

/* --- writing --- */

void v1_write_file(struct request *q)
{
	struct agent_place place;

	if (q->held->state == HELD_PAUSED) {
		answer_error(q, 409, "the sandbox is paused: resume it first");
		return;
	}
	take_place(q, &place);
	q->refuse = refuse;
	e2b_upload(q, place.user, place.path);
}
