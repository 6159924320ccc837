#include "changes_case.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/str.h"
#include "jail/tarball.h"

#define test(name) cmocka_unit_test_setup_teardown(name, layers_make, layers_remove)

static const struct timespec then = { .tv_sec = 1000000000 };

static int open_tar(void)
{
	int fd = openat(t.outside, "tar", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	return fd;
}

/* What another program prints about the tar file, or NULL when there is no such program. */
static char *ask(const char *command, struct buf *out)
{
	char line[5000];
	int status;
	FILE *pipe;

	snprintf(line, sizeof(line), "cd %s/outside && LC_ALL=C %s", t.scratch.path, command);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	assert_int_equal(fd_read_all(fileno(pipe), out), 0);
	status = pclose(pipe);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
		print_message("%.8s... is not installed: not compared\n", command);
		return NULL;
	}
	assert_int_equal(status, 0);
	return out->data;
}

/* Every member as Python sees it: type, mode, owner, size, time, name, target. */
static char *ask_python(struct buf *out)
{
	static const char script[] =
		"import tarfile,sys\n"
		"for m in tarfile.open('tar', 'r:'):\n"
		" d = tarfile.open('tar').extractfile(m).read() if m.isfile() and m.size < 100 "
		"else b''\n"
		" print(m.type.decode(), oct(m.mode), m.uid, m.gid, m.size, int(m.mtime), "
		"ascii(m.name), ascii(m.linkname), d.decode())\n";

	add_file(t.outside, "script", script, 0644);
	return ask("env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 python3 script 2>&1",
		   out);
}

