/*
 * The writer with system calls that fail, and killed between every two of them. The calls of
 * brig's code go through here (--wrap in meson.build).
 */
#include "trace_case.h"

#include <stdbool.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sys.h"
#include "trace/catalog.h"

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __real_pwrite64(int fd, const void *data, size_t len, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t offset);
int __real_mkdirat(int dir, const char *path, mode_t mode);
int __wrap_mkdirat(int dir, const char *path, mode_t mode);
int __real_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __real_sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);
int __wrap_ftruncate64(int fd, off_t len);
int __real_ftruncate64(int fd, off_t len);
int __wrap_sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to);
int __real_sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);

#define SURVIVED 7

static int steps_left = -1;  /* then the process is gone; negative: never */
static bool dies_in_half;    /* ... after half of what it was writing */
static int writes_left = -1; /* then the disk is full, after half of one more write */
static int heads_left = -1;  /* likewise for the head, at once */

static bool is_last_step(void)
{
	if (steps_left < 0 || steps_left-- > 0)
		return false;
	if (!dies_in_half)
		_exit(0);
	return true;
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	if (is_last_step()) {
		(void)!__real_write(fd, data, len / 2);
		_exit(0);
	}
	if (writes_left == 0) {
		writes_left = -2;
		return __real_write(fd, data, len / 2);
	}
	if (writes_left == -2) {
		errno = ENOSPC;
		return -1;
	}
	if (writes_left > 0)
		writes_left--;
	return __real_write(fd, data, len);
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t offset)
{
	if (is_last_step())
		_exit(0);
	if (heads_left == 0) {
		errno = EDQUOT;
		return -1;
	}
	if (heads_left > 0)
		heads_left--;
	return __real_pwrite64(fd, data, len, offset);
}

int __wrap_mkdirat(int dir, const char *path, mode_t mode)
{
	if (is_last_step())
		_exit(0);
	return __real_mkdirat(dir, path, mode);
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
	if (is_last_step())
		_exit(0);
	return __real_unlinkat(dir, path, flags);
}

int __wrap_flock(int fd, int operation)
{
	if (is_last_step())
		_exit(0);
	return __real_flock(fd, operation);
}

int __wrap_sys_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	if (is_last_step())
		_exit(0);
	return __real_sys_openat2(dir, path, flags, mode, resolve);
}

int __wrap_ftruncate64(int fd, off_t len)
{
	if (is_last_step())
		_exit(0);
	return __real_ftruncate64(fd, len);
}

int __wrap_sys_rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
	if (is_last_step())
		_exit(0);
	return __real_sys_rename_noreplace(from_dir, from, to_dir, to);
}

static struct verdict_of_stream expect(const char *id, enum verify_state state)
{
	struct verdict_of_stream v = trace_verify(id);

	if (v.state != state)
		fail_msg("%s: %s at line %d: %s", id, verify_state_names[v.state], (int)v.line,
			 v.text);
	return v;
}

static void a_stream_from_start_to_end(void **state)
{
	struct trace *trace = trace_begin("abc");
	struct node *lines[8];
	size_t count;

	(void)state;
	trace_must_add(trace, trace_allowed("/etc/passwd"));
	trace_must_add(trace, trace_denied("example.com:443"));
	expect("abc", VERIFY_RUNNING);
	assert_int_equal(trace_close(trace, "timeout", 124), 0);
	assert_int_equal(expect("abc", VERIFY_COMPLETE).lines, 4);
	count = trace_lines("abc", lines, ARRAY_SIZE(lines));
	assert_int_equal(count, 4);
	assert_true(trace_is(lines[0], "sandbox", "start"));
	assert_string_equal(trace_text(lines[0], "object"), "python3 'it'\\''s'");
	assert_string_equal(trace_text(lines[0], "policy"), "sha256:00");
	assert_string_equal(trace_text(lines[0], "isolation"), "container");
	assert_string_equal(trace_text(lines[1], "object"), "/etc/passwd");
	assert_int_equal(trace_number(lines[2], "parent"), 1);
	assert_true(trace_number(lines[2], "mono") >= trace_number(lines[1], "mono"));
	assert_true(trace_is(lines[3], "sandbox", "end"));
	assert_string_equal(trace_text(lines[3], "reason"), "timeout");
	assert_int_equal(trace_number(lines[3], "exit_code"), 124);
	assert_int_equal(trace_number(lines[3], "denied"), 1);
	trace_lines_free(lines, count);
}

