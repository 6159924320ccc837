/* nameserver_internal.h - between the questions of the sandbox and the ways they come */
#ifndef BRIG_EGRESS_NAMESERVER_INTERNAL_H
#define BRIG_EGRESS_NAMESERVER_INTERNAL_H

#include "egress/dns.h"
#include "egress/nameserver.h"
#include "egress/resolver.h"
#include "egress/sock.h"

#define CLIENTS        16   /* over TCP, at once */
#define CLIENT_MS      5000 /* for a question, and for taking the reply */
#define CLIENT_WAIT_MS 60000
#define CLIENT_BYTES   1024 /* of a question; none is longer */
#define CACHED         64
#define WAITING        512 /* for a reply, at once */

/* Who asked. */
struct asker {
	bool is_tcp;
	uint32_t client, generation;  /* TCP */
	struct sockaddr_storage peer; /* UDP */
	socklen_t peer_len;
};

/* What upstream was asked, for however many. */
struct question {
	bool is_used;
	char name[NAME_SIZE];
	unsigned int type;
};

/* Who waits for the answer to a question. */
struct waiting {
	bool is_used;
	uint32_t ticket; /* of the question; NO_TICKET when the answer has come */
	struct asker asker;
	struct dns_query query;
};

struct client {
	int fd; /* -EBADF: free */
	uint32_t generation;
	bool is_waiting; /* for a reply of ours: nothing is read meanwhile */
	bool is_reading; /* in the loop that reads questions */
	uint64_t deadline;
	size_t got, left, sent;
	unsigned char in[CLIENT_BYTES];
	unsigned char out[2 + DNS_REPLY_MAX];
};

struct cached {
	char name[NAME_SIZE];
	unsigned int type;
	uint64_t until_ms;
	struct dns_answer answer;
};

struct nameserver {
	const struct judge *judge;
	struct answers *answers;
	int epoll, datagrams, listener;
	struct nameserver_ear ear;
	struct resolver *resolver;
	struct tunnel tunnel;
	uint64_t route_ms; /* when has_route6 was looked at */
	bool has_route6;
	struct question questions[RESOLVER_ASKS]; /* by ticket */
	struct waiting waiting[WAITING];
	size_t waiting_end; /* nobody waits from here on */
	struct client clients[CLIENTS];
	struct cached cache[CACHED];
};

/* nameserver.c: judges and answers. -EBADMSG: not a question, there will be no reply. */
[[nodiscard]] int nameserver_question(struct nameserver *server, const void *data, size_t len,
				      const struct asker *asker);

/* nameserver_io.c: where questions come from and replies go to. */
void nameserver_reply(struct nameserver *server, const struct asker *asker,
		      const struct dns_query *query, const struct dns_reply *reply);

#endif
