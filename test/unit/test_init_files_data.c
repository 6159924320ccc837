#include "init_files_case.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define LARGE (4 * MIB)

static void open_pipe(int *ret_read, int *ret_write)
{
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	*ret_read = pair[0];
	*ret_write = pair[1];
}

/* Nothing that a write left by halves. */
static void expect_no_rest(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		assert_false(str_starts(entry->d_name, ".brig-"));
	closedir(dir);
}

static bool has_rest(void)
{
	DIR *dir = opendir(".");
	const struct dirent *entry;
	bool has = false;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		has = has || str_starts(entry->d_name, ".brig-");
	closedir(dir);
	return has;
}

struct range {
	bool has_size;
	uint64_t offset, size;
};

static struct draft draft_read(const char *path, struct range range)
{
	struct draft d = draft_of(MESSAGE_READ, path);

	draft_number(&d, FIELD_OFFSET, range.offset);
	if (range.has_size)
		draft_number(&d, FIELD_SIZE, range.size);
	return d;
}

/* Reads through a pipe; the end of the pipe is all that there is. */
static void expect_read_pipe(const char *path, struct range range, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF(256 * MIB);
	struct draft d = draft_read(path, range);
	struct call c;
	int in, out;

	open_pipe(&in, &out);
	call_begin(&c, &d, out);
	assert_int_equal(fd_read_all(in, &b), 0);
	close(in);
	assert_int_equal(b.len, len);
	if (len > 0)
		assert_memory_equal(b.data, data, len);
	assert_int_equal(expect_done(&c), len);
}

static void give_credit(struct call *c, uint64_t size)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CREDIT, CALL);

	draft_number(&d, FIELD_SIZE, size);
	assert_int_equal(channel_send(&c->ch, &d, NULL, 0), 0);
}

/* As messages, with a window that is seen to hold. */
static void expect_read_data(const char *path, struct range range, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF(256 * MIB);
	struct draft d = draft_read(path, range);
	uint64_t window = MESSAGE_WINDOW;
	struct message m;
	struct call c;

	call_begin(&c, &d, -EBADF);
	for (;;) {
		const void *piece;
		size_t n;

		call_next(&c, &m);
		if (m.type != MESSAGE_DATA)
			break;
		piece = message_bytes(&m, FIELD_DATA, &n);
		assert_true(n > 0 && n <= MESSAGE_DATA_MAX && n <= window);
		buf_add(&b, piece, n);
		window -= n;
		if (window == 0) {
			assert_int_equal(call_next_in(&c, &m, 50), 0);
			/* More than a message, and not a whole number of them. */
			window = 100001;
			give_credit(&c, 1);
			give_credit(&c, 100000);
		}
	}
	assert_string_equal(message_name(m.type), "DONE");
	assert_int_equal(message_number(&m, FIELD_SIZE, 1), len);
	call_end(&c);
	assert_int_equal(b.len, len);
	if (len > 0)
		assert_memory_equal(b.data, data, len);
}

static void test_read(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);

	(void)state;
	make_file("file", data, LARGE);
	make_file("empty", "", 0);
	assert_int_equal(symlink("file", "link"), 0);
	for (int copies = 0; copies < 2; copies++) {
		/* Once without splice(). */
		if (copies)
			setenv("BRIG_TEST_FAIL", "splice=38", 1);
		expect_read_pipe("file", (struct range){ 0 }, data, LARGE);
		expect_read_pipe("link", (struct range){ .offset = 5 }, data + 5, LARGE - 5);
		expect_read_pipe("file", (struct range){ true, 1000, 70000 }, data + 1000, 70000);
		expect_read_pipe("file", (struct range){ true, LARGE - 5, 70000 }, data + LARGE - 5,
				 5);
		expect_read_pipe("file", (struct range){ .offset = 2 * LARGE }, "", 0);
		expect_read_pipe("empty", (struct range){ 0 }, "", 0);
	}
	unsetenv("BRIG_TEST_FAIL");
	expect_read_data("file", (struct range){ 0 }, data, LARGE);
	expect_read_data("file", (struct range){ true, 1000, 70000 }, data + 1000, 70000);
	expect_read_data("file", (struct range){ true, 0, 0 }, "", 0);
	expect_read_data("empty", (struct range){ 0 }, "", 0);
}

