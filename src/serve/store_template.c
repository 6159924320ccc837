/* store_template.c - images under names */
#include <errno.h>
#include <string.h>

#include "serve/store_internal.h"

static const struct column template_columns[] = {
	CHARS_OF(struct template, id),
	CHARS_OF(struct template, tenant),
	ENUM_OF(struct template, kind, TEMPLATE_SNAPSHOT + 1),
	COLUMN_OF(struct template, COLUMN_TEXT, name),
	COLUMN_OF(struct template, COLUMN_TEXT, tags),
	COLUMN_OF(struct template, COLUMN_TEXT, image),
	COLUMN_OF(struct template, COLUMN_TEXT, env),
	COLUMN_OF(struct template, COLUMN_TEXT, workdir),
	COLUMN_OF(struct template, COLUMN_TEXT, user),
	COLUMN_OF(struct template, COLUMN_TEXT, start),
	COLUMN_OF(struct template, COLUMN_TEXT, ready),
	COLUMN_OF(struct template, COLUMN_TEXT, source),
	COLUMN_OF(struct template, COLUMN_REAL, cpu),
	COLUMN_OF(struct template, COLUMN_U64, memory),
	COLUMN_OF(struct template, COLUMN_U64, disk),
	COLUMN_OF(struct template, COLUMN_U64, bytes),
	COLUMN_OF(struct template, COLUMN_U64, created),
	COLUMN_OF(struct template, COLUMN_U64, updated),
};
static const struct shape template_shape = SHAPE(struct template, template_columns);

void template_done(struct template *t)
{
	row_done(&template_shape, t);
}

int store_put_template(struct store *store, const struct template *t, struct err *err)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_PUT_TEMPLATE, &s, err);

	if (r < 0)
		return r;
	r = row_bind(s, &template_shape, t);
	return r < 0 ? err_errno(err, r, "template \"%s\"", t->id) : store_change(store, s, err);
}

int store_delete_template(struct store *store, const char *id)
{
	sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_DELETE_TEMPLATE, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
	r = store_change(store, s, NULL);
	if (r < 0)
		return r;
	return sqlite3_changes(store->db) == 0 ? -ENOENT : 0;
}

int store_template_bytes(struct store *store, const char *tenant, uint64_t *ret_bytes)
{
	_cleanup_reset_ sqlite3_stmt *s = NULL;
	int r = store_statement(store, STATEMENT_TEMPLATE_BYTES, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, tenant, -1, SQLITE_STATIC);
	r = store_next(store, s, NULL);
	if (r > 0)
		*ret_bytes = (uint64_t)sqlite3_column_int64(s, 0);
	return r < 0 ? r : 0;
}

/* tag: NULL where none was asked for. */
static int find(struct store *store, const char *tenant, const char *name, size_t len,
		const char *tag, struct template *ret_template)
{
	_cleanup_reset_ sqlite3_stmt *s = NULL;
	struct template found;
	int r = store_statement(store, STATEMENT_GET_TEMPLATE, &s, NULL);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, tenant, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 2, name, (int)len, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 3, tag ? tag : "default", -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 4, tag ? 1 : 0);
	r = store_next(store, s, NULL);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	r = row_read(s, &template_shape, &found);
	if (r == 0)
		*ret_template = found;
	return r;
}

int store_get_template(struct store *store, const char *tenant, const char *word,
		       struct template *ret_template)
{
	const char *colon = strrchr(word, ':');
	size_t len = strlen(word);
	int r;

	if (len == 0 || len > 1024)
		return -ENOENT;
	r = find(store, tenant, word, len, NULL, ret_template);
	if (r != -ENOENT || !colon || colon == word)
		return r;
	return find(store, tenant, word, (size_t)(colon - word), colon + 1, ret_template);
}

int store_list_templates(struct store *store, const char *tenant, struct template **ret_templates,
			 size_t *ret_count)
{
	sqlite3_stmt *s = NULL;
	void *rows = NULL;
	int r = store_statement(store, STATEMENT_LIST_TEMPLATES, &s, NULL);

	if (r < 0)
		return r;
	if (tenant)
		(void)sqlite3_bind_text(s, 1, tenant, -1, SQLITE_STATIC);
	r = rows_list(store, s, &template_shape, &rows, ret_count);
	if (r == 0)
		*ret_templates = rows;
	return r;
}
