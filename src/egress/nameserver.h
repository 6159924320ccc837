/*
 * nameserver.h - the name server that a sandbox sees
 *
 * It reads questions over UDP and TCP, judges the name before anything leaves, asks the host's
 * servers (resolver.h), vets every alias and address of the answer, remembers what it tells
 * (answers.h: this is what makes a later connect() allowed) and replies. dns.h says which reply
 * stands for which verdict. Addresses of IPv6 are told only where this host has a way there.
 *
 * What was found is kept for its TTL, MAX_TTL at most, and vetted anew each time: new rules hold at
 * once.
 */
#ifndef BRIG_EGRESS_NAMESERVER_H
#define BRIG_EGRESS_NAMESERVER_H

#include "egress/judge.h"
#include "egress/watch.h"

struct gate_event;
struct nameserver;

struct nameserver_ear {
	void *ctx;
	void (*event)(void *ctx, const struct gate_event *event);
};

/* judge and answers stay the caller's and live longer. */
[[nodiscard]] int nameserver_new(const struct judge *judge, struct answers *answers,
				 const char *resolv_conf, int epoll,
				 const struct nameserver_ear *ear, struct nameserver **ret_server);
struct nameserver *nameserver_free(struct nameserver *server); /* NULL, always */

/* Takes both sockets in every case; either may be -EBADF. */
[[nodiscard]] int nameserver_serve(struct nameserver *server, int datagrams, int listener);

/* The socket that programs inside ask, or -EBADF. */
int nameserver_socket(const struct nameserver *server, bool is_datagram);

void nameserver_event(struct nameserver *server, struct watch watch, uint32_t events);
void nameserver_expire(struct nameserver *server);
uint64_t nameserver_deadline(const struct nameserver *server); /* UINT64_MAX: none */

#endif