static void test_read_offset_refused(void **state)
{
	struct draft d;
	struct call c;

	(void)state;
	make_file("file", "x", 1);
	d = draft_read("file", (struct range){ .offset = UINT64_MAX });
	call_begin(&c, &d, -EBADF);
	expect_error(&c, EINVAL, "\"file\"");
	d = draft_read("file", (struct range){ true, INT64_MAX, UINT64_MAX });
	call_begin(&c, &d, -EBADF);
	assert_int_equal(expect_done(&c), 0);
}

/* Into a file instead of a pipe: what cannot be spliced is copied. */
static void test_read_into_file(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);
	struct draft d;
	struct call c;

	(void)state;
	make_file("file", data, LARGE);
	d = draft_read("file", (struct range){ 0 });
	call_begin(&c, &d, open("copy", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(expect_done(&c), LARGE);
	expect_content("copy", data, LARGE);
}

static void test_read_unsized(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(MIB);
	struct draft d = draft_read("/proc/self/maps", (struct range){ 0 });
	struct call c;
	int in, out;

	(void)state;
	open_pipe(&in, &out);
	call_begin(&c, &d, out);
	assert_int_equal(fd_read_all(in, &b), 0);
	close(in);
	assert_true(b.len > 1000);
	assert_int_equal(expect_done(&c), b.len);

	files_bounds.unsized = 1000;
	d = draft_read("/proc/self/maps", (struct range){ 0 });
	call_begin(&c, &d, -EBADF);
	expect_error(&c, EFBIG, "does not say how large it is");
	d = draft_read("/proc/self/maps", (struct range){ true, 0, 1100 });
	call_begin(&c, &d, -EBADF);
	files_bounds.unsized = 64 * MIB;
	for (struct message m;;) {
		call_next(&c, &m);
		if (m.type == MESSAGE_DATA)
			continue;
		assert_string_equal(message_name(m.type), "DONE");
		assert_int_equal(message_number(&m, FIELD_SIZE, 0), 1100);
		break;
	}
	call_end(&c);
}

/* The file changes while it is read: it grows, or shrinks. */
static void test_read_changing(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);

	(void)state;
	for (int shrinks = 0; shrinks < 2; shrinks++) {
		_cleanup_(buf_done) struct buf b = BUF(4 * LARGE);
		struct draft d = draft_read("file", (struct range){ 0 });
		struct call c;
		int in, out, fd;
		char byte;

		make_file("file", data, LARGE);
		open_pipe(&in, &out);
		call_begin(&c, &d, out);
		assert_int_equal(read(in, &byte, 1), 1);
		fd = open("file", O_WRONLY | O_APPEND | O_CLOEXEC);
		if (shrinks)
			assert_int_equal(ftruncate(fd, 10), 0);
		else
			assert_int_equal(fd_write_all(fd, data, LARGE), 0);
		close(fd);
		assert_int_equal(fd_read_all(in, &b), 0);
		close(in);
		if (shrinks)
			assert_true(b.len < LARGE);
		else
			assert_int_equal(b.len, LARGE - 1);
		assert_int_equal(expect_done(&c), b.len + 1);
	}
}

