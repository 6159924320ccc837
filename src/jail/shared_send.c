/* The senders of shared.h: sendto, sendmsg, sendmmsg. */
#include "jail/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/target.h"
#include "jail/waiter.h"

#define PIECES_MAX   1024 /* as the kernel has it */
#define MESSAGES_MAX 64   /* of one sendmmsg; who has more is told how many were sent */
#define CONTROL_MAX  2048
#define PASSED_MAX   253 /* as the kernel has it */
#define LOOK_MS      50
#define NAP_NS       1000000

#define FLAGS_KNOWN (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | MSG_OOB | MSG_CONFIRM)

/* What the kernel reads: the same for every libc on machines of 64 bits. */
struct user_message {
	uint64_t name;
	uint32_t name_len, pad;
	uint64_t pieces, piece_count;
	uint64_t control, control_len;
	uint32_t flags, more_pad;
};
struct user_messages {
	struct user_message message;
	uint32_t len, pad;
};

struct sending {
	const struct mediator *mediator;
	const struct seccomp_notif *notif;
	pid_t tid;
	int fd, domain, type, protocol;
	int flags;
	bool waits;
	socklen_t name_len;
	struct sockaddr_storage name;
	struct iovec pieces[PIECES_MAX]; /* of the sender's memory */
	size_t piece_count;
	size_t len, sent; /* of data */
	size_t control_len;
	char control[CONTROL_MAX] __attribute__((aligned(16)));
	int passed[PASSED_MAX]; /* duplicates of the descriptors in control */
	size_t passed_count;
	char data[SHARED_SEND_MAX];
};

static int get(int fd, int option, int *ret_value)
{
	socklen_t len = sizeof(*ret_value);

	return getsockopt(fd, SOL_SOCKET, option, ret_value, &len) < 0 ? -errno : 0;
}

static int take_socket(struct sending *s)
{
	int flags, r;

	s->fd = target_duplicate(s->tid, (int)s->notif->data.args[0]);
	if (s->fd < 0)
		return s->fd;
	r = get(s->fd, SO_DOMAIN, &s->domain);
	r = r < 0 ? r : get(s->fd, SO_TYPE, &s->type);
	r = r < 0 ? r : get(s->fd, SO_PROTOCOL, &s->protocol);
	flags = fcntl(s->fd, F_GETFL);
	s->waits = !(s->flags & MSG_DONTWAIT) && !(flags & O_NONBLOCK);
	return r;
}

static void drop_passed(struct sending *s)
{
	while (s->passed_count > 0)
		fd_close(s->passed[--s->passed_count]);
}

/* All pieces in one, as far as one send goes. */
static int take_data(struct sending *s)
{
	uint64_t total = 0;

	s->len = s->sent = 0;
	for (size_t i = 0; i < s->piece_count; i++) {
		if (s->pieces[i].iov_len > INT64_MAX - total)
			return -EINVAL;
		total += s->pieces[i].iov_len;
	}
	if (total > sizeof(s->data) && s->type != SOCK_STREAM)
		return -EMSGSIZE;
	for (size_t i = 0; i < s->piece_count && s->len < sizeof(s->data); i++) {
		uint64_t at = (uint64_t)(uintptr_t)s->pieces[i].iov_base;
		size_t left = MIN(s->pieces[i].iov_len, sizeof(s->data) - s->len);

		while (left > 0) {
			size_t n = MIN(left, (size_t)TARGET_READ_MAX);
			int r = target_read(s->tid, at, s->data + s->len, n);

			if (r < 0)
				return r;
			s->len += n;
			at += n;
			left -= n;
		}
	}
	return 0;
}

static int take_name(struct sending *s, uint64_t address, uint32_t len)
{
	s->name_len = 0;
	if (!address || len == 0)
		return 0;
	if (len > INT32_MAX)
		return -EINVAL;
	memset(&s->name, 0, sizeof(s->name));
	s->name_len = (socklen_t)MIN((size_t)len, sizeof(s->name));
	return target_read(s->tid, address, &s->name, s->name_len);
}

