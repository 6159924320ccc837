#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/str.h"
#include "data/yaml.h"
#include "warden/result.h"

static const struct report one_wall = {
	.walls = { { "memory", "cgroup v2", "512M" } },
	.count = 1,
};

static struct result sample(void)
{
	return (struct result){
		.sandbox = "abc",
		.policy = "sha256:0",
		.isolation = "process",
		.report = &one_wall,
		.out = BUF(MIB),
		.err = BUF(MIB),
	};
}

static struct node *write_and_read(const struct result *result)
{
	_cleanup_(buf_done) struct buf json = BUF(8 * MIB);
	_cleanup_(node_freep) struct node *node = NULL;
	struct node *again = NULL;
	struct err err = ERR_NONE;

	assert_int_equal(result_to_node(result, &node), 0);
	assert_int_equal(json_write(node, true, &json), 0);
	if (yaml_parse("result", buf_text(&json), json.len, &again, &err) < 0)
		fail_msg("%s", err.text);
	return again;
}

static const char *text_at(const struct node *map, const char *key)
{
	const struct node *node = node_get(map, key);

	assert_non_null(node);
	return node->kind == NODE_STRING ? node->text : NULL;
}

static const char *json_type(const struct node *node)
{
	static const char *const names[] = {
		[NODE_NULL] = "null",    [NODE_BOOL] = "boolean",  [NODE_INT] = "integer",
		[NODE_FLOAT] = "number", [NODE_STRING] = "string", [NODE_LIST] = "array",
		[NODE_MAP] = "object",
	};

	return names[node->kind];
}

static bool list_has(const struct node *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (str_equal(list->entries[i].value->text, text))
			return true;
	return false;
}

/* As much of JSON Schema as the schema uses. */
static void conforms(const struct node *schema, const struct node *value)
{
	const struct node *type = node_get(schema, "type"), *names = node_get(schema, "enum");
	const struct node *properties = node_get(schema, "properties");
	const struct node *any = node_get(schema, "anyOf");

	for (size_t i = 0; any && i < any->count; i++)
		if (str_equal(node_get(any->entries[i].value, "type")->text, json_type(value))) {
			conforms(any->entries[i].value, value);
			return;
		}
	if (names)
		assert_true(list_has(names, value->text));
	if (type && type->kind == NODE_LIST)
		assert_true(list_has(type, json_type(value)));
	else if (type)
		assert_string_equal(type->text, json_type(value));
	assert_true(type || names);
	for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++)
		conforms(node_get(schema, "items"), value->entries[i].value);
	if (value->kind != NODE_MAP)
		return;
	assert_int_equal(node_get(schema, "additionalProperties")->number, 0);
	assert_int_equal(node_get(schema, "required")->count, value->count);
	assert_int_equal(properties->count, value->count);
	for (size_t i = 0; i < value->count; i++) {
		assert_true(list_has(node_get(schema, "required"), value->entries[i].key));
		conforms(node_get(properties, value->entries[i].key), value->entries[i].value);
	}
}

static void the_fields_are_those_of_the_schema(void **state)
{
	_cleanup_(node_freep) struct node *schema = NULL;
	struct result result = sample();

	(void)state;
	assert_int_equal(result_schema(&schema), 0);
	for (int i = 0; i < 3; i++) {
		_cleanup_(node_freep) struct node *node = NULL;

		if (i > 0) {
			result.signal = SIGKILL;
			result.denial_count = 1;
			strcpy(result.denials[0].action, "connect");
		}
		if (i > 1)
			buf_add(&result.out, "\xff", 1);
		node = write_and_read(&result);
		conforms(schema, node);
	}
	buf_done(&result.out);
}

static void every_reason_has_its_name(void **state)
{
	static const char *const names[REASON_COUNT] = {
		"exit",   "signal", "timeout", "memory",    "pids",   "cpu",  "disk",
		"output", "record", "lost",    "cancelled", "killed", "idle", "init",
	};

	(void)state;
	for (int i = 0; i < REASON_COUNT; i++) {
		_cleanup_(node_freep) struct node *node = NULL;
		struct result result = sample();

		result.reason = (enum reason)i;
		node = write_and_read(&result);
		assert_string_equal(text_at(node, "reason"), names[i]);
	}
}

