#include "unit.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/relay.h"
#include "egress/sock.h"

/* Two connected TCP sockets: ours is non-blocking, the other belongs to the test. */
static void tcp_pair(int *ret_ours, int *ret_theirs)
{
	_cleanup_close_ int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	union sock_address address = { .v4 = { .sin_family = AF_INET,
					       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

	assert_int_equal(bind(listener, &address.any, sizeof(address.v4)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(sock_name(listener, &address), 0);
	*ret_theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(*ret_theirs, &address.any, sizeof(address.v4)), 0);
	*ret_ours = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(*ret_ours >= 0);
	assert_int_equal(fd_set_nonblock(*ret_theirs, 1), 0);
}

struct scene {
	struct relay relay;
	int client, server, epoll;
	char *buffer;
	int turns; /* that were asked for by an event or by RELAY_MORE */
	int events;
};

static void scene_open(struct scene *scene, bool is_held)
{
	int local, remote;

	*scene = (struct scene){ .epoll = epoll_create1(EPOLL_CLOEXEC),
				 .buffer = malloc(RELAY_BUFFER) };
	tcp_pair(&local, &scene->client);
	tcp_pair(&remote, &scene->server);
	relay_init(&scene->relay, local, remote, is_held);
	for (int i = 0; i < 2; i++) {
		struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
					     .data.u32 = (uint32_t)i };

		assert_int_equal(
			epoll_ctl(scene->epoll, EPOLL_CTL_ADD, scene->relay.fds[i], &event), 0);
	}
}

static void scene_close(struct scene *scene)
{
	relay_done(&scene->relay, true);
	fd_close(scene->client);
	fd_close(scene->server);
	fd_close(scene->epoll);
	free(scene->buffer);
}

/* What the gate does: events, then turns until nothing is left to do. */
static int settle(struct scene *scene, int wait_ms)
{
	struct epoll_event events[4];
	int n = epoll_wait(scene->epoll, events, 4, wait_ms), r = RELAY_MORE;

	scene->events += MAX(n, 0);
	for (int i = 0; i < n; i++)
		relay_ready(&scene->relay, events[i].data.u32, events[i].events);
	while (r == RELAY_MORE) {
		r = relay_pump(&scene->relay, scene->buffer, RELAY_BUFFER);
		scene->turns++;
	}
	return r;
}

/* The kernel may still move something from buffer to buffer; but that has an end. */
static void come_to_rest(struct scene *scene)
{
	int turns = scene->turns, events;

	do {
		events = scene->events;
		assert_int_equal(settle(scene, 50), RELAY_WAITS);
		assert_true(scene->turns - turns < 10000);
	} while (scene->events > events);
}

static void both_ways(void **state)
{
	struct scene scene;
	char text[16];

	(void)state;
	scene_open(&scene, false);
	assert_int_equal(settle(&scene, 0), RELAY_WAITS);
	assert_int_equal(send(scene.client, "up", 2, 0), 2);
	assert_int_equal(send(scene.server, "down", 4, 0), 4);
	assert_int_equal(settle(&scene, 1000), RELAY_WAITS);
	assert_int_equal(settle(&scene, 100), RELAY_WAITS);
	assert_int_equal(recv(scene.server, text, sizeof(text), 0), 2);
	assert_int_equal(recv(scene.client, text, sizeof(text), 0), 4);
	assert_int_equal(scene.relay.ends[RELAY_LOCAL].bytes, 2);
	assert_int_equal(scene.relay.ends[RELAY_REMOTE].bytes, 4);
	scene_close(&scene);
}

static void half_close_each_way(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		struct scene scene;
		int one, other;
		char text[16];

		scene_open(&scene, false);
		one = first ? scene.server : scene.client;
		other = first ? scene.client : scene.server;
		assert_int_equal(send(one, "last", 4, 0), 4);
		assert_int_equal(shutdown(one, SHUT_WR), 0);
		assert_int_equal(settle(&scene, 1000), RELAY_WAITS);
		assert_int_equal(recv(other, text, sizeof(text), 0), 4);
		assert_int_equal(recv(other, text, sizeof(text), 0), 0);
		/* The other direction is as open as before. */
		assert_int_equal(send(other, "reply", 5, 0), 5);
		assert_int_equal(settle(&scene, 1000), RELAY_WAITS);
		assert_int_equal(recv(one, text, sizeof(text), 0), 5);
		assert_int_equal(shutdown(other, SHUT_WR), 0);
		assert_int_equal(settle(&scene, 1000), RELAY_OVER);
		assert_int_equal(recv(one, text, sizeof(text), 0), 0);
		scene_close(&scene);
	}
}

static void reset_is_passed_on(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		struct scene scene;
		char text[4];
		int *one, other;

		scene_open(&scene, false);
		one = first ? &scene.server : &scene.client;
		other = first ? scene.client : scene.server;
		*one = sock_reset(*one);
		assert_int_equal(settle(&scene, 1000), -ECONNRESET);
		relay_done(&scene.relay, false);
		assert_int_equal(recv(other, text, sizeof(text), 0), -1);
		assert_int_equal(errno, ECONNRESET);
		scene_close(&scene);
	}
}