static void members(void **state)
{
	_cleanup_(buf_done) struct buf python = BUF(MIB), gnu = BUF(MIB);
	_cleanup_close_ int fd = open_tar(), from = -EBADF;
	struct tarball tar = TARBALL(fd);

	(void)state;
	add_file(t.upper, "f", "content", 0644);
	from = openat(t.upper, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(tarball_dir(&tar, "dir", 0750, &then), 0);
	assert_int_equal(tarball_file(&tar, "dir/file", 0644, &then, 7, from), 0);
	assert_int_equal(tarball_file(&tar, "dir/empty", 0600, &then, 0, from), 0);
	assert_int_equal(tarball_symlink(&tar, "dir/link", "file", &then), 0);
	assert_int_equal(tarball_file(&tar, "-rf\n\xc3\xa9", 0644, &then, 7, from), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	assert_int_equal(tar.written, (5 + 2 + 2) * 512);
	assert_int_equal(stat_of(t.outside, "tar").st_size, (off_t)tar.written);
	if (ask_python(&python))
		assert_string_equal(python.data,
				    "5 0o750 0 0 0 1000000000 'dir' '' \n"
				    "0 0o644 0 0 7 1000000000 'dir/file' '' content\n"
				    "0 0o600 0 0 0 1000000000 'dir/empty' '' \n"
				    "2 0o777 0 0 0 1000000000 'dir/link' 'file' \n"
				    "0 0o644 0 0 7 1000000000 '-rf\\n\\xe9' '' content\n");
	if (ask("tar tf tar --quoting-style=c 2>&1", &gnu))
		assert_string_equal(gnu.data,
				    "\"dir/\"\n\"dir/file\"\n\"dir/empty\"\n\"dir/link\"\n"
				    "\"-rf\\n\\303\\251\"\n");
}

/* Lengths around the two limits of ustar, and far beyond; each must come back as it was. */
static void long_names(void **state)
{
	static const struct {
		size_t dir, name;
	} lengths[] = { { 0, 99 },    { 0, 100 },   { 0, 101 },  { 0, 255 },  { 98, 1 },
			{ 99, 1 },    { 100, 1 },   { 154, 99 }, { 155, 99 }, { 155, 100 },
			{ 156, 100 }, { 155, 101 }, { 50, 200 }, { 200, 50 }, { 255, 255 } };
	_cleanup_close_ int fd = open_tar(), from = openat(t.outside, "canary", O_RDONLY);
	_cleanup_(buf_done) struct buf expected = BUF(MIB), python = BUF(MIB), gnu = BUF(MIB),
				       gnu_expected = BUF(MIB);
	struct tarball tar = TARBALL(fd);
	char path[600], target[301];

	(void)state;
	memset(target, 't', 300);
	target[300] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t len = 0;

		for (; len < lengths[i].dir; len++)
			path[len] = 'd';
		if (len)
			path[len++] = '/';
		memset(path + len, 'f', lengths[i].name);
		path[len + lengths[i].name] = '\0';
		assert_int_equal(tarball_file(&tar, path, 0644, &then, 5, from), 0);
		buf_printf(&expected, "0 0o644 0 0 5 1000000000 '%s' '' alive\n", path);
		buf_printf(&gnu_expected, "%s\n", path);
		assert_int_equal(tarball_dir(&tar, path, 0700, &then), 0);
		buf_printf(&expected, "5 0o700 0 0 0 1000000000 '%s' '' \n", path);
		buf_printf(&gnu_expected, "%s/\n", path);
	}
	assert_int_equal(tarball_symlink(&tar, "l", target, &then), 0);
	buf_printf(&expected, "2 0o777 0 0 0 1000000000 'l' '%s' \n", target);
	buf_str(&gnu_expected, "l\n");
	assert_int_equal(tarball_finish(&tar), 0);
	if (ask_python(&python))
		assert_string_equal(python.data, buf_text(&expected));
	if (ask("tar tf tar 2>&1", &gnu))
		assert_string_equal(gnu.data, buf_text(&gnu_expected));
}

/* A long name that is no UTF-8 goes into a record that says so. */
static void long_names_of_any_bytes(void **state)
{
	_cleanup_close_ int fd = open_tar();
	_cleanup_(buf_done) struct buf python = BUF(MIB);
	struct tarball tar = TARBALL(fd);
	char path[121];

	(void)state;
	memset(path, 'x', 120);
	path[120] = '\0';
	path[60] = (char)0xff;
	assert_int_equal(tarball_symlink(&tar, path, "x", &then), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	if (!ask_python(&python))
		skip();
	assert_non_null(strstr(python.data, "x\\udcffx"));
}

static void large_and_old(void **state)
{
	const struct timespec before = { .tv_sec = -86400 };
	_cleanup_close_ int fd = -EBADF, from = -EBADF;
	_cleanup_(buf_done) struct buf python = BUF(MIB);
	struct tarball tar;
	char block[2048];

	(void)state;
	fd = open_tar();
	tar = TARBALL(fd);
	assert_int_equal(tarball_symlink(&tar, "old", "x", &before), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	if (ask_python(&python))
		assert_string_equal(python.data, "2 0o777 0 0 0 -86400 'old' 'x' \n");

	/* Nine gigabytes are not written for this: the stream ends when nobody reads on. */
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	from = openat(t.upper, "large", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(ftruncate(from, (off_t)(9 * GIB)), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		signal(SIGPIPE, SIG_IGN);
		tar = TARBALL(ends[1]);
		if (tarball_file(&tar, "large", 0644, &then, 9 * GIB, from) != -EPIPE ||
		    tar.failure != -EPIPE || tarball_finish(&tar) != -EPIPE)
			_exit(1);
		_exit(0);
	}
	close(ends[1]);
	for (size_t got = 0; got < 1536;) {
		ssize_t n = read(ends[0], block + got, 1536 - got);

		assert_true(n > 0);
		got += (size_t)n;
	}
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_memory_equal(block + 512, "19 size=9663676416\n", 19);
	assert_int_equal(block[156], 'x');
	assert_int_equal(block[1024 + 156], '0');
}

/* A file that is shorter than it was leaves a whole stream behind. */
static void a_file_that_shrinks(void **state)
{
	_cleanup_close_ int fd = open_tar(), from = openat(t.outside, "canary", O_RDONLY);
	_cleanup_(buf_done) struct buf python = BUF(MIB);
	struct tarball tar = TARBALL(fd);

	(void)state;
	assert_int_equal(tarball_file(&tar, "short", 0644, &then, 200000, from), -EIO);
	assert_int_equal(tarball_file(&tar, "next", 0644, &then, 5, from), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	if (ask_python(&python))
		assert_string_equal(python.data, "0 0o644 0 0 200000 1000000000 'short' '' \n"
						 "0 0o644 0 0 5 1000000000 'next' '' alive\n");
}

/* An upper layer with one of each; the same for both kinds of export. */
static void fill(void)
{
	int fd;

	add_dir(t.upper, "dir", 0750);
	add_file(t.upper, "dir/file", "content", 04711);
	add_file(t.upper, "linked", "linked", 0644);
	assert_int_equal(linkat(t.upper, "linked", t.upper, "linked2", 0), 0);
	add_whiteout(t.upper, "gone");
	assert_int_equal(mkfifoat(t.upper, "pipe", 0644), 0);
	assert_int_equal(symlinkat("/etc/passwd", t.upper, "out1"), 0);
	assert_int_equal(symlinkat("../../../x", t.upper, "out2"), 0);
	assert_int_equal(symlinkat("../../srv/x", t.upper, "over"), 0);
	assert_int_equal(symlinkat("dir/file", t.upper, "in"), 0);
	add_dir(t.upper, "tmp", 0755);
	add_file(t.upper, "tmp/junk", "junk", 0644);
	add_dir(t.upper, "tmpx", 0555);
	fd = openat(t.upper, "huge", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)TIB), 0);
	assert_int_equal(pwrite(fd, "data", 4, (off_t)GIB), 4);
	close(fd);
}

static const char *const skips[] = { "tmp", "dev", NULL };
static const struct changes_export how = {
	.skip = skips,
	.max_file = MIB,
	.max_total = 10 * MIB,
};

static void expect_notes(struct changes_outcome *outcome, size_t applied, const char *notes)
{
	char *text = note_text(&outcome->notes);

	assert_string_equal(text, notes);
	assert_int_equal(outcome->applied, applied);
	free(text);
	changes_outcome_done(outcome);
}

static void export_to_tar(void **state)
{
	_cleanup_(buf_done) struct buf python = BUF(MIB), gnu = BUF(MIB);
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	_cleanup_close_ int fd = open_tar();
	struct tarball tar = TARBALL(fd);
	struct err err = ERR_NONE;

	(void)state;
	fill();
	assert_int_equal(changes_export_tar(t.upper, "home/user", &tar, &how, &outcome, &err), 0);
	expect_notes(&outcome, 7,
		     "refused: home/user/huge: over the size limit of the export\n"
		     "refused: home/user/out1: a symbolic link that leads out of what is "
		     "exported\n"
		     "refused: home/user/out2: a symbolic link that leads out of what is "
		     "exported\n"
		     "refused: home/user/pipe: a device, pipe or socket\n"
		     "dropped: home/user/dir/file: without its setuid or setgid bit\n");
	assert_true(tar.written < MIB);
	/* A second layer into the same stream. */
	assert_int_equal(changes_export_tar(t.lower, "srv", &tar, &how, &outcome, &err), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	if (ask("tar tf tar 2>&1", &gnu))
		assert_string_equal(gnu.data, "home/\nhome/user/\nhome/user/dir/\nhome/user/in\n"
					      "home/user/linked\nhome/user/linked2\n"
					      "home/user/over\nhome/user/tmpx/\n"
					      "home/user/dir/file\nsrv/\n");
	if (!ask_python(&python))
		skip();
	assert_non_null(strstr(python.data, "'home/user/dir/file' '' content\n"));
	assert_non_null(strstr(python.data, "0 0o711 0 0 7 "));
	assert_non_null(strstr(python.data, "'home/user/linked2' '' linked\n"));
	assert_non_null(strstr(python.data, "'home/user/over' '../../srv/x'"));
}

static void export_to_dir(void **state)
{
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	struct err err = ERR_NONE;
	struct stat st;

	(void)state;
	fill();
	assert_int_equal(changes_export_dir(t.upper, "home/user", t.lower, &how, &outcome, &err),
			 0);
	expect_notes(&outcome, 8,
		     "refused: home/user/out1: a symbolic link that leads out of what is "
		     "exported\n"
		     "refused: home/user/out2: a symbolic link that leads out of what is "
		     "exported\n"
		     "refused: home/user/pipe: a device, pipe or socket\n"
		     "dropped: home/user/dir/file: without its setuid or setgid bit\n");
	st = stat_of(t.lower, "home/user/dir/file");
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_string_equal(read_text(t.lower, "home/user/dir/file"), "content");
	assert_int_equal(stat_of(t.lower, "home/user/dir").st_mode & 07777, 0750);
	assert_int_equal(stat_of(t.lower, "home/user/tmpx").st_mode & 07777, 0555);
	assert_false(exists(t.lower, "home/user/tmp"));
	assert_false(exists(t.lower, "home/user/gone"));
	assert_false(exists(t.lower, "home/user/out1"));
	st = stat_of(t.lower, "home/user/huge");
	assert_int_equal(st.st_size, (off_t)TIB);
	assert_true(st.st_blocks < 1000);

	/* Once more: what is there stays, and directories are shared. */
	add_file(t.lower, "home/user/linked", "kept", 0644);
	assert_int_equal(changes_export_dir(t.upper, "home/user", t.lower, &how, &outcome, &err),
			 0);
	assert_int_equal(outcome.applied, 2);
	assert_string_equal(outcome.notes.items[0].why, "exists already");
	assert_string_equal(read_text(t.lower, "home/user/linked"), "kept");
	changes_outcome_done(&outcome);
}

/* A link in the target under the name of a directory leads nowhere. */
static void export_follows_no_link(void **state)
{
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;

	(void)state;
	add_dir(t.upper, "dir", 0755);
	add_file(t.upper, "dir/canary", "dead", 0644);
	add_dir(t.lower, "a", 0755);
	assert_int_equal(symlinkat("../../outside", t.lower, "a/dir"), 0);
	assert_int_equal(changes_export_dir(t.upper, "a", t.lower, &how, &outcome, NULL), 0);
	expect_notes(&outcome, 0, "conflict: a/dir: exists already\n");
	assert_true(changes_export_dir(t.upper, "a/dir", t.lower, &how, &outcome, NULL) < 0);
	changes_outcome_done(&outcome);
	assert_string_equal(read_text(t.outside, "canary"), "alive");
	assert_false(exists(t.outside, "dir"));
}

static void bounds(void **state)
{
	const struct changes_export small = { .max_file = 10, .max_total = 12 };
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	_cleanup_close_ int fd = open_tar();
	struct tarball tar = TARBALL(fd);

	(void)state;
	add_file(t.upper, "a", "01234567890", 0644);
	add_file(t.upper, "b", "0123456789", 0644);
	add_file(t.upper, "c", "012", 0644);
	add_file(t.upper, "d", "01", 0644);
	assert_int_equal(changes_export_tar(t.upper, "", &tar, &small, &outcome, NULL), 0);
	expect_notes(&outcome, 2,
		     "refused: a: over the size limit of the export\n"
		     "refused: c: over the size limit of the export\n");
	assert_int_equal(changes_export_dir(t.upper, "", t.lower, &small, &outcome, NULL), 0);
	expect_notes(&outcome, 1,
		     "refused: b: over the size limit of the export\n"
		     "refused: c: over the size limit of the export\n"
		     "refused: d: over the size limit of the export\n");
	assert_false(exists(t.lower, "b"));
}

static void prefixes(void **state)
{
	static const char *const bad[] = { "/a", "a/", "a//b", "..", "a/../b", ".", "a/.", "/" };
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	struct err err = ERR_NONE;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (changes_export_dir(t.upper, bad[i], t.lower, &how, &outcome, &err) != -EINVAL)
			fail_msg("%s", bad[i]);
	assert_int_equal(changes_export_dir(t.upper, "..a/b", t.lower, &how, &outcome, &err), 0);
	assert_true(exists(t.lower, "..a/b"));
}

static void deep_export(void **state)
{
	struct changes_outcome outcome = CHANGES_OUTCOME_NONE;
	_cleanup_close_ int fd = open_tar();
	_cleanup_(buf_done) struct buf gnu = BUF(8 * MIB);
	struct tarball tar = TARBALL(fd);
	int dir = dup(t.upper);

	(void)state;
	for (int i = 0; i < 3000; i++) {
		int next = make_dir(dir, "d", 0755);

		close(dir);
		dir = next;
	}
	close(dir);
	assert_int_equal(changes_export_tar(t.upper, "top", &tar, &how, &outcome, NULL), 0);
	assert_int_equal(tarball_finish(&tar), 0);
	assert_int_equal(outcome.applied, 2045);
	assert_int_equal(outcome.notes.count, 1);
	assert_non_null(strstr(outcome.notes.items[0].why, "too long"));
	changes_outcome_done(&outcome);
	if (ask("tar tf tar | wc -l", &gnu))
		assert_string_equal(gnu.data, "2046\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(members),
		test(long_names),
		test(large_and_old),
		test(long_names_of_any_bytes),
		test(a_file_that_shrinks),
		test(export_to_tar),
		test(export_to_dir),
		test(export_follows_no_link),
		test(bounds),
		test(prefixes),
		test(deep_export),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
