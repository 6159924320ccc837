/*
 * sse.h - an answer as server-sent events (text/event-stream)
 *
 *	sse_begin(q);
 *	sse_send(q->x, "stdout", 0, data);      // {"text": "..."}
 *	exchange_end(q->x);
 *
 * Who reads nothing is noticed by the server (server.h); who listens to nothing for long gets a comment now and
 * then, so that nobody on the way takes the connection for dead.
 */
#ifndef BRIG_SERVE_SSE_H
#define BRIG_SERVE_SSE_H

#include "serve/serve.h"

#define SSE_QUIET_MS 15000

/* Whether the client accepts nothing else, or names it first. */
bool sse_is_wanted(const struct request *q);

void sse_begin(struct request *q);
/* event: NULL for "message"; id: 0 for none. data is not taken over; NULL: out of memory, and the answer breaks off. */
void sse_send(struct exchange *x, const char *event, uint64_t id, const struct node *data);
void sse_take(struct exchange *x, const char *event, uint64_t id, struct node *data);
/* The same for one line of JSON that is text already. */
void sse_send_line(struct exchange *x, const char *event, uint64_t id, const char *line,
		   size_t len);
void sse_comment(struct exchange *x);

/*
 * Bytes as {"text": ...}, or {"base64": ...} where they are no UTF-8. A character that is cut by the end of the
 * bytes waits in *rest for the others (sse_rest: what is left at the end).
 */
struct sse_rest {
	char bytes[4];
	size_t len;
};
void sse_bytes(struct exchange *x, const char *event, struct sse_rest *rest, const char *data,
	       size_t len);
void sse_flush(struct exchange *x, const char *event, struct sse_rest *rest);

#endif
