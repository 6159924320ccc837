#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/server_internal.h"
#include "http/tls.h"

#define ACCEPT_AT_ONCE  64
#define ACCEPT_AGAIN_MS 100

int server_new(struct loop *loop, const struct server_setup *setup, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->setup = *setup;
	server->limit = SERVER_CONNECTIONS;
	server->memory = SERVER_MEMORY;
	*ret_server = server;
	return 0;
}

void server_set_limit(struct server *server, size_t limit)
{
	server->limit = limit;
}

void server_set_memory(struct server *server, size_t bytes)
{
	server->memory = bytes;
}

size_t server_held(const struct server *server)
{
	return server->held;
}

/* --- connections that come --- */

static void listen_all(struct server *server, uint32_t events)
{
	for (size_t i = 0; i < server->listener_count; i++)
		(void)!loop_change(server->loop, server->listeners[i].watch, events);
}

static void on_accept_again(void *of)
{
	struct server *server = of;

	server->accept_again = 0;
	listen_all(server, EPOLLIN);
}

/* Whoever wants to connect waits in the kernel's queue: for a while, or until a connection has ended. */
static void pause_accept(struct server *server)
{
	if (server->accept_again || loop_after(server->loop, ACCEPT_AGAIN_MS, on_accept_again,
					       server, &server->accept_again) < 0)
		return;
	listen_all(server, 0);
}

void server_look_roomy(struct server *server)
{
	if (!server->accept_again)
		return;
	server->accept_again = loop_cancel(server->loop, server->accept_again);
	listen_all(server, EPOLLIN);
}

static void describe(const struct sockaddr_storage *address, char *text, size_t size)
{
	const struct sockaddr_in6 *six = (const void *)address;
	const struct sockaddr_in *four = (const void *)address;
	char host[INET6_ADDRSTRLEN];

	if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, sizeof(host));
		snprintf(text, size, "%s:%u", host, ntohs(six->sin6_port));
	} else if (address->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
		snprintf(text, size, "[%s]:%u", host, ntohs(six->sin6_port));
	} else if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
		snprintf(text, size, "%s:%u", host, ntohs(four->sin_port));
	} else {
		snprintf(text, size, "unix");
	}
}

/* Room for one more: the connection that was idle for the longest time goes. */
static bool make_room(struct server *server)
{
	if (!server->idle.first)
		return false;
	connection_free(server->idle.first);
	return true;
}

static void turn_away(int fd, bool is_secure)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
				   "Content-Type: application/json\r\n"
				   "Content-Length: 47\r\n"
				   "Retry-After: 1\r\n"
				   "Connection: close\r\n\r\n"
				   "{\"code\":503,\"message\":\"too many connections\"}\r\n";

	if (!is_secure)
		(void)!send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)!shutdown(fd, SHUT_WR);
	fd_close(fd);
}

/* Small answers go at once; and whoever is gone without a word is noticed after two minutes. */
static void set_up_tcp(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 }, { IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		(void)!setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				  sizeof(options[i].value));
}

static void welcome(struct listener *listener, int fd, const struct sockaddr_storage *address)
{
	struct server *server = listener->server;
	void *session = NULL;
	char peer[64];

	if (server->connection_count >= server->limit && !make_room(server)) {
		turn_away(fd, listener->tls != NULL);
		return;
	}
	if (address->ss_family != AF_UNIX)
		set_up_tcp(fd);
	describe(address, peer, sizeof(peer));
	if (listener->tls && tls_accept(listener->tls, fd, &session) < 0) {
		fd_close(fd);
		return;
	}
	if (connection_new(server, fd, session, peer) < 0) {
		tls_end(session);
		fd_close(fd);
	}
}

static void on_accept(void *of, uint32_t events)
{
	struct listener *listener = of;
	struct server *server = listener->server;

	(void)events;
	for (size_t i = 0; i < ACCEPT_AT_ONCE && !server->is_draining; i++) {
		struct sockaddr_storage address = { .ss_family = AF_UNIX };
		socklen_t len = sizeof(address);
		int fd = accept4(listener->fd, (struct sockaddr *)&address, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(listener, fd, &address);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		/*
		 * Out of descriptors or memory: an idle connection gives up its own. The kernel says so
		 * before it looks whether anybody waits, so only where it said that somebody does.
		 */
		if (errno != EAGAIN && errno != EWOULDBLOCK && i == 0 && !make_room(server))
			pause_accept(server);
		return;
	}
}

int server_listen(struct server *server, int listener, struct tls *tls)
{
	struct listener *l = &server->listeners[server->listener_count];
	int r;

	if (server->listener_count == LISTENERS_MAX)
		return -ENOSPC;
	r = fd_set_nonblock(listener, 1);
	if (r < 0)
		return r;
	r = loop_watch(server->loop, listener, EPOLLIN, on_accept, l, &l->watch);
	if (r < 0)
		return r;
	l->server = server;
	l->fd = listener;
	l->tls = tls_ref(tls);
	server->listener_count++;
	return 0;
}

void server_set_tls(struct server *server, struct tls *tls)
{
	for (size_t i = 0; i < server->listener_count; i++) {
		if (!server->listeners[i].tls)
			continue;
		tls_free(server->listeners[i].tls);
		server->listeners[i].tls = tls_ref(tls);
	}
}

/* --- the end --- */

static void stop_listening(struct server *server)
{
	server->accept_again = loop_cancel(server->loop, server->accept_again);
	for (size_t i = 0; i < server->listener_count; i++) {
		struct listener *l = &server->listeners[i];

		l->watch = loop_forget(server->loop, l->watch);
		l->fd = fd_close(l->fd);
		tls_free(l->tls);
	}
	server->listener_count = 0;
}

static void on_drained(void *of)
{
	struct server *server = of;
	loop_call drained = server->drained;

	server->drained_soon = 0;
	server->drained = NULL;
	if (drained)
		drained(server->drained_of);
}

void server_look_drained(struct server *server)
{
	if (server->is_draining && server->drained && server->exchange_count == 0 &&
	    !server->drained_soon)
		if (loop_soon(server->loop, on_drained, server, &server->drained_soon) < 0)
			on_drained(server);
}

void server_drain(struct server *server, loop_call drained, void *of)
{
	server->is_draining = true;
	server->drained = drained;
	server->drained_of = of;
	stop_listening(server);
	for (struct connection *c = server->busy.first; c; c = c->next)
		c->closes = true;
	for (struct connection *c = server->idle.first, *next; c; c = next) {
		next = c->next;
		c->closes = true;
		if (!c->is_working)
			connection_free(c);
	}
	server_look_drained(server);
}

size_t server_connections(const struct server *server)
{
	return server->connection_count;
}

void server_free(struct server *server)
{
	if (!server)
		return;
	server->is_draining = true;
	server->drained = NULL;
	server->drained_soon = loop_cancel(server->loop, server->drained_soon);
	stop_listening(server);
	while (server->busy.first)
		connection_free(server->busy.first);
	while (server->idle.first)
		connection_free(server->idle.first);
	server->soon = loop_cancel(server->loop, server->soon);
	while (server->spare_inners) {
		struct inner *i = server->spare_inners;

		server->spare_inners = i->next_spare;
		buf_done(&i->headers);
		free(i->text);
		free(i);
	}
	while (server->spare_out_count > 0)
		free(server->spare_outs[--server->spare_out_count]);
	free(server);
}
