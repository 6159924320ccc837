/* First, as cmocka has short names for what is in it. */
#include "../fuzz/proxy_case.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/eventfd.h>

static int open_case(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	return case_open() ? 0 : -1;
}

static int close_case(void **state)
{
	(void)state;
	case_close();
	assert_int_equal(scene.requests, scene.gones);
	return 0;
}

static const char question[] = "GET /a HTTP/1.1\r\nHost: a\r\nX-API-Key: secret\r\n\r\n";

static int ask(const char *text)
{
	int client = case_client(text, strlen(text));

	assert_true(client >= 0);
	for (int i = 0; i < 1000 && !scene.on_message; i++)
		assert_int_equal(loop_turn(scene.loop, 1), 0);
	assert_non_null(scene.on_message);
	return client;
}

/* What comes within a while. */
static const char *hear(int fd, const char *until)
{
	static char text[65536];
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < 2000 && !strstr(text, until); i++) {
		ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT);

		len += n > 0 ? (size_t)n : 0;
		text[len] = '\0';
		if (n == 0)
			break;
		assert_int_equal(loop_turn(scene.loop, 1), 0);
	}
	return text;
}

static void says(int fd, const char *status, const char *words)
{
	const char *text = hear(fd, "}");

	if (!strstr(text, status) || !strstr(text, words))
		fail_msg("%s instead of %s and %s", text, status, words);
}

static void fail_dial(int code, const char *words)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_ERROR, 0);
	struct message m = { .type = MESSAGE_ERROR };
	call_message answer = scene.on_message;

	draft_number(&d, FIELD_CODE, (uint64_t)code);
	draft_text(&d, FIELD_TEXT, words);
	m.fields = (const unsigned char *)d.fields.data;
	m.len = d.fields.len;
	scene.on_message = NULL;
	answer(scene.of, &m, true);
}

static void a_request_and_its_answer(void **state)
{
	int client = ask(question), ours, program;

	(void)state;
	assert_true(case_connection(&ours, &program));
	case_connected(ours);
	assert_non_null(strstr(hear(program, "\r\n\r\n"), "GET /a HTTP/1.1\r\nHost: a\r\n"));
	assert_null(strstr(hear(program, "secret"), "secret"));
	assert_int_equal(send(program, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 40, 0),
			 40);
	assert_non_null(strstr(hear(client, "hi"), "HTTP/1.1 200 OK\r\n"));
	close(program);
	close(client);
}

