#include "changes_case.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/str.h"
#include "data/node.h"

#define test(name) cmocka_unit_test_setup_teardown(name, layers_make, layers_remove)

/* Finds, and compares the list and the problems with what is expected. */
static struct changes find_in(int upper, int lower, const char *list, const char *problems)
{
	struct changes changes = CHANGES_NONE;
	struct err err = ERR_NONE;
	char *text = NULL, *notes;
	size_t size;
	FILE *file;
	int r = changes_find(upper, lower, &changes, &err);

	if (r < 0)
		fail_msg("%d: %s", r, err.text);
	file = open_memstream(&text, &size);
	changes_print(file, &changes);
	fclose(file);
	notes = note_text(&changes.problems);
	if (list)
		assert_string_equal(text, list);
	if (problems)
		assert_string_equal(notes, problems);
	free(text);
	free(notes);
	return changes;
}

static void expect(const char *list)
{
	struct changes changes = find_in(t.upper, t.lower, list, "");

	changes_done(&changes);
}

/* Commits what is found, and compares the notes. Returns how many were applied. */
static size_t commit(const char *notes)
{
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	struct changes changes = find_in(t.upper, t.lower, NULL, NULL);
	struct err err = ERR_NONE;
	size_t applied;
	char *text;

	assert_int_equal(changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, &err), 0);
	text = note_text(&outcome.notes);
	if (notes)
		assert_string_equal(text, notes);
	free(text);
	applied = outcome.applied;
	changes_outcome_done(&outcome);
	changes_done(&changes);
	return applied;
}

/* Nothing of ours is left between the host's files. */
static void no_leftovers(int dir)
{
	_cleanup_close_ int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct changes changes = CHANGES_NONE;

	/* Everything in the folder counts as added when there is nothing below. */
	assert_int_equal(changes_find(fd, -EBADF, &changes, NULL), 0);
	for (size_t i = 0; i < changes.count; i++)
		if (strstr(changes.items[i].path, ".brig-"))
			fail_msg("left behind: %s", changes.items[i].path);
	changes_done(&changes);
}

static void nothing(void **state)
{
	struct changes changes;

	(void)state;
	expect("");
	changes = find_in(t.upper, -EBADF, "", "");
	changes_done(&changes);
}

static void every_kind(void **state)
{
	(void)state;
	add_file(t.lower, "same", "content", 0644);
	add_file(t.upper, "same", "content", 0644);
	add_file(t.lower, "changed", "content", 0644);
	add_file(t.upper, "changed", "CONTENT", 0644);
	add_file(t.lower, "longer", "1", 0644);
	add_file(t.upper, "longer", "12", 0600);
	add_file(t.lower, "mode", "content", 0644);
	add_file(t.upper, "mode", "content", 0755);
	add_file(t.lower, "gone", "gone", 0644);
	add_whiteout(t.upper, "gone");
	add_whiteout(t.upper, "never there");
	add_file(t.lower, "untouched", "content", 0644);
	add_file(t.upper, "added", "new", 0644);
	add_dir(t.upper, "dir", 0755);
	add_dir(t.upper, "dir/empty", 0700);
	add_file(t.upper, "dir/file", "", 0644);
	add_dir(t.lower, "shared", 0755);
	add_dir(t.upper, "shared", 0755);
	add_file(t.upper, "shared/x", "x", 0644);
	add_dir(t.lower, "closed", 0755);
	add_dir(t.upper, "closed", 0700);
	add_dir(t.lower, "gone dir", 0755);
	add_file(t.lower, "gone dir/in", "in", 0644);
	add_whiteout(t.upper, "gone dir");
	assert_int_equal(symlinkat("a", t.lower, "link"), 0);
	assert_int_equal(symlinkat("b", t.upper, "link"), 0);
	assert_int_equal(symlinkat("a", t.lower, "same link"), 0);
	assert_int_equal(symlinkat("a", t.upper, "same link"), 0);
	expect("A added\n"
	       "M changed\n"
	       "m closed/ 0755 -> 0700\n"
	       "A dir/\n"
	       "A dir/empty/\n"
	       "A dir/file\n"
	       "D gone\n"
	       "D gone dir/\n"
	       "M link\n"
	       "M longer\n"
	       "m mode 0644 -> 0755\n"
	       "A shared/x\n");
}

static void another_type_is_deleted_and_added(void **state)
{
	(void)state;
	add_file(t.lower, "a", "file", 0644);
	add_dir(t.upper, "a", 0755);
	add_file(t.upper, "a/in", "file", 0644); /* equal content, but "a" must go first */
	add_dir(t.lower, "b", 0755);
	add_file(t.lower, "b/in", "in", 0644);
	add_file(t.upper, "b", "file", 0644);
	add_file(t.lower, "c", "file", 0644);
	assert_int_equal(symlinkat("a", t.upper, "c"), 0);
	expect("D a\nA a/\nA a/in\nD b/\nA b\nD c\nA c\n");
	start_now();
	assert_int_equal(commit(""), 7);
	assert_string_equal(read_text(t.lower, "a/in"), "file");
	assert_string_equal(read_text(t.lower, "b"), "file");
	assert_true(S_ISLNK(stat_of(t.lower, "c").st_mode));
}

