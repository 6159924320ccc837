/*
 * cursor.h - writes JSON into room that is there already (private to trace/)
 *
 * On the path of every event a buffer that grows would cost more than the event. What does not fit
 * is not written, and is_over says so; no byte is ever written behind the end.
 */
#ifndef BRIG_TRACE_CURSOR_H
#define BRIG_TRACE_CURSOR_H

#include <stdbool.h>

#include "base/macro.h"

struct cursor {
	char *at, *end;
	bool is_over;
	bool is_exact; /* for the caller's use */
};

void cursor_bytes(struct cursor *c, const void *data, size_t len);
void cursor_number(struct cursor *c, uint64_t value);

/*
 * A JSON string with its quotes, in the form that json_write_string() gives it. NUL and what is no
 * UTF-8 become U+FFFD; whether there was none of both.
 */
bool cursor_string(struct cursor *c, const char *text, size_t len);

void cursor_base64(struct cursor *c, const void *data, size_t len); /* with quotes */

#endif