static void files_are_closed_to_others(void **state)
{
	static const struct {
		const char *path;
		unsigned int mode;
	} rows[] = { { "sandboxes", 0700 },
		     { "sandboxes/abc", 0700 },
		     { "sandboxes/abc/events.ndjson", 0600 },
		     { "heads", 0700 },
		     { "heads/abc", 0600 } };
	struct trace *trace = trace_begin("abc");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[256];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", trace_home, rows[i].path);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, rows[i].mode);
	}
	trace_free(trace);
}

static void an_id_is_used_once(void **state)
{
	struct trace_request request = trace_request_of("abc");
	struct trace *trace = trace_begin("abc"), *other = NULL;
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(trace_open(&request, &other, &err), -EEXIST);
	assert_non_null(strstr(err.text, "already"));
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	expect("abc", VERIFY_COMPLETE);
	/* Its stream is gone but the head is not: both stay as they are. */
	trace_store("heads/def", "x", 1);
	request.sandbox = "def";
	assert_int_equal(trace_open(&request, &other, &err), -EEXIST);
	request.sandbox = "../def";
	assert_int_equal(trace_open(&request, &other, &err), -EINVAL);
	assert_null(other);
}

static void like_refusals_are_folded(void **state)
{
	static const char *const objects[] = { "a:1", "a:1", "a:1", "b:1", "a:1" };
	struct trace *trace = trace_begin("abc");
	struct node *lines[16];
	size_t count;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		trace_must_add(trace, trace_denied(objects[i]));
	trace_must_add(trace, trace_denied("a:1"));
	assert_int_equal(trace_flush(trace), 0);
	assert_int_equal(trace_due_ms(trace), -1);
	trace_must_add(trace, trace_denied("a:1"));
	assert_true(trace_due_ms(trace) >= 0);
	trace_must_add(trace, trace_allowed("/x"));
	trace_must_add(trace, trace_allowed("/x"));
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	/* start, a, a*2, b, a, a*1 (flush), a*1, x, x, end */
	count = trace_lines("abc", lines, ARRAY_SIZE(lines));
	assert_int_equal(count, 10);
	assert_int_equal(trace_number(lines[2], "count"), 2);
	assert_string_equal(trace_text(lines[2], "object"), "a:1");
	assert_string_equal(trace_text(lines[2], "allow_with"), "--allow-net x:1");
	assert_string_equal(trace_text(lines[3], "object"), "b:1");
	assert_int_equal(trace_number(lines[5], "count"), 1);
	assert_int_equal(trace_number(lines[6], "count"), 1);
	assert_int_equal(trace_number(lines[9], "denied"), 7);
	trace_lines_free(lines, count);
	expect("abc", VERIFY_COMPLETE);
}

/* Every event is in the stream, or in a count of it, whatever the order of what comes. */
static void a_flood_is_counted(void **state)
{
	struct trace_request request = trace_request_of("abc");
	static struct node *lines[4096];
	uint64_t seen[2] = { 0 }, refusals = 0;
	struct trace *trace;
	struct err err = ERR_NONE;
	size_t count;

	(void)state;
	request.limits = (struct trace_limits){ .allowed_rate = 100, .denied_rate = 50 };
	assert_int_equal(trace_open(&request, &trace, &err), 0);
	for (int i = 0; i < 20000; i++) {
		char object[32];

		snprintf(object, sizeof(object), "/%d", i / 3);
		trace_must_add(trace, i % 10 ? trace_allowed(object) : trace_denied(object));
		refusals += i % 10 == 0;
	}
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	count = trace_lines("abc", lines, ARRAY_SIZE(lines));
	assert_true(count < 4000);
	for (size_t i = 1; i + 1 < count; i++) {
		bool is_denied = str_equal(trace_text(lines[i], "verdict"), "deny");
		int64_t dropped = trace_number(lines[i], "dropped");
		int64_t folded = trace_number(lines[i], "count");

		seen[is_denied] += (uint64_t)(dropped ? dropped : folded ? folded : 1);
	}
	assert_int_equal(seen[0], 18000);
	assert_int_equal(seen[1], 2000);
	assert_int_equal(trace_number(lines[count - 1], "denied"), refusals);
	trace_lines_free(lines, count);
	expect("abc", VERIFY_COMPLETE);
}