static void test_read_sparse(void **state)
{
	_cleanup_free_ char *zeros = calloc(1, 32 * MIB);
	int fd = open("sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_int_equal(ftruncate(fd, 32 * MIB), 0);
	close(fd);
	expect_read_pipe("sparse", (struct range){ 0 }, zeros, 32 * MIB);
}

/* What is not a file is never opened for long, let alone read. */
static void test_kinds(void **state)
{
	static const struct {
		const char *path, *words;
		int code;
	} kinds[] = {
		{ "pipe", "\"pipe\" is a pipe, not a file", EINVAL },
		{ "socket", "\"socket\" is a socket, not a file", EINVAL },
		{ "dir", "\"dir\" is a directory, not a file", EISDIR },
		{ "/dev/null", "\"/dev/null\" is a device, not a file", EINVAL },
		{ "to-pipe", "is a pipe, not a file", EINVAL },
	};
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct call c;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600) | mkdir("dir", 0755) | symlink("pipe", "to-pipe"), 0);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		call_simple(&c, MESSAGE_READ, kinds[i].path, 0);
		expect_error(&c, kinds[i].code, kinds[i].words);
		call_simple(&c, MESSAGE_WRITE, kinds[i].path, 0);
		expect_error(&c, kinds[i].code, kinds[i].words);
	}
	close(s);
	call_simple(&c, MESSAGE_WRITE, "new/", 0);
	expect_error(&c, EISDIR, "\"new/\": is a directory");
	call_simple(&c, MESSAGE_WRITE, "dir/..", 0);
	expect_error(&c, EISDIR, "is a directory");
}

/* A pipe that is full, and a window that is used up: both wait, and both hear. */
static void test_read_cancelled(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);

	(void)state;
	make_file("file", data, LARGE);
	for (int i = 0; i < 6; i++) {
		bool copies = i % 3 == 1, window = i % 3 == 2, ends = i >= 3;
		struct draft d = draft_read("file", (struct range){ 0 });
		int in = -EBADF, out = -EBADF;
		struct message m;
		struct call c;
		char byte;

		if (copies)
			setenv("BRIG_TEST_FAIL", "splice=38", 1);
		if (!window)
			open_pipe(&in, &out);
		call_begin(&c, &d, out);
		if (window)
			call_expect(&c, &m, MESSAGE_DATA);
		else
			assert_int_equal(read(in, &byte, 1), 1);
		if (ends) {
			call_end(&c);
		} else {
			call_say(&c, MESSAGE_CANCEL);
			expect_error(&c, ECANCELED, "cancelled");
		}
		fd_close(in);
		unsetenv("BRIG_TEST_FAIL");
	}
}

static void test_read_nobody_reads(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);
	struct draft d = draft_read("file", (struct range){ 0 });
	struct call c;
	int in, out;

	(void)state;
	make_file("file", data, LARGE);
	open_pipe(&in, &out);
	close(in);
	call_begin(&c, &d, out);
	expect_error(&c, EPIPE, "nobody reads \"file\" any more");
}

struct writing {
	uint64_t flags, mode, modified, size;
	bool has_mode, by_data;
};

static struct draft draft_write(const char *path, const struct writing *w)
{
	struct draft d = draft_of(MESSAGE_WRITE, path);

	if (w->flags)
		draft_number(&d, FIELD_FLAGS, w->flags);
	if (w->has_mode)
		draft_number(&d, FIELD_MODE, w->mode);
	if (w->modified)
		draft_number(&d, FIELD_MODIFIED, w->modified);
	if (w->size)
		draft_number(&d, FIELD_SIZE, w->size);
	return d;
}

static void send_data(struct call *c, const char *data, size_t len)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DATA, CALL);

	draft_bytes(&d, FIELD_DATA, data, len);
	assert_int_equal(channel_send(&c->ch, &d, NULL, 0), 0);
}

/* Never more than the window on the way. */
static void send_all(struct call *c, const char *data, size_t len, size_t piece)
{
	uint64_t window = MESSAGE_WINDOW;
	struct message m;

	while (len > 0) {
		size_t n = MIN(piece, len);

		while (window < n) {
			call_expect(c, &m, MESSAGE_CREDIT);
			window += message_number(&m, FIELD_SIZE, 0);
			assert_true(window <= MESSAGE_WINDOW);
		}
		send_data(c, data, n);
		window -= n;
		data += n;
		len -= n;
	}
	call_say(c, MESSAGE_DATA_END);
}

