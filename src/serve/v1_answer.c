/* v1_answer.c - what many routes of brig's own API say */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/v1.h"

/* What was well-formed and cannot be done, by what hindered it. */
static const struct {
	int code;
	unsigned int status;
} statuses[] = {
	{ EDQUOT, 429 }, { ENOSPC, 507 },  { EBUSY, 409 },     { EEXIST, 409 }, { ESRCH, 502 },
	{ EPIPE, 502 },  { EAGAIN, 503 },  { EMFILE, 503 },    { ENFILE, 503 }, { ECONNRESET, 502 },
	{ ENOMEM, 503 }, { ENOBUFS, 503 }, { ETIMEDOUT, 504 },
};

unsigned int v1_status(const struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].code == -err->code)
			return statuses[i].status;
	return 422;
}

void v1_refuse(struct request *q, const struct err *err)
{
	unsigned int status = v1_status(err);

	if (status == 503)
		exchange_header(q->x, "Retry-After", "1");
	answer_error(q, status, "%s", err->text[0] ? err->text : strerror(-err->code));
}

void v1_refuse_full(struct request *q, unsigned int wait_s, const struct err *err)
{
	char text[16];

	if (err->code == -EDQUOT) {
		snprintf(text, sizeof(text), "%u", wait_s);
		exchange_header(q->x, "Retry-After", text);
	}
	v1_refuse(q, err);
}

struct node *v1_time(uint64_t ms)
{
	char text[TIME_TEXT_SIZE];

	if (!ms)
		return node_null();
	time_text(ms, text);
	return node_string(text);
}

struct node *v1_json(const char *text)
{
	struct node *node = NULL;

	if (!text || !text[0])
		return node_map();
	return json_read(text, strlen(text), NULL, &node, NULL) < 0 ? NULL : node;
}