static void opaque(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		int at = i ? t.upper : t.lower;

		add_dir(at, "d", 0755);
		add_file(at, "d/kept", "kept", 0644);
		add_dir(at, "d/sub", 0755);
	}
	add_file(t.lower, "d/hidden", "hidden", 0644);
	add_dir(t.lower, "d/hidden dir", 0755);
	add_file(t.lower, "d/sub/shown", "shown", 0644);
	add_file(t.upper, "d/new", "new", 0644);
	expect("A d/new\n");
	if (!add_mark(t.upper, "d", "user.overlay.opaque", "y"))
		skip();
	expect("D d/hidden\nD d/hidden dir/\nA d/new\n");
	start_now();
	assert_int_equal(commit(""), 3);
	assert_false(exists(t.lower, "d/hidden"));
	assert_string_equal(read_text(t.lower, "d/kept"), "kept");
	assert_string_equal(read_text(t.lower, "d/sub/shown"), "shown");
}

static void whiteouts_by_attribute(void **state)
{
	(void)state;
	add_dir(t.lower, "d", 0755);
	add_dir(t.upper, "d", 0755);
	add_file(t.lower, "d/a", "a", 0644);
	add_file(t.lower, "d/b", "b", 0644);
	add_file(t.upper, "d/a", "", 0644);
	add_file(t.upper, "d/b", "", 0644);
	if (!add_mark(t.upper, "d/a", "user.overlay.whiteout", "y"))
		skip();
	/* The attribute means nothing in a directory that is not marked. */
	expect("M d/a\nM d/b\n");
	add_mark(t.upper, "d", "user.overlay.opaque", "x");
	expect("D d/a\nM d/b\n");
}

static void renames(void **state)
{
	struct changes changes;

	(void)state;
	add_file(t.lower, "old", "the content", 0644);
	add_whiteout(t.upper, "old");
	add_dir(t.upper, "dir", 0755);
	add_file(t.upper, "dir/new", "the content", 0600);
	/* Equal size, other content. */
	add_file(t.lower, "other", "11 letters!", 0644);
	add_whiteout(t.upper, "other");
	/* Two of one, one of the other: the first pairs, the second is a copy. */
	add_file(t.lower, "twice", "twice as much", 0644);
	add_whiteout(t.upper, "twice");
	add_file(t.upper, "twice1", "twice as much", 0644);
	add_file(t.upper, "twice2", "twice as much", 0644);
	/* Empty files are all equal, which says nothing. */
	add_file(t.lower, "empty", "", 0644);
	add_whiteout(t.upper, "empty");
	add_file(t.upper, "empty2", "", 0644);
	changes = find_in(t.upper, t.lower,
			  "A dir/\nR old -> dir/new\nD empty\nA empty2\nD other\n"
			  "R twice -> twice1\nA twice2\n",
			  "");
	assert_int_equal(changes.items[1].old_mode & 07777, 0644);
	assert_int_equal(changes.items[1].new_mode & 07777, 0600);
	changes_done(&changes);
	start_now();
	assert_int_equal(commit(""), 7);
	assert_false(exists(t.lower, "old"));
	assert_string_equal(read_text(t.lower, "dir/new"), "the content");
	assert_int_equal(stat_of(t.lower, "dir/new").st_mode & 07777, 0600);
}

/* Equal in size and in the first block: only the content tells. */
static void renames_compare_to_the_end(void **state)
{
	char text[20001];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	add_file(t.upper, "new", text, 0644);
	text[sizeof(text) - 2] = 'y';
	add_file(t.lower, "old", text, 0644);
	add_whiteout(t.upper, "old");
	expect("A new\nD old\n");
}

/* Many files that all look alike to the first glance do not take for ever. */
static void renames_are_bounded(void **state)
{
	struct changes changes;
	char name[32];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		add_file(t.lower, name, "0123456789", 0644);
		add_whiteout(t.upper, name);
		snprintf(name, sizeof(name), "n%d", i);
		add_file(t.upper, name, "0123456789", 0644);
	}
	changes = find_in(t.upper, t.lower, NULL, "");
	assert_int_equal(changes.count, 3000);
	for (size_t i = 0; i < changes.count; i++)
		assert_int_equal(changes.items[i].kind, CHANGE_RENAMED);
	changes_done(&changes);
}

static const struct {
	const char *name, *text, *json;
} hostile[] = {
	{ "-rf", "-rf", "\"path\":\"-rf\"" },
	{ "a\nA b", "a\\nA b", "\"path\":\"a\\nA b\"" },
	{ "a\\nA b", "a\\\\nA b", "\"path\":\"a\\\\nA b\"" },
	{ "\x1b[31mred", "\\x1b[31mred", "\"path\":\"\\u001b[31mred\"" },
	{ "\x9b\xff", "\\x9b\\xff",
	  "\"path\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"path_base64\":\"m/8=\"" },
	{ "\xc2\x9b", "\\xc2\\x9b", "\"path\":\"\\u009b\"" },
	{ "\xe2\x80\xaegpj.exe", "\\xe2\\x80\\xaegpj.exe", "\"path\":\"\xe2\x80\xaegpj.exe\"" },
	{ "a -> b", "a -\\x3e b", "\"path\":\"a -> b\"" },
	{ "\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9", "\"path\":\"\xc3\xa9t\xc3\xa9\"" },
	{ "\t\r\x7f", "\\t\\r\\x7f", "\"path\":\"\\t\\r\\u007f\"" },
	{ "...", "...", "\"path\":\"...\"" },
};

