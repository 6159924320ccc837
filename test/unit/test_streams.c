#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/streams.h"

/* A stream between two pipes: what a sandbox writes into in, and what comes out at out. */
struct relay {
	struct streams streams;
	int in, out;
};

static void relay_open(struct relay *relay, int which, uint64_t limit)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(fd_set_nonblock(in[0], true), 0);
	assert_int_equal(fd_set_nonblock(in[1], true), 0);
	assert_int_equal(fd_set_nonblock(out[0], true), 0);
	relay->streams = STREAMS_NONE;
	relay->streams.limit = limit;
	relay->streams.items[which].from = in[0];
	relay->streams.items[which].to = out[1];
	relay->in = in[1];
	relay->out = out[0];
}

/* Acts on what is ready now; false when nothing is. */
static bool turn(struct streams *streams)
{
	struct pollfd fds[STREAM_COUNT * 2];
	size_t count = streams_fds(streams, fds);

	assert_in_range(count, 0, STREAM_COUNT);
	if (count == 0 || poll(fds, count, 0) <= 0)
		return false;
	streams_poll(streams, fds, count);
	return true;
}

static void run(struct streams *streams)
{
	/* More turns than any test needs: a stream that spins is a failure, not a hang. */
	for (int i = 0; i < 100000; i++)
		if (!turn(streams))
			return;
	fail_msg("it never comes to rest");
}

static size_t read_some(int fd, char *data, size_t size)
{
	size_t len = 0;

	for (;;) {
		ssize_t n = read(fd, data + len, size - len);

		if (n <= 0)
			return len;
		len += (size_t)n;
	}
}

static void relay_all(bool is_moved)
{
	static char sent[50000], got[60000];
	struct relay relay;
	size_t len = 0, at = 0;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i % 253);
	relay_open(&relay, STREAM_OUT, UINT64_MAX);
	relay.streams.items[STREAM_OUT].is_moved = is_moved;
	while (at < sizeof(sent)) {
		ssize_t n = write(relay.in, sent + at, sizeof(sent) - at);

		at += n > 0 ? (size_t)n : 0;
		run(&relay.streams);
		len += read_some(relay.out, got + len, sizeof(got) - len);
	}
	assert_false(streams_drained(&relay.streams));
	close(relay.in);
	run(&relay.streams);
	len += read_some(relay.out, got + len, sizeof(got) - len);
	assert_true(streams_drained(&relay.streams));
	assert_int_equal(len, sizeof(sent));
	assert_memory_equal(got, sent, sizeof(sent));
	assert_int_equal(relay.streams.bytes, sizeof(sent));
	assert_false(relay.streams.truncated);
	assert_false(relay.streams.over_limit);
	close(relay.streams.items[STREAM_OUT].to);
	streams_done(&relay.streams);
	close(relay.out);
}

static void a_pipe_is_relayed(void **state)
{
	(void)state;
	relay_all(false);
}

static void a_pipe_is_moved(void **state)
{
	(void)state;
	relay_all(true);
}

