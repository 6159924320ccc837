#include "init_files_case.h"

#include <sys/inotify.h>

static void watch_begin(struct call *c, const char *path, uint64_t flags)
{
	struct message m;

	call_simple(c, MESSAGE_WATCH, path, flags);
	call_expect(c, &m, MESSAGE_DONE);
}

/* The next change, as "made path", "moved path to"; a directory with a slash behind. */
static const char *next_change(struct call *c)
{
	static char text[100000];
	struct message m;
	uint64_t seen;

	call_expect(c, &m, MESSAGE_CHANGE_IS);
	seen = message_number(&m, FIELD_CHANGE, SEEN_COUNT);
	assert_true(seen < SEEN_COUNT);
	snprintf(text, sizeof(text), "%s %s%s%s%s", change_seen_names[seen],
		 message_text(&m, FIELD_PATH, "?"),
		 message_number(&m, FIELD_MODE, 0) == S_IFDIR ? "/" : "",
		 message_has(&m, FIELD_TO) ? " " : "", message_text(&m, FIELD_TO, ""));
	return text;
}

static void expect_change(struct call *c, const char *expected)
{
	assert_string_equal(next_change(c), expected);
}

/* Somewhere among what comes. */
static void await_change(struct call *c, const char *expected)
{
	while (!str_equal(next_change(c), expected))
		;
}

static void watch_cancel(struct call *c)
{
	call_say(c, MESSAGE_CANCEL);
	expect_error(c, ECANCELED, "cancelled");
}

static void expect_gone(struct call *c)
{
	expect_change(c, "gone .");
	expect_done(c);
}

