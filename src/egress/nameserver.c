#include "egress/nameserver_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress/gate.h"

#define MAX_TTL        300
#define ROUTE_FRESH_MS 10000
#define NO_TICKET      UINT32_MAX

static void tell(struct nameserver *server, const struct judgement *judgement)
{
	server->ear.event(server->ear.ctx,
			  &(struct gate_event){ .action = GATE_NAME, .judgement = judgement });
}

static void tell_in_words(struct nameserver *server, enum gate_action action, const char *object,
			  const char *reason)
{
	struct judgement judgement = { .cause = JUDGE_PROTOCOL };

	snprintf(judgement.object, sizeof(judgement.object), "%s", object);
	snprintf(judgement.reason, sizeof(judgement.reason), "%s", reason);
	server->ear.event(server->ear.ctx,
			  &(struct gate_event){ .action = action, .judgement = &judgement });
}

static void reply_code(struct nameserver *server, const struct asker *asker,
		       const struct dns_query *query, enum dns_rcode rcode)
{
	nameserver_reply(server, asker, query, &(struct dns_reply){ .rcode = rcode });
}

/* Has this host a way to IPv6? Connecting a datagram socket asks the routing table, and sends
 * nothing. */
static bool has_route6(struct nameserver *server)
{
	_cleanup_close_ int fd = -EBADF;
	struct sockaddr_in6 far = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	uint64_t now = clock_ms();

	if (server->route_ms > 0 && now - server->route_ms < ROUTE_FRESH_MS)
		return server->has_route6;
	server->route_ms = MAX(now, (uint64_t)1);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	server->has_route6 = fd >= 0 && inet_pton(AF_INET6, "2600::", &far.sin6_addr) == 1 &&
			     connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0;
	return server->has_route6;
}

/* Every name on the way; one that is denied ends the matter. */
static bool vet_aliases(struct nameserver *server, const struct dns_query *query,
			const struct dns_answer *answer)
{
	struct judgement judgement;

	for (size_t i = 0; i < answer->alias_count; i++) {
		judge_alias(server->judge, query->name, answer->alias[i], &judgement);
		if (judgement.is_allowed)
			continue;
		tell(server, &judgement);
		return false;
	}
	return true;
}

/* What may be told inside, and is remembered for connect(). How many are left. */
static size_t vet_addresses(struct nameserver *server, const struct dns_query *query,
			    const struct dns_answer *answer, uint32_t ttl,
			    unsigned char ret_addresses[DNS_ADDRESSES_MAX][ADDRESS_BYTES])
{
	uint64_t now = clock_ms();
	size_t count = 0;

	for (size_t i = 0; i < answer->count; i++) {
		struct judgement judgement;

		judge_answer(server->judge, query->name, answer->addresses[i], &judgement);
		if (!judgement.is_allowed) {
			tell(server, &judgement);
			continue;
		}
		answers_add(server->answers, answer->addresses[i], query->name, ttl, now);
		memcpy(ret_addresses[count++], answer->addresses[i], ADDRESS_BYTES);
	}
	return count;
}

static void reply_found(struct nameserver *server, const struct asker *asker,
			const struct dns_query *query, const struct dns_answer *answer)
{
	unsigned char addresses[DNS_ADDRESSES_MAX][ADDRESS_BYTES];
	uint32_t ttl = MIN(answer->ttl, (uint32_t)MAX_TTL);
	size_t count;

	if (!vet_aliases(server, query, answer)) {
		reply_code(server, asker, query, DNS_NXDOMAIN);
		return;
	}
	count = vet_addresses(server, query, answer, ttl, addresses);
	nameserver_reply(
		server, asker, query,
		&(struct dns_reply){ .rcode = count > 0 ? DNS_NOERROR : DNS_NXDOMAIN,
				     .addresses = (const unsigned char(*)[ADDRESS_BYTES])addresses,
				     .count = count,
				     .ttl = ttl });
}

