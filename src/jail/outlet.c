#include "jail/outlet.h"

#include <errno.h>
#include <linux/netlink.h>
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
	if (outlet->held_count == OUTLET_HELD_MAX)
		return -EAGAIN;
	r = outlet_open(outlet);
	/* One for each, and now and then more, as the gate may need another place to park. */
	r = r < 0 ? r
		  : send_message(outlet, &message, &fd, 1, (const int[]){ family, family, family },
				 outlet->offered++ % OUTLET_SURPLUS ? 1 : 3);
	if (r < 0)
		return r == -EAGAIN ? r : -ENETUNREACH;
	outlet->held[outlet->held_count].is_signalled = false;
	outlet->held[outlet->held_count].id = notif->id;
	outlet->held[outlet->held_count++].tid = (pid_t)notif->pid;
	return 1;
}

static void forget(struct outlet *outlet, size_t at)
{
	outlet->held[at] = outlet->held[--outlet->held_count];
}

int outlet_answer(struct outlet *outlet, int listener)
{
	struct outlet_answer answer;
	ssize_t n;

	while ((n = recv(outlet->channel, &answer, sizeof(answer), MSG_DONTWAIT)) ==
	       sizeof(answer)) {
		for (size_t i = 0; i < outlet->held_count; i++)
			if (outlet->held[i].id == answer.id) {
				(void)!reply_result(listener, answer.id, -answer.error);
				forget(outlet, i);
				break;
			}
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

void outlet_look(struct outlet *outlet, int listener)
{
	for (size_t i = outlet->held_count; i-- > 0;) {
		uint64_t id = outlet->held[i].id;

		if (!reply_is_awaited(listener, id)) {
			(void)!tell(outlet, OUTLET_CANCELLED, id);
			forget(outlet, i);
		} else if (!outlet->held[i].is_signalled &&
			   target_has_signal(outlet->held[i].tid)) {
			/* The gate answers: until then the socket does not look like a connecting one. */
			outlet->held[i].is_signalled = tell(outlet, OUTLET_SIGNAL, id) == 0;
		}
	}
}
