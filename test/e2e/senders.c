/*
 * senders.c - every way to send a packet to an address, and to be fast about changing one's mind
 *
 *	senders spell ADDRESS           each way once; prints its name and what became of it
 *	senders race ROUNDS ADDRESS     the same while one thread rewrites the address and the message, and
 *	                                another puts other sockets under the number that is used
 *	senders pair BYTES              messages with descriptors between two processes
 *
 * ADDRESS must not be reached. Whether it was, its owner says.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BAD_PORT     9
#define OPEN_PORT    7003 /* a server listens there */
#define SLOT         100  /* the number that is used in the race */

static struct sockaddr_in bad;
static struct sockaddr_in6 bad6;

static void set_bad(const char *text)
{
	bad = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(BAD_PORT) };
	inet_pton(AF_INET, text, &bad.sin_addr);
	bad6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(BAD_PORT) };
	bad6.sin6_addr.s6_addr[10] = bad6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&bad6.sin6_addr.s6_addr[12], &bad.sin_addr, 4);
}

/* A message to an address, perhaps with IP_PKTINFO. */
struct parcel {
	struct mmsghdr many[2];
	struct iovec data;
	struct sockaddr_in to;
	char control[CMSG_SPACE(sizeof(struct in_pktinfo))] __attribute__((aligned(8)));
};

static void pack(struct parcel *p, const struct sockaddr_in *to, bool has_control)
{
	struct msghdr *m = &p->many[0].msg_hdr;

	memset(p, 0, sizeof(*p));
	p->to = *to;
	p->data = (struct iovec){ (char *)(uintptr_t) "stolen", 6 };
	*m = (struct msghdr){ .msg_name = &p->to,
			      .msg_namelen = sizeof(p->to),
			      .msg_iov = &p->data,
			      .msg_iovlen = 1 };
	if (has_control) {
		struct in_pktinfo info = { .ipi_ifindex = 2 };

		m->msg_control = p->control;
		m->msg_controllen = sizeof(p->control);
		*CMSG_FIRSTHDR(m) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(info)),
						      .cmsg_level = IPPROTO_IP,
						      .cmsg_type = IP_PKTINFO };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(m)), &info, sizeof(info));
	}
	p->many[1] = p->many[0];
}

static int udp(void)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

static int by_sendto(void)
{
	return (int)sendto(udp(), "stolen", 6, 0, (struct sockaddr *)&bad, sizeof(bad));
}

static int by_sendto6(void)
{
	return (int)sendto(socket(AF_INET6, SOCK_DGRAM, 0), "stolen", 6, 0,
			   (struct sockaddr *)&bad6, sizeof(bad6));
}

static int by_sendmsg(void)
{
	struct parcel p;

	pack(&p, &bad, false);
	return (int)sendmsg(udp(), &p.many[0].msg_hdr, 0);
}

static int by_sendmsg_control(void)
{
	struct parcel p;

	pack(&p, &bad, true);
	return (int)sendmsg(udp(), &p.many[0].msg_hdr, 0);
}

static int by_control_on_connected(void)
{
	struct sockaddr_in names = bad;
	struct parcel p;
	int fd = udp();

	names.sin_port = htons(53);
	if (connect(fd, (struct sockaddr *)&names, sizeof(names)) < 0)
		return -1;
	pack(&p, &bad, true);
	p.many[0].msg_hdr.msg_name = NULL;
	p.many[0].msg_hdr.msg_namelen = 0;
	return (int)sendmsg(fd, &p.many[0].msg_hdr, 0);
}

static int by_sendmmsg(void)
{
	struct parcel p;

	pack(&p, &bad, false);
	return sendmmsg(udp(), p.many, 2, 0);
}

static int by_connected(void)
{
	int fd = udp();

	if (connect(fd, (struct sockaddr *)&bad, sizeof(bad)) < 0)
		return -1;
	return (int)write(fd, "stolen", 6);
}

static int by_duplicate(void)
{
	int fd = udp();

	return (int)sendto(dup(fd), "stolen", 6, MSG_DONTWAIT, (struct sockaddr *)&bad,
			   sizeof(bad));
}

