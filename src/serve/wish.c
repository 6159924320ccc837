#include "serve/wish.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "serve/serve.h"

const struct node *wish_find(const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);

	return node && node->kind != NODE_NULL ? node : NULL;
}

static int wrong_kind(const char *key, const char *wanted, const struct node *node, struct err *err)
{
	return err_set(err, -EINVAL, "\"%s\" must be %s, not %s", key, wanted,
		       node_kind_name(node->kind));
}

int wish_bool(const struct node *map, const char *key, bool *value, struct err *err)
{
	const struct node *node = wish_find(map, key);

	if (!node)
		return 0;
	if (node->kind != NODE_BOOL)
		return wrong_kind(key, "true or false", node, err);
	*value = node->number != 0;
	return 0;
}

int wish_number(const struct node *map, const char *key, int64_t least, int64_t most,
		int64_t *value, struct err *err)
{
	const struct node *node = wish_find(map, key);

	if (!node)
		return 0;
	if (node->kind != NODE_INT)
		return wrong_kind(key, "a whole number", node, err);
	if (node->number < least || node->number > most)
		return err_set(err, -EINVAL,
			       "\"%s\" must be from %" PRId64 " to %" PRId64 ", not %" PRId64, key,
			       least, most, node->number);
	*value = node->number;
	return 0;
}

static bool is_plain_text(const struct node *node)
{
	return node->kind == NODE_STRING && strlen(node->text) == node->len;
}

int wish_text(const struct node *map, const char *key, size_t most, const char **value,
	      struct err *err)
{
	const struct node *node = wish_find(map, key);

	if (!node)
		return 0;
	if (!is_plain_text(node))
		return wrong_kind(key, "text", node, err);
	if (node->len > most)
		return err_set(err, -EINVAL, "\"%s\" is longer than %zu bytes", key, most);
	*value = node->text;
	return 0;
}

static int wish_kind(const struct node *map, const char *key, enum node_kind kind,
		     const struct node **value, struct err *err)
{
	const struct node *node = wish_find(map, key);

	if (!node)
		return 0;
	if (node->kind != kind)
		return wrong_kind(key, node_kind_name(kind), node, err);
	if (node->count > WISH_ENTRIES_MAX)
		return err_set(err, -EINVAL, "\"%s\" has more than %d entries", key,
			       WISH_ENTRIES_MAX);
	*value = node;
	return 0;
}

int wish_map(const struct node *map, const char *key, const struct node **value, struct err *err)
{
	return wish_kind(map, key, NODE_MAP, value, err);
}

int wish_list(const struct node *map, const char *key, const struct node **value, struct err *err)
{
	return wish_kind(map, key, NODE_LIST, value, err);
}

int wish_texts(const struct node *map, const char *key, const struct node **value, struct err *err)
{
	const struct node *texts = NULL;
	int r = wish_map(map, key, &texts, err);

	if (r < 0 || !texts)
		return r;
	for (size_t i = 0; i < texts->count; i++) {
		const struct node_entry *entry = &texts->entries[i];

		if (strlen(entry->key) > WISH_NAME_MAX)
			return err_set(err, -EINVAL, "\"%s\" has a name of more than %d bytes", key,
				       WISH_NAME_MAX);
		if (!is_plain_text(entry->value))
			return err_set(err, -EINVAL, "\"%s\": \"%.64s\" must be text, not %s", key,
				       entry->key, node_kind_name(entry->value->kind));
	}
	*value = texts;
	return 0;
}

int wish_variables(const struct node *map, const char *key, const struct node **value,
		   struct err *err)
{
	const struct node *texts = NULL;
	int r = wish_texts(map, key, &texts, err);

	if (r < 0 || !texts)
		return r;
	for (size_t i = 0; i < texts->count; i++) {
		const char *name = texts->entries[i].key;

		if (!*name || strchr(name, '='))
			return err_set(err, -EINVAL, "\"%s\": \"%.64s\" cannot name a variable",
				       key, name);
	}
	*value = texts;
	return 0;
}

char *wish_json(const struct node *node)
{
	_cleanup_(buf_done) struct buf text = BUF(2 * SERVE_JSON_MAX);

	if (!node)
		return strdup("");
	return json_write(node, true, &text) < 0 ? NULL : buf_take(&text);
}
