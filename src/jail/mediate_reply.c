#include "jail/mediate_reply.h"

#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif

bool reply_is_awaited(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int send_reply(int listener, const struct seccomp_notif_resp *reply)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, reply) < 0 ? -errno : 0;
}

int reply_result(int listener, uint64_t id, int r)
{
	struct seccomp_notif_resp reply = { .id = id };

	if (r < 0)
		reply.error = r;
	else
		reply.val = r;
	return send_reply(listener, &reply);
}

int reply_continue(int listener, uint64_t id)
{
	const struct seccomp_notif_resp reply = { .id = id,
						  .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

	return send_reply(listener, &reply);
}

int reply_descriptor(int listener, uint64_t id, int fd, bool cloexec)
{
	struct seccomp_notif_addfd add = { .id = id,
					   .flags = SECCOMP_ADDFD_FLAG_SEND,
					   .srcfd = (uint32_t)fd,
					   .newfd_flags = cloexec ? O_CLOEXEC : 0 };

	sigset_t all, before;
	int r;

	/* An interrupted call has sent the answer and takes the descriptor back: the thread would
	 * be told 0, and that is its standard input. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	r = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}