/* After a connection that was allowed has ended. */
static int by_disconnected(void)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct sockaddr_in names = bad;
	int fd = udp();

	names.sin_port = htons(53);
	if (connect(fd, (struct sockaddr *)&names, sizeof(names)) < 0 ||
	    connect(fd, &nobody, sizeof(nobody)) < 0)
		return -1;
	return (int)sendto(fd, "stolen", 6, 0, (struct sockaddr *)&bad, sizeof(bad));
}

static int by_fast_open(void)
{
	struct sockaddr_in to = bad;

	to.sin_port = htons(OPEN_PORT);
	return (int)sendto(socket(AF_INET, SOCK_STREAM, 0), "stolen", 6, MSG_FASTOPEN,
			   (struct sockaddr *)&to, sizeof(to));
}

/* The option puts the connection off until the first bytes, which may say another address. */
static int by_fast_open_connect(void)
{
	struct sockaddr_in to = bad;
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	to.sin_port = htons(OPEN_PORT);
	if (setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof(on)) < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	return (int)sendto(fd, "stolen", 6, 0, (struct sockaddr *)&to, sizeof(to));
}

static int by_connect(void)
{
	struct sockaddr_in to = bad;

	to.sin_port = htons(OPEN_PORT);
	return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof(to));
}

static int by_listening(void)
{
	return listen(socket(AF_INET, SOCK_STREAM, 0), 1);
}

static int by_binding(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(4321) };

	return bind(udp(), (struct sockaddr *)&any, sizeof(any));
}

static int by_device(void)
{
	return setsockopt(udp(), SOL_SOCKET, SO_BINDTODEVICE, "wire", 5);
}

static int by_source_route(void)
{
	static const unsigned char route[] = { 131, 7, 4, 10, 0, 0, 1, 0 };

	return setsockopt(socket(AF_INET, SOCK_STREAM, 0), IPPROTO_IP, IP_OPTIONS, route,
			  sizeof(route));
}

static int by_pair_with_a_name(void)
{
	struct parcel p;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		return -1;
	pack(&p, &bad, false);
	return (int)sendmsg(pair[0], &p.many[0].msg_hdr, 0);
}

static const struct {
	const char *name;
	int (*run)(void);
} ways[] = {
	{ "sendto", by_sendto },
	{ "sendto6", by_sendto6 },
	{ "sendmsg", by_sendmsg },
	{ "sendmsg+control", by_sendmsg_control },
	{ "connected+control", by_control_on_connected },
	{ "sendmmsg", by_sendmmsg },
	{ "connected", by_connected },
	{ "duplicate", by_duplicate },
	{ "disconnected", by_disconnected },
	{ "fastopen", by_fast_open },
	{ "fastopen-connect", by_fast_open_connect },
	{ "connect", by_connect },
	{ "listen", by_listening },
	{ "bind", by_binding },
	{ "device", by_device },
	{ "route", by_source_route },
	{ "pair+name", by_pair_with_a_name },
};

static int spell(void)
{
	for (size_t i = 0; i < COUNT(ways); i++) {
		int r = ways[i].run();

		printf("%s %s\n", ways[i].name, r < 0 ? strerrorname_np(errno) : "done");
	}
	return 0;
}

static atomic_bool is_over;
static struct parcel changing;
static volatile struct sockaddr_in address;

static void *rewrite(void *unused)
{
	const uint16_t ports[] = { htons(53), htons(BAD_PORT), htons(80), htons(OPEN_PORT) };
	unsigned int i = 0;

	while (!is_over) {
		struct msghdr *m = &changing.many[0].msg_hdr;

		address.sin_port = ports[i % COUNT(ports)];
		changing.to.sin_port = ports[i++ % COUNT(ports)];
		*(struct sockaddr_in *volatile *)&m->msg_name = i % 3 ? &changing.to : NULL;
		*(volatile socklen_t *)&m->msg_namelen = i % 3 ? sizeof(changing.to) : 0;
		*(volatile size_t *)&m->msg_controllen = i % 5 ? 0 : sizeof(changing.control);
	}
	return unused;
}

