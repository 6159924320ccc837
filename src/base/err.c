#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	str_make_printable(err->text);
	return code;
}

int err_errno(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	len = strlen(err->text);
	snprintf(err->text + len, sizeof(err->text) - len, ": %s", strerror(-code));
	str_make_printable(err->text);
	return code;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	va_list ap;
	size_t len;

	if (!err)
		return -EINVAL;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	len = strlen(err->text);
	snprintf(err->text + len, sizeof(err->text) - len, ": %s", old);
	str_make_printable(err->text);
	return err->code;
}
