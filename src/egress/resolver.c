#include "egress/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "egress/sock.h"

#define TRIES            2 /* of each server */
#define UDP_FIRST_MS     1000
#define UDP_SECOND_MS    2000
#define TCP_MS           3000
#define SERVERS_FRESH_MS 5000
#define CONF_MAX         (64 * KIB)
#define TCP_ANSWER_MAX   65535

struct ask {
	bool is_used;
	uint32_t generation, ticket;
	int fd;
	unsigned int type, attempt; /* attempt counts over servers and tries */
	bool is_tcp;
	uint64_t deadline;    /* 0: the next attempt starts with the next turn */
	char name[NAME_SIZE]; /* that is asked now: the original, or an alias of it */
	struct dns_ask ask;
	size_t sent; /* TCP: of the question */
	struct buf got;
	struct dns_answer answer; /* what the messages so far add up to */
};

struct resolver {
	char *resolv_conf;
	int epoll;
	struct resolver_owner owner;
	union sock_address servers[RESOLVER_SERVERS];
	size_t server_count;
	uint64_t read_ms;
	struct ask asks[RESOLVER_ASKS];
};

/* One "nameserver" line; an IPv6 address may name its interface. */
static bool read_server(char *line, union sock_address *ret_server)
{
	union sock_address server = { .v6 = { 0 } };
	char *word, *rest = NULL, *zone;

	word = strtok_r(line, " \t\r", &rest);
	if (!word || !str_equal(word, "nameserver"))
		return false;
	word = strtok_r(NULL, " \t\r", &rest);
	if (!word)
		return false;
	zone = strchr(word, '%');
	if (zone)
		*zone++ = '\0';
	if (inet_pton(AF_INET, word, &server.v4.sin_addr) == 1) {
		server.v4.sin_family = AF_INET;
		server.v4.sin_port = htons(53);
	} else if (inet_pton(AF_INET6, word, &server.v6.sin6_addr) == 1) {
		server.v6.sin6_family = AF_INET6;
		server.v6.sin6_port = htons(53);
		server.v6.sin6_scope_id = zone ? if_nametoindex(zone) : 0;
	} else {
		return false;
	}
	*ret_server = server;
	return true;
}

/* As resolv.conf(5) has it: without a server, it is this machine. A file that is gone changes
 * nothing. */
static void read_servers(struct resolver *resolver)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_(buf_done) struct buf text = BUF(CONF_MAX);
	uint64_t now = clock_ms();
	char *line, *rest = NULL;

	if (resolver->read_ms > 0 && now - resolver->read_ms < SERVERS_FRESH_MS)
		return;
	resolver->read_ms = MAX(now, (uint64_t)1);
	fd = open(resolver->resolv_conf, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return;
	resolver->server_count = 0;
	for (line = strtok_r(text.data, "\n", &rest);
	     line && resolver->server_count < RESOLVER_SERVERS; line = strtok_r(NULL, "\n", &rest))
		if (read_server(line, &resolver->servers[resolver->server_count]))
			resolver->server_count++;
}

int resolver_new(const char *resolv_conf, int epoll, const struct resolver_owner *owner,
		 struct resolver **ret_resolver)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return -ENOMEM;
	resolver->resolv_conf = strdup(resolv_conf);
	if (!resolver->resolv_conf) {
		free(resolver);
		return -ENOMEM;
	}
	resolver->epoll = epoll;
	resolver->owner = *owner;
	for (size_t i = 0; i < RESOLVER_ASKS; i++)
		resolver->asks[i].fd = -EBADF;
	read_servers(resolver);
	*ret_resolver = resolver;
	return 0;
}

static void ask_drop(struct ask *ask)
{
	fd_closep(&ask->fd);
	buf_done(&ask->got);
	ask->is_used = false;
	ask->generation++;
}

struct resolver *resolver_free(struct resolver *resolver)
{
	if (!resolver)
		return NULL;
	for (size_t i = 0; i < RESOLVER_ASKS; i++)
		ask_drop(&resolver->asks[i]);
	free(resolver->resolv_conf);
	free(resolver);
	return NULL;
}

static void ask_end(struct resolver *resolver, struct ask *ask, enum dns_outcome outcome)
{
	ask->answer.outcome = outcome;
	resolver->owner.done(resolver->owner.ctx, ask->ticket, &ask->answer);
	ask_drop(ask);
}