static void *exchange(void *unused)
{
	int pair[2], fds[6];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0)
		return unused;
	fds[0] = udp();
	fds[1] = pair[0];
	fds[2] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	fds[3] = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	fds[4] = socket(AF_INET6, SOCK_DGRAM, 0);
	fds[5] = open("/dev/null", O_RDWR);
	for (unsigned int i = 0; !is_over; i++) {
		dup2(fds[i % COUNT(fds)], SLOT);
		if (i % 64 == 0) {
			close(fds[2]);
			fds[2] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		}
	}
	return unused;
}

static int race(long rounds)
{
	pthread_t threads[2];
	long done[5] = { 0 };

	address = bad;
	pack(&changing, &bad, true);
	dup2(udp(), SLOT);
	if (pthread_create(&threads[0], NULL, rewrite, NULL) ||
	    pthread_create(&threads[1], NULL, exchange, NULL))
		return 2;
	for (long i = 0; i < rounds; i++) {
		struct sockaddr *to = (struct sockaddr *)(uintptr_t)&address;

		done[0] += sendto(SLOT, "stolen", 6, MSG_DONTWAIT | MSG_NOSIGNAL, to,
				  sizeof(address)) >= 0;
		done[1] +=
			sendmsg(SLOT, &changing.many[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
		done[2] += sendmmsg(SLOT, changing.many, 2, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
		done[3] += connect(SLOT, to, sizeof(address)) >= 0;
		done[4] += send(SLOT, "stolen", 6, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
		(void)!bind(SLOT, to, sizeof(address));
		(void)!listen(SLOT, 1);
	}
	is_over = true;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	printf("sent %ld %ld %ld %ld %ld\n", done[0], done[1], done[2], done[3], done[4]);
	return 0;
}

/* A large message with the end of a pipe in it, which waits for its reader; then a broken pair. */
static int pair(size_t len, int type)
{
	char *data = calloc(1, len), control[CMSG_SPACE(sizeof(int))];
	struct iovec piece = { data, len };
	struct msghdr message = { .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int ends[2], pipe_ends[2], fd;
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	if (!data || socketpair(AF_UNIX, type, 0, ends) < 0 || pipe(pipe_ends) < 0)
		return 2;
	memset(data, 'x', len);
	memset(control, 0, sizeof(control));
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						     .cmsg_level = SOL_SOCKET,
						     .cmsg_type = SCM_RIGHTS };
	pid = fork();
	if (pid == 0) {
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &pipe_ends[1], sizeof(int));
		_exit(sendmsg(ends[0], &message, 0) == (ssize_t)len ? 0 : errno);
	}
	usleep(200000); /* the writer waits now, if it must */
	n = recvmsg(ends[1], &message, 0);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	for (got = n > 0 ? (size_t)n : 0; got < len && n > 0; got += (size_t)n)
		n = recv(ends[1], data, len, 0);
	close(pipe_ends[1]);
	printf("got %zu, passed %d\n", got, (int)write(fd, "through", 7));
	waitpid(pid, &fd, 0);
	printf("status %d, piped %d\n", fd, (int)read(pipe_ends[0], data, 7));
	close(ends[1]);
	message.msg_control = NULL;
	message.msg_controllen = 0;
	n = sendmsg(ends[0], &message, MSG_NOSIGNAL);
	printf("broken %d %s\n", (int)n, strerrorname_np(errno));
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "spell") == 0) {
		set_bad(argv[2]);
		return spell();
	}
	if (argc == 4 && strcmp(argv[1], "race") == 0) {
		set_bad(argv[3]);
		return race(atol(argv[2]));
	}
	if (argc == 3 && strcmp(argv[1], "pair") == 0)
		return pair((size_t)atol(argv[2]), SOCK_STREAM);
	if (argc == 3 && strcmp(argv[1], "packet") == 0)
		return pair((size_t)atol(argv[2]), SOCK_SEQPACKET);
	return 2;
}