static void what_is_missing_is_told_where_it_is_missing(void **state)
{
	struct trace_request request = trace_request_of("abc");
	struct node *lines[8];
	struct trace *trace;
	size_t count;

	(void)state;
	request.limits.allowed_rate = 1;
	assert_int_equal(trace_open(&request, &trace, NULL), 0);
	for (int i = 0; i < 50; i++)
		trace_must_add(trace, trace_allowed("/x"));
	trace_must_add(trace, trace_denied("a:1"));
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	/* start, two at once, how many are missing, the refusal, end */
	count = trace_lines("abc", lines, ARRAY_SIZE(lines));
	assert_int_equal(count, 6);
	assert_true(trace_is(lines[3], "sandbox", "dropped"));
	assert_int_equal(trace_number(lines[3], "dropped"), 48);
	assert_string_equal(trace_text(lines[3], "verdict"), "allow");
	assert_string_equal(trace_text(lines[4], "object"), "a:1");
	trace_lines_free(lines, count);
}

static void bytes_are_bounded_and_refusals_still_fit(void **state)
{
	struct trace_request request = trace_request_of("abc");
	static char large[4000];
	struct buf text = BUF(64 * MIB);
	struct trace *trace;
	struct err err = ERR_NONE;

	(void)state;
	memset(large, 'x', sizeof(large) - 1);
	request.limits = (struct trace_limits){ .allowed_rate = 1000000, .bytes = 2 * MIB };
	assert_int_equal(trace_open(&request, &trace, &err), 0);
	for (int i = 0; i < 2000; i++)
		trace_must_add(trace, trace_allowed(large));
	trace_must_add(trace, trace_denied("the-one:1"));
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	trace_load("sandboxes/abc/events.ndjson", &text);
	assert_true(text.len < 2 * MIB);
	assert_non_null(strstr(text.data, "the-one:1"));
	assert_non_null(strstr(text.data, "\"dropped\":"));
	buf_done(&text);
	expect("abc", VERIFY_COMPLETE);
}

static void what_waits_is_written_in_time(void **state)
{
	const struct timespec longer = { .tv_nsec = (TRACE_DELAY_MS + 20) * 1000000l };
	struct trace *trace = trace_begin("abc");
	struct node *lines[4];
	size_t count;

	(void)state;
	assert_int_equal(trace_due_ms(trace), -1);
	trace_must_add(trace, trace_allowed("/1"));
	assert_in_range(trace_due_ms(trace), 0, TRACE_DELAY_MS);
	nanosleep(&longer, NULL);
	assert_int_equal(trace_due_ms(trace), 0);
	trace_must_add(trace, trace_allowed("/2"));
	count = trace_lines("abc", lines, ARRAY_SIZE(lines));
	assert_int_equal(count, 3);
	trace_lines_free(lines, count);
	trace_free(trace);
	expect("abc", VERIFY_INTERRUPTED);
}

/* A disk that fills up at the n-th write: told to the caller, and the stream stays valid. */
static void a_full_disk_is_an_error(void **state)
{
	(void)state;
	for (int n = 0; n < 4; n++) {
		const struct trace_event event = trace_allowed("/more");
		struct trace *trace;
		char id[TRACE_ID_SIZE];
		int r = 0;

		snprintf(id, sizeof(id), "full%d", n);
		trace = trace_begin(id);
		writes_left = n;
		for (int i = 0; i < 6 && r == 0; i++) {
			trace_must_add(trace, trace_allowed("/a"));
			trace_must_add(trace, trace_allowed("/b"));
			r = trace_flush(trace);
		}
		assert_int_equal(r, -ENOSPC);
		writes_left = -1;
		/* It stays so, also when there is room again. */
		assert_int_equal(trace_add(trace, &event), -ENOSPC);
		assert_int_equal(trace_flush(trace), -ENOSPC);
		assert_int_equal(trace_close(trace, "disk", 1), -ENOSPC);
		assert_true(expect(id, VERIFY_FAILED).lost > 0);
		assert_true(expect(id, VERIFY_FAILED).lines >= (uint64_t)n * 2 + 1);
	}
}

