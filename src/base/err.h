/*
 * err.h - an error that a person or a client will read
 *
 * Functions return 0 or a positive value on success and -errno on failure. Where somebody must be
 * told why, the last argument is a struct err, set once, at the place that knows the most:
 *
 *	return err_set(err, -EINVAL, "limits.memory: \"%s\" is not a size (try 512M)", text);
 *
 * Messages are in lower case, without a full stop, the subject in quotes, the remedy at the end
 * where there is one. Foreign text that goes into a message is made printable here, so a hostile
 * file name cannot write to a terminal.
 */
#ifndef BRIG_BASE_ERR_H
#define BRIG_BASE_ERR_H

#include "base/macro.h"

struct err {
	int code; /* -errno, 0 while nothing went wrong */
	char text[512];
};

#define ERR_NONE ((struct err){ 0 })

/* Both return code, which is negative. A NULL err is allowed and keeps only the code. */
int err_set(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);

/* As err_set, with ": " and the description of code (a -errno) behind the text. */
int err_errno(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);

/* Puts "prefix: " before the text that is already there. */
int err_prefix(struct err *err, const char *fmt, ...) _printf_(2, 3);

#endif
