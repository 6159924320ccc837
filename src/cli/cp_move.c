#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cp.h"

#define PIPE_SIZE (1 * MIB) /* an ordinary user may have no larger ones */

/* One file on its way. */
struct move {
	struct copy *copy;
	uint32_t call;
	int near,
		pipe; /* the file of the host (borrowed); our end of the pipe, or -EBADF at its end */
	uint64_t moved, bound;
	bool is_answered;
	bool says_end;
	bool splices; /* else through a buffer */
	char *buffer;
	size_t held, put; /* bytes in the buffer, and how many of them are gone */
	struct err *err;
	int result; /* of the answer */
};

static void move_done(struct move *m)
{
	fd_close(m->pipe);
	free(m->buffer);
}

/* ours: 1 to write, 0 to read. The other end goes along with the call. */
static int begin(struct move *m, struct draft *d, int ours)
{
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(m->err, -errno, "cannot make a pipe");
	(void)!fcntl(ends[0], F_SETPIPE_SZ, (int)PIPE_SIZE);
	m->pipe = ends[ours];
	r = fd_set_nonblock(m->pipe, 1);
	if (r < 0) {
		fd_close(ends[!ours]);
		return err_errno(m->err, r, "cannot make a pipe");
	}
	r = channel_send(&m->copy->client.channel, d, &ends[!ours], 1);
	return r < 0 && r != -EPIPE ? client_lost(&m->copy->client, r, m->err) : 0;
}

/* Takes the answer of this call; those of calls that were given up are not for us. */
static int hear(struct move *m)
{
	struct client *client = &m->copy->client;
	struct message answer;
	int r;

	(void)!channel_flush(&client->channel);
	while (!m->is_answered && (r = channel_receive(&client->channel, &answer)) != 0) {
		if (r < 0)
			return client_lost(client, r, m->err);
		if (answer.call != m->call) {
			message_done(&answer);
			continue;
		}
		m->is_answered = true;
		m->result = answer.type == MESSAGE_ERROR ? client_error(client, &answer, m->err)
			    : answer.type == MESSAGE_DONE
				    ? 0
				    : err_set(m->err, -EPROTO, "unexpected answer %s",
					      message_name(answer.type));
		message_done(&answer);
	}
	return 0;
}

/* Waits for the answer and for one more descriptor; whether that is ready, or -errno. */
static int wait_for(struct move *m, int fd, short events)
{
	struct channel *channel = &m->copy->client.channel;
	struct pollfd fds[] = { { .fd = channel->fd, .events = channel_events(channel) },
				{ .fd = fd, .events = events } };

	if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents) {
		int r = hear(m);

		if (r < 0)
			return r;
	}
	return fds[1].revents != 0;
}

static void moved(struct move *m, size_t n)
{
	m->moved += n;
	copy_moved(m->copy, n, 0);
}

/* From here on through a buffer: a terminal, or a file system that knows no other way. */
static int stop_splicing(struct move *m)
{
	m->splices = false;
	m->buffer = malloc(PIPE_SIZE);
	return m->buffer ? 0 : err_errno(m->err, -ENOMEM, "cannot copy");
}

/* Not a word more is heard of the call. */
static void give_up(struct move *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_CANCEL, m->call);

	(void)!channel_send(&m->copy->client.channel, &d, NULL, 0);
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_for_later(int code)
{
	return code == EAGAIN || code == EINTR;
}

static bool cannot_splice(int code)
{
	return code == EINVAL || code == ENOSYS || code == EPERM;
}

static void end_pipe(struct move *m)
{
	m->pipe = fd_close(m->pipe);
}

static int near_failed(struct move *m, int code)
{
	return err_errno(m->err, code, "it cannot be read");
}

/* All of it was read: not only the pipe says so. */
static int end_of_near(struct move *m)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_DATA_END, m->call);
	int r = 0;

	end_pipe(m);
	if (m->says_end)
		r = channel_send(&m->copy->client.channel, &d, NULL, 0);
	return r < 0 && r != -EPIPE ? client_lost(&m->copy->client, r, m->err) : 0;
}

static int splice_in(struct move *m)
{
	int r = wait_for(m, m->pipe, POLLOUT);
	ssize_t n;

	if (r <= 0 || m->is_answered)
		return r;
	n = splice(m->near, NULL, m->pipe, NULL, PIPE_SIZE, SPLICE_F_NONBLOCK);
	if (n > 0)
		moved(m, (size_t)n);
	else if (n == 0)
		return end_of_near(m);
	else if (errno == EPIPE)
		end_pipe(m); /* who read no more says why */
	else if (cannot_splice(errno))
		return stop_splicing(m);
	else if (!is_for_later(errno))
		return near_failed(m, -errno);
	return 0;
}

