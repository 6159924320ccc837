#include "trace_case.h"

#include <sys/mman.h>

#include "trace/reader.h"

#define STREAM "sandboxes/abc/events.ndjson"

static void write_stream(const char *id, bool is_closed)
{
	struct trace *trace = trace_begin(id);

	for (int i = 0; i < 4; i++) {
		char object[16];

		snprintf(object, sizeof(object), "/file%d", i);
		trace_must_add(trace, trace_allowed(object));
		if (i == 2)
			assert_int_equal(trace_flush(trace), 0);
	}
	if (!is_closed) {
		assert_int_equal(trace_flush(trace), 0);
		trace_free(trace);
		return;
	}
	assert_int_equal(trace_close(trace, "exit", 0), 0);
}

/* The beginnings of the lines of a stream, and its end; how many lines. */
static size_t split(const struct buf *text, size_t *starts, size_t room)
{
	size_t count = 0;

	starts[0] = 0;
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] == '\n') {
			assert_true(count + 1 < room);
			starts[++count] = i + 1;
		}
	return count;
}

static void is_broken_at(uint64_t line)
{
	struct verdict_of_stream v = trace_verify("abc");

	if (v.state != VERIFY_BROKEN || v.line != line || !v.text[0])
		fail_msg("%s at %d, not %d: %s", verify_state_names[v.state], (int)v.line,
			 (int)line, v.text);
}

static void every_byte_counts(void **state)
{
	struct buf text = BUF(MIB), head = BUF(MIB);

	(void)state;
	write_stream("abc", true);
	trace_load(STREAM, &text);
	trace_load("heads/abc", &head);
	for (size_t i = 0; i < text.len; i++) {
		text.data[i] ^= 1;
		trace_store(STREAM, text.data, text.len);
		assert_int_equal(trace_verify("abc").state, VERIFY_BROKEN);
		text.data[i] ^= 1;
	}
	trace_store(STREAM, text.data, text.len);
	for (size_t i = 0; i < 500; i += 7) {
		head.data[i] ^= 1;
		trace_store("heads/abc", head.data, head.len);
		assert_int_equal(trace_verify("abc").state, VERIFY_BROKEN);
		head.data[i] ^= 1;
	}
	trace_store("heads/abc", head.data, head.len);
	assert_int_equal(trace_verify("abc").state, VERIFY_COMPLETE);
	buf_done(&text);
	buf_done(&head);
}

static void every_cut_is_found(void **state)
{
	struct buf text = BUF(MIB);
	size_t starts[16], count;

	(void)state;
	write_stream("abc", true);
	trace_load(STREAM, &text);
	count = split(&text, starts, ARRAY_SIZE(starts));
	for (size_t len = 0; len < text.len; len++) {
		size_t whole = 0;

		while (starts[whole + 1] <= len)
			whole++;
		trace_store(STREAM, text.data, len);
		is_broken_at(whole + 1);
	}
	assert_int_equal(count, 6);
	buf_done(&text);
}

/* Lines in an order of their own: numbers from 1, as they were written; 0 ends it. */
static void arrange(const struct buf *text, const size_t *starts, const int *order)
{
	struct buf other = BUF(MIB);

	for (; *order; order++)
		buf_add(&other, text->data + starts[*order - 1],
			starts[*order] - starts[*order - 1]);
	trace_store(STREAM, buf_text(&other), other.len);
	buf_done(&other);
}