/* Nothing waits but in the two pipes; and when there is room again, nothing is lost. */
static void a_move_waits_for_room(void **state)
{
	static char block[1 << 20];
	struct relay relay;
	struct stream *stream = &relay.streams.items[STREAM_OUT];
	size_t taken = 0, got = 0;
	ssize_t n;

	(void)state;
	relay_open(&relay, STREAM_OUT, UINT64_MAX);
	stream->is_moved = true;
	while ((n = write(relay.in, block, sizeof(block))) > 0) {
		taken += (size_t)n;
		run(&relay.streams);
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(taken >= 65536 && taken <= 2 * 65536 + 4096);
	assert_true(stream->lacks_room);
	assert_false(turn(&relay.streams));
	close(relay.in);
	while (!streams_drained(&relay.streams)) {
		got += read_some(relay.out, block, sizeof(block));
		run(&relay.streams);
	}
	got += read_some(relay.out, block, sizeof(block));
	assert_int_equal(got, taken);
	close(stream->to);
	streams_done(&relay.streams);
	close(relay.out);
}

/* Somebody else still holds the pipe: what it writes later is not waited for. */
static void only_what_is_there_counts(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	for (int is_moved = 0; is_moved < 2; is_moved++) {
		static char block[30000], got[70000];
		struct relay relay;

		relay_open(&relay, STREAM_ERR, UINT64_MAX);
		relay.streams.items[STREAM_ERR].is_moved = is_moved;
		assert_int_equal(write(relay.in, block, sizeof(block)), sizeof(block));
		turn(&relay.streams);
		streams_last(&relay.streams);
		assert_true(write(relay.in, block, 5000) == 5000 || errno == EPIPE);
		run(&relay.streams);
		assert_true(streams_drained(&relay.streams));
		assert_int_equal(read_some(relay.out, got, sizeof(got)), sizeof(block));
		close(relay.streams.items[STREAM_ERR].to);
		streams_done(&relay.streams);
		close(relay.in);
		close(relay.out);
	}
	signal(SIGPIPE, SIG_DFL);
}

static void nothing_there_is_over_at_once(void **state)
{
	struct relay relay;

	(void)state;
	relay_open(&relay, STREAM_OUT, UINT64_MAX);
	streams_last(&relay.streams);
	assert_true(streams_drained(&relay.streams));
	close(relay.streams.items[STREAM_OUT].to);
	streams_done(&relay.streams);
	close(relay.in);
	close(relay.out);
}

/* Whoever reads our output may stop: then nothing more is read, and nothing grows. */
static void a_reader_that_never_reads(void **state)
{
	static char block[1 << 20];
	struct pollfd fds[STREAM_COUNT * 2];
	struct relay relay;
	size_t taken = 0;

	(void)state;
	relay_open(&relay, STREAM_OUT, UINT64_MAX);
	for (;;) {
		ssize_t n = write(relay.in, block, sizeof(block));

		if (n < 0)
			break;
		taken += (size_t)n;
		run(&relay.streams);
	}
	assert_int_equal(errno, EAGAIN);
	/* Two pipes and what waits between them. */
	assert_true(taken <= 2 * 65536 + PENDING_MAX + 4096);
	assert_true(relay.streams.items[STREAM_OUT].pending_len > 0);
	assert_true(relay.streams.items[STREAM_OUT].pending_len <= PENDING_MAX);
	/* The only thing to wait for is room. */
	assert_int_equal(streams_fds(&relay.streams, fds), 1);
	assert_int_equal(fds[0].events, POLLOUT);
	assert_false(turn(&relay.streams));

	/* And when it reads again, nothing is lost. */
	close(relay.in);
	for (size_t got = 0; !streams_drained(&relay.streams) || got < taken;) {
		size_t n = read_some(relay.out, block, sizeof(block));

		got += n;
		run(&relay.streams);
		if (n == 0 && streams_drained(&relay.streams)) {
			got += read_some(relay.out, block, sizeof(block));
			assert_int_equal(got, taken);
			break;
		}
	}
	close(relay.streams.items[STREAM_OUT].to);
	streams_done(&relay.streams);
	close(relay.out);
}

static void a_reader_that_goes_away(void **state)
{
	struct relay relay;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	relay_open(&relay, STREAM_OUT, UINT64_MAX);
	close(relay.out);
	assert_int_equal(write(relay.in, "x", 1), 1);
	run(&relay.streams);
	assert_true(streams_drained(&relay.streams));
	/* The sandbox notices as any program in a pipeline does. */
	assert_int_equal(write(relay.in, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(relay.in);
	close(relay.streams.items[STREAM_OUT].to);
	streams_done(&relay.streams);
	signal(SIGPIPE, SIG_DFL);
}

static void over_the_limit(void **state)
{
	static const struct {
		uint64_t limit;
		size_t shown;
		bool over;
	} rows[] = {
		{ 0, 0, true },          { 1, 1, true },          { 9999, 9999, true },
		{ 10000, 10000, false }, { 10001, 10000, false },
	};
	static char block[10000], got[20000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct relay relay;

		relay_open(&relay, STREAM_OUT, rows[i].limit);
		assert_int_equal(write(relay.in, block, sizeof(block)), sizeof(block));
		close(relay.in);
		run(&relay.streams);
		assert_int_equal(read_some(relay.out, got, sizeof(got)), rows[i].shown);
		assert_int_equal(relay.streams.over_limit, rows[i].over);
		assert_int_equal(relay.streams.truncated, rows[i].over);
		assert_true(streams_drained(&relay.streams));
		close(relay.streams.items[STREAM_OUT].to);
		streams_done(&relay.streams);
		close(relay.out);
	}
}

static void capturing(void **state)
{
	static const struct {
		size_t max, len;
		bool truncated;
	} rows[] = {
		{ 100, 0, false },     { 100, 100, false }, { 100, 101, true },
		{ 5000, 20000, true }, { 0, 1, true },
	};
	static char block[20000];

	(void)state;
	memset(block, 'x', sizeof(block));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf kept = BUF(rows[i].max);
		struct relay relay;

		relay_open(&relay, STREAM_ERR, UINT64_MAX);
		close(relay.streams.items[STREAM_ERR].to);
		relay.streams.items[STREAM_ERR].to = -EBADF;
		relay.streams.items[STREAM_ERR].capture = &kept;
		if (rows[i].len > 0)
			assert_int_equal(write(relay.in, block, rows[i].len), rows[i].len);
		close(relay.in);
		run(&relay.streams);
		assert_true(streams_drained(&relay.streams));
		assert_int_equal(kept.len, rows[i].len < rows[i].max ? rows[i].len : rows[i].max);
		assert_int_equal(relay.streams.truncated, rows[i].truncated);
		assert_false(relay.streams.over_limit);
		assert_int_equal(relay.streams.bytes, rows[i].len);
		streams_done(&relay.streams);
		close(relay.out);
	}
}

/* Both together are what is limited. */
static void output_and_error_count_together(void **state)
{
	_cleanup_(buf_done) struct buf out = BUF(KIB), err = BUF(KIB);
	const struct streams_request request = {
		.capture = true, .limit = 10, .out = &out, .err = &err
	};
	struct terminal terminal = TERMINAL_NONE;
	struct streams streams;
	struct err why = ERR_NONE;

	(void)state;
	assert_int_equal(streams_open(&request, &terminal, &streams, &why), 0);
	assert_true(streams.stdio[1] > 2 && streams.stdio[2] > 2);
	assert_true(streams.owned[1] && streams.owned[2] && !streams.owned[0]);
	assert_int_equal(write(streams.stdio[1], "123456", 6), 6);
	assert_int_equal(write(streams.stdio[2], "abcdef", 6), 6);
	streams_started(&streams, &terminal);
	assert_int_equal(streams.stdio[1], -EBADF);
	run(&streams);
	assert_true(streams_drained(&streams));
	assert_string_equal(buf_text(&out), "123456");
	assert_string_equal(buf_text(&err), "abcd");
	assert_int_equal(streams.bytes, 12);
	assert_true(streams.over_limit);
	streams_done(&streams);
}

/* Puts what fd is about to be tested with in its place; gives back what was there. */
static int replace(int fd, int by)
{
	int before = fcntl(fd, F_DUPFD_CLOEXEC, 10);

	assert_true(before >= 0 && dup2(by, fd) == fd);
	return before;
}

/* Without a limit and without capture a file is the sandbox's own: nothing to do. */
static void passed_on_as_it_is(void **state)
{
	const struct streams_request request = { .limit = UINT64_MAX };
	struct terminal terminal = TERMINAL_NONE;
	struct streams streams;
	struct err why = ERR_NONE;
	struct pollfd fds[STREAM_COUNT * 2];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = replace(1, null),
	    err = replace(2, null);
	int r = streams_open(&request, &terminal, &streams, &why);

	(void)state;
	replace(1, out);
	replace(2, err);
	assert_int_equal(r, 0);
	for (int fd = 0; fd < 3; fd++) {
		assert_int_equal(streams.stdio[fd], fd);
		assert_false(streams.owned[fd]);
	}
	assert_int_equal(streams_fds(&streams, fds), 0);
	assert_true(streams_drained(&streams));
	streams_started(&streams, &terminal);
	streams_done(&streams);
	assert_true(fcntl(1, F_GETFD) >= 0);
}

/* A pipe of the caller's could be opened at its other end: output goes through one of ours. */
static void the_callers_pipe_is_relayed(void **state)
{
	const struct streams_request request = { .limit = UINT64_MAX };
	struct terminal terminal = TERMINAL_NONE;
	struct streams streams;
	struct err why = ERR_NONE;
	int ends[2], out, r;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	out = replace(1, ends[1]);
	r = streams_open(&request, &terminal, &streams, &why);
	replace(1, out);
	assert_int_equal(r, 0);
	assert_true(streams.owned[1] && streams.stdio[1] > 2);
	assert_true(streams.items[STREAM_OUT].from >= 0);
	streams_done(&streams);
	close(ends[0]);
	close(ends[1]);
}

static void open_terminal(struct terminal *t)
{
	struct err why = ERR_NONE;

	assert_int_equal(terminal_make(false, t, &why), 0);
	assert_true(t->master >= 0 && t->slave >= 0);
}

/* One pipe for both: what is written to it keeps its order. */
static void one_pipe_for_two_names(void **state)
{
	const struct streams_request request = { .limit = UINT64_MAX, .has_no_input = true };
	struct terminal terminal = TERMINAL_NONE;
	struct streams streams;
	struct err why = ERR_NONE;
	int ends[2], out, err, r;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	out = replace(1, ends[1]);
	err = replace(2, ends[1]);
	r = streams_open(&request, &terminal, &streams, &why);
	replace(1, out);
	replace(2, err);
	assert_int_equal(r, 0);
	assert_int_equal(streams.stdio[0], -EBADF);
	assert_int_equal(streams.stdio[1], streams.stdio[2]);
	assert_true(streams.items[STREAM_OUT].is_moved);
	assert_int_equal(streams.items[STREAM_ERR].from, -EBADF);
	streams_done(&streams);
	close(ends[0]);
	close(ends[1]);
}

/* Without a terminal of its own the sandbox gets pipes, never ours. */
static void a_terminal_is_relayed_by_pipes(void **state)
{
	const struct streams_request request = { .limit = UINT64_MAX, .has_no_terminal = true };
	struct terminal ours, none = TERMINAL_NONE;
	struct streams streams;
	struct err why = ERR_NONE;
	int before[3], r;
	char text[20] = "";

	(void)state;
	open_terminal(&ours);
	for (int fd = 0; fd < 3; fd++)
		before[fd] = replace(fd, ours.slave);
	r = streams_open(&request, &none, &streams, &why);
	assert_int_equal(r, 0);
	for (int fd = 0; fd < 3; fd++)
		assert_true(streams.owned[fd] == (fd != 2) && !isatty(streams.stdio[fd]));
	assert_true(streams.items[STREAM_OUT].is_inert && !streams.items[STREAM_OUT].is_moved);
	/* What is typed goes in, and its end is the end there. */
	assert_int_equal(write(ours.master, "line\n\004", 6), 6);
	streams.keys_are_ours = true;
	run(&streams);
	assert_int_equal(read(streams.stdio[0], text, sizeof(text)), 5);
	assert_string_equal(text, "line\n");
	assert_int_equal(read(streams.stdio[0], text, sizeof(text)), 0);
	streams_done(&streams);
	for (int fd = 0; fd < 3; fd++)
		replace(fd, before[fd]);
	terminal_done(&ours);
}

/* A sandbox may send anything in the place of a master. */
static void only_a_master_is_a_master(void **state)
{
	struct terminal t;
	int ends[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	open_terminal(&t);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(terminal_is_master(t.master));
	assert_false(terminal_is_master(t.slave));
	assert_false(terminal_is_master(ends[0]));
	assert_false(terminal_is_master(null));
	assert_false(terminal_is_master(-EBADF));
	terminal_done(&t);
	close(ends[0]);
	close(ends[1]);
	close(null);
}

/* What goes to a terminal is made harmless, and what was left open is closed at the end. */
static void a_terminal_gets_harmless_output(void **state)
{
	struct stream *stream;
	struct relay relay;
	char got[200];
	size_t len;

	(void)state;
	relay_open(&relay, STREAM_TERMINAL, UINT64_MAX);
	stream = &relay.streams.items[STREAM_TERMINAL];
	stream->is_inert = true;
	assert_int_equal(write(relay.in, "a\033[31mb\033]52;c;eA==\007c", 20), 20);
	close(relay.in);
	run(&relay.streams);
	streams_done(&relay.streams);
	len = read_some(relay.out, got, sizeof(got) - 1);
	got[len] = '\0';
	assert_non_null(strstr(got, "a\033[31mb"));
	assert_null(strstr(got, "]52"));
	/* The colour does not stay. */
	assert_non_null(strstr(got, "c\033["));
	close(stream->to);
	close(relay.out);
}

static void keys_are_shown_to_the_caller(void **state)
{
	const char *keys = NULL;
	struct relay relay;
	char got[10];

	(void)state;
	relay_open(&relay, STREAM_KEYS, 1);
	assert_int_equal(write(relay.in, "\003x", 2), 2);
	/* In the background they belong to someone else. */
	assert_false(turn(&relay.streams));
	relay.streams.keys_are_ours = true;
	assert_true(turn(&relay.streams));
	assert_int_equal(streams_typed(&relay.streams, &keys), 2);
	assert_memory_equal(keys, "\003x", 2);
	run(&relay.streams);
	assert_int_equal(streams_typed(&relay.streams, &keys), 0);
	assert_int_equal(read_some(relay.out, got, sizeof(got)), 2);
	/* Keys are no output. */
	assert_int_equal(relay.streams.bytes, 0);
	assert_false(relay.streams.over_limit);
	/* And nobody waits for them. */
	assert_true(streams_drained(&relay.streams));
	close(relay.streams.items[STREAM_KEYS].from);
	close(relay.streams.items[STREAM_KEYS].to);
	streams_done(&relay.streams);
	close(relay.in);
	close(relay.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pipe_is_relayed),
		cmocka_unit_test(a_pipe_is_moved),
		cmocka_unit_test(a_move_waits_for_room),
		cmocka_unit_test(only_what_is_there_counts),
		cmocka_unit_test(nothing_there_is_over_at_once),
		cmocka_unit_test(one_pipe_for_two_names),
		cmocka_unit_test(a_terminal_is_relayed_by_pipes),
		cmocka_unit_test(only_a_master_is_a_master),
		cmocka_unit_test(a_reader_that_never_reads),
		cmocka_unit_test(a_reader_that_goes_away),
		cmocka_unit_test(over_the_limit),
		cmocka_unit_test(capturing),
		cmocka_unit_test(output_and_error_count_together),
		cmocka_unit_test(passed_on_as_it_is),
		cmocka_unit_test(the_callers_pipe_is_relayed),
		cmocka_unit_test(a_terminal_gets_harmless_output),
		cmocka_unit_test(keys_are_shown_to_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