static int fill_buffer(struct move *m)
{
	int r = wait_for(m, m->near, POLLIN);
	ssize_t n;

	if (r <= 0 || m->is_answered)
		return r;
	n = read(m->near, m->buffer, PIPE_SIZE);
	if (n < 0)
		return is_for_later(errno) ? 0 : near_failed(m, -errno);
	m->held = (size_t)n;
	m->put = 0;
	return n == 0 ? end_of_near(m) : 0;
}

static int empty_buffer(struct move *m)
{
	int r = wait_for(m, m->pipe, POLLOUT);
	ssize_t n;

	if (r <= 0 || m->is_answered)
		return r;
	n = write(m->pipe, m->buffer + m->put, m->held - m->put);
	if (n >= 0) {
		m->put += (size_t)n;
		moved(m, (size_t)n);
	} else if (errno == EPIPE) {
		end_pipe(m);
	} else if (!is_for_later(errno)) {
		return err_errno(m->err, -errno, "the pipe failed");
	}
	return 0;
}

int move_in(struct copy *copy, struct draft *d, int from, bool says_end, struct err *err)
{
	_cleanup_(move_done) struct move m = {
		.copy = copy, .call = d->call, .near = from, .pipe = -EBADF, .err = err
	};
	int r = begin(&m, d, 1);

	m.says_end = says_end;
	m.splices = is_regular(from);
	if (r == 0 && !m.splices)
		r = stop_splicing(&m);
	while (r >= 0 && !m.is_answered) {
		if (m.pipe < 0)
			r = wait_for(&m, -EBADF, 0);
		else if (m.splices)
			r = splice_in(&m);
		else
			r = m.put < m.held ? empty_buffer(&m) : fill_buffer(&m);
	}
	if (r < 0 && !m.is_answered)
		give_up(&m);
	return r < 0 ? r : m.result;
}

static int far_failed(struct move *m, int code)
{
	return err_errno(m->err, code, "it cannot be written");
}

/* More than was told of, one byte is enough. */
static int refuse_more(struct move *m)
{
	give_up(m);
	return err_set(m->err, -EFBIG, "it has more than the %llu bytes that it said",
		       (unsigned long long)m->bound);
}

/* Bytes that are there now: how many, 0 when there are none, also at the end. */
static ssize_t take_some(struct move *m)
{
	size_t most = (size_t)MIN(m->bound - m->moved, PIPE_SIZE);
	ssize_t n;

	if (m->splices) {
		n = splice(m->pipe, NULL, m->near, NULL, most, SPLICE_F_NONBLOCK);
		if (n >= 0 || !cannot_splice(errno))
			return n < 0 ? -errno : n;
		n = stop_splicing(m);
		if (n < 0)
			return n;
	}
	n = read(m->pipe, m->buffer, most);
	if (n > 0) {
		int r = fd_write_all(m->near, m->buffer, (size_t)n);

		return r < 0 ? r : n;
	}
	return n < 0 ? -errno : n;
}

static int take_out(struct move *m)
{
	ssize_t n;
	char byte;

	if (m->moved == m->bound) {
		n = read(m->pipe, &byte, 1);
		if (n > 0)
			return refuse_more(m);
		if (n < 0)
			n = -errno;
	} else {
		n = take_some(m);
	}
	if (n > 0)
		moved(m, (size_t)n);
	else if (n == 0 || (m->is_answered && n == -EAGAIN))
		end_pipe(m); /* all that was sent before the answer is here */
	else if (!is_for_later((int)-n))
		return far_failed(m, (int)n);
	return 0;
}

int move_out(struct copy *copy, struct draft *d, int to, uint64_t bound, struct err *err)
{
	_cleanup_(move_done) struct move m = { .copy = copy,
					       .call = d->call,
					       .near = to,
					       .pipe = -EBADF,
					       .bound = bound,
					       .err = err };
	int r = begin(&m, d, 0);

	/* Elsewhere "not now" could mean either side. */
	m.splices = is_regular(to);
	if (r == 0 && !m.splices)
		r = stop_splicing(&m);

	while (r >= 0 && (!m.is_answered || m.pipe >= 0)) {
		if (!m.is_answered)
			r = wait_for(&m, m.pipe, POLLIN);
		if (r >= 0 && m.pipe >= 0 && (r > 0 || m.is_answered))
			r = take_out(&m);
	}
	return r < 0 ? r : m.result;
}
