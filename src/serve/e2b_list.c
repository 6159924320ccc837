/*
 * e2b_list.c - GET /sandboxes and /v2/sandboxes
 *
 * Filters: metadata (all pairs must be there), state, template, startedAfter. A page is what comes behind the
 * last sandbox that the client has seen, by its start and id: so it stays right while others come and go.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/e2b_control.h"
#include "serve/pairs.h"

#define LIST_MAX     5000 /* without pages */
#define LIST_BYTES   (4 * MIB)
#define LISTED_BYTES 512 /* of one, without its metadata */

struct filter {
	char text[PAIRS_TEXT_MAX];
	struct pairs metadata;
	bool states[HELD_COUNT];
	char template[1025]; /* "": any */
	char template_id[33];
	uint64_t started_after;
	struct page page;
};

static bool read_metadata(struct request *q, struct filter *filter)
{
	int r = query_get(q, "metadata", 0, filter->text, sizeof(filter->text));

	if (r == -ENOENT || (r == 0 && pairs_read(filter->text, &filter->metadata)))
		return true;
	refuse(q, 400, "\"metadata\" must be pairs as in a query, each encoded: a=1&b=2");
	return false;
}

static bool add_state(struct filter *filter, const char *word)
{
	static const char *const words[HELD_COUNT] = {
		[HELD_RUNNING] = "running", [HELD_PAUSED] = "paused"
	};

	for (size_t i = 0; i < HELD_COUNT; i++)
		if (str_equal(word, words[i])) {
			filter->states[i] = true;
			return true;
		}
	return false;
}

/* "running,paused", or several of them. */
static bool read_states(struct request *q, struct filter *filter)
{
	char text[128], *rest, *word;
	size_t n = 0;
	int r;

	while ((r = query_get(q, "state", n, text, sizeof(text))) == 0) {
		for (rest = text; (word = strsep(&rest, ","));)
			if (!add_state(filter, word))
				r = -EINVAL;
		if (r < 0)
			break;
		n++;
	}
	if (r != -ENOENT) {
		refuse(q, 400, "\"state\" must be of: running, paused");
		return false;
	}
	if (n == 0)
		filter->states[HELD_RUNNING] = filter->states[HELD_PAUSED] = true;
	return true;
}

/* The template as it was named, and what that leads to. A name of nothing fits no sandbox. */
static bool read_template(struct request *q, struct filter *filter)
{
	_cleanup_(template_done) struct template t = { 0 };
	int r = query_get(q, "template", 0, filter->template, sizeof(filter->template));

	if (r == -ENOENT || (r == 0 && !filter->template[0]))
		return true;
	if (r < 0) {
		refuse(q, 400, "\"template\" is too long, or has odd bytes");
		return false;
	}
	if (make_find_template(q->serve, q->tenant_name, filter->template, &t) == 0)
		snprintf(filter->template_id, sizeof(filter->template_id), "%s", t.id);
	return true;
}

/* RFC 3339, the zone too; a fraction of a second is passed over. */
static bool read_time(const char *text, uint64_t *ret_ms)
{
	struct tm tm = { 0 };
	int hours = 0, minutes = 0;
	const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	char sign;
	time_t at;

	if (!p)
		return false;
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	/* A "+" that nobody encoded is a space by now. */
	if (sscanf(p, "%c%2d:%2d", &sign, &hours, &minutes) == 3) {
		if (sign != '+' && sign != '-' && sign != ' ')
			return false;
	} else if (!str_equal(p, "Z") && *p) {
		return false;
	} else {
		sign = '+';
	}
	at = timegm(&tm) - (sign == '-' ? -1 : 1) * ((time_t)hours * 3600 + (time_t)minutes * 60);
	if (at < 0)
		return false;
	*ret_ms = (uint64_t)at * 1000;
	return true;
}

static bool read_order(struct request *q, struct filter *filter)
{
	char text[64];
	int r = query_get(q, "order", 0, text, sizeof(text));

	if (r != -ENOENT && (r < 0 || (!str_equal(text, "asc") && !str_equal(text, "desc")))) {
		refuse(q, 400, "\"order\" must be asc or desc");
		return false;
	}
	filter->page.is_oldest_first = r == 0 && str_equal(text, "asc");
	r = query_get(q, "startedAfter", 0, text, sizeof(text));
	if (r != -ENOENT && (r < 0 || !read_time(text, &filter->started_after))) {
		refuse(q, 400, "\"startedAfter\" must be a time: 2026-01-31T12:00:00Z");
		return false;
	}
	return true;
}

