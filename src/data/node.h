/*
 * node.h - one tree for what was read from YAML or JSON and for what is written as JSON
 *
 * A node owns its children. Every node remembers the line and column (from 1) where it stood, so
 * that an error can point at it; nodes made by code have line 0. Maps keep the order of the file and
 * have no duplicate keys.
 *
 *	_cleanup_(node_freep) struct node *map = node_map();
 *	r = node_set(map, "exit_code", node_int(0));
 *	r = node_set(map, "stdout", node_string("hi"));
 *
 * The setters take over the child also when they fail, and a NULL child (out of memory in a
 * constructor) is -ENOMEM, so a chain of them needs one check each and leaks nothing.
 */
#ifndef BRIG_DATA_NODE_H
#define BRIG_DATA_NODE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/macro.h"

enum node_kind { NODE_NULL, NODE_BOOL, NODE_INT, NODE_FLOAT, NODE_STRING, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	unsigned int line, column;
	char *text;     /* STRING: the value; INT, FLOAT: as written in the source, else NULL */
	size_t len;     /* STRING: its length; only node_bytes() makes one with NULs inside */
	int64_t number; /* BOOL (0, 1), INT */
	double real;    /* FLOAT */
	struct node_entry *entries; /* LIST and MAP, in order */
	size_t count, room;
};

struct node_entry {
	char *key;                 /* NULL in a list */
	unsigned int line, column; /* of the key */
	struct node *value;
};

struct node *node_null(void);
struct node *node_bool(bool value);
struct node *node_int(int64_t value);
struct node *node_float(double value);
struct node *node_string(const char *text);
struct node *node_bytes(const char *data, size_t len); /* a string that must be valid UTF-8 */
struct node *node_list(void);
struct node *node_map(void);
struct node *node_copy(const struct node *node);
void node_free(struct node *node); /* NULL allowed; never recurses deeper than the parser's bound */

static inline void node_freep(struct node **node)
{
	node_free(*node);
}

int node_add(struct node *list, struct node *child);
int node_set(struct node *map, const char *key,
	     struct node *child); /* replaces an entry of the same name */

/* As node_set() for a key that the caller knows to be new: a map of many entries is built without a
 * search each. */
int node_set_new(struct node *map, const char *key, struct node *child);

const struct node *node_get(const struct node *map,
			    const char *key); /* NULL when absent or not a map */
bool node_equal(const struct node *a,
		const struct node *b); /* by value; order of map entries aside */
const char *node_kind_name(
	enum node_kind kind); /* "a list", "a map", "text", "a whole number", ... */

/*
 * Reads JSON as RFC 8259 has it, and nothing beside: one value in UTF-8 with nothing behind it. Refused, with
 * line and column (in bytes): a key twice in one map, half of a surrogate pair, the character NUL even as an
 * escape (who takes a text for a C string must get all of it), numbers beyond what a float can hold, and more
 * than the bounds allow. A whole number is an INT where 64 bits hold it, and else a FLOAT, whose text is as it
 * was written. Linear in the input. YAML's reader (yaml.h) is for files that people write.
 */
struct json_bounds {
	size_t bytes;       /* of the input */
	size_t values;      /* in all: each takes some hundred bytes, however short it was */
	unsigned int depth; /* of lists and maps in each other */
};
#define JSON_BOUNDS ((struct json_bounds){ .bytes = 1 * MIB, .values = 1 << 16, .depth = 64 })

/* bounds: NULL for JSON_BOUNDS. -EINVAL; -EMSGSIZE beyond the bounds; -ENOMEM. */
[[nodiscard]] int json_read(const char *text, size_t len, const struct json_bounds *bounds,
			    struct node **ret_node, struct err *err);

/*
 * Writes JSON. Canonical: map entries sorted by the bytes of their keys, no white space, the
 * shortest escapes, so that equal trees give equal bytes. Otherwise two spaces of indentation a
 * level, and entries in their order.
 */
[[nodiscard]] int json_write(const struct node *node, bool canonical, struct buf *buf);

/* One JSON string with its quotes. Invalid UTF-8 becomes U+FFFD; control characters are escaped. */
[[nodiscard]] int json_write_string(const char *text, size_t len, struct buf *buf);

#endif
