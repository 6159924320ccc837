/* build_child.c - brig, run by a build: its output, its end, and the end of all when somebody asks for it */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "cli/build.h"

#define LINE_MAX_BYTES 4096
#define PATIENCE_MS    5000 /* from SIGTERM to SIGKILL */
#define TURN_MS        200

static volatile sig_atomic_t is_ended;
static bool is_clearing_up;

static void on_signal(int number)
{
	(void)number;
	is_ended = 1;
}

void build_watch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool build_is_ended(void)
{
	return is_ended;
}

void build_clear_up(void)
{
	is_clearing_up = true;
}

struct stream {
	int fd;
	struct buf line;  /* that is not whole yet */
	struct buf *into; /* NULL: the log */
};

struct child {
	struct build *build;
	pid_t pid;
	int pidfd;
	struct stream streams[2];
	uint64_t deadline; /* clock_ms(): it was asked to end, and has its time until then */
};

/* Whole lines, and what is too long in pieces. */
static void log_lines(struct build *build, struct buf *line, const char *data, size_t len,
		      bool is_last)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] != '\n' && data[i] != '\r')
			buf_char(line, data[i]);
		if (data[i] == '\n' || line->len >= LINE_MAX_BYTES) {
			build_output(build, buf_text(line), line->len);
			buf_reset(line);
		}
	}
	if (is_last && line->len > 0)
		build_output(build, buf_text(line), line->len);
}

/* False: nothing more comes. */
static bool stream_read(struct child *child, struct stream *stream)
{
	char data[16384];
	ssize_t n = read(stream->fd, data, sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		log_lines(child->build, &stream->line, "", 0, true);
		buf_reset(&stream->line);
		stream->fd = fd_close(stream->fd);
		return false;
	}
	if (stream->into)
		(void)!buf_add(stream->into, data, (size_t)n);
	else
		log_lines(child->build, &stream->line, data, (size_t)n, false);
	return true;
}

_Noreturn static void become(const char *program, char *const *words, int in, int out, int err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int open_fds[] = { in < 0 ? null : in, out < 0 ? null : out, err < 0 ? null : err };

	/* What we leave behind when we are killed is a sandbox at most, which somebody clears up. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 3; i++) {
		int high = fcntl(open_fds[i], F_DUPFD_CLOEXEC, 10);

		if (high < 0 || dup2(high, i) < 0)
			_exit(125);
	}
	signal(SIGPIPE, SIG_DFL);
	execv(program ? program : "/proc/self/exe", words);
	_exit(127);
}

static int stream_open(struct stream *stream, int *ret_theirs)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	stream->fd = pair[0];
	*ret_theirs = pair[1];
	return fd_set_nonblock(stream->fd, 1);
}

static int child_start(struct child *child, const char *program, char *const *words, int in)
{
	_cleanup_close_ int out = -EBADF, err = -EBADF;
	bool is_shown = child->build->log < 0; /* a person sees it as it comes */
	int r = 0;

	if (!is_shown || child->streams[0].into)
		r = stream_open(&child->streams[0], &out);
	if (r == 0 && (!is_shown || child->streams[1].into))
		r = stream_open(&child->streams[1], &err);
	if (r < 0)
		return r;
	child->pid = sys_fork();
	if (child->pid < 0)
		return (int)child->pid;
	if (child->pid == 0)
		become(program, words, in, out >= 0 ? out : 2, err >= 0 ? err : 2);
	child->pidfd = sys_pidfd_open(child->pid);
	return 0;
}

static void ask_to_end(struct child *child)
{
	if (!is_ended || is_clearing_up)
		return;
	if (!child->deadline) {
		kill(child->pid, SIGTERM);
		child->deadline = clock_ms() + PATIENCE_MS;
	} else if (clock_ms() >= child->deadline) {
		kill(child->pid, SIGKILL);
	}
}

/* Until it has ended; who else has its pipes open is not waited for. */
static int child_wait(struct child *child)
{
	int status = 0;
	bool is_over;

	do {
		struct pollfd fds[] = { { .fd = child->streams[0].fd, .events = POLLIN },
					{ .fd = child->streams[1].fd, .events = POLLIN },
					{ .fd = child->pidfd, .events = POLLIN } };

		(void)!poll(fds, 3, TURN_MS);
		ask_to_end(child);
		is_over = waitpid(child->pid, &status, WNOHANG) == child->pid;
		for (size_t i = 0; i < 2; i++)
			while (child->streams[i].fd >= 0 && stream_read(child, &child->streams[i]))
				;
	} while (!is_over);
	for (size_t i = 0; i < 2; i++) {
		log_lines(child->build, &child->streams[i].line, "", 0, true);
		fd_close(child->streams[i].fd);
		buf_done(&child->streams[i].line);
	}
	fd_close(child->pidfd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int refuse_to_begin(struct err *err)
{
	return err_set(err, -ECANCELED, "the build was ended from outside");
}

static struct child child_of(struct build *build, struct buf *out, struct buf *err)
{
	return (struct child){ .build = build,
			       .pidfd = -EBADF,
			       .streams = { { -EBADF, BUF(LINE_MAX_BYTES + 1), out },
					    { -EBADF, BUF(LINE_MAX_BYTES + 1), err } } };
}

/* Without "brig: " and the newline. */
static const char *complaint(struct buf *text)
{
	while (text->len > 0 && text->data[text->len - 1] == '\n')
		text->data[--text->len] = '\0';
	return str_starts(buf_text(text), "brig: ") ? buf_text(text) + 6 : buf_text(text);
}

int build_child(struct build *build, const char *program, char *const *words, int taken,
		struct buf *out, struct err *err)
{
	_cleanup_close_ int in = taken;
	_cleanup_(buf_done) struct buf said = BUF(64 * KIB);
	struct child child = child_of(build, out, out ? &said : NULL);
	int r;

	if (is_ended && !is_clearing_up)
		return refuse_to_begin(err);
	r = child_start(&child, program, words, in);
	if (r < 0)
		return err_errno(err, r, "cannot start brig");
	r = child_wait(&child);
	if (is_ended && !is_clearing_up)
		return refuse_to_begin(err);
	if (out && r != 0)
		return err_set(err, -EIO, "%s", said.len ? complaint(&said) : "brig was cut short");
	return r;
}

int build_child_fed(struct build *build, char *const *words, build_feed feed, void *of,
		    struct err *err)
{
	struct child child = child_of(build, NULL, NULL);
	int pair[2], fed, r;

	if (is_ended)
		return refuse_to_begin(err);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(err, -errno, "pipe");
	r = child_start(&child, NULL, words, pair[0]);
	fd_close(pair[0]);
	if (r < 0) {
		fd_close(pair[1]);
		return err_errno(err, r, "cannot start brig");
	}
	fed = feed(of, pair[1], err);
	fd_close(pair[1]);
	r = child_wait(&child);
	if (is_ended)
		return refuse_to_begin(err);
	/* A reader that has left says itself why. */
	return fed < 0 && fed != -EPIPE ? fed : r;
}
