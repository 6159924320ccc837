/*
 * Calls that the user has no right to make, and root of the sandbox has. Needs root, which is given up but for
 * its number.
 */
#include "init_files_case.h"

#include <dirent.h>
#include <sys/xattr.h>

static void own(const char *path, uid_t uid)
{
	assert_int_equal(chown(path, uid, uid), 0);
}

static void expect_owner(const char *path, uid_t uid, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_mode & 07777, mode);
}

/* No folder that was lent is left. */
static void expect_clean(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (files_is_fresh_name(entry->d_name))
			fail_msg("%s/%s is left", path, entry->d_name);
	closedir(dir);
}

/* A folder of each. */
static void make_both(void)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir("roots", 0755) | mkdir("users", 0755), 0);
	own("users", NOBODY);
	with_root = true;
}

static void write_begin(struct call *c, const char *path, uint64_t flags)
{
	struct draft d = draft_of(MESSAGE_WRITE, path);

	draft_number(&d, FIELD_FLAGS, flags);
	call_begin(c, &d, -EBADF);
}

static void say_data(struct call *c, const char *text)
{
	struct draft d = DRAFT(MESSAGE_DATA, CALL);

	draft_bytes(&d, FIELD_DATA, text, strlen(text));
	assert_int_equal(channel_send(&c->ch, &d, NULL, 0), 0);
	draft_done(&d);
}

static void write_whole(const char *path, uint64_t flags, const char *text)
{
	struct call c;

	write_begin(&c, path, flags);
	say_data(&c, text);
	call_say(&c, MESSAGE_DATA_END);
	expect_done(&c);
}

static void test_write(void **state)
{
	(void)state;
	make_both();
	write_whole("roots/new", 0, "text");
	expect_content("roots/new", "text", 4);
	expect_owner("roots/new", NOBODY, 0644);
	write_whole("roots/a/b/new", WRITE_PARENTS, "deep");
	expect_content("roots/a/b/new", "deep", 4);
	expect_owner("roots/a", NOBODY, 0755);
	expect_owner("roots/a/b", NOBODY, 0755);
	write_whole("users/new", WRITE_EXCLUSIVE, "x");
	expect_owner("users/new", NOBODY, 0644);
	expect_clean("roots");
	expect_clean("users");
}

/* The pipe that came with a call must not be used up by the attempt that was refused. */
static void test_write_from_a_pipe(void **state)
{
	struct draft d;
	struct call c;
	int pair[2];

	(void)state;
	make_both();
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	d = draft_of(MESSAGE_WRITE, "roots/new");
	draft_number(&d, FIELD_FLAGS, WRITE_ENDED);
	call_begin(&c, &d, pair[0]);
	assert_int_equal(write(pair[1], "piped", 5), 5);
	close(pair[1]);
	call_say(&c, MESSAGE_DATA_END);
	assert_int_equal(expect_done(&c), 5);
	expect_content("roots/new", "piped", 5);
}

static void test_write_over(void **state)
{
	(void)state;
	make_both();
	make_file("roots/old", "of root", 7);
	assert_int_equal(chmod("roots/old", 0640), 0);
	write_whole("roots/old", 0, "of the user");
	expect_content("roots/old", "of the user", 11);
	expect_owner("roots/old", NOBODY, 0640);
	/* One that has other names stays what it is to them. */
	make_file("roots/linked", "1", 1);
	assert_int_equal(link("roots/linked", "roots/other"), 0);
	write_whole("roots/linked", 0, "22");
	expect_content("roots/other", "22", 2);
	expect_owner("roots/other", 0, 0644);
	/* And in a folder of the user's one of root's is replaced, too. */
	make_file("users/roots", "1", 1);
	write_whole("users/roots", 0, "333");
	expect_content("users/roots", "333", 3);
	expect_clean("roots");
}

static void test_write_breaks_off(void **state)
{
	struct call c;

	(void)state;
	make_both();
	make_file("roots/old", "old", 3);
	for (int i = 0; i < 2; i++) {
		write_begin(&c, i ? "roots/old" : "roots/new", 0);
		say_data(&c, "half");
		if (i == 0)
			call_say(&c, MESSAGE_CANCEL);
		else
			shutdown(c.ch.fd, SHUT_RDWR);
		call_end(&c);
	}
	assert_false(is_there("roots/new"));
	expect_content("roots/old", "old", 3);
	expect_clean("roots");
}

static void make(const char *path, uint64_t flags)
{
	struct draft d = draft_of(MESSAGE_MAKE, path);
	struct call c;

	draft_number(&d, FIELD_FLAGS, flags);
	draft_number(&d, FIELD_MODE, 0751);
	call_begin(&c, &d, -EBADF);
	expect_done(&c);
	expect_owner(path, NOBODY, 0751);
}

