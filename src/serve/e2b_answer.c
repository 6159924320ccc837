/* e2b_answer.c - refusals, errands, pages: what all of the control plane answers with */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "serve/e2b_control.h"

#define RETRY_SOON_S 5 /* a client may wait so long within its call */

static void say_final(struct request *q, unsigned int status)
{
	/* answer_error() says it of these. */
	if (status != 502 && status != 504 && status != 507)
		exchange_header(q->x, "Should-Retry", "false");
}

void refuse(struct request *q, unsigned int status, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_final(q, status);
	answer_error(q, status, "%s", text);
}

unsigned int status_of(const struct err *err)
{
	static const struct {
		int code;
		unsigned int status;
	} rows[] = {
		{ EINVAL, 400 }, { E2BIG, 400 },  { ENOENT, 404 },    { ESRCH, 404 },
		{ EEXIST, 409 }, { EBUSY, 409 },  { EALREADY, 409 },  { EDQUOT, 429 },
		{ ENOSPC, 507 }, { ENOMEM, 503 }, { EAGAIN, 503 },    { ENOTSUP, 501 },
		{ EMFILE, 503 }, { ENFILE, 503 }, { ETIMEDOUT, 504 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].code == -err->code)
			return rows[i].status;
	return 500;
}

void refuse_err(struct request *q, const struct err *err)
{
	unsigned int status = status_of(err);

	/* What passes by itself may be asked for again. */
	if (status != 503)
		say_final(q, status);
	answer_error(q, status, "%s", err->text[0] ? err->text : "it failed");
}

void refuse_full(struct request *q, unsigned int wait_s, const struct err *err)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", MAX(wait_s, 1U));
	exchange_header(q->x, "Retry-After", text);
	if (wait_s > RETRY_SOON_S)
		exchange_header(q->x, "Should-Retry", "false");
	answer_error(q, 429, "%s", err->text);
}

void refuse_sandbox(struct request *q, const char *id)
{
	refuse(q, 404, "sandbox \"%.64s\" does not exist, or is not yours", id);
}

void sandbox_id(const struct request *q, char ret_id[static TRACE_ID_SIZE])
{
	size_t len = strcspn(q->parameter[0], "-");

	if (len >= TRACE_ID_SIZE)
		len = 0;
	memcpy(ret_id, q->parameter[0], len);
	ret_id[len] = '\0';
}

struct held *own_sandbox(struct request *q)
{
	char id[TRACE_ID_SIZE];
	struct held *held;

	sandbox_id(q, id);
	held = registry_find(q->serve->registry, id, q->tenant_name);
	if (!held)
		refuse_sandbox(q, q->parameter[0]);
	return held;
}

/* --- errands --- */

static void errand_leave(struct request *q)
{
	struct errand *errand = q->of;

	errand->q = NULL;
}

struct errand *errand_begin(struct request *q, const char *id,
			    void (*then)(struct request *q, const char *id))
{
	struct errand *errand = calloc(1, sizeof(*errand));

	if (!errand) {
		answer_error(q, 503, "out of memory");
		return NULL;
	}
	*errand = (struct errand){ .q = q, .serve = q->serve, .then = then };
	snprintf(errand->id, sizeof(errand->id), "%s", id);
	q->of = errand;
	q->gone = errand_leave;
	return errand;
}

void errand_done(void *of, const struct err *err)
{
	struct errand errand = *(struct errand *)of;
	struct request *q = errand.q;

	free(of);
	if (!q)
		return;
	q->of = NULL;
	q->gone = NULL;
	if (err && err->code == -ESRCH)
		refuse_sandbox(q, errand.id);
	else if (err && err->code < 0)
		refuse_err(q, err);
	else
		errand.then(q, errand.id);
}

void errand_check(struct errand *errand, int r, const struct err *err)
{
	struct err failed = err ? *err : ERR_NONE;

	if (r >= 0)
		return;
	if (!failed.code)
		failed.code = r;
	errand_done(errand, &failed);
}

/* --- pages --- */

bool query_number(struct request *q, const char *name, uint64_t most, uint64_t *value)
{
	char text[24], *end;
	int r = query_get(q, name, 0, text, sizeof(text));
	unsigned long long number;

	if (r == -ENOENT)
		return true;
	errno = 0;
	number = r == 0 && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : ULLONG_MAX;
	if (number == ULLONG_MAX || *end || errno || number > most) {
		refuse(q, 400, "\"%s\" must be a whole number from 0 to %" PRIu64, name, most);
		return false;
	}
	*value = number;
	return true;
}

/* "TIME-ID": what a client gives back as it got it. */
static bool read_token(const char *text, struct page *page)
{
	const char *dash = strchr(text, '-');
	size_t digits = strspn(text, "0123456789");

	if (!dash || digits == 0 || digits > 15 || text + digits != dash)
		return false;
	page->time = strtoull(text, NULL, 10);
	page->has_token = true;
	return (size_t)snprintf(page->id, sizeof(page->id), "%s", dash + 1) < sizeof(page->id);
}

bool page_read(struct request *q, struct page *ret_page)
{
	struct page page = { .limit = E2B_PAGE_MAX };
	uint64_t limit = E2B_PAGE_MAX;
	char token[64];
	int r;

	if (!query_number(q, "limit", INT32_MAX, &limit))
		return false;
	if (limit == 0) {
		refuse(q, 400, "\"limit\" must be at least 1");
		return false;
	}
	page.limit = MIN(limit, (uint64_t)E2B_PAGE_MAX);
	r = query_get(q, "nextToken", 0, token, sizeof(token));
	if (r != -ENOENT && (r < 0 || (token[0] && !read_token(token, &page)))) {
		refuse(q, 400, "\"nextToken\" is none that was given out here");
		return false;
	}
	*ret_page = page;
	return true;
}

int page_order(bool is_oldest_first, uint64_t time_a, const char *a, uint64_t time_b, const char *b)
{
	if (time_a != time_b)
		return (time_a < time_b) == is_oldest_first ? -1 : 1;
	return strcmp(a, b);
}

bool page_is_behind(const struct page *page, uint64_t time, const char *id)
{
	return !page->has_token ||
	       page_order(page->is_oldest_first, page->time, page->id, time, id) < 0;
}

void page_next(struct request *q, uint64_t time, const char *id)
{
	char token[64];

	snprintf(token, sizeof(token), "%" PRIu64 "-%.39s", time, id);
	exchange_header(q->x, "X-Next-Token", token);
}
