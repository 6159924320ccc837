/* Published ports: clients are real, and so is the network of the sandbox, where this host allows one. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/publish.h"
#include "egress/sock.h"

#define INSIDE 7777

struct scene {
	struct publisher *publisher;
	int asked[2]; /* how often, for IPv4 and IPv6 */
	int told[3];  /* by outcome */
	int error;
};

static void on_ask(void *ctx, int family)
{
	struct scene *scene = ctx;

	scene->asked[family == AF_INET6]++;
}

static void on_event(void *ctx, const struct publish_event *event)
{
	struct scene *scene = ctx;

	scene->told[event->outcome]++;
	scene->error = event->error;
}

static struct published port_of(const char *text)
{
	struct published port;

	assert_true(policy_port_read(text, &port));
	return port;
}

static void scene_open(struct scene *scene, uint16_t inside, unsigned int connections)
{
	const struct publisher_request request = {
		.connections = connections, .ctx = scene, .ask = on_ask, .event = on_event
	};
	struct published port = port_of("0:1");
	struct err err = ERR_NONE;

	*scene = (struct scene){ 0 };
	port.inside = inside;
	if (publisher_new(&request, &port, 1, &scene->publisher, &err) < 0)
		fail_msg("%s", err.text);
}

static void work(struct scene *scene)
{
	for (int i = 0; i < 20; i++) {
		struct pollfd fd = { .fd = publisher_fd(scene->publisher), .events = POLLIN };

		(void)poll(&fd, 1, 5);
		publisher_work(scene->publisher);
	}
}

/* Until something can be read at fd, or its end: the other side is another process. */
static void work_until(struct scene *scene, int fd)
{
	char byte;

	for (int i = 0; i < 600 && recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0; i++)
		work(scene);
}

static int client_of(const struct scene *scene)
{
	union sock_address to = { .v4 = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.v4.sin_port = htons(publisher_port(scene->publisher, 0)->outside);
	assert_int_equal(connect(fd, &to.any, sizeof(to.v4)), 0);
	return fd;
}

/* What a client finds: 0 for the end, -EAGAIN when it is still waiting. */
static int look(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n < 0 ? -errno : (int)n;
}

static void what_cannot_be_had_is_said_in_words(void **state)
{
	static const struct {
		const char *port, *words;
	} rows[] = {
		{ "192.0.2.99:8080:80", "192.0.2.99:8080 is no address of this host" },
		{ "[2001:db8::99]:8080:80", "net.publish: " },
	};
	const struct publisher_request request = { 0 };
	struct publisher *publisher = NULL;
	struct scene scene;
	struct published twice;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct published port = port_of(rows[i].port);

		err = ERR_NONE;
		assert_true(publisher_new(&request, &port, 1, &publisher, &err) < 0);
		assert_non_null(strstr(err.text, rows[i].words));
		assert_null(publisher);
	}
	scene_open(&scene, INSIDE, 0);
	twice = *publisher_port(scene.publisher, 0);
	assert_int_not_equal(twice.outside, 0);
	err = ERR_NONE;
	assert_int_equal(publisher_new(&request, &twice, 1, &publisher, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "is in use"));
	publisher_close(scene.publisher);
	assert_int_equal(publisher_new(&request, &twice, 1, &publisher, &err), 0);
	publisher_free(publisher);
	publisher_free(scene.publisher);
}

static void who_comes_when_all_places_are_taken_is_reset(void **state)
{
	struct scene scene;
	int clients[3];

	(void)state;
	scene_open(&scene, INSIDE, 2);
	for (int i = 0; i < 3; i++)
		clients[i] = client_of(&scene);
	work(&scene);
	assert_int_equal(scene.told[PUBLISH_FULL], 1);
	assert_int_equal(look(clients[0]), -EAGAIN);
	assert_int_equal(look(clients[1]), -EAGAIN);
	assert_int_equal(look(clients[2]), -ECONNRESET);
	/* One request is on its way for all of them. */
	assert_int_equal(scene.asked[0], 1);
	/* Inside there is no socket to be had. */
	publisher_supply(scene.publisher, AF_INET, NULL, 0);
	assert_int_equal(look(clients[0]), -ECONNRESET);
	assert_int_equal(look(clients[1]), -ECONNRESET);
	assert_int_equal(scene.told[PUBLISH_FAILED], 2);
	/* And the places are free again. */
	close(clients[2]);
	clients[2] = client_of(&scene);
	work(&scene);
	assert_int_equal(look(clients[2]), -EAGAIN);
	publisher_close(scene.publisher);
	assert_int_equal(look(clients[2]), -ECONNRESET);
	for (int i = 0; i < 3; i++)
		close(clients[i]);
	publisher_free(scene.publisher);
}

