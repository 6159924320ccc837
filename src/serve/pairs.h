/*
 * pairs.h - a filter by metadata, as the field's clients write it
 *
 * They encode each key and value, then all pairs together as a query, and that once more as the value of
 * "metadata": {"k a": "v&b"} comes as metadata=k%252520a%3Dv%252526b. The last of the three was undone when the query
 * was read; the other two are undone here.
 */
#ifndef BRIG_SERVE_PAIRS_H
#define BRIG_SERVE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#define PAIRS_TEXT_MAX 32768 /* bytes of the text, with its NUL */
#define PAIRS_MAX      64

struct pairs {
	struct pair {
		const char *key, *value; /* in the text */
	} items[PAIRS_MAX];
	size_t count;
};

/* Decodes in place; the pairs point into the text. False: it is none, or there are too many. */
bool pairs_read(char text[PAIRS_TEXT_MAX], struct pairs *ret_pairs);

#endif
