/*
 * ignore.h - patterns of paths: .dockerignore, and the sources of COPY
 *
 * A pattern is made of parts between slashes, each with "*", "?" and "[...]" in it; "**" is any number of parts. It
 * covers what fits it, and all that is below. Of several lines the last that covers a path decides; "!" in front
 * takes it in again.
 */
#ifndef BRIG_CLI_IGNORE_H
#define BRIG_CLI_IGNORE_H

#include <stdbool.h>

#include "base/err.h"

struct ignore;

/* Of the directory; one without such a file leaves nothing out. */
[[nodiscard]] int ignore_read(int dir, struct ignore **ret_ignore, struct err *err);
[[nodiscard]] int ignore_parse(const char *text, struct ignore **ret_ignore);
void ignore_free(struct ignore *ignore);

/* path: relative, without "." and "..". */
bool ignore_has(const struct ignore *ignore, const char *path);
/* A directory that is left out, or not wanted: whether something below may be wanted all the same. */
bool ignore_may_have_below(const struct ignore *ignore, const char *path);

/* Whether the pattern fits the path, or something above it. "." covers all. */
bool ignore_covers(const char *pattern, const char *path);

#endif
