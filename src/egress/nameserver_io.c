#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "base/clock.h"
#include "egress/nameserver_internal.h"

#define DATAGRAMS_PER_TURN 32

int nameserver_serve(struct nameserver *server, int datagrams, int listener)
{
	const struct {
		int fd, *place;
		enum watch_kind kind;
	} sockets[] = {
		{ datagrams, &server->datagrams, WATCH_DATAGRAM },
		{ listener, &server->listener, WATCH_LISTENER },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		fd_closep(sockets[i].place);
		*sockets[i].place = sockets[i].fd;
		if (sockets[i].fd >= 0 && r == 0)
			r = fd_set_nonblock(sockets[i].fd, 1);
		if (sockets[i].fd >= 0 && r == 0)
			r = watch_add(server->epoll, sockets[i].fd, EPOLLIN,
				      (struct watch){ .kind = sockets[i].kind });
	}
	return r;
}

int nameserver_socket(const struct nameserver *server, bool is_datagram)
{
	return is_datagram ? server->datagrams : server->listener;
}

static void client_end(struct client *client)
{
	fd_closep(&client->fd);
	client->generation++;
}

static void client_write(struct client *client)
{
	while (client->left > 0) {
		ssize_t n = send(client->fd, client->out + client->sent, client->left,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			client_end(client);
			return;
		}
		client->sent += (size_t)n;
		client->left -= (size_t)n;
	}
	client->is_waiting = false;
	client->deadline = clock_ms() + CLIENT_MS;
}

static void client_read(struct nameserver *server, struct client *client);

static void reply_stream(struct nameserver *server, const struct asker *asker,
			 const unsigned char *message, size_t len)
{
	struct client *client = &server->clients[asker->client];

	if (client->fd < 0 || client->generation != asker->generation)
		return;
	dns_tcp_prefix(len, client->out);
	memcpy(client->out + 2, message, len);
	client->sent = 0;
	client->left = len + 2;
	client_write(client);
	if (!client->is_reading)
		client_read(server, client);
}

void nameserver_reply(struct nameserver *server, const struct asker *asker,
		      const struct dns_query *query, const struct dns_reply *reply)
{
	unsigned char message[DNS_REPLY_MAX];
	size_t limit = asker->is_tcp ? sizeof(message) : MIN(query->udp_size, sizeof(message));
	int len = dns_reply(query, reply, message, limit);

	if (len < 0)
		return;
	if (asker->is_tcp)
		reply_stream(server, asker, message, (size_t)len);
	else /* a datagram that is lost is asked for again */
		(void)!sendto(server->datagrams, message, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL,
			      (const struct sockaddr *)&asker->peer, asker->peer_len);
}

static void datagram_event(struct nameserver *server)
{
	unsigned char message[DNS_UDP_MAX + 1];

	for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
		struct asker asker = { .peer_len = sizeof(asker.peer) };
		ssize_t n = recvfrom(server->datagrams, message, sizeof(message), MSG_DONTWAIT,
				     (struct sockaddr *)&asker.peer, &asker.peer_len);

		if (n < 0)
			return;
		(void)!nameserver_question(server, message, (size_t)n, &asker);
	}
}

static void listener_event(struct nameserver *server)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (client->fd >= 0)
			continue;
		client->fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client->fd < 0) {
			client->fd = -EBADF;
			return;
		}
		client->generation++;
		client->is_waiting = client->is_reading = false;
		client->got = client->left = client->sent = 0;
		client->deadline = clock_ms() + CLIENT_MS;
		if (watch_add(server->epoll, client->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
			      (struct watch){ WATCH_CLIENT, i, client->generation }) < 0)
			client_end(client);
		return;
	}
	/* All places are taken: whoever came last is sent away, or the listener would stay ready. */
	fd_close(accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/* The first whole question in what was read: 1 when there was one. */
static int take_question(struct nameserver *server, struct client *client)
{
	unsigned char question[CLIENT_BYTES];
	struct asker asker = { .is_tcp = true,
			       .client = (uint32_t)(client - server->clients),
			       .generation = client->generation };
	size_t len = 0;
	int r;

	r = dns_tcp_look(client->in, client->got, &len);
	if (r == 0 && client->got == sizeof(client->in))
		r = -EMSGSIZE;
	/* No message is so short: told as the question that it is not. */
	if (r < 0)
		return nameserver_question(server, client->in, 0, &asker);
	if (r == 0)
		return 0;
	memcpy(question, client->in + 2, len);
	client->got -= len + 2;
	memmove(client->in, client->in + len + 2, client->got);
	client->is_waiting = true;
	client->deadline = clock_ms() + CLIENT_WAIT_MS; /* the resolver gives up sooner */
	r = nameserver_question(server, question, len, &asker);
	return r < 0 ? r : 1;
}

/* Questions may come one behind the other; each is read when the one before it has its reply. */
static void client_read(struct nameserver *server, struct client *client)
{
	client->is_reading = true;
	while (client->fd >= 0 && !client->is_waiting) {
		ssize_t n = 0;
		int r = client->got > 0 ? take_question(server, client) : 0;

		if (r == 0)
			n = recv(client->fd, client->in + client->got,
				 sizeof(client->in) - client->got, MSG_DONTWAIT);
		if (r == 0 && n < 0 && errno == EAGAIN)
			break;
		if (r < 0 || (r == 0 && n <= 0)) {
			client_end(client);
			break;
		}
		client->got += (size_t)n;
	}
	client->is_reading = false;
}

static void client_event(struct nameserver *server, struct watch watch)
{
	struct client *client;

	if (watch.index >= CLIENTS)
		return;
	client = &server->clients[watch.index];
	if (client->fd < 0 || client->generation != watch.generation)
		return;
	if (client->left > 0)
		client_write(client);
	client_read(server, client);
}

void nameserver_event(struct nameserver *server, struct watch watch, uint32_t events)
{
	switch (watch.kind) {
	case WATCH_ASK:
		resolver_event(server->resolver, watch, events);
		break;
	case WATCH_DATAGRAM:
		datagram_event(server);
		break;
	case WATCH_LISTENER:
		listener_event(server);
		break;
	case WATCH_CLIENT:
		client_event(server, watch);
		break;
	default:
		break;
	}
}

void nameserver_expire(struct nameserver *server)
{
	uint64_t now = clock_ms();

	resolver_expire(server->resolver);
	for (size_t i = 0; i < CLIENTS; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].deadline <= now)
			client_end(&server->clients[i]);
}

uint64_t nameserver_deadline(const struct nameserver *server)
{
	uint64_t next = resolver_deadline(server->resolver);

	for (size_t i = 0; i < CLIENTS; i++)
		if (server->clients[i].fd >= 0)
			next = MIN(next, server->clients[i].deadline);
	return next;
}