static void hostile_names(void **state)
{
	(void)state;
	start_now();
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		_cleanup_(node_freep) struct node *node = NULL;
		_cleanup_(buf_done) struct buf json = BUF(64 * KIB);
		struct changes changes;
		char line[100];

		add_file(t.upper, hostile[i].name, "", 0644);
		snprintf(line, sizeof(line), "A %s\n", hostile[i].text);
		changes = find_in(t.upper, t.lower, line, "");
		assert_int_equal(changes_to_node(&changes, &node), 0);
		assert_int_equal(json_write(node, true, &json), 0);
		assert_true(is_utf8(buf_text(&json), json.len));
		if (!strstr(buf_text(&json), hostile[i].json))
			fail_msg("%s: %s", hostile[i].text, buf_text(&json));
		changes_done(&changes);
		assert_int_equal(commit(""), 1);
		assert_true(exists(t.lower, hostile[i].name));
		assert_int_equal(unlinkat(t.upper, hostile[i].name, 0), 0);
	}
}

static void json(void **state)
{
	_cleanup_(node_freep) struct node *node = NULL, *outcome_node = NULL;
	_cleanup_(buf_done) struct buf text = BUF(64 * KIB), outcome_text = BUF(64 * KIB);
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	struct changes changes;

	(void)state;
	add_file(t.lower, "old", "content", 0644);
	add_whiteout(t.upper, "old");
	add_file(t.upper, "new", "content", 04755);
	assert_int_equal(symlinkat("/etc", t.upper, "out"), 0);
	add_dir(t.lower, "d", 0755);
	add_dir(t.upper, "d", 0700);
	start_now();
	changes = find_in(t.upper, t.lower, NULL, "");
	assert_int_equal(changes_to_node(&changes, &node), 0);
	assert_int_equal(json_write(node, true, &text), 0);
	assert_string_equal(
		buf_text(&text),
		"[{\"kind\":\"mode\",\"mode\":\"0700\",\"old_mode\":\"0755\",\"path\":\"d\","
		"\"type\":\"directory\"},"
		"{\"from\":\"old\",\"kind\":\"renamed\",\"mode\":\"4755\",\"old_mode\":\"0644\","
		"\"path\":\"new\",\"size\":7,\"type\":\"file\"},"
		"{\"kind\":\"added\",\"path\":\"out\",\"type\":\"symlink\"}]");
	assert_int_equal(changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, NULL), 0);
	assert_int_equal(changes_outcome_to_node(&outcome, &outcome_node), 0);
	assert_int_equal(json_write(outcome_node, true, &outcome_text), 0);
	assert_string_equal(
		buf_text(&outcome_text),
		"{\"applied\":2,\"more\":0,\"notes\":["
		"{\"path\":\"new\",\"what\":\"dropped\",\"why\":\"without its setuid or setgid "
		"bit\"},"
		"{\"path\":\"out\",\"what\":\"refused\",\"why\":\"a symbolic link that leads out "
		"of "
		"the folder\"}]}");
	changes_outcome_done(&outcome);
	changes_done(&changes);
}

/* One level after the other, so that the test itself needs no long path. */
static void fill_deep(int top, int levels, const char *name)
{
	int dir = dup(top);

	for (int i = 0; i < levels; i++) {
		int next = make_dir(dir, name, 0755);

		close(dir);
		dir = next;
	}
	add_file(dir, "bottom", "deep", 0644);
	close(dir);
}

static void deep(void **state)
{
	struct changes changes;
	char path[2100];

	(void)state;
	fill_deep(t.upper, 1000, "d");
	changes = find_in(t.upper, t.lower, NULL, "");
	assert_int_equal(changes.count, 1001);
	changes_done(&changes);
	start_now();
	assert_int_equal(commit(""), 1001);
	for (int i = 0; i < 1000; i++)
		memcpy(path + 2 * i, "d/", 2);
	strcpy(path + 2000, "bottom");
	assert_string_equal(read_text(t.lower, path), "deep");

	/* And away with it again. */
	start_now();
	assert_int_equal(renameat(t.upper, "d", t.outside, "d"), 0);
	add_whiteout(t.upper, "d");
	assert_int_equal(commit(""), 1);
	assert_false(exists(t.lower, "d"));
}

static void too_deep(void **state)
{
	struct changes changes;
	char *notes;

	(void)state;
	fill_deep(t.upper, 1000, "a folder with a longer name than the other");
	changes = find_in(t.upper, t.lower, NULL, NULL);
	assert_int_equal(changes.count, 4095 / 43);
	assert_int_equal(changes.problems.count, 1);
	notes = note_text(&changes.problems);
	assert_non_null(strstr(notes, "too deep to be looked at"));
	free(notes);
	changes_done(&changes);
	start_now();
	assert_int_equal(commit(""), 4095 / 43);
}

static void many(void **state)
{
	struct changes changes;
	char name[32];

	(void)state;
	add_dir(t.upper, "many", 0755);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "many/%05d", i);
		add_file(t.upper, name, "", 0644);
	}
	changes = find_in(t.upper, t.lower, NULL, "");
	assert_int_equal(changes.count, 10001);
	for (size_t i = 1; i < changes.count; i++)
		assert_true(strcmp(changes.items[i - 1].path, changes.items[i].path) < 0);
	changes_done(&changes);
	start_now();
	assert_int_equal(commit(""), 10001);
	assert_true(exists(t.lower, "many/09999"));
}