static int take_message(struct sending *s, const struct user_message *message)
{
	int r = take_name(s, message->name, message->name_len);

	if (r < 0)
		return r;
	if (message->piece_count > PIECES_MAX)
		return -EMSGSIZE;
	s->piece_count = (size_t)message->piece_count;
	r = target_read(s->tid, message->pieces, s->pieces, s->piece_count * sizeof(*s->pieces));
	if (r < 0)
		return r;
	s->control_len = 0;
	if (message->control && message->control_len > 0) {
		if (message->control_len > sizeof(s->control))
			return -ENOBUFS;
		s->control_len = (size_t)message->control_len;
		r = target_read(s->tid, message->control, s->control, s->control_len);
	}
	return r < 0 ? r : take_data(s);
}

/* Puts duplicates of ours in the place of the sender's descriptors. */
static int pass_on(struct sending *s, struct cmsghdr *header)
{
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		unsigned char *at = CMSG_DATA(header) + i * sizeof(int);
		int fd;

		if (s->passed_count == PASSED_MAX)
			return -EINVAL;
		memcpy(&fd, at, sizeof(fd));
		fd = target_duplicate(s->tid, fd);
		if (fd < 0)
			return fd;
		s->passed[s->passed_count++] = fd;
		memcpy(at, &fd, sizeof(fd));
	}
	return 0;
}

/* Between processes of the sandbox descriptors may pass. Who one is, the kernel would ask us. */
static int aim_at_pair(struct sending *s)
{
	struct msghdr message = { .msg_control = s->control, .msg_controllen = s->control_len };

	if (s->name_len > 0)
		return -EISCONN;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
	     header = CMSG_NXTHDR(&message, header)) {
		size_t room = s->control_len - (size_t)((char *)header - s->control);
		int r;

		if (header->cmsg_len < CMSG_LEN(0) || header->cmsg_len > room)
			return -EINVAL;
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			return -EPERM;
		r = pass_on(s, header);
		if (r < 0)
			return r;
	}
	return 0;
}

static int aim_at_kernel(struct sending *s)
{
	struct sockaddr_nl name;

	memcpy(&name, &s->name, sizeof(name));
	if (s->control_len > 0)
		return -EPERM;
	if (s->name_len > 0 && (s->name_len < sizeof(name) || name.nl_family != AF_NETLINK ||
				name.nl_pid != 0 || name.nl_groups != 0))
		return -EPERM;
	return 0;
}

static int refuse(const struct sending *s, enum outlet_refusal refusal)
{
	return shared_refuse(s->mediator, s->notif, refusal, &s->name, s->name_len);
}

static bool is_for_names(const struct sending *s)
{
	struct sockaddr_in name;

	/* The port stands at the same place in both families. */
	memcpy(&name, &s->name, sizeof(name));
	if (s->name.ss_family != AF_INET && s->name.ss_family != AF_INET6)
		return false;
	return s->name_len >= sizeof(name) && ntohs(name.sin_port) == PORT_OF_NAMES;
}

static void turn_to_resolver(struct sending *s)
{
	uint16_t port = htons(s->mediator->outlet->resolver);

	memset(&s->name, 0, sizeof(s->name));
	if (s->domain == AF_INET6) {
		struct sockaddr_in6 *to = (struct sockaddr_in6 *)&s->name;

		*to = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = port };
		to->sin6_addr.s6_addr[10] = to->sin6_addr.s6_addr[11] = 0xff;
		to->sin6_addr.s6_addr[12] = IN_LOOPBACKNET;
		to->sin6_addr.s6_addr[15] = 1;
		s->name_len = sizeof(*to);
	} else {
		struct sockaddr_in *to = (struct sockaddr_in *)&s->name;

		*to = (struct sockaddr_in){ .sin_family = AF_INET,
					    .sin_port = port,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		s->name_len = sizeof(*to);
	}
}

