/*
 * e2b_watch.c - filesystem.Filesystem of E2B's agent: what changes in a directory
 *
 * A watch is one call to init that goes on (MESSAGE_WATCH). What it tells is given to a client either as a stream
 * (WatchDir) or piece by piece as he asks (CreateWatcher, GetWatcherEvents, RemoveWatcher). Who wants to know the
 * entry of each change gets it by a STAT in between; the changes wait for that in their order.
 *
 * Everything is bounded: watches of a sandbox, changes that wait, bytes that nobody fetched. What does not fit is
 * lost, and the client is told so (data_loss), as he is when init or the kernel lost something.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/str.h"
#include "http/connect.h"
#include "http/decode.h"
#include "serve/agent.h"
#include "serve/e2b_files.h"
#include "serve/entry.h"
#include "serve/turns.h"

#define WATCHES_MAX   16   /* of one sandbox: each is a process in it */
#define QUEUE_MAX     256  /* changes that wait for their entry; the next ones go without */
#define CHANGES_MAX   4096 /* changes that wait at all; the next ones are lost */
#define KEPT_MAX      (256 * KIB)
#define REQUEST_MAX   (64 * KIB)
#define KEEPALIVE_S   90
#define WATCHER_BYTES 8

struct change {
	struct change *next;
	const char *type;
	bool has_entry; /* there can be one */
	char name[];
};

struct watch {
	struct watch *next;
	struct serve *serve;
	struct request *q; /* of a stream, or of one that is being made; else NULL */
	char sandbox[TRACE_ID_SIZE];
	struct agent_place place;
	bool is_stream, has_entries, is_recursive, is_begun;
	bool is_over; /* a stream that has said its last word */
	bool is_lost; /* and it was not told yet */
	call_id call;
	struct turn *stat;
	registry_watch ends; /* once no call is left that would tell it */
	struct change *first, **last;
	size_t waiting;

	/* A stream's. */
	loop_id keepalive, deadline;
	uint64_t interval, last_sent; /* ms */

	/* One that is asked. */
	char id[2 * WATCHER_BYTES + 2];
	struct buf events; /* with commas between them */
};

/* All of them, in serve->watch_state. */
struct watches {
	struct watch *first;
};

static struct watches *watches_of(struct serve *serve)
{
	if (!serve->watch_state)
		serve->watch_state = calloc(1, sizeof(struct watches));
	return serve->watch_state;
}

