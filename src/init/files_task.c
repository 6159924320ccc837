/*
 * files_task.c - how a call for a file waits, hears, speaks and fails
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "init/files_internal.h"

#define QUEUE_HIGH  (64 * KIB)
#define LOOK_EVERY  64
#define TICK_US     200000
#define PATH_SHOWN  300 /* bytes of a path that words have room for */
#define MESSAGE_ALL 256 /* of one look */

/* 1: a message that is not for us here. */
static int receive(struct task *t, struct message *ret_message)
{
	int r;

	while ((r = channel_receive(t->channel, ret_message)) > 0) {
		if (ret_message->type == MESSAGE_CANCEL)
			return err_set(&t->err, -ECANCELED, "cancelled");
		t->has_end |= ret_message->type == MESSAGE_DATA_END;
		if (ret_message->type != MESSAGE_CREDIT)
			return 1;
		t->credit +=
			MIN(message_number(ret_message, FIELD_SIZE, 0), UINT64_MAX - t->credit);
	}
	if (r < 0)
		t->is_over = true;
	return r < 0 ? -EPIPE : 0;
}

int task_look(struct task *t)
{
	struct message m;
	int r = 0;

	for (int i = 0; i < MESSAGE_ALL; i++) {
		r = receive(t, &m);
		if (r <= 0)
			break;
		message_done(&m);
	}
	return MIN(r, 0);
}

/* One wait for the channel and one more descriptor: 1 when that is ready. */
static int wait_once(struct task *t, int fd, short events, int ms)
{
	struct pollfd fds[] = { { .fd = t->channel->fd, .events = channel_events(t->channel) },
				{ .fd = fd, .events = events } };
	int r = poll(fds, ARRAY_SIZE(fds), ms);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	if ((fds[0].revents & POLLOUT) && channel_flush(t->channel) < 0) {
		t->is_over = true;
		return -EPIPE;
	}
	if (fds[0].revents & ~POLLOUT) {
		r = task_look(t);
		if (r < 0)
			return r;
	}
	return fds[1].revents ? 1 : 0;
}

int task_wait(struct task *t, int fd, short events, int ms)
{
	uint64_t end = clock_ms() + (uint64_t)MAX(ms, 0);
	uint64_t now = clock_ms();
	int r;

	do {
		r = wait_once(t, fd, events, ms < 0 ? -1 : (int)(end - MIN(now, end)));
		now = clock_ms();
	} while (r == 0 && fd >= 0 && (ms < 0 || now < end));
	return r;
}

int task_take(struct task *t, struct message *ret_message)
{
	struct pollfd fds = { .fd = t->channel->fd };
	int r;

	for (;;) {
		r = receive(t, ret_message);
		if (r != 0)
			return r;
		fds.events = channel_events(t->channel);
		if (poll(&fds, 1, -1) < 0 && errno != EINTR)
			return -errno;
		if ((fds.revents & POLLOUT) && channel_flush(t->channel) < 0) {
			t->is_over = true;
			return -EPIPE;
		}
	}
}

int task_send(struct task *t, struct draft *d)
{
	int r = channel_send(t->channel, d, NULL, 0);

	if (r < 0) {
		t->is_over = r != -EMSGSIZE && r != -ENOMEM;
		return r;
	}
	while (r >= 0 && channel_waiting(t->channel) > QUEUE_HIGH)
		r = task_wait(t, -EBADF, 0, -1);
	if (r >= 0 && ++t->sent % LOOK_EVERY == 0)
		r = task_look(t);
	return MIN(r, 0);
}

int task_await_credit(struct task *t)
{
	int r = 0;

	while (r >= 0 && t->credit == 0)
		r = task_wait(t, -EBADF, 0, -1);
	return MIN(r, 0);
}

/* What the kernel's numbers mean here. */
static const struct {
	int code;
	const char *words;
} meanings[] = {
	{ ENOENT, "does not exist" },
	{ EEXIST, "is there already" },
	{ EACCES, "permission denied" },
	{ EPERM, "this is not permitted" },
	{ EROFS, "is read-only" },
	{ ENOSPC, "the disk of the sandbox is full (limits.disk)" },
	{ EDQUOT, "the quota of the disk is used up" },
	{ EFBIG, "is larger than a file may be here (limits.disk)" },
	{ EISDIR, "is a directory" },
	{ ENOTDIR, "is no directory, or lies in something that is none" },
	{ ENOTEMPTY, "is a directory that is not empty" },
	{ ELOOP, "has too many symbolic links on its way" },
	{ ENAMETOOLONG, "is too long for a path" },
	{ EXDEV, "cannot be moved to another file system" },
	{ EBUSY, "is in use, or something is mounted there" },
	{ ETXTBSY, "is a program that runs" },
	{ EMFILE, "too many files are open (limits.files)" },
	{ ENFILE, "too many files are open on this host" },
	{ ENOMEM, "out of memory" },
	{ EIO, "the disk failed" },
};

int task_fail(struct task *t, int code, const char *path)
{
	size_t len = strlen(path);
	bool is_long = len > PATH_SHOWN;
	const char *shown = is_long ? path + len - PATH_SHOWN : path;

	if (t->is_over || t->err.code < 0)
		return code;
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].code == -code)
			return err_set(&t->err, code, "\"%s%s\": %s", is_long ? "..." : "", shown,
				       meanings[i].words);
	return err_errno(&t->err, code, "\"%s%s\"", is_long ? "..." : "", shown);
}

int task_fail_kind(struct task *t, mode_t mode, const char *path)
{
	static const struct {
		mode_t kind;
		int code;
		const char *words;
	} kinds[] = {
		{ S_IFDIR, -EISDIR, "a directory" }, { S_IFIFO, -EINVAL, "a pipe" },
		{ S_IFSOCK, -EINVAL, "a socket" },   { S_IFCHR, -EINVAL, "a device" },
		{ S_IFBLK, -EINVAL, "a device" },    { S_IFLNK, -ELOOP, "a symbolic link" },
	};
	size_t len = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((mode & S_IFMT) == kinds[i].kind)
			return err_set(&t->err, kinds[i].code, "\"%s\" is %s, not a file",
				       len > PATH_SHOWN ? path + len - PATH_SHOWN : path,
				       kinds[i].words);
	return err_set(&t->err, -EINVAL, "this is not a file");
}

const char *task_path(const struct task *t)
{
	return message_text(&t->call, FIELD_PATH, "");
}

bool task_absolute(const char *path, char text[static PATH_MAX])
{
	char home[PATH_MAX];

	return getcwd(home, sizeof(home)) && path_resolve(home, path, text, PATH_MAX);
}

uint64_t task_flags(const struct task *t)
{
	return message_number(&t->call, FIELD_FLAGS, 0);
}

int task_descriptor(const struct task *t)
{
	return t->call.descriptor_count > 0 ? t->call.descriptors[0] : -EBADF;
}

static void on_tick(int signal)
{
	(void)signal;
}

void task_tick(bool on)
{
	const struct itimerval every = { { 0, on ? TICK_US : 0 }, { 0, on ? TICK_US : 0 } };
	/* Without SA_RESTART: that it interrupts is all that it does. */
	const struct sigaction act = { .sa_handler = on_tick };

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}
