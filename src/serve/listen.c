#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define BACKLOG       4096
#define SYSTEMD_FIRST 3

struct place {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
	socklen_t len;
};

static int parse_unix(const char *path, struct place *ret, struct err *err)
{
	struct place place = { .un = { .sun_family = AF_UNIX }, .len = sizeof(place.un) };

	if (path[0] != '/' || strlen(path) >= sizeof(place.un.sun_path))
		return err_set(err, -EINVAL,
			       "listen: \"%s\" is not an absolute path that fits a socket", path);
	snprintf(place.un.sun_path, sizeof(place.un.sun_path), "%s", path);
	*ret = place;
	return 0;
}

static int parse_place(const char *text, struct place *ret, struct err *err)
{
	const char *colon = strrchr(text, ':');
	struct place place = { 0 };
	char host[64] = "";
	uint64_t port;

	if (str_starts(text, "unix:"))
		return parse_unix(text + 5, ret, err);
	if (!colon || parse_count(colon + 1, &port, NULL) < 0 || port > 65535 ||
	    (size_t)(colon - text) >= sizeof(host))
		return err_set(err, -EINVAL,
			       "listen: \"%s\" is not ADDRESS:PORT (try 127.0.0.1:7070)", text);
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (!host[0] || str_equal(host, "localhost"))
		snprintf(host, sizeof(host), "127.0.0.1");
	if (host[0] == '[' && str_ends(host, "]")) {
		host[strlen(host) - 1] = '\0';
		place.in6.sin6_family = AF_INET6;
		place.in6.sin6_port = htons((uint16_t)port);
		place.len = sizeof(place.in6);
		if (inet_pton(AF_INET6, host + 1, &place.in6.sin6_addr) == 1) {
			*ret = place;
			return 0;
		}
	} else {
		place.in.sin_family = AF_INET;
		place.in.sin_port = htons((uint16_t)port);
		place.len = sizeof(place.in);
		if (inet_pton(AF_INET, host, &place.in.sin_addr) == 1) {
			*ret = place;
			return 0;
		}
	}
	return err_set(err, -EINVAL, "listen: \"%s\" is not an address (names are not looked up)",
		       host);
}

/* A socket that nobody listens at any more is left from one that was killed. */
static void remove_stale(const struct place *place)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (lstat(place->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return;
	if (connect(fd, &place->any, place->len) < 0 && errno == ECONNREFUSED)
		(void)!unlink(place->un.sun_path);
}

static int make_socket(const char *text, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	struct place place = { 0 };
	const int on = 1;
	mode_t mask;
	int r = parse_place(text, &place, err);

	if (r < 0)
		return r;
	fd = socket(place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, -errno, "cannot make a socket");
	if (place.any.sa_family == AF_UNIX)
		remove_stale(&place);
	else
		(void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Who may connect to a socket of the file system is who may write it. */
	mask = umask(0177);
	r = bind(fd, &place.any, place.len) < 0 ? -errno : 0;
	umask(mask);
	if (r == -EADDRINUSE)
		return err_set(err, r,
			       "listen: somebody listens at \"%s\" already (another brig serve? "
			       "--listen takes another port)",
			       text);
	if (r < 0)
		return err_errno(err, r, "cannot listen at \"%s\"", text);
	return take_fd(&fd);
}

/* What systemd left for us, and for us alone. */
static int take_handed_over(struct err *err)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	int is_listening = 0;
	socklen_t len = sizeof(is_listening);
	uint64_t n;

	if (!pid || !count || parse_count(pid, &n, NULL) < 0 || n != (uint64_t)getpid())
		return -ENOENT;
	if (!str_equal(count, "1"))
		return err_set(err, -EINVAL,
			       "listen: %s sockets were handed over, and one is served", count);
	if (getsockopt(SYSTEMD_FIRST, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) < 0 ||
	    !is_listening)
		return err_set(err, -EINVAL, "listen: what was handed over does not listen");
	(void)!fcntl(SYSTEMD_FIRST, F_SETFD, FD_CLOEXEC);
	(void)!fd_set_nonblock(SYSTEMD_FIRST, true);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return SYSTEMD_FIRST;
}

static int describe(int fd, char *text, bool *ret_is_loopback, struct err *err)
{
	struct place place = { .len = sizeof(place) };
	char host[INET6_ADDRSTRLEN];

	place.len = sizeof(struct sockaddr_un);
	if (getsockname(fd, &place.any, &place.len) < 0)
		return err_errno(err, -errno, "cannot tell where it listens");
	switch (place.any.sa_family) {
	case AF_UNIX:
		snprintf(text, LISTEN_TEXT_SIZE, "unix:%s", place.un.sun_path);
		*ret_is_loopback = true;
		return 0;
	case AF_INET:
		inet_ntop(AF_INET, &place.in.sin_addr, host, sizeof(host));
		*ret_is_loopback = (ntohl(place.in.sin_addr.s_addr) >> 24) == 127;
		snprintf(text, LISTEN_TEXT_SIZE, "%s:%u", host, ntohs(place.in.sin_port));
		return 0;
	case AF_INET6:
		inet_ntop(AF_INET6, &place.in6.sin6_addr, host, sizeof(host));
		*ret_is_loopback = IN6_IS_ADDR_LOOPBACK(&place.in6.sin6_addr);
		snprintf(text, LISTEN_TEXT_SIZE, "[%s]:%u", host, ntohs(place.in6.sin6_port));
		return 0;
	default:
		return err_set(err, -EINVAL, "listen: a socket of a kind that is not known");
	}
}

int listen_open(const char *text, char ret_address[static LISTEN_TEXT_SIZE], bool *ret_is_loopback,
		struct err *err)
{
	_cleanup_close_ int fd = take_handed_over(err);
	char address[LISTEN_TEXT_SIZE];
	int r;

	if (fd == -ENOENT)
		fd = make_socket(text, err);
	if (fd < 0)
		return fd;
	r = describe(fd, address, ret_is_loopback, err);
	if (r < 0)
		return r;
	if (listen(fd, BACKLOG) < 0)
		return err_errno(err, -errno, "cannot listen at \"%s\"", text);
	memcpy(ret_address, address, sizeof(address));
	return take_fd(&fd);
}

void listen_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -EBADF;
	size_t len = path ? strlen(path) : 0;

	if (len == 0 || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}