static void a_full_disk_at_the_start_leaves_nothing(void **state)
{
	struct trace_request request = trace_request_of("abc");
	struct trace *trace = NULL;
	struct err err = ERR_NONE;
	struct strv ids = { 0 };
	int home;

	(void)state;
	for (int i = 0; i < 2; i++) {
		writes_left = i ? -1 : 0;
		heads_left = i ? 0 : -1;
		assert_true(trace_open(&request, &trace, &err) < 0);
		writes_left = heads_left = -1;
		assert_null(trace);
		assert_non_null(strstr(err.text, "XDG_STATE_HOME"));
		home = trace_home_open(trace_home, false, &err);
		assert_int_equal(catalog_ids(home, "sandboxes", &ids), 0);
		assert_int_equal(catalog_ids(home, "heads", &ids), 0);
		assert_int_equal(ids.count, 0);
		close(home);
	}
}

static void a_head_that_cannot_be_written_is_an_error(void **state)
{
	struct trace *trace = trace_begin("abc");

	(void)state;
	trace_must_add(trace, trace_allowed("/a"));
	heads_left = 0;
	assert_int_equal(trace_flush(trace), -EDQUOT);
	assert_int_equal(trace_close(trace, "exit", 0), -EDQUOT);
	heads_left = -1;
	/* Nothing was written that was not announced. */
	expect("abc", VERIFY_INTERRUPTED);
}

/* In a child: a failure there is a status, not an assertion. */
static void must(int r)
{
	if (r < 0)
		_exit(9);
}

static void write_a_stream(const char *id)
{
	const struct trace_event allowed = trace_allowed("/a"), denied = trace_denied("a:1");
	struct trace_request request = trace_request_of(id);
	struct trace *trace = NULL;

	must(trace_open(&request, &trace, NULL));
	for (int i = 0; i < 3; i++) {
		must(trace_add(trace, &allowed));
		must(trace_add(trace, &denied));
		must(trace_add(trace, &denied));
		must(trace_flush(trace));
	}
	must(trace_close(trace, "exit", 0));
}

/* Runs work in a process that dies at its n-th call; whether it survived them all. */
static bool dies_at(int n, bool in_half, void (*work)(const char *id), const char *id)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		steps_left = n;
		dies_in_half = in_half;
		work(id);
		_exit(SURVIVED);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SURVIVED);
	return WEXITSTATUS(status) == SURVIVED;
}

/* All that has a stream or a head: none of it may look as if somebody had changed it. */
static void nothing_looks_changed(void)
{
	struct err err = ERR_NONE;
	int home = trace_home_open(trace_home, false, &err);
	static const char *const folders[] = { "sandboxes", "heads" };

	assert_true(home >= 0);
	for (size_t k = 0; k < ARRAY_SIZE(folders); k++) {
		struct strv ids = { 0 };

		assert_int_equal(catalog_ids(home, folders[k], &ids), 0);
		for (size_t i = 0; i < ids.count; i++) {
			struct verdict_of_stream v = { 0 };
			int r = verify_stream(home, ids.items[i], &v, &err);

			/* A folder without a stream is one that never began, or is half removed. */
			if (r < 0 && r != -ENOENT)
				fail_msg("%s", err.text);
			if (r == 0 && v.state == VERIFY_BROKEN)
				fail_msg("%s: line %d: %s", ids.items[i], (int)v.line, v.text);
		}
		strv_done(&ids);
	}
	close(home);
}

static void a_killed_writer_does_not_look_like_a_change(void **state)
{
	bool survived = false;
	int n = 0;

	(void)state;
	for (; !survived; n++) {
		char id[TRACE_ID_SIZE];

		snprintf(id, sizeof(id), "dies%d", n);
		survived = dies_at(n, false, write_a_stream, id);
		snprintf(id, sizeof(id), "half%d", n);
		dies_at(n, true, write_a_stream, id);
		nothing_looks_changed();
	}
	assert_true(n > 12);
}