static void test_make(void **state)
{
	struct call c;

	(void)state;
	make_both();
	make("roots/d", 0);
	make("roots/a/b/c", TREE_PARENTS);
	expect_owner("roots/a/b", NOBODY, 0755);
	call_simple(&c, MESSAGE_MAKE, "roots/d", 0);
	expect_error(&c, EEXIST, "is there already");
	/* Where only root can look. */
	assert_int_equal(mkdir("roots/shut", 0700), 0);
	{
		struct draft d = draft_of(MESSAGE_MAKE, "roots/shut/x/y");

		draft_number(&d, FIELD_FLAGS, TREE_PARENTS);
		call_begin(&c, &d, -EBADF);
		expect_done(&c);
	}
	expect_owner("roots/shut/x/y", NOBODY, 0755);
	expect_clean("roots");
	expect_clean("roots/shut");
}

static void move(const char *from, const char *to)
{
	struct draft d = draft_of(MESSAGE_MOVE, from);
	struct call c;

	draft_text(&d, FIELD_TO, to);
	draft_number(&d, FIELD_FLAGS, MOVE_PARENTS);
	call_begin(&c, &d, -EBADF);
	expect_done(&c);
	assert_false(is_there(from));
}

static void test_move(void **state)
{
	(void)state;
	make_both();
	make_file("users/file", "1", 1);
	own("users/file", NOBODY);
	move("users/file", "roots/file");
	expect_owner("roots/file", NOBODY, 0644);
	move("roots/file", "users/sub/file");
	expect_content("users/sub/file", "1", 1);
	/* Of root's, into what is the user's and back. */
	make_file("roots/mine", "2", 1);
	move("roots/mine", "users/mine");
	expect_owner("users/mine", 0, 0644);
	move("users/mine", "roots/again");
	/* Folders, whose mode is what it was. */
	assert_int_equal(mkdir("users/d", 0755), 0);
	own("users/d", NOBODY);
	assert_int_equal(chmod("users/d", 0750), 0);
	make_file("users/d/in", "3", 1);
	move("users/d", "roots/d");
	expect_owner("roots/d", NOBODY, 0750);
	expect_content("roots/d/in", "3", 1);
	move("roots/d", "users/d");
	expect_owner("users/d", NOBODY, 0750);
	expect_clean("roots");
	expect_clean("users");
}

static void test_remove(void **state)
{
	struct call c;

	(void)state;
	make_both();
	/* Of one in the other, to some depth. */
	assert_int_equal(
		mkdir("roots/u", 0755) | mkdir("roots/u/r", 0755) | mkdir("roots/u/r/u", 0700), 0);
	make_file("roots/u/r/u/file", "", 0);
	make_file("roots/u/r/file", "", 0);
	make_file("roots/u/file", "", 0);
	own("roots/u", NOBODY);
	own("roots/u/r/u", NOBODY);
	call_simple(&c, MESSAGE_REMOVE, "roots/u", TREE_RECURSIVE);
	expect_done(&c);
	assert_false(is_there("roots/u"));
	make_file("roots/file", "", 0);
	call_simple(&c, MESSAGE_REMOVE, "roots/file", 0);
	expect_done(&c);
	assert_false(is_there("roots/file"));
}

static void test_read(void **state)
{
	struct message m;
	struct call c;

	(void)state;
	make_both();
	assert_int_equal(mkdir("roots/shut", 0700), 0);
	make_file("roots/shut/file", "secret", 6);
	call_simple(&c, MESSAGE_STAT, "roots/shut/file", 0);
	call_expect(&c, &m, MESSAGE_ENTRY);
	call_end(&c);
	call_simple(&c, MESSAGE_READ, "roots/shut/file", 0);
	call_expect(&c, &m, MESSAGE_DATA);
	assert_int_equal(expect_done(&c), 6);
	call_simple(&c, MESSAGE_LIST, "roots/shut", 0);
	call_expect(&c, &m, MESSAGE_ENTRY);
	assert_string_equal(message_text(&m, FIELD_PATH, ""), "file");
	expect_done(&c);
}

/* What is neither's stays so; and without root in reserve nothing is lent. */
static void test_refused(void **state)
{
	struct call c;

	(void)state;
	make_both();
	assert_int_equal(mkdir("third", 0755), 0);
	own("third", 4711);
	write_begin(&c, "third/new", 0);
	expect_error(&c, EACCES, "\"third/new\": permission denied");
	call_simple(&c, MESSAGE_MAKE, "third/new", 0);
	expect_error(&c, EACCES, "permission denied");
	make_file("third/file", "", 0);
	call_simple(&c, MESSAGE_REMOVE, "third/file", 0);
	expect_error(&c, EACCES, "permission denied");
	expect_clean("third");
	with_root = false;
	as_nobody = true;
	write_begin(&c, "roots/new", 0);
	expect_error(&c, EACCES, "\"roots/new\": permission denied");
	expect_clean("roots");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_write),      CASE(test_write_from_a_pipe),
		CASE(test_write_over), CASE(test_write_breaks_off),
		CASE(test_make),       CASE(test_move),
		CASE(test_remove),     CASE(test_read),
		CASE(test_refused),
	};

	return cmocka_run_group_tests_name("init_files_lend", tests, NULL, NULL);
}