/* What an ordinary owner may not enter is no hiding place. */
static void closed_directories(void **state)
{
	(void)state;
	add_dir(t.upper, "d", 0755);
	add_dir(t.upper, "d/sub", 0755);
	add_file(t.upper, "d/sub/f", "f", 0000);
	assert_int_equal(fchmodat(t.upper, "d/sub", 0000, 0), 0);
	assert_int_equal(fchmodat(t.upper, "d", 0600, 0), 0);
	start_now();
	assert_int_equal(commit(""), 3);
	assert_int_equal(stat_of(t.lower, "d").st_mode & 07777, 0600);
	assert_int_equal(fchmodat(t.lower, "d", 0700, 0), 0);
	assert_int_equal(stat_of(t.lower, "d/sub").st_mode & 07777, 0000);
	assert_int_equal(fchmodat(t.lower, "d/sub", 0700, 0), 0);
	assert_int_equal(stat_of(t.lower, "d/sub/f").st_mode & 07777, 0000);
	assert_int_equal(stat_of(t.lower, "d/sub/f").st_size, 1);
}

static const struct {
	const char *path, *target;
	bool stays;
} links[] = {
	{ "l", "a", true },
	{ "l", "./a//b/", true },
	{ "l", "..", false },
	{ "l", "../x", false },
	{ "l", "/etc/passwd", false },
	{ "l", "a/..", false },
	{ "l", "a/../../x", false },
	{ "d/l", "..", true },
	{ "d/l", "../a", true },
	{ "d/l", "./../a", true },
	{ "d/l", "../..", false },
	{ "d/e/l", "../../a", true },
	{ "d/e/l", "../.././../a", false },
	{ "d/e/l", "up/../..", false },
	{ "d/l", "..a/...", true },
};

static void symbolic_links(void **state)
{
	(void)state;
	start_now();
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		_cleanup_free_ char *notes = NULL;
		char target[64] = "";

		add_dir(t.upper, "d", 0755);
		add_dir(t.upper, "d/e", 0755);
		assert_int_equal(symlinkat(links[i].target, t.upper, links[i].path), 0);
		if (asprintf(&notes, "refused: %s: a symbolic link that leads out of the folder\n",
			     links[i].path) < 0)
			fail();
		if (commit(links[i].stays ? "" : notes) != (links[i].stays ? 3U : 2U))
			fail_msg("%s", links[i].target);
		assert_int_equal(exists(t.lower, links[i].path), links[i].stays);
		if (links[i].stays) {
			assert_true(readlinkat(t.lower, links[i].path, target, 63) > 0);
			assert_string_equal(target, links[i].target);
		}
		for (int k = 0; k < 2; k++) {
			int at = k ? t.upper : t.lower;

			unlinkat(at, links[i].path, 0);
			assert_int_equal(unlinkat(at, "d/e", AT_REMOVEDIR), 0);
			assert_int_equal(unlinkat(at, "d", AT_REMOVEDIR), 0);
		}
	}
}