static void watch_free(struct watch *w)
{
	struct watches *all = watches_of(w->serve);

	for (struct watch **at = &all->first; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	w->call = call_cancel(w->serve->fleet, w->call);
	w->stat = turn_cancel(w->stat);
	w->ends = registry_forget(w->serve->registry, w->ends);
	loop_cancel(w->serve->loop, w->keepalive);
	loop_cancel(w->serve->loop, w->deadline);
	while (w->first) {
		struct change *change = w->first;

		w->first = change->next;
		free(change);
	}
	buf_done(&w->events);
	free(w);
}

/* --- how it is told --- */

static void stream_begin(struct request *q)
{
	if (!exchange_is_begun(q->x))
		exchange_begin(q->x, 200, "application/connect+json", -1);
}

/* The last word of a stream. Errors of a stream are told so, whatever came before. */
static void stream_end(struct request *q, enum connect_code code, const char *text)
{
	_cleanup_(buf_done) struct buf frame = BUF(8 * KIB);

	stream_begin(q);
	if (connect_end(&frame, code, text) < 0) {
		exchange_abort(q->x);
		return;
	}
	exchange_write(q->x, frame.data, frame.len);
	exchange_end(q->x);
}

static void stream_say(struct watch *w, const char *text, size_t len)
{
	unsigned char head[CONNECT_HEAD];

	connect_head(0, len, head);
	exchange_write(w->q->x, head, sizeof(head));
	exchange_write(w->q->x, text, len);
	w->last_sent = loop_now(w->serve->loop);
}

static void watch_end(struct watch *w, enum connect_code code, const char *text)
{
	w->is_over = true;
	w->call = call_cancel(w->serve->fleet, w->call);
	w->stat = turn_cancel(w->stat);
	w->keepalive = loop_cancel(w->serve->loop, w->keepalive);
	w->deadline = loop_cancel(w->serve->loop, w->deadline);
	stream_end(w->q, code, text);
}

/* It could not be begun, or not go on. The watch is gone afterwards unless a request owns it. */
static void watch_fail(struct watch *w, const struct err *err)
{
	if (!w->q) {
		watch_free(w);
	} else if (!w->is_stream || err->code == -ESRCH) {
		w->is_over = true;
		w->keepalive = loop_cancel(w->serve->loop, w->keepalive);
		agent_fail(w->q, err, w->place.user);
	} else {
		watch_end(w, agent_code(err, w->place.user), err->text);
	}
}

static void watch_lose(struct watch *w)
{
	static const char words[] = "more changed than could be told: look at the directory anew";

	if (w->is_stream) {
		watch_end(w, CONNECT_DATA_LOSS, words);
		return;
	}
	buf_reset(&w->events);
	w->is_lost = true;
}

static void tell(struct watch *w, const struct change *change, const struct message *entry)
{
	_cleanup_(buf_done) struct buf text = BUF(KEPT_MAX);
	char path[2 * PATH_MAX];

	if (w->is_stream)
		buf_str(&text, "{\"filesystem\":");
	buf_str(&text, "{\"name\":");
	(void)!json_write_string(change->name, strlen(change->name), &text);
	buf_printf(&text, ",\"type\":\"%s\"", change->type);
	if (entry) {
		buf_str(&text, ",\"entry\":");
		snprintf(path, sizeof(path), "%s/%s", w->place.path, change->name);
		(void)!entry_write(entry, path, &text);
	}
	buf_str(&text, w->is_stream ? "}}" : "}");
	if (buf_failed(&text) < 0 || (w->is_stream && exchange_is_full(w->q->x))) {
		watch_lose(w);
	} else if (w->is_stream) {
		stream_say(w, text.data, text.len);
	} else {
		if (w->events.len > 0)
			buf_char(&w->events, ',');
		if (buf_add(&w->events, text.data, text.len) < 0) {
			/* The failure sticks, so the buffer is a new one. */
			buf_done(&w->events);
			w->events = BUF(KEPT_MAX);
			watch_lose(w);
		}
	}
}

/* --- changes, in their order --- */

static void work(struct watch *w);

static void on_stat(void *of, struct message *m, bool is_last)
{
	struct watch *w = of;
	struct change *change = w->first;

	(void)is_last;
	w->stat = NULL;
	w->first = change->next;
	if (!w->first)
		w->last = &w->first;
	w->waiting--;
	/* What is gone again has none. */
	tell(w, change, m->type == MESSAGE_ENTRY ? m : NULL);
	free(change);
	work(w);
}

static int start_stat(struct watch *w, const char *name)
{
	struct draft d = DRAFT(MESSAGE_STAT, 0);
	struct agent_place place = w->place;
	size_t len = strlen(place.path);

	if (len + 1 + strlen(name) >= sizeof(place.path)) {
		draft_done(&d);
		return -ENAMETOOLONG;
	}
	snprintf(place.path + len, sizeof(place.path) - len, "/%s", name);
	entry_ask(&d, 0);
	agent_address(&d, &place);
	return turn_start(w->serve, w->sandbox, &d, -EBADF, on_stat, w, &w->stat, NULL);
}

static void work(struct watch *w)
{
	while (w->first && !w->stat && !w->is_over) {
		struct change *change = w->first;

		if (change->has_entry && start_stat(w, change->name) == 0)
			return;
		w->first = change->next;
		if (!w->first)
			w->last = &w->first;
		w->waiting--;
		tell(w, change, NULL);
		free(change);
	}
}

static void add_change(struct watch *w, const char *type, const char *name, bool can_have_entry)
{
	size_t len = strlen(name);
	/* Entries may be wanted faster than they can be had, of a sandbox that gives none. */
	struct change *change = w->waiting < CHANGES_MAX ? malloc(sizeof(*change) + len + 1) : NULL;

	if (!change) {
		watch_lose(w);
		return;
	}
	*change = (struct change){ .type = type,
				   .has_entry = w->has_entries && can_have_entry &&
						w->waiting < QUEUE_MAX };
	memcpy(change->name, name, len + 1);
	*w->last = change;
	w->last = &change->next;
	w->waiting++;
	work(w);
}

static void take_change(struct watch *w, const struct message *m)
{
	static const struct {
		const char *type;
		bool has_entry;
	} meanings[SEEN_COUNT] = {
		[SEEN_MADE] = { "EVENT_TYPE_CREATE", true },
		[SEEN_CHANGED] = { "EVENT_TYPE_WRITE", true },
		[SEEN_REMOVED] = { "EVENT_TYPE_REMOVE", false },
		[SEEN_MOVED] = { "EVENT_TYPE_RENAME", false },
		[SEEN_ATTRIBUTES] = { "EVENT_TYPE_CHMOD", true },
		[SEEN_GONE] = { "EVENT_TYPE_REMOVE", false },
	};
	uint64_t seen = message_number(m, FIELD_CHANGE, 0);

	if (seen >= SEEN_COUNT || !meanings[seen].type) {
		watch_lose(w);
		return;
	}
	add_change(w, meanings[seen].type, message_text(m, FIELD_PATH, "."),
		   meanings[seen].has_entry);
	if (seen == SEEN_MOVED && !w->is_over && message_has(m, FIELD_TO))
		add_change(w, "EVENT_TYPE_CREATE", message_text(m, FIELD_TO, "."), true);
}

/* --- the call --- */

static void on_keepalive(void *of)
{
	static const char text[] = "{\"keepalive\":{}}";
	struct watch *w = of;
	uint64_t idle = loop_now(w->serve->loop) - w->last_sent;

	w->keepalive = 0;
	if (idle >= w->interval) {
		stream_say(w, text, sizeof(text) - 1);
		idle = 0;
	}
	(void)!loop_after(w->serve->loop, w->interval - idle, on_keepalive, w, &w->keepalive);
}

/* A stream says that it has begun; one that is asked gets its number. */
static void watch_begun(struct watch *w)
{
	static const char start[] = "{\"start\":{}}";
	struct request *q = w->q;
	char text[64];

	w->is_begun = true;
	if (w->is_stream) {
		stream_begin(q);
		stream_say(w, start, sizeof(start) - 1);
		(void)!loop_after(w->serve->loop, w->interval, on_keepalive, w, &w->keepalive);
		return;
	}
	/* From here on it is nobody's request. */
	q->of = NULL;
	q->gone = NULL;
	w->q = NULL;
	snprintf(text, sizeof(text), "{\"watcherId\":\"%s\"}", w->id);
	exchange_answer(q->x, 200, "application/json", text, strlen(text));
}

static void on_sandbox_end(void *of)
{
	struct watch *w = of;
	struct err err = ERR_NONE;

	w->ends = 0;
	err_set(&err, -ESRCH, "the sandbox has ended");
	watch_fail(w, &err);
}

static void on_watch(void *of, struct message *m, bool is_last)
{
	struct watch *w = of;
	struct err err = ERR_NONE;

	if (is_last)
		w->call = 0;
	switch (m->type) {
	case MESSAGE_DONE:
		/* The second one is the end of a tree that is gone, which was told. The watch stays with
		 * what nobody fetched yet, but not longer than the sandbox. */
		if (!w->is_begun)
			watch_begun(w);
		else if (registry_on_end(w->serve->registry, w->sandbox, on_sandbox_end, w,
					 &w->ends) < 0)
			on_sandbox_end(w);
		return;
	case MESSAGE_CHANGE_IS:
		take_change(w, m);
		return;
	default:
		(void)agent_error(m, &err);
		watch_fail(w, &err);
	}
}

/* The directory itself: where it is, and that it is one. */
static void on_directory(void *of, struct message *m, bool is_last)
{
	struct watch *w = of;
	struct draft d = DRAFT(MESSAGE_WATCH, 0);
	struct err err = ERR_NONE;

	(void)is_last;
	w->stat = NULL;
	if (m->type != MESSAGE_ENTRY)
		(void)agent_error(m, &err);
	else if (!S_ISDIR(message_number(m, FIELD_MODE, 0)))
		err_set(&err, -ENOTDIR, "path is not a directory: %.300s", w->place.path);
	if (err.code == 0) {
		snprintf(w->place.path, sizeof(w->place.path), "%s",
			 message_text(m, FIELD_PATH, "/"));
		draft_number(&d, FIELD_FLAGS, w->is_recursive ? TREE_RECURSIVE : 0);
		agent_address(&d, &w->place);
		(void)!call_start(w->serve->fleet, w->sandbox, &d, NULL, 0, on_watch, w, &w->call,
				  &err);
	}
	if (err.code < 0)
		watch_fail(w, &err);
}

static int watch_start(struct watch *w, const struct node *body, struct err *err)
{
	struct draft d = DRAFT(MESSAGE_STAT, 0);
	size_t count = 0;

	for (struct watch *other = watches_of(w->serve)->first; other; other = other->next)
		count += other != w && str_equal(other->sandbox, w->sandbox);
	if (count >= WATCHES_MAX)
		return err_set(err, -EAGAIN, "a sandbox has at most %d watches at once",
			       WATCHES_MAX);
	w->is_recursive = agent_flag(body, "recursive", NULL);
	w->has_entries = agent_flag(body, "includeEntry", "include_entry");
	if (agent_user(w->q, w->place.user) < 0)
		return err_set(err, -EKEYREJECTED, "invalid username");
	if (agent_path(w->q, agent_text(body, "path", NULL), w->place.path, err) < 0)
		return err->code;
	draft_number(&d, FIELD_FLAGS, STAT_FOLLOW | STAT_LEADS);
	agent_address(&d, &w->place);
	return turn_start(w->serve, w->sandbox, &d, -EBADF, on_directory, w, &w->stat, err);
}

static void watch_gone(struct request *q)
{
	watch_free(q->of);
}

static struct watch *watch_new(struct request *q)
{
	struct watches *all = watches_of(q->serve);
	struct watch *w = all ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	w->serve = q->serve;
	w->q = q;
	w->last = &w->first;
	w->events = BUF(KEPT_MAX);
	memcpy(w->sandbox, q->sandbox, sizeof(w->sandbox));
	w->next = all->first;
	all->first = w;
	q->of = w;
	q->gone = watch_gone;
	return w;
}

/* --- WatchDir --- */

static uint64_t header_number(const struct request *q, const char *name, uint64_t fallback)
{
	const struct text *field = head_find(&q->x->head, name);
	uint64_t value = 0;

	if (!field || field->len == 0 || field->len > 10)
		return fallback;
	for (size_t i = 0; i < field->len; i++) {
		if (field->data[i] < '0' || field->data[i] > '9')
			return fallback;
		value = value * 10 + (uint64_t)(field->data[i] - '0');
	}
	return value;
}

static void on_deadline(void *of)
{
	struct watch *w = of;

	w->deadline = 0;
	watch_end(w, CONNECT_DEADLINE_EXCEEDED, "the time of the request is over");
}

/* The one message of the request, out of its envelope. */
static int read_request(const char *data, size_t len, struct node **ret_body, struct err *err)
{
	struct connect_reader reader;
	struct text message;
	int r;

	connect_reader_init(&reader, REQUEST_MAX);
	r = connect_read(&reader, &data, &len, &message);
	if (r <= 0 || len > 0)
		r = err_set(err, -EINVAL, "the request must be one message in its envelope");
	else
		r = json_read(message.data, message.len, NULL, ret_body, err);
	connect_reader_done(&reader);
	return r;
}

static void on_request(struct exchange *x, const char *data, size_t len)
{
	struct request *q = x->of;
	struct err err = ERR_NONE;
	struct watch *w;
	uint64_t timeout;

	if (read_request(data, len, &q->parsed, &err) < 0) {
		stream_end(q, CONNECT_INVALID_ARGUMENT, err.text);
		return;
	}
	w = watch_new(q);
	if (!w) {
		stream_end(q, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	w->is_stream = true;
	w->interval = header_number(q, "keepalive-ping-interval", KEEPALIVE_S);
	w->interval = w->interval == 0 || w->interval > 3600 ? (uint64_t)KEEPALIVE_S * 1000
							     : (uint64_t)w->interval * 1000;
	timeout = header_number(q, "connect-timeout-ms", 0);
	if (timeout > 0)
		(void)!loop_after(w->serve->loop, timeout, on_deadline, w, &w->deadline);
	if (watch_start(w, q->parsed, &err) < 0)
		watch_fail(w, &err);
}

void e2b_watch(struct request *q)
{
	exchange_collect(q->x, REQUEST_MAX, on_request);
}

/* --- watchers that are asked --- */

static struct watch *find_watcher(struct request *q)
{
	const char *id = agent_text(q->body, "watcherId", "watcher_id");

	for (struct watch *w = watches_of(q->serve) ? watches_of(q->serve)->first : NULL; w;
	     w = w->next)
		if (!w->is_stream && !w->q && str_equal(w->id, id) &&
		    str_equal(w->sandbox, q->sandbox))
			return w;
	agent_refuse(q, -ENOENT, "watcher with id '%.100s' not found", id);
	return NULL;
}

void e2b_create_watcher(struct request *q)
{
	unsigned char random[WATCHER_BYTES];
	struct watch *w = watch_new(q);
	struct err err = ERR_NONE;

	if (!w || getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		agent_refuse(q, -ENOMEM, "out of memory");
		return;
	}
	w->id[0] = 'w';
	hex_write(random, sizeof(random), w->id + 1);
	if (watch_start(w, q->body, &err) < 0)
		watch_fail(w, &err);
}

void e2b_watcher_events(struct request *q)
{
	_cleanup_(buf_done) struct buf body = BUF(KEPT_MAX + KIB);
	struct watch *w = find_watcher(q);

	if (!w)
		return;
	if (w->is_lost) {
		w->is_lost = false;
		answer_error(q, 500, "more changed than could be kept: look at the directory anew");
		return;
	}
	buf_printf(&body, "{\"events\":[");
	buf_add(&body, buf_text(&w->events), w->events.len);
	buf_str(&body, "]}");
	buf_reset(&w->events);
	exchange_answer(q->x, 200, "application/json", body.data, body.len);
}

void e2b_remove_watcher(struct request *q)
{
	struct watch *w = find_watcher(q);

	if (!w)
		return;
	watch_free(w);
	exchange_answer(q->x, 200, "application/json", "{}", 2);
}

void e2b_watch_done(struct serve *serve)
{
	struct watches *all = serve->watch_state;

	while (all && all->first)
		watch_free(all->first);
	free(all);
	serve->watch_state = NULL;
}
