#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int buf_fail(struct buf *buf, int code)
{
	if (!buf->failure)
		buf->failure = code;
	return code;
}

static int buf_reserve(struct buf *buf, size_t len)
{
	size_t room;
	char *data;

	if (buf->failure)
		return buf->failure;
	if (len > buf->max || buf->len > buf->max - len)
		return buf_fail(buf, -ENOSPC);
	if (buf->len + len < buf->room)
		return 0;
	room = MAX(buf->room * 2, buf->len + len + 1);
	room = MAX(room, (size_t)64);
	data = realloc(buf->data, room);
	if (!data)
		return buf_fail(buf, -ENOMEM);
	buf->data = data;
	buf->room = room;
	return 0;
}

int buf_add(struct buf *buf, const void *data, size_t len)
{
	int r = buf_reserve(buf, len);

	if (r < 0)
		return r;
	if (len > 0)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return 0;
}

int buf_str(struct buf *buf, const char *text)
{
	return buf_add(buf, text, strlen(text));
}

int buf_char(struct buf *buf, char c)
{
	return buf_add(buf, &c, 1);
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list ap;
	int len, r;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		return buf_fail(buf, -EINVAL);
	r = buf_reserve(buf, (size_t)len);
	if (r < 0)
		return r;
	va_start(ap, fmt);
	vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, ap);
	va_end(ap);
	buf->len += (size_t)len;
	return 0;
}

int buf_failed(const struct buf *buf)
{
	return buf->failure;
}

const char *buf_text(const struct buf *buf)
{
	return buf->data ? buf->data : "";
}

char *buf_take(struct buf *buf)
{
	char *data = buf->data ? buf->data : calloc(1, 1);

	*buf = BUF(buf->max);
	return data;
}

void buf_reset(struct buf *buf)
{
	buf->len = 0;
	buf->failure = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

void buf_done(struct buf *buf)
{
	free(buf->data);
	*buf = BUF(buf->max);
}