static void add_socket(int at, const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_true(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", at, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static void special_files(void **state)
{
	(void)state;
	assert_int_equal(mkfifoat(t.upper, "pipe", 0644), 0);
	add_socket(t.upper, "socket");
	add_file(t.lower, "was a file", "text", 0644);
	assert_int_equal(mkfifoat(t.upper, "was a file", 0644), 0);
	add_dir(t.lower, "was too", 0755);
	assert_int_equal(symlinkat("/etc", t.upper, "was too"), 0);
	expect("A pipe\nA socket\nD was a file\nA was a file\nD was too/\nA was too\n");
	start_now();
	assert_int_equal(commit("refused: pipe: a device, pipe or socket\n"
				"refused: socket: a device, pipe or socket\n"
				"refused: was a file: a device, pipe or socket\n"
				"refused: was too: a symbolic link that leads out of the folder\n"),
			 0);
	assert_false(exists(t.lower, "pipe"));
	assert_string_equal(read_text(t.lower, "was a file"), "text");
	assert_true(S_ISDIR(stat_of(t.lower, "was too").st_mode));
	if (geteuid() != 0 || mknodat(t.upper, "dev", S_IFCHR | 0666, 0x103) < 0) {
		print_message("no device could be made: not tried\n");
		return;
	}
	commit(NULL);
	assert_false(exists(t.lower, "dev"));
}

static void dropped_bits(void **state)
{
	(void)state;
	add_file(t.upper, "suid", "x", 06755);
	add_dir(t.upper, "dir", 02775);
	add_dir(t.upper, "tmp", 01777);
	add_file(t.lower, "only", "x", 0755);
	add_file(t.upper, "only", "x", 04755);
	start_now();
	assert_int_equal(commit("dropped: only: without its setuid or setgid bit\n"
				"dropped: suid: without its setuid or setgid bit\n"
				"dropped: dir: without its setuid or setgid bit\n"),
			 4);
	assert_int_equal(stat_of(t.lower, "suid").st_mode & 07777, 0755);
	assert_int_equal(stat_of(t.lower, "only").st_mode & 07777, 0755);
	assert_int_equal(stat_of(t.lower, "dir").st_mode & 07777, 0775);
	assert_int_equal(stat_of(t.lower, "tmp").st_mode & 07777, 01777);
}

static void plain_commit(void **state)
{
	const struct timespec then[2] = { { 1000000000, 5 }, { 1000000000, 5 } };
	struct stat st;

	(void)state;
	add_file(t.lower, "changed", "old", 0640);
	add_file(t.upper, "changed", "new text", 0644);
	assert_int_equal(utimensat(t.upper, "changed", then, 0), 0);
	add_dir(t.lower, "gone", 0755);
	add_dir(t.lower, "gone/sub", 0555);
	add_file(t.lower, "gone/sub2", "x", 0400);
	assert_int_equal(symlinkat("../outside", t.lower, "gone/link"), 0);
	add_whiteout(t.upper, "gone");
	/* In a directory that was closed, opened by the sandbox, written to. */
	add_dir(t.lower, "closed", 0755);
	add_file(t.lower, "closed/gone", "x", 0644);
	assert_int_equal(fchmodat(t.lower, "closed", 0555, 0), 0);
	add_dir(t.upper, "closed", 0750);
	add_file(t.upper, "closed/new", "new", 0644);
	add_whiteout(t.upper, "closed/gone");
	/* And the other way round. */
	add_dir(t.lower, "open", 0755);
	add_dir(t.upper, "open", 0755);
	add_file(t.upper, "open/new", "new", 0644);
	assert_int_equal(fchmodat(t.upper, "open", 0555, 0), 0);
	add_file(t.lower, "mode", "same", 0644);
	add_file(t.upper, "mode", "same", 0755);
	start_now();
	assert_int_equal(commit(""), 8);
	st = stat_of(t.lower, "changed");
	assert_string_equal(read_text(t.lower, "changed"), "new text");
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	assert_false(exists(t.lower, "gone"));
	assert_false(exists(t.lower, "closed/gone"));
	assert_string_equal(read_text(t.lower, "closed/new"), "new");
	assert_int_equal(stat_of(t.lower, "closed").st_mode & 07777, 0750);
	assert_string_equal(read_text(t.lower, "open/new"), "new");
	assert_int_equal(stat_of(t.lower, "open").st_mode & 07777, 0555);
	assert_int_equal(stat_of(t.lower, "mode").st_mode & 07777, 0755);
	assert_string_equal(read_text(t.outside, "canary"), "alive");
	no_leftovers(t.lower);
	/* Nothing is left to do. */
	assert_int_equal(unlinkat(t.upper, "gone", 0), 0);
	assert_int_equal(unlinkat(t.upper, "closed/gone", 0), 0);
	expect("");
}

static void conflicts(void **state)
{
	(void)state;
	static const char *const names[] = { "both", "chmod", "gone", "moved", "removed", "type" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		add_file(t.lower, names[i], names[i], 0644);
		if (!str_equal(names[i], "gone") && !str_equal(names[i], "moved"))
			add_file(t.upper, names[i], "of the sandbox", 0644);
	}
	add_file(t.upper, "chmod", "chmod", 0755);
	add_whiteout(t.upper, "gone");
	add_whiteout(t.upper, "moved");
	add_file(t.upper, "moved to", "moved", 0644);
	add_file(t.lower, "from", "another content", 0644);
	add_whiteout(t.upper, "from");
	add_file(t.upper, "to", "another content", 0644);
	add_file(t.upper, "added", "of the sandbox", 0644);
	assert_int_equal(symlinkat("fine", t.upper, "added link"), 0);
	add_file(t.upper, "fine", "of the sandbox", 0644);
	add_dir(t.upper, "newdir", 0700);
	add_file(t.upper, "newdir/a", "of the sandbox", 0644);
	add_file(t.upper, "newdir/b", "of the sandbox", 0644);
	add_dir(t.lower, "dir", 0755);
	add_dir(t.lower, "dir/sub", 0755);
	add_whiteout(t.upper, "dir");
	add_dir(t.lower, "folder", 0755);
	add_dir(t.upper, "folder", 0755);
	add_file(t.upper, "folder/f", "of the sandbox", 0644);
	start_now();
	struct changes changes = find_in(t.upper, t.lower, NULL, "");
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;

	/* Meanwhile, on the host. */
	add_file(t.lower, "both", "of the host", 0644);
	assert_int_equal(fchmodat(t.lower, "chmod", 0600, 0), 0);
	add_file(t.lower, "gone", "still needed", 0644);
	add_file(t.lower, "moved", "still needed", 0644);
	assert_int_equal(unlinkat(t.lower, "removed", 0), 0);
	assert_int_equal(unlinkat(t.lower, "type", 0), 0);
	assert_int_equal(symlinkat("../outside/canary", t.lower, "type"), 0);
	add_file(t.lower, "added", "of the host", 0644);
	add_file(t.lower, "added link", "of the host", 0644);
	add_file(t.lower, "to", "of the host", 0644);
	add_dir(t.lower, "newdir", 0755);
	add_file(t.lower, "newdir/a", "of the host", 0644);
	add_file(t.lower, "dir/sub/new", "of the host", 0644);
	assert_int_equal(unlinkat(t.lower, "folder", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("../outside", t.lower, "folder"), 0);

	assert_int_equal(changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, NULL), 0);
	char *text = note_text(&outcome.notes);
	assert_string_equal(
		text, "conflict: both: was changed on the host since the start\n"
		      "conflict: chmod: was changed on the host since the start\n"
		      "conflict: dir: something in it was changed on the host since the start\n"
		      "conflict: gone: was changed on the host since the start\n"
		      "conflict: moved: was changed on the host since the start\n"
		      "conflict: removed: was removed on the host\n"
		      "conflict: type: was replaced by something else on the host\n"
		      "conflict: added: exists on the host by now\n"
		      "conflict: added link: exists on the host by now\n"
		      "conflict: folder/f: a folder on its path was replaced on the host\n"
		      "conflict: newdir: exists on the host by now\n"
		      "conflict: newdir/a: exists on the host by now\n"
		      "conflict: to: exists on the host by now\n");
	free(text);
	assert_int_equal(outcome.applied, 3);
	assert_string_equal(read_text(t.lower, "both"), "of the host");
	assert_int_equal(stat_of(t.lower, "chmod").st_mode & 07777, 0600);
	assert_string_equal(read_text(t.lower, "gone"), "still needed");
	assert_string_equal(read_text(t.lower, "moved"), "still needed");
	assert_string_equal(read_text(t.lower, "moved to"), "moved");
	assert_false(exists(t.lower, "removed"));
	assert_string_equal(read_text(t.lower, "added"), "of the host");
	assert_string_equal(read_text(t.lower, "fine"), "of the sandbox");
	assert_string_equal(read_text(t.lower, "newdir/a"), "of the host");
	assert_string_equal(read_text(t.lower, "newdir/b"), "of the sandbox");
	assert_int_equal(stat_of(t.lower, "newdir").st_mode & 07777, 0755);
	assert_string_equal(read_text(t.lower, "dir/sub/new"), "of the host");
	assert_string_equal(read_text(t.lower, "from"), "another content");
	assert_string_equal(read_text(t.lower, "to"), "of the host");
	assert_string_equal(read_text(t.outside, "canary"), "alive");
	assert_false(exists(t.outside, "f"));
	no_leftovers(t.lower);
	changes_outcome_done(&outcome);
	changes_done(&changes);
}

/* The other name of a file of the host keeps what it had; our own unlink is no conflict. */
static void hard_links_on_the_host(void **state)
{
	(void)state;
	add_file(t.outside, "kept", "kept", 0644);
	assert_int_equal(linkat(t.outside, "kept", t.lower, "content", 0), 0);
	add_file(t.outside, "mode", "mode", 0644);
	assert_int_equal(linkat(t.outside, "mode", t.lower, "mode", 0), 0);
	add_file(t.lower, "one", "pair", 0644);
	assert_int_equal(linkat(t.lower, "one", t.lower, "two", 0), 0);
	add_file(t.upper, "content", "of the sandbox", 0644);
	add_file(t.upper, "mode", "mode", 0777);
	add_whiteout(t.upper, "one");
	add_whiteout(t.upper, "two");
	start_now();
	assert_int_equal(commit(""), 4);
	assert_string_equal(read_text(t.outside, "kept"), "kept");
	assert_string_equal(read_text(t.lower, "content"), "of the sandbox");
	assert_int_equal(stat_of(t.outside, "mode").st_mode & 07777, 0644);
	assert_int_equal(stat_of(t.lower, "mode").st_mode & 07777, 0777);
	assert_string_equal(read_text(t.lower, "mode"), "mode");
	assert_false(exists(t.lower, "one"));
	assert_false(exists(t.lower, "two"));
}

static void add_sparse(int at, const char *name, off_t size, off_t where)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, "data", 4, where), 4);
	close(fd);
}

