#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/channel.h"

static char much[MESSAGE_MAX];

/* The client's end and the warden's. */
static void open_pair(struct channel *client, struct channel *warden, bool passes)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	channel_init(client, pair[0], FROM_WARDEN, passes);
	channel_init(warden, pair[1], FROM_CLIENT, passes);
}

/* The warden's end, and a plain socket in the place of a client. */
static int open_raw(struct channel *warden, bool passes)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	channel_init(warden, pair[1], FROM_CLIENT, passes);
	return pair[0];
}

static int null(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static size_t count_descriptors(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int send_input(struct channel *ch, uint32_t call, size_t len)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_INPUT, call);

	draft_number(&d, FIELD_PROCESS, 1);
	draft_bytes(&d, FIELD_DATA, much, len);
	return channel_send(ch, &d, NULL, 0);
}

static int send_start(struct channel *ch, uint32_t call, size_t descriptors)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_START, call);
	int fds[MESSAGE_DESCRIPTORS + 1] = { 0 };
	int r;

	draft_text(&d, FIELD_ARGUMENT, "true");
	for (size_t i = 0; i < descriptors; i++)
		fds[i] = null();
	r = channel_send(ch, &d, fds, descriptors);
	for (size_t i = 0; i < descriptors; i++)
		assert_int_equal(fds[i], -EBADF);
	return r;
}

static void there_and_back(void **state)
{
	size_t before = count_descriptors();
	struct channel client, warden;
	struct message m;

	(void)state;
	open_pair(&client, &warden, true);
	assert_int_equal(channel_receive(&warden, &m), 0);
	assert_int_equal(send_start(&client, 7, 3), 0);
	assert_int_equal(send_input(&client, 0xfffffffe, 10), 0);
	assert_int_equal(channel_waiting(&client), 0);
	assert_int_equal(channel_events(&client), POLLIN);

	assert_int_equal(channel_receive(&warden, &m), 1);
	assert_int_equal(m.type, MESSAGE_START);
	assert_int_equal(m.call, 7);
	assert_int_equal(m.descriptor_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fcntl(m.descriptors[i], F_GETFD), FD_CLOEXEC);
	assert_string_equal(message_text(&m, FIELD_ARGUMENT, ""), "true");
	message_done(&m);
	assert_int_equal(channel_receive(&warden, &m), 1);
	assert_int_equal(m.type, MESSAGE_INPUT);
	assert_true(m.call == 0xfffffffe);
	message_done(&m);
	assert_int_equal(channel_receive(&warden, &m), 0);

	channel_answer_error(&warden, 7, -ENOENT, "no %s", "such thing");
	channel_answer_done(&warden, 8);
	assert_int_equal(channel_receive(&client, &m), 1);
	assert_int_equal(m.type, MESSAGE_ERROR);
	assert_true(message_number(&m, FIELD_CODE, 0) == ENOENT);
	assert_string_equal(message_text(&m, FIELD_TEXT, ""), "no such thing");
	assert_int_equal(channel_receive(&client, &m), 1);
	assert_int_equal(m.type, MESSAGE_DONE);
	assert_int_equal(m.call, 8);
	channel_done(&client);
	assert_int_equal(channel_receive(&warden, &m), -EPIPE);
	assert_int_equal(channel_receive(&warden, &m), -EPIPE);
	assert_int_equal(channel_events(&warden), 0);
	channel_done(&warden);
	channel_done(&warden);
	assert_int_equal(count_descriptors(), before);
}

