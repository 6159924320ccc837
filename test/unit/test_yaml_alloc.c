#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "data/yaml.h"

static const char document[] =
	"version: 1\n"
	"list: [a, 'b', \"c\\u00e4\", 1.5, {\"x\":null, y: }]\n"
	"text: |\n"
	"  one\n"
	"  two\n"
	"folded: >-\n"
	"  one\n"
	"items:\n"
	"- a: 1\n"
	"  b:\n"
	"- - - true\n"
	"\"long key, longer than the first room of a buffer, which is sixty-four "
	"bytes\": end\n";

/* Parses, copies and writes; after n allocations each of them may fail, but only with -ENOMEM. */
static int use_everything(int n)
{
	_cleanup_(node_freep) struct node *node = NULL;
	_cleanup_(node_freep) struct node *copy = NULL;
	_cleanup_(buf_done) struct buf buf = BUF(64 * KIB);
	struct err err = ERR_NONE;
	int r;

	alloc_left = n;
	r = yaml_parse("test", document, sizeof(document) - 1, &node, &err);
	if (r < 0) {
		alloc_left = -1;
		assert_int_equal(r, -ENOMEM);
		assert_string_equal(err.text, "test: out of memory");
		assert_null(node);
		return r;
	}
	copy = node_copy(node);
	r = copy ? node_set(copy, "added", node_string("x")) : -ENOMEM;
	if (r >= 0)
		r = json_write(copy, true, &buf);
	alloc_left = -1;
	return r;
}

static void every_allocation_may_fail(void **state)
{
	int n = 0, r;

	(void)state;
	while ((r = use_everything(n)) < 0) {
		assert_int_equal(r, -ENOMEM);
		n++;
	}
	/* Fewer would mean that the wrapping does not work and nothing was tested. */
	assert_in_range(n, 100, 10000);
}

static void equality_needs_no_memory(void **state)
{
	_cleanup_(node_freep) struct node *a = NULL;
	_cleanup_(node_freep) struct node *b = NULL;

	(void)state;
	assert_int_equal(yaml_parse("a", "{x: 1, y: [2]}", 14, &a, NULL), 0);
	assert_int_equal(yaml_parse("b", "{y: [2], x: 1}", 14, &b, NULL), 0);
	for (int n = 0; n < 3; n++) {
		bool equal;

		alloc_left = n;
		equal = node_equal(a, b);
		alloc_left = -1;
		assert_true(equal);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(equality_needs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
