/*
 * id_table.h - things of the daemon that are found by the id of their sandbox (private to serve/)
 *
 * The link is the first member of whatever is kept; the table owns none of it.
 *
 *	struct member { struct id_link link; ... };
 *	r = id_table_add(&table, &member->link);
 *	member = (struct member *)id_table_find(&table, id);
 */
#ifndef BRIG_SERVE_ID_TABLE_H
#define BRIG_SERVE_ID_TABLE_H

#include <stddef.h>

#include "trace/event.h"

struct id_link {
	char id[TRACE_ID_SIZE];
	struct id_link *next;
};

struct id_table {
	struct id_link **slots; /* NULL while it is empty */
	size_t room, count;
};

struct id_link *id_table_find(const struct id_table *table, const char *id); /* NULL: none */
[[nodiscard]] int id_table_add(struct id_table *table,
			       struct id_link *link); /* the id must be new */
void id_table_remove(struct id_table *table, struct id_link *link);
struct id_link *id_table_any(const struct id_table *table); /* NULL when it is empty */
void id_table_done(struct id_table *table);

#endif
