/*
 * resolver.h - asks the host's name servers, without waiting
 *
 * One question is one name and one type. It goes over UDP from a socket of its own (a random port,
 * connected, so that nobody but the server is heard) with a random id and random case, to each
 * server of the host's resolv.conf in turn, twice; over TCP to the same server when the answer was
 * cut off. An alias without its addresses is followed, if the owner agrees to its name. However it
 * ends, done() is called exactly once.
 *
 * Upstream servers are hostile: what they say is read by dns.h alone, and a wrong answer is as if
 * none had come. At most RESOLVER_ASKS questions are on their way.
 */
#ifndef BRIG_EGRESS_RESOLVER_H
#define BRIG_EGRESS_RESOLVER_H

#include "egress/dns.h"
#include "egress/watch.h"

#define RESOLVER_ASKS    64
#define RESOLVER_SERVERS 3

struct resolver;

struct resolver_owner {
	void *ctx;
	/* May the question go on to this name? */
	bool (*follow)(void *ctx, uint32_t ticket, const char *alias);
	/* FOUND, NO_NAME, NO_RECORD or FAILED, with all aliases on the way. */
	void (*done)(void *ctx, uint32_t ticket, const struct dns_answer *answer);
};

[[nodiscard]] int resolver_new(const char *resolv_conf, int epoll,
			       const struct resolver_owner *owner, struct resolver **ret_resolver);
struct resolver *resolver_free(struct resolver *resolver); /* NULL; calls nobody */

/* -EAGAIN when too many are on their way. The ticket is the owner's. done() is not called before
 * this returns. */
[[nodiscard]] int resolver_ask(struct resolver *resolver, const char *name, unsigned int type,
			       uint32_t ticket);

void resolver_event(struct resolver *resolver, struct watch watch, uint32_t events);
void resolver_expire(struct resolver *resolver);
uint64_t resolver_deadline(const struct resolver *resolver); /* UINT64_MAX: none */

#endif