/*
 * The receiver takes nothing: the relay takes no more than the kernel's buffers hold, keeps none of
 * it, and does not spin. Then every byte arrives.
 */
static void a_slow_receiver(void **state)
{
	enum { SIZE = 64 << 20 };
	struct scene scene;
	unsigned char *sent = malloc(1 << 20), *got = malloc(1 << 20);
	size_t in = 0, out = 0;
	int turns;

	(void)state;
	for (int i = 0; i < 1 << 20; i++)
		sent[i] = (unsigned char)(i * 31 + (i >> 8));
	scene_open(&scene, false);
	for (int idle = 0; idle < 20;) {
		ssize_t n =
			send(scene.client, sent + in % (1 << 20), (1 << 20) - in % (1 << 20), 0);

		idle = n > 0 ? 0 : idle + 1;
		in += n > 0 ? (size_t)n : 0;
		assert_int_equal(settle(&scene, 1), RELAY_WAITS);
		assert_true(in < SIZE);
	}
	turns = scene.turns;
	come_to_rest(&scene);
	assert_int_equal(scene.relay.first.len, 0);
	while (out < in) {
		ssize_t n = recv(scene.server, got, 1 << 20, 0);

		if (n > 0) {
			for (ssize_t i = 0; i < n; i++)
				assert_int_equal(got[i], sent[(out + (size_t)i) % (1 << 20)]);
			out += (size_t)n;
		}
		assert_int_equal(settle(&scene, n > 0 ? 0 : 1), RELAY_WAITS);
	}
	assert_true(scene.turns - turns < 100000);
	scene_close(&scene);
	free(sent);
	free(got);
}

/* The end of the stream behind more than the receiver takes, the other direction ended already. */
static void an_end_behind_a_jam(void **state)
{
	static char block[65536];
	struct scene scene;
	size_t in = 0, out = 0;
	int r = RELAY_WAITS;

	(void)state;
	scene_open(&scene, false);
	assert_int_equal(shutdown(scene.server, SHUT_WR), 0);
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(scene.client, block, sizeof(block), 0);

		idle = n > 0 ? 0 : idle + 1;
		in += n > 0 ? (size_t)n : 0;
		assert_int_equal(settle(&scene, 1), RELAY_WAITS);
	}
	assert_int_equal(shutdown(scene.client, SHUT_WR), 0);
	come_to_rest(&scene);
	while (r == RELAY_WAITS) {
		ssize_t n = recv(scene.server, block, sizeof(block), 0);

		out += n > 0 ? (size_t)n : 0;
		r = settle(&scene, n > 0 ? 0 : 1);
	}
	assert_int_equal(r, RELAY_OVER);
	for (ssize_t n; (n = recv(scene.server, block, sizeof(block), 0)) != 0;)
		out += n > 0 ? (size_t)n : 0;
	assert_int_equal(out, in);
	scene_close(&scene);
}

static void held_until_released(void **state)
{
	struct scene scene;
	char text[16];

	(void)state;
	scene_open(&scene, true);
	assert_int_equal(relay_read_first(&scene.relay, scene.buffer, RELAY_BUFFER), -EAGAIN);
	assert_int_equal(send(scene.client, "hello", 5, 0), 5);
	assert_int_equal(send(scene.server, "banner", 6, 0), 6);
	assert_int_equal(settle(&scene, 1000), RELAY_WAITS);
	assert_int_equal(settle(&scene, 50), RELAY_WAITS);
	assert_int_equal(recv(scene.client, text, sizeof(text), 0), 6);
	assert_int_equal(recv(scene.server, text, sizeof(text), 0), -1);
	assert_int_equal(relay_read_first(&scene.relay, scene.buffer, RELAY_BUFFER), 5);
	assert_int_equal(settle(&scene, 0), RELAY_WAITS);
	assert_int_equal(recv(scene.server, text, sizeof(text), 0), -1);
	relay_release(&scene.relay);
	assert_int_equal(send(scene.client, " world", 6, 0), 6);
	assert_int_equal(settle(&scene, 1000), RELAY_WAITS);
	assert_int_equal(recv(scene.server, text, sizeof(text), 0), 11);
	assert_memory_equal(text, "hello world", 11);
	assert_int_equal(scene.relay.ends[RELAY_LOCAL].bytes, 11);
	scene_close(&scene);
}

static void first_bytes_are_bounded(void **state)
{
	static char block[65536];
	struct scene scene;
	size_t got = 0;
	int r = 0;

	(void)state;
	scene_open(&scene, true);
	for (int i = 0; i < 1000 && r != -ENOSPC; i++) {
		(void)!send(scene.client, block, sizeof(block), 0);
		r = relay_read_first(&scene.relay, scene.buffer, RELAY_BUFFER);
		got += r > 0 ? (size_t)r : 0;
		settle(&scene, 1);
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(got, scene.relay.first.max);
	scene_close(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways),
		cmocka_unit_test(half_close_each_way),
		cmocka_unit_test(reset_is_passed_on),
		cmocka_unit_test(a_slow_receiver),
		cmocka_unit_test(an_end_behind_a_jam),
		cmocka_unit_test(held_until_released),
		cmocka_unit_test(first_bytes_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
