#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/park.h"

static int plain_socket(void *ctx, int family, int type)
{
	int fd = socket(family, type, 0);

	(void)ctx;
	return fd < 0 ? -errno : fd;
}

static struct park park;

static int set_up(void **state)
{
	(void)state;
	park_init(&park, plain_socket, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	park_done(&park);
	return 0;
}

static int events_of(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	assert_true(poll(&p, 1, 0) >= 0);
	return p.revents;
}

static bool has_ipv6(void)
{
	union sock_address here = { .v6 = { .sin6_family = AF_INET6,
					    .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && bind(fd, &here.any, sizeof(here.v6)) == 0;
}

static void exchange(int a, int b)
{
	char text[8] = "";

	assert_int_equal(send(a, "ping", 4, 0), 4);
	assert_int_equal(recv(b, text, sizeof(text), 0), 4);
	assert_memory_equal(text, "ping", 4);
	assert_int_equal(send(b, "pong", 4, 0), 4);
	assert_int_equal(recv(a, text, sizeof(text), 0), 4);
	assert_memory_equal(text, "pong", 4);
}

/* Parks A and completes it; B. */
static int whole_way(int a, bool wants_v6)
{
	_cleanup_close_ int spare = -EBADF;
	struct parked parked;
	int b = -EBADF;

	assert_int_equal(park_reserve(&park, a, wants_v6, &spare), 0);
	assert_int_equal(park_enter(&park, a, wants_v6, &parked), 0);
	assert_int_equal(sock_state(a), TCP_SYN_SENT);
	assert_int_equal(events_of(a), 0);
	assert_true(park_owns(&park, &parked.place->address));
	assert_int_equal(park_leave(&park, a, &parked, &spare, &b), 0);
	for (int i = 0; i < 1000 && park_check(a, b, &parked) == -EINPROGRESS; i++)
		usleep(1000);
	assert_int_equal(park_check(a, b, &parked), 0);
	return b;
}

static void of_every_kind(void **state)
{
	static const struct {
		int family;
		bool only, wants_v6, is_blocking, needs_v6;
	} kinds[] = {
		{ AF_INET, false, false, false, false }, { AF_INET, false, false, true, false },
		{ AF_INET6, false, false, false, true }, { AF_INET6, false, true, true, true },
		{ AF_INET6, true, true, false, true },   { AF_INET6, true, false, false, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_close_ int a = -EBADF, b = -EBADF;
		int flags;

		if (kinds[i].needs_v6 && !has_ipv6())
			continue;
		a = socket(kinds[i].family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(a >= 0);
		if (kinds[i].only)
			assert_int_equal(sock_set(a, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
		assert_int_equal(fd_set_nonblock(a, !kinds[i].is_blocking), 0);
		flags = fcntl(a, F_GETFL);
		b = whole_way(a, kinds[i].wants_v6);
		assert_int_equal(fcntl(a, F_GETFL), flags);
		assert_int_equal(events_of(a), POLLOUT);
		exchange(a, b);
	}
}

/* The socket is the caller's own: what was set before and who else holds it does not matter. */
static void keeps_what_was_there(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	_cleanup_close_ int twin = dup(a), epoll = epoll_create1(EPOLL_CLOEXEC), b = -EBADF;
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	union sock_address bound = { .v4 = { .sin_family = AF_INET } }, name;

	(void)state;
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, a, &event), 0);
	assert_int_equal(bind(a, &bound.any, sizeof(bound.v4)), 0);
	assert_int_equal(sock_name(a, &bound), 0);
	assert_true(epoll_wait(epoll, &event, 1, 0) >= 0); /* a fresh socket hangs up */
	b = whole_way(a, false);
	assert_int_equal(epoll_wait(epoll, &event, 1, 1000), 1);
	assert_true(event.events & EPOLLOUT);
	assert_int_equal(sock_name(a, &name), 0);
	assert_int_equal(name.v4.sin_port, bound.v4.sin_port);
	exchange(twin, b);
}

static void refused_by_shutdown(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct parked parked;
	int error = 0, spare = -EBADF, b = -EBADF;

	(void)state;
	assert_int_equal(park_enter(&park, a, false, &parked), 0);
	assert_int_equal(shutdown(a, SHUT_RDWR), 0);
	assert_int_equal(sock_get(a, SOL_SOCKET, SO_ERROR, &error), 0);
	assert_int_equal(error, ECONNRESET);
	assert_int_equal(park_leave(&park, a, &parked, &spare, &b), -ECONNABORTED);
	assert_int_equal(b, -EBADF);
}

/* A was shut down while it was parked, and somebody else has its port: B meets a stranger. */
static void not_with_a_stranger(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	_cleanup_close_ int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), b = -EBADF;
	struct parked parked;

	(void)state;
	assert_int_equal(park_enter(&park, a, false, &parked), 0);
	assert_int_equal(shutdown(a, SHUT_RDWR), 0);
	assert_int_equal(bind(stranger, &parked.own.any, sizeof(parked.own.v4)), 0);
	assert_int_equal(listen(stranger, 5), 0);
	b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(b, &parked.own.any, sizeof(parked.own.v4)), 0);
	assert_int_equal(park_check(a, b, &parked), -ECONNABORTED);
}

static void states_of_the_caller(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	_cleanup_close_ int b = -EBADF, udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	_cleanup_close_ int pair = -EBADF, spare = -EBADF;
	struct parked parked;

	(void)state;
	assert_int_equal(park_enter(&park, a, false, &parked), 0);
	assert_int_equal(park_enter(&park, a, false, &parked), -EALREADY);
	assert_int_equal(park_leave(&park, a, &parked, &spare, &b), 0);
	for (int i = 0; i < 1000 && park_check(a, b, &parked) == -EINPROGRESS; i++)
		usleep(1000);
	/* The first one after the connection is there learns that it is; as with connect(). */
	assert_int_equal(park_enter(&park, a, false, &parked), -ECONNREFUSED);
	assert_int_equal(park_enter(&park, a, false, &parked), -EISCONN);
	assert_true(park_enter(&park, udp, false, &parked) < 0);
	pair = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(park_enter(&park, pair, false, &parked), -ENOTSOCK);
	assert_int_equal(park_enter(&park, -1, false, &parked), -EBADF);
}

static int no_socket(void *ctx, int family, int type)
{
	(void)ctx;
	(void)family;
	(void)type;
	return -EMFILE;
}

static void without_sockets(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct park poor;
	struct parked parked;

	(void)state;
	park_init(&poor, no_socket, NULL);
	assert_int_equal(park_enter(&poor, a, false, &parked), -EMFILE);
	park_done(&poor);
}

/* The host forbids Fast Open: flag and time-out of the socket are as before afterwards. */
static void without_fastopen(void **state)
{
	setenv("BRIG_TEST_FAIL", "fastopen=95", 1);
	of_every_kind(state);
	unsetenv("BRIG_TEST_FAIL");
}

/* Nobody gets in by himself: the place's queue stays full. */
static void nobody_else(void **state)
{
	_cleanup_close_ int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	_cleanup_close_ int other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct parked parked;

	(void)state;
	assert_int_equal(park_enter(&park, a, false, &parked), 0);
	for (int i = 0; i < 8; i++) {
		_cleanup_close_ int more =
			socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(more, &parked.place->address.any,
					 sizeof(parked.place->address.v4)),
				 -1);
		assert_int_equal(errno, EINPROGRESS);
		assert_int_equal(events_of(more), 0);
	}
	assert_int_equal(connect(other, &parked.own.any, sizeof(parked.own.v4)), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_every_kind, set_up, tear_down),
		cmocka_unit_test_setup_teardown(keeps_what_was_there, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused_by_shutdown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_with_a_stranger, set_up, tear_down),
		cmocka_unit_test_setup_teardown(states_of_the_caller, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_sockets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_fastopen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_else, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