static uint64_t expect_done_after_credit(struct call *c)
{
	struct message m;
	uint64_t size;

	do
		call_next(c, &m);
	while (m.type == MESSAGE_CREDIT);
	if (m.type == MESSAGE_ERROR)
		fail_msg("an error: %s", message_text(&m, FIELD_TEXT, ""));
	assert_string_equal(message_name(m.type), "DONE");
	size = message_number(&m, FIELD_SIZE, 0);
	call_end(c);
	return size;
}

static void begin_write(struct call *c, const char *path, struct writing w, const char *data,
			size_t len)
{
	struct draft d = draft_write(path, &w);
	int in = -EBADF, out = -EBADF;

	if (!w.by_data)
		open_pipe(&in, &out);
	call_begin(c, &d, in);
	if (w.by_data) {
		send_all(c, data, len, MESSAGE_DATA_MAX);
		return;
	}
	/* Where it fails, nobody may read it. */
	signal(SIGPIPE, SIG_IGN);
	(void)!fd_write_all(out, data, len);
	close(out);
}

static void write_file(const char *path, struct writing w, const char *data, size_t len)
{
	struct call c;

	begin_write(&c, path, w, data, len);
	assert_int_equal(expect_done_after_credit(&c), len);
}

static void expect_write_error(const char *path, struct writing w, int code, const char *words)
{
	struct call c;

	begin_write(&c, path, w, "data", 4);
	expect_error(&c, code, words);
	expect_no_rest(".");
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static ino_t inode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void test_write(void **state)
{
	_cleanup_free_ char *data = make_bytes(LARGE);
	struct stat st;

	(void)state;
	umask(027);
	for (int by_data = 0; by_data < 2; by_data++) {
		ino_t old;

		write_file("file", (struct writing){ .by_data = by_data, .size = LARGE }, data,
			   LARGE);
		expect_content("file", data, LARGE);
		assert_int_equal(mode_of("file"), 0640);
		old = inode_of("file");
		/* Replaced, with its mode kept; set-id bits go, as when it is written to. */
		assert_int_equal(chmod("file", 04604), 0);
		write_file("file",
			   (struct writing){ .by_data = by_data, .has_mode = true, .mode = 0777 },
			   "short", 5);
		expect_content("file", "short", 5);
		assert_int_not_equal(inode_of("file"), old);
		assert_int_equal(mode_of("file"), 0604);
		write_file("file",
			   (struct writing){ .by_data = by_data,
					     .flags = WRITE_MODE,
					     .has_mode = true,
					     .mode = 0757,
					     .modified = 1700000000000000007 },
			   "", 0);
		expect_content("file", "", 0);
		assert_int_equal(mode_of("file"), 0757);
		assert_int_equal(stat("file", &st), 0);
		assert_int_equal(st.st_mtim.tv_sec, 1700000000);
		assert_int_equal(st.st_mtim.tv_nsec, 7);
		assert_int_equal(unlink("file"), 0);
		write_file("file",
			   (struct writing){ .by_data = by_data, .has_mode = true, .mode = 0446 },
			   "x", 1);
		assert_int_equal(mode_of("file"), 0446);
		assert_int_equal(unlink("file"), 0);
	}
	expect_no_rest(".");
}

static void test_write_names(void **state)
{
	(void)state;
	make_file("file", "old", 3);
	expect_write_error("file", (struct writing){ .flags = WRITE_EXCLUSIVE }, EEXIST,
			   "\"file\": is there already");
	expect_content("file", "old", 3);
	write_file("new\n", (struct writing){ .flags = WRITE_EXCLUSIVE }, "new", 3);
	expect_content("new\n", "new", 3);
	expect_write_error("a/b/c", (struct writing){ 0 }, ENOENT, "\"a/b/c\": does not exist");
	write_file("a/b/c", (struct writing){ .flags = WRITE_PARENTS }, "deep", 4);
	expect_content("a/b/c", "deep", 4);
	expect_write_error("file/b", (struct writing){ .flags = WRITE_PARENTS }, ENOTDIR,
			   "\"file/b\"");

	/* Through links, as the kernel would. */
	assert_int_equal(symlink("b/c", "a/link"), 0);
	assert_int_equal(symlink("a/link", "link"), 0);
	write_file("link", (struct writing){ 0 }, "through", 7);
	expect_content("a/b/c", "through", 7);
	assert_true(is_there("link"));
	expect_no_rest("a/b");
	assert_int_equal(symlink("a/b/made", "dangling"), 0);
	expect_write_error("dangling", (struct writing){ .flags = WRITE_EXCLUSIVE }, EEXIST,
			   "\"dangling\"");
	assert_false(is_there("a/b/made"));
	write_file("dangling", (struct writing){ 0 }, "made", 4);
	expect_content("a/b/made", "made", 4);
	assert_int_equal(symlink("loop", "loop"), 0);
	expect_write_error("loop", (struct writing){ 0 }, ELOOP, "too many symbolic links");
}

static void test_write_in_place(void **state)
{
	ino_t old;

	(void)state;
	make_file("file", "the old content", 15);
	assert_int_equal(link("file", "other"), 0);
	old = inode_of("file");
	write_file("file", (struct writing){ .modified = 1700000000000000000 }, "new", 3);
	assert_int_equal(inode_of("file"), old);
	expect_content("other", "new", 3);

	write_file("other", (struct writing){ .flags = WRITE_APPEND }, " and more", 9);
	expect_content("file", "new and more", 12);
	write_file("fresh", (struct writing){ .flags = WRITE_APPEND, .by_data = true }, "x", 1);
	expect_content("fresh", "x", 1);
	write_file("fresh", (struct writing){ .flags = WRITE_APPEND, .by_data = true }, "y", 1);
	expect_content("fresh", "xy", 2);
	expect_no_rest(".");
}

static void test_write_attributes(void **state)
{
	char value[10];

	(void)state;
	make_file("file", "old", 3);
	if (setxattr("file", "user.kept", "yes", 3, 0) < 0) {
		print_message("no attributes in /tmp here\n");
		skip();
	}
	write_file("file", (struct writing){ 0 }, "new", 3);
	assert_int_equal(getxattr("file", "user.kept", value, sizeof(value)), 3);
	expect_content("file", "new", 3);
}

static void test_write_refused(void **state)
{
	ino_t old;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can make what nobody may not write\n");
		skip();
	}
	assert_int_equal(mkdir("shut", 0755), 0);
	make_file("shut/mine", "old", 3);
	assert_int_equal(chown("shut/mine", NOBODY, NOBODY), 0);
	make_file("open", "old", 3);
	assert_int_equal(chmod("open", 0666), 0);
	make_file("read-only", "old", 3);
	old = inode_of("shut/mine");
	as_nobody = true;
	expect_write_error("shut/new", (struct writing){ 0 }, EACCES,
			   "\"shut/new\": permission denied");
	expect_write_error("read-only", (struct writing){ 0 }, EACCES, "\"read-only\"");
	expect_content("read-only", "old", 3);
	/* Nothing can be made beside it: in place. */
	write_file("shut/mine", (struct writing){ 0 }, "new", 3);
	assert_int_equal(inode_of("shut/mine"), old);
	expect_content("shut/mine", "new", 3);
	/* Somebody else's that may be written stays somebody else's. */
	old = inode_of("open");
	write_file("open", (struct writing){ 0 }, "new", 3);
	assert_int_equal(inode_of("open"), old);
	expect_content("open", "new", 3);
	expect_no_rest(".");
}

