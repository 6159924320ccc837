/*
 * gate.h - the only way from a sandbox to the network
 *
 * The gate lives in the warden, outside the sandbox. The keeper, inside, takes the arguments of a
 * connect() that waits for an answer, and hands over a copy of the address and the caller's own
 * socket A; everything else happens here:
 *
 *	judge    the copy, by the policy and by what the resolver answered for which name
 *	dial     R, to what was judged, and to nothing that memory of the sandbox says afterwards
 *	park     A, if the caller does not want to wait (park.h), and answer EINPROGRESS
 *	complete A, when the dial is done: it is connected to a socket B of ours
 *	read     the first bytes of B, which must say a name that was allowed (hello.h)
 *	relay    B and R (relay.h)
 *
 * A caller that waits is answered when the dial ends, with its true errno. A connection inside the
 * sandbox's own network (is_inside: loopback) is made on A itself; so is one by a raw rule where the
 * owner says that it may (may_go_straight). Datagram sockets reach the resolver and nothing else.
 *
 * Where the sandbox shares our network, A is tied to the loopback interface before anything is done
 * with it (sock_confine): a source route that its holder sets, before or after, leads nowhere.
 *
 *	gate_new(&request, &gate, err)
 *	poll(gate_fd(gate), gate_timeout(gate)), then gate_work(gate)
 *	gate_connect(gate, &attempt) when the keeper has one
 *
 * One thread; nothing here waits. Everything is bounded: when a bound is reached, the attempt fails
 * with EAGAIN and there is an event. The callbacks may not call the gate.
 */
#ifndef BRIG_EGRESS_GATE_H
#define BRIG_EGRESS_GATE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/err.h"
#include "egress/judge.h"

enum gate_action {
	GATE_NAME,        /* a question to the resolver, or an answer that was not passed on */
	GATE_CONNECT,     /* the verdict on a connect() */
	GATE_DATAGRAM,    /* the same for a datagram socket */
	GATE_FIRST_BYTES, /* refused after the connection was there: it was reset */
	GATE_CUT,         /* refused by new rules: it was reset */
	GATE_CLOSE,       /* an allowed connection has ended, or its dial has failed */
	GATE_LIMIT,       /* a bound of the gate was reached */
	GATE_ACTION_COUNT,
};
extern const char *const gate_action_names[GATE_ACTION_COUNT];

/* All of it lives until the callback returns. */
struct gate_event {
	enum gate_action action;
	pid_t pid;                         /* the caller's thread; 0 where nobody is known */
	const struct judgement *judgement; /* with the words */
	int error;                         /* -errno of the dial or of the connection's end, or 0 */
	uint64_t sent, received;           /* GATE_CLOSE: bytes */
};

/* 0 means the default. */
struct gate_limits {
	unsigned int connections; /* 2048 */
	unsigned int first_ms;    /* 30,000: a client that stays silent so long is reset */
	size_t first_bytes; /* 8 MiB of first bytes that wait for a verdict, of all connections */
};

struct gate_request {
	const struct policy *policy; /* the caller's; see gate_policy_changed */
	bool is_inside;              /* the sandbox has a network of its own */
	/*
	 * Not is_inside: connections by raw rules are made on A itself, without a relay. Only where the
	 * filter refuses setsockopt() of IP_OPTIONS, IPV6_RTHDR, IPV6_2292RTHDR and
	 * IPV6_2292PKTOPTIONS, which would send them elsewhere.
	 */
	bool may_go_straight;
	struct address_list inside; /* is_inside: its addresses other than loopback, if any */
	const char *resolv_conf;    /* NULL: /etc/resolv.conf */
	struct gate_limits limits;
	void *ctx;
	/* A socket in the network of the sandbox, or -errno. At once: keep some in stock. Needed only
	 * where is_inside. type has SOCK_CLOEXEC and SOCK_NONBLOCK in it. */
	int (*make_socket)(void *ctx, int family, int type);
	/* The connect() that waits as id returns 0 or fails with this errno (positive). */
	void (*answer)(void *ctx, uint64_t id, int error);
	void (*event)(void *ctx, const struct gate_event *event);
};

struct gate_attempt {
	uint64_t id;                     /* of the notification, still valid when A was taken */
	pid_t pid;                       /* the caller's thread */
	int socket;                      /* A: the gate's from now on, in every case */
	socklen_t len;                   /* as the caller gave it, and no more than address has */
	struct sockaddr_storage address; /* the one copy */
};

struct gate;

[[nodiscard]] int gate_new(const struct gate_request *request, struct gate **ret_gate,
			   struct err *err);
struct gate *gate_free(struct gate *gate); /* NULL, always */

static inline void gate_freep(struct gate **gate)
{
	*gate = gate_free(*gate);
}

int gate_fd(const struct gate *gate);      /* readable when there is work */
int gate_timeout(const struct gate *gate); /* ms until there is work anyway, -1 for never */
void gate_work(struct gate *gate);

/* Answers sooner or later, and exactly once unless gate_cancel() comes first. */
void gate_connect(struct gate *gate, const struct gate_attempt *attempt);

/* The caller waits no longer (a signal, or it is dead): no answer, and the dial is dropped. */
void gate_cancel(struct gate *gate, uint64_t id);

/*
 * A signal is due to the caller: the answer is EINTR, and the connection goes on, to be polled for, as
 * after every connect() that was interrupted.
 */
void gate_interrupt(struct gate *gate, uint64_t id);

/*
 * The resolver that the sandbox uses: a bound UDP socket and a listening TCP socket, both in its
 * network and the gate's from now on; either may be -EBADF.
 */
[[nodiscard]] int gate_dns(struct gate *gate, int datagrams, int listener);

/*
 * New rules: they hold for every question and connection from now on, and for those that there are. What they
 * refuse is reset. Only what went straight is out of reach (may_go_straight).
 */
void gate_policy_changed(struct gate *gate, const struct policy *policy);

#endif
