/*
 * registry.c - which sandboxes there are
 *
 * A sandbox that is not in the store is nobody's. Between its making and its row there is a moment, and
 * after a kill the row goes first; what a daemon left alive in these moments bears the tag of its life
 * (fleet.h) and is ended at the next start.
 */
#include "serve/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/hook.h"
#include "base/str.h"
#include "serve/registry_internal.h"

#define WATCHER_BITS   20
#define WATCHER_PLACES (1u << WATCHER_BITS)
/* A child of an earlier life may be at work on a sandbox for as long as a start may take. */
#define SWEEP_AGAIN_MS 90000

uint64_t registry_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct entry *registry_entry(struct registry *registry, const char *id)
{
	return (struct entry *)id_table_find(&registry->entries, id);
}

int registry_new(struct serve *serve, struct registry **ret_registry, struct err *err)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return err_set(err, -ENOMEM, "out of memory");
	registry->serve = serve;
	*ret_registry = registry;
	return 0;
}

/* --- the list, in the order of their start --- */

static bool is_before(const struct entry *a, const struct entry *b)
{
	if (a->held.started != b->held.started)
		return a->held.started < b->held.started;
	return strcmp(a->held.id, b->held.id) < 0;
}

static int list_add(struct registry *registry, struct entry *entry)
{
	size_t at = registry->count;

	if (registry->count == registry->room) {
		size_t room = registry->room ? registry->room * 2 : 64;
		struct entry **sorted = realloc(registry->sorted, room * sizeof(*sorted));

		if (!sorted)
			return -ENOMEM;
		registry->sorted = sorted;
		registry->room = room;
	}
	for (; at > 0 && is_before(entry, registry->sorted[at - 1]); at--)
		registry->sorted[at] = registry->sorted[at - 1];
	registry->sorted[at] = entry;
	registry->count++;
	return 0;
}

static void list_remove(struct registry *registry, const struct entry *entry)
{
	size_t at = 0;

	while (at < registry->count && registry->sorted[at] != entry)
		at++;
	if (at == registry->count)
		return;
	registry->count--;
	memmove(&registry->sorted[at], &registry->sorted[at + 1],
		(registry->count - at) * sizeof(*registry->sorted));
}

struct held *registry_at(struct registry *registry, size_t index)
{
	return index < registry->count ? &registry->sorted[registry->count - 1 - index]->held
				       : NULL;
}

size_t registry_count(const struct registry *registry, const char *tenant)
{
	size_t count = 0;

	if (!tenant)
		return registry->count;
	for (size_t i = 0; i < registry->count; i++)
		count += str_equal(registry->sorted[i]->held.tenant, tenant);
	return count;
}

struct held *registry_find(struct registry *registry, const char *id, const char *tenant)
{
	struct entry *entry = registry_entry(registry, id);

	return entry && (!tenant || str_equal(entry->held.tenant, tenant)) ? &entry->held : NULL;
}

/* --- changes --- */

static void entry_free(struct entry *entry)
{
	held_done(&entry->held);
	held_done(&entry->saved);
	free(entry);
}

/* The texts are the entry's, also when it fails. */
static struct entry *entry_new(struct registry *registry, struct held *held)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry) {
		held_done(held);
		return NULL;
	}
	entry->registry = registry;
	entry->held = *held;
	snprintf(entry->link.id, sizeof(entry->link.id), "%s", held->id);
	*held = (struct held){ 0 };
	if (held_copy(&entry->held, &entry->saved) < 0) {
		held_done(&entry->held);
		free(entry);
		return NULL;
	}
	return entry;
}

static int entry_insert(struct entry *entry)
{
	struct registry *registry = entry->registry;
	int r = registry_entry(registry, entry->link.id)
			? -EEXIST
			: id_table_add(&registry->entries, &entry->link);

	if (r < 0)
		return r;
	r = list_add(registry, entry);
	if (r < 0)
		id_table_remove(&registry->entries, &entry->link);
	return r;
}

