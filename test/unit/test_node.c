#include "unit.h"

#include <errno.h>

#include "data/node.h"

static void maps_keep_order_and_replace(void **state)
{
	_cleanup_(node_freep) struct node *map = node_map();

	(void)state;
	assert_int_equal(node_set(map, "b", node_int(1)), 0);
	assert_int_equal(node_set(map, "a", node_bool(true)), 0);
	assert_int_equal(node_set(map, "b", node_string("two")), 0);
	assert_int_equal(map->count, 2);
	assert_string_equal(map->entries[0].key, "b");
	assert_string_equal(map->entries[1].key, "a");
	assert_string_equal(node_get(map, "b")->text, "two");
	assert_int_equal(node_get(map, "b")->line, 0);
	assert_null(node_get(map, "c"));
	assert_null(node_get(node_get(map, "a"), "b"));
	assert_null(node_get(NULL, "b"));
}

/* The sanitizer tells when a refused child is not freed. */
static void setters_take_the_child_also_when_they_fail(void **state)
{
	_cleanup_(node_freep) struct node *map = node_map();
	_cleanup_(node_freep) struct node *list = node_list();

	(void)state;
	assert_int_equal(node_set(map, "a", NULL), -ENOMEM);
	assert_int_equal(node_add(list, NULL), -ENOMEM);
	assert_int_equal(node_set(NULL, "a", node_int(1)), -ENOMEM);
	assert_int_equal(node_add(NULL, node_int(1)), -ENOMEM);
	assert_int_equal(node_set(list, "a", node_int(1)), -EINVAL);
	assert_int_equal(node_add(map, node_int(1)), -EINVAL);
	assert_int_equal(map->count + list->count, 0);
}

static struct node *sample(bool turned)
{
	struct node *map = node_map(), *list = node_list();

	assert_int_equal(node_add(list, node_null()), 0);
	assert_int_equal(node_add(list, node_float(0.5)), 0);
	assert_int_equal(node_add(list, node_bytes("a\0b", 3)), 0);
	if (turned)
		assert_int_equal(node_set(map, "z", node_int(-7)), 0);
	assert_int_equal(node_set(map, "list", list), 0);
	if (!turned)
		assert_int_equal(node_set(map, "z", node_int(-7)), 0);
	return map;
}

static void equality_is_by_value(void **state)
{
	_cleanup_(node_freep) struct node *a = sample(false);
	_cleanup_(node_freep) struct node *b = sample(true);
	_cleanup_(node_freep) struct node *c = node_copy(a);
	_cleanup_(node_freep) struct node *one = node_int(1);
	_cleanup_(node_freep) struct node *real = node_float(1);

	(void)state;
	assert_true(node_equal(a, b));
	assert_true(node_equal(a, c));
	assert_false(node_equal(one, real));
	/* Behind a NUL too. */
	c->entries[0].value->entries[2].value->text[2] = 'c';
	assert_false(node_equal(a, c));
	assert_int_equal(node_set(b, "more", node_null()), 0);
	assert_false(node_equal(a, b));
}

static void a_copy_keeps_places_and_shares_nothing(void **state)
{
	_cleanup_(node_freep) struct node *a = sample(false);
	_cleanup_(node_freep) struct node *b = NULL;

	(void)state;
	a->line = 3;
	a->entries[1].line = 4;
	a->entries[1].column = 5;
	b = node_copy(a);
	assert_int_equal(b->line, 3);
	assert_int_equal(b->entries[1].line, 4);
	assert_int_equal(b->entries[1].column, 5);
	assert_ptr_not_equal(a->entries[0].value, b->entries[0].value);
	assert_ptr_not_equal(a->entries[0].key, b->entries[0].key);
}

static void every_kind_has_a_name(void **state)
{
	(void)state;
	for (int kind = NODE_NULL; kind <= NODE_MAP; kind++)
		assert_non_null(node_kind_name((enum node_kind)kind));
	assert_string_equal(node_kind_name(NODE_INT), "a whole number");
	assert_string_equal(node_kind_name(NODE_LIST), "a list");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maps_keep_order_and_replace),
		cmocka_unit_test(setters_take_the_child_also_when_they_fail),
		cmocka_unit_test(equality_is_by_value),
		cmocka_unit_test(a_copy_keeps_places_and_shares_nothing),
		cmocka_unit_test(every_kind_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