static int aim_at_internet(struct sending *s)
{
	if (s->control_len > 0)
		return refuse(s, OUTLET_REFUSED_CONTROL);
	if (s->protocol == IPPROTO_TCP && s->type == SOCK_STREAM) {
		/* It goes where the gate connected it, whatever is said here. */
		s->name_len = 0;
		return 0;
	}
	if (s->protocol != IPPROTO_UDP)
		return refuse(s, OUTLET_REFUSED_SEND);
	if (s->name_len == 0)
		return 0;
	if (!is_for_names(s) || shared_confine(s->fd) < 0)
		return refuse(s, OUTLET_REFUSED_SEND);
	turn_to_resolver(s);
	return 0;
}

static const struct {
	int domain;
	int (*aim)(struct sending *s);
} aims[] = {
	{ AF_INET, aim_at_internet },
	{ AF_INET6, aim_at_internet },
	{ AF_UNIX, aim_at_pair },
	{ AF_NETLINK, aim_at_kernel },
};

/* Where may it go? What the sender's memory said is in s, and changes no more. */
static int aim(struct sending *s)
{
	if (s->flags & ~FLAGS_KNOWN)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < ARRAY_SIZE(aims); i++)
		if (aims[i].domain == s->domain)
			return aims[i].aim(s);
	return refuse(s, OUTLET_REFUSED_SEND);
}

/* One attempt, without waiting. */
static int try(struct sending *s)
{
	struct iovec data = { s->data + s->sent, s->len - s->sent };
	struct msghdr message = { .msg_name = s->name_len ? &s->name : NULL,
				  .msg_namelen = s->name_len,
				  .msg_iov = &data,
				  .msg_iovlen = 1 };
	ssize_t n;

	/* Descriptors go with the first byte. */
	if (s->sent == 0 && s->control_len > 0) {
		message.msg_control = s->control;
		message.msg_controllen = s->control_len;
	}
	n = sendmsg(s->fd, &message, s->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	s->sent += (size_t)n;
	return 0;
}

/* Whether r ends the call for a sender that waits until all is sent. */
static bool is_over(const struct sending *s, int r)
{
	return r == 0 ? s->type != SOCK_STREAM || s->sent == s->len : r != -EAGAIN;
}

/* What the call returns. A broken stream is a signal as well. */
static int outcome(const struct sending *s, int r)
{
	if (r < 0 && s->sent > 0)
		return (int)s->sent;
	if (r == -EPIPE && s->type == SOCK_STREAM && !(s->flags & MSG_NOSIGNAL) &&
	    reply_is_awaited(s->mediator->listener, s->notif->id))
		syscall(SYS_tkill, s->tid, SIGPIPE);
	return r < 0 ? r : (int)s->sent;
}

static uint64_t deadline_of(int fd)
{
	struct timeval limit = { 0 };
	socklen_t len = sizeof(limit);

	if (getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &len) < 0 ||
	    (limit.tv_sec == 0 && limit.tv_usec == 0))
		return UINT64_MAX;
	return clock_ms() + (uint64_t)limit.tv_sec * 1000 + (uint64_t)limit.tv_usec / 1000;
}

/* In a process of its own: until it is sent, the sender has a signal to handle, or is gone. */
_Noreturn static void wait_for_room(struct sending *s, bool is_one_of_many)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	int keep[PASSED_MAX + 2], r = -EAGAIN, listener = s->mediator->listener;
	uint64_t deadline = deadline_of(s->fd);

	memcpy(keep, s->passed, s->passed_count * sizeof(*keep));
	keep[s->passed_count] = s->fd;
	keep[s->passed_count + 1] = listener;
	fd_close_others(keep, s->passed_count + 2);
	while (!is_over(s, r)) {
		struct pollfd room = { .fd = s->fd, .events = POLLOUT };

		if (poll(&room, 1, LOOK_MS) > 0) {
			r = try(s);
			if (r == -EAGAIN)
				nanosleep(&nap, NULL);
		}
		if (!reply_is_awaited(listener, s->notif->id))
			_exit(0);
		if (is_over(s, r))
			break;
		if (target_has_signal(s->tid))
			r = -EINTR;
		else if (clock_ms() >= deadline)
			break;
	}
	r = outcome(s, r);
	(void)!reply_result(listener, s->notif->id, is_one_of_many && r >= 0 ? 1 : r);
	_exit(0);
}

