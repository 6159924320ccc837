/*
 * The wardens here are played by the test, in the same loop: sockets in a state directory of their own,
 * which answer what a script says. test/serve has the real ones.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "serve/fleet.h"

#define ID          "abcdefghjkmn"
#define PATIENCE_MS 60000

static char home[64];
static struct loop *loop;
static struct fleet *fleet;
static char ended[64];
static unsigned int ended_count;

/* --- a warden --- */

#define GUESTS_MAX 16

static struct warden {
	int listener;
	loop_id watch;
	struct guest {
		struct channel channel;
		loop_id watch;
	} guests[GUESTS_MAX];
	size_t guest_count;
	bool is_mute;
	unsigned int cancelled, asked;
} warden;

static void answer(struct guest *guest, struct message *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DONE, m->call);
	int pair[2];

	warden.asked++;
	switch (m->type) {
	case MESSAGE_CANCEL:
		warden.cancelled++;
		return;
	case MESSAGE_PROCESSES:
		for (int i = 0; i < 100; i++) {
			_cleanup_(draft_done) struct draft is = DRAFT(MESSAGE_PROCESS_IS, m->call);

			draft_number(&is, FIELD_PROCESS, (uint64_t)i + 1);
			draft_number(&is, FIELD_PID, 7);
			draft_number(&is, FIELD_FLAGS, 0);
			draft_number(&is, FIELD_TIME, 0);
			assert_int_equal(channel_send(&guest->channel, &is, NULL, 0), 0);
		}
		break;
	case MESSAGE_DIAL:
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		assert_int_equal(write(pair[1], "hello", 5), 5);
		close(pair[1]);
		d.type = MESSAGE_CONNECTED;
		assert_int_equal(channel_send(&guest->channel, &d, pair, 1), 0);
		return;
	case MESSAGE_STAT:
		/* What does not answer the call. */
		d.type = MESSAGE_CONNECTED;
		break;
	default:
		break;
	}
	assert_int_equal(channel_send(&guest->channel, &d, NULL, 0), 0);
}

static void guest_ready(void *of, uint32_t events)
{
	struct guest *guest = of;
	struct message m;
	int r;

	(void)events;
	(void)!channel_flush(&guest->channel);
	while ((r = channel_receive(&guest->channel, &m)) > 0) {
		if (!warden.is_mute)
			answer(guest, &m);
		else
			warden.cancelled += m.type == MESSAGE_CANCEL;
		message_done(&m);
	}
	if (r < 0) {
		guest->watch = loop_forget(loop, guest->watch);
		channel_done(&guest->channel);
		return;
	}
	assert_int_equal(loop_change(loop, guest->watch, (uint32_t)channel_events(&guest->channel)),
			 0);
}