static void sparse(void **state)
{
	const off_t size = (off_t)(64 * GIB), where = (off_t)(50 * GIB);
	struct stat st;
	char text[5] = "";
	int fd;

	(void)state;
	add_sparse(t.upper, "new", size, where);
	add_sparse(t.lower, "same", size, where);
	add_sparse(t.upper, "same", size, where);
	add_sparse(t.lower, "differs", size, where);
	add_sparse(t.upper, "differs", size, where + 100000);
	add_sparse(t.lower, "old name", size, where + 8192);
	add_whiteout(t.upper, "old name");
	add_sparse(t.upper, "new name", size, where + 8192);
	expect("M differs\nA new\nR old name -> new name\n");
	start_now();
	assert_int_equal(commit(""), 3);
	st = stat_of(t.lower, "new");
	assert_int_equal(st.st_size, size);
	assert_true(st.st_blocks < 1000);
	fd = openat(t.lower, "new", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, text, 4, where), 4);
	assert_string_equal(text, "data");
	close(fd);
}

/* A file that does not fit leaves the old one and no temporary one. */
static void a_failed_write_leaves_nothing(void **state)
{
	const struct rlimit small = { 4096, RLIM_INFINITY };
	struct rlimit before;
	char text[10000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	add_file(t.lower, "f", "old", 0644);
	add_file(t.upper, "f", text, 0644);
	add_file(t.upper, "g", "fits", 0644);
	start_now();
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(
		commit("refused: f: too large, or one of many hard links to a large file\n"), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_string_equal(read_text(t.lower, "f"), "old");
	assert_string_equal(read_text(t.lower, "g"), "fits");
	no_leftovers(t.lower);
}

/* Root gives what it makes to the owner of the folder, and what it replaces to who had it. */
static void owners(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("not root: all files belong to one user\n");
		skip();
	}
	assert_int_equal(fchown(t.lower, 1234, 1235), 0);
	add_file(t.lower, "f", "old", 0644);
	assert_int_equal(fchownat(t.lower, "f", 77, 78, 0), 0);
	add_file(t.upper, "f", "new", 0644);
	add_dir(t.upper, "d", 0755);
	add_file(t.upper, "d/f", "new", 0644);
	assert_int_equal(symlinkat("f", t.upper, "l"), 0);
	start_now();
	assert_int_equal(commit(""), 4);
	assert_int_equal(stat_of(t.lower, "f").st_uid, 77);
	assert_int_equal(stat_of(t.lower, "f").st_gid, 78);
	assert_int_equal(stat_of(t.lower, "d").st_uid, 1234);
	assert_int_equal(stat_of(t.lower, "d/f").st_gid, 1235);
	assert_int_equal(stat_of(t.lower, "l").st_uid, 1234);
}

static void too_many_are_not_applied(void **state)
{
	struct changes changes = { .truncated = true };
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, &err),
			 -E2BIG);
	assert_non_null(strstr(err.text, "export them instead"));
	assert_int_equal(changes_find(-EBADF, t.lower, &changes, &err), -EBADF);
}

