#include "warden/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"

#define BLOCK 4096 /* PIPE_BUF: poll promises room for this much in a pipe */

/* A pipe whose writing end the sandbox gets as descriptor fd. */
static int open_pipe(struct streams *streams, int fd, struct stream *stream, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot make a pipe");
	stream->from = ends[0];
	streams->stdio[fd] = ends[1];
	streams->owned[fd] = true;
	return fd_set_nonblock(ends[0], true);
}

static void use_terminal(struct streams *streams, struct terminal *terminal, bool is_raw)
{
	struct stream *output = &streams->items[STREAM_TERMINAL],
		      *keys = &streams->items[STREAM_KEYS];

	output->from = terminal->master;
	output->to = terminal->sink;
	output->is_inert = !is_raw;
	if (terminal->is_interactive) {
		keys->from = terminal->outer;
		keys->to = terminal->master;
	}
}

/*
 * A socket that is not tied to one peer would be a way out: no filter sees where a datagram on it
 * goes. Pairs and accepted connections of the UNIX family are tied.
 */
static bool is_loose_socket(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(int), peer_len = sizeof(peer);
	int domain = 0, type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		return false;
	len = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return true;
	return domain != AF_UNIX || (type != SOCK_STREAM && type != SOCK_SEQPACKET) ||
	       getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0;
}

/*
 * Either end of an anonymous pipe can be opened from the other through /proc/self/fd, and Landlock
 * does not see it: the sandbox could write into what feeds the caller's shell, or read what others
 * print. Output goes through a pipe of our own. Input stays the caller's (reading ahead would eat
 * what the next command is to read) and loses the write permission that opening it again needs; the
 * mediator keeps it lost.
 */
static bool is_anonymous_pipe(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

/* Whoever holds one can go up from there, past every mount. */
static bool is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int protect_input(struct err *err)
{
	struct stat st;

	/* A pipe of another user cannot be opened by us at all. */
	if (!is_anonymous_pipe(0) || fstat(0, &st) < 0 || st.st_uid != geteuid())
		return 0;
	return fchmod(0, 0400) < 0 ? err_errno(err, -errno, "cannot protect standard input") : 0;
}

/* Output that is captured, counted or would go to a loose socket comes to us by a pipe. A terminal
 * is replaced. */
static int open_outputs(const struct streams_request *request, struct streams *s, struct err *err)
{
	bool relayed = request->capture || request->limit != UINT64_MAX;
	struct buf *captures[] = { NULL, request->out, request->err };

	for (int fd = 1; fd < 3; fd++) {
		struct stream *stream = &s->items[fd == 1 ? STREAM_OUT : STREAM_ERR];
		int r;

		if (!request->capture &&
		    (isatty(fd) || !(relayed || is_loose_socket(fd) || is_anonymous_pipe(fd))))
			continue;
		r = open_pipe(s, fd, stream, err);
		if (r < 0)
			return r;
		if (request->capture)
			stream->capture = captures[fd];
		else
			stream->to = fd;
	}
	return 0;
}

/* main() has filled the gaps among 0, 1 and 2. */
int streams_open(const struct streams_request *request, struct terminal *terminal,
		 struct streams *ret_streams, struct err *err)
{
	struct streams *s = ret_streams;
	int r;

	*s = STREAMS_NONE;
	s->limit = request->limit;
	if (is_loose_socket(0))
		return err_set(err, -EPERM,
			       "standard input is a network or datagram socket, which would be a "
			       "way out of the "
			       "sandbox: pipe it in (cat | brig run ...)");
	if (is_directory(0) || is_directory(1) || is_directory(2))
		return err_set(err, -EISDIR,
			       "standard input, output or error is a directory, which would be a "
			       "way out of the sandbox: use a file, or </dev/null");
	r = protect_input(err);
	if (r < 0)
		return r;
	for (int fd = 0; fd < 3; fd++)
		s->stdio[fd] = fd;
	if (request->capture && isatty(0))
		s->stdio[0] = -EBADF;
	r = open_outputs(request, s, err);
	if (r < 0 || terminal->master < 0)
		return r;
	use_terminal(s, terminal, request->is_raw);
	for (int fd = 0; fd < 3; fd++)
		if (s->stdio[fd] == fd && isatty(fd))
			s->stdio[fd] = terminal->slave;
	if (terminal->outer == 0 && !terminal->is_interactive)
		s->stdio[0] = -EBADF;
	return 0;
}

void streams_started(struct streams *streams, struct terminal *terminal)
{
	for (int fd = 0; fd < 3; fd++)
		if (streams->owned[fd])
			streams->stdio[fd] = fd_close(streams->stdio[fd]);
	terminal->slave = fd_close(terminal->slave);
}

static bool is_waiting(const struct streams *streams, const struct stream *stream)
{
	if (stream == &streams->items[STREAM_KEYS] && !streams->keys_are_ours)
		return false;
	return stream->pending_len > 0 || stream->from >= 0;
}

size_t streams_fds(const struct streams *streams, struct pollfd *fds)
{
	size_t count = 0;

	for (int i = 0; i < STREAM_COUNT; i++) {
		const struct stream *stream = &streams->items[i];

		if (!is_waiting(streams, stream))
			continue;
		/* One at a time: nothing more is read while something waits to be written. */
		if (stream->pending_len > 0)
			fds[count++] = (struct pollfd){ .fd = stream->to, .events = POLLOUT };
		else
			fds[count++] = (struct pollfd){ .fd = stream->from, .events = POLLIN };
	}
	return count;
}

/* Keys come from the user's terminal and go to the master of the sandbox's: neither is ours to
 * close here. */
static void stream_end(struct streams *streams, struct stream *stream)
{
	stream->pending_len = 0;
	if (stream == &streams->items[STREAM_OUT] || stream == &streams->items[STREAM_ERR])
		stream->from = fd_close(stream->from);
	stream->from = -EBADF;
}

static void stream_write(struct streams *streams, struct stream *stream)
{
	ssize_t n = write(stream->to, stream->pending + stream->pending_at,
			  MIN(stream->pending_len, (size_t)BLOCK));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		stream_end(streams, stream);
		return;
	}
	stream->pending_at += (size_t)n;
	stream->pending_len -= (size_t)n;
}

