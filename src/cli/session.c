#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli.h"

/* A terminal that somebody in the background still has open never says that it was all. */
#define DRAIN_MS 200

#define NUDGE_SECONDS 1

int session_open_signals(struct session *s, struct err *err)
{
	static const int wanted[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT
	};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct sigaction now;

		if (sigaction(wanted[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, wanted[i]);
	}
	signal(SIGPIPE, SIG_IGN);
	/* We may write to the terminal from the background, as the command could without brig. */
	signal(SIGTTOU, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_errno(err, -errno, "cannot block signals");
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_errno(err, -errno, "cannot wait for signals") : 0;
}

/*
 * The pipes that we made: whoever holds one may also open it again (/dev/stdout), under whichever
 * number the sandbox knows its user. Nobody else has a way to them.
 */
static void open_up(const struct streams *streams)
{
	for (int fd = 0; fd < 3; fd++)
		if (streams->owned[fd])
			(void)!fchmod(streams->stdio[fd], fd == 0 ? 0444 : 0222);
}

int session_open(struct session *s, const struct session_request *request, struct err *err)
{
	int r;

	if (!request->has_terminal) {
		r = streams_open(&request->streams, &s->terminal, &s->streams, err);
		open_up(&s->streams);
		return r < 0 ? r : session_open_signals(s, err);
	}
	if (request->has_input && !isatty(0))
		return err_set(err, -EINVAL,
			       "standard input is not a terminal: leave out -t, or -i");
	r = terminal_make(request->has_input, &s->terminal, err);
	if (r < 0)
		return r;
	streams_open_terminal(&request->streams, &s->terminal, &s->streams);
	return session_open_signals(s, err);
}

/* Copies, as the channel closes what it has sent. */
static int copy_descriptors(const struct session *s, const struct session_request *request,
			    int copies[static 3])
{
	size_t count = !request->has_terminal ? 3 : request->is_made_inside ? 0 : 1;

	for (size_t i = 0; i < count; i++) {
		int fd = request->has_terminal ? s->terminal.slave : s->streams.stdio[i];

		copies[i] = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3)
				    : open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
		if (copies[i] < 0) {
			int code = -errno;

			while (i-- > 0)
				fd_close(copies[i]);
			return code;
		}
	}
	return (int)count;
}

static void draft_size(struct draft *d, const struct terminal *terminal)
{
	struct winsize size = { .ws_row = TERMINAL_ROWS, .ws_col = TERMINAL_COLUMNS };

	if (terminal->outer >= 0)
		(void)!ioctl(terminal->outer, TIOCGWINSZ, &size);
	draft_number(d, FIELD_ROWS, size.ws_row);
	draft_number(d, FIELD_COLUMNS, size.ws_col);
}

int session_start(struct session *s, const struct session_request *request, struct draft *start,
		  struct err *err)
{
	int descriptors[3], count = copy_descriptors(s, request, descriptors), r;

	if (count < 0)
		return err_errno(err, count, "cannot pass standard input, output and error on");
	if (request->has_terminal)
		draft_size(start, &s->terminal);
	s->call = start->call;
	r = channel_send(&s->client.channel, start, descriptors, (size_t)count);
	/* Without a slave the master would say that it is over, before there is another. */
	if (!request->has_terminal)
		streams_started(&s->streams, &s->terminal);
	/* A sandbox that has just ended may have said why. */
	return r < 0 && r != -EPIPE ? client_lost(&s->client, r, err) : 0;
}

void session_signal(struct session *s, int signal)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_SIGNAL, client_number(&s->client));

	if (!s->process)
		return;
	draft_number(&d, FIELD_PROCESS, s->process);
	draft_number(&d, FIELD_SIGNAL, (uint64_t)signal);
	draft_number(&d, FIELD_FLAGS, SIGNAL_GROUP);
	/* A failure shows at the next receive. */
	(void)!channel_send(&s->client.channel, &d, NULL, 0);
}

void session_resize(struct session *s)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_RESIZE, client_number(&s->client));

	if (!s->process || s->terminal.outer < 0)
		return;
	draft_number(&d, FIELD_PROCESS, s->process);
	draft_size(&d, &s->terminal);
	(void)!channel_send(&s->client.channel, &d, NULL, 0);
}

static void follow_size(struct session *s)
{
	terminal_follow_size(&s->terminal);
	if (s->is_attached && s->has_terminal)
		session_resize(s);
}

/* Stops the client as Ctrl-Z does without brig: by SIGTSTP, which the kernel drops where no shell
 * would ever continue us. */
void session_suspend(struct session *s)
{
	sigset_t stop, before;

	terminal_leave(&s->terminal);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	terminal_enter(&s->terminal);
	follow_size(s);
	if (!s->is_attached)
		session_signal(s, SIGCONT);
}

static void leave(struct session *s, int signal)
{
	s->end = SESSION_LEFT;
	s->status = signal;
}

static void on_signal(struct session *s, int signal)
{
	switch (signal) {
	case SIGCONT:
		/* From the background to the foreground: the terminal is ours again. */
		terminal_enter(&s->terminal);
		break;
	case SIGWINCH:
		follow_size(s);
		break;
	case SIGTSTP:
		/* By force: the kernel ignores the soft signal in a session without a terminal. */
		if (!s->is_attached)
			session_signal(s, SIGSTOP);
		session_suspend(s);
		break;
	default:
		/* A terminal that is gone takes the one inside along, and nothing else. */
		if (s->end != SESSION_GOES_ON || s->signalled++ > 0 ||
		    (signal == SIGHUP && (s->terminal.master >= 0 || s->is_attached)))
			leave(s, signal);
		else if (!s->process)
			s->early = signal;
		else
			session_signal(s, signal);
	}
}

