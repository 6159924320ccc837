/*
 * live.h - what the verbs for sandboxes that live have in common
 *
 * Their options and words, tables of text, figures for a person, and lists for a program.
 */
#ifndef BRIG_CLI_LIVE_H
#define BRIG_CLI_LIVE_H

#include <stdbool.h>

#include "base/buf.h"
#include "cli/cli.h"

/* The last rows of their options. */
#define LIVE_OPTIONS                                                                  \
	{ 0, "json", NULL, "print JSON" },                                            \
		{ 0, "schema", NULL, "print the JSON Schema of what --json prints" }, \
		{ 'h', "help", NULL, "this text" },                                   \
	{                                                                             \
		0                                                                     \
	}

/* Where an option goes: a switch has a place, one with an argument a value. */
struct live_option {
	const char *name;
	bool *place;
	const char **value;
};

/*
 * Options and words in any order; behind "--" are words only. Afterwards the words are argv[1] and
 * following; the number of them, or -EINVAL.
 */
[[nodiscard]] int live_arguments(int argc, char **argv, const struct verb *verb,
				 const struct live_option *options, size_t count, struct err *err);

/*
 * Rows of text in columns as wide as they need to be. Cells are foreign text: they are made harmless
 * to a terminal.
 */
struct table {
	struct strv cells; /* row by row */
	size_t columns;
	int failure;
};

void table_add(struct table *table, const char *cell); /* NULL or "": "-" */
void table_print(const struct table *table, struct buf *out);
void table_done(struct table *table);

/* Room for any of these. */
#define FIGURE_SIZE 32

/* Short and rounded, as a person wants it: "12.3M", "4m", "1h". */
void figure_bytes(uint64_t bytes, char text[static FIGURE_SIZE]);
void figure_age(uint64_t ms, char text[static FIGURE_SIZE]);

/* The text of a key of a manifest, or NULL. */
const char *manifest_text(const struct node *manifest, const char *key);

/* Removes what wardens that were killed have left: in the roster, and of private folders. */
void live_sweep(void);

/* Writes to standard output. Nobody reading any more is no error. */
[[nodiscard]] int put_text(const struct buf *text);

/* Adds a number, or null when it is not known (UINT64_MAX). */
[[nodiscard]] int set_known(struct node *map, const char *key, uint64_t value);

#endif