/* The server of this attempt; no server at all means this machine. */
static void server_of(const struct resolver *resolver, const struct ask *ask,
		      union sock_address *ret_server)
{
	const union sock_address here = { .v4 = { .sin_family = AF_INET,
						  .sin_port = htons(53),
						  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

	*ret_server = resolver->server_count > 0
			      ? resolver->servers[ask->attempt % resolver->server_count]
			      : here;
}

/* A new question on a new socket. */
static int ask_send(struct resolver *resolver, struct ask *ask, bool is_tcp)
{
	struct {
		uint64_t case_bits;
		uint16_t id;
	} random = { 0 };
	struct watch watch = { WATCH_ASK, (uint32_t)(ask - resolver->asks), ask->generation };
	unsigned char message[DNS_ASK_MAX];
	union sock_address server;
	bool is_plain;
	int r;

	fd_closep(&ask->fd);
	buf_reset(&ask->got);
	ask->sent = 0;
	ask->is_tcp = is_tcp;
	server_of(resolver, ask, &server);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	/* There are servers that do not keep the case: the second round is plain. */
	is_plain = ask->attempt >= MAX(resolver->server_count, (size_t)1);
	r = dns_ask_init(&ask->ask, random.id, ask->name, ask->type,
			 is_plain ? 0 : random.case_bits);
	if (r < 0)
		return r;
	ask->fd = socket(server.any.sa_family,
			 (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ask->fd < 0)
		return -errno;
	if (connect(ask->fd, &server.any, sock_address_len(&server)) < 0 && errno != EINPROGRESS)
		return -errno;
	r = watch_add(resolver->epoll, ask->fd, is_tcp ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLIN,
		      watch);
	if (r < 0)
		return r;
	ask->deadline = clock_ms() + (is_plain ? UDP_SECOND_MS : UDP_FIRST_MS);
	if (is_tcp) {
		ask->deadline = clock_ms() + TCP_MS;
		return 0;
	}
	return send(ask->fd, message, dns_ask_message(&ask->ask, message), MSG_NOSIGNAL) < 0
		       ? -errno
		       : 0;
}

/* The next attempt that gets as far as a question on its way, or the end. */
static void ask_next(struct resolver *resolver, struct ask *ask)
{
	unsigned int limit = TRIES * (unsigned int)MAX(resolver->server_count, (size_t)1);

	while (++ask->attempt < limit)
		if (ask_send(resolver, ask, false) == 0)
			return;
	ask_end(resolver, ask, DNS_FAILED);
}

int resolver_ask(struct resolver *resolver, const char *name, unsigned int type, uint32_t ticket)
{
	struct ask *ask = NULL;

	for (size_t i = 0; i < RESOLVER_ASKS && !ask; i++)
		if (!resolver->asks[i].is_used)
			ask = &resolver->asks[i];
	if (!ask)
		return -EAGAIN;
	if (strlen(name) >= sizeof(ask->name))
		return -EINVAL;
	read_servers(resolver);
	*ask = (struct ask){ .is_used = true,
			     .generation = ask->generation + 1,
			     .ticket = ticket,
			     .fd = -EBADF,
			     .type = type,
			     .got = BUF(2 + TCP_ANSWER_MAX) };
	ask->answer.ttl = UINT32_MAX;
	strcpy(ask->name, name);
	/* A send that fails is noticed with the next turn, and another server is asked then. */
	if (ask_send(resolver, ask, false) < 0)
		ask->deadline = 0;
	return 0;
}

/* Adds what this message says to what others said before it. */
static int ask_collect(struct ask *ask, const struct dns_answer *answer)
{
	struct dns_answer *sum = &ask->answer;

	if (sum->alias_count + answer->alias_count > DNS_CHAIN_MAX)
		return -ELOOP;
	for (size_t i = 0; i < answer->alias_count; i++)
		memcpy(sum->alias[sum->alias_count++], answer->alias[i], NAME_SIZE);
	sum->ttl = MIN(sum->ttl, answer->ttl);
	sum->rcode = answer->rcode;
	sum->count = answer->count;
	memcpy(sum->addresses, answer->addresses, sizeof(sum->addresses));
	return 0;
}

static void ask_follow(struct resolver *resolver, struct ask *ask)
{
	const char *alias =
		ask->answer.alias_count > 0 ? ask->answer.alias[ask->answer.alias_count - 1] : NULL;

	if (!alias || !resolver->owner.follow(resolver->owner.ctx, ask->ticket, alias)) {
		ask_end(resolver, ask, DNS_NO_NAME);
		return;
	}
	memcpy(ask->name, alias, NAME_SIZE);
	ask->attempt = 0;
	if (ask_send(resolver, ask, false) < 0)
		ask_next(resolver, ask);
}

/* A message that claims to be the answer. */
static void ask_answered(struct resolver *resolver, struct ask *ask, const void *data, size_t len)
{
	struct dns_answer answer;
	int r;

	r = dns_answer_parse(&ask->ask, data, len, &answer);
	if (r == 0 && answer.outcome == DNS_TRUNCATED && !ask->is_tcp) {
		if (ask_send(resolver, ask, true) < 0)
			ask_next(resolver, ask);
		return;
	}
	if (r == -EBADMSG && !ask->is_tcp)
		return; /* anybody can send one: the right one may still come */
	if (r == 0 && answer.outcome != DNS_FAILED && answer.outcome != DNS_TRUNCATED) {
		r = ask_collect(ask, &answer);
		if (r == 0 && answer.outcome == DNS_FOLLOW)
			ask_follow(resolver, ask);
		else
			ask_end(resolver, ask, r < 0 ? DNS_FAILED : answer.outcome);
		return;
	}
	if (r == -ELOOP)
		ask_end(resolver, ask, DNS_FAILED);
	else
		ask_next(resolver, ask);
}

static void udp_event(struct resolver *resolver, struct ask *ask)
{
	unsigned char message[DNS_UDP_MAX + 1];
	ssize_t n = recv(ask->fd, message, sizeof(message), MSG_DONTWAIT);

	if (n >= 0)
		ask_answered(resolver, ask, message, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		ask_next(resolver, ask); /* nobody listens there: the next server, at once */
}

/* 0 when the question is out. */
static int tcp_write(struct ask *ask)
{
	unsigned char message[2 + DNS_ASK_MAX];
	size_t len = dns_ask_message(&ask->ask, message + 2);
	ssize_t n;

	dns_tcp_prefix(len, message);
	if (ask->sent == len + 2)
		return 0;
	n = send(ask->fd, message + ask->sent, len + 2 - ask->sent, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	ask->sent += (size_t)n;
	return ask->sent == len + 2 ? 0 : -EAGAIN;
}

/* 1 when a whole message is there. */
static int tcp_read(struct ask *ask, size_t *ret_len)
{
	char block[4096];

	for (;;) {
		ssize_t n = recv(ask->fd, block, sizeof(block), MSG_DONTWAIT);
		int r;

		if (n < 0)
			return -errno;
		if (n == 0)
			return -EPIPE;
		r = buf_add(&ask->got, block, (size_t)n);
		if (r == 0)
			r = dns_tcp_look(ask->got.data, ask->got.len, ret_len);
		if (r != 0)
			return r;
	}
}

static void tcp_event(struct resolver *resolver, struct ask *ask)
{
	size_t len = 0;
	int r;

	r = tcp_write(ask);
	if (r == 0)
		r = tcp_read(ask, &len);
	if (r == 1)
		ask_answered(resolver, ask, ask->got.data + 2, len);
	else if (r != -EAGAIN)
		ask_next(resolver, ask);
}

void resolver_event(struct resolver *resolver, struct watch watch, uint32_t events)
{
	struct ask *ask;

	(void)events;
	if (watch.index >= RESOLVER_ASKS)
		return;
	ask = &resolver->asks[watch.index];
	if (!ask->is_used || ask->generation != watch.generation || ask->fd < 0)
		return;
	if (ask->is_tcp)
		tcp_event(resolver, ask);
	else
		udp_event(resolver, ask);
}

void resolver_expire(struct resolver *resolver)
{
	uint64_t now = clock_ms();

	for (size_t i = 0; i < RESOLVER_ASKS; i++)
		if (resolver->asks[i].is_used && resolver->asks[i].deadline <= now)
			ask_next(resolver, &resolver->asks[i]);
}

uint64_t resolver_deadline(const struct resolver *resolver)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < RESOLVER_ASKS; i++)
		if (resolver->asks[i].is_used)
			next = MIN(next, resolver->asks[i].deadline);
	return next;
}