/* One more, with which there are too many. */
static void write_and_trim(const char *id)
{
	struct trace_request request = trace_request_of(id);
	struct trace *trace = NULL;

	must(trace_open(&request, &trace, NULL));
	must(trace_tidy(trace_home, 2));
	must(trace_close(trace, "exit", 0));
}

static void a_killed_remover_does_not_look_like_a_change(void **state)
{
	bool survived = false;
	int n = 0;

	(void)state;
	for (; !survived; n++) {
		char id[TRACE_ID_SIZE];

		for (int i = 0; i < 3; i++) {
			snprintf(id, sizeof(id), "old%dx%d", n, i);
			assert_int_equal(trace_close(trace_begin(id), "exit", 0), 0);
		}
		snprintf(id, sizeof(id), "new%d", n);
		survived = dies_at(n, false, write_and_trim, id);
		nothing_looks_changed();
	}
	assert_true(n > 20);
}

static bool exists(const char *id)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/sandboxes/%s", trace_home, id);
	return access(path, F_OK) == 0;
}

static void the_oldest_go_and_the_living_stay(void **state)
{
	struct trace *living = trace_begin("living");
	char id[TRACE_ID_SIZE];

	(void)state;
	for (int i = 0; i < 16; i++) {
		snprintf(id, sizeof(id), "old%d", i);
		assert_int_equal(trace_close(trace_begin(id), "exit", 0), 0);
	}
	assert_int_equal(trace_tidy(trace_home, 17), 0);
	assert_true(exists("old0"));
	assert_int_equal(trace_close(trace_begin("newest"), "exit", 0), 0);
	assert_int_equal(trace_tidy(trace_home, 16), 0);
	assert_true(exists("living"));
	assert_true(exists("newest"));
	assert_false(exists("old0"));
	assert_true(exists("old15"));
	trace_must_add(living, trace_allowed("/still"));
	assert_int_equal(trace_close(living, "exit", 0), 0);
	expect("living", VERIFY_COMPLETE);
	nothing_looks_changed();
}

static void without_anybody_who_tidies_up_there_is_a_bound(void **state)
{
	unsigned int left = 0;
	char id[TRACE_ID_SIZE];

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct trace_request request = trace_request_of(id);
		struct trace *trace = NULL;

		snprintf(id, sizeof(id), "many%d", i);
		request.limits.keep = 8;
		assert_int_equal(trace_open(&request, &trace, NULL), 0);
		assert_int_equal(trace_close(trace, "exit", 0), 0);
	}
	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "many%d", i);
		left += exists(id);
	}
	assert_in_range(left, 7, 16);
}

/* What the keeper says of the time is believed where it can be. */
static void times_do_not_go_back(void **state)
{
	static const uint64_t never[] = { 0, 1, UINT64_MAX };
	struct trace *trace = trace_begin("times");
	struct trace_event event = trace_allowed("/x");
	struct node *lines[16];
	size_t count;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		event.at = never[i];
		trace_must_add(trace, event);
	}
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	expect("times", VERIFY_COMPLETE);
	count = trace_lines("times", lines, ARRAY_SIZE(lines));
	assert_int_equal(count, 2 + ARRAY_SIZE(never));
	for (size_t i = 1; i < count; i++) {
		assert_true(trace_number(lines[i], "mono") >= trace_number(lines[i - 1], "mono"));
		assert_true(strcmp(trace_text(lines[i], "time"),
				   trace_text(lines[i - 1], "time")) >= 0);
	}
	trace_lines_free(lines, count);
}

static ino_t number_of(const char *path)
{
	struct stat st;
	char text[256];

	snprintf(text, sizeof(text), "%s/%s", trace_home, path);
	return stat(text, &st) < 0 ? 0 : st.st_ino;
}

/* What an old stream leaves is a new one's, and nothing of the old is in it. */
static void old_files_are_used_again(void **state)
{
	ino_t stream, head;

	(void)state;
	assert_int_equal(trace_close(trace_begin("old"), "exit", 0), 0);
	stream = number_of("sandboxes/old/events.ndjson");
	head = number_of("heads/old");
	assert_int_equal(trace_close(trace_begin("other"), "exit", 0), 0);
	assert_int_equal(trace_tidy(trace_home, 1), 0);
	assert_false(exists("old"));
	assert_true(number_of("spares/old/events.ndjson") == stream);
	assert_true(number_of("spares/old/head") == head);
	assert_int_equal(number_of("heads/old"), 0);
	assert_int_equal(trace_close(trace_begin("new"), "exit", 0), 0);
	assert_int_equal(number_of("spares/old"), 0);
	assert_int_equal(number_of("sandboxes/new/head"), 0);
	assert_true(number_of("sandboxes/new/events.ndjson") == stream);
	assert_true(number_of("heads/new") == head);
	expect("new", VERIFY_COMPLETE);
	expect("other", VERIFY_COMPLETE);
}

