#include "init_files_case.h"

#include <dirent.h>
#include <sys/un.h>
#include <sys/xattr.h>

static void test_has(void **state)
{
	(void)state;
	for (int type = MESSAGE_STAT; type <= MESSAGE_ATTRIBUTE_SET; type++) {
		bool is_answer = type == MESSAGE_ENTRY || type == MESSAGE_CHANGE_IS ||
				 type == MESSAGE_ATTRIBUTE_IS;

		assert_int_equal(files_has((enum message_type)type), !is_answer);
	}
	assert_false(files_has(MESSAGE_START));
	assert_false(files_has(MESSAGE_DATA));
	assert_false(files_has((enum message_type)(MESSAGE_TYPE_COUNT + 1)));
}

static void test_empty_path(void **state)
{
	static const enum message_type types[] = { MESSAGE_STAT,   MESSAGE_LIST,      MESSAGE_READ,
						   MESSAGE_WRITE,  MESSAGE_MAKE,      MESSAGE_WATCH,
						   MESSAGE_REMOVE, MESSAGE_ATTRIBUTES };
	struct call c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		call_simple(&c, types[i], "", 0);
		expect_error(&c, EINVAL, "the path is empty");
	}
}

static void test_stat(void **state)
{
	const struct timespec times[] = { { .tv_sec = 5 }, { .tv_sec = 1700000000, .tv_nsec = 5 } };
	struct message m;
	struct call c;

	(void)state;
	make_file("file", "12345", 5);
	assert_int_equal(chmod("file", 0604), 0);
	assert_int_equal(utimensat(AT_FDCWD, "file", times, 0), 0);
	assert_int_equal(symlink("file", "link"), 0);

	call_simple(&c, MESSAGE_STAT, "file", 0);
	call_expect(&c, &m, MESSAGE_ENTRY);
	assert_string_equal(message_text(&m, FIELD_PATH, ""), "file");
	assert_int_equal(message_number(&m, FIELD_MODE, 0), S_IFREG | 0604);
	assert_int_equal(message_number(&m, FIELD_SIZE, 0), 5);
	assert_int_equal(message_number(&m, FIELD_UID, 77), getuid());
	assert_int_equal(message_number(&m, FIELD_MODIFIED, 0), 1700000000000000005);
	assert_false(message_has(&m, FIELD_TARGET));
	assert_int_equal(call_next_in(&c, &m, PATIENCE_MS), -EPIPE);
	call_end(&c);

	call_simple(&c, MESSAGE_STAT, "link", 0);
	call_expect(&c, &m, MESSAGE_ENTRY);
	assert_true(S_ISLNK(message_number(&m, FIELD_MODE, 0)));
	assert_string_equal(message_text(&m, FIELD_TARGET, ""), "file");
	call_end(&c);

	call_simple(&c, MESSAGE_STAT, "link", STAT_FOLLOW);
	call_expect(&c, &m, MESSAGE_ENTRY);
	assert_true(S_ISREG(message_number(&m, FIELD_MODE, 0)));
	call_end(&c);

	call_simple(&c, MESSAGE_STAT, "absent\n", 0);
	expect_error(&c, ENOENT, "\"absent?\": does not exist");
	call_simple(&c, MESSAGE_STAT, "file/below", 0);
	expect_error(&c, ENOTDIR, "no directory");
}

static void list_begin(struct call *c, const char *path, uint64_t depth)
{
	struct draft d = draft_of(MESSAGE_LIST, path);

	if (depth)
		draft_number(&d, FIELD_DEPTH, depth);
	call_begin(c, &d, -EBADF);
}

/* All paths that are listed, sorted, each with a space behind; "!" where one is closed. */
static char *list_all(const char *path, uint64_t depth)
{
	_cleanup_(buf_done) struct buf b = BUF(4 * MIB);
	struct strv names = { 0 };
	struct message m;
	struct call c;

	list_begin(&c, path, depth);
	for (;;) {
		char text[20000];

		call_next(&c, &m);
		if (m.type != MESSAGE_ENTRY)
			break;
		snprintf(text, sizeof(text), "%s%s", message_text(&m, FIELD_PATH, "?"),
			 message_number(&m, FIELD_FLAGS, 0) & ENTRY_CLOSED ? "!" : "");
		assert_int_equal(strv_add(&names, text), 0);
	}
	assert_string_equal(message_name(m.type), "DONE");
	call_end(&c);
	for (size_t i = 1; i < names.count; i++)
		for (size_t k = i; k > 0 && strcmp(names.items[k - 1], names.items[k]) > 0; k--) {
			char *swap = names.items[k];

			names.items[k] = names.items[k - 1];
			names.items[k - 1] = swap;
		}
	for (size_t i = 0; i < names.count; i++)
		buf_printf(&b, "%s ", names.items[i]);
	strv_done(&names);
	return buf_take(&b);
}