static void in_pieces(void **state)
{
	static const unsigned char frame[] = "\x0e\0\0\0\x1b\0\x01\0\x09\0\0\0" /* DIAL, call 9 */
					     "\x1b\0\x08\0\0\0\x50\0\0\0\0\0\0\0";
	struct channel warden;
	struct message m;
	int raw = open_raw(&warden, true);

	(void)state;
	_Static_assert(FIELD_PORT == 0x1b, "as it is written above");
	for (size_t i = 0; i < sizeof(frame) - 1; i++) {
		unsigned char byte = i == 4 ? MESSAGE_DIAL : frame[i];

		assert_int_equal(channel_receive(&warden, &m), 0);
		assert_int_equal(write(raw, &byte, 1), 1);
	}
	assert_int_equal(channel_receive(&warden, &m), 1);
	assert_int_equal(m.type, MESSAGE_DIAL);
	assert_int_equal(m.call, 9);
	assert_true(message_number(&m, FIELD_PORT, 0) == 80);
	assert_int_equal(channel_receive(&warden, &m), 0);
	assert_null(warden.in.data);
	/* Half of another one, and then the end. */
	assert_int_equal(write(raw, frame, 5), 5);
	close(raw);
	assert_int_equal(channel_receive(&warden, &m), -EPIPE);
	channel_done(&warden);
}

/* Descriptors stay with their messages, however the socket cuts them. */
static void queued_with_descriptors(void **state)
{
	size_t before = count_descriptors(), started = 0, sent = 0, got = 0;
	struct channel client, warden;

	(void)state;
	open_pair(&client, &warden, true);
	while (client.parked_count < 20) {
		size_t descriptors = sent % 3 == 0 ? 0 : sent % 3 == 1 ? 3 : 1;

		if (sent % 7 == 0)
			assert_int_equal(send_input(&client, (uint32_t)sent, 30000), 0);
		else
			assert_int_equal(send_start(&client, (uint32_t)sent, descriptors), 0);
		sent++;
	}
	assert_int_equal(channel_events(&client), POLLIN | POLLOUT);
	while (got < sent) {
		struct message m;

		assert_int_equal(channel_flush(&client), 0);
		if (channel_receive(&warden, &m) == 0)
			continue;
		assert_int_equal(m.call, got);
		if (got % 7 == 0) {
			assert_int_equal(m.type, MESSAGE_INPUT);
			assert_int_equal(m.descriptor_count, 0);
		} else {
			assert_int_equal(m.type, MESSAGE_START);
			assert_int_equal(m.descriptor_count, got % 3 == 0   ? 0
							     : got % 3 == 1 ? 3
									    : 1);
			started++;
		}
		message_done(&m);
		got++;
	}
	assert_true(started > 0);
	assert_int_equal(client.parked_count, 0);
	assert_int_equal(warden.arrived_count, 0);
	channel_done(&client);
	channel_done(&warden);
	assert_int_equal(count_descriptors(), before);
}

static void bounds_of_the_queue(void **state)
{
	size_t before = count_descriptors();
	struct channel client, warden;
	size_t waiting, sent = 0, got = 0;
	struct message m;
	int r;

	(void)state;
	open_pair(&client, &warden, true);
	while ((r = send_input(&client, (uint32_t)sent, 100000)) == 0)
		sent++;
	assert_int_equal(r, -ENOBUFS);
	waiting = channel_waiting(&client);
	assert_true(waiting > CHANNEL_QUEUE_MAX - MESSAGE_HEADER - 110000 &&
		    waiting <= CHANNEL_QUEUE_MAX);
	/* A message with descriptors neither; they are closed. */
	while ((r = send_start(&client, 0, 3)) == 0)
		sent++;
	assert_int_equal(r, -ENOBUFS);
	/* It goes on where there is room again, and nothing of what was refused arrives. */
	while (got < sent) {
		assert_int_equal(channel_flush(&client), 0);
		r = channel_receive(&warden, &m);
		assert_true(r >= 0);
		if (r > 0) {
			if (m.type == MESSAGE_INPUT)
				assert_int_equal(m.call, got);
			message_done(&m);
			got++;
		}
		if (got == sent / 2 && r > 0)
			assert_int_equal(send_input(&client, (uint32_t)sent++, 5), 0);
	}
	assert_int_equal(channel_receive(&warden, &m), 0);
	assert_int_equal(channel_waiting(&client), 0);
	assert_null(client.out.data);
	channel_done(&client);
	channel_done(&warden);
	assert_int_equal(count_descriptors(), before);
}

