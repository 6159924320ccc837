/*
 * publish.h - ports of a sandbox that the host listens for
 *
 * The sandbox has a network of its own, with a loopback device and no way in. Who connects to a
 * published port of the host is accepted here, in the warden, and relayed to the loopback address of
 * the sandbox:
 *
 *	accept   R, at the address that the policy says, and take a socket B of the sandbox's network
 *	reach    127.0.0.1 with B, or ::1 where nobody listens at the former
 *	relay    B and R (relay.h)
 *
 * The sockets B come from whoever lives inside, on demand (ask, publisher_supply), and are not
 * trusted: one that is of our own network, or connected already, is closed. So nothing that comes in
 * can end up at the host's loopback, and nothing inside gets hold of a socket of the host's: B stays
 * here, and the program inside sees another end.
 *
 * Where nobody listens inside, the client is reset at once. Everything is bounded: who comes when all
 * places are taken is reset too, and there is an event. One thread; nothing here waits.
 *
 *	publisher_new(&request, ports, count, &publisher, err)	binds and listens
 *	poll(publisher_fd(p), publisher_timeout(p)), then publisher_work(p)
 *	publisher_close(p) when the sandbox ends: nobody is accepted, what is on its way is carried on
 */
#ifndef BRIG_EGRESS_PUBLISH_H
#define BRIG_EGRESS_PUBLISH_H

#include <stdbool.h>

#include "base/err.h"
#include "egress/address.h"
#include "policy/policy.h"

#define PUBLISH_PORTS       64
#define PUBLISH_CONNECTIONS 512
#define PUBLISH_TEXT_SIZE   (ADDRESS_AT_TEXT_SIZE + 8)

enum publish_outcome {
	PUBLISH_REACHED,
	PUBLISH_FAILED, /* inside nobody listens, or answers */
	PUBLISH_FULL,   /* all places are taken */
};

/* Once for each client. All of it lives until the callback returns. */
struct publish_event {
	const struct address *peer;
	const struct published *port;
	enum publish_outcome outcome;
	int error; /* -errno of PUBLISH_FAILED */
};

struct publisher_request {
	unsigned int connections; /* 0: PUBLISH_CONNECTIONS */
	void *ctx;
	/* Sockets of the sandbox's network are wanted: publisher_supply() when they are there. */
	void (*ask)(void *ctx, int family);
	void (*event)(void *ctx, const struct publish_event *event);
	void (*arrived)(void *ctx); /* somebody came; may be NULL */
};

struct publisher;

/*
 * Listens at all of them, or fails in words and listens at none. Where the port was 0, the one that
 * was free stands in publisher_port().
 */
[[nodiscard]] int publisher_new(const struct publisher_request *request,
				const struct published *ports, size_t count,
				struct publisher **ret_publisher, struct err *err);
struct publisher *publisher_free(struct publisher *publisher); /* NULL, always */

/*
 * A socket that listens already, at loopback, for a port inside. Takes it in any case. What is none,
 * or one too many, is refused in words.
 */
[[nodiscard]] int publisher_adopt(struct publisher *publisher, int listener, uint16_t inside,
				  struct err *err);

size_t publisher_count(const struct publisher *publisher);
const struct published *publisher_port(const struct publisher *publisher, size_t index);

/* "127.0.0.1:8080:80", "[::1]:8080:80": as in a policy. */
const char *published_text(const struct published *port, char text[static PUBLISH_TEXT_SIZE]);

int publisher_fd(const struct publisher *publisher);
int publisher_timeout(const struct publisher *publisher); /* ms, -1 for never */
void publisher_work(struct publisher *publisher);

/* What was asked for; count 0: there is none. They are the publisher's, in every case. */
void publisher_supply(struct publisher *publisher, int family, const int *sockets, size_t count);

void publisher_close(struct publisher *publisher);

/* Whether all that came from inside has been passed on. */
bool publisher_is_drained(const struct publisher *publisher);

static inline void publisher_freep(struct publisher **publisher)
{
	*publisher = publisher_free(*publisher);
}

#endif