static void order_is_kept(void **state)
{
	static const struct {
		int order[9];
		uint64_t line;
	} rows[] = {
		{ { 1, 3, 2, 4, 5, 6 }, 2 },
		{ { 1, 2, 3, 5, 4, 6 }, 4 },
		{ { 1, 2, 2, 3, 4, 5, 6 }, 3 },
		{ { 1, 3, 4, 5, 6 }, 2 },
		{ { 2, 3, 4, 5, 6 }, 1 },
		{ { 1, 2, 3, 4, 5, 6, 6 }, 7 },
		{ { 1, 2, 3, 4, 5, 6, 1 }, 7 },
		{ { 6, 5, 4, 3, 2, 1 }, 1 },
		{ { 1, 6 }, 2 },
	};
	struct buf text = BUF(MIB);
	size_t starts[16];

	(void)state;
	write_stream("abc", true);
	trace_load(STREAM, &text);
	split(&text, starts, ARRAY_SIZE(starts));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		arrange(&text, starts, rows[i].order);
		is_broken_at(rows[i].line);
	}
	arrange(&text, starts, (const int[]){ 1, 2, 3, 4, 5, 6, 0 });
	assert_int_equal(trace_verify("abc").state, VERIFY_COMPLETE);
	buf_done(&text);
}

/* Somebody who can compute hashes but not write the head. */
static void a_forged_chain_ends_at_the_head(void **state)
{
	struct buf text = BUF(MIB), forged = BUF(MIB);
	struct trace *trace;

	(void)state;
	write_stream("abc", true);
	trace_load(STREAM, &text);
	{
		char real[64];

		snprintf(real, sizeof(real), "%s", trace_home);
		trace_setup(NULL);
		trace = trace_begin("abc");
		trace_must_add(trace, trace_allowed("/nothing/to/see"));
		assert_int_equal(trace_close(trace, "exit", 0), 0);
		trace_load(STREAM, &forged);
		trace_teardown(NULL);
		snprintf(trace_home, sizeof(trace_home), "%s", real);
	}
	trace_store(STREAM, forged.data, forged.len);
	assert_int_equal(trace_verify("abc").state, VERIFY_BROKEN);
	/* The head of another stream does not help. */
	write_stream("other", true);
	trace_load("heads/other", &forged);
	trace_store(STREAM, text.data, text.len);
	trace_store("heads/abc", forged.data, forged.len);
	is_broken_at(0);
	buf_done(&text);
	buf_done(&forged);
}

/* What a writer that was killed has left may not grow afterwards, nor change, nor lose a line that
 * was acknowledged. */
static void an_interrupted_stream_is_held_to_its_head(void **state)
{
	struct buf text = BUF(MIB), more = BUF(MIB);
	size_t starts[16], count;

	(void)state;
	write_stream("abc", false);
	assert_int_equal(trace_verify("abc").state, VERIFY_INTERRUPTED);
	trace_load(STREAM, &text);
	count = split(&text, starts, ARRAY_SIZE(starts));
	assert_int_equal(count, 5);
	for (size_t len = 0; len < text.len; len++) {
		trace_store(STREAM, text.data, len);
		/* The last batch was line 5 alone. */
		assert_int_equal(trace_verify("abc").state,
				 len < starts[4] ? VERIFY_BROKEN : VERIFY_INTERRUPTED);
	}
	for (size_t i = 0; i < text.len; i++) {
		text.data[i] ^= 1;
		trace_store(STREAM, text.data, text.len);
		assert_int_equal(trace_verify("abc").state, VERIFY_BROKEN);
		text.data[i] ^= 1;
	}
	buf_add(&more, text.data, text.len);
	buf_str(&more, "x");
	trace_store(STREAM, more.data, more.len);
	is_broken_at(6);
	buf_str(&more, "\n");
	trace_store(STREAM, more.data, more.len);
	is_broken_at(6);
	buf_done(&text);
	buf_done(&more);
}

static void a_file_or_head_that_is_gone(void **state)
{
	char path[256];

	(void)state;
	write_stream("abc", true);
	snprintf(path, sizeof(path), "%s/heads/abc", trace_home);
	assert_int_equal(unlink(path), 0);
	is_broken_at(0);
	trace_store("heads/abc", "", 0);
	is_broken_at(0);
	trace_store("heads/abc", "{}\n", 3);
	is_broken_at(0);
	write_stream("def", true);
	snprintf(path, sizeof(path), "%s/sandboxes/def/events.ndjson", trace_home);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(trace_verify("def").state, VERIFY_BROKEN);
}