static void bound_of_the_parked(void **state)
{
	size_t before = count_descriptors(), sent = 0;
	struct channel client, warden;
	int r;

	(void)state;
	open_pair(&client, &warden, true);
	while (channel_waiting(&client) == 0)
		assert_int_equal(send_input(&client, 0, 30000), 0);
	while ((r = send_start(&client, 0, 1)) == 0)
		sent++;
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(sent, CHANNEL_PARKED_MAX);
	assert_int_equal(send_start(&client, 0, 0), 0);
	/* What was never sent is closed. */
	channel_done(&client);
	channel_done(&warden);
	assert_int_equal(count_descriptors(), before);
}

static void what_cannot_be_sent(void **state)
{
	size_t before = count_descriptors();
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DATA, 7);
	struct channel client, warden;
	struct message m;

	(void)state;
	open_pair(&client, &warden, false);
	assert_int_equal(send_start(&client, 0, 1), -EOPNOTSUPP);
	draft_bytes(&d, FIELD_DATA, much, sizeof(much));
	assert_int_equal(channel_send(&client, &d, NULL, 0), -EMSGSIZE);
	/* The largest that there is. */
	assert_int_equal(send_input(&client, 1, MESSAGE_MAX - 6 - 14), 0);
	while (channel_receive(&warden, &m) == 0)
		assert_int_equal(channel_flush(&client), 0);
	assert_int_equal(m.len, MESSAGE_MAX);
	channel_done(&client);
	channel_done(&warden);

	open_pair(&client, &warden, true);
	assert_int_equal(send_start(&client, 0, MESSAGE_DESCRIPTORS + 1), -EOPNOTSUPP);
	assert_int_equal(channel_waiting(&client), 0);
	channel_done(&client);
	channel_done(&warden);
	assert_int_equal(count_descriptors(), before);
}

/* What a peer said before it went counts, also when we notice by sending. */
static void last_words(void **state)
{
	struct channel client, warden;
	struct message m;

	(void)state;
	open_pair(&client, &warden, true);
	channel_answer_done(&warden, 1);
	channel_answer_done(&warden, 2);
	channel_done(&warden);
	assert_int_equal(send_input(&client, 3, 10), -EPIPE);
	assert_int_equal(send_start(&client, 3, 3), -EPIPE);
	assert_int_equal(channel_flush(&client), -EPIPE);
	assert_int_equal(channel_waiting(&client), 0);
	assert_int_equal(channel_events(&client), POLLIN);
	assert_int_equal(channel_receive(&client, &m), 1);
	assert_int_equal(m.call, 1);
	assert_int_equal(channel_receive(&client, &m), 1);
	assert_int_equal(m.call, 2);
	assert_int_equal(channel_receive(&client, &m), -EPIPE);
	channel_done(&client);
}

