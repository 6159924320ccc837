#include "jail/mediate_record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/fd.h"
#include "jail/mediate_reply.h"
#include "jail/numbers.h"
#include "jail/target.h"

#define FULL_NAP_MS 1
#define ADDRESS_MAX 128 /* of a sockaddr, as the kernel has it */

enum { NONE = -1 };

/* Which argument is what; NONE where the call has none. */
struct recorded {
	int number;
	int8_t fd, path, fd_two, path_two;
};

/* clang-format off */
#define PATH(call, path)              { __NR_##call, NONE, path, NONE, NONE }
#define PATH_AT(call, fd, path)       { __NR_##call, fd, path, NONE, NONE }
#define TWO_PATHS(call, a, b)         { __NR_##call, NONE, a, NONE, b }
#define TWO_AT(call, fd, a, other, b) { __NR_##call, fd, a, other, b }

static const struct recorded recorded[] = {
	PATH_AT(openat, 0, 1), PATH_AT(mkdirat, 0, 1), PATH_AT(mknodat, 0, 1),
	PATH_AT(unlinkat, 0, 1), PATH(truncate, 0), PATH(execve, 0), PATH_AT(execveat, 0, 1),
	TWO_AT(renameat, 0, 1, 2, 3), TWO_AT(renameat2, 0, 1, 2, 3), TWO_AT(linkat, 0, 1, 2, 3),
	{ __NR_symlinkat, NONE, 0, 1, 2 },
	PATH(chroot, 0), PATH(pivot_root, 0), PATH(mount, 1), PATH(umount2, 0), PATH_AT(open_tree, 0, 1),
	PATH_AT(fspick, 0, 1), PATH(swapon, 0), PATH(acct, 0),
	PATH_AT(fchmodat, 0, 1), PATH_AT(fchmodat2, 0, 1), PATH_AT(fchownat, 0, 1),
	PATH_AT(utimensat, 0, 1),
#ifdef __x86_64__
	PATH(open, 0), PATH(creat, 0), PATH(mkdir, 0), PATH(mknod, 0), PATH(unlink, 0), PATH(rmdir, 0),
	TWO_PATHS(rename, 0, 1), TWO_PATHS(link, 0, 1), { __NR_symlink, NONE, 0, NONE, 1 },
	PATH(chmod, 0), PATH(chown, 0),
#endif
};
/* clang-format on */

static const struct recorded *find_recorded(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++)
		if (recorded[i].number == number)
			return &recorded[i];
	return NULL;
}

/* All that is copied; large, so there is one. */
struct copies {
	struct record_entry entry;
	char texts[RECORD_TEXTS][RECORD_TEXT_MAX];
	pid_t tid;
	int failure; /* -errno: why something could not be copied */
};

static void fail(struct copies *c, int error)
{
	c->entry.is_unread = true;
	c->failure = error;
}

/* One path, and where it starts from. */
static void copy_path(struct copies *c, const struct seccomp_notif *notif, int fd, int path,
		      int base_at)
{
	char *text = c->texts[base_at + 1];
	int r;

	if (path == NONE)
		return;
	r = target_string(c->tid, notif->data.args[path], text, RECORD_TEXT_MAX);
	if (r < 0) {
		text[0] = '\0';
		fail(c, r);
		return;
	}
	if (text[0] == '/')
		return;
	if (target_place(c->tid, fd == NONE ? AT_FDCWD : (int)notif->data.args[fd],
			 c->texts[base_at], RECORD_TEXT_MAX) < 0)
		c->texts[base_at][0] = '\0';
}

static void copy_unix(const unsigned char *bytes, size_t len, char *text, size_t size)
{
	const char *name = (const char *)bytes + offsetof(struct sockaddr_un, sun_path);
	size_t count = len > offsetof(struct sockaddr_un, sun_path)
			       ? len - offsetof(struct sockaddr_un, sun_path)
			       : 0;

	if (count > 0 && name[0] == '\0')
		snprintf(text, size, "unix:@%.*s", (int)strnlen(name + 1, count - 1), name + 1);
	else
		snprintf(text, size, "unix:%.*s", (int)strnlen(name, count), name);
}

