#include "cli/expand.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static const char *look_up(const char *name, size_t len, const struct node *const *scopes,
			   size_t count)
{
	char key[256];

	if (len >= sizeof(key))
		return NULL;
	memcpy(key, name, len);
	key[len] = '\0';
	for (size_t i = 0; i < count; i++) {
		const struct node *value = scopes[i] ? node_get(scopes[i], key) : NULL;

		if (value && value->kind == NODE_STRING)
			return value->text;
	}
	return NULL;
}

static size_t name_length(const char *text)
{
	size_t len = 0;

	if (isdigit((unsigned char)text[0]))
		return 0;
	while (isalnum((unsigned char)text[len]) || text[len] == '_')
		len++;
	return len;
}

/* At "${"; how many bytes it was, 0: it is none. The word behind :- and :+ is taken as it is. */
static size_t expand_braces(const char *text, const struct node *const *scopes, size_t count,
			    struct buf *out)
{
	const char *name = text + 2, *end = strchr(name, '}'), *value, *word;
	size_t len = name_length(name);
	char sign;

	if (!end || len == 0)
		return 0;
	value = look_up(name, len, scopes, count);
	if (name + len == end) {
		buf_str(out, value ? value : "");
		return (size_t)(end + 1 - text);
	}
	if (name[len] != ':' || (name[len + 1] != '-' && name[len + 1] != '+'))
		return 0;
	sign = name[len + 1];
	word = name + len + 2;
	if (sign == '-' && value && value[0])
		buf_str(out, value);
	else if (sign == '-' || (value && value[0]))
		buf_add(out, word, (size_t)(end - word));
	return (size_t)(end + 1 - text);
}

int expand_text(const char *text, const struct node *const *scopes, size_t count, char **ret_text)
{
	_cleanup_(buf_done) struct buf out = BUF(EXPAND_MAX);
	char *made;

	while (*text && !buf_failed(&out)) {
		size_t len = 0;

		if (text[0] == '\\' && text[1] == '$') {
			buf_char(&out, '$');
			len = 2;
		} else if (text[0] == '$' && text[1] == '{') {
			len = expand_braces(text, scopes, count, &out);
		} else if (text[0] == '$' && name_length(text + 1) > 0) {
			const char *value = look_up(text + 1, name_length(text + 1), scopes, count);

			buf_str(&out, value ? value : "");
			len = 1 + name_length(text + 1);
		}
		if (len == 0) {
			buf_char(&out, *text);
			len = 1;
		}
		text += len;
	}
	if (buf_failed(&out))
		return buf_failed(&out) == -ENOSPC ? -E2BIG : buf_failed(&out);
	made = out.len ? buf_take(&out) : strdup("");
	if (!made)
		return -ENOMEM;
	free(*ret_text);
	*ret_text = made;
	return 0;
}
