#include "warden/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"

#define MOVED     (64 * KIB) /* at once, from pipe to pipe */
#define MOVES_MAX 16         /* in one go, so that others get their turn */
#define BLOCK     4096       /* PIPE_BUF: poll promises room for this much in a pipe */

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

/* One for another descriptor of ours, which is a terminal: keys as they are typed, line by line. */
static int open_input(struct streams *streams, struct err *err)
{
	struct stream *keys = &streams->items[STREAM_KEYS];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "cannot make a pipe");
	keys->from = 0;
	keys->to = ends[1];
	keys->owns_to = true;
	streams->stdio[0] = ends[0];
	streams->owned[0] = true;
	return fd_set_nonblock(ends[1], true);
}

static void use_terminal(struct streams *streams, const struct terminal *terminal, bool is_raw)
{
	struct stream *output = &streams->items[STREAM_TERMINAL],
		      *keys = &streams->items[STREAM_KEYS];

	output->from = terminal->master;
	output->to = terminal->sink;
	output->is_inert = !is_raw && isatty(terminal->sink);
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

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* "2>&1": what is written to both keeps its order in one pipe. */
static bool is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Output that is captured, counted or would go to a loose socket comes to us by a pipe. A terminal
 * is replaced. */
static bool is_relayed(const struct streams_request *request, int fd)
{
	if (request->capture)
		return true;
	if (isatty(fd))
		return request->has_no_terminal;
	return request->limit != UINT64_MAX || is_loose_socket(fd) || is_anonymous_pipe(fd);
}

static void relay_to(const struct streams_request *request, struct stream *stream, int fd)
{
	if (isatty(fd)) {
		stream->to = terminal_sink(fd);
		stream->owns_to = true;
		stream->is_inert = !request->is_raw;
		return;
	}
	stream->to = fd;
	stream->is_moved = request->limit == UINT64_MAX && is_pipe(fd);
}

static int open_outputs(const struct streams_request *request, struct streams *s, struct err *err)
{
	struct buf *captures[] = { NULL, request->out, request->err };

	for (int fd = 1; fd < 3; fd++) {
		struct stream *stream = &s->items[fd == 1 ? STREAM_OUT : STREAM_ERR];
		int r;

		if (!is_relayed(request, fd))
			continue;
		if (fd == 2 && s->owned[1] && !request->capture && is_same(1, 2)) {
			s->stdio[2] = s->stdio[1];
			continue;
		}
		r = open_pipe(s, fd, stream, err);
		if (r < 0)
			return r;
		if (request->capture)
			stream->capture = captures[fd];
		else
			relay_to(request, stream, fd);
	}
	return 0;
}

static int check_input(struct err *err)
{
	if (is_loose_socket(0))
		return err_set(err, -EPERM,
			       "standard input is a network or datagram socket, which would be a "
			       "way out of the "
			       "sandbox: pipe it in (cat | brig run ...)");
	return protect_input(err);
}

static int check_directories(const struct streams_request *request, struct err *err)
{
	for (int fd = request->has_no_input ? 1 : 0; fd < 3; fd++)
		if (is_directory(fd))
			return err_set(
				err, -EISDIR,
				"standard input, output or error is a directory, which would "
				"be a way out of the sandbox: use a file, or </dev/null");
	return 0;
}

/* As it is; nothing; or, of a terminal that is not handed over, a pipe. */
static int take_input(const struct streams_request *request, struct streams *s, struct err *err)
{
	int r = request->has_no_input ? 0 : check_input(err);

	if (request->has_no_input || (request->capture && isatty(0)))
		s->stdio[0] = -EBADF;
	else if (r == 0 && request->has_no_terminal && isatty(0))
		r = open_input(s, err);
	return r;
}

/* main() has filled the gaps among 0, 1 and 2. */
int streams_open(const struct streams_request *request, struct terminal *terminal,
		 struct streams *ret_streams, struct err *err)
{
	struct streams *s = ret_streams;
	int r;

	*s = STREAMS_NONE;
	s->limit = request->limit;
	for (int fd = 0; fd < 3; fd++)
		s->stdio[fd] = fd;
	r = check_directories(request, err);
	r = r < 0 ? r : take_input(request, s, err);
	r = r < 0 ? r : open_outputs(request, s, err);
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

void streams_open_terminal(const struct streams_request *request, const struct terminal *terminal,
			   struct streams *ret_streams)
{
	*ret_streams = STREAMS_NONE;
	ret_streams->limit = request->limit;
	use_terminal(ret_streams, terminal, request->is_raw);
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
		if (stream->pending_len > 0 || stream->lacks_room)
			fds[count++] = (struct pollfd){ .fd = stream->to, .events = POLLOUT };
		else
			fds[count++] = (struct pollfd){ .fd = stream->from, .events = POLLIN };
	}
	return count;
}

/* Keys come from the user's terminal and go to the master of the sandbox's: neither is ours to
 * close here. */
static void stream_close(struct streams *streams, struct stream *stream)
{
	if (stream == &streams->items[STREAM_OUT] || stream == &streams->items[STREAM_ERR])
		fd_close(stream->from);
	stream->from = -EBADF;
	stream->lacks_room = false;
}

static void stream_end(struct streams *streams, struct stream *stream)
{
	stream->pending_len = 0;
	stream_close(streams, stream);
	/* The end of what is typed; a terminal is still owed what the filter changed there. */
	if (stream->owns_to && stream == &streams->items[STREAM_KEYS])
		stream->to = fd_close(stream->to);
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

/* What was read counts; false when it was the last. */
static bool stream_count(struct streams *streams, struct stream *stream, size_t len)
{
	if (stream != &streams->items[STREAM_KEYS])
		streams->bytes += len;
	if (stream->left == UINT64_MAX)
		return true;
	stream->left -= len;
	return stream->left > 0;
}

/* The flag holds for both ends, whatever theirs are. */
static void stream_move(struct streams *streams, struct stream *stream)
{
	for (int i = 0; i < MOVES_MAX; i++) {
		ssize_t n = splice(stream->from, NULL, stream->to, NULL,
				   (size_t)MIN(stream->left, (uint64_t)MOVED), SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			return;
		/* One of them is not ready. After a move either may be it: the room is asked for. */
		if (n < 0 && errno == EAGAIN) {
			stream->lacks_room = i > 0 || !stream->lacks_room;
			return;
		}
		stream->lacks_room = false;
		if (n <= 0 || !stream_count(streams, stream, (size_t)n)) {
			stream_end(streams, stream);
			return;
		}
	}
}

static void stream_read(struct streams *streams, struct stream *stream)
{
	bool is_keys = stream == &streams->items[STREAM_KEYS];
	char data[BLOCK];
	ssize_t n = read(stream->from, data, (size_t)MIN(stream->left, (uint64_t)sizeof(data)));
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

		if (len > room) {
			streams->over_limit = streams->truncated = true;
			len = (size_t)room;
		}
	}
	if (!stream_count(streams, stream, (size_t)n))
		stream_close(streams, stream);
	if (stream->capture)
		stream_keep(streams, stream, data, len);
	if (stream->to >= 0)
		stream_show(streams, stream, data, len);
}

static void stream_act(struct streams *streams, struct stream *stream)
{
	if (stream->is_moved)
		stream_move(streams, stream);
	else if (stream->pending_len > 0)
		stream_write(streams, stream);
	else
		stream_read(streams, stream);
}

void streams_poll(struct streams *streams, const struct pollfd *fds, size_t count)
{
	size_t at = 0;

	for (int i = 0; i < STREAM_COUNT; i++) {
		struct stream *stream = &streams->items[i];

		if (!is_waiting(streams, stream))
			continue;
		if (at == count)
			return;
		if (fds[at++].revents)
			stream_act(streams, stream);
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

void streams_last(struct streams *streams)
{
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++) {
		struct stream *stream = &streams->items[i];
		int there = 0;

		if (stream->from < 0 || ioctl(stream->from, FIONREAD, &there) < 0)
			continue;
		stream->left = (uint64_t)there;
		if (there == 0)
			stream_close(streams, stream);
	}
}

/* One try: the terminal may be one that nobody reads. */
static void stream_finish(struct stream *stream)
{
	_cleanup_(buf_done) struct buf rest = BUF(INERT_FINISH_MAX);

	if (stream->to >= 0 && stream->is_inert && inert_finish(&stream->inert, &rest) == 0 &&
	    rest.len > 0)
		(void)!write(stream->to, buf_text(&rest), rest.len);
}

void streams_done(struct streams *streams)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		stream_finish(&streams->items[i]);
	for (int fd = 0; fd < 3; fd++)
		if (streams->owned[fd])
			streams->stdio[fd] = fd_close(streams->stdio[fd]);
	for (int i = 0; i < STREAM_COUNT; i++) {
		if (i != STREAM_TERMINAL)
			stream_end(streams, &streams->items[i]);
		if (streams->items[i].owns_to)
			streams->items[i].to = fd_close(streams->items[i].to);
		free(streams->items[i].pending);
		streams->items[i].pending = NULL;
	}
}
