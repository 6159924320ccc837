/*
 * buf.h - a growing byte buffer that knows its maximum
 *
 * A buffer must be told how large it may become; an addition that would go beyond is refused whole
 * with -ENOSPC, so foreign input can never make us use unbounded memory. The content is always
 * followed by a NUL that is not counted.
 *
 *	_cleanup_(buf_done) struct buf b = BUF(64 * KIB);
 *	r = buf_printf(&b, "%s: %d", name, n);
 *
 * Where many additions follow each other, check buf_failed() once at the end instead of every
 * return value: the first failure sticks.
 */
#ifndef BRIG_BASE_BUF_H
#define BRIG_BASE_BUF_H

#include <stdbool.h>

#include "base/macro.h"

struct buf {
	char *data; /* NULL while empty */
	size_t len, room, max;
	int failure; /* the first -errno */
};

#define BUF(maximum) ((struct buf){ .max = (maximum) })

int buf_add(struct buf *buf, const void *data, size_t len);
int buf_str(struct buf *buf, const char *text);
int buf_char(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *fmt, ...) _printf_(2, 3);
int buf_failed(const struct buf *buf); /* 0, or the first failure */

/* The content as a C string; "" while empty. */
const char *buf_text(const struct buf *buf);

/* Hands over the heap string (the caller frees it); the buffer is empty afterwards. NULL when out
 * of memory. */
char *buf_take(struct buf *buf);

void buf_reset(struct buf *buf); /* empties, keeps the room */
void buf_done(struct buf *buf);

#endif