static void test_directory(void **state)
{
	struct call c;
	int fd;

	(void)state;
	assert_int_equal(mkdir("d", 0755) | mkdir("d/sub", 0755), 0);
	watch_begin(&c, "d", 0);
	fd = open("d/a\x01\n\xff", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	expect_change(&c, "made a\x01\n\xff");
	assert_int_equal(write(fd, "1", 1), 1);
	expect_change(&c, "changed a\x01\n\xff");
	close(fd);
	assert_int_equal(chmod("d/a\x01\n\xff", 0600), 0);
	expect_change(&c, "attributes a\x01\n\xff");
	assert_int_equal(rename("d/a\x01\n\xff", "d/b"), 0);
	expect_change(&c, "moved a\x01\n\xff b");
	assert_int_equal(mkdir("d/sub/below", 0755), 0);
	assert_int_equal(rename("d/b", "outside"), 0);
	expect_change(&c, "removed b");
	assert_int_equal(rename("outside", "d/c"), 0);
	expect_change(&c, "made c");
	assert_int_equal(unlink("d/c"), 0);
	expect_change(&c, "removed c");
	assert_int_equal(chmod("d", 0700), 0);
	expect_change(&c, "attributes ./");
	assert_int_equal(mkdir("d/new", 0755) | mkdir("d/new/in", 0755) | rmdir("d/new/in") |
				 rmdir("d/new"),
			 0);
	expect_change(&c, "made new/");
	expect_change(&c, "removed new/");
	watch_cancel(&c);
}

static void test_file(void **state)
{
	struct call c;
	int fd;

	(void)state;
	make_file("f", "", 0);
	watch_begin(&c, "f", TREE_RECURSIVE);
	make_file("f", "xyz", 3);
	expect_change(&c, "changed .");
	assert_int_equal(chmod("f", 0600), 0);
	await_change(&c, "attributes .");
	/* Gone for everybody who looks, though somebody has it open. */
	fd = open("f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(unlink("f"), 0);
	expect_gone(&c);
	close(fd);
}

static void test_recursive(void **state)
{
	struct call c;

	(void)state;
	assert_int_equal(mkdir("d", 0755) | mkdir("d/x", 0755) | mkdir("d/x/y", 0755), 0);
	watch_begin(&c, base, TREE_RECURSIVE);
	make_file("d/x/y/file", "", 0);
	expect_change(&c, "made d/x/y/file");
	/* A directory takes all below it along. */
	assert_int_equal(rename("d/x", "moved"), 0);
	expect_change(&c, "moved d/x/ moved");
	assert_int_equal(mkdir("moved/y/z", 0755), 0);
	expect_change(&c, "made moved/y/z/");
	make_file("moved/y/z/deep", "", 0);
	await_change(&c, "made moved/y/z/deep");
	assert_int_equal(unlink("moved/y/z/deep"), 0);
	await_change(&c, "removed moved/y/z/deep");
	assert_int_equal(rmdir("moved/y/z"), 0);
	await_change(&c, "removed moved/y/z/");
	/* Another under the same name is another. */
	assert_int_equal(mkdir("moved/y/z", 0755), 0);
	expect_change(&c, "made moved/y/z/");
	make_file("moved/y/z/again", "", 0);
	await_change(&c, "made moved/y/z/again");
	/* Over an empty one. */
	assert_int_equal(mkdir("empty", 0755), 0);
	await_change(&c, "made empty/");
	assert_int_equal(rename("moved/y", "empty"), 0);
	await_change(&c, "moved moved/y/ empty");
	make_file("empty/z/again", "x", 1);
	await_change(&c, "changed empty/z/again");
	watch_cancel(&c);
}

/* What appears with content is told with it. */
static void test_appears(void **state)
{
	static const char *const paths[] = { "d/t/", "d/t/u/", "d/t/u/v/", "d/t/u/v/file" };
	bool seen[ARRAY_SIZE(paths)] = { false };
	struct call c;

	(void)state;
	assert_int_equal(
		mkdir("d", 0755) | mkdir("t", 0755) | mkdir("t/u", 0755) | mkdir("t/u/v", 0755), 0);
	make_file("t/u/v/file", "", 0);
	watch_begin(&c, "d", TREE_RECURSIVE);
	assert_int_equal(rename("t", "d/t"), 0);
	for (size_t count = 0; count < ARRAY_SIZE(paths);) {
		const char *change = next_change(&c);

		for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
			if (str_starts(change, "made ") && str_equal(change + 5, paths[i] + 2)) {
				assert_false(seen[i]);
				seen[i] = true;
				count++;
			}
	}
	make_file("d/t/u/v/file", "x", 1);
	await_change(&c, "changed t/u/v/file");
	/* Moved out: nothing of it is told any more. */
	assert_int_equal(rename("d/t", "t"), 0);
	await_change(&c, "removed t/");
	make_file("t/u/v/other", "", 0);
	make_file("d/end", "", 0);
	expect_change(&c, "made end");
	watch_cancel(&c);
}

/* Into a directory that is not watched yet: told, with its content. */
static void test_moved_into_new(void **state)
{
	struct call c;

	(void)state;
	assert_int_equal(mkdir("old", 0755) | mkdir("old/in", 0755), 0);
	make_file("old/in/file", "", 0);
	watch_begin(&c, base, TREE_RECURSIVE);
	kill(c.pid, SIGSTOP);
	assert_int_equal(waitpid(c.pid, NULL, WUNTRACED), c.pid);
	assert_int_equal(mkdir("new", 0755) | rename("old", "new/old"), 0);
	kill(c.pid, SIGCONT);
	expect_change(&c, "made new/");
	expect_change(&c, "made new/old/");
	expect_change(&c, "made new/old/in/");
	expect_change(&c, "made new/old/in/file");
	expect_change(&c, "removed old/");
	make_file("new/old/in/file", "x", 1);
	expect_change(&c, "changed new/old/in/file");
	watch_cancel(&c);
}

/* A file that WRITE puts there appears whole, under its own name alone. */
static void test_written(void **state)
{
	struct call c, writing;
	struct draft d;

	(void)state;
	watch_begin(&c, base, TREE_RECURSIVE);
	d = draft_of(MESSAGE_WRITE, "file");
	call_begin(&writing, &d, -EBADF);
	call_say(&writing, MESSAGE_DATA_END);
	expect_done(&writing);
	expect_change(&c, "made file");
	expect_change(&c, "changed file");
	/* Other names that only look like it are told. */
	make_file(".brig-0123456789abcdeg", "", 0);
	expect_change(&c, "made .brig-0123456789abcdeg");
	watch_cancel(&c);
}

/* Made in a hurry: all of it is told, perhaps twice. */
static void test_hurry(void **state)
{
	bool seen[200] = { false };
	struct call c;

	(void)state;
	watch_begin(&c, base, TREE_RECURSIVE);
	for (int i = 0; i < 200; i++) {
		char path[32];

		snprintf(path, sizeof(path), "d%d", i);
		assert_int_equal(mkdir(path, 0755), 0);
		snprintf(path, sizeof(path), "d%d/e", i);
		assert_int_equal(mkdir(path, 0755), 0);
		snprintf(path, sizeof(path), "d%d/e/f", i);
		make_file(path, "", 0);
	}
	for (int count = 0, i; count < 200;) {
		char rest[20];

		if (sscanf(next_change(&c), "made d%d%18s", &i, rest) == 2 &&
		    str_equal(rest, "/e/f") && !seen[i]) {
			seen[i] = true;
			count++;
		}
	}
	watch_cancel(&c);
}

static void test_gone(void **state)
{
	struct call c;

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(mkdir("d", 0755) | mkdir("d/sub", 0755), 0);
		watch_begin(&c, "d", i & 1 ? TREE_RECURSIVE : 0);
		if (i & 2) {
			assert_int_equal(rename("d", "elsewhere"), 0);
			assert_int_equal(rmdir("elsewhere/sub") | rmdir("elsewhere"), 0);
		} else {
			assert_int_equal(rmdir("d/sub") | rmdir("d"), 0);
			expect_change(&c, "removed sub/");
		}
		expect_gone(&c);
	}
}

/* The tree is still what it was, but not where its path leads to any more. */
static void test_renamed_above(void **state)
{
	struct call c;

	(void)state;
	assert_int_equal(mkdir("a", 0755) | mkdir("a/d", 0755), 0);
	watch_begin(&c, "a/d", TREE_RECURSIVE);
	assert_int_equal(rename("a", "b") | mkdir("a", 0755) | mkdir("a/d", 0755), 0);
	assert_int_equal(chmod("b/d", 0700), 0);
	expect_gone(&c);
}

/* More events than the kernel keeps and than fit on the way, each another than the last. */
static void flood(const char *one, const char *other)
{
	char text[32];
	int count;

	assert_int_equal(file_read_at(AT_FDCWD, "/proc/sys/fs/inotify/max_queued_events", text,
				      sizeof(text)),
			 0);
	count = atoi(text) + 20000;
	for (int i = 0; i < count; i++)
		assert_int_equal(chmod(i % 2 ? one : other, 0644), 0);
}

static void test_overflow(void **state)
{
	struct call c;
	int status;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	make_file("one", "", 0);
	make_file("other", "", 0);
	watch_begin(&c, base, TREE_RECURSIVE);
	kill(c.pid, SIGSTOP);
	assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
	flood("one", "other");
	assert_int_equal(mkdir("d/x", 0755), 0);
	kill(c.pid, SIGCONT);
	await_change(&c, "lost .");
	/* It is watched again, with what came meanwhile. */
	make_file("d/x/file", "", 0);
	await_change(&c, "made d/x/file");
	watch_cancel(&c);
}

static void test_bound(void **state)
{
	char path[32];
	struct call c;

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "d%d", i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	files_bounds.directories = 20;
	call_simple(&c, MESSAGE_WATCH, base, TREE_RECURSIVE);
	expect_error(&c, ENOSPC, "has more than 20 directories: watch a part of it");
	files_bounds.directories = 21;
	watch_begin(&c, base, TREE_RECURSIVE);
	files_bounds.directories = 8192;
	assert_int_equal(rmdir("d7") | mkdir("new", 0755), 0);
	expect_change(&c, "removed d7/");
	expect_change(&c, "made new/");
	/* One more is too much, also later. */
	assert_int_equal(mkdir("more", 0755), 0);
	expect_error(&c, ENOSPC, "has more than 21 directories");
}

/* Deeper than a path can say in one piece. */
static void test_deep(void **state)
{
	char name[201], expected[8000] = "made ";
	int dir = open(".", O_PATH | O_CLOEXEC);
	struct call c;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 30; i++) {
		int next;

		assert_int_equal(mkdirat(dir, name, 0755), 0);
		next = openat(dir, name, O_PATH | O_CLOEXEC);
		close(dir);
		dir = next;
		strcat(strcat(expected, name), "/");
	}
	watch_begin(&c, base, TREE_RECURSIVE);
	assert_int_equal(mkdirat(dir, "x", 0755), 0);
	close(dir);
	expect_change(&c, strcat(expected, "x/"));
	watch_cancel(&c);
	files_bounds.path = 3000;
	call_simple(&c, MESSAGE_WATCH, base, TREE_RECURSIVE);
	files_bounds.path = 32 * KIB;
	expect_error(&c, ENAMETOOLONG, "lies too deep to be watched");
}