static void something_else_in_its_place(void **state)
{
	char path[256], target[256];

	(void)state;
	write_stream("abc", true);
	snprintf(path, sizeof(path), "%s/" STREAM, trace_home);
	snprintf(target, sizeof(target), "%s/moved", trace_home);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	is_broken_at(1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	is_broken_at(1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	is_broken_at(1);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rename(target, path), 0);
	assert_int_equal(trace_verify("abc").state, VERIFY_COMPLETE);
	/* A FIFO for a head: nobody waits for it. */
	snprintf(path, sizeof(path), "%s/heads/abc", trace_home);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	is_broken_at(0);
}

static void huge_lines_are_passed_over(void **state)
{
	static char large[3 * TRACE_LINE_MAX];
	const struct {
		size_t len;
		int answer;
	} rows[] = { { TRACE_LINE_MAX - 1, 1 },
		     { TRACE_LINE_MAX, -EMSGSIZE },
		     { sizeof(large), -EMSGSIZE },
		     { 0, 1 } };
	struct reader reader;
	const char *line;
	size_t len;
	int fd = memfd_create("lines", MFD_CLOEXEC);

	(void)state;
	memset(large, 'x', sizeof(large));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(fd_write_all(fd, large, rows[i].len), 0);
		assert_int_equal(fd_write_all(fd, "\n", 1), 0);
	}
	assert_int_equal(fd_write_all(fd, "tail", 4), 0);
	assert_int_equal(reader_init(&reader, fd), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(reader_next(&reader, &line, &len), rows[i].answer);
		if (rows[i].answer > 0)
			assert_int_equal(len, rows[i].len);
	}
	assert_int_equal(reader_next(&reader, &line, &len), 0);
	assert_int_equal(reader_tail(&reader), 4);
	/* It has grown meanwhile. */
	assert_int_equal(fd_write_all(fd, "!\n", 2), 0);
	assert_int_equal(reader_next(&reader, &line, &len), 1);
	assert_int_equal(len, 5);
	assert_memory_equal(line, "tail!", 5);
	assert_int_equal(reader_tail(&reader), 0);
	reader_done(&reader);
	close(fd);
}

/* While it is written, what is there is checked and what is coming is not. */
static void a_living_stream_is_checked_so_far(void **state)
{
	struct trace *trace = trace_begin("abc");
	struct buf text = BUF(MIB);
	char path[256];
	int fd;

	(void)state;
	trace_must_add(trace, trace_allowed("/a"));
	assert_int_equal(trace_flush(trace), 0);
	trace_must_add(trace, trace_allowed("/b"));
	assert_int_equal(trace_flush(trace), 0);
	assert_int_equal(trace_verify("abc").state, VERIFY_RUNNING);
	assert_int_equal(trace_verify("abc").lines, 2);
	trace_load(STREAM, &text);
	snprintf(path, sizeof(path), "%s/" STREAM, trace_home);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 12), 1);
	is_broken_at(1);
	assert_int_equal(pwrite(fd, text.data, text.len, 0), (ssize_t)text.len);
	close(fd);
	assert_int_equal(trace_close(trace, "exit", 0), 0);
	assert_int_equal(trace_verify("abc").state, VERIFY_COMPLETE);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		trace_case(every_byte_counts),
		trace_case(every_cut_is_found),
		trace_case(order_is_kept),
		trace_case(a_forged_chain_ends_at_the_head),
		trace_case(an_interrupted_stream_is_held_to_its_head),
		trace_case(a_file_or_head_that_is_gone),
		trace_case(something_else_in_its_place),
		cmocka_unit_test(huge_lines_are_passed_over),
		trace_case(a_living_stream_is_checked_so_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