static void in_a_second(struct timespec *ret_end)
{
	clock_gettime(CLOCK_MONOTONIC, ret_end);
	ret_end->tv_sec++;
}

static bool is_over(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end->tv_sec ||
	       (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

static pid_t start_child(void (*work)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			work();
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The folder "d" becomes a link that leads out, and a folder again. */
static void swap_folder(void)
{
	(void)renameat(t.lower, "d", t.lower, "e");
	(void)!symlinkat("../outside", t.lower, "d");
	(void)unlinkat(t.lower, "d", 0);
	(void)renameat(t.lower, "e", t.lower, "d");
}

/*
 * The swap is in the way only now and then, so it is tried for a second, and must have been seen.
 * Both the folder itself and one in it are written to.
 */
static void swapped_directories(void **state)
{
	static const char *const places[] = { "", "sub/" };
	struct changes changes;
	size_t applied = 0, conflicting = 0;
	struct timespec end;
	char name[64];
	pid_t pid;

	(void)state;
	add_dir(t.lower, "d", 0755);
	add_dir(t.lower, "d/sub", 0755);
	add_dir(t.upper, "d", 0755);
	add_dir(t.upper, "d/sub", 0755);
	add_dir(t.outside, "sub", 0755);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "d/%s%d", places[i % 2], i);
		add_file(t.upper, name, "of the sandbox", 0644);
		snprintf(name, sizeof(name), "d/%sold%d", places[i % 2], i);
		add_file(t.lower, name, "of the host", 0644);
		add_whiteout(t.upper, name);
		snprintf(name, sizeof(name), "%sold%d", places[i % 2], i);
		add_file(t.outside, name, "of the host", 0644);
	}
	changes = find_in(t.upper, t.lower, NULL, "");
	assert_int_equal(changes.count, 100);
	start_now();
	t.since.tv_sec += 3600; /* only the swap is to be in the way */
	pid = start_child(swap_folder);
	in_a_second(&end);
	while (!is_over(&end)) {
		struct changes_outcome outcome = CHANGES_OUTCOME_NONE;

		assert_int_equal(
			changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, NULL), 0);
		applied += outcome.applied;
		conflicting += outcome.notes.count;
		changes_outcome_done(&outcome);
	}
	end_child(pid);
	changes_done(&changes);
	print_message("%zu applied, %zu in conflict\n", applied, conflicting);
	assert_true(applied > 0);
	assert_true(conflicting > 0);
	assert_string_equal(read_text(t.outside, "canary"), "alive");
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%s%d", places[i % 2], i);
		assert_false(exists(t.outside, name));
		snprintf(name, sizeof(name), "%sold%d", places[i % 2], i);
		assert_true(exists(t.outside, name));
	}
	no_leftovers(t.outside);
}

/* A file of the host becomes another one, at any moment. */
static void replace_file(void)
{
	add_file(t.lower, "new", "of the host", 0644);
	(void)renameat(t.lower, "new", t.lower, "file");
}

/* What changes after conflicts were looked for, and before the file's turn comes, is left alone. */
static void changed_in_between(void **state)
{
	struct changes changes;
	struct timespec end;
	size_t seen = 0;
	pid_t pid;

	(void)state;
	add_file(t.lower, "file", "of the host", 0644);
	add_file(t.upper, "file", "of the sandbox", 0644);
	changes = find_in(t.upper, t.lower, "M file\n", "");
	start_now();
	t.since.tv_sec += 3600;
	pid = start_child(replace_file);
	in_a_second(&end);
	while (!is_over(&end)) {
		struct changes_outcome outcome = CHANGES_OUTCOME_NONE;

		assert_int_equal(
			changes_commit(&changes, t.upper, t.lower, &t.since, &outcome, NULL), 0);
		for (size_t i = 0; i < outcome.notes.count; i++)
			seen += str_equal(outcome.notes.items[i].why,
					  "was changed on the host meanwhile");
		changes_outcome_done(&outcome);
	}
	end_child(pid);
	changes_done(&changes);
	assert_true(seen > 0);
}

/* Links of the lower layer, and of the upper one under the name of a directory, are not followed.
 */
static void links_in_the_way(void **state)
{
	struct changes changes;

	(void)state;
	assert_int_equal(symlinkat("../outside", t.lower, "d"), 0);
	add_dir(t.upper, "d", 0755);
	add_file(t.upper, "d/canary", "dead", 0644);
	expect("D d\nA d/\nA d/canary\n");
	start_now();
	changes = find_in(t.upper, t.lower, NULL, "");
	changes_done(&changes);
	assert_int_equal(commit(""), 3);
	assert_string_equal(read_text(t.outside, "canary"), "alive");
	assert_string_equal(read_text(t.lower, "d/canary"), "dead");
}

static void write_id_map(const char *path, unsigned int id)
{
	char text[40];
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	snprintf(text, sizeof(text), "0 %u 1", id);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(77);
	close(fd);
}

/* In namespaces of its own, as a sandbox has them. Exits with 77 where this host has none. */
static void enter_namespaces(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	int fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		_exit(77);
	fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "deny", 4) < 0)
		_exit(77);
	close(fd);
	write_id_map("/proc/self/uid_map", uid);
	write_id_map("/proc/self/gid_map", gid);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(t.scratch.path) < 0 ||
	    mkdir("tmp", 0700) < 0 || mount("none", "tmp", "tmpfs", 0, NULL) < 0 ||
	    chdir("tmp") < 0)
		_exit(77);
}