static void stream_keep(struct streams *streams, struct stream *stream, const char *data,
			size_t len)
{
	size_t room = stream->capture->max - stream->capture->len;

	if (len > room) {
		streams->truncated = true;
		len = room;
	}
	if (buf_add(stream->capture, data, len) < 0)
		streams->truncated = true;
}

static void stream_show(struct streams *streams, struct stream *stream, const char *data,
			size_t len)
{
	_cleanup_(buf_done) struct buf harmless = BUF(PENDING_MAX);

	if (!stream->pending)
		stream->pending = malloc(PENDING_MAX);
	if (!stream->pending) {
		streams->truncated = true;
		return;
	}
	if (stream->is_inert) {
		if (inert_feed(&stream->inert, data, len, &harmless) < 0)
			streams->truncated = true;
		data = buf_text(&harmless);
		len = harmless.len;
	}
	memcpy(stream->pending, data, len);
	stream->pending_at = 0;
	stream->pending_len = len;
}

static void stream_read(struct streams *streams, struct stream *stream)
{
	bool is_keys = stream == &streams->items[STREAM_KEYS];
	char data[BLOCK];
	ssize_t n = read(stream->from, data, sizeof(data));
	size_t len;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* A pseudo-terminal that nobody has open any more says EIO. */
	if (n <= 0) {
		stream_end(streams, stream);
		return;
	}
	len = (size_t)n;
	if (!is_keys) {
		uint64_t room = streams->limit - MIN(streams->bytes, streams->limit);

		streams->bytes += len;
		if (len > room) {
			streams->over_limit = streams->truncated = true;
			len = (size_t)room;
		}
	}
	if (stream->capture)
		stream_keep(streams, stream, data, len);
	if (stream->to >= 0)
		stream_show(streams, stream, data, len);
}

void streams_poll(struct streams *streams, const struct pollfd *fds, size_t count)
{
	size_t at = 0;

	for (int i = 0; i < STREAM_COUNT; i++) {
		struct stream *stream = &streams->items[i];
		bool writing = stream->pending_len > 0;

		if (!is_waiting(streams, stream))
			continue;
		if (at == count)
			return;
		if (fds[at].revents) {
			if (writing)
				stream_write(streams, stream);
			else
				stream_read(streams, stream);
		}
		at++;
	}
}

size_t streams_typed(const struct streams *streams, const char **ret_keys)
{
	const struct stream *keys = &streams->items[STREAM_KEYS];

	*ret_keys = keys->pending + keys->pending_at;
	return keys->pending_len;
}

bool streams_drained(const struct streams *streams)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		if (i != STREAM_KEYS &&
		    (streams->items[i].from >= 0 || streams->items[i].pending_len > 0))
			return false;
	return true;
}

void streams_done(struct streams *streams)
{
	struct stream *terminal = &streams->items[STREAM_TERMINAL];
	_cleanup_(buf_done) struct buf rest = BUF(INERT_FINISH_MAX);

	/* One try: the terminal may be one that nobody reads. */
	if (terminal->to >= 0 && terminal->is_inert && inert_finish(&terminal->inert, &rest) == 0 &&
	    rest.len > 0)
		(void)!write(terminal->to, buf_text(&rest), rest.len);
	for (int fd = 0; fd < 3; fd++)
		if (streams->owned[fd])
			streams->stdio[fd] = fd_close(streams->stdio[fd]);
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++)
		stream_end(streams, &streams->items[i]);
	for (int i = 0; i < STREAM_COUNT; i++) {
		free(streams->items[i].pending);
		streams->items[i].pending = NULL;
	}
}
