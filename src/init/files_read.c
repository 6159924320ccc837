/*
 * files_read.c - READ: bytes of a file, into a pipe or as DATA
 *
 * How much it is was decided when the file was opened: its size then, or what was asked for. So a
 * file that grows for ever ends. What says that it has no size (/proc) is read to its end, with a
 * bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/hook.h"
#include "init/files_internal.h"

#define PIPE_SIZE (1 * MIB) /* an ordinary user may have no larger ones */

struct source {
	struct task *task;
	int fd;
	uint64_t at, left;
	bool is_bounded; /* left is a bound, and more than that a failure */
};

/* Not a pipe that nobody writes to, nor a device: opening these may already do something. */
static int open_file(struct task *t, struct source *ret_source)
{
	const char *path = task_path(t);
	_cleanup_close_ int fd = -EBADF;
	uint64_t size;
	struct stat st;

	if (stat(path, &st) < 0)
		return task_fail(t, -errno, path);
	if (!S_ISREG(st.st_mode))
		return task_fail_kind(t, st.st_mode, path);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return task_fail(t, -errno, path);
	if (!S_ISREG(st.st_mode))
		return task_fail_kind(t, st.st_mode, path);
	size = (uint64_t)st.st_size;
	ret_source->at = message_number(&t->call, FIELD_OFFSET, 0);
	if (ret_source->at > (uint64_t)INT64_MAX)
		return task_fail(t, -EINVAL, path);
	ret_source->is_bounded = size == 0 && !message_has(&t->call, FIELD_SIZE);
	ret_source->left = message_number(&t->call, FIELD_SIZE, size - MIN(ret_source->at, size));
	if (ret_source->is_bounded)
		ret_source->left = files_bounds.unsized;
	ret_source->left = MIN(ret_source->left, (uint64_t)INT64_MAX - ret_source->at);
	ret_source->fd = take_fd(&fd);
	return 0;
}

static void advance(struct source *s, size_t n)
{
	s->at += n;
	s->left -= n;
	s->task->moved += n;
}

/* The next bytes into a buffer; 0 at the end. */
static ssize_t read_some(struct source *s, void *data, size_t size)
{
	ssize_t n;

	do
		n = pread(s->fd, data, MIN(size, s->left), (off_t)s->at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* A pipe that cannot be waited for otherwise is written to with a clock that interrupts. */
static int write_out(struct source *s, int out, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n;
		int r = task_wait(s->task, out, POLLOUT, -1);

		if (r < 0)
			return r;
		n = write(out, data, len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0) {
			advance(s, (size_t)n);
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int copy_out(struct source *s, int out)
{
	_cleanup_free_ char *data = malloc(FILES_BUFFER);
	ssize_t n = 0;
	int r = 0;

	if (!data)
		return -ENOMEM;
	task_tick(true);
	while (r >= 0 && s->left > 0) {
		n = read_some(s, data, FILES_BUFFER);
		if (n <= 0)
			break;
		r = write_out(s, out, data, (size_t)n);
	}
	task_tick(false);
	return r < 0 ? r : (int)MIN(n, 0);
}

/* Without a copy. 1 when this cannot be done with these two, or not any further. */
static int splice_out(struct source *s, int out)
{
	int refusal = hook_errno("splice");

	if (refusal)
		return 1;
	while (s->left > 0) {
		loff_t at = (loff_t)s->at;
		ssize_t n;
		int r = task_wait(s->task, out, POLLOUT, -1);

		if (r < 0)
			return r;
		n = splice(s->fd, &at, out, NULL, MIN(s->left, PIPE_SIZE), SPLICE_F_NONBLOCK);
		if (n == 0)
			return 0;
		if (n > 0)
			advance(s, (size_t)n);
		else if (errno == EPIPE)
			return -EPIPE;
		else if (errno != EAGAIN && errno != EINTR)
			return 1;
	}
	return 0;
}

static int send_data(struct source *s)
{
	char data[MESSAGE_DATA_MAX];

	while (s->left > 0) {
		_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DATA, s->task->call.call);
		int r = task_await_credit(s->task);
		ssize_t n;

		if (r < 0)
			return r;
		n = read_some(s, data, MIN(sizeof(data), s->task->credit));
		if (n <= 0)
			return (int)n;
		draft_bytes(&d, FIELD_DATA, data, (size_t)n);
		r = task_send(s->task, &d);
		if (r < 0)
			return r;
		s->task->credit -= (size_t)n;
		advance(s, (size_t)n);
	}
	return 0;
}

/* Whether there is more behind a bound that was reached. */
static int check_bound(struct source *s)
{
	char byte;

	if (!s->is_bounded || s->left > 0 || pread(s->fd, &byte, 1, (off_t)s->at) != 1)
		return 0;
	return err_set(&s->task->err, -EFBIG,
		       "\"%s\" does not say how large it is, and has more than %llu MiB: ask for "
		       "a part of it",
		       task_path(s->task), (unsigned long long)(files_bounds.unsized / MIB));
}

int files_read(struct task *t)
{
	int out = task_descriptor(t);
	_cleanup_close_ int fd = -EBADF;
	struct source s = { .task = t };
	int r = open_file(t, &s);

	if (r < 0)
		return r;
	fd = s.fd;
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	if (out < 0) {
		r = send_data(&s);
	} else {
		(void)!fcntl(out, F_SETPIPE_SZ, (int)PIPE_SIZE);
		r = splice_out(&s, out);
		r = r == 1 ? copy_out(&s, out) : r;
	}
	if (r == -EPIPE && !t->is_over)
		return err_set(&t->err, r, "nobody reads \"%s\" any more", task_path(t));
	r = r < 0 ? task_fail(t, r, task_path(t)) : check_bound(&s);
	return r;
}
