#include "unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/gate.h"
#include "egress/sock.h"

/* The gate with us as its caller and its remote, in one process: no network, no filter. */
struct scene {
	struct gate *gate;
	struct policy allow, deny;
	int remote;
	union sock_address address; /* of remote */
	int answers, error;         /* the last one */
	int errors[10];             /* by id */
	int busy;                   /* answers that there is no room */
	int refusals, ends;
	char reason[256];
};

static void on_answer(void *ctx, uint64_t id, int error)
{
	struct scene *scene = ctx;

	scene->answers++;
	scene->busy += error == EAGAIN;
	scene->error = error;
	assert_true(id < ARRAY_SIZE(scene->errors));
	scene->errors[id] = error;
}

static void on_event(void *ctx, const struct gate_event *event)
{
	struct scene *scene = ctx;

	scene->refusals += !event->judgement->is_allowed;
	scene->ends += event->action == GATE_CLOSE;
	if (!event->judgement->is_allowed)
		snprintf(scene->reason, sizeof(scene->reason), "%s", event->judgement->reason);
}

static void parse(const char *text, struct policy *ret_policy)
{
	struct err err = ERR_NONE;

	if (policy_parse("test", text, strlen(text), &(struct policy_env){ .cwd = "/" }, ret_policy,
			 &err) < 0)
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	struct gate_request request = { .ctx = scene,
					.answer = on_answer,
					.event = on_event,
					.resolv_conf = "/dev/null",
					.limits = { .connections = 4, .first_ms = 50 } };
	char text[128];

	scene->remote = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	scene->address.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
						  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(scene->remote, &scene->address.any, sizeof(scene->address.v4)), 0);
	assert_int_equal(listen(scene->remote, 16), 0);
	assert_int_equal(sock_name(scene->remote, &scene->address), 0);
	snprintf(text, sizeof(text), "version: 1\nnet: { allow: [\"127.0.0.1:%d\"] }\n",
		 ntohs(scene->address.v4.sin_port));
	parse(text, &scene->allow);
	parse("version: 1\n", &scene->deny);
	request.policy = &scene->allow;
	assert_int_equal(gate_new(&request, &scene->gate, NULL), 0);
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *scene = *state;

	gate_free(scene->gate);
	fd_close(scene->remote);
	policy_done(&scene->allow);
	policy_done(&scene->deny);
	free(scene);
	return 0;
}

/* The warden's loop, for so long. */
static void work(struct scene *scene, int ms)
{
	for (int i = 0; i < ms / 5 + 1; i++) {
		struct pollfd p = { .fd = gate_fd(scene->gate), .events = POLLIN };
		int timeout = gate_timeout(scene->gate);

		poll(&p, 1, timeout >= 0 && timeout < 5 ? timeout : 5);
		gate_work(scene->gate);
	}
}

static int attempt(struct scene *scene, int flags, uint64_t id)
{
	int a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	struct gate_attempt attempt = { .id = id,
					.socket = dup(a),
					.len = sizeof(struct sockaddr_in) };

	memcpy(&attempt.address, &scene->address, sizeof(scene->address.v4));
	gate_connect(scene->gate, &attempt);
	return a;
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void answered_once(void **state)
{
	struct scene *scene = *state;
	int a = attempt(scene, 0, 7), b = attempt(scene, SOCK_NONBLOCK, 8);

	assert_int_equal(scene->errors[8], EINPROGRESS);
	work(scene, 20);
	assert_int_equal(scene->answers, 2);
	assert_int_equal(scene->errors[7], 0);
	assert_int_equal(scene->errors[8], EINPROGRESS);
	close(a);
	close(b);
}

static void new_rules_hold_at_once(void **state)
{
	struct scene *scene = *state;
	int a;

	gate_policy_changed(scene->gate, &scene->deny);
	a = attempt(scene, 0, 1);
	assert_int_equal(scene->answers, 1);
	assert_int_equal(scene->error, EACCES);
	assert_int_equal(scene->refusals, 1);
	close(a);
	gate_policy_changed(scene->gate, &scene->allow);
	a = attempt(scene, 0, 2);
	work(scene, 20);
	assert_int_equal(scene->error, 0);
	close(a);
}

/* The rule that set_up has, with other words behind it, and other rules. */
static void other_rules(const struct scene *scene, const char *behind, const char *more,
			struct policy *ret_policy)
{
	char text[256];

	snprintf(text, sizeof(text), "version: 1\nnet: { allow: [\"127.0.0.1:%d%s\"]%s }\n",
		 ntohs(scene->address.v4.sin_port), behind, more);
	parse(text, ret_policy);
}

static bool is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void say(int fd, const char *host)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);

	assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* Rules that changed between the connection and its first bytes count for these. */