static void what_is_no_connection(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int pair[2], ends[2], tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fds[8];
	size_t count = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(bind(tcp, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(tcp, 1), 0);
	fds[count++] = pair[0];
	fds[count++] = ends[0];
	fds[count++] = tcp;
	fds[count++] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[count++] = open("/", O_PATH | O_CLOEXEC);
	fds[count++] = eventfd(0, EFD_CLOEXEC);
	fds[count++] = epoll_create1(EPOLL_CLOEXEC);
	fds[count++] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (size_t i = 0; i < count; i++) {
		int client = ask(question);

		assert_true(fds[i] >= 0);
		case_connected(fds[i]);
		says(client, "HTTP/1.1 502 ", "did not give a connection");
		/* It was closed. */
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
		close(client);
	}
	close(pair[1]);
	close(ends[1]);
}

static void dials_that_fail(void **state)
{
	static const struct {
		int code;
		const char *status, *words;
	} table[] = {
		{ ECONNREFUSED, "HTTP/1.1 502 ", "The sandbox is running but port is not open" },
		{ ESRCH, "HTTP/1.1 502 ", "The sandbox was not found" },
		{ EAGAIN, "HTTP/1.1 503 ", "as it was said" },
		{ EMFILE, "HTTP/1.1 503 ", "Retry-After: 1" },
		{ EAFNOSUPPORT, "HTTP/1.1 502 ", "container tier" },
		{ EACCES, "HTTP/1.1 502 ", "container tier" },
		{ EHOSTUNREACH, "HTTP/1.1 502 ", "as it was said" },
		{ 0, "HTTP/1.1 502 ", "as it was said" },
		{ 99999, "HTTP/1.1 502 ", "as it was said" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int client = ask(question);

		fail_dial(table[i].code, "as it was said");
		says(client, table[i].status, table[i].words);
		close(client);
	}
}

static void words_from_inside_are_harmless(void **state)
{
	int client = ask(question);
	const char *text;

	(void)state;
	fail_dial(EIO, "\"},\"x\":\"\x1b[31m\r\n\r\nHTTP/1.1 200 OK\xff");
	text = hear(client, "}");
	assert_non_null(strstr(text, "HTTP/1.1 502 "));
	assert_non_null(strstr(text, "\\\"},\\\"x\\\""));
	assert_null(strchr(text, '\x1b'));
	assert_null(strchr(text, '\xff'));
	assert_null(strstr(text, "\r\n\r\nHTTP"));
	close(client);
}

static void the_end_of_the_sandbox(void **state)
{
	static const char *const answers[] = { NULL, "", "HTTP/1.1 200 OK\r\nContent-",
					       "HTTP/1.1 200 OK\r\n\r\nbody" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		int client = ask(question), ours, program = -EBADF;
		const char *text;

		if (answers[i]) {
			assert_true(case_connection(&ours, &program));
			case_connected(ours);
			assert_int_equal(send(program, answers[i], strlen(answers[i]), 0),
					 strlen(answers[i]));
			for (int k = 0; k < 5; k++)
				assert_int_equal(loop_turn(scene.loop, 1), 0);
		}
		assert_non_null(scene.on_end);
		scene.on_end(scene.on_end_of);
		text = hear(client, "nothing that would come");
		if (i < 3)
			assert_non_null(strstr(text, "The sandbox was not found"));
		else
			assert_null(strstr(text, "0\r\n\r\n"));
		fd_close(program);
		close(client);
	}
}

static void a_client_that_leaves(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		int client = ask(question), ours, program = -EBADF;

		if (i == 1) {
			assert_true(case_connection(&ours, &program));
			case_connected(ours);
		}
		close(client);
		for (int k = 0; k < 5; k++)
			assert_int_equal(loop_turn(scene.loop, 1), 0);
		assert_int_equal(scene.requests, scene.gones);
		/* The dial is given up, the connection closed. */
		assert_null(scene.on_message);
		assert_null(scene.on_end);
		if (i == 1)
			hear(program, "nothing that would come");
		fd_close(program);
	}
}

static void tokens(void **state)
{
	static const char with[] =
		"GET / HTTP/1.1\r\nHost: a\r\ne2b-traffic-access-token: right\r\n\r\n";
	int client, ours, program;

	(void)state;
	snprintf(scene.held.traffic_token, sizeof(scene.held.traffic_token), "right");
	client = case_client(question, strlen(question));
	says(client, "HTTP/1.1 403 ", "e2b-traffic-access-token");
	assert_null(scene.on_message);
	close(client);
	client = ask(with);
	assert_true(case_connection(&ours, &program));
	case_connected(ours);
	assert_null(strstr(hear(program, "\r\n\r\n"), "right"));
	close(program);
	close(client);
}

static void hosts(void **state)
{
	static const struct {
		const char *network, *host;
	} table[] = {
		{ "", "Host: a\r\n" },
		{ "{}", "Host: a\r\n" },
		{ "{\"maskRequestHost\":\"localhost:${PORT}\"}", "Host: localhost:8080\r\n" },
		{ "{\"maskRequestHost\":\"example.org\"}", "Host: example.org\r\n" },
		{ "{\"maskRequestHost\":\"a\\r\\nX-Evil: b\"}", "Host: a\r\n" },
		{ "{\"maskRequestHost\":\"\"}", "Host: a\r\n" },
		{ "{\"maskRequestHost\":5}", "Host: a\r\n" },
		{ "{\"maskRequestHost\":", "Host: a\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char network[128];
		int client, ours, program;

		snprintf(network, sizeof(network), "%s", table[i].network);
		scene.held.network = network;
		client = ask(question);
		assert_true(case_connection(&ours, &program));
		case_connected(ours);
		assert_non_null(strstr(hear(program, "\r\n\r\n"), table[i].host));
		close(program);
		close(client);
		for (int k = 0; k < 5; k++)
			assert_int_equal(loop_turn(scene.loop, 1), 0);
	}
}

/* The socket is shared with the sandbox, which lets it wait: nobody here does. */
static void a_socket_that_waits(void **state)
{
	static char block[64 * KIB];
	int client = ask("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"), ours,
	    program;
	size_t sent = 0;

	(void)state;
	assert_true(case_connection(&ours, &program));
	assert_int_equal(fd_set_nonblock(ours, 0), 0);
	case_connected(ours);
	for (int i = 0; i < 500; i++) {
		ssize_t n = send(client, block, sizeof(block), MSG_DONTWAIT);

		sent += n > 0 ? (size_t)n : 0;
		assert_int_equal(loop_turn(scene.loop, 1), 0);
	}
	/* The program reads nothing: what can wait has its bounds. */
	assert_true(sent > 0 && sent < 16 * MIB);
	close(program);
	close(client);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_case, close_case)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_request_and_its_answer),
		CASE(what_is_no_connection),
		CASE(dials_that_fail),
		CASE(words_from_inside_are_harmless),
		CASE(the_end_of_the_sandbox),
		CASE(a_client_that_leaves),
		CASE(tokens),
		CASE(hosts),
		CASE(a_socket_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