/* What a program in the sandbox does. Nothing in here may be an assertion: it is a child. */
static bool work_in_overlay(void)
{
	int fd = open("merged/changed", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0 || write(fd, "more", 4) != 4)
		return false;
	close(fd);
	fd = open("merged/copied up", O_RDWR | O_CLOEXEC); /* written as it was */
	if (fd < 0 || pwrite(fd, "c", 1, 0) != 1)
		return false;
	close(fd);
	fd = open("merged/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	close(fd);
	return chmod("merged/mode", 0755) == 0 && unlink("merged/gone") == 0 &&
	       rename("merged/name", "merged/other name") == 0 && unlink("merged/again/a") == 0 &&
	       rmdir("merged/again") == 0 && mkdir("merged/again", 0755) == 0 &&
	       unlink("merged/dir/in") == 0 && rmdir("merged/dir") == 0;
}

static void real_overlay_child(void)
{
	struct changes changes = CHANGES_NONE;
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	char *text = NULL;
	size_t size;
	FILE *file;
	int lower, upper;

	enter_namespaces();
	if (mkdir("lower", 0755) || mkdir("upper", 0755) || mkdir("work", 0755) ||
	    mkdir("merged", 0755))
		_exit(1);
	lower = open("lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	upper = open("upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	add_file(lower, "changed", "changed", 0644);
	add_file(lower, "copied up", "copied up", 0644);
	add_file(lower, "mode", "mode", 0644);
	add_file(lower, "gone", "gone", 0644);
	add_file(lower, "name", "the name", 0644);
	add_dir(lower, "again", 0755);
	add_file(lower, "again/a", "a", 0644);
	add_dir(lower, "dir", 0755);
	add_file(lower, "dir/in", "in", 0644);
	start_now();
	if (mount("overlay", "merged", "overlay", 0,
		  "userxattr,lowerdir=lower,upperdir=upper,workdir=work") < 0)
		_exit(77);
	if (!work_in_overlay())
		_exit(2);
	if (umount2("merged", 0) < 0)
		_exit(3);
	if (changes_find(upper, lower, &changes, NULL) < 0)
		_exit(4);
	file = open_memstream(&text, &size);
	changes_print(file, &changes);
	fclose(file);
	if (strcmp(text, "D again/a\nM changed\nD dir/\nD gone\nm mode 0644 -> 0755\nA new\n"
			 "R name -> other name\n") != 0) {
		fprintf(stderr, "%s", text);
		_exit(5);
	}
	if (changes_commit(&changes, upper, lower, &t.since, &outcome, NULL) < 0 ||
	    outcome.applied != 7 || outcome.notes.count != 0)
		_exit(6);
	if (strcmp(read_text(lower, "changed"), "changedmore") != 0 || exists(lower, "gone") ||
	    exists(lower, "again/a") || !exists(lower, "again") || exists(lower, "dir"))
		_exit(7);
	free(text);
	changes_outcome_done(&outcome);
	changes_done(&changes);
	_exit(0);
}

static void in_a_child(void (*work)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		work();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("this host has no user namespaces, or no overlayfs in them\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void real_overlay(void **state)
{
	(void)state;
	in_a_child(real_overlay_child);
}

/* A file system that the host has mounted in the folder was never part of the lower layer. */
static void mount_point_child(void)
{
	struct changes changes = CHANGES_NONE;
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	int fd;

	add_dir(t.lower, "mnt", 0755);
	add_dir(t.lower, "tree", 0755);
	add_dir(t.lower, "tree/mnt", 0755);
	add_dir(t.upper, "mnt", 0700);
	add_file(t.upper, "mnt/file", "of the sandbox", 0644);
	add_whiteout(t.upper, "tree");
	start_now();
	if (changes_find(t.upper, t.lower, &changes, NULL) < 0 || changes.count != 3)
		_exit(1);
	enter_namespaces();
	/* Descriptors from before keep the old view of mounts. */
	fd = open("../lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || mount("none", "../lower/mnt", "tmpfs", 0, NULL) < 0 ||
	    mount("none", "../lower/tree/mnt", "tmpfs", 0, NULL) < 0)
		_exit(77);
	if (changes_commit(&changes, t.upper, fd, &t.since, &outcome, NULL) < 0 ||
	    outcome.applied != 0 || exists(fd, "mnt/file") || !exists(fd, "tree/mnt"))
		_exit(2);
	changes_outcome_done(&outcome);
	changes_done(&changes);
	if (changes_find(t.upper, fd, &changes, NULL) < 0 || changes.count != 1 ||
	    changes.problems.count != 1)
		_exit(3);
	changes_done(&changes);
	_exit(0);
}

static void mount_points(void **state)
{
	(void)state;
	in_a_child(mount_point_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(nothing),
		test(every_kind),
		test(another_type_is_deleted_and_added),
		test(opaque),
		test(whiteouts_by_attribute),
		test(renames),
		test(renames_compare_to_the_end),
		test(renames_are_bounded),
		test(hostile_names),
		test(json),
		test(deep),
		test(too_deep),
		test(many),
		test(closed_directories),
		test(symbolic_links),
		test(special_files),
		test(dropped_bits),
		test(plain_commit),
		test(conflicts),
		test(hard_links_on_the_host),
		test(sparse),
		test(a_failed_write_leaves_nothing),
		test(owners),
		test(too_many_are_not_applied),
		test(swapped_directories),
		test(changed_in_between),
		test(links_in_the_way),
		test(real_overlay),
		test(mount_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