static const struct dns_answer *cache_find(const struct nameserver *server,
					   const struct dns_query *query)
{
	uint64_t now = clock_ms();

	for (size_t i = 0; i < CACHED; i++) {
		const struct cached *cached = &server->cache[i];

		if (cached->until_ms > now && cached->type == query->type &&
		    strcmp(cached->name, query->name) == 0)
			return &cached->answer;
	}
	return NULL;
}

/* The one that ends first makes room. */
static void cache_add(struct nameserver *server, const struct question *question,
		      const struct dns_answer *answer)
{
	uint64_t ttl = MIN(answer->ttl, (uint32_t)MAX_TTL);
	struct cached *oldest = &server->cache[0];

	if (ttl == 0)
		return;
	for (size_t i = 1; i < CACHED; i++)
		if (server->cache[i].until_ms < oldest->until_ms)
			oldest = &server->cache[i];
	*oldest = (struct cached){
		.type = question->type,
		.until_ms = clock_ms() + 1000 * ttl,
		.answer = *answer,
	};
	memcpy(oldest->name, question->name, sizeof(oldest->name));
}

static bool follow(void *ctx, uint32_t ticket, const char *alias)
{
	struct nameserver *server = ctx;
	struct judgement judgement;

	judge_alias(server->judge, server->questions[ticket].name, alias, &judgement);
	if (!judgement.is_allowed)
		tell(server, &judgement);
	return judgement.is_allowed;
}

static void reply_answer(struct nameserver *server, const struct waiting *waiting,
			 const struct dns_answer *answer)
{
	static const enum dns_rcode rcodes[] = {
		[DNS_NO_NAME] = DNS_NXDOMAIN,
		[DNS_NO_RECORD] = DNS_NOERROR,
		[DNS_FAILED] = DNS_SERVFAIL,
	};

	if (answer->outcome == DNS_FOUND)
		reply_found(server, &waiting->asker, &waiting->query, answer);
	else
		reply_code(server, &waiting->asker, &waiting->query,
			   answer->outcome < (int)ARRAY_SIZE(rcodes) ? rcodes[answer->outcome]
								     : DNS_SERVFAIL);
}

/*
 * Everybody who waits for it gets the answer. A reply over TCP can bring the next question, which
 * may take the ticket again: so the two are parted first.
 */
static void resolved(void *ctx, uint32_t ticket, const struct dns_answer *answer)
{
	struct nameserver *server = ctx;
	struct question *question = &server->questions[ticket];

	question->is_used = false;
	if (answer->outcome == DNS_FOUND)
		cache_add(server, question, answer);
	for (size_t i = 0; i < server->waiting_end; i++)
		if (server->waiting[i].is_used && server->waiting[i].ticket == ticket)
			server->waiting[i].ticket = NO_TICKET;
	for (size_t i = 0; i < server->waiting_end; i++) {
		struct waiting *waiting = &server->waiting[i];

		if (!waiting->is_used || waiting->ticket != NO_TICKET)
			continue;
		reply_answer(server, waiting, answer);
		waiting->is_used = false;
	}
	while (server->waiting_end > 0 && !server->waiting[server->waiting_end - 1].is_used)
		server->waiting_end--;
}

/* A program that asks again because it is impatient gets one reply. */
static bool is_repeated(const struct nameserver *server, const struct dns_query *query,
			const struct asker *asker)
{
	for (size_t i = 0; i < server->waiting_end; i++) {
		const struct waiting *other = &server->waiting[i];

		if (other->is_used && !asker->is_tcp && !other->asker.is_tcp &&
		    other->query.id == query->id && other->query.type == query->type &&
		    other->asker.peer_len == asker->peer_len &&
		    memcmp(&other->asker.peer, &asker->peer, asker->peer_len) == 0 &&
		    strcmp(other->query.name, query->name) == 0)
			return true;
	}
	return false;
}

