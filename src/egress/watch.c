#include "egress/watch.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

int watch_add(int epoll, int fd, uint32_t events, struct watch watch)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)watch.generation << 32 | (uint64_t)watch.kind << 24 |
			    (watch.index & 0xffffff),
	};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void watch_remove(int epoll, int fd)
{
	(void)!epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

struct watch watch_of(uint64_t data)
{
	return (struct watch){ .kind = data >> 24 & 0xff,
			       .index = data & 0xffffff,
			       .generation = (uint32_t)(data >> 32) };
}