static void warden_ready(void *of, uint32_t events)
{
	int fd = accept4(warden.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct guest *guest = &warden.guests[warden.guest_count++];

	(void)of;
	(void)events;
	assert_true(fd >= 0 && warden.guest_count <= GUESTS_MAX);
	channel_init(&guest->channel, fd, FROM_CLIENT, true);
	assert_int_equal(loop_watch(loop, fd, EPOLLIN, guest_ready, guest, &guest->watch), 0);
}

static void warden_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	warden = (struct warden){ .listener = socket(
					  AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/brig/live/" ID ".socket", home);
	unlink(address.sun_path);
	assert_int_equal(bind(warden.listener, (const struct sockaddr *)&address, sizeof(address)),
			 0);
	assert_int_equal(listen(warden.listener, 16), 0);
	assert_int_equal(
		loop_watch(loop, warden.listener, EPOLLIN, warden_ready, NULL, &warden.watch), 0);
}

static void warden_hang_up(void)
{
	for (size_t i = 0; i < warden.guest_count; i++) {
		warden.guests[i].watch = loop_forget(loop, warden.guests[i].watch);
		channel_done(&warden.guests[i].channel);
	}
	warden.guest_count = 0;
}

static void warden_close(void)
{
	warden.watch = loop_forget(loop, warden.watch);
	warden.listener = fd_close(warden.listener);
	warden_hang_up();
}

/* --- the loop --- */

static void on_ended(void *of, const char *id)
{
	(void)of;
	snprintf(ended, sizeof(ended), "%s", id);
	ended_count++;
}

static void turn_until(const bool *is_over)
{
	uint64_t end = clock_ms() + PATIENCE_MS;

	while (!*is_over && clock_ms() < end)
		assert_true(loop_turn(loop, 50) >= 0);
	assert_true(*is_over);
}

/* As long as it is so, and then no longer than it takes. */
#define TURN_WHILE(condition)                                                                 \
	for (uint64_t end_ms = clock_ms() + PATIENCE_MS; (condition) && clock_ms() < end_ms;) \
	assert_true(loop_turn(loop, 5) >= 0)

static void turn_for(uint64_t ms)
{
	uint64_t end = clock_ms() + ms;

	while (clock_ms() < end)
		assert_true(loop_turn(loop, 5) >= 0);
}

static int set_up(void **state)
{
	const struct fleet_setup setup = { .ended = on_ended, .brig = "/bin/sh" };
	char path[128];

	(void)state;
	snprintf(home, sizeof(home), "/tmp/brig-fleet-XXXXXX");
	assert_non_null(mkdtemp(home));
	snprintf(path, sizeof(path), "%s/brig", home);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/brig/live", home);
	assert_int_equal(mkdir(path, 0700), 0);
	setenv("XDG_STATE_HOME", home, 1);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(fleet_new(loop, &setup, &fleet, NULL), 0);
	ended_count = 0;
	warden_open();
	return 0;
}

static int tear_down(void **state)
{
	char path[128];

	(void)state;
	warden_close();
	fleet_free(fleet);
	loop_free(loop);
	snprintf(path, sizeof(path), "%s/brig/live/" ID ".socket", home);
	unlink(path);
	snprintf(path, sizeof(path), "%s/brig/live", home);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/brig", home);
	rmdir(path);
	rmdir(home);
	return 0;
}

/* --- calls --- */

struct seen {
	bool is_over;
	unsigned int messages;
	enum message_type last;
	uint64_t code;
	int descriptor;
	call_id call;
};

static void on_message(void *of, struct message *m, bool is_last)
{
	struct seen *seen = of;

	assert_false(seen->is_over);
	seen->messages++;
	seen->last = m->type;
	seen->is_over = is_last;
	seen->code = message_number(m, FIELD_CODE, 0);
	if (m->descriptor_count > 0)
		seen->descriptor = message_take_descriptor(m, 0);
}

static int start(enum message_type type, struct seen *seen)
{
	struct draft d = DRAFT(type, 0);

	if (type == MESSAGE_STAT)
		draft_text(&d, FIELD_PATH, "/");
	if (type == MESSAGE_DIAL)
		draft_number(&d, FIELD_PORT, 80);
	return call_start(fleet, ID, &d, NULL, 0, on_message, seen, &seen->call, NULL);
}

static void test_many_calls_share_a_line(void **state)
{
	struct seen seen[50] = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		assert_int_equal(start(i % 2 ? MESSAGE_PROCESSES : MESSAGE_PAUSE, &seen[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		turn_until(&seen[i].is_over);
		assert_int_equal(seen[i].messages, i % 2 ? 101 : 1);
		assert_int_equal(seen[i].last, MESSAGE_DONE);
	}
	assert_int_equal(warden.guest_count, 1);
}

static void test_more_calls_than_a_line_takes(void **state)
{
	static struct seen seen[600];

	(void)state;
	memset(seen, 0, sizeof(seen));
	warden.is_mute = true;
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		assert_int_equal(start(MESSAGE_PAUSE, &seen[i]), 0);
	TURN_WHILE(warden.guest_count < 3);
	turn_for(50);
	assert_in_range(warden.guest_count, 3, 5);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		seen[i].call = call_cancel(fleet, seen[i].call);
	TURN_WHILE(warden.cancelled < ARRAY_SIZE(seen));
	assert_int_equal(warden.cancelled, ARRAY_SIZE(seen));
}

static void test_a_descriptor_arrives(void **state)
{
	struct seen seen = { .descriptor = -EBADF };
	char text[8];

	(void)state;
	assert_int_equal(start(MESSAGE_DIAL, &seen), 0);
	turn_until(&seen.is_over);
	assert_int_equal(seen.last, MESSAGE_CONNECTED);
	assert_int_equal(read(seen.descriptor, text, sizeof(text)), 5);
	close(seen.descriptor);
}

static void test_a_cancelled_call_is_not_told(void **state)
{
	struct seen seen = { 0 }, after = { 0 };

	(void)state;
	assert_int_equal(start(MESSAGE_PROCESSES, &seen), 0);
	seen.call = call_cancel(fleet, seen.call);
	assert_int_equal(start(MESSAGE_PAUSE, &after), 0);
	turn_until(&after.is_over);
	assert_int_equal(seen.messages, 0);
	assert_int_equal(warden.cancelled, 1);
	assert_int_equal(call_cancel(fleet, 0), 0);
	assert_int_equal(call_cancel(fleet, after.call), 0);
	assert_int_equal(warden.cancelled, 1);
}

static void test_an_ended_call_takes_no_more(void **state)
{
	struct seen seen = { 0 };
	struct draft d = DRAFT(MESSAGE_DATA_END, 0);

	(void)state;
	assert_int_equal(start(MESSAGE_PAUSE, &seen), 0);
	turn_until(&seen.is_over);
	assert_int_equal(call_send(fleet, seen.call, &d), -ESRCH);
}

static void test_no_such_sandbox(void **state)
{
	struct seen seen = { 0 };
	struct draft d = DRAFT(MESSAGE_PAUSE, 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err err = ERR_NONE;

	(void)state;
	assert_int_equal(call_start(fleet, "zzzzzzzzzzzz", &d, &null, 1, on_message, &seen,
				    &seen.call, &err),
			 -ESRCH);
	assert_string_equal(err.text, "sandbox zzzzzzzzzzzz has ended");
	assert_int_equal(null, -EBADF);
	d = DRAFT(MESSAGE_PAUSE, 0);
	assert_int_equal(call_start(fleet, "../../x", &d, NULL, 0, on_message, &seen, &seen.call,
				    NULL),
			 -ESRCH);
	assert_false(fleet_adopt(fleet, "zzzzzzzzzzzz"));
}

static void test_the_end_of_a_warden(void **state)
{
	struct seen kill = { 0 }, other = { 0 };

	(void)state;
	assert_true(fleet_adopt(fleet, ID));
	warden.is_mute = true;
	assert_int_equal(start(MESSAGE_KILL, &kill), 0);
	assert_int_equal(start(MESSAGE_PROCESSES, &other), 0);
	turn_for(30);
	assert_int_equal(ended_count, 0);
	warden_close();
	turn_until(&kill.is_over);
	turn_until(&other.is_over);
	assert_int_equal(kill.last, MESSAGE_DONE);
	assert_int_equal(other.last, MESSAGE_ERROR);
	assert_int_equal(other.code, ESRCH);
	assert_string_equal(ended, ID);
	assert_int_equal(ended_count, 1);
	assert_int_equal(start(MESSAGE_PAUSE, &other), -ESRCH);
}

/* As a warden that is killed: one descriptor after the other. */
static void test_the_end_in_two_steps(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	assert_true(fleet_adopt(fleet, ID));
	warden.is_mute = true;
	assert_int_equal(start(MESSAGE_PROCESSES, &seen), 0);
	turn_for(10);
	warden_hang_up();
	warden.watch = loop_forget(loop, warden.watch);
	assert_true(loop_turn(loop, 5) >= 0);
	assert_int_equal(ended_count, 0);
	warden.listener = fd_close(warden.listener);
	turn_until(&seen.is_over);
	assert_int_equal(seen.code, ESRCH);
	assert_int_equal(ended_count, 1);
}

static void test_a_lost_line_is_not_the_end(void **state)
{
	struct seen seen = { 0 }, after = { 0 };

	(void)state;
	assert_true(fleet_adopt(fleet, ID));
	warden.is_mute = true;
	assert_int_equal(start(MESSAGE_PROCESSES, &seen), 0);
	turn_for(10);
	warden_hang_up();
	turn_until(&seen.is_over);
	assert_int_equal(seen.code, ECONNRESET);
	assert_int_equal(ended_count, 0);
	warden.is_mute = false;
	assert_int_equal(start(MESSAGE_PAUSE, &after), 0);
	turn_until(&after.is_over);
	assert_int_equal(after.last, MESSAGE_DONE);
	/* And the end is still noticed, by the line that was opened instead. */
	warden_close();
	TURN_WHILE(ended_count < 1);
	assert_int_equal(ended_count, 1);
}

static void test_an_answer_that_does_not_fit(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(start(MESSAGE_STAT, &seen), 0);
	turn_until(&seen.is_over);
	assert_int_equal(seen.code, ECONNRESET);
}

/* --- programs --- */

struct ran {
	bool is_over;
	int status;
	char out[64], err[64];
	size_t out_len;
};

static void on_ran(void *of, const struct fleet_output *output)
{
	struct ran *ran = of;

	ran->is_over = true;
	ran->status = output->status;
	ran->out_len = output->out_len;
	snprintf(ran->out, sizeof(ran->out), "%.60s", output->out);
	snprintf(ran->err, sizeof(ran->err), "%.60s", output->err);
}

static void run(const char *script, struct ran *ran, uint64_t *ret_run)
{
	char *words[] = { (char *)(uintptr_t) "-c", (char *)(uintptr_t)script, NULL };

	*ran = (struct ran){ 0 };
	assert_int_equal(fleet_run(fleet, words, on_ran, ran, ret_run, NULL), 0);
}

static void test_a_program_is_run(void **state)
{
	struct ran ran;

	(void)state;
	run("echo out; echo brig: words >&2; exit 3", &ran, NULL);
	turn_until(&ran.is_over);
	assert_int_equal(WEXITSTATUS(ran.status), 3);
	assert_string_equal(ran.out, "out\n");
	assert_string_equal(ran.err, "words");
}

/* Who was left behind with the pipes is not waited for, and nothing of ours is open in it. */
static void test_what_a_program_leaves_behind(void **state)
{
	struct ran ran;

	(void)state;
	run("sleep 20 & ls /proc/self/fd | wc -l; echo $! >&2", &ran, NULL);
	turn_until(&ran.is_over);
	assert_string_equal(ran.out, "4\n");
	kill(atoi(ran.err), SIGKILL);
}

static void test_output_is_bounded(void **state)
{
	struct ran ran;

	(void)state;
	run("head -c 3000000 /dev/zero; echo end >&2", &ran, NULL);
	turn_until(&ran.is_over);
	assert_int_equal(ran.out_len, 1 * MIB);
	assert_string_equal(ran.err, "end");
}

static void test_many_programs(void **state)
{
	static struct ran ran[100];
	struct ran forgotten;
	uint64_t number;

	(void)state;
	run("echo never", &forgotten, &number);
	assert_int_equal(fleet_forget_run(fleet, number), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ran); i++)
		run("exit 0", &ran[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ran); i++)
		turn_until(&ran[i].is_over);
	assert_false(forgotten.is_over);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_calls_share_a_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_more_calls_than_a_line_takes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_descriptor_arrives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_cancelled_call_is_not_told, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_an_ended_call_takes_no_more, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_no_such_sandbox, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_end_of_a_warden, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_end_in_two_steps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_lost_line_is_not_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_an_answer_that_does_not_fit, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_program_is_run, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_a_program_leaves_behind, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_output_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_programs, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