/* A socket address as text: what is dialled, if anything is, is not decided by this copy. */
static void copy_address(struct copies *c, const struct seccomp_notif *notif)
{
	unsigned char bytes[ADDRESS_MAX] = { 0 };
	size_t len = MIN((size_t)(uint32_t)notif->data.args[2], sizeof(bytes));
	char *text = c->texts[RECORD_PATH], number[INET6_ADDRSTRLEN];
	struct sockaddr_in6 six;
	struct sockaddr_in four;
	sa_family_t family;
	int r = len < sizeof(family) ? -EINVAL
				     : target_read(c->tid, notif->data.args[1], bytes, len);

	if (r < 0) {
		fail(c, r);
		return;
	}
	memcpy(&family, bytes, sizeof(family));
	memcpy(&four, bytes, sizeof(four));
	memcpy(&six, bytes, sizeof(six));
	if (family == AF_INET && len >= sizeof(four))
		snprintf(text, RECORD_TEXT_MAX, "%s:%u",
			 inet_ntop(AF_INET, &four.sin_addr, number, sizeof(number)),
			 ntohs(four.sin_port));
	else if (family == AF_INET6 && len >= offsetof(struct sockaddr_in6, sin6_scope_id))
		snprintf(text, RECORD_TEXT_MAX, "[%s]:%u",
			 inet_ntop(AF_INET6, &six.sin6_addr, number, sizeof(number)),
			 ntohs(six.sin6_port));
	else if (family == AF_UNIX)
		copy_unix(bytes, len, text, RECORD_TEXT_MAX);
	else
		snprintf(text, RECORD_TEXT_MAX, "family:%u", family);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint32_t recorder_exec(struct recorder *rec, pid_t tid)
{
	return lineage_of(&rec->lineage, tid, now_ns());
}

static void copy_call(struct recorder *rec, const struct seccomp_notif *notif, struct copies *c)
{
	const struct recorded *call = find_recorded(notif->data.nr);

	for (int i = 0; i < RECORD_TEXTS; i++)
		c->texts[i][0] = '\0';
	if (call) {
		copy_path(c, notif, call->fd, call->path, RECORD_BASE);
		copy_path(c, notif, call->fd_two, call->path_two, RECORD_BASE_TWO);
	} else if (notif->data.nr == __NR_connect) {
		copy_address(c, notif);
	}
	c->entry.parent = c->entry.exec = lineage_of(&rec->lineage, c->tid, c->entry.time);
	if (notif->data.nr == __NR_execve || notif->data.nr == __NR_execveat)
		c->entry.exec = lineage_exec(&rec->lineage, c->tid);
}

static bool is_gone(int control)
{
	struct pollfd fd = { .fd = control };

	return poll(&fd, 1, FULL_NAP_MS) == 1 && (fd.revents & POLLHUP);
}

/* What a call gets that cannot be let through: closed memory is a refusal, the rest is a mistake. */
static int answer_unread(int failure)
{
	return failure == -EPERM || failure == -ESRCH ? -EACCES : failure;
}

/*
 * What could not be read is not let through, unless it is because the caller is gone. Where all was
 * read, nobody asks whether he is still there, though his number may be another's by now: this copy
 * decides nothing, and the call of one who is gone never happens.
 */
static void check_copies(struct copies *c, const struct seccomp_notif *notif, int listener)
{
	if (!c->failure)
		return;
	if (reply_is_awaited(listener, notif->id)) {
		if (c->entry.answer == RECORD_CONTINUED)
			c->entry.answer = answer_unread(c->failure);
		return;
	}
	for (int i = 0; i < RECORD_TEXTS; i++)
		c->texts[i][0] = '\0';
	c->entry.is_unread = true;
}

bool recorder_put(struct recorder *rec, const struct seccomp_notif *notif, int listener,
		  int control, int *answer)
{
	static struct copies c;
	const char *texts[RECORD_TEXTS];

	if (!rec->ring)
		return true;
	c.tid = (pid_t)notif->pid;
	c.entry = (struct record_entry){ .time = now_ns(),
					 .number = (uint32_t)notif->data.nr,
					 .pid = (int32_t)notif->pid,
					 .answer = *answer };
	c.failure = 0;
	memcpy(c.entry.args, notif->data.args, sizeof(c.entry.args));
	copy_call(rec, notif, &c);
	check_copies(&c, notif, listener);
	*answer = c.entry.answer;
	for (int i = 0; i < RECORD_TEXTS; i++)
		texts[i] = c.texts[i];
	while (record_put(rec->ring, &c.entry, texts) == -EAGAIN) {
		record_push(rec->ring);
		if (is_gone(control) || now_ns() >= rec->deadline)
			return false;
	}
	return true;
}