int registry_add(struct registry *registry, struct held *held, struct err *err)
{
	struct entry *entry = entry_new(registry, held);
	int r = entry ? entry_insert(entry) : -ENOMEM;

	if (r < 0) {
		if (entry)
			entry_free(entry);
		return err_errno(err, r, "the registry");
	}
	r = store_put_held(registry->serve->store, &entry->held, err);
	if (r < 0) {
		id_table_remove(&registry->entries, &entry->link);
		list_remove(registry, entry);
		entry_free(entry);
		return r;
	}
	hook_point("serve:create:stored");
	life_set_timer(entry);
	life_renew(entry, true);
	return 0;
}

int registry_save(struct registry *registry, struct held *held, struct err *err)
{
	struct entry *entry = registry_entry(registry, held->id);
	struct held copy = { 0 };
	int r;

	if (!entry || held != &entry->held)
		return err_set(err, -ESRCH, "there is no such sandbox");
	r = held_copy(held, &copy);
	r = r < 0 ? err_set(err, r, "out of memory")
		  : store_put_held(registry->serve->store, held, err);
	if (r == 0) {
		held_done(&entry->saved);
		entry->saved = copy;
		life_set_timer(entry);
		return 0;
	}
	/* It has not happened. */
	held_done(&copy);
	if (held_copy(&entry->saved, &copy) == 0) {
		held_done(&entry->held);
		entry->held = copy;
	}
	return r;
}

/* --- ends --- */

static void tell(void *of)
{
	struct registry *registry = of;
	struct watcher *watcher;

	registry->soon = 0;
	life_tell_finished(registry);
	while ((watcher = registry->ended)) {
		loop_call call = watcher->call;
		void *whose = watcher->of;

		registry_forget(registry, watcher->id);
		call(whose);
	}
}

void registry_tell_soon(struct registry *registry)
{
	if (!registry->soon &&
	    loop_soon(registry->serve->loop, tell, registry, &registry->soon) < 0)
		tell(registry);
}

void registry_bury(struct entry *entry)
{
	struct registry *registry = entry->registry;

	id_table_remove(&registry->entries, &entry->link);
	list_remove(registry, entry);
	/* A row that stays is one of the dead, and goes at the next start. */
	if (store_delete_held(registry->serve->store, entry->link.id) < 0)
		log_line(LOG_WARNING, "sandbox %s has ended, but its row cannot be deleted",
			 entry->link.id);
	entry->timer = loop_cancel(registry->serve->loop, entry->timer);
	life_end_ops(entry);
	while (entry->watchers) {
		struct watcher *watcher = entry->watchers;

		entry->watchers = watcher->next;
		if (watcher->next)
			watcher->next->at = &entry->watchers;
		watcher->next = registry->ended;
		watcher->at = &registry->ended;
		if (watcher->next)
			watcher->next->at = &watcher->next;
		registry->ended = watcher;
	}
	registry_tell_soon(registry);
	entry_free(entry);
}

void registry_remove(struct registry *registry, const char *id)
{
	struct entry *entry = registry_entry(registry, id);

	if (entry)
		registry_bury(entry);
}

/* --- watchers --- */

static int watchers_grow(struct registry *registry)
{
	uint32_t room = registry->watcher_room ? registry->watcher_room * 2 : 64;
	struct watcher **watchers;

	if (room > WATCHER_PLACES)
		return -EUSERS;
	watchers = realloc(registry->watchers, room * sizeof(struct watcher *));
	if (!watchers)
		return -ENOMEM;
	for (uint32_t i = registry->watcher_room; i < room; i++)
		watchers[i] = NULL;
	registry->watchers = watchers;
	registry->watcher_next = registry->watcher_room;
	registry->watcher_room = room;
	return 0;
}

/* The next free place behind the last that was given, or watcher_room. */
static uint32_t watcher_place(const struct registry *registry)
{
	for (uint32_t i = 0; i < registry->watcher_room; i++) {
		uint32_t place = (registry->watcher_next + i) % registry->watcher_room;

		if (!registry->watchers[place])
			return place;
	}
	return registry->watcher_room;
}

