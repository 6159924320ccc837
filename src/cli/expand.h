/*
 * expand.h - variables in the words of a build: $NAME, ${NAME}, ${NAME:-else}, ${NAME:+instead}
 */
#ifndef BRIG_CLI_EXPAND_H
#define BRIG_CLI_EXPAND_H

#include "data/node.h"

#define EXPAND_MAX (1 * MIB) /* of what comes out */

/*
 * scopes: maps of texts, the first that has it wins; NULL is an empty one. A name that none has is empty. "\$" is a
 * dollar. What is no name of a variable stays as it is. *ret_text is the caller's, and what it was before is freed.
 */
[[nodiscard]] int expand_text(const char *text, const struct node *const *scopes, size_t count,
			      char **ret_text);

#endif
