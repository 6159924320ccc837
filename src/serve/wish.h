/*
 * wish.h - typed values out of the JSON that a client sent
 *
 * What is absent, or null, leaves *value as it is, so the default is set before. Another type, or a value
 * out of its bounds, is -EINVAL with words that name the key. Keys that nobody asks for are not looked at:
 * clients of the field are ahead of their servers.
 *
 *	int64_t timeout = 300;
 *	r = wish_number(q->body, "timeout", 0, WISH_TIMEOUT_MAX, &timeout, err);
 */
#ifndef BRIG_SERVE_WISH_H
#define BRIG_SERVE_WISH_H

#include "base/err.h"
#include "data/node.h"

#define WISH_TIMEOUT_MAX 2592000 /* seconds: 30 days */
#define WISH_NAME_MAX    256     /* bytes of a key of metadata, of a variable's name */
#define WISH_ENTRIES_MAX 1024    /* of a map or list */

/* NULL when it is absent or null. */
const struct node *wish_find(const struct node *map, const char *key);

[[nodiscard]] int wish_bool(const struct node *map, const char *key, bool *value, struct err *err);
[[nodiscard]] int wish_number(const struct node *map, const char *key, int64_t least, int64_t most,
			      int64_t *value, struct err *err);
/* At most so many bytes, without a NUL. */
[[nodiscard]] int wish_text(const struct node *map, const char *key, size_t most,
			    const char **value, struct err *err);
[[nodiscard]] int wish_map(const struct node *map, const char *key, const struct node **value,
			   struct err *err);
[[nodiscard]] int wish_list(const struct node *map, const char *key, const struct node **value,
			    struct err *err);
/* A map from names to texts, as metadata is. */
[[nodiscard]] int wish_texts(const struct node *map, const char *key, const struct node **value,
			     struct err *err);
/* The same with names that a variable can have. */
[[nodiscard]] int wish_variables(const struct node *map, const char *key, const struct node **value,
				 struct err *err);

/* The canonical JSON of a tree, on the heap; NULL: "". NULL when memory is out. */
char *wish_json(const struct node *node);

#endif