int registry_on_end(struct registry *registry, const char *id, loop_call call, void *of,
		    registry_watch *ret_watch)
{
	struct entry *entry = registry_entry(registry, id);
	uint32_t place = watcher_place(registry);
	struct watcher *watcher;
	int r = 0;

	if (!entry)
		return -ESRCH;
	if (place == registry->watcher_room)
		r = watchers_grow(registry);
	watcher = r < 0 ? NULL : calloc(1, sizeof(*watcher));
	if (!watcher)
		return r < 0 ? r : -ENOMEM;
	*watcher = (struct watcher){
		.next = entry->watchers,
		.at = &entry->watchers,
		.id = ++registry->watcher_generation << WATCHER_BITS | place,
		.call = call,
		.of = of,
	};
	if (watcher->next)
		watcher->next->at = &watcher->next;
	entry->watchers = watcher;
	registry->watchers[place] = watcher;
	registry->watcher_next = place + 1;
	*ret_watch = watcher->id;
	return 0;
}

registry_watch registry_forget(struct registry *registry, registry_watch watch)
{
	uint32_t place = (uint32_t)(watch & (WATCHER_PLACES - 1));
	struct watcher *watcher =
		watch && place < registry->watcher_room ? registry->watchers[place] : NULL;

	if (!watcher || watcher->id != watch)
		return 0;
	*watcher->at = watcher->next;
	if (watcher->next)
		watcher->next->at = watcher->at;
	registry->watchers[place] = NULL;
	free(watcher);
	return 0;
}

/* --- the start and the end of the daemon --- */

static bool is_held(void *of, const char *id)
{
	return registry_entry(of, id);
}

static void sweep(void *of)
{
	struct registry *registry = of;
	size_t swept = fleet_sweep(registry->serve->fleet, is_held, registry);

	registry->sweep = 0;
	if (swept > 0)
		log_line(LOG_INFO,
			 "%zu sandboxes that an earlier daemon had made for nobody are ended",
			 swept);
}

/* Takes the texts. Whether it lives. */
static bool adopt(struct registry *registry, struct held *held)
{
	struct entry *entry;

	if (!fleet_adopt(registry->serve->fleet, held->id)) {
		(void)!store_delete_held(registry->serve->store, held->id);
		held_done(held);
		return false;
	}
	entry = entry_new(registry, held);
	if (!entry || entry_insert(entry) < 0) {
		if (entry)
			entry_free(entry);
		return false;
	}
	life_set_timer(entry);
	life_renew(entry, false);
	return true;
}

int registry_load(struct registry *registry, size_t *ret_adopted, size_t *ret_dropped,
		  struct err *err)
{
	_cleanup_free_ struct held *rows = NULL;
	size_t count = 0, adopted = 0;
	int r = store_list_held(registry->serve->store, &rows, &count);

	if (r < 0)
		return err_errno(err, r, "cannot read the sandboxes in the store");
	for (size_t i = 0; i < count; i++)
		adopted += adopt(registry, &rows[i]);
	sweep(registry);
	(void)!loop_after(registry->serve->loop, SWEEP_AGAIN_MS, sweep, registry, &registry->sweep);
	*ret_adopted = adopted;
	*ret_dropped = count - adopted;
	return 0;
}

void registry_free(struct registry *registry)
{
	if (!registry)
		return;
	registry->sweep = loop_cancel(registry->serve->loop, registry->sweep);
	while (registry->count > 0) {
		struct entry *entry = registry->sorted[--registry->count];

		entry->timer = loop_cancel(registry->serve->loop, entry->timer);
		life_end_ops(entry);
		entry_free(entry);
	}
	registry->soon = loop_cancel(registry->serve->loop, registry->soon);
	life_done(registry);
	quota_done(registry);
	for (uint32_t i = 0; i < registry->watcher_room; i++)
		free(registry->watchers[i]);
	free(registry->watchers);
	free(registry->sorted);
	id_table_done(&registry->entries);
	free(registry);
}
