#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "serve/metrics.h"

static size_t count_lines(const struct buf *text, const char *prefix)
{
	size_t count = 0;

	for (const char *at = buf_text(text); (at = strstr(at, prefix)); at += strlen(prefix))
		count += at == text->data || at[-1] == '\n';
	return count;
}

static void require_line(const struct buf *text, const char *line)
{
	const char *at = strstr(buf_text(text), line);

	if (!at || (at != text->data && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line \"%s\"", line);
}

struct world {
	struct loop *loop;
	struct counters *counters;
	struct exchange *x;
	struct request *q;
	struct buf text;
};

static void open_world(struct world *w)
{
	*w = (struct world){ .text = BUF(4 * MIB) };
	assert_int_equal(loop_new(&w->loop), 0);
	assert_int_equal(counters_new(&w->counters), 0);
	w->x = calloc(1, sizeof(*w->x));
	w->q = calloc(1, sizeof(*w->q));
	assert_true(w->x && w->q);
	w->x->loop = w->loop;
	w->x->began = loop_now(w->loop);
}

static void close_world(struct world *w)
{
	counters_free(w->counters);
	loop_free(w->loop);
	free(w->x);
	free(w->q);
	buf_done(&w->text);
}

static void ask(struct world *w, const struct route *route, const char *tenant, unsigned int status)
{
	w->q->route = route;
	w->x->status = status;
	snprintf(w->q->tenant_name, sizeof(w->q->tenant_name), "%s", tenant);
	counters_request(w->counters, w->x, w->q);
}

static void counts(void **state)
{
	static const struct route one = { .method = METHOD_GET, .path = "/a/{id}" };
	const char same_text[] = "/a/{id}";
	const struct route twin = { .method = METHOD_GET, .path = same_text };
	struct world w;

	(void)state;
	open_world(&w);
	ask(&w, &one, "acme", 200);
	ask(&w, &twin, "acme", 200); /* of another table */
	ask(&w, &one, "acme", 404);
	ask(&w, NULL, "", 404);
	w.x->status = 0;
	counters_request(w.counters, w.x, NULL);
	counters_made(w.counters, 30, true);
	counters_made(w.counters, 100000, true);
	counters_made(w.counters, 1, false);
	counters_write(w.counters, &w.text);
	assert_int_equal(buf_failed(&w.text), 0);
	require_line(&w.text,
		     "brig_http_requests_total{method=\"GET\",route=\"/a/{id}\",code=\"200\"} 2");
	require_line(&w.text,
		     "brig_http_requests_total{method=\"GET\",route=\"/a/{id}\",code=\"404\"} 1");
	require_line(&w.text, "brig_http_requests_total{method=\"\",route=\"\",code=\"404\"} 1");
	require_line(&w.text, "brig_http_requests_total{method=\"\",route=\"\",code=\"0\"} 1");
	require_line(&w.text, "brig_tenant_requests_total{tenant=\"acme\",class=\"2xx\"} 2");
	require_line(&w.text, "brig_tenant_requests_total{tenant=\"acme\",class=\"4xx\"} 1");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_bucket{le=\"0.025\"} 0");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_bucket{le=\"0.05\"} 1");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_bucket{le=\"60\"} 1");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_bucket{le=\"+Inf\"} 2");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_count 2");
	require_line(&w.text, "brig_sandbox_create_duration_seconds_sum 100.030000");
	require_line(&w.text, "brig_sandbox_create_failures_total 1");
	close_world(&w);
}

/* However many tenants and statuses there are, the number of lines has an end, and nothing is lost of the sum. */
static void bounded(void **state)
{
	static struct route routes[40];
	static char paths[40][16];
	struct world w;
	uint64_t sum = 0;
	char name[16];

	(void)state;
	open_world(&w);
	for (unsigned int i = 0; i < 40; i++) {
		snprintf(paths[i], sizeof(paths[i]), "/r%u", i);
		routes[i] = (struct route){ .method = METHOD_GET, .path = paths[i] };
	}
	for (unsigned int i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "t%u", i % 1000);
		ask(&w, &routes[i % 40], name, 200 + i % 97);
	}
	counters_write(w.counters, &w.text);
	assert_int_equal(buf_failed(&w.text), 0);
	assert_int_equal(count_lines(&w.text, "brig_http_requests_total{"), COUNTERS_LINES);
	assert_int_equal(count_lines(&w.text, "brig_tenant_requests_total{"), COUNTERS_TENANTS + 1);
	for (const char *at = buf_text(&w.text);
	     (at = strstr(at, "\nbrig_http_requests_total{"));) {
		at = strstr(at, "} ") + 2;
		sum += strtoull(at, NULL, 10);
	}
	assert_int_equal(sum, 4000);
	close_world(&w);
}

/* A name that would break out of its quotes does not. */
static void escapes(void **state)
{
	struct world w;

	(void)state;
	open_world(&w);
	ask(&w, NULL, "a\"b\\c\nd", 200);
	counters_write(w.counters, &w.text);
	require_line(&w.text,
		     "brig_tenant_requests_total{tenant=\"a\\\"b\\\\c\\nd\",class=\"2xx\"} 1");
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(bounded),
		cmocka_unit_test(escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
