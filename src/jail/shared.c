#include "jail/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/mediate_act.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/syscalls.h"
#include "jail/target.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#define LOOPBACK_INDEX 1 /* in every network namespace */

int shared_confine(int fd)
{
	int index = 0;
	socklen_t len = sizeof(index);

	if (getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, &len) == 0 &&
	    index == LOOPBACK_INDEX)
		return 0;
	index = LOOPBACK_INDEX;
	return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) < 0 ? -EACCES
										       : 0;
}

int shared_refuse(const struct mediator *m, const struct seccomp_notif *notif,
		  enum outlet_refusal refusal, const struct sockaddr_storage *address, size_t len)
{
	struct outlet_message message = { .kind = OUTLET_REFUSED,
					  .pid = (int32_t)notif->pid,
					  .refusal = refusal,
					  .number = (uint32_t)notif->data.nr };

	if (m->recorder)
		message.exec = recorder_exec(m->recorder, (pid_t)notif->pid);
	if (len > 0 && len <= sizeof(message.address)) {
		message.len = (uint32_t)len;
		memcpy(message.address, address, len);
	}
	outlet_tell(m->outlet, &message);
	return -EACCES;
}

int shared_unread(const struct mediator *m, const struct seccomp_notif *notif, int r)
{
	if (r == -EPERM && target_is_closed((pid_t)notif->pid))
		return shared_refuse(m, notif, OUTLET_REFUSED_CLOSED, NULL, 0);
	if (r == -EFAULT || (r == -EINVAL && notif->data.nr == __NR_connect))
		(void)!shared_refuse(m, notif, OUTLET_REFUSED_ADDRESS, NULL, 0);
	return r;
}

static bool is_harmless4(const struct sockaddr_in *name)
{
	uint32_t ip = ntohl(name->sin_addr.s_addr);

	return name->sin_port == 0 && (ip == INADDR_ANY || ip >> 24 == IN_LOOPBACKNET);
}

static bool is_harmless6(const struct sockaddr_in6 *name)
{
	return name->sin6_port == 0 && (IN6_IS_ADDR_UNSPECIFIED(&name->sin6_addr) ||
					IN6_IS_ADDR_LOOPBACK(&name->sin6_addr));
}

/* Whether nobody else's address or port is taken by this name. */
static bool may_bind(int domain, const struct sockaddr_storage *name, size_t len)
{
	if (domain != name->ss_family)
		return false;
	switch (domain) {
	case AF_INET:
		return len >= sizeof(struct sockaddr_in) &&
		       is_harmless4((const struct sockaddr_in *)name);
	case AF_INET6:
		return len >= sizeof(struct sockaddr_in6) &&
		       is_harmless6((const struct sockaddr_in6 *)name);
	default:
		return domain == AF_NETLINK;
	}
}

static int get_option(int fd, int option, int *ret_value)
{
	socklen_t len = sizeof(*ret_value);

	return getsockopt(fd, SOL_SOCKET, option, ret_value, &len) < 0 ? -errno : 0;
}

static int carry_out_bind(const struct mediator *m, const struct seccomp_notif *notif)
{
	struct sockaddr_storage name = { 0 };
	uint32_t len = (uint32_t)notif->data.args[2];
	_cleanup_close_ int fd = -EBADF;
	int domain, type, r;

	if (len < sizeof(sa_family_t) || len > sizeof(name))
		return -EINVAL;
	r = target_read((pid_t)notif->pid, notif->data.args[1], &name, len);
	if (r < 0)
		return r;
	fd = target_duplicate((pid_t)notif->pid, (int)notif->data.args[0]);
	if (fd < 0)
		return fd;
	if (!reply_is_awaited(m->listener, notif->id))
		return -ESRCH;
	r = get_option(fd, SO_DOMAIN, &domain);
	r = r < 0 ? r : get_option(fd, SO_TYPE, &type);
	if (r < 0)
		return r;
	if (shared_turn_to_published(m, fd, domain, &name, &len))
		return bind(fd, (const struct sockaddr *)&name, len) < 0 ? -errno : 0;
	if (!may_bind(domain, &name, len))
		return shared_refuse(m, notif, OUTLET_REFUSED_BIND, &name, len);
	if (domain != AF_NETLINK && type != SOCK_STREAM && shared_confine(fd) < 0)
		return shared_refuse(m, notif, OUTLET_REFUSED_BIND, &name, len);
	return bind(fd, (const struct sockaddr *)&name, len) < 0 ? -errno : 0;
}

