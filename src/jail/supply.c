#include "jail/supply.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static int give(int channel, struct supply_order order)
{
	int made[SUPPLY_MAX];
	size_t count = 0;
	int r;

	while (count < SUPPLY_MAX) {
		int fd = socket(order.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			break;
		made[count++] = fd;
	}
	r = fd_send(channel, &order, sizeof(order), made, count);
	while (count > 0)
		close(made[--count]);
	return r;
}

int supply_give(int channel)
{
	struct supply_order order;
	ssize_t n;

	while ((n = recv(channel, &order, sizeof(order), MSG_DONTWAIT)) == sizeof(order)) {
		int r = order.family == AF_INET || order.family == AF_INET6 ? give(channel, order)
									    : -EINVAL;

		/* Who does not read what he asked for asks again. */
		if (r < 0 && r != -EAGAIN)
			return -EPIPE;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}
