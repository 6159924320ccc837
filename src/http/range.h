/*
 * range.h - parts of a file, and whether the client has it already (RFC 9110, 13 and 14)
 *
 *	struct range range;
 *	range_init(&range, size, modified_ns, now_ns);
 *	switch (range_judge(&range, &x->head)) {
 *	case RANGE_PART:  206, range.content_range, from range.first, range.len bytes
 *	...
 *
 * One range is served; of several the whole is (a server may). A file's tag is its time of change and its
 * size: a strong one, unless it was changed this very moment and so may change again within the same time.
 */
#ifndef BRIG_HTTP_RANGE_H
#define BRIG_HTTP_RANGE_H

#include "http/head.h"

#define HTTP_DATE_SIZE 30

enum range_verdict {
	RANGE_WHOLE = 200,
	RANGE_PART = 206,
	RANGE_UNCHANGED = 304,
	RANGE_CHANGED = 412, /* what the client made a condition of is not so */
	RANGE_NONE = 416,    /* there is no such part */
};

struct range {
	uint64_t size, modified_s;
	char etag[48];
	char last_modified[HTTP_DATE_SIZE];
	uint64_t first, len;    /* what is to be sent */
	char content_range[72]; /* RANGE_PART, RANGE_NONE */
};

void range_init(struct range *r, uint64_t size, uint64_t modified_ns, uint64_t now_ns);
[[nodiscard]] enum range_verdict range_judge(struct range *r, const struct head *head);

/* "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale. */
void http_date(uint64_t seconds, char ret[static HTTP_DATE_SIZE]);
/* Any of the three forms; -EINVAL. */
[[nodiscard]] int http_date_read(const struct text *text, uint64_t *ret_seconds);

#endif
