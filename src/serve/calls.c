#include "serve/calls.h"

#include <stdlib.h>

#define PLACE_BITS 20
#define FIRST_ROOM 64
#define PLACE(id)  ((uint32_t)((id) & ((1u << PLACE_BITS) - 1)))
_Static_assert(CALLS_MAX <= 1 << PLACE_BITS, "a number has room for the place");

static void add_free(struct calls *calls, uint32_t place)
{
	calls->items[place].next_free = 0;
	if (calls->last_free)
		calls->items[calls->last_free].next_free = place;
	else
		calls->first_free = place;
	calls->last_free = place;
}

static bool grow(struct calls *calls)
{
	uint32_t room = calls->room ? calls->room * 2 : FIRST_ROOM, first = calls->room ?: 1;
	struct call *items;

	if (room > CALLS_MAX)
		return false;
	items = realloc(calls->items, room * sizeof(*items));
	if (!items)
		return false;
	for (uint32_t i = calls->room; i < room; i++)
		items[i] = (struct call){ 0 };
	calls->items = items;
	calls->room = room;
	for (uint32_t i = first; i < room; i++)
		add_free(calls, i);
	return true;
}

struct call *calls_begin(struct calls *calls)
{
	uint32_t place;

	if (!calls->first_free && !grow(calls))
		return NULL;
	place = calls->first_free;
	calls->first_free = calls->items[place].next_free;
	if (!calls->first_free)
		calls->last_free = 0;
	calls->items[place] = (struct call){ .id = ++calls->generation << PLACE_BITS | place };
	return &calls->items[place];
}

void calls_end(struct calls *calls, struct call *call)
{
	uint32_t place = PLACE(call->id);

	*call = (struct call){ 0 };
	add_free(calls, place);
}

struct call *calls_find(struct calls *calls, call_id id)
{
	uint32_t place = PLACE(id);

	return id && place < calls->room && calls->items[place].id == id ? &calls->items[place]
									 : NULL;
}

struct call *calls_numbered(struct calls *calls, uint32_t number)
{
	uint32_t place = PLACE(number);

	return place < calls->room && calls->items[place].id &&
			       (uint32_t)calls->items[place].id == number
		       ? &calls->items[place]
		       : NULL;
}

void calls_done(struct calls *calls)
{
	free(calls->items);
	*calls = (struct calls){ 0 };
}
