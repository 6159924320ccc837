/* gate_internal.h - the gate's state, for its own files */
#ifndef BRIG_EGRESS_GATE_INTERNAL_H
#define BRIG_EGRESS_GATE_INTERNAL_H

#include "egress/gate.h"
#include "egress/nameserver.h"
#include "egress/park.h"
#include "egress/relay.h"
#include "egress/watch.h"

#define NO_DEADLINE UINT64_MAX
#define NO_INDEX    UINT32_MAX

enum phase {
	PHASE_FREE,
	PHASE_DIRECT,   /* A connects by itself; its caller waits */
	PHASE_DIALLING, /* R is on its way */
	PHASE_MEETING,  /* B is on its way to A */
	PHASE_RELAY,
};

struct connection {
	enum phase phase;
	uint32_t generation;
	uint32_t next_free, next_queued;
	bool is_queued;  /* stays when it ends: whoever has the place next gets a turn too many */
	bool is_awaited; /* the caller is held until there is an answer */
	bool is_parked;  /* in parked; the caller was told EINPROGRESS */
	bool is_raw;
	bool is_judged; /* it leads out */
	char *name;     /* that it was made for, then what its first bytes said; NULL: none */
	bool is_told;   /* the address was told for it (judge.h) */
	uint64_t id;
	uint64_t cookie;   /* of A: which socket it is, whoever holds it by which number */
	uint64_t deadline; /* of this phase */
	uint64_t judged_ms;
	pid_t pid;
	int caller, local, remote; /* A, B, R; the latter two are the relay's in PHASE_RELAY */
	int spare;                 /* what B is made of */
	struct parked parked;
	struct address address;
	size_t need;    /* first bytes: no look before there are so many */
	size_t counted; /* in first_bytes of the gate */
	struct relay relay;
};

struct gate {
	struct gate_request request;
	int epoll;
	struct judge judge;
	struct answers *answers;
	struct own_addresses {
		unsigned char (*items)[ADDRESS_BYTES];
		struct address_list list;
		uint64_t read_ms;
	} own;
	uint64_t network; /* the cookie of the sandbox's network namespace; 0 when unknown */
	struct park park;
	struct nameserver *names;
	struct connection *connections;
	uint32_t free, used;        /* the first free one; how many were ever used */
	uint32_t queue, queue_last; /* of those with more to do */
	uint64_t next_deadline;     /* none is sooner */
	size_t first_bytes;         /* of all connections: not judged yet, or not sent yet */
	uint32_t making;            /* connections that are not relayed yet */
	char *buffer;
};

/* gate.c */
void gate_tell(struct gate *gate, enum gate_action action, pid_t pid,
	       const struct judgement *judgement, int error);
void gate_refuse(struct gate *gate, enum gate_action action, pid_t pid, const char *object,
		 const char *reason);
void gate_read_own(struct gate *gate, uint64_t now);

/* connection.c: one connection from the verdict to its end */
struct connection *connection_new(struct gate *gate, const struct gate_attempt *attempt,
				  const struct address *address);
struct connection *connection_find(struct gate *gate, struct watch watch);
struct connection *connection_of_socket(struct gate *gate, uint64_t cookie);
void connection_end(struct gate *gate, struct connection *connection, int error);
void connection_answer(struct gate *gate, struct connection *connection, int error);
void connection_direct(struct gate *gate, struct connection *connection,
		       const union sock_address *target);
void connection_dial(struct gate *gate, struct connection *connection);
void connection_event(struct gate *gate, struct connection *connection, enum watch_kind kind,
		      uint32_t events);
void connection_turn(struct gate *gate, struct connection *connection);
void connection_expired(struct gate *gate, struct connection *connection);
void connection_interrupt(struct gate *gate, struct connection *connection);
void connection_review(struct gate *gate, struct connection *connection); /* rules are new */
void connection_drop(struct gate *gate, struct connection *connection);

/* Takes a copy; without memory it has none, and rests on its address alone. */
void connection_name(struct connection *connection, const char *name);

#endif
