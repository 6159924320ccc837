#include "unit.h"

#include <errno.h>

#include "base/buf.h"

static void grows_and_terminates(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(1000);

	(void)state;
	assert_string_equal(buf_text(&buf), "");
	for (int i = 0; i < 100; i++)
		assert_int_equal(buf_printf(&buf, "%d,", i % 10), 0);
	assert_int_equal(buf.len, 200);
	assert_int_equal(buf.data[200], '\0');
}

static void refuses_what_is_over_its_maximum_whole(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(10);

	(void)state;
	assert_int_equal(buf_str(&buf, "0123456789"), 0);
	assert_int_equal(buf_char(&buf, 'x'), -ENOSPC);
	assert_string_equal(buf_text(&buf), "0123456789");
	assert_int_equal(buf_failed(&buf), -ENOSPC);
	/* The first failure sticks: a shorter text that would fit is refused too. */
	buf.len = 5;
	assert_int_equal(buf_char(&buf, 'x'), -ENOSPC);
	buf_reset(&buf);
	assert_int_equal(buf_char(&buf, 'x'), 0);
}

static void length_near_the_largest_number_does_not_wrap(void **state)
{
	_cleanup_(buf_done) struct buf buf = BUF(100);

	(void)state;
	assert_int_equal(buf_str(&buf, "abc"), 0);
	assert_int_equal(buf_add(&buf, "x", SIZE_MAX - 1), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_terminates),
		cmocka_unit_test(refuses_what_is_over_its_maximum_whole),
		cmocka_unit_test(length_near_the_largest_number_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