static void pass(int socket, const void *bytes, size_t len, size_t count)
{
	int fds[FD_PASS_MAX] = { 0 };

	for (size_t i = 0; i < count; i++)
		fds[i] = null();
	assert_int_equal(fd_send(socket, bytes, len, fds, count), 0);
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

/* Sends these bytes, with so many descriptors: the channel ends, and says why. */
static void expect_breach(const char *why, bool passes, const void *bytes, size_t len, size_t count)
{
	size_t before = count_descriptors();
	struct channel warden;
	struct message m;
	int raw = open_raw(&warden, passes), r;

	pass(raw, bytes, len, count);
	while ((r = channel_receive(&warden, &m)) > 0)
		message_done(&m);
	assert_int_equal(r, -EPROTO);
	assert_string_equal(warden.why, why);
	/* For good. */
	pass(raw, "\0\0\0\0\0\0\x01\0\0\0\0\0", 12, 0);
	assert_int_equal(channel_receive(&warden, &m), -EPROTO);
	assert_int_equal(send_input(&warden, 1, 1), -EPROTO);
	assert_int_equal(channel_flush(&warden), -EPROTO);
	assert_int_equal(channel_events(&warden), 0);
	channel_done(&warden);
	close(raw);
	assert_int_equal(count_descriptors(), before);
}

#define BREACH(why, passes, count, bytes) \
	expect_breach(why, passes, bytes, sizeof(bytes) - 1, count)

static void breaches(void **state)
{
	char pause[] = "\0\0\0\0\0\0\x01\0\x01\0\0\0", start[] = "\x08\0\0\0\0\0\x01\x03\x01\0\0\0"
								 "\x01\0\x02\0\0\0x";

	(void)state;
	pause[4] = MESSAGE_PAUSE;
	start[4] = MESSAGE_START;
	BREACH("another version of the protocol", true, 0, "\0\0\0\0\x01\0\x02\0\0\0\0\0");
	BREACH("another version of the protocol", true, 0, "GET / HTTP/1.1\r\n\r\n");
	BREACH("a message that is too long", true, 0, "\x01\0\x04\0\x01\0\x01\0\0\0\0\0");
	BREACH("a message that is too long", true, 0, "\xff\xff\xff\xff\x01\0\x01\0\0\0\0\0");
	BREACH("a message that is not for it to send", true, 0, "\0\0\0\0\0\0\x01\0\0\0\0\0");
	BREACH("a message that is not for it to send", true, 0, "\0\0\0\0\xff\xff\x01\0\0\0\0\0");
	BREACH("a message without its descriptors", true, 0, "\0\0\0\0\x01\0\x01\xff\0\0\0\0");
	expect_breach("a message without its descriptors", true, start, 20, 2);
	/* Claimed, and more than there may be. */
	start[7] = 5;
	expect_breach("descriptors where none belong, or too few", true, start, 20, 5);
	start[7] = 0;
	expect_breach("descriptors that belong to no message", true, start, 20, 3);
	expect_breach("descriptors that belong to no message", true, pause, 12, 1);
	expect_breach("more descriptors than there are messages for", false, pause, 12, 1);
	pause[7] = 1;
	expect_breach("descriptors where none belong, or too few", true, pause, 12, 1);
	expect_breach("a message without its descriptors", false, pause, 12, 0);
	BREACH("a field that is cut off", true, 0, "\x01\0\0\0\x01\0\x01\0\0\0\0\0x");
	BREACH("a field is missing", true, 0, "\0\0\0\0\x01\0\x01\0\0\0\0\0");
}

/* A message takes what came first; surplus is seen once nothing else is there. */
static void more_descriptors_than_fit(void **state)
{
	size_t before = count_descriptors();
	struct channel warden;
	struct message m;
	int raw = open_raw(&warden, true);

	(void)state;
	for (int i = 0; i < 3; i++)
		pass(raw, "\x08", 1, 4);
	assert_int_equal(channel_receive(&warden, &m), -EPROTO);
	assert_string_equal(warden.why, "more descriptors than there are messages for");
	channel_done(&warden);
	close(raw);
	assert_int_equal(count_descriptors(), before);
}

/* A flood does not hold the receiver: so many reads, and then others have their turn. */
static void a_flood(void **state)
{
	struct channel client, warden;
	size_t sent = 0, got = 0;
	struct message m;
	int r;

	(void)state;
	open_pair(&client, &warden, false);
	while (send_input(&client, (uint32_t)sent, 1) == 0)
		sent++;
	while (got < sent) {
		r = channel_receive(&warden, &m);
		assert_true(r >= 0);
		got += (size_t)r;
		assert_true(warden.in.len <= MESSAGE_HEADER + MESSAGE_MAX + 16 * KIB);
		if (r == 0)
			assert_int_equal(channel_flush(&client), 0);
	}
	channel_done(&client);
	channel_done(&warden);
}

/* Not a socket at all: a terminal without any of its modes stands for the port of a machine. */
static void over_a_device(void **state)
{
	struct channel client, warden;
	struct termios modes;
	size_t got = 0;
	struct message m;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

	(void)state;
	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	assert_int_equal(tcgetattr(slave, &modes), 0);
	cfmakeraw(&modes);
	assert_int_equal(tcsetattr(slave, TCSANOW, &modes), 0);
	channel_init(&client, master, FROM_WARDEN, false);
	channel_init(&warden, slave, FROM_CLIENT, false);
	for (int i = 0; i < 10; i++)
		assert_int_equal(send_input(&client, (uint32_t)i, 5000), 0);
	while (got < 10) {
		assert_int_equal(channel_flush(&client), 0);
		if (channel_receive(&warden, &m) > 0) {
			assert_int_equal(m.call, got);
			got++;
		}
	}
	channel_answer_done(&warden, 1);
	while (channel_receive(&client, &m) == 0)
		;
	assert_int_equal(m.type, MESSAGE_DONE);
	assert_int_equal(send_start(&client, 1, 1), -EOPNOTSUPP);
	channel_done(&client);
	channel_done(&warden);
}

/*
 * One user may have so many descriptors on the way, in all of his sockets. Who has none of these rights
 * gets the message back, and the channel goes on.
 */
static void too_many_on_the_way(void **state)
{
	const struct rlimit few = { 64, 64 };
	struct channel client, warden;
	struct message m;
	int pair[2], fds[1], status = 0, r = 0;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		if (getuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(2);
		if (setrlimit(RLIMIT_NOFILE, &few) < 0 ||
		    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) < 0)
			_exit(3);
		open_pair(&client, &warden, true);
		fds[0] = null();
		for (int i = 0; i < 200 && r == 0; i++) {
			/* Nobody else may read the one that they wait in. */
			r = fd_send(pair[0], "", 1, fds, 1);
			if (r == -EAGAIN &&
			    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) == 0)
				r = 0;
		}
		if (r != -ETOOMANYREFS)
			_exit(4);
		if (send_start(&client, 1, 1) != -ETOOMANYREFS || channel_waiting(&client) != 0 ||
		    client.parked_count != 0 || client.failure != 0)
			_exit(5);
		if (send_start(&client, 2, 0) != 0 || channel_receive(&warden, &m) != 1 ||
		    m.call != 2)
			_exit(6);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What is in memory is told of by nobody else. */
static void in_memory(void **state)
{
	struct channel client, warden;
	struct message m;

	(void)state;
	open_pair(&client, &warden, true);
	assert_false(channel_has_message(&warden));
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(send_input(&client, i, 10), 0);
	assert_false(channel_has_message(&warden));
	for (uint32_t i = 1; i <= 3; i++) {
		assert_int_equal(channel_receive(&warden, &m), 1);
		assert_int_equal(m.call, i);
		message_done(&m);
		assert_int_equal(channel_has_message(&warden), i < 3);
	}
	/* The beginning of one is none. */
	assert_int_equal(send(client.fd, "\1\0\0\0", 4, 0), 4);
	assert_int_equal(channel_receive(&warden, &m), 0);
	assert_false(channel_has_message(&warden));
	channel_done(&client);
	channel_done(&warden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(queued_with_descriptors),
		cmocka_unit_test(bounds_of_the_queue),
		cmocka_unit_test(bound_of_the_parked),
		cmocka_unit_test(what_cannot_be_sent),
		cmocka_unit_test(last_words),
		cmocka_unit_test(breaches),
		cmocka_unit_test(more_descriptors_than_fit),
		cmocka_unit_test(a_flood),
		cmocka_unit_test(over_a_device),
		cmocka_unit_test(too_many_on_the_way),
		cmocka_unit_test(in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