static void test_refused(void **state)
{
	struct call c;

	(void)state;
	call_simple(&c, MESSAGE_WATCH, "nothing", 0);
	expect_error(&c, ENOENT, "\"nothing\": does not exist");
	if (geteuid() != 0)
		return;
	assert_int_equal(mkdir("shut", 0700) | mkdir("open", 0755), 0);
	as_nobody = true;
	call_simple(&c, MESSAGE_WATCH, "shut", 0);
	expect_error(&c, EACCES, "\"shut\" cannot be watched: the sandbox may not read it");
	/* One below that cannot be read does not spoil the rest. */
	watch_begin(&c, base, TREE_RECURSIVE);
	make_file("shut/file", "", 0);
	make_file("open/file", "", 0);
	expect_change(&c, "made open/file");
	watch_cancel(&c);
}

static void test_channel_ends(void **state)
{
	struct call c;

	(void)state;
	watch_begin(&c, base, TREE_RECURSIVE);
	call_end(&c);
}

/* A reader that does not read loses changes, and nothing else happens. */
static void test_nobody_reads(void **state)
{
	struct call c;

	(void)state;
	make_file("one", "", 0);
	make_file("other", "", 0);
	watch_begin(&c, base, 0);
	flood("one", "other");
	await_change(&c, "lost .");
	watch_cancel(&c);
}

/* Where there is no /proc. */
static void test_without_proc(void **state)
{
	(void)state;
	setenv("BRIG_TEST_WITHOUT", "proc", 1);
	test_recursive(state);
	unsetenv("BRIG_TEST_WITHOUT");
}

static void test_file_without_proc(void **state)
{
	setenv("BRIG_TEST_WITHOUT", "proc", 1);
	test_file(state);
	unsetenv("BRIG_TEST_WITHOUT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_directory),
		CASE(test_file),
		CASE(test_recursive),
		CASE(test_appears),
		CASE(test_moved_into_new),
		CASE(test_written),
		CASE(test_hurry),
		CASE(test_gone),
		CASE(test_renamed_above),
		CASE(test_overflow),
		CASE(test_bound),
		CASE(test_deep),
		CASE(test_refused),
		CASE(test_channel_ends),
		CASE(test_nobody_reads),
		CASE(test_without_proc),
		CASE(test_file_without_proc),
	};

	return cmocka_run_group_tests_name("init_files_watch", tests, NULL, NULL);
}
