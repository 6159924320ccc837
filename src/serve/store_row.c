/* store_row.c - rows as structs */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/store_internal.h"

static char *text_at(const void *of, const struct column *f)
{
	char *text;

	memcpy(&text, (const char *)of + f->offset, sizeof(text));
	return text;
}

static int64_t number_at(const void *of, const struct column *f)
{
	const char *at = (const char *)of + f->offset;
	unsigned int choice;
	uint64_t number;

	switch (f->kind) {
	case COLUMN_BOOL:
		return *(const bool *)at;
	case COLUMN_ENUM:
		memcpy(&choice, at, sizeof(choice));
		return choice;
	default:
		memcpy(&number, at, sizeof(number));
		return number > INT64_MAX && f->kind == COLUMN_U64 ? INT64_MAX : (int64_t)number;
	}
}

int row_bind(sqlite3_stmt *s, const struct shape *shape, const void *of)
{
	for (size_t i = 0; i < shape->count; i++) {
		const struct column *f = &shape->rows[i];
		int at = (int)i + 1, code;
		const char *text;
		double real;

		switch (f->kind) {
		case COLUMN_CHARS:
			code = sqlite3_bind_text(s, at, (const char *)of + f->offset, -1,
						 SQLITE_STATIC);
			break;
		case COLUMN_TEXT:
			text = text_at(of, f);
			code = sqlite3_bind_text(s, at, text ? text : "", -1, SQLITE_STATIC);
			break;
		case COLUMN_REAL:
			memcpy(&real, (const char *)of + f->offset, sizeof(real));
			code = sqlite3_bind_double(s, at, real);
			break;
		default:
			code = sqlite3_bind_int64(s, at, number_at(of, f));
		}
		if (code != SQLITE_OK)
			return code == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
	}
	return 0;
}

static int read_number(const struct column *f, int64_t number, void *ret)
{
	char *at = (char *)ret + f->offset;

	if (number < 0 && f->kind != COLUMN_I64)
		return -EBADMSG;
	if (f->kind == COLUMN_BOOL) {
		*(bool *)at = number != 0;
	} else if (f->kind == COLUMN_ENUM) {
		unsigned int choice = (unsigned int)number;

		if ((size_t)number >= f->size)
			return -EBADMSG;
		memcpy(at, &choice, sizeof(choice));
	} else {
		memcpy(at, &number, sizeof(number));
	}
	return 0;
}

static int read_text(sqlite3_stmt *s, int column, const struct column *f, void *ret)
{
	const char *text = (const char *)sqlite3_column_text(s, column);
	size_t len = (size_t)sqlite3_column_bytes(s, column);
	char *at = (char *)ret + f->offset, **place;

	if (!text)
		return sqlite3_errcode(sqlite3_db_handle(s)) == SQLITE_NOMEM ? -ENOMEM : -EBADMSG;
	if (f->kind == COLUMN_CHARS) {
		if (len >= f->size || strlen(text) != len)
			return -EBADMSG;
		memcpy(at, text, len + 1);
		return 0;
	}
	place = (void *)at;
	*place = strdup(text);
	return *place ? 0 : -ENOMEM;
}

int row_read(sqlite3_stmt *s, const struct shape *shape, void *ret)
{
	int r = 0;

	memset(ret, 0, shape->size);
	for (size_t i = 0; i < shape->count && r == 0; i++) {
		const struct column *f = &shape->rows[i];

		if (f->kind == COLUMN_CHARS || f->kind == COLUMN_TEXT) {
			r = read_text(s, (int)i, f, ret);
		} else if (f->kind == COLUMN_REAL) {
			double real = sqlite3_column_double(s, (int)i);

			memcpy((char *)ret + f->offset, &real, sizeof(real));
		} else {
			r = read_number(f, sqlite3_column_int64(s, (int)i), ret);
		}
	}
	if (r < 0)
		row_done(shape, ret);
	return r;
}

int row_copy(const struct shape *shape, const void *of, void *ret)
{
	bool is_short = false;

	memcpy(ret, of, shape->size);
	for (size_t i = 0; i < shape->count; i++) {
		const struct column *f = &shape->rows[i];
		char *copy = NULL;

		if (f->kind != COLUMN_TEXT)
			continue;
		if (!is_short)
			copy = strdup(text_at(of, f) ? text_at(of, f) : "");
		is_short = !copy;
		memcpy((char *)ret + f->offset, &copy, sizeof(copy));
	}
	if (is_short)
		row_done(shape, ret);
	return is_short ? -ENOMEM : 0;
}

void row_done(const struct shape *shape, void *of)
{
	char *none = NULL;

	for (size_t i = 0; i < shape->count; i++) {
		const struct column *f = &shape->rows[i];

		if (f->kind != COLUMN_TEXT)
			continue;
		free(text_at(of, f));
		memcpy((char *)of + f->offset, &none, sizeof(none));
	}
}

int rows_list(struct store *store, sqlite3_stmt *s, const struct shape *shape, void **ret_rows,
	      size_t *ret_count)
{
	size_t count = 0, room = 0;
	char *rows = NULL;
	int r;

	while ((r = store_next(store, s, NULL)) > 0) {
		if (count == room) {
			size_t more = room ? room * 2 : 16;
			char *grown = reallocarray(rows, more, shape->size);

			if (!grown) {
				r = -ENOMEM;
				break;
			}
			rows = grown;
			room = more;
		}
		r = row_read(s, shape, rows + count * shape->size);
		if (r < 0)
			break;
		count++;
	}
	store_reset(s);
	if (r < 0) {
		while (count > 0)
			row_done(shape, rows + --count * shape->size);
		free(rows);
		return r;
	}
	*ret_rows = rows;
	*ret_count = count;
	return 0;
}
