/* v1_list.c - sandboxes that live, one or all of them, with what they use */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/v1.h"
#include "serve/v1_show.h"

#define PAGE_MAX   100
#define LOOK_MS    2000 /* for all wardens to say what their sandboxes use */
#define CURSOR_MAX 64

/* One warden that is asked. */
struct look {
	struct listing *listing;
	char id[TRACE_ID_SIZE];
	call_id call;
	struct node *usage;
};

struct listing {
	struct request *q;
	bool is_single;
	char next[CURSOR_MAX]; /* "": this is the last page */
	struct look looks[PAGE_MAX];
	size_t count, waiting;
	loop_id timer;
};

/* Nobody is waited for any more. */
static void stop_asking(struct listing *listing)
{
	struct serve *serve = listing->q->serve;

	listing->timer = loop_cancel(serve->loop, listing->timer);
	for (size_t i = 0; i < listing->count; i++)
		listing->looks[i].call = call_cancel(serve->fleet, listing->looks[i].call);
}

static void listing_gone(struct request *q)
{
	struct listing *listing = q->of;

	stop_asking(listing);
	for (size_t i = 0; i < listing->count; i++)
		node_free(listing->looks[i].usage);
	free(listing);
}

/* Those that ended meanwhile are left out. */
static struct node *sandbox_list(struct listing *listing)
{
	_cleanup_(node_freep) struct node *list = node_list();

	for (size_t i = 0; i < listing->count; i++) {
		struct look *look = &listing->looks[i];
		const struct held *held = registry_find(listing->q->serve->registry, look->id,
							listing->q->tenant_name);

		if (held && node_add(list, show_sandbox(held, take_ptr(&look->usage))) < 0)
			return NULL;
	}
	return take_ptr(&list);
}

static struct node *page_node(struct listing *listing)
{
	struct node *map = node_map();
	int r = node_set(map, "sandboxes", sandbox_list(listing));

	r = r < 0 ? r
		  : node_set(map, "next",
			     listing->next[0] ? node_string(listing->next) : node_null());
	if (r == 0)
		return map;
	node_free(map);
	return NULL;
}

static void finish(struct listing *listing)
{
	struct request *q = listing->q;
	const struct held *held;
	struct node *node;

	stop_asking(listing);
	if (listing->is_single) {
		held = registry_find(q->serve->registry, listing->looks[0].id, q->tenant_name);
		node = held ? show_sandbox(held, take_ptr(&listing->looks[0].usage)) : NULL;
		if (!held) {
			answer_error(q, 404, "there is no sandbox \"%.40s\"", q->parameter[0]);
			return;
		}
	} else {
		node = page_node(listing);
	}
	answer_take_json(q, 200, node);
}

static void on_time(void *of)
{
	struct listing *listing = of;

	listing->timer = 0;
	finish(listing);
}

static void on_status(void *of, struct message *m, bool is_last)
{
	struct look *look = of;

	if (m->type == MESSAGE_STATUS_IS && !look->usage)
		look->usage = show_usage(m);
	if (!is_last)
		return;
	look->call = 0;
	if (--look->listing->waiting == 0)
		finish(look->listing);
}

static void ask(struct look *look)
{
	struct listing *listing = look->listing;
	struct draft d = DRAFT(MESSAGE_STATUS, 0);
	struct err err = ERR_NONE;

	if (call_start(listing->q->serve->fleet, look->id, &d, NULL, 0, on_status, look,
		       &look->call, &err) == 0)
		listing->waiting++;
}

/* All are asked at once; whoever does not answer in time is shown without. */
static void ask_all(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		ask(&listing->looks[i]);
	if (listing->waiting == 0 ||
	    loop_after(listing->q->serve->loop, LOOK_MS, on_time, listing, &listing->timer) < 0)
		finish(listing);
}

static struct listing *listing_begin(struct request *q)
{
	struct listing *listing = calloc(1, sizeof(*listing));

	if (!listing) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	listing->q = q;
	q->of = listing;
	q->gone = listing_gone;
	return listing;
}

static void add_look(struct listing *listing, const char *id)
{
	struct look *look = &listing->looks[listing->count++];

	look->listing = listing;
	snprintf(look->id, sizeof(look->id), "%s", id);
}

void v1_get(struct request *q)
{
	struct listing *listing = listing_begin(q);

	if (!listing)
		return;
	listing->is_single = true;
	add_look(listing, q->sandbox);
	ask_all(listing);
}

/* --- pages: behind the one that the page before ended with, the newest first --- */

struct cursor {
	uint64_t started;
	char id[TRACE_ID_SIZE];
	bool is_set;
};

static bool read_cursor(struct request *q, struct cursor *ret_cursor)
{
	char text[CURSOR_MAX], *end;

	*ret_cursor = (struct cursor){ 0 };
	if (!doc_query_text(q, "after", text, sizeof(text)))
		return true;
	ret_cursor->started = strtoull(text, &end, 10);
	if (end == text || *end != '.' || strlen(end + 1) >= sizeof(ret_cursor->id))
		return false;
	snprintf(ret_cursor->id, sizeof(ret_cursor->id), "%s", end + 1);
	ret_cursor->is_set = true;
	return true;
}

static bool is_behind(const struct cursor *cursor, const struct held *held)
{
	if (!cursor->is_set)
		return true;
	if (held->started != cursor->started)
		return held->started < cursor->started;
	return strcmp(held->id, cursor->id) < 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct held *x = *(const struct held *const *)a, *y = *(const struct held *const *)b;

	if (x->started != y->started)
		return x->started < y->started ? 1 : -1;
	return strcmp(y->id, x->id);
}

static bool is_wanted(const struct request *q, const struct held *held, const char *state)
{
	if (!str_equal(held->tenant, q->tenant_name))
		return false;
	return !state || str_equal(state, held->state == HELD_PAUSED ? "paused" : "running");
}

/* All that are behind the cursor, in their order; the caller frees the list. */
static const struct held **collect(struct request *q, const struct cursor *cursor,
				   size_t *ret_count)
{
	struct registry *registry = q->serve->registry;
	const struct held **list =
		calloc(registry_count(registry, NULL) + 1, sizeof(struct held *));
	char text[16];
	const char *state = doc_query_text(q, "state", text, sizeof(text));
	const struct held *held;
	size_t count = 0, room = registry_count(registry, NULL);

	for (size_t i = 0; list && i < room && (held = registry_at(registry, i)); i++)
		if (is_wanted(q, held, state) && is_behind(cursor, held))
			list[count++] = held;
	if (list)
		qsort(list, count, sizeof(struct held *), newest_first);
	*ret_count = count;
	return list;
}

void v1_list(struct request *q)
{
	size_t limit = (size_t)doc_query_number(q, "limit", PAGE_MAX), count;
	_cleanup_free_ const struct held **list = NULL;
	struct listing *listing;
	struct cursor cursor;
	char usage[8];

	if (!read_cursor(q, &cursor)) {
		answer_error(q, 400, "after: it is not what a \"next\" said");
		return;
	}
	list = collect(q, &cursor, &count);
	listing = list ? listing_begin(q) : NULL;
	if (!list)
		answer_error(q, 503, "out of memory");
	if (!listing)
		return;
	for (size_t i = 0; i < count && i < limit; i++)
		add_look(listing, list[i]->id);
	if (count > limit)
		snprintf(listing->next, sizeof(listing->next), "%" PRIu64 ".%s",
			 list[limit - 1]->started, list[limit - 1]->id);
	if (doc_query_text(q, "usage", usage, sizeof(usage)) && str_equal(usage, "true"))
		ask_all(listing);
	else
		finish(listing);
}