/* A program that runs cannot be written to, but another can take its name. */
static void test_write_running(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF(64 * MIB);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), ready[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(fd_read_all(fd, &b), 0);
	close(fd);
	make_file("program", b.data, b.len);
	assert_int_equal(chmod("program", 0755), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		char number[12];

		close(ready[0]);
		snprintf(number, sizeof(number), "%d", ready[1]);
		execl("./program", "./program", "--wait", number, NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(open("program", O_WRONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, ETXTBSY);
	expect_write_error("program", (struct writing){ .flags = WRITE_APPEND }, ETXTBSY,
			   "is a program that runs");
	write_file("program", (struct writing){ 0 }, "new", 3);
	expect_content("program", "new", 3);
	assert_int_equal(mode_of("program"), 0755);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
}

/* Waits until the call has made its new file, and has all that was sent. */
static void await_rest(void)
{
	while (!has_rest())
		poll(NULL, 0, 1);
}

static void test_write_cancelled(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		bool by_data = i & 1, ends = i & 2, appends = i & 4;
		struct writing w = { .flags = appends ? WRITE_APPEND : 0 };
		struct draft d = draft_write("file", &w);
		int in = -EBADF, out = -EBADF;
		struct call c;

		make_file("file", "old", 3);
		if (!by_data)
			open_pipe(&in, &out);
		call_begin(&c, &d, in);
		if (by_data)
			send_data(&c, "half", 4);
		else
			assert_int_equal(write(out, "half", 4), 4);
		if (!appends)
			await_rest();
		else
			for (struct stat st = { 0 }; st.st_size < 7; poll(NULL, 0, 1))
				assert_int_equal(stat("file", &st), 0);
		/* Nobody sees half a file meanwhile. */
		if (!appends)
			expect_content("file", "old", 3);
		if (ends) {
			call_end(&c);
		} else {
			call_say(&c, MESSAGE_CANCEL);
			expect_error(&c, ECANCELED, "cancelled");
		}
		fd_close(out);
		expect_content("file", "old", 3);
		expect_no_rest(".");
	}
}

/* The writer of the pipe died before all was said. */
static void test_write_short(void **state)
{
	struct writing w = { .size = 5 };

	(void)state;
	expect_write_error("file", w, EPIPE, "\"file\": only 4 of 5 bytes came");
	assert_false(is_there("file"));
	w.by_data = true;
	expect_write_error("file", w, EPIPE, "only 4 of 5 bytes came");
	w.size = 3;
	write_file("file", w, "data", 4);
	expect_content("file", "data", 4);
}

/* The end of the pipe alone is not the end of what has no size, before or after it was said. */
static void test_write_ended(void **state)
{
	const struct writing w = { .flags = WRITE_ENDED };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct draft d = draft_write("file", &w);
		int in, out;
		struct call c;

		open_pipe(&in, &out);
		call_begin(&c, &d, in);
		assert_int_equal(write(out, "data", 4), 4);
		if (i == 0) /* said first */
			call_say(&c, MESSAGE_DATA_END);
		await_rest();
		fd_close(out);
		if (i == 1)
			call_say(&c, MESSAGE_DATA_END);
		if (i < 2) {
			assert_int_equal(expect_done(&c), 4);
			expect_content("file", "data", 4);
			assert_int_equal(unlink("file"), 0);
			continue;
		}
		/* Never said: the writer is gone. */
		call_end(&c);
		assert_false(is_there("file"));
	}
	expect_no_rest(".");
}

static void test_write_sparse(void **state)
{
	size_t len = 32 * MIB + 77;
	_cleanup_free_ char *data = calloc(1, len);
	struct stat st;
	struct call c;
	struct draft d;

	(void)state;
	memset(data + 5 * MIB - 2, 1, 4); /* across two blocks */
	data[20 * MIB] = 1;
	for (int by_data = 0; by_data < 2; by_data++) {
		write_file("sparse", (struct writing){ .by_data = by_data }, data, len);
		expect_content("sparse", data, len);
		assert_int_equal(stat("sparse", &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 < 256 * KIB);
	}
	/* In pieces that fit no block, among bytes and zeros of all lengths. */
	len = 300000;
	for (size_t i = 0, zeros = 0; i < len; i++) {
		zeros = zeros ? zeros - 1 : i % 9973 == 0 ? i % 12289 : 0;
		data[i] = zeros ? 0 : 'x';
	}
	d = draft_write("odd", &(struct writing){ 0 });
	call_begin(&c, &d, -EBADF);
	send_all(&c, data, len, 3001);
	assert_int_equal(expect_done_after_credit(&c), len);
	expect_content("odd", data, len);
	/* In place, where there were other bytes: no old ones show through the holes. */
	memset(data, 'o', len);
	make_file("sparse", data, len);
	assert_int_equal(unlink("odd") | link("sparse", "odd"), 0);
	memset(data, 0, len);
	write_file("sparse", (struct writing){ 0 }, data, len);
	expect_content("sparse", data, len);
}

static void test_write_full(void **state)
{
	_cleanup_free_ char *data = NULL;
	struct call c;
	struct writing w = { .by_data = false };

	(void)state;
	if (geteuid() != 0 || mkdir("small", 0755) < 0 ||
	    mount("tmpfs", "small", "tmpfs", 0, "size=1m") < 0) {
		print_message("a small disk can only be mounted by root\n");
		skip();
	}
	data = make_bytes(4 * MIB);
	make_file("small/file", "old", 3);
	begin_write(&c, "small/file", w, data, 4 * MIB);
	expect_error(&c, ENOSPC, "\"small/file\": the disk of the sandbox is full (limits.disk)");
	expect_no_rest("small");
	expect_content("small/file", "old", 3);
	/* Known before the first byte: nothing is read from this pipe. */
	w.size = 4 * MIB;
	begin_write(&c, "small/file", w, "", 0);
	expect_error(&c, ENOSPC, "(limits.disk)");
	w.flags = WRITE_APPEND;
	w.size = 0;
	begin_write(&c, "small/file", w, data, 4 * MIB);
	expect_error(&c, ENOSPC, "(limits.disk)");
	expect_content("small/file", "old", 3);
	assert_int_equal(mount(NULL, "small", NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	begin_write(&c, "small/new", (struct writing){ 0 }, "x", 1);
	expect_error(&c, EROFS, "\"small/new\": is read-only");
	/* A file that something is mounted on cannot be replaced. */
	make_file("mounted", "under", 5);
	make_file("over", "over", 4);
	assert_int_equal(mount("over", "mounted", NULL, MS_BIND, NULL), 0);
	write_file("mounted", (struct writing){ 0 }, "written", 7);
	assert_int_equal(umount2("mounted", MNT_DETACH) | umount2("small", MNT_DETACH), 0);
	expect_content("over", "written", 7);
	expect_content("mounted", "under", 5);
}

static void test_write_limit(void **state)
{
	(void)state;
	/* A sparse file beyond what any file system takes. */
	expect_write_error("file", (struct writing){ .size = (uint64_t)INT64_MAX }, ENOSPC,
			   "(limits.disk)");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_read),
		CASE(test_read_offset_refused),
		CASE(test_read_into_file),
		CASE(test_read_unsized),
		CASE(test_read_changing),
		CASE(test_read_sparse),
		CASE(test_kinds),
		CASE(test_read_cancelled),
		CASE(test_read_nobody_reads),
		CASE(test_write),
		CASE(test_write_names),
		CASE(test_write_in_place),
		CASE(test_write_attributes),
		CASE(test_write_refused),
		CASE(test_write_running),
		CASE(test_write_cancelled),
		CASE(test_write_short),
		CASE(test_write_ended),
		CASE(test_write_sparse),
		CASE(test_write_full),
		CASE(test_write_limit),
	};

	/* As the program that runs, of test_write_running(). */
	if (argc == 3 && str_equal(argv[1], "--wait")) {
		(void)!write(atoi(argv[2]), "", 1);
		pause();
	}
	return cmocka_run_group_tests_name("init_files_data", tests, NULL, NULL);
}
