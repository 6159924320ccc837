#include "jail/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/sys.h"

#define RESOLVER_PORT  53
#define RESOLVER_QUEUE 64

static struct sockaddr_in address_of(const char *text, unsigned short port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static int add_address(int fd, const char *text)
{
	struct ifreq request = { .ifr_name = "lo:1" };
	struct sockaddr_in address = address_of(text, 0), mask = address_of("255.255.255.255", 0);

	memcpy(&request.ifr_addr, &address, sizeof(address));
	if (ioctl(fd, SIOCSIFADDR, &request) < 0)
		return -errno;
	memcpy(&request.ifr_netmask, &mask, sizeof(mask));
	return ioctl(fd, SIOCSIFNETMASK, &request) < 0 ? -errno : 0;
}

static int bind_resolver(int type)
{
	struct sockaddr_in address = address_of("127.0.0.1", RESOLVER_PORT);
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, RESOLVER_QUEUE) < 0))
		return -errno;
	return take_fd(&fd);
}

int network_make(const char *own_address, struct network *ret_network)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	_cleanup_close_ int fd = -EBADF, datagrams = -EBADF, listener = -EBADF;
	int r = sys_unshare(CLONE_NEWNET);

	if (r < 0)
		return r;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return -errno;
	if (own_address) {
		r = add_address(fd, own_address);
		if (r < 0)
			return r;
		datagrams = bind_resolver(SOCK_DGRAM);
		listener = datagrams < 0 ? datagrams : bind_resolver(SOCK_STREAM);
		if (listener < 0)
			return listener;
	}
	*ret_network = (struct network){ take_fd(&datagrams), take_fd(&listener) };
	return 0;
}

void network_open_low_ports(int proc)
{
	(void)!file_write_at(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0");
}
