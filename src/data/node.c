#include "data/node.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "data/node_internal.h"

static struct node *node_new(enum node_kind kind)
{
	struct node *node = calloc(1, sizeof(*node));

	if (node)
		node->kind = kind;
	return node;
}

struct node *node_null(void)
{
	return node_new(NODE_NULL);
}

struct node *node_bool(bool value)
{
	struct node *node = node_new(NODE_BOOL);

	if (node)
		node->number = value;
	return node;
}

struct node *node_int(int64_t value)
{
	struct node *node = node_new(NODE_INT);

	if (node)
		node->number = value;
	return node;
}

struct node *node_float(double value)
{
	struct node *node = node_new(NODE_FLOAT);

	if (node)
		node->real = value;
	return node;
}

static char *copy_bytes(const char *data, size_t len)
{
	char *text = malloc(len + 1);

	if (!text)
		return NULL;
	if (len > 0)
		memcpy(text, data, len);
	text[len] = '\0';
	return text;
}

struct node *node_bytes(const char *data, size_t len)
{
	struct node *node = node_new(NODE_STRING);

	if (!node)
		return NULL;
	node->text = copy_bytes(data, len);
	if (!node->text) {
		node_free(node);
		return NULL;
	}
	node->len = len;
	return node;
}

struct node *node_string(const char *text)
{
	return node_bytes(text, strlen(text));
}

struct node *node_list(void)
{
	return node_new(NODE_LIST);
}

struct node *node_map(void)
{
	return node_new(NODE_MAP);
}

void node_free(struct node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->count; i++) {
		free(node->entries[i].key);
		node_free(node->entries[i].value);
	}
	free(node->entries);
	free(node->text);
	free(node);
}

static int copy_entries(const struct node *from, struct node *to)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct node_entry *entry = &from->entries[i];
		char *key = NULL;
		int r;

		if (entry->key) {
			key = strdup(entry->key);
			if (!key)
				return -ENOMEM;
		}
		r = node_append(to, key, node_copy(entry->value));
		if (r < 0)
			return r;
		to->entries[i].line = entry->line;
		to->entries[i].column = entry->column;
	}
	return 0;
}

static int copy_content(const struct node *from, struct node *to)
{
	to->line = from->line;
	to->column = from->column;
	to->number = from->number;
	to->real = from->real;
	to->len = from->len;
	if (from->text) {
		/* The source of a number has no length of its own. */
		to->text = copy_bytes(from->text,
				      from->kind == NODE_STRING ? from->len : strlen(from->text));
		if (!to->text)
			return -ENOMEM;
	}
	return copy_entries(from, to);
}

struct node *node_copy(const struct node *node)
{
	struct node *copy = node_new(node->kind);

	if (copy && copy_content(node, copy) < 0) {
		node_free(copy);
		return NULL;
	}
	return copy;
}

static int make_room(struct node *parent)
{
	size_t room = parent->room ? parent->room * 2 : 4;
	struct node_entry *entries;

	if (parent->count < parent->room)
		return 0;
	entries = reallocarray(parent->entries, room, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	parent->entries = entries;
	parent->room = room;
	return 0;
}

int node_append(struct node *parent, char *key, struct node *child)
{
	/* A parent that could not be made is one more way to be out of memory. */
	int r = parent && child ? make_room(parent) : -ENOMEM;

	if (r < 0) {
		free(key);
		node_free(child);
		return r;
	}
	parent->entries[parent->count++] = (struct node_entry){ .key = key, .value = child };
	return 0;
}

int node_add(struct node *list, struct node *child)
{
	if (list && list->kind != NODE_LIST) {
		node_free(child);
		return -EINVAL;
	}
	return node_append(list, NULL, child);
}

static struct node_entry *find(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (size_t i = 0; i < map->count; i++)
		if (str_equal(map->entries[i].key, key))
			return &map->entries[i];
	return NULL;
}

int node_set(struct node *map, const char *key, struct node *child)
{
	struct node_entry *entry = find(map, key);

	if (map && map->kind != NODE_MAP) {
		node_free(child);
		return -EINVAL;
	}
	if (!child)
		return -ENOMEM;
	if (entry) {
		node_free(entry->value);
		entry->value = child;
		return 0;
	}
	return node_set_new(map, key, child);
}

int node_set_new(struct node *map, const char *key, struct node *child)
{
	char *copy;

	if (!map || !child || !(copy = strdup(key))) {
		node_free(child);
		return -ENOMEM;
	}
	return node_append(map, copy, child);
}

const struct node *node_get(const struct node *map, const char *key)
{
	const struct node_entry *entry = find(map, key);

	return entry ? entry->value : NULL;
}

static int by_key(const void *a, const void *b)
{
	const struct node_entry *x = *(const struct node_entry *const *)a;
	const struct node_entry *y = *(const struct node_entry *const *)b;
	int r = strcmp(x->key, y->key);

	/* Both stand in one array, so their addresses are their order in the map. */
	return r ? r : (x > y) - (x < y);
}

int node_sorted(const struct node *map, const struct node_entry ***ret_sorted)
{
	const struct node_entry **sorted = NULL;

	if (map->count > 0) {
		sorted = calloc(map->count, sizeof(*sorted));
		if (!sorted)
			return -ENOMEM;
		for (size_t i = 0; i < map->count; i++)
			sorted[i] = &map->entries[i];
		qsort(sorted, map->count, sizeof(*sorted), by_key);
	}
	*ret_sorted = sorted;
	return 0;
}

static bool lists_equal(const struct node *a, const struct node *b)
{
	for (size_t i = 0; i < a->count; i++)
		if (!node_equal(a->entries[i].value, b->entries[i].value))
			return false;
	return true;
}

/* Without memory to sort in: slow, but a question that has an answer gets it. */
static bool maps_equal_unsorted(const struct node *a, const struct node *b)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct node *other = node_get(b, a->entries[i].key);

		if (!other || !node_equal(a->entries[i].value, other))
			return false;
	}
	return true;
}

static bool maps_equal(const struct node *a, const struct node *b)
{
	_cleanup_free_ const struct node_entry **x = NULL;
	_cleanup_free_ const struct node_entry **y = NULL;

	if (node_sorted(a, &x) < 0 || node_sorted(b, &y) < 0)
		return maps_equal_unsorted(a, b);
	for (size_t i = 0; i < a->count; i++)
		if (!str_equal(x[i]->key, y[i]->key) || !node_equal(x[i]->value, y[i]->value))
			return false;
	return true;
}

bool node_equal(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind || a->count != b->count)
		return false;
	switch (a->kind) {
	case NODE_NULL:
		return true;
	case NODE_BOOL:
	case NODE_INT:
		return a->number == b->number;
	case NODE_FLOAT:
		return a->real == b->real;
	case NODE_STRING:
		return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
	case NODE_LIST:
		return lists_equal(a, b);
	case NODE_MAP:
		return maps_equal(a, b);
	}
	return false;
}

const char *node_kind_name(enum node_kind kind)
{
	static const char *const names[] = {
		[NODE_NULL] = "nothing",       [NODE_BOOL] = "true or false",
		[NODE_INT] = "a whole number", [NODE_FLOAT] = "a number with a fraction",
		[NODE_STRING] = "text",        [NODE_LIST] = "a list",
		[NODE_MAP] = "a map",
	};

	return names[kind];
}