static void new_rules_hold_for_first_bytes(void **state)
{
	struct scene *scene = *state;
	int a = attempt(scene, 0, 1), remote;
	struct policy rules;
	char text[8];

	work(scene, 20);
	remote = accept4(scene->remote, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	other_rules(scene, "", ", deny: [\"bad.example:*\"]", &rules);
	gate_policy_changed(scene->gate, &rules);
	say(a, "bad.example");
	work(scene, 20);
	assert_true(recv(remote, text, sizeof(text), 0) <= 0);
	assert_int_equal(scene->refusals, 1);
	close(a);
	close(remote);
	policy_done(&rules);
	gate_policy_changed(scene->gate, &scene->allow);
}

/* What is there goes on where the new rules let it, and is reset where they do not. */
static void new_rules_cut(void **state)
{
	static const struct {
		const char *host, *behind, *more;
		bool goes_on;
	} rows[] = {
		{ "a.example", "", "", true },
		{ "a.example", " raw", "", true },
		{ "a.example", "", ", deny: [\"b.example:*\"]", true },
		{ "a.example", "", ", deny: [\"a.example:*\"]", false },
		{ "a.example", "", ", deny: [\"127.0.0.0/8:*\"]", false },
		{ NULL, "", "", true }, /* nothing was said yet */
		{ NULL, "", ", deny: [\"127.0.0.1:*\"]", false },
	};
	struct scene *scene = *state;
	char text[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int a = attempt(scene, 0, 1), remote, refusals = scene->refusals,
		    ends = scene->ends;
		struct policy rules;

		work(scene, 10);
		remote = accept4(scene->remote, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (rows[i].host) {
			say(a, rows[i].host);
			work(scene, 10);
			assert_true(recv(remote, text, sizeof(text), 0) > 0);
		}
		other_rules(scene, rows[i].behind, rows[i].more, &rules);
		gate_policy_changed(scene->gate, &rules);
		work(scene, 10);
		assert_int_equal(is_open(a), rows[i].goes_on);
		assert_int_equal(is_open(remote), rows[i].goes_on);
		assert_int_equal(scene->refusals - refusals, !rows[i].goes_on);
		assert_int_equal(scene->ends - ends, !rows[i].goes_on);
		if (rows[i].goes_on && rows[i].host) {
			assert_int_equal(send(a, "more", 4, MSG_NOSIGNAL), 4);
			work(scene, 10);
			assert_int_equal(recv(remote, text, sizeof(text), 0), 4);
		}
		close(a);
		close(remote);
		gate_policy_changed(scene->gate, &scene->allow);
		policy_done(&rules);
		work(scene, 10);
	}
}

/* Nobody looked at what a raw connection says: rules that want to look cannot let it go on. */
static void new_rules_that_want_to_look(void **state)
{
	struct scene *scene = *state;
	struct policy raw;
	int a, remote;

	other_rules(scene, " raw", "", &raw);
	gate_policy_changed(scene->gate, &raw);
	a = attempt(scene, 0, 1);
	work(scene, 10);
	remote = accept4(scene->remote, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(is_open(a) && is_open(remote));
	gate_policy_changed(scene->gate, &scene->allow);
	work(scene, 10);
	assert_false(is_open(a));
	assert_false(is_open(remote));
	assert_non_null(strstr(scene->reason, "nobody looked at its first bytes"));
	close(a);
	close(remote);
	policy_done(&raw);
}

/* The remote side has room for one, which is taken: whoever comes waits. */
static int fill_remote(struct scene *scene)
{
	int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(listen(scene->remote, 0), 0);
	assert_int_equal(connect(filler, &scene->address.any, sizeof(scene->address.v4)), 0);
	return filler;
}

static void new_rules_cut_who_waits(void **state)
{
	struct scene *scene = *state;
	int filler = fill_remote(scene), a = attempt(scene, 0, 3),
	    b = attempt(scene, SOCK_NONBLOCK, 4);

	assert_int_equal(scene->answers, 1);
	gate_policy_changed(scene->gate, &scene->deny);
	assert_int_equal(scene->answers, 2);
	assert_int_equal(scene->errors[3], EACCES);
	work(scene, 10);
	assert_false(is_open(b));
	assert_int_equal(scene->ends, 2);
	close(a);
	close(b);
	close(filler);
}

static void cancelled(void **state)
{
	struct scene *scene = *state;
	int filler = fill_remote(scene), a = attempt(scene, 0, 3);

	assert_int_equal(scene->answers, 0);
	gate_cancel(scene->gate, 4);
	assert_int_equal(scene->ends, 0);
	gate_cancel(scene->gate, 3);
	work(scene, 20);
	assert_int_equal(scene->answers, 0);
	assert_int_equal(scene->ends, 1);
	close(a);
	close(filler);
}

static void no_more_than_the_limit(void **state)
{
	struct scene *scene = *state;
	int fds[6];

	for (int i = 0; i < 6; i++)
		fds[i] = attempt(scene, 0, (uint64_t)i);
	assert_int_equal(scene->busy, 2);
	work(scene, 20);
	assert_int_equal(scene->answers, 6);
	assert_int_equal(scene->busy, 2);
	/* Silent ones end by themselves, and there is room again. */
	work(scene, 100);
	assert_int_equal(scene->ends, 4);
	for (int i = 0; i < 6; i++)
		close(fds[i]);
	fds[0] = attempt(scene, 0, 9);
	work(scene, 20);
	assert_int_equal(scene->error, 0);
	close(fds[0]);
}

static void nothing_is_left(void **state)
{
	int before = open_descriptors();

	for (int round = 0; round < 3; round++) {
		struct scene *scene;
		int fds[3];

		set_up(state);
		scene = *state;
		for (int i = 0; i < 3; i++)
			fds[i] = attempt(scene, i == 1 ? SOCK_NONBLOCK : 0, (uint64_t)i);
		if (round > 0)
			work(scene, 10 * round);
		tear_down(state);
		for (int i = 0; i < 3; i++)
			close(fds[i]);
	}
	assert_int_equal(open_descriptors(), before);
}

/* Whatever is handed over instead of a stream socket and its address. */
static void odd_attempts(void **state)
{
	struct scene *scene = *state;
	const struct {
		int fd, family;
		socklen_t len;
		int error;
	} odd[] = {
		{ open("/dev/null", O_RDWR | O_CLOEXEC), AF_INET, 16, ENOTSOCK },
		{ -EBADF, AF_INET, 16, EBADF },
		{ socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_INET, 16, EAFNOSUPPORT },
		{ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_INET, 1, EINVAL },
		{ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_INET, 15, EINVAL },
		{ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_INET, 4096, EINVAL },
		{ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_INET6, 28, EAFNOSUPPORT },
		{ socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), AF_UNIX, 28, EAFNOSUPPORT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct gate_attempt attempt = { .id = i, .socket = odd[i].fd, .len = odd[i].len };

		memcpy(&attempt.address, &scene->address, sizeof(scene->address.v4));
		attempt.address.ss_family = (sa_family_t)odd[i].family;
		gate_connect(scene->gate, &attempt);
		assert_int_equal(scene->answers, i + 1);
		assert_int_equal(scene->errors[i], odd[i].error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answered_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(new_rules_hold_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(new_rules_hold_for_first_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(new_rules_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(new_rules_that_want_to_look, set_up, tear_down),
		cmocka_unit_test_setup_teardown(new_rules_cut_who_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(cancelled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_more_than_the_limit, set_up, tear_down),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test_setup_teardown(odd_attempts, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