static bool has_pairs(const struct filter *filter, const struct held *held)
{
	_cleanup_(node_freep) struct node *metadata = NULL;

	if (filter->metadata.count == 0)
		return true;
	metadata = extra_json(held->metadata);
	for (size_t i = 0; i < filter->metadata.count; i++) {
		const struct node *value = node_get(metadata, filter->metadata.items[i].key);

		if (!value || value->kind != NODE_STRING ||
		    !str_equal(value->text, filter->metadata.items[i].value))
			return false;
	}
	return true;
}

static bool fits(const struct filter *filter, const struct held *held)
{
	if (filter->template[0] && !str_equal(held->template_id, filter->template_id) &&
	    !str_equal(held->template_id, filter->template) &&
	    !str_equal(held->alias, filter->template))
		return false;
	return filter->states[held->state] && held->started >= filter->started_after &&
	       has_pairs(filter, held);
}

/* --- the answer --- */

struct found {
	struct held **items;
	size_t count, running;
};

static int by_page(const void *a, const void *b, void *is_oldest_first)
{
	const struct held *x = *(struct held *const *)a, *y = *(struct held *const *)b;

	return page_order(*(const bool *)is_oldest_first, x->started, x->id, y->started, y->id);
}

/* Of this tenant, in the order of the page; those that run are counted whether they were seen or not. */
static int find_all(struct request *q, struct filter *filter, struct found *ret_found)
{
	struct registry *registry = q->serve->registry;
	size_t room = registry_count(registry, q->tenant_name);
	struct found found = { .items = calloc(room + 1, sizeof(*found.items)) };
	struct held *held;

	if (!found.items)
		return -ENOMEM;
	for (size_t i = 0; (held = registry_at(registry, i)) && found.count < room; i++) {
		if (!str_equal(held->tenant, q->tenant_name) || !fits(filter, held))
			continue;
		found.running += held->state == HELD_RUNNING;
		if (page_is_behind(&filter->page, held->started, held->id))
			found.items[found.count++] = held;
	}
	qsort_r(found.items, found.count, sizeof(*found.items), by_page,
		&filter->page.is_oldest_first);
	*ret_found = found;
	return 0;
}

static struct node *shape_all(struct held *const *items, size_t count)
{
	struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++)
		r = node_add(list, shape_listed(items[i]));
	if (r == 0)
		return list;
	node_free(list);
	return NULL;
}

static void answer_page(struct request *q, struct filter *filter)
{
	struct found found = { 0 };
	char number[24];
	size_t count;

	if (find_all(q, filter, &found) < 0) {
		answer_error(q, 503, "out of memory");
		return;
	}
	count = MIN(found.count, filter->page.limit);
	if (count < found.count)
		page_next(q, found.items[count - 1]->started, found.items[count - 1]->id);
	snprintf(number, sizeof(number), "%zu", found.running);
	exchange_header(q->x, "X-Total-Running", number);
	answer_take_json(q, 200, shape_all(found.items, count));
	free(found.items);
}

void control_list_v2(struct request *q)
{
	_cleanup_free_ struct filter *filter = calloc(1, sizeof(*filter));

	if (!filter)
		answer_error(q, 503, "out of memory");
	else if (page_read(q, &filter->page) && read_order(q, filter) && read_states(q, filter) &&
		 read_template(q, filter) && read_metadata(q, filter))
		answer_page(q, filter);
}

static size_t bytes_of(const struct found *found)
{
	size_t bytes = 0;

	for (size_t i = 0; i < found->count; i++)
		bytes += strlen(found->items[i]->metadata) + LISTED_BYTES;
	return bytes;
}

/* Those that run, all at once. */
void control_list(struct request *q)
{
	_cleanup_free_ struct filter *filter = calloc(1, sizeof(*filter));
	struct found found = { 0 };

	if (!filter) {
		answer_error(q, 503, "out of memory");
		return;
	}
	filter->states[HELD_RUNNING] = true;
	if (!read_metadata(q, filter))
		return;
	if (find_all(q, filter, &found) < 0)
		answer_error(q, 503, "out of memory");
	else if (found.count > LIST_MAX || bytes_of(&found) > LIST_BYTES)
		refuse(q, 400,
		       "too many sandboxes run for one answer: ask for pages of "
		       "/v2/sandboxes");
	else
		answer_take_json(q, 200, shape_all(found.items, found.count));
	free(found.items);
}