/* What the call returns, or -EINPROGRESS. */
static int carry_out(struct sending *s, bool is_one_of_many)
{
	int r = try(s);
	pid_t pid;

	if (is_over(s, r) || !s->waits)
		return outcome(s, r);
	pid = waiter_fork();
	if (pid == 0)
		wait_for_room(s, is_one_of_many);
	return pid > 0 ? -EINPROGRESS : s->sent > 0 ? (int)s->sent : pid;
}

/* Once for what was copied, once for the descriptors that go with it. */
static int judge_and_send(struct sending *s, bool is_one_of_many)
{
	int listener = s->mediator->listener, r;

	if (!reply_is_awaited(listener, s->notif->id))
		return -ESRCH;
	r = aim(s);
	if (r == 0 && s->passed_count > 0 && !reply_is_awaited(listener, s->notif->id))
		r = -ESRCH;
	return r < 0 ? r : carry_out(s, is_one_of_many);
}

static int send_one(struct sending *s, const struct user_message *message, bool is_one_of_many)
{
	int r = take_message(s, message);

	return r < 0 ? r : judge_and_send(s, is_one_of_many);
}

/* The number that were sent. Only the first waits: then its length is told before it is sent. */
static int send_many(struct sending *s)
{
	const unsigned long long *args = s->notif->data.args;
	unsigned int count = MIN((unsigned int)args[2], (unsigned int)MESSAGES_MAX), i;
	int r = 0;

	for (i = 0; i < count && r >= 0; i++) {
		uint64_t at = args[1] + i * sizeof(struct user_messages);
		struct user_messages next;
		uint32_t len;

		s->waits = s->waits && i == 0;
		r = target_read(s->tid, at, &next, sizeof(next));
		r = r < 0 ? r : send_one(s, &next.message, true);
		drop_passed(s);
		if (r < 0 && r != -EINPROGRESS)
			break;
		len = r < 0 ? (uint32_t)s->len : (uint32_t)r;
		if (target_write(s->tid, at + offsetof(struct user_messages, len), &len,
				 sizeof(len)) < 0 &&
		    r >= 0)
			r = -EFAULT;
	}
	return i == 0 || r == -EINPROGRESS ? r : (int)i;
}

static int send_any(struct sending *s)
{
	const unsigned long long *args = s->notif->data.args;
	struct user_message message = { 0 };
	int r;

	if (s->notif->data.nr == __NR_sendmmsg)
		return send_many(s);
	if (s->notif->data.nr == __NR_sendmsg) {
		r = target_read(s->tid, args[1], &message, sizeof(message));
		return r < 0 ? r : send_one(s, &message, false);
	}
	s->pieces[0] = (struct iovec){ (void *)(uintptr_t)args[1], (size_t)args[2] };
	s->piece_count = 1;
	s->control_len = 0;
	r = take_name(s, args[4], (uint32_t)args[5]);
	r = r < 0 ? r : take_data(s);
	return r < 0 ? r : judge_and_send(s, false);
}

int shared_send(const struct mediator *m, const struct seccomp_notif *notif)
{
	static struct sending s; /* large, and one at a time */
	int r;

	s.mediator = m;
	s.notif = notif;
	s.tid = (pid_t)notif->pid;
	s.passed_count = 0;
	s.flags = (int)notif->data.args[notif->data.nr == __NR_sendmsg ? 2 : 3];
	r = take_socket(&s);
	r = r < 0 ? r : send_any(&s);
	drop_passed(&s);
	s.fd = fd_close(s.fd);
	return r;
}
