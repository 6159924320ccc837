/*
 * sudo_client.c - the program that is seen as /usr/bin/sudo: asks init (sudo.h), and stands for the command
 *
 * At a terminal the command gets one of its own, and what is typed and shown goes through here; else it has
 * our descriptors. Signals are handed on, its end is ours.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "config.h"
#include "init/sudo.h"
#include "init/sudo_options.h"

#define CALL     1
#define RELAYED  4096
#define DRAIN_MS 200 /* for what the command has still on the way to its terminal */

extern char **environ;

static struct asking {
	struct sudo_options options;
	struct user target;
	struct channel channel;
	int signals;
	int master;      /* of the command's terminal, or -EBADF */
	uint64_t number; /* of the command; 0: not started yet */
	uint64_t early;  /* signals that came before it was */
	struct termios before;
	bool is_raw;
	bool input_is_over;
	char typed[RELAYED];
	size_t typed_len, typed_at;
	int status;
	bool has_status;
} asking = { .signals = -EBADF, .master = -EBADF };

static const int handed_on[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM };

static int complain(const struct err *err)
{
	fprintf(stderr, "sudo: %s\n", err->text);
	return 1;
}

/* Only where somebody is at it: from the background nothing is set and nothing read. */
static bool is_foreground(void)
{
	return tcgetpgrp(0) == getpgrp();
}

static void set_raw(struct asking *a, bool raw)
{
	struct termios settings;

	if (a->master < 0 || a->is_raw == raw || !is_foreground())
		return;
	if (raw && tcgetattr(0, &a->before) < 0)
		return;
	settings = a->before;
	if (raw)
		cfmakeraw(&settings);
	if (tcsetattr(0, TCSADRAIN, &settings) == 0)
		a->is_raw = raw;
}

static int open_signals(struct asking *a)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handed_on); i++)
		sigaddset(&set, handed_on[i]);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGWINCH);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return a->signals < 0 ? -errno : 0;
}

static int reach_init(struct asking *a, struct err *err)
{
	const char *name = getenv(SUDO_ADDRESS) ?: INIT_SUDO_NAME;
	struct sockaddr_un address;
	socklen_t len = sudo_address(name, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || len == 0 || connect(fd, (struct sockaddr *)&address, len) < 0) {
		err_set(err, -errno, "nobody is there to be asked in this sandbox");
		fd_close(fd);
		return -ENOTCONN;
	}
	channel_init(&a->channel, fd, FROM_INIT, true);
	return 0;
}

static void send_number(struct asking *a, enum message_type type, enum field field, uint64_t value)
{
	_cleanup_(draft_done) struct draft d = DRAFT(type, CALL + 1);

	draft_number(&d, FIELD_PROCESS, a->number);
	draft_number(&d, field, value);
	(void)!channel_send(&a->channel, &d, NULL, 0);
}

static void add_size(struct draft *d)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };

	(void)!ioctl(0, TIOCGWINSZ, &size);
	draft_number(d, FIELD_ROWS, size.ws_row);
	draft_number(d, FIELD_COLUMNS, size.ws_col);
}

static void send_size(struct asking *a)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_RESIZE, CALL + 1);

	if (a->master < 0)
		return;
	draft_number(&d, FIELD_PROCESS, a->number);
	add_size(&d);
	(void)!channel_send(&a->channel, &d, NULL, 0);
}

/* A shell, and what it shall do; or the command as it stands. */
static int add_arguments(const struct asking *a, struct draft *d, struct err *err)
{
	const struct sudo_options *o = &a->options;
	_cleanup_(buf_done) struct buf line = BUF(MESSAGE_MAX);
	const char *shell = o->is_login ? a->target.shell : getenv("SHELL");

	if (!o->is_login && !o->is_shell) {
		for (char **word = o->command; *word; word++)
			draft_text(d, FIELD_ARGUMENT, *word);
		return 0;
	}
	draft_text(d, FIELD_ARGUMENT, shell && shell[0] == '/' ? shell : a->target.shell);
	if (o->is_login)
		draft_text(d, FIELD_ARGUMENT, "-l");
	if (!o->command[0])
		return 0;
	if (sudo_join(o->command, &line) < 0)
		return err_set(err, -E2BIG, "the command is too long");
	draft_text(d, FIELD_ARGUMENT, "-c");
	draft_text(d, FIELD_ARGUMENT, buf_text(&line));
	return 0;
}