static void put_into(const char *path, const char *text)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", trace_home, path);
	file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Whatever became of them while they lay there. */
static void a_spare_is_not_trusted(void **state)
{
	char kept[256], path[256];

	(void)state;
	for (int i = 0; i < 5; i++) {
		char id[TRACE_ID_SIZE];

		snprintf(id, sizeof(id), "old%d", i);
		assert_int_equal(trace_close(trace_begin(id), "exit", 0), 0);
	}
	/* Somebody keeps a second name of the first: it is not put aside. */
	snprintf(path, sizeof(path), "%s/sandboxes/old0/events.ndjson", trace_home);
	snprintf(kept, sizeof(kept), "%s/kept", trace_home);
	assert_int_equal(link(path, kept), 0);
	assert_int_equal(trace_close(trace_begin("last"), "exit", 0), 0);
	assert_int_equal(trace_tidy(trace_home, 1), 0);
	assert_int_equal(number_of("spares/old0"), 0);
	assert_true(number_of("kept") != 0);
	put_into("spares/old1/events.ndjson", "{\"seq\":1}\n");
	put_into("spares/old1/head", "something");
	snprintf(path, sizeof(path), "%s/spares/old2/head", trace_home);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/spares/old3/events.ndjson", trace_home);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(kept, path), 0);
	snprintf(path, sizeof(path), "%s/spares/old4/head", trace_home);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (int i = 0; i < 5; i++) {
		char id[TRACE_ID_SIZE];

		snprintf(id, sizeof(id), "new%d", i);
		assert_int_equal(trace_close(trace_begin(id), "exit", 0), 0);
		expect(id, VERIFY_COMPLETE);
	}
	assert_int_equal(number_of("spares/old1"), 0);
	assert_int_equal(number_of("spares/old4"), 0);
	nothing_looks_changed();
}

/* Two that make and remove streams at the same time: what one has open the other leaves alone. */
static void writers_do_not_remove_each_other(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	for (int i = 0; i < 100; i++) {
		const struct trace_event event = trace_allowed("/x");
		struct trace_request request = trace_request_of(NULL);
		struct trace *trace = NULL;
		char id[TRACE_ID_SIZE];

		snprintf(id, sizeof(id), "%s%d", pid ? "one" : "two", i);
		request.sandbox = id;
		must(trace_open(&request, &trace, NULL));
		must(trace_tidy(trace_home, 1));
		must(trace_add(trace, &event));
		must(trace_flush(trace));
		must(exists(id) ? 0 : -1);
		must(trace_close(trace, "exit", 0));
	}
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	nothing_looks_changed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		trace_case(a_stream_from_start_to_end),
		trace_case(files_are_closed_to_others),
		trace_case(an_id_is_used_once),
		trace_case(like_refusals_are_folded),
		trace_case(a_flood_is_counted),
		trace_case(what_is_missing_is_told_where_it_is_missing),
		trace_case(bytes_are_bounded_and_refusals_still_fit),
		trace_case(what_waits_is_written_in_time),
		trace_case(a_full_disk_is_an_error),
		trace_case(a_full_disk_at_the_start_leaves_nothing),
		trace_case(a_head_that_cannot_be_written_is_an_error),
		trace_case(a_killed_writer_does_not_look_like_a_change),
		trace_case(a_killed_remover_does_not_look_like_a_change),
		trace_case(the_oldest_go_and_the_living_stay),
		trace_case(without_anybody_who_tidies_up_there_is_a_bound),
		trace_case(times_do_not_go_back),
		trace_case(old_files_are_used_again),
		trace_case(a_spare_is_not_trusted),
		trace_case(writers_do_not_remove_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
