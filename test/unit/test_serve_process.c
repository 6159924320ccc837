#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "serve/e2b_process.h"

static void words_of_an_end(void **state)
{
	static const struct {
		int status;
		const char *words;
	} cases[] = {
		{ 0, "exit status 0" },
		{ 3 << 8, "exit status 3" },
		{ 255 << 8, "exit status 255" },
		{ SIGKILL, "signal: killed" },
		{ SIGTERM, "signal: terminated" },
		{ SIGSEGV | 0x80, "signal: segmentation fault (core dumped)" },
		{ SIGSYS, "signal: bad system call" },
		{ 34, "signal: signal 34" },
		{ 64, "signal: signal 64" },
		/* What no process can end with, but init can say. */
		{ 0x7f, "exit status 0" },
		{ 0xffff, "exit status 255" },
	};
	char words[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		status_words(cases[i].status, words, sizeof(words));
		assert_string_equal(words, cases[i].words);
	}
	for (int status = 0; status <= 0xffff; status++)
		status_words(status, words, sizeof(words));
}

static struct node *json(const char *text)
{
	struct node *node = NULL;
	struct err err;

	assert_int_equal(json_read(text, strlen(text), NULL, &node, &err), 0);
	return node;
}

static void labels(void **state)
{
	_cleanup_(node_freep) struct node *config = json(
		"{\"cmd\":\"sh\",\"args\":[\"-c\",\"x\"],\"envs\":{\"A\":\"1\"},\"cwd\":null}");
	_cleanup_(node_freep) struct node *label = NULL;
	_cleanup_(buf_done) struct buf text = BUF(0);

	(void)state;
	assert_int_equal(label_write(&text, config, "a \"tag\""), 0);
	assert_string_equal(buf_text(&text),
			    "e2b {\"config\":{\"args\":[\"-c\",\"x\"],\"cmd\":\"sh\","
			    "\"envs\":{\"A\":\"1\"}},\"tag\":\"a \\\"tag\\\"\"}");
	assert_true(label_is_ours(buf_text(&text)));
	label = label_read(buf_text(&text));
	assert_string_equal(node_get(label, "tag")->text, "a \"tag\"");
	/* Without a tag, and without anything. */
	assert_int_equal(label_write(&text, NULL, NULL), 0);
	assert_string_equal(buf_text(&text), "e2b {\"config\":{}}");
}

/* As much as there is room for, and the tag in any case. */
static void long_labels(void **state)
{
	_cleanup_(node_freep) struct node *config = json("{\"cmd\":\"sh\",\"cwd\":\"/tmp\"}");
	_cleanup_(buf_done) struct buf text = BUF(0);
	static char word[20000];

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	assert_int_equal(node_set(config, "envs", node_map()), 0);
	assert_int_equal(node_set(config, "args", node_list()), 0);
	assert_int_equal(node_set((struct node *)(uintptr_t)node_get(config, "envs"), "A",
				  node_string(word)),
			 0);
	assert_int_equal(label_write(&text, config, "t"), 0);
	assert_string_equal(buf_text(&text), "e2b {\"config\":{\"args\":[],\"cmd\":\"sh\","
					     "\"cwd\":\"/tmp\"},\"tag\":\"t\"}");
	assert_int_equal(node_set(config, "args", node_string(word)), 0);
	assert_int_equal(label_write(&text, config, "t"), 0);
	assert_string_equal(buf_text(&text),
			    "e2b {\"config\":{\"cmd\":\"sh\",\"cwd\":\"/tmp\"},\"tag\":\"t\"}");
	assert_int_equal(node_set(config, "cmd", node_string(word)), 0);
	assert_int_equal(label_write(&text, config, "t"), 0);
	assert_string_equal(buf_text(&text), "e2b {\"config\":{},\"tag\":\"t\"}");
	assert_true(text.len < EXEC_LABEL_MAX);
}

/* init has them, and may say what it likes. */
static void labels_that_are_odd(void **state)
{
	static const char *const odd[] = { "",       "e2b",       "e2b ", "e2b {",
					   "e2b []", "e2b {} {}", "x",    "e2b {\"a\":1,\"a\":2}",
					   "E2B {}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_null(label_read(odd[i]));
}

static void numbers(void **state)
{
	_cleanup_(node_freep) struct node *map = json(
		"{\"a\":5,\"b\":\"7\",\"c\":-1,\"d\":4294967296,\"e\":\"x\",\"f\":null,\"g\":1.5,"
		"\"h\":4294967295,\"i\":\"-1\",\"j\":true}");
	uint32_t value;

	(void)state;
	assert_int_equal(rpc_number(map, "a", 9, &value), 0);
	assert_int_equal(value, 5);
	assert_int_equal(rpc_number(map, "b", 9, &value), 0);
	assert_int_equal(value, 7);
	assert_int_equal(rpc_number(map, "h", 9, &value), 0);
	assert_int_equal(value, UINT32_MAX);
	for (const char *key = "fz"; *key; key++) {
		const char name[] = { *key, '\0' };

		assert_int_equal(rpc_number(map, name, 9, &value), 0);
		assert_int_equal(value, 9);
	}
	for (const char *key = "cdegij"; *key; key++) {
		const char name[] = { *key, '\0' };

		assert_int_equal(rpc_number(map, name, 9, &value), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_of_an_end), cmocka_unit_test(labels),
		cmocka_unit_test(long_labels),     cmocka_unit_test(labels_that_are_odd),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
