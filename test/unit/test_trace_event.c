#include "trace_case.h"

#include "base/buf.h"
#include "output/text.h"
#include "trace/text.h"

static ssize_t write_event(const struct trace_event *event, char *text, size_t size)
{
	const struct trace_line line = { .event = event,
					 .sandbox = "abc",
					 .time = "2026-01-31T23:59:59.123456Z",
					 .prev = HEAD_ZERO,
					 .seq = 7,
					 .mono = 8 };

	return trace_line_write(&line, text, size);
}

/* Writes it, reads it again: what was read is canonical, or the parser would refuse it. */
static struct node *round_trip(const struct trace_event *event)
{
	static char text[TRACE_LINE_MAX];
	struct node *node = NULL;
	struct err err = ERR_NONE;
	ssize_t len = write_event(event, text, sizeof(text));

	assert_true(len > 0);
	assert_int_equal(text[len - 1], '\n');
	assert_null(memchr(text, '\n', (size_t)len - 1));
	if (trace_line_parse(text, (size_t)len - 1, &node, &err) < 0)
		fail_msg("%s: %.*s", err.text, (int)len, text);
	return node;
}

static void a_line_has_exactly_these_bytes(void **state)
{
	const struct trace_event event = trace_denied("10.0.0.1:22");
	char text[1024];
	ssize_t len = write_event(&event, text, sizeof(text));

	(void)state;
	assert_true(len > 0);
	text[len] = '\0';
	assert_string_equal(
		text,
		"{\"action\":\"connect\",\"allow_with\":\"--allow-net x:1\",\"exec\":2,"
		"\"kind\":\"net\",\"mono\":8,\"object\":\"10.0.0.1:22\",\"parent\":1,\"pid\":77,"
		"\"prev\":\"" HEAD_ZERO "\",\"reason\":\"no rule allows it\","
		"\"rule\":{\"key\":\"net.allow\",\"line\":3,\"source\":\"policy.yaml\"},"
		"\"sandbox\":\"abc\",\"seq\":7,\"time\":\"2026-01-31T23:59:59.123456Z\","
		"\"verdict\":\"deny\"}\n");
}

static void every_character_comes_back(void **state)
{
	(void)state;
	for (unsigned int c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
		char object[8] = { 0 };
		struct trace_event event = trace_allowed(object);
		struct node *node;

		if (c >= 0xd800 && c < 0xe000)
			continue;
		if (c < 0x80)
			object[0] = (char)c;
		else if (c < 0x800)
			object[0] = (char)(0xc0 | c >> 6), object[1] = (char)(0x80 | (c & 63));
		else if (c < 0x10000)
			object[0] = (char)(0xe0 | c >> 12),
			object[1] = (char)(0x80 | (c >> 6 & 63)),
			object[2] = (char)(0x80 | (c & 63));
		else
			object[0] = (char)(0xf0 | c >> 18),
			object[1] = (char)(0x80 | (c >> 12 & 63)),
			object[2] = (char)(0x80 | (c >> 6 & 63)),
			object[3] = (char)(0x80 | (c & 63));
		node = round_trip(&event);
		assert_string_equal(trace_text(node, "object"), object);
		assert_null(node_get(node, "object_base64"));
		node_free(node);
	}
}

static void what_is_no_text_stands_there_exactly(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text, *base64;
	} rows[] = {
		{ "\xff", 1, "\xef\xbf\xbd", "/w==" },
		{ "a\0b", 3,
		  "a\xef\xbf\xbd"
		  "b",
		  "YQBi" },
		{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "7aCA" },
		{ "x\xc3", 2, "x\xef\xbf\xbd", "eMM=" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct trace_event event = trace_allowed(rows[i].bytes);
		struct node *node;

		event.object_len = rows[i].len;
		node = round_trip(&event);
		assert_string_equal(trace_text(node, "object"), rows[i].text);
		assert_string_equal(trace_text(node, "object_base64"), rows[i].base64);
		node_free(node);
	}
}

/* A name cannot look like the end of its line and the beginning of another. */
static void an_event_is_one_line(void **state)
{
	const struct trace_event event = trace_allowed("x\"}\n{\"seq\":9,\"verdict\":\"allow\"}");
	struct node *node = round_trip(&event);

	(void)state;
	assert_string_equal(trace_text(node, "object"), event.object);
	assert_int_equal(trace_number(node, "seq"), 7);
	node_free(node);
}

static void long_things_are_cut_and_fit(void **state)
{
	static char worst[3 * TRACE_OBJECT_MAX];
	struct trace_event event = trace_denied(worst);
	struct node *node;

	(void)state;
	memset(worst, 1, sizeof(worst) - 1);
	event.action = event.reason = event.allow_with = worst;
	event.rule.source = event.rule.key = worst;
	node = round_trip(&event);
	assert_int_equal(strlen(trace_text(node, "object")), TRACE_OBJECT_MAX);
	assert_int_equal(trace_number(node, "cut"), sizeof(worst) - 1 - TRACE_OBJECT_MAX);
	node_free(node);

	/* Not in the middle of a character: the rest would be no text. */
	memset(worst, 'a', sizeof(worst) - 1);
	memcpy(worst + TRACE_OBJECT_MAX - 2, "\xe6\xbc\xa2", 3);
	node = round_trip(&event);
	assert_int_equal(strlen(trace_text(node, "object")), TRACE_OBJECT_MAX - 2);
	assert_null(node_get(node, "object_base64"));
	node_free(node);
}