static void add_surroundings(const struct asking *a, struct draft *d)
{
	const struct sudo_options *o = &a->options;
	char here[PATH_MAX];

	for (char **variable = environ; *variable; variable++)
		if (sudo_keeps(o, *variable))
			draft_text(d, FIELD_VARIABLE, *variable);
	for (size_t i = 0; i < o->variable_count; i++)
		draft_text(d, FIELD_VARIABLE, o->variables[i]);
	if (o->directory)
		draft_text(d, FIELD_DIRECTORY, o->directory);
	else if (o->is_login)
		draft_text(d, FIELD_DIRECTORY, "~");
	else if (getcwd(here, sizeof(here)) && here[0] == '/')
		draft_text(d, FIELD_DIRECTORY, here);
	draft_text(d, FIELD_USER, o->user);
}

static int ask(struct asking *a, struct err *err)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_START, CALL);
	bool is_terminal = isatty(0) && isatty(1) && isatty(2);
	int descriptors[3], r = add_arguments(a, &d, err);

	if (r < 0)
		return r;
	add_surroundings(a, &d);
	if (is_terminal) {
		draft_number(&d, FIELD_FLAGS, START_TERMINAL);
		add_size(&d);
		r = channel_send(&a->channel, &d, NULL, 0);
	} else {
		for (int i = 0; i < 3; i++) {
			descriptors[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
			/* Closed, as some callers have it. */
			if (descriptors[i] < 0)
				descriptors[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		}
		r = channel_send(&a->channel, &d, descriptors, 3);
	}
	if (r == -E2BIG || r == -EFBIG || r == -ENOBUFS)
		return err_set(err, r, "command and variables are too long together");
	return r < 0 ? err_errno(err, r, "cannot ask") : 0;
}

/* Stops as the command did, and goes on with it. */
static void stand_still(struct asking *a)
{
	set_raw(a, false);
	kill(getpid(), SIGSTOP);
	set_raw(a, true);
	send_size(a);
	send_number(a, MESSAGE_SIGNAL, FIELD_SIGNAL, SIGCONT);
}

static void on_signal(struct asking *a, int signal)
{
	if (!a->number) {
		a->early |= 1ull << signal;
		return;
	}
	switch (signal) {
	case SIGWINCH:
		send_size(a);
		break;
	case SIGCONT: /* brought to the foreground, maybe */
		set_raw(a, true);
		break;
	case SIGTSTP:
		/* Its group has nobody in its session who could continue it: the kernel ignores that. */
		send_number(a, MESSAGE_SIGNAL, FIELD_SIGNAL, SIGSTOP);
		(void)!channel_flush(&a->channel);
		stand_still(a);
		break;
	default:
		send_number(a, MESSAGE_SIGNAL, FIELD_SIGNAL, (uint64_t)signal);
	}
}

static void read_signals(struct asking *a)
{
	struct signalfd_siginfo info;

	while (read(a->signals, &info, sizeof(info)) == sizeof(info))
		on_signal(a, (int)info.ssi_signo);
}

static void on_start(struct asking *a, struct message *m)
{
	a->number = message_number(m, FIELD_PROCESS, 0);
	a->master = message_take_descriptor(m, 0);
	set_raw(a, true);
	for (int signal = 1; signal < 64; signal++)
		if (a->early >> signal & 1)
			on_signal(a, signal);
}

/* Negative when there is nothing more to wait for. */
static int on_message(struct asking *a, struct message *m, struct err *err)
{
	switch (m->type) {
	case MESSAGE_STARTED:
		on_start(a, m);
		return 0;
	case MESSAGE_STOPPED:
		stand_still(a);
		return 0;
	case MESSAGE_EXITED:
		a->status = (int)message_number(m, FIELD_STATUS, 0);
		a->has_status = true;
		return -EPIPE;
	case MESSAGE_ERROR:
		return err_set(err, -(int)message_number(m, FIELD_CODE, EIO), "%s",
			       message_text(m, FIELD_TEXT, ""));
	default:
		return 0;
	}
}

static int read_messages(struct asking *a, struct err *err)
{
	struct message m;
	int r;

	while ((r = channel_receive(&a->channel, &m)) > 0) {
		int over = on_message(a, &m, err);

		message_done(&m);
		if (over < 0)
			return over;
	}
	if (r < 0)
		return err_set(err, r, "init is gone");
	return channel_flush(&a->channel);
}

/* False when there is nothing. */
static bool show(const struct asking *a)
{
	char bytes[RELAYED];
	ssize_t n = read(a->master, bytes, sizeof(bytes));

	return n > 0 && fd_write_all(1, bytes, (size_t)n) == 0;
}

static void type(struct asking *a)
{
	ssize_t n;

	if (a->typed_at == a->typed_len) {
		n = read(0, a->typed, sizeof(a->typed));
		a->input_is_over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
		a->typed_at = 0;
		a->typed_len = n > 0 ? (size_t)n : 0;
	}
	n = write(a->master, a->typed + a->typed_at, a->typed_len - a->typed_at);
	if (n > 0)
		a->typed_at += (size_t)n;
}

static int run(struct asking *a, struct err *err)
{
	int r = 0;

	while (r == 0) {
		bool has_typed = a->typed_at < a->typed_len;
		bool listens = a->is_raw && !a->input_is_over && !has_typed;
		struct pollfd fds[] = {
			{ .fd = a->channel.fd, .events = channel_events(&a->channel) },
			{ .fd = a->signals, .events = POLLIN },
			{ .fd = a->master, .events = (short)(POLLIN | (has_typed ? POLLOUT : 0)) },
			{ .fd = listens ? 0 : -1, .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return err_errno(err, -errno, "cannot wait");
		if (fds[1].revents)
			read_signals(a);
		if (fds[2].revents & POLLIN)
			show(a);
		if (fds[3].revents || fds[2].revents & POLLOUT)
			type(a);
		/* Hung up: only its end is still to come. */
		if ((fds[2].revents & (POLLHUP | POLLERR)) && !(fds[2].revents & POLLIN))
			a->master = fd_close(a->master);
		r = read_messages(a, err);
	}
	return r;
}

/* What it wrote last. Others that it left behind may write on, unseen. */
static void drain(const struct asking *a)
{
	struct pollfd fd = { .fd = a->master, .events = POLLIN };

	while (a->master >= 0 && poll(&fd, 1, DRAIN_MS) > 0 && fd.revents & POLLIN && show(a))
		;
}

/* As the command ended, so do we. */
static int end_likewise(int status)
{
	int signal = WTERMSIG(status);
	sigset_t set;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	sigemptyset(&set);
	sigaddset(&set, signal);
	kill(getpid(), signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + signal;
}

static int carry_out(struct asking *a)
{
	struct err err = ERR_NONE;
	int r = open_signals(a);

	if (r < 0)
		err_errno(&err, r, "cannot wait for signals");
	r = r < 0 ? r : reach_init(a, &err);
	r = r < 0 ? r : ask(a, &err);
	r = r < 0 ? r : run(a, &err);
	if (a->has_status)
		drain(a);
	set_raw(a, false);
	if (a->has_status)
		return end_likewise(a->status);
	return complain(&err);
}

static int help(void)
{
	puts("usage: sudo [-EHinSs] [-u USER] [-D DIR] [NAME=value ...] [COMMAND ...]\n"
	     "       sudo -l | -v | -k | -V\n"
	     "\n"
	     "Starts a command as root of this sandbox, or as another of its users. Nobody is "
	     "asked\n"
	     "for a password. It is brig's own: init starts the command, nothing is setuid.");
	return 0;
}

static int list(void)
{
	puts("All users of this sandbox may run, as any of them:\n    (ALL) NOPASSWD: ALL");
	return 0;
}

int sudo_main(int argc, char **argv)
{
	static const struct rights all = { .has_users = true };
	struct asking *a = &asking;
	struct err err = ERR_NONE;
	int r = sudo_parse(argc, argv, &a->options, &err);

	r = r < 0 ? r : user_choose(a->options.user ?: "root", &all, &a->target, &err);
	if (r < 0)
		return complain(&err);
	switch (a->options.action) {
	case SUDO_HELP:
		return help();
	case SUDO_LIST:
		return list();
	case SUDO_VERSION:
		puts("sudo of brig " BRIG_VERSION);
		return 0;
	case SUDO_NOTHING:
		return 0;
	case SUDO_RUN:
		break;
	}
	return carry_out(a);
}