static void expect_list(const char *path, uint64_t depth, const char *expected)
{
	_cleanup_free_ char *all = list_all(path, depth);

	assert_string_equal(all, expected);
}

static void test_list(void **state)
{
	struct call c;

	(void)state;
	assert_int_equal(mkdir("d", 0755) | mkdir("d/e", 0755) | mkdir("d/e/f", 0755), 0);
	make_file("d/x", "", 0);
	make_file("d/e/f/g", "", 0);
	make_file("d/e/\x01\x1b[31m\n\xff", "", 0);
	assert_int_equal(symlink("..", "d/e/up"), 0);
	assert_int_equal(symlink("d", "link"), 0);

	expect_list("d", 0, "e x ");
	expect_list("link", 1, "e x ");
	expect_list("d", 2, "e e/\x01\x1b[31m\n\xff e/f e/up x ");
	/* The link to ".." is not gone into. */
	expect_list("d", 9, "e e/\x01\x1b[31m\n\xff e/f e/f/g e/up x ");
	expect_list("d/e/../e/f", 1, "g ");
	list_begin(&c, "d/x", 1);
	expect_error(&c, ENOTDIR, "\"d/x\"");
	list_begin(&c, "nothing", 1);
	expect_error(&c, ENOENT, "\"nothing\": does not exist");
}

static void test_list_closed(void **state)
{
	(void)state;
	assert_int_equal(mkdir("open", 0755) | mkdir("shut", 0), 0);
	make_file("open/x", "", 0);
	as_nobody = geteuid() == 0;
	expect_list(".", 3, "open open/x shut! ");
	/* Names without anything behind them. */
	assert_int_equal(chmod("open", 0744), 0);
	if (as_nobody)
		expect_list("open", 1, "x ");
}

static void fill(const char *dir, int count)
{
	char path[64];

	assert_int_equal(mkdir(dir, 0755), 0);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/file-%d", dir, i);
		make_file(path, "", 0);
	}
}

static void test_list_wide(void **state)
{
	int count = 0;
	struct message m;
	struct call c;

	(void)state;
	fill("wide", 5000);
	list_begin(&c, "wide", 1);
	for (call_next(&c, &m); m.type == MESSAGE_ENTRY; call_next(&c, &m))
		count++;
	assert_string_equal(message_name(m.type), "DONE");
	assert_int_equal(count, 5000);
	call_end(&c);

	files_bounds.entries = 100;
	list_begin(&c, "wide", 1);
	files_bounds.entries = 1000000;
	count = 0;
	for (call_next(&c, &m); m.type == MESSAGE_ENTRY; call_next(&c, &m))
		count++;
	assert_int_equal(count, 100);
	assert_string_equal(message_text(&m, FIELD_TEXT, ""),
			    "\"wide\" has more than 100 entries: list a part of it");
	call_end(&c);

	/* More than all queues on the way hold, and nobody reads. */
	list_begin(&c, "wide", 1);
	call_expect(&c, &m, MESSAGE_ENTRY);
	call_say(&c, MESSAGE_CANCEL);
	expect_error(&c, ECANCELED, "cancelled");
	list_begin(&c, "wide", 1);
	call_expect(&c, &m, MESSAGE_ENTRY);
	call_end(&c);
}

/* Directories in each other. */
static void make_deep(const char *top, int levels)
{
	int dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < levels; i++) {
		const char *name = i == 0 ? top : i % 2 ? "d" : "a folder with a longer name";
		int next;

		assert_int_equal(mkdirat(dir, name, 0755), 0);
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	close(dir);
}

static void test_list_deep(void **state)
{
	_cleanup_free_ char *all = NULL;
	size_t count = 0;

	(void)state;
	make_deep("deep", 300);
	all = list_all("deep", UINT64_MAX);
	for (const char *p = all; (p = strchr(p, '/')); p++)
		count++;
	/* 64 paths, with 0 to 63 slashes; the last is marked. */
	assert_int_equal(count, 63 * 64 / 2);
	assert_true(str_ends(all, "! "));
}