static void too_little_room_is_an_error(void **state)
{
	const struct trace_event event = trace_allowed("x");
	char text[1024];
	ssize_t whole = write_event(&event, text, sizeof(text));

	(void)state;
	for (size_t size = 0; size < (size_t)whole; size++) {
		char *exact = malloc(size + 1);

		assert_int_equal(write_event(&event, exact, size), -EMSGSIZE);
		free(exact);
	}
	assert_int_equal(write_event(&event, text, (size_t)whole), whole);
}

/* What is not byte for byte as it would be written here is no event. */
static void other_spellings_are_refused(void **state)
{
	const struct trace_event event = trace_denied("x");
	static const struct {
		const char *from, *to;
	} rows[] = {
		{ "\"seq\":7", "\"seq\": 7" },
		{ "\"seq\":7", "\"seq\":7.0" },
		{ "\"seq\":7", "\"seq\":-7" },
		{ "\"seq\":7", "\"seq\":07" },
		{ "\"seq\":7,", "" },
		{ "\"seq\":7", "\"seq\":\"7\"" },
		{ "\"kind\":\"net\"", "\"kind\":\"nett\"" },
		{ "\"verdict\":\"deny\"", "\"verdict\":\"no\"" },
		{ "\"verdict\":\"deny\"", "\"verdict\":\"deny\",\"zzz\":1" },
		{ "\"object\":\"x\"", "\"object\":\"\\u0078\"" },
		{ "\"object\":\"x\"", "\"object\":x" },
		{ "\"line\":3", "\"line\":3,\"more\":1" },
		{ "{\"action\"", "# comment\n{\"action\"" },
		{ "{\"action\"", " {\"action\"" },
		{ "}\n", "} \n" },
	};
	char text[1024], other[2048];
	ssize_t len = write_event(&event, text, sizeof(text));

	(void)state;
	text[len] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *at = strstr(text, rows[i].from);
		struct node *node = NULL;
		struct err err = ERR_NONE;

		assert_non_null(at);
		snprintf(other, sizeof(other), "%.*s%s%s", (int)(at - text), text, rows[i].to,
			 at + strlen(rows[i].from));
		assert_int_equal(trace_line_parse(other, strlen(other) - 1, &node, &err), -EBADMSG);
		assert_true(err.text[0]);
		assert_null(node);
	}
}

static void text_is_harmless(void **state)
{
	struct trace_event event = trace_denied("\x1b]0;title\x07\x1b[2J\r\xc2\x9b"
						"31m\xe2\x80\xae"
						"exe\n");
	struct buf out = BUF(MIB);
	struct node *node = round_trip(&event);

	(void)state;
	assert_int_equal(trace_event_text(node, &out), 0);
	for (size_t i = 0; i + 1 < out.len; i++)
		assert_true((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
	assert_null(strstr(out.data, "\xc2\x9b"));
	assert_null(strstr(out.data, "\xe2\x80\xae"));
	assert_non_null(strstr(out.data, "\\u001b]0;title"));
	assert_non_null(strstr(out.data, "(policy.yaml:3 net.allow): no rule allows it; allow with "
					 "--allow-net x:1\n"));
	buf_done(&out);
	node_free(node);
}

static void the_schema_names_every_field(void **state)
{
	_cleanup_(node_freep) struct node *schema = NULL;
	const struct node *properties;
	const char *name, *summary, *last = "";
	bool is_always;

	(void)state;
	assert_int_equal(trace_schema(&schema), 0);
	properties = node_get(schema, "properties");
	assert_int_equal(properties->count, trace_field_count());
	for (size_t i = 0; i < trace_field_count(); i++) {
		trace_field_describe(i, &name, &summary, &is_always);
		assert_non_null(node_get(properties, name));
		assert_true(strcmp(last, name) < 0); /* the order of canonical JSON */
		last = name;
	}
}

static void base64_as_elsewhere(void **state)
{
	(void)state;
	for (size_t len = 1; len < 40; len++) {
		char bytes[40];
		struct trace_event event = trace_allowed(bytes);
		struct buf expected = BUF(KIB);
		struct node *node;

		memset(bytes, 0xfe, sizeof(bytes));
		event.object_len = len;
		assert_int_equal(base64_encode(bytes, len, &expected), 0);
		node = round_trip(&event);
		assert_string_equal(trace_text(node, "object_base64"), buf_text(&expected));
		node_free(node);
		buf_done(&expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_exactly_these_bytes),
		cmocka_unit_test(every_character_comes_back),
		cmocka_unit_test(what_is_no_text_stands_there_exactly),
		cmocka_unit_test(an_event_is_one_line),
		cmocka_unit_test(long_things_are_cut_and_fit),
		cmocka_unit_test(too_little_room_is_an_error),
		cmocka_unit_test(other_spellings_are_refused),
		cmocka_unit_test(text_is_harmless),
		cmocka_unit_test(the_schema_names_every_field),
		cmocka_unit_test(base64_as_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
