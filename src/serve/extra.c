#include "serve/extra.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct node *extra_json(const char *json)
{
	struct node *node = NULL;
	struct err err = ERR_NONE;

	if (!json[0] || json_read(json, strlen(json), NULL, &node, &err) < 0)
		return NULL;
	return node;
}

int extra_text(const struct held *held, const char *key, char *ret, size_t size)
{
	_cleanup_(node_freep) struct node *extra = extra_json(held->extra);
	const struct node *value = node_get(extra, key);

	if (!value || value->kind != NODE_STRING)
		return -ENOENT;
	return (size_t)snprintf(ret, size, "%s", value->text) < size ? 0 : -EMSGSIZE;
}

int64_t extra_number(const struct held *held, const char *key, int64_t fallback)
{
	_cleanup_(node_freep) struct node *extra = extra_json(held->extra);
	const struct node *value = node_get(extra, key);

	return value && (value->kind == NODE_INT || value->kind == NODE_BOOL) ? value->number
									      : fallback;
}

int extra_set(struct held *held, const char *key, struct node *value)
{
	_cleanup_(node_freep) struct node *extra =
		held->extra && held->extra[0] ? extra_json(held->extra) : node_map();
	_cleanup_(buf_done) struct buf text = BUF(256 * KIB);
	char *json;
	int r;

	if (!extra) {
		node_free(value);
		return -ENOMEM;
	}
	r = node_set(extra, key, value);
	r = r < 0 ? r : json_write(extra, true, &text);
	json = r < 0 ? NULL : buf_take(&text);
	if (!json)
		return r < 0 ? r : -ENOMEM;
	free(held->extra);
	held->extra = json;
	return 0;
}

struct node *extra_list(const struct strv *list)
{
	struct node *node = node_list();
	int r = node ? 0 : -ENOMEM;

	for (size_t i = 0; i < list->count && r == 0; i++)
		r = node_add(node, node_string(list->items[i]));
	if (r == 0)
		return node;
	node_free(node);
	return NULL;
}

int extra_strings(const struct node *list, struct strv *ret_list)
{
	int r = 0;

	for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count && r == 0; i++)
		if (list->entries[i].value->kind == NODE_STRING)
			r = strv_add(ret_list, list->entries[i].value->text);
	return r;
}