void session_read_signals(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		on_signal(s, (int)info.ssi_signo);
}

static void on_nudge(int signal)
{
	(void)signal;
}

/*
 * The other end shares the description of a terminal made inside, and can make it one that waits, when
 * we are about to read or write. A timer takes us out of there.
 */
static void start_nudges(void)
{
	const struct sigaction action = { .sa_handler = on_nudge };
	const struct timeval every = { .tv_sec = NUDGE_SECONDS };

	(void)!sigaction(SIGALRM, &action, NULL);
	(void)!setitimer(ITIMER_REAL, &(struct itimerval){ every, every }, NULL);
}

static void on_started(struct session *s, struct message *m, struct err *err)
{
	_cleanup_close_ int master = message_take_descriptor(m, 0);

	s->process = message_number(m, FIELD_PROCESS, 0);
	s->pid = message_number(m, FIELD_PID, 0);
	if (s->early)
		session_signal(s, s->early);
	if (master >= 0) {
		if (s->terminal.master < 0 || !terminal_is_master(master) ||
		    fd_set_nonblock(master, true) < 0) {
			err_set(err, -EPROTO, "sandbox %s sent something that is not a terminal",
				s->client.id);
			s->end = SESSION_FAILED;
			return;
		}
		terminal_replace(&s->terminal, master);
		start_nudges();
	}
	streams_started(&s->streams, &s->terminal);
	terminal_enter(&s->terminal);
	terminal_follow_size(&s->terminal);
}

static void on_exited(struct session *s, const struct message *m)
{
	s->status = (int)message_number(m, FIELD_STATUS, 0);
	s->end = SESSION_EXITED;
	streams_last(&s->streams);
	s->deadline = clock_ms() + DRAIN_MS;
}

static void on_message(struct session *s, struct message *m, struct err *err)
{
	switch (m->type) {
	case MESSAGE_STARTED:
		on_started(s, m, err);
		break;
	case MESSAGE_STOPPED:
		/* Only at a terminal: elsewhere nobody typed anything. */
		if (s->terminal.is_raw)
			session_suspend(s);
		break;
	case MESSAGE_EXITED:
		on_exited(s, m);
		break;
	case MESSAGE_ERROR:
		client_error(&s->client, m, err);
		s->end = SESSION_FAILED;
		break;
	default:
		break;
	}
}

static void read_messages(struct session *s, struct err *err)
{
	struct message m;
	int r;

	while (s->end == SESSION_GOES_ON && (r = channel_receive(&s->client.channel, &m)) != 0) {
		if (r < 0) {
			client_lost(&s->client, r, err);
			s->end = SESSION_LOST;
			streams_last(&s->streams);
			s->deadline = clock_ms() + DRAIN_MS;
			return;
		}
		if (m.call == s->call)
			on_message(s, &m, err);
		message_done(&m);
	}
	(void)!channel_flush(&s->client.channel);
}

/* Keys that are typed while we are in the background are not for us: reading them would stop us. */
static bool keys_are_ours(const struct session *s)
{
	if (s->terminal.master >= 0)
		return s->terminal.is_raw;
	return s->streams.items[STREAM_KEYS].from >= 0 && tcgetpgrp(0) == getpgrp();
}

static bool is_over(const struct session *s)
{
	switch (s->end) {
	case SESSION_GOES_ON:
		return false;
	case SESSION_EXITED:
	case SESSION_LOST:
		return streams_drained(&s->streams) ||
		       (s->terminal.master >= 0 && clock_ms() >= s->deadline);
	default:
		return true;
	}
}

#define OWN_FDS 2

void session_run(struct session *s, struct err *err)
{
	while (!is_over(s)) {
		struct channel *channel = &s->client.channel;
		bool goes_on = s->end == SESSION_GOES_ON;
		struct pollfd fds[OWN_FDS + STREAM_COUNT * 2] = {
			{ .fd = goes_on ? channel->fd : -1, .events = channel_events(channel) },
			{ .fd = s->signals, .events = POLLIN },
		};
		size_t count;

		s->streams.keys_are_ours = keys_are_ours(s);
		/* A terminal of ours may have output before we know that it runs: not until ours is raw. */
		count = s->terminal.master >= 0 && goes_on && !s->process
				? 0
				: streams_fds(&s->streams, fds + OWN_FDS);
		if (poll(fds, OWN_FDS + count, goes_on ? -1 : DRAIN_MS) < 0 && errno != EINTR)
			break;
		streams_poll(&s->streams, fds + OWN_FDS, count);
		if (fds[1].revents)
			session_read_signals(s);
		if (fds[0].revents)
			read_messages(s, err);
	}
}

/* What could not be executed, and what could not be found. */
static int failure_code(int code)
{
	switch (-code) {
	case ENOENT:
		return 127;
	case EACCES:
	case ENOTDIR:
	case EISDIR:
	case ENOEXEC:
	case ELOOP:
	case ETXTBSY:
		return 126;
	default:
		return EXIT_BRIG;
	}
}

int session_exit_code(const struct session *s, const struct err *err)
{
	switch (s->end) {
	case SESSION_EXITED:
		return WIFSIGNALED(s->status) ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status);
	case SESSION_LEFT:
		return 128 + s->status;
	case SESSION_LOST:
		/* With the sandbox everything in it was killed. */
		return s->process ? 128 + SIGKILL : EXIT_BRIG;
	default:
		return s->process ? EXIT_BRIG : failure_code(err->code);
	}
}

void session_done(struct session *s)
{
	streams_done(&s->streams);
	terminal_done(&s->terminal);
	client_done(&s->client);
	s->signals = fd_close(s->signals);
}
