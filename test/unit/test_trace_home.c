#include "trace_case.h"

#include <limits.h>

#include "trace/catalog.h"

static void ids_are_letters_and_digits(void **state)
{
	static const char *const good[] = { "a", "abc234", "abcdefghijkmnpq" };
	static const char *const bad[] = { "",    "..",   "a/b", "/a", "a.b", "A",
					   "a b", "a\n",  "-a",  "ä",  "a*",  "abcdefghijkmnpqr",
					   "~",   "a\x1b" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(trace_id_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(trace_id_is_valid(bad[i]));
}

static void the_place_follows_the_environment(void **state)
{
	char path[PATH_MAX];
	struct err err = ERR_NONE;

	(void)state;
	setenv("HOME", "/home/x", 1);
	setenv("XDG_STATE_HOME", "/s", 1);
	assert_int_equal(trace_home_path(path, &err), 0);
	assert_string_equal(path, "/s/brig");
	/* Relative is invalid, says XDG. */
	setenv("XDG_STATE_HOME", "s", 1);
	assert_int_equal(trace_home_path(path, &err), 0);
	assert_string_equal(path, geteuid() ? "/home/x/.local/state/brig" : "/var/lib/brig");
	unsetenv("XDG_STATE_HOME");
	assert_int_equal(trace_home_path(path, &err), 0);
	assert_string_equal(path, geteuid() ? "/home/x/.local/state/brig" : "/var/lib/brig");
}

static void it_is_made_with_what_is_missing_above(void **state)
{
	char path[128];
	struct err err = ERR_NONE;
	struct stat st;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/a/b/brig", trace_home);
	assert_int_equal(trace_home_open(path, false, &err), -ENOENT);
	fd = trace_home_open(path, true, &err);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	close(fd);
}

static void others_must_not_write_it(void **state)
{
	static const mode_t modes[] = { 0770, 0702, 01777 };
	char path[128], link[128];
	struct err err = ERR_NONE;

	(void)state;
	snprintf(path, sizeof(path), "%s/brig", trace_home);
	snprintf(link, sizeof(link), "%s/link", trace_home);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_int_equal(trace_home_open(path, true, &err), -EPERM);
		assert_non_null(strstr(err.text, "chmod 700"));
	}
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(trace_home_open(link, true, &err), -ENOTDIR);
	assert_int_equal(unlink(link), 0);
	trace_store("link", "x", 1);
	assert_int_equal(trace_home_open(link, true, &err), -ENOTDIR);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(trace_home_open(path, true, &err), -EPERM);
		assert_non_null(strstr(err.text, "XDG_STATE_HOME"));
	}
}

static void a_link_inside_leads_nowhere(void **state)
{
	struct trace_request request = trace_request_of("abc");
	struct trace *trace = NULL;
	char from[128], outside[128];
	struct err err = ERR_NONE;

	(void)state;
	snprintf(outside, sizeof(outside), "%s/outside", trace_home);
	snprintf(from, sizeof(from), "%s/sandboxes", trace_home);
	assert_int_equal(mkdir(outside, 0700), 0);
	assert_int_equal(symlink(outside, from), 0);
	assert_true(trace_open(&request, &trace, &err) < 0);
	assert_null(trace);
}

static void a_beginning_is_enough_when_it_is_the_only_one(void **state)
{
	char id[TRACE_ID_SIZE] = "";
	struct err err = ERR_NONE;
	int home;

	(void)state;
	assert_int_equal(trace_close(trace_begin("abc1"), "exit", 0), 0);
	assert_int_equal(trace_close(trace_begin("abc"), "exit", 0), 0);
	assert_int_equal(trace_close(trace_begin("xyz"), "exit", 0), 0);
	home = trace_home_open(trace_home, false, &err);
	assert_int_equal(catalog_find(home, "x", id, &err), 0);
	assert_string_equal(id, "xyz");
	assert_int_equal(catalog_find(home, "abc", id, &err), 0);
	assert_string_equal(id, "abc");
	assert_int_equal(catalog_find(home, "ab", id, &err), -ENOTUNIQ);
	assert_int_equal(catalog_find(home, "q", id, &err), -ENOENT);
	assert_int_equal(catalog_find(home, "../x", id, &err), -EINVAL);
	/* The one that was started last. */
	assert_int_equal(catalog_find(home, NULL, id, &err), 0);
	assert_string_equal(id, "xyz");
	close(home);
}

static void a_summary_of_anything(void **state)
{
	struct stream_summary s;
	struct err err = ERR_NONE;
	int home;

	(void)state;
	assert_int_equal(trace_close(trace_begin("abc"), "exit", 0), 0);
	home = trace_home_open(trace_home, false, &err);
	assert_int_equal(catalog_summary(home, "abc", &s), 0);
	assert_string_equal(s.command, "python3 'it'\\''s'");
	assert_int_equal(s.head.state, HEAD_CLOSED);
	assert_false(s.is_alive);
	free(s.command);
	trace_store("sandboxes/abc/events.ndjson", "\xff\n", 2);
	trace_store("heads/abc", "x", 1);
	assert_int_equal(catalog_summary(home, "abc", &s), 0);
	assert_null(s.command);
	assert_false(s.has_head);
	close(home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_letters_and_digits),
		cmocka_unit_test(the_place_follows_the_environment),
		trace_case(it_is_made_with_what_is_missing_above),
		trace_case(others_must_not_write_it),
		trace_case(a_link_inside_leads_nowhere),
		trace_case(a_beginning_is_enough_when_it_is_the_only_one),
		trace_case(a_summary_of_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
