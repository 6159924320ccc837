/*
 * text.h - an event for a person: one short line, harmless to a terminal
 *
 *	13:08:57.123456     3 deny  net connect 10.0.0.1:22 (policy.yaml:4 net.allow): REASON; allow
 *	with --allow-net 10.0.0.1:22
 */
#ifndef BRIG_TRACE_TEXT_H
#define BRIG_TRACE_TEXT_H

#include "base/buf.h"
#include "data/node.h"

/* Appends a line with its newline. event comes from trace_line_parse(). */
[[nodiscard]] int trace_event_text(const struct node *event, struct buf *out);

/* Appends foreign text as one can see it: controls escaped, what turns the direction of writing
 * replaced. */
[[nodiscard]] int trace_safe_text(const char *text, struct buf *out);

#endif