static void test_make(void **state)
{
	struct stat st;
	struct draft d;
	struct call c;

	(void)state;
	umask(077);
	call_simple(&c, MESSAGE_MAKE, "plain", 0);
	expect_done(&c);
	assert_int_equal(stat("plain", &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);

	d = draft_of(MESSAGE_MAKE, "a/b//c/");
	draft_number(&d, FIELD_MODE, 01775);
	draft_number(&d, FIELD_FLAGS, TREE_PARENTS);
	call_begin(&c, &d, -EBADF);
	expect_done(&c);
	assert_int_equal(stat("a/b/c", &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01775);

	call_simple(&c, MESSAGE_MAKE, "plain", 0);
	expect_error(&c, EEXIST, "\"plain\": is there already");
	call_simple(&c, MESSAGE_MAKE, "plain", TREE_OPTIONAL);
	expect_done(&c);
	make_file("file", "", 0);
	call_simple(&c, MESSAGE_MAKE, "file", TREE_OPTIONAL);
	expect_error(&c, EEXIST, "\"file\"");
	call_simple(&c, MESSAGE_MAKE, "x/y", 0);
	expect_error(&c, ENOENT, "\"x/y\"");
	call_simple(&c, MESSAGE_MAKE, "file/y/z", TREE_PARENTS);
	expect_error(&c, ENOTDIR, "\"file/y/z\"");
}

/* Filled first, then given the mode and the time that it is to have. */
static void test_make_finished(void **state)
{
	static const uint64_t flags[] = { TREE_OPTIONAL, TREE_OPTIONAL | TREE_MODE };
	struct stat st;
	struct call c;

	(void)state;
	assert_int_equal(mkdir("finished", 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		struct draft d = draft_of(MESSAGE_MAKE, "finished");

		draft_number(&d, FIELD_MODE, 0555);
		draft_number(&d, FIELD_MODIFIED, 981173106500000000);
		draft_number(&d, FIELD_FLAGS, flags[i]);
		call_begin(&c, &d, -EBADF);
		expect_done(&c);
		assert_int_equal(stat("finished", &st), 0);
		assert_int_equal(st.st_mode & 07777, flags[i] & TREE_MODE ? 0555 : 0700);
		assert_int_equal(st.st_mtim.tv_sec == 981173106, (flags[i] & TREE_MODE) != 0);
	}
	assert_int_equal(st.st_mtim.tv_nsec, 500000000);
}

static void make_link(struct call *c, const char *path, const char *target, uint64_t flags)
{
	struct draft d = draft_of(MESSAGE_MAKE, path);

	draft_text(&d, FIELD_TARGET, target);
	draft_number(&d, FIELD_FLAGS, flags);
	call_begin(c, &d, -EBADF);
}

static void test_make_link(void **state)
{
	char text[20] = "";
	struct call c;

	(void)state;
	make_link(&c, "in/link", "../to\nsee", TREE_PARENTS);
	expect_done(&c);
	assert_int_equal(readlink("in/link", text, sizeof(text) - 1), 9);
	assert_string_equal(text, "../to\nsee");
	make_link(&c, "in/link", "../to\nsee", 0);
	expect_error(&c, EEXIST, "\"in/link\"");
	make_link(&c, "in/link", "../to\nsee", TREE_OPTIONAL);
	expect_done(&c);
	make_link(&c, "in/link", "elsewhere", TREE_OPTIONAL);
	expect_error(&c, EEXIST, "\"in/link\"");
	make_link(&c, "in/other", "", 0);
	expect_error(&c, EINVAL, "target of the link is empty");
}

static void move(struct call *c, const char *from, const char *to, uint64_t flags)
{
	struct draft d = draft_of(MESSAGE_MOVE, from);

	draft_text(&d, FIELD_TO, to);
	draft_number(&d, FIELD_FLAGS, flags);
	call_begin(c, &d, -EBADF);
}

static void test_move(void **state)
{
	struct call c;

	(void)state;
	make_file("a", "content of a", 12);
	make_file("b", "b", 1);
	move(&c, "a", "b", MOVE_EXCLUSIVE);
	expect_error(&c, EEXIST, "\"b\": is there already");
	expect_content("b", "b", 1);
	move(&c, "a", "b", 0);
	expect_done(&c);
	expect_content("b", "content of a", 12);
	assert_false(is_there("a"));
	move(&c, "b", "x/y/c", 0);
	expect_error(&c, ENOENT, "\"x/y/c\"");
	move(&c, "b", "x/y/c", MOVE_PARENTS | MOVE_EXCLUSIVE);
	expect_done(&c);
	expect_content("x/y/c", "content of a", 12);
	move(&c, "x", "x/y/z", 0);
	expect_error(&c, EINVAL, "into itself");
	move(&c, "nothing", "z", 0);
	expect_error(&c, ENOENT, "\"nothing\": does not exist");
	assert_int_equal(mkdir("full", 0755), 0);
	make_file("full/f", "", 0);
	move(&c, "x/", "full", 0);
	expect_error(&c, ENOTEMPTY, "\"full\"");
	move(&c, "x/y/c", "full", 0);
	expect_error(&c, EISDIR, "\"full\": is a directory");
	move(&c, "x/", "new/", 0);
	expect_done(&c);
	expect_content("new/y/c", "content of a", 12);
	move(&c, "new", "", 0);
	expect_error(&c, EINVAL, "the path is empty");
}

/* A folder on another file system than the test's own, or "". */
static const char *elsewhere(char path[static 64])
{
	struct stat here, there;

	path[0] = '\0';
	if (stat(".", &here) < 0 || stat("/dev/shm", &there) < 0 || here.st_dev == there.st_dev)
		return path;
	snprintf(path, 64, "/dev/shm/brig-test-files-XXXXXX");
	assert_non_null(mkdtemp(path));
	return path;
}

static void test_move_elsewhere(void **state)
{
	const struct timespec times[] = { { .tv_sec = 5 }, { .tv_sec = 1700000000 } };
	char there[64], path[128], text[20] = "";
	struct stat st;
	struct call c;
	int fd;

	(void)state;
	if (!*elsewhere(there)) {
		print_message("/dev/shm is not another file system here\n");
		skip();
	}
	assert_int_equal(mkdir("tree", 0750) | mkdir("tree/in", 0711), 0);
	make_file("tree/in/file", "moved", 5);
	assert_int_equal(chmod("tree/in/file", 0601), 0);
	assert_int_equal(utimensat(AT_FDCWD, "tree/in/file", times, 0), 0);
	assert_int_equal(symlink("nowhere", "tree/link"), 0);
	fd = open("tree/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(pwrite(fd, "end", 3, 16 * MIB), 3);
	close(fd);

	snprintf(path, sizeof(path), "%s/new", there);
	move(&c, "tree", path, MOVE_EXCLUSIVE);
	expect_done(&c);
	assert_false(is_there("tree"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	snprintf(path, sizeof(path), "%s/new/in/file", there);
	expect_content(path, "moved", 5);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0601);
	assert_int_equal(st.st_mtim.tv_sec, 1700000000);
	snprintf(path, sizeof(path), "%s/new/sparse", there);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 16 * MIB + 3);
	assert_true((uint64_t)st.st_blocks * 512 < 1 * MIB);
	snprintf(path, sizeof(path), "%s/new/link", there);
	assert_int_equal(readlink(path, text, sizeof(text) - 1), 7);

	/* What cannot be carried says so; what is there is not replaced. */
	snprintf(path, sizeof(path), "%s/pipe", there);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	move(&c, "pipe", path, 0);
	expect_error(&c, EXDEV, "another file system");
	assert_true(is_there("pipe"));
	make_file("one", "1", 1);
	snprintf(path, sizeof(path), "%s/new/in/file", there);
	move(&c, "one", path, MOVE_EXCLUSIVE);
	expect_error(&c, EEXIST, "is there already");
	move(&c, "one", path, 0);
	expect_done(&c);
	expect_content(path, "1", 1);
	make_deep("deep", 70);
	snprintf(path, sizeof(path), "%s/deep", there);
	move(&c, "deep", path, 0);
	expect_error(&c, ELOOP, "\"deep\" is too deep to be moved there");
	call_simple(&c, MESSAGE_REMOVE, there, TREE_RECURSIVE);
	expect_done(&c);
}

static void test_remove(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct call c;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	make_file("d/file", "", 0);
	assert_int_equal(symlink("d", "link"), 0);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	close(s);
	for (size_t i = 0; i < 3; i++) {
		call_simple(&c, MESSAGE_REMOVE, (const char *[]){ "link", "pipe", "socket" }[i],
			    TREE_RECURSIVE);
		expect_done(&c);
	}
	expect_list(".", 2, "d d/file ");
	call_simple(&c, MESSAGE_REMOVE, "d", 0);
	expect_error(&c, ENOTEMPTY, "\"d\": is a directory that is not empty");
	call_simple(&c, MESSAGE_REMOVE, "nothing", 0);
	expect_error(&c, ENOENT, "\"nothing\"");
	call_simple(&c, MESSAGE_REMOVE, "nothing", TREE_OPTIONAL);
	expect_done(&c);
	call_simple(&c, MESSAGE_REMOVE, "no/thing", TREE_OPTIONAL);
	expect_done(&c);
	for (size_t i = 0; i < 4; i++) {
		call_simple(&c, MESSAGE_REMOVE, (const char *[]){ ".", "d/..", "/", "d/." }[i],
			    TREE_RECURSIVE);
		expect_error(&c, EINVAL, "cannot be removed by this name");
	}
	expect_list(".", 2, "d d/file ");
	call_simple(&c, MESSAGE_REMOVE, "d/", TREE_RECURSIVE);
	expect_done(&c);
	expect_list(".", 2, "");
}

static void test_remove_refused(void **state)
{
	struct call c;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can make what nobody may not remove\n");
		skip();
	}
	assert_int_equal(mkdir("d", 0777) | chmod("d", 0777) | mkdir("d/e", 0755), 0);
	make_file("d/e/file", "", 0);
	as_nobody = true;
	call_simple(&c, MESSAGE_REMOVE, "d", TREE_RECURSIVE);
	expect_error(&c, EACCES, "\"d/e/file\": permission denied");
	assert_true(is_there("d/e/file"));
}

static void test_remove_deep(void **state)
{
	struct call c;

	(void)state;
	make_deep("deep", 3000);
	make_file("deep/file", "", 0);
	call_simple(&c, MESSAGE_REMOVE, "deep", TREE_RECURSIVE);
	expect_done(&c);
	expect_list(".", 2, "");
}

static void test_remove_cancelled(void **state)
{
	struct call c;

	(void)state;
	fill("wide", 500);
	is_held = true;
	call_simple(&c, MESSAGE_REMOVE, "wide", TREE_RECURSIVE);
	call_say(&c, MESSAGE_CANCEL);
	call_release(&c);
	expect_error(&c, ECANCELED, "cancelled");
	assert_true(is_there("wide"));
}

static void set_attribute(struct call *c, const char *path, const char *name, const char *value)
{
	struct draft d = draft_of(MESSAGE_ATTRIBUTE_SET, path);

	draft_text(&d, FIELD_NAME, name);
	if (value)
		draft_bytes(&d, FIELD_DATA, value, strlen(value));
	call_begin(c, &d, -EBADF);
}

static void test_attributes(void **state)
{
	const void *value;
	struct message m;
	struct call c;
	size_t len;

	(void)state;
	make_file("file", "", 0);
	if (setxattr("file", "user.probe", "", 0, 0) < 0) {
		print_message("no attributes in /tmp here\n");
		skip();
	}
	assert_int_equal(removexattr("file", "user.probe"), 0);
	set_attribute(&c, "file", "user.color\n", "red");
	expect_done(&c);
	call_simple(&c, MESSAGE_ATTRIBUTES, "file", 0);
	call_expect(&c, &m, MESSAGE_ATTRIBUTE_IS);
	assert_string_equal(message_text(&m, FIELD_NAME, ""), "user.color\n");
	value = message_bytes(&m, FIELD_DATA, &len);
	assert_int_equal(len, 3);
	assert_memory_equal(value, "red", 3);
	expect_done(&c);
	set_attribute(&c, "file", "user.color\n", "");
	expect_done(&c);
	assert_int_equal(getxattr("file", "user.color\n", NULL, 0), 0);
	set_attribute(&c, "file", "user.color\n", NULL);
	expect_done(&c);
	set_attribute(&c, "file", "user.color\n", NULL);
	expect_error(&c, ENODATA, "\"file\": it has no such attribute");
	set_attribute(&c, "file", "nonsense", "x");
	expect_error(&c, EOPNOTSUPP, "no such attribute can be kept there");
	as_nobody = geteuid() == 0;
	set_attribute(&c, "file", "trusted.x", "x");
	expect_error(&c, EPERM, "not for users to set");
	call_simple(&c, MESSAGE_ATTRIBUTES, "nothing", 0);
	expect_error(&c, ENOENT, "\"nothing\"");
}

/* A path so long that the words have no room for it keeps the words. */
static void test_long_path(void **state)
{
	char path[4000];
	struct call c;

	(void)state;
	memset(path, 'x', sizeof(path));
	for (size_t i = 200; i < sizeof(path); i += 200)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	call_simple(&c, MESSAGE_STAT, path, 0);
	expect_error(&c, ENOENT, "xxx\": does not exist");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_has),
		CASE(test_empty_path),
		CASE(test_stat),
		CASE(test_list),
		CASE(test_list_closed),
		CASE(test_list_wide),
		CASE(test_list_deep),
		CASE(test_make),
		CASE(test_make_finished),
		CASE(test_make_link),
		CASE(test_move),
		CASE(test_move_elsewhere),
		CASE(test_remove),
		CASE(test_remove_refused),
		CASE(test_remove_deep),
		CASE(test_remove_cancelled),
		CASE(test_attributes),
		CASE(test_long_path),
	};

	return cmocka_run_group_tests_name("init_files", tests, NULL, NULL);
}
