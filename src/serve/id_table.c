#include "serve/id_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/str.h"

#define FIRST_ROOM 64

/* Ids are random, made by us: nobody can choose them so that they meet. */
static size_t slot_of(const struct id_table *table, const char *id)
{
	size_t hash = 5381;

	for (; *id; id++)
		hash = hash * 33 ^ (unsigned char)*id;
	return hash & (table->room - 1);
}

struct id_link *id_table_find(const struct id_table *table, const char *id)
{
	struct id_link *link = table->count ? table->slots[slot_of(table, id)] : NULL;

	while (link && !str_equal(link->id, id))
		link = link->next;
	return link;
}

static void put(struct id_table *table, struct id_link *link)
{
	struct id_link **slot = &table->slots[slot_of(table, link->id)];

	link->next = *slot;
	*slot = link;
}

static int grow(struct id_table *table)
{
	struct id_table larger = { .room = table->room ? table->room * 2 : FIRST_ROOM };

	larger.slots = calloc(larger.room, sizeof(struct id_link *));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < table->room; i++)
		for (struct id_link *link = table->slots[i], *next; link; link = next) {
			next = link->next;
			put(&larger, link);
		}
	larger.count = table->count;
	free(table->slots);
	*table = larger;
	return 0;
}

int id_table_add(struct id_table *table, struct id_link *link)
{
	int r = table->count >= table->room ? grow(table) : 0;

	if (r < 0)
		return r;
	put(table, link);
	table->count++;
	return 0;
}

void id_table_remove(struct id_table *table, struct id_link *link)
{
	struct id_link **at = table->count ? &table->slots[slot_of(table, link->id)] : NULL;

	while (at && *at && *at != link)
		at = &(*at)->next;
	if (!at || !*at)
		return;
	*at = link->next;
	table->count--;
}

struct id_link *id_table_any(const struct id_table *table)
{
	for (size_t i = 0; i < table->room; i++)
		if (table->slots[i])
			return table->slots[i];
	return NULL;
}

void id_table_done(struct id_table *table)
{
	free(table->slots);
	*table = (struct id_table){ 0 };
}