/* Asks upstream, unless the same is on its way already. -EAGAIN: too much is. */
static int ask_upstream(struct nameserver *server, const struct dns_query *query,
			uint32_t *ret_ticket)
{
	uint32_t unused = NO_TICKET;
	struct question *question;
	int r;

	for (uint32_t i = 0; i < RESOLVER_ASKS; i++) {
		question = &server->questions[i];
		if (!question->is_used) {
			unused = MIN(unused, i);
		} else if (question->type == query->type &&
			   strcmp(question->name, query->name) == 0) {
			*ret_ticket = i;
			return 0;
		}
	}
	if (unused == NO_TICKET)
		return -EAGAIN;
	r = resolver_ask(server->resolver, query->name, query->type, unused);
	if (r < 0)
		return r;
	question = &server->questions[unused];
	*question = (struct question){ .is_used = true, .type = query->type };
	memcpy(question->name, query->name, sizeof(question->name));
	*ret_ticket = unused;
	return 0;
}

static struct waiting *find_room(struct nameserver *server)
{
	for (size_t i = 0; i < server->waiting_end; i++)
		if (!server->waiting[i].is_used)
			return &server->waiting[i];
	return server->waiting_end < WAITING ? &server->waiting[server->waiting_end++] : NULL;
}

static void await_answer(struct nameserver *server, const struct dns_query *query,
			 const struct asker *asker)
{
	struct waiting *waiting = find_room(server);
	uint32_t ticket;
	int r = waiting ? ask_upstream(server, query, &ticket) : -EAGAIN;

	if (r == -EAGAIN)
		tell_in_words(server, GATE_LIMIT, query->name, "too many questions at once");
	if (r < 0)
		reply_code(server, asker, query, DNS_SERVFAIL);
	else
		*waiting = (struct waiting){
			.is_used = true, .ticket = ticket, .asker = *asker, .query = *query
		};
}

int nameserver_question(struct nameserver *server, const void *data, size_t len,
			const struct asker *asker)
{
	const struct dns_answer *known;
	struct judgement judgement;
	struct dns_query query;

	if (dns_query_parse(data, len, &query) < 0) {
		tell_in_words(server, GATE_NAME, "a malformed question", "not a DNS query");
		return -EBADMSG;
	}
	if (query.rcode != DNS_NOERROR) {
		tell_in_words(server, GATE_NAME, "a malformed question",
			      "not a question for the address of a host name");
		reply_code(server, asker, &query, query.rcode);
		return 0;
	}
	judge_question(server->judge, query.name, &server->tunnel, clock_ms(), &judgement);
	tell(server, &judgement);
	if (!judgement.is_allowed) {
		reply_code(server, asker, &query, DNS_NXDOMAIN);
		return 0;
	}
	if ((query.type != DNS_A && query.type != DNS_AAAA) ||
	    (query.type == DNS_AAAA && !has_route6(server))) {
		reply_code(server, asker, &query, DNS_NOERROR);
		return 0;
	}
	known = cache_find(server, &query);
	if (known)
		reply_found(server, asker, &query, known);
	else if (!is_repeated(server, &query, asker))
		await_answer(server, &query, asker);
	return 0;
}

int nameserver_new(const struct judge *judge, struct answers *answers, const char *resolv_conf,
		   int epoll, const struct nameserver_ear *ear, struct nameserver **ret_server)
{
	struct nameserver *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->judge = judge;
	server->answers = answers;
	server->epoll = epoll;
	server->datagrams = server->listener = -EBADF;
	server->ear = *ear;
	tunnel_init(&server->tunnel);
	for (size_t i = 0; i < CLIENTS; i++)
		server->clients[i].fd = -EBADF;
	r = resolver_new(resolv_conf, epoll, &(struct resolver_owner){ server, follow, resolved },
			 &server->resolver);
	if (r < 0) {
		free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

struct nameserver *nameserver_free(struct nameserver *server)
{
	if (!server)
		return NULL;
	resolver_free(server->resolver);
	for (size_t i = 0; i < CLIENTS; i++)
		fd_close(server->clients[i].fd);
	fd_close(server->datagrams);
	fd_close(server->listener);
	free(server);
	return NULL;
}
