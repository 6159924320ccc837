#include "unit.h"

#include <stdlib.h>

#include "serve/sse.h"

/* What was written to the client. */
static struct buf written = BUF(MIB);

void __wrap_exchange_write(struct exchange *x, const void *data, size_t len);
void __wrap_exchange_write(struct exchange *x, const void *data, size_t len)
{
	(void)x;
	assert_int_equal(buf_add(&written, data, len), 0);
}

static void expect(const char *text)
{
	assert_string_equal(buf_text(&written), text);
	buf_reset(&written);
}

static void characters(void **state)
{
	struct sse_rest rest = { 0 };

	(void)state;
	sse_bytes(NULL, "stdout", &rest, "plain", 5);
	expect("event: stdout\ndata: {\"text\":\"plain\"}\n\n");
	/* A character that is cut waits for its rest. */
	sse_bytes(NULL, "stdout", &rest, "a\xe2\x82", 3);
	expect("event: stdout\ndata: {\"text\":\"a\"}\n\n");
	sse_bytes(NULL, "stdout", &rest,
		  "\xac"
		  "b",
		  2);
	expect("event: stdout\ndata: {\"text\":\"\xe2\x82\xac"
	       "b\"}\n\n");
	sse_bytes(NULL, "stdout", &rest, "\xf0", 1);
	sse_bytes(NULL, "stdout", &rest, "\x9f", 1);
	sse_bytes(NULL, "stdout", &rest, "\x98", 1);
	expect("");
	sse_bytes(NULL, "stdout", &rest, "\x80", 1);
	expect("event: stdout\ndata: {\"text\":\"\xf0\x9f\x98\x80\"}\n\n");
	/* One that never gets its rest is bytes. */
	sse_bytes(NULL, "stdout", &rest, "\xe2\x82", 2);
	expect("");
	sse_flush(NULL, "stdout", &rest);
	expect("event: stdout\ndata: {\"base64\":\"4oI=\"}\n\n");
	sse_flush(NULL, "stdout", &rest);
	expect("");
	/* What is no UTF-8, or has a NUL, is exact. */
	sse_bytes(NULL, "stderr", &rest, "\xff\xfe", 2);
	expect("event: stderr\ndata: {\"base64\":\"//4=\"}\n\n");
	sse_bytes(NULL, "stderr", &rest, "a\0b", 3);
	expect("event: stderr\ndata: {\"base64\":\"YQBi\"}\n\n");
	/* Line breaks cannot end an event. */
	sse_bytes(NULL, "stdout", &rest, "a\n\nevent: result\r\n", 18);
	expect("event: stdout\ndata: {\"text\":\"a\\n\\nevent: result\\r\\n\"}\n\n");
}

static void frames(void **state)
{
	(void)state;
	sse_send_line(NULL, NULL, 7, "{}", 2);
	expect("id: 7\ndata: {}\n\n");
	sse_comment(NULL);
	expect(":\n\n");
}

static void wanted(void **state)
{
	static const struct {
		const char *accept;
		bool is_wanted;
	} cases[] = {
		{ "text/event-stream", true },
		{ "Text/Event-Stream; q=1", true },
		{ "text/event-stream, */*", true },
		{ "application/json, text/event-stream", false },
		{ "*/*", false },
		{ "text/event-streams", false },
		{ "", false },
	};
	struct exchange *x = calloc(1, sizeof(*x));
	struct request *q = calloc(1, sizeof(*q));

	(void)state;
	assert_true(x && q);
	q->x = x;
	assert_false(sse_is_wanted(q));
	x->head.field_count = 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		x->head.fields[0] = (struct head_field){ .name = { "accept", 6 },
							 .value = { cases[i].accept,
								    strlen(cases[i].accept) } };
		assert_int_equal(sse_is_wanted(q), cases[i].is_wanted);
	}
	free(x);
	free(q);
}

static int done(void **state)
{
	(void)state;
	buf_done(&written);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters),
		cmocka_unit_test(frames),
		cmocka_unit_test(wanted),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
