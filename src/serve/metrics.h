/*
 * metrics.h - what the daemon counts, and how Prometheus reads it
 *
 * Everything has a bound: a route is a row of a table and never a path, a tenant has a line of its own only
 * while there are few of them (COUNTERS_TENANTS), and all others share one. So whoever asks for odd things, or
 * makes many tenants, makes no more lines.
 */
#ifndef BRIG_SERVE_METRICS_H
#define BRIG_SERVE_METRICS_H

#include "base/buf.h"
#include "serve/serve.h"

#define COUNTERS_TENANTS 100
#define COUNTERS_LINES   1024 /* routes with their statuses */

struct counters; /* opaque */

[[nodiscard]] int counters_new(struct counters **ret_counters);
void counters_free(struct counters *counters); /* NULL allowed */

/* An answer that has ended. q: NULL where nobody had time to look at it. Never fails: what has no room is counted
 * together with others. */
void counters_request(struct counters *counters, const struct exchange *x, const struct request *q);

/* A sandbox was made (or not), and how long its client waited for it. */
void counters_made(struct counters *counters, uint64_t ms, bool is_made);

/* What was counted, a part of the text below. Failures stick to the buffer. */
void counters_write(const struct counters *counters, struct buf *out);

/* The text of Prometheus, version 0.0.4. */
[[nodiscard]] int metrics_write(struct serve *serve, struct buf *out);

#endif