/* Whoever lives inside could hand us anything; the canary is a server of the host's own. */
static void a_socket_of_our_own_network_is_not_used(void **state)
{
	union sock_address name = { .v4 = { .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	_cleanup_close_ int canary = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int foreign[4], client, pair[2];
	struct scene scene;

	(void)state;
	assert_int_equal(bind(canary, &name.any, sizeof(name.v4)), 0);
	assert_int_equal(listen(canary, 4), 0);
	assert_int_equal(sock_name(canary, &name), 0);
	scene_open(&scene, ntohs(name.v4.sin_port), 0);
	client = client_of(&scene);
	work(&scene);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	foreign[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	foreign[1] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	foreign[2] = pair[0];
	foreign[3] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	publisher_supply(scene.publisher, AF_INET, foreign, foreign[3] < 0 ? 3 : 4);
	work(&scene);
	assert_int_equal(accept(canary, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(look(client), -ECONNRESET);
	assert_int_equal(scene.told[PUBLISH_REACHED], 0);
	close(pair[1]);
	close(client);
	publisher_free(scene.publisher);
}

/* Another network, with somebody who answers each client with its own bytes and ends. */
_Noreturn static void live_inside(int channel)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	union sock_address name = { .v4 = { .sin_family = AF_INET,
					    .sin_port = htons(INSIDE),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	int listener, sockets[2], client;
	char byte = 0;

	if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0)
		_exit(77);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < 2; i++)
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ioctl(listener, SIOCSIFFLAGS, &up) < 0 ||
	    bind(listener, &name.any, sizeof(name.v4)) < 0 || listen(listener, 4) < 0 ||
	    fd_send(channel, &byte, 1, sockets, 2) < 0)
		_exit(1);
	close(sockets[0]);
	close(sockets[1]);
	client = accept(listener, NULL, NULL);
	while (client >= 0 && recv(client, &byte, 1, 0) == 1)
		(void)!send(client, &byte, 1, 0);
	_exit(client < 0);
}

static void bytes_go_to_the_other_network_and_back(void **state)
{
	int pair[2], passed[FD_PASS_MAX], status = -1, client;
	struct pollfd ready;
	struct scene scene;
	char byte = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0)
		live_inside(pair[1]);
	close(pair[1]);
	ready = (struct pollfd){ .fd = pair[0], .events = POLLIN };
	assert_int_equal(poll(&ready, 1, 10000), 1);
	if (fd_receive(pair[0], &byte, 1, passed) < 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		close(pair[0]);
		print_message("this host gives no network namespace: status %d\n", status);
		skip();
	}
	scene_open(&scene, INSIDE, 0);
	client = client_of(&scene);
	publisher_supply(scene.publisher, AF_INET, passed, 2);
	work(&scene);
	assert_int_equal(scene.told[PUBLISH_REACHED], 1);
	assert_int_equal(send(client, "x", 1, 0), 1);
	work_until(&scene, client);
	assert_int_equal(recv(client, &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(byte, 'x');
	assert_false(publisher_is_drained(scene.publisher));
	/* The end of our side goes in, and the end of the other comes out. */
	assert_int_equal(shutdown(client, SHUT_WR), 0);
	work_until(&scene, client);
	assert_int_equal(look(client), 0);
	assert_true(publisher_is_drained(scene.publisher));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(client);
	close(pair[0]);
	publisher_free(scene.publisher);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_had_is_said_in_words),
		cmocka_unit_test(who_comes_when_all_places_are_taken_is_reset),
		cmocka_unit_test(a_socket_of_our_own_network_is_not_used),
		cmocka_unit_test(bytes_go_to_the_other_network_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