/* A file of the caller's own: nobody else reads through it, and nobody writes. */
static int make_resolv_conf(void)
{
	static const char text[] = "nameserver 127.0.0.1\n";
	_cleanup_close_ int fd = memfd_create("resolv.conf", MFD_CLOEXEC);
	char link[LINK_SIZE];
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text, sizeof(text) - 1);
	if (r < 0)
		return r;
	r = open(own_link(fd, link), O_RDONLY | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

/* Whatever else it may be by now, the kernel and Landlock decide about that. */
static bool is_resolv_conf(const struct seccomp_notif *notif, uint64_t path)
{
	char text[sizeof(OUTLET_RESOLV_CONF)];

	return target_string((pid_t)notif->pid, path, text, sizeof(text)) == 0 &&
	       str_equal(text, OUTLET_RESOLV_CONF);
}

/* Whether the filter lets an open wait because it might be of resolv.conf alone, not to be recorded or
 * carried out. */
static bool waits_for_us_alone(const struct mediator *m, const struct seccomp_notif *notif)
{
	uint64_t args[6];

	memcpy(args, notif->data.args, sizeof(args));
	return syscall_verdict(m->conditions & ~(unsigned int)WITH_SHARED, (uint32_t)notif->data.nr,
			       args) == ALLOW;
}

static int answer_open(const struct mediator *m, const struct seccomp_notif *notif, int path)
{
	unsigned int flags = (unsigned int)notif->data.args[path + 1];
	_cleanup_close_ int fd = -EBADF;
	int r, answer = RECORD_CONTINUED;

	if (is_resolv_conf(notif, notif->data.args[path]) &&
	    !(flags & (O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH)))
		fd = make_resolv_conf();
	if (fd >= 0) {
		/* Whatever the memory says by now, this is the file that it gets. */
		if (m->recorder && (m->conditions & WITH_READS) &&
		    !recorder_put(m->recorder, notif, m->listener, m->control, &answer))
			return -EPIPE;
		r = reply_descriptor(m->listener, notif->id, fd, flags & O_CLOEXEC);
		if (r == -EMFILE)
			r = reply_result(m->listener, notif->id, r);
		return r < 0 ? r : 1;
	}
	if (!waits_for_us_alone(m, notif))
		return 0;
	r = reply_continue(m->listener, notif->id);
	return r < 0 ? r : 1;
}

static const struct {
	int number;
	int (*carry_out)(const struct mediator *m, const struct seccomp_notif *notif);
} shared_calls[] = {
	{ __NR_sendto, shared_send },   { __NR_sendmsg, shared_send },
	{ __NR_sendmmsg, shared_send }, { __NR_bind, carry_out_bind },
	{ __NR_listen, shared_listen },
};

int shared_answer(const struct mediator *m, const struct seccomp_notif *notif)
{
	int r;

	if (notif->data.nr == __NR_openat)
		return answer_open(m, notif, 1);
#ifdef __x86_64__
	if (notif->data.nr == __NR_open)
		return answer_open(m, notif, 0);
#endif
	for (size_t i = 0; i < ARRAY_SIZE(shared_calls); i++) {
		if (shared_calls[i].number != notif->data.nr)
			continue;
		r = shared_unread(m, notif, shared_calls[i].carry_out(m, notif));
		if (r != -EINPROGRESS)
			r = reply_result(m->listener, notif->id, r);
		return r < 0 && r != -EINPROGRESS ? r : 1;
	}
	return 0;
}
