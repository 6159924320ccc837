/* store_held.c - sandboxes that live, or are paused */
#include <errno.h>

#include "serve/store_internal.h"

static const struct column held_columns[] = {
	CHARS_OF(struct held, id),
	CHARS_OF(struct held, tenant),
	ENUM_OF(struct held, state, HELD_COUNT),
	COLUMN_OF(struct held, COLUMN_TEXT, template_id),
	COLUMN_OF(struct held, COLUMN_TEXT, alias),
	COLUMN_OF(struct held, COLUMN_TEXT, metadata),
	COLUMN_OF(struct held, COLUMN_TEXT, env),
	COLUMN_OF(struct held, COLUMN_TEXT, network),
	COLUMN_OF(struct held, COLUMN_TEXT, extra),
	CHARS_OF(struct held, token),
	CHARS_OF(struct held, traffic_token),
	COLUMN_OF(struct held, COLUMN_U64, started),
	COLUMN_OF(struct held, COLUMN_U64, ends),
	COLUMN_OF(struct held, COLUMN_BOOL, pauses),
	COLUMN_OF(struct held, COLUMN_BOOL, resumes),
	COLUMN_OF(struct held, COLUMN_REAL, cpu),
	COLUMN_OF(struct held, COLUMN_U64, memory),
	COLUMN_OF(struct held, COLUMN_U64, disk),
};
static const struct shape held_shape = SHAPE(struct held, held_columns);

void held_done(struct held *held)
{
	row_done(&held_shape, held);
}

int held_copy(const struct held *held, struct held *ret_copy)
{
	struct held copy;
	int r = row_copy(&held_shape, held, &copy);

	if (r == 0)
		*ret_copy = copy;
	return r;
}

int store_put_held(struct store *store, const struct held *held, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_PUT_HELD, &s, err);

	if (r < 0)
		return r;
	r = row_bind(s, &held_shape, held);
	return r < 0 ? err_errno(err, r, "sandbox \"%s\"", held->id) : store_change(store, s, err);
}

int store_delete_held(struct store *store, const char *id)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_DELETE_HELD, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
	return store_change(store, s, NULL);
}

int store_list_held(struct store *store, struct held **ret_held, size_t *ret_count)
{
	sqlite3_stmt *s = NULL;
	void *rows = NULL;
	int r = store_statement(store, STATEMENT_LIST_HELD, &s, NULL);

	if (r == 0)
		r = rows_list(store, s, &held_shape, &rows, ret_count);
	if (r == 0)
		*ret_held = rows;
	return r;
}
