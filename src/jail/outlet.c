#include "jail/outlet.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/mediate_reply.h"
#include "jail/target.h"

#define PASSED_MAX (2 + OUTLET_SPARES)
_Static_assert(PASSED_MAX <= FD_PASS_MAX, "one message holds them");

/* Sends a message with the descriptors that belong to it, and new sockets for the stock. */
static int send_message(const struct outlet *outlet, const struct outlet_message *message,
			const int *own, size_t own_count, const int *families, size_t spares)
{
	int passed[PASSED_MAX];
	size_t count = own_count;
	int r;

	memcpy(passed, own, own_count * sizeof(*own));
	/* A host without IPv6 has none to give; where memory is short, the next message may have. */
	for (size_t i = 0; i < spares && outlet->resolver == 0; i++) {
		int fd = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd >= 0)
			passed[count++] = fd;
	}
	r = fd_send(outlet->channel, message, sizeof(*message), passed, count);
	for (size_t i = own_count; i < count; i++)
		close(passed[i]);
	return r;
}

int outlet_open(struct outlet *outlet)
{
	/* What the gate's first connection takes, and one to know the network by. */
	static const int families[] = { AF_INET, AF_INET, AF_INET, AF_INET, AF_INET6, AF_INET6 };
	const struct outlet_message message = { .kind = OUTLET_OPENED };
	int r;

	_Static_assert(ARRAY_SIZE(families) == OUTLET_SPARES, "as the header says");

	if (outlet->datagrams < 0)
		return 0;
	r = send_message(outlet, &message, (const int[]){ outlet->datagrams, outlet->listener }, 2,
			 families, ARRAY_SIZE(families));
	outlet->datagrams = fd_close(outlet->datagrams);
	outlet->listener = fd_close(outlet->listener);
	return r;
}

/* Whoever answers has it from here on, as we do. */
static int tell_listener(struct outlet *outlet, int listener)
{
	const struct outlet_message message = { .kind = OUTLET_LISTENER };
	int r = outlet->has_told ? 0 : send_message(outlet, &message, &listener, 1, NULL, 0);

	outlet->has_told = r == 0;
	return r;
}

static int tell(const struct outlet *outlet, enum outlet_kind kind, uint64_t id)
{
	const struct outlet_message message = { .kind = (int32_t)kind, .id = id };

	return fd_send(outlet->channel, &message, sizeof(message), NULL, 0);
}

void outlet_tell(const struct outlet *outlet, const struct outlet_message *message)
{
	(void)!fd_send(outlet->channel, message, sizeof(*message), NULL, 0);
}

/* Which family a socket is of; of internet sockets the gate says what is refused. */
static int family_of(int fd)
{
	socklen_t len = sizeof(int);
	int domain;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ? -errno : domain;
}

/*
 * On a network that is shared, a connect that is not the gate's. Netlink is for the kernel's ears;
 * a pair has its peer, and no other socket of the sandbox's could have one.
 */
static int connect_here(int fd, int family, const struct outlet_message *message)
{
	struct sockaddr_nl name;

	if (family < 0)
		return family;
	if (family != AF_NETLINK)
		return -EISCONN;
	memcpy(&name, message->address, sizeof(name));
	if (message->len < sizeof(name) || name.nl_family != AF_NETLINK || name.nl_pid != 0 ||
	    name.nl_groups != 0)
		return -EPERM;
	return connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ? -errno : 0;
}

/* What the gate will need for it: a caller whose socket is of IPv6 may mean IPv4. */
static int stock_family(int family, const struct outlet_message *message)
{
	struct sockaddr_in6 name;

	memcpy(&name, message->address, sizeof(name));
	return family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&name.sin6_addr) ? AF_INET : family;
}

/* One for each in the long run, and more now and then, as the gate may need another place to park. */
static int hand_over(struct outlet *outlet, const struct outlet_message *message, int fd,
		     int family)
{
	int families[OUTLET_BATCH + 1];
	bool is_due;

	_Static_assert(1 + ARRAY_SIZE(families) <= PASSED_MAX, "one message holds them");

	family = stock_family(family, message);
	is_due = outlet->offered[family == AF_INET6]++ % OUTLET_BATCH == 0;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		families[i] = family;
	return send_message(outlet, message, &fd, 1, families, is_due ? ARRAY_SIZE(families) : 0);
}

static void forget_answered(struct outlet *outlet, int listener)
{
	for (size_t i = outlet->held_count; i-- > 0;)
		if (!reply_is_awaited(listener, outlet->held[i].id))
			outlet->held[i] = outlet->held[--outlet->held_count];
}

static bool has_room(struct outlet *outlet, int listener)
{
	if (outlet->held_count == OUTLET_HELD_MAX)
		forget_answered(outlet, listener);
	return outlet->held_count < OUTLET_HELD_MAX;
}

int outlet_offer(struct outlet *outlet, int listener, const struct seccomp_notif *notif,
		 uint32_t exec)
{
	struct outlet_message message = { .kind = OUTLET_CONNECT,
					  .id = notif->id,
					  .pid = (int32_t)notif->pid,
					  .exec = exec,
					  .len = (uint32_t)notif->data.args[2] };
	_cleanup_close_ int fd = -EBADF;
	int family, r;

	if (message.len > sizeof(message.address))
		return -EINVAL;
	r = target_read((pid_t)notif->pid, notif->data.args[1], message.address, message.len);
	if (r < 0)
		return r;
	fd = target_duplicate((pid_t)notif->pid, (int)notif->data.args[0]);
	if (fd < 0)
		return fd;
	if (!reply_is_awaited(listener, notif->id))
		return -ESRCH;
	family = family_of(fd);
	if (family != AF_INET && family != AF_INET6) {
		if (outlet->resolver == 0)
			return 0;
		r = connect_here(fd, family, &message);
		r = r < 0 ? r : reply_result(listener, notif->id, 0);
		return r < 0 ? r : 1;
	}
	if (!has_room(outlet, listener))
		return -EAGAIN;
	r = tell_listener(outlet, listener);
	r = r < 0 ? r : outlet_open(outlet);
	r = r < 0 ? r : hand_over(outlet, &message, fd, family);
	if (r < 0)
		return r == -EAGAIN ? r : -ENETUNREACH;
	outlet->held[outlet->held_count].is_signalled = false;
	outlet->held[outlet->held_count].id = notif->id;
	outlet->held[outlet->held_count++].tid = (pid_t)notif->pid;
	return 1;
}

void outlet_look(struct outlet *outlet, int listener)
{
	forget_answered(outlet, listener);
	for (size_t i = 0; i < outlet->held_count; i++)
		/* The gate answers: until then the socket does not look like a connecting one. */
		if (!outlet->held[i].is_signalled && target_has_signal(outlet->held[i].tid))
			outlet->held[i].is_signalled =
				tell(outlet, OUTLET_SIGNAL, outlet->held[i].id) == 0;
}
