#include "warden/publish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/supply.h"

static void on_ask(void *ctx, int family)
{
	const struct publish *publish = ctx;
	const struct supply_order order = { .family = family };

	/* A keeper that is gone, or does not read, is asked again, and then the client is given up. */
	(void)!send(publish->supply, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_event(void *ctx, const struct publish_event *event)
{
	struct publish *publish = ctx;
	char peer[ADDRESS_AT_TEXT_SIZE], port[PUBLISH_TEXT_SIZE], reason[128] = "";

	address_at_text(event->peer, peer);
	published_text(event->port, port);
	if (event->outcome == PUBLISH_FULL)
		snprintf(reason, sizeof(reason), "more than %d connections at the same time",
			 PUBLISH_CONNECTIONS);
	else if (event->outcome == PUBLISH_FAILED && event->error == -ECONNREFUSED)
		snprintf(reason, sizeof(reason), "nobody listens at port %u inside",
			 event->port->inside);
	else if (event->outcome == PUBLISH_FAILED)
		snprintf(reason, sizeof(reason), "port %u inside was not reached: %s",
			 event->port->inside, strerror(-event->error));
	witness_accept(publish->witness, peer, port, reason, event->outcome == PUBLISH_FULL);
}

static int read_ports(const struct words *words, struct published ports[static PUBLISH_PORTS],
		      struct err *err)
{
	if (words->list.count > PUBLISH_PORTS)
		return err_set(err, -E2BIG, "net.publish: more than %d ports", PUBLISH_PORTS);
	for (size_t i = 0; i < words->list.count; i++) {
		if (!policy_port_read(words->list.items[i], &ports[i]))
			return err_set(err, -EINVAL, "net.publish: \"%s\" is not a port",
				       words->list.items[i]);
		for (size_t k = 0; k < i; k++)
			if (ports[i].outside && ports[k].outside == ports[i].outside &&
			    memcmp(ports[k].ip, ports[i].ip, sizeof(ports[i].ip)) == 0)
				return err_set(
					err, -EINVAL,
					"net.publish: \"%s\" and \"%s\" are the same port of "
					"the host",
					words->list.items[k], words->list.items[i]);
	}
	return 0;
}

static void note_port(struct result *result, const struct published *port)
{
	struct result_port *to = &result->published[result->published_count++];
	struct address address = { 0 };

	_Static_assert(ARRAY_SIZE(result->published) == PUBLISH_PORTS, "room for all");
	memcpy(address.ip, port->ip, sizeof(address.ip));
	address_text(&address, to->address);
	to->port = port->outside;
	to->inside = port->inside;
}

static void note_ports(struct publish *publish, const struct published *wanted, size_t count)
{
	char text[PUBLISH_TEXT_SIZE];

	publish->witness->result->published_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct published *port = publisher_port(publish->publisher, i);

		note_port(publish->witness->result, port);
		/* Now: the result comes when it is all over. */
		if (wanted[i].outside == 0)
			fprintf(stderr, "brig: published %s\n", published_text(port, text));
	}
}

/* Nobody listens for the sandbox here; what cannot be had shall still refuse the start. */
static int only_look(struct publish *publish, const struct published *ports, size_t count)
{
	note_ports(publish, ports, count);
	publish->publisher = publisher_free(publish->publisher);
	return 0;
}

static void on_arrival(void *ctx)
{
	const struct publish *publish = ctx;

	if (publish->arrived)
		publish->arrived(publish->of);
}

static int make_publisher(struct publish *publish, const struct published *ports, size_t count,
			  struct err *err)
{
	const struct publisher_request request = {
		.ctx = publish, .ask = on_ask, .event = on_event, .arrived = on_arrival
	};

	return publisher_new(&request, ports, count, &publish->publisher, err);
}

int publish_open(struct witness *witness, const struct seclusion *seclusion, bool lives,
		 struct publish *ret_publish, int *ret_theirs, struct err *err)
{
	const struct words *words = &witness->policy->net_publish;
	struct published ports[PUBLISH_PORTS] = { 0 };
	int pair[2], r;

	if (words->list.count == 0 && !(lives && witness->tj->is_contained))
		return 0;
	ret_publish->witness = witness;
	ret_publish->seclusion = *seclusion;
	r = read_ports(words, ports, err);
	if (r == 0 && words->list.count > 0)
		r = make_publisher(ret_publish, ports, words->list.count, err);
	if (r < 0)
		return r;
	if (!witness->tj->is_contained)
		return only_look(ret_publish, ports, words->list.count);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	ret_publish->supply = pair[0];
	*ret_theirs = pair[1];
	if (words->list.count > 0)
		note_ports(ret_publish, ports, words->list.count);
	return 0;
}

int publish_add(struct publish *publish, int listener, uint16_t inside, struct err *err)
{
	int r = 0;

	if (publish->supply < 0)
		r = err_set(err, -EOPNOTSUPP,
			    "the sandbox has no network of its own: make it with --isolation "
			    "container, or with --publish %u:%u",
			    inside, inside);
	else if (!publish->publisher)
		r = make_publisher(publish, NULL, 0, err);
	if (r < 0) {
		fd_close(listener);
		return r;
	}
	return publisher_adopt(publish->publisher, listener, inside, err);
}

const struct published *publish_port(const struct publish *publish, size_t index)
{
	if (!publish->publisher || index >= publisher_count(publish->publisher))
		return NULL;
	return publisher_port(publish->publisher, index);
}

/* Before the first byte of a stranger is read. */
static bool shut_in(struct publish *publish)
{
	int r;

	if (publish->is_secluded)
		return true;
	/* Clients take some; the sandbox has got its own limit by now. */
	fd_raise_limit();
	r = seclude(&publish->seclusion);
	if (r < 0) {
		fprintf(stderr, "brig: no published ports: the warden cannot shut itself in: %s\n",
			strerror(-r));
		publish->publisher = publisher_free(publish->publisher);
		return false;
	}
	publish->is_secluded = true;
	return true;
}

static void read_supply(struct publish *publish)
{
	struct supply_order order;
	int passed[FD_PASS_MAX], r;

	while ((r = fd_receive(publish->supply, &order, sizeof(order), passed)) == 0) {
		size_t count = 0;

		while (count < FD_PASS_MAX && passed[count] >= 0)
			count++;
		publisher_supply(publish->publisher, order.family, passed, count);
	}
	/* The keeper is gone: another socket says what that means. */
	if (r != -EAGAIN)
		publish->supply = fd_close(publish->supply);
}

size_t publish_fds(const struct publish *publish, struct pollfd fds[static PUBLISH_FDS])
{
	if (!publish->publisher)
		return 0;
	fds[0] = (struct pollfd){ .fd = publisher_fd(publish->publisher), .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = publish->supply, .events = POLLIN };
	return PUBLISH_FDS;
}

int publish_timeout(const struct publish *publish)
{
	return publish->publisher ? publisher_timeout(publish->publisher) : -1;
}

void publish_poll(struct publish *publish, const struct pollfd *fds, size_t count)
{
	if (count == 0 || !publish->publisher)
		return;
	if (fds[1].revents)
		read_supply(publish);
	if (!fds[0].revents && publisher_timeout(publish->publisher) != 0)
		return;
	if (shut_in(publish))
		publisher_work(publish->publisher);
}

void publish_close(struct publish *publish)
{
	if (publish->publisher)
		publisher_close(publish->publisher);
}

bool publish_is_drained(const struct publish *publish)
{
	return !publish->publisher || publisher_is_drained(publish->publisher);
}

void publish_done(struct publish *publish)
{
	publish->publisher = publisher_free(publish->publisher);
	publish->supply = fd_close(publish->supply);
}
