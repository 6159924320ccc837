/*
 * yaml_internal.h - the cursor that the parts of the YAML reader share
 *
 * yaml_cursor.c knows lines and places, yaml_scalar.c what one scalar is, yaml.c collections.
 * Between two block nodes the cursor always stands at the first byte of content of a line, or at
 * the end of the document (indent is -1 then). All bytes were checked once before: there is no NUL,
 * no control byte but tab, LF and CR, and only valid UTF-8, so '\0' from peek() means the end.
 */
#ifndef BRIG_DATA_YAML_INTERNAL_H
#define BRIG_DATA_YAML_INTERNAL_H

#include <errno.h>

#include "data/yaml.h"

struct yaml {
	const char *name;
	const char *p, *end;
	const char *line_start;
	unsigned int line;
	int indent;      /* spaces before the content of this line, -1 at the end of the document */
	const char *tab; /* the first tab before the content of this line, else NULL */
	unsigned int depth;
	const char *column_at; /* the last column asked for: counting goes on from there, */
	unsigned int column;   /* so that a long line is not counted again and again */
	struct err *err;
};

struct place {
	unsigned int line, column;
};

struct scalar {
	char *text;
	size_t len;
	bool quoted;
	struct place place;
};

static inline void scalar_done(struct scalar *scalar)
{
	free(scalar->text);
	scalar->text = NULL;
}

static inline char peek(const struct yaml *y, size_t ahead)
{
	return ahead < (size_t)(y->end - y->p) ? y->p[ahead] : '\0';
}

static inline bool is_break(char c)
{
	return c == '\n' || c == '\r';
}

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* White space or the end: what must stand behind "-", ":" and "---". */
static inline bool is_gap(char c)
{
	return c == '\0' || is_blank(c) || is_break(c);
}

static inline bool is_flow_mark(char c)
{
	return c == ',' || c == '[' || c == ']' || c == '{' || c == '}';
}

struct place yaml_place(struct yaml *y, const char *at); /* at is on the current line */
void yaml_report(struct yaml *y, struct place place, const char *fmt, ...) _printf_(3, 4);

/* Both are -EINVAL, visibly, so that a compiler knows that a failure is one. */
#define yaml_fail_at(y, place, ...) (yaml_report(y, place, __VA_ARGS__), -EINVAL)
#define yaml_fail(y, at, ...)       yaml_fail_at(y, yaml_place(y, at), __VA_ARGS__)

static inline int yaml_fail_tab(struct yaml *y, const char *at)
{
	return yaml_fail(y, at, "a tab in the indentation: use spaces");
}

static inline int yaml_no_memory(struct yaml *y)
{
	err_set(y->err, -ENOMEM, "%s: out of memory", y->name);
	return -ENOMEM;
}

void yaml_newline(struct yaml *y); /* over one line break */
bool yaml_blanks(struct yaml *y);  /* over spaces and tabs; whether there were any */
int yaml_comment(struct yaml *y,
		 bool spaced);         /* to the line break; spaced: white space is before it */
int yaml_finish_line(struct yaml *y);  /* to the line break, over a comment; more is an error */
int yaml_next_content(struct yaml *y); /* from a line break or the start of a line */

/* "---" or "..." at the start of a line, alone or followed by white space. */
bool yaml_at_marker(const struct yaml *y, const char *marker);

/* The first pass: UTF-8 and no control bytes, to the end. */
[[nodiscard]] int yaml_check_bytes(struct yaml *y);

/* Refuses between from and to what YAML versions read differently or a terminal obeys. */
int yaml_check_span(struct yaml *y, const char *from, const char *to);

/* A plain or quoted scalar on one line, and what it means. */
[[nodiscard]] int yaml_scan_scalar(struct yaml *y, bool flow, struct scalar *ret_scalar);
[[nodiscard]] int yaml_check_key(struct yaml *y, const struct scalar *key);
[[nodiscard]] int yaml_resolve(struct yaml *y, struct scalar *scalar, struct node **ret_node);

/* The text of a "|" or ">" whose surroundings are indented by parent; ends like next_content. */
[[nodiscard]] int yaml_block_scalar(struct yaml *y, int parent, struct node **ret_node);

#endif