static void values(void **state)
{
	_cleanup_(node_freep) struct node *node = NULL;
	const struct node *walls, *denials;
	struct result result = sample();

	(void)state;
	result.exit_code = 137;
	result.signal = SIGKILL;
	result.truncated = true;
	result.duration_ms = 5;
	result.cpu_ms = 6;
	result.peak_memory = INT64_MAX;
	buf_str(&result.out, "out\n");
	buf_str(&result.err, "err");
	result.denial_count = RESULT_MAX_DENIALS;
	for (size_t i = 0; i < RESULT_MAX_DENIALS; i++)
		snprintf(result.denials[i].object, sizeof(result.denials[i].object), "%zu\xff", i);
	node = write_and_read(&result);
	assert_string_equal(text_at(node, "sandbox"), "abc");
	assert_int_equal(node_get(node, "exit_code")->number, 137);
	assert_string_equal(text_at(node, "signal"), "SIGKILL");
	assert_string_equal(text_at(node, "stdout"), "out\n");
	assert_string_equal(text_at(node, "stderr"), "err");
	assert_null(text_at(node, "stdout_base64"));
	assert_null(text_at(node, "stderr_base64"));
	assert_int_equal(node_get(node, "truncated")->number, 1);
	assert_int_equal(node_get(node, "duration_ms")->number, 5);
	assert_int_equal(node_get(node, "cpu_ms")->number, 6);
	assert_true(node_get(node, "peak_memory")->number == INT64_MAX);
	assert_string_equal(text_at(node, "policy"), "sha256:0");
	assert_string_equal(text_at(node, "isolation"), "process");
	walls = node_get(node, "enforcement");
	assert_int_equal(walls->count, 1);
	assert_string_equal(text_at(walls->entries[0].value, "mechanism"), "cgroup v2");
	denials = node_get(node, "denials");
	assert_int_equal(denials->count, RESULT_MAX_DENIALS);
	assert_string_equal(text_at(denials->entries[3].value, "object"), "3\xef\xbf\xbd");
	buf_done(&result.out);
	buf_done(&result.err);
}

static void bytes_that_are_no_text(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text; /* up to a NUL */
		size_t text_len;
		const char *base64; /* NULL: the text is exact */
	} rows[] = {
		{ "", 0, "", 0, NULL },
		{ "a\tb\r\n", 5, "a\tb\r\n", 5, NULL },
		{ "\xc3\xa4", 2, "\xc3\xa4", 2, NULL },
		{ "\033[31m", 5, "\033[31m", 5, NULL },
		{ "\xff", 1, "\xef\xbf\xbd", 3, "/w==" },
		{ "a\xc3", 2, "a\xef\xbf\xbd", 4, "YcM=" },
		{ "\xed\xa0\x80", 3, NULL, 0, "7aCA" },
		{ "\xc0\xaf", 2, NULL, 0, "wK8=" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(node_freep) struct node *node = NULL;
		struct result result = sample();
		const char *base64;

		buf_add(&result.out, rows[i].bytes, rows[i].len);
		buf_add(&result.err, rows[i].bytes, rows[i].len);
		node = write_and_read(&result);
		if (rows[i].text) {
			assert_string_equal(text_at(node, "stdout"), rows[i].text);
			assert_string_equal(text_at(node, "stderr"), rows[i].text);
		}
		base64 = text_at(node, "stdout_base64");
		if (rows[i].base64)
			assert_string_equal(base64, rows[i].base64);
		else
			assert_null(base64);
		buf_done(&result.out);
		buf_done(&result.err);
	}
}

static void signal_names(void **state)
{
	char text[16];

	(void)state;
	assert_string_equal(signal_name(SIGTERM, text, sizeof(text)), "SIGTERM");
	assert_string_equal(signal_name(SIGXCPU, text, sizeof(text)), "SIGXCPU");
	assert_string_equal(signal_name(SIGSYS, text, sizeof(text)), "SIGSYS");
	assert_string_equal(signal_name(64, text, sizeof(text)), "SIG64");
	/* Every signal that ends a process by default has a name. */
	for (int i = 1; i < 32; i++)
		if (i != SIGCHLD && i != SIGCONT && i != SIGSTOP && i != SIGTSTP && i != SIGTTIN &&
		    i != SIGTTOU && i != SIGURG && i != SIGWINCH) {
			signal_name(i, text, sizeof(text));
			if (text[3] >= '0' && text[3] <= '9')
				fail_msg("%s", text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fields_are_those_of_the_schema),
		cmocka_unit_test(every_reason_has_its_name),
		cmocka_unit_test(values),
		cmocka_unit_test(bytes_that_are_no_text),
		cmocka_unit_test(signal_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
