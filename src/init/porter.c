/*
 * porter.c - one client of sudo.h, from its connection to the end of its command
 *
 * Its own process, and so the only one that a client can keep waiting, or harm.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/title.h"
#include "init/starting.h"
#include "init/sudo.h"

#define FAREWELL_MS 2000

struct porter {
	const struct init *init;
	struct channel client;
	struct ucred who;
	int reports;  /* to init */
	int children; /* a signalfd */
	int leader;   /* reports of the one that a terminal has, or -EBADF */
	int terminal; /* its slave, for RESIZE, or -EBADF */
	uint32_t call;
	pid_t pid; /* of the command */
	bool is_over;
};

/* Everybody who is in the sandbox may be its root: the walls are around all of it. */
static bool may_ask(const struct ucred *who)
{
	(void)who;
	return true;
}

/* Waits until all is sent, for as long as is polite. */
_Noreturn static void leave(struct porter *p)
{
	uint64_t end = clock_ms() + FAREWELL_MS;

	while (channel_waiting(&p->client) > 0 && channel_flush(&p->client) == 0 &&
	       clock_ms() < end) {
		struct pollfd fd = { .fd = p->client.fd, .events = POLLOUT };

		(void)!poll(&fd, 1, 100);
	}
	_exit(0);
}

_Noreturn static void refuse(struct porter *p, uint32_t call, const struct err *err)
{
	channel_answer_error(&p->client, call, err->code, "%s", err->text);
	leave(p);
}

/* The next message, or the end of all: the client is gone, or breaks the rules, or takes too long. */
static void await_message(struct porter *p, uint64_t until, struct message *ret_message)
{
	for (;;) {
		struct pollfd fd = { .fd = p->client.fd, .events = POLLIN };
		uint64_t now = clock_ms();
		int r = channel_receive(&p->client, ret_message);

		if (r > 0)
			return;
		if (r < 0 || now >= until)
			_exit(1);
		(void)!poll(&fd, 1, (int)(until - now));
	}
}

static void tell_init(const struct porter *p, const struct starting *s)
{
	struct porter_report report = { .news = PORTER_STARTED, .pid = p->pid };

	memcpy(report.user, s->spawn.user.name, sizeof(report.user));
	for (size_t i = 0; s->spawn.argv[i] && report.arguments_len < ARGUMENTS_SHOWN; i++) {
		size_t len = MIN(strlen(s->spawn.argv[i]), ARGUMENTS_SHOWN - report.arguments_len);

		memcpy(report.arguments + report.arguments_len, s->spawn.argv[i], len);
		report.arguments_len += len + 1;
	}
	(void)!send(p->reports, &report, sizeof(report), MSG_NOSIGNAL);
}

/* Who asked, by what the kernel says. */
static void set_variables(const struct porter *p, struct starting *s)
{
	const struct rights rights = { .has_users = true };
	struct err err = ERR_NONE;
	struct user user;
	char number[16];

	snprintf(number, sizeof(number), "%u", p->who.uid);
	if (user_choose(number, &rights, &user, &err) == 0)
		starting_set(s, "SUDO_USER=%s", user.name);
	starting_set(s, "SUDO_UID=%u", p->who.uid);
	starting_set(s, "SUDO_GID=%u", p->who.gid);
}

/* Descriptors of the client's, or a terminal, whose master it gets. */
static int plan_stdio(struct porter *p, struct message *m, struct starting *s, int *ret_master,
		      struct err *err)
{
	bool is_terminal = message_number(m, FIELD_FLAGS, 0) == START_TERMINAL;
	int r;

	if (is_terminal && m->descriptor_count == 0) {
		r = starting_make_terminal(s, m, ret_master, err);
		if (r < 0)
			return r;
		s->spawn.has_terminal = true;
		for (int i = 0; i < 3; i++)
			s->spawn.stdio[i] = s->to_close[0];
		p->terminal = dup(s->to_close[0]);
		return 0;
	}
	if (message_number(m, FIELD_FLAGS, 0) == 0 && m->descriptor_count == 3) {
		memcpy(s->spawn.stdio, m->descriptors, sizeof(s->spawn.stdio));
		return 0;
	}
	return err_set(err, -EINVAL, "a command of sudo has three descriptors, or a terminal");
}

/* With a terminal a process between waits for it, and says how it went (leader.h). */
static int start_led(struct porter *p, const struct starting *s, struct err *err)
{
	struct leader_report report;
	pid_t leader = leader_start(&s->spawn, &p->leader, err);

	if (leader < 0)
		return leader;
	if (recv(p->leader, &report, sizeof(report), 0) != sizeof(report))
		return err_set(err, -EINTR, "\"%s\" was ended before it ran", s->spawn.argv[0]);
	if (report.news == LEADER_STARTED)
		return report.value;
	*err = report.err;
	return err->code ?: -EIO;
}

static void answer_started(struct porter *p, int master)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STARTED, p->call);

	draft_number(&d, FIELD_PROCESS, (uint64_t)p->pid);
	draft_number(&d, FIELD_PID, (uint64_t)p->pid);
	if (channel_send(&p->client, &d, &master, master >= 0 ? 1 : 0) < 0)
		kill(-p->pid, SIGKILL);
}

/* Where it starts: with our own rights, which see more than those that it will have. */
static void enter_directory(struct starting *s)
{
	if (s->spawn.directory && chdir(s->spawn.directory) == 0)
		s->spawn.directory = NULL;
}

static void start(struct porter *p, struct message *m)
{
	_cleanup_(starting_done) struct starting s = STARTING(p->init);
	struct err err = ERR_NONE;
	int master = -EBADF;
	int r = starting_read(&s, m, "root", &err);

	r = r < 0 ? r : plan_stdio(p, m, &s, &master, &err);
	if (r < 0)
		refuse(p, m->call, &err);
	set_variables(p, &s);
	enter_directory(&s);
	p->pid = s.spawn.has_terminal ? start_led(p, &s, &err) : spawn(&s.spawn, &err);
	if (p->pid < 0)
		refuse(p, m->call, &err);
	p->call = m->call;
	tell_init(p, &s);
	answer_started(p, master);
}

static void answer_exited(struct porter *p, int status)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_EXITED, p->call);

	draft_number(&d, FIELD_STATUS, (unsigned int)status);
	draft_number(&d, FIELD_PROCESS, (uint64_t)p->pid);
	(void)!channel_send(&p->client, &d, NULL, 0);
	p->is_over = true;
}

/* Seen, and left there: init reaps it when we are gone, and nobody gets its pid before. */
static void look_at_child(struct porter *p)
{
	struct signalfd_siginfo drop[4];
	siginfo_t info = { 0 };
	int status;

	while (read(p->children, drop, sizeof(drop)) > 0)
		;
	if (p->leader >= 0 || waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    !info.si_pid)
		return;
	status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
	answer_exited(p, info.si_code == CLD_DUMPED ? status | 0x80 : status);
}

static void answer_stopped(struct porter *p, int signal)
{
	_cleanup_(draft_done) struct draft d = DRAFT(MESSAGE_STOPPED, p->call);

	draft_number(&d, FIELD_PROCESS, (uint64_t)p->pid);
	draft_number(&d, FIELD_SIGNAL, (unsigned int)signal);
	(void)!channel_send(&p->client, &d, NULL, 0);
}

static void listen_to_leader(struct porter *p)
{
	struct leader_report report;
	ssize_t n = recv(p->leader, &report, sizeof(report), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == sizeof(report) && report.news == LEADER_STOPPED)
		answer_stopped(p, report.value);
	else if (n == sizeof(report) && report.news == LEADER_EXITED)
		answer_exited(p, report.value);
	else /* somebody killed it: the terminal is hung up, and the command knows */
		answer_exited(p, SIGHUP);
}

static void resize(const struct porter *p, const struct message *m)
{
	const struct winsize size = {
		.ws_row = (unsigned short)message_number(m, FIELD_ROWS, 0),
		.ws_col = (unsigned short)message_number(m, FIELD_COLUMNS, 0),
	};

	if (p->terminal >= 0)
		(void)!ioctl(p->terminal, TIOCSWINSZ, &size);
}

/* Of what a client may say only two are of interest; others are nobody's business here. */
static void listen_to_client(struct porter *p)
{
	struct message m;
	int r;

	while ((r = channel_receive(&p->client, &m)) > 0) {
		uint64_t signal = message_number(&m, FIELD_SIGNAL, 0);

		if (m.type == MESSAGE_SIGNAL && signal > 0 && signal <= 64)
			kill(-p->pid, (int)signal);
		else if (m.type == MESSAGE_RESIZE)
			resize(p, &m);
		message_done(&m);
	}
	/*
	 * Killed, together with its group perhaps, of which the command would have been one. Nobody can
	 * end it by that group now.
	 */
	if (r < 0 && !p->is_over) {
		kill(-p->pid, SIGKILL);
		_exit(0);
	}
}

_Noreturn static void follow(struct porter *p)
{
	look_at_child(p);
	while (!p->is_over) {
		struct pollfd fds[] = {
			{ .fd = p->client.fd, .events = channel_events(&p->client) },
			{ .fd = p->children, .events = POLLIN },
			{ .fd = p->leader, .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			break;
		if (fds[2].revents)
			listen_to_leader(p);
		if (fds[1].revents)
			look_at_child(p);
		(void)!channel_flush(&p->client);
		listen_to_client(p);
	}
	leave(p);
}

static int watch_children(void)
{
	sigset_t children;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	return signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int let_in(struct porter *p, int listener)
{
	const struct porter_report taken = { .news = PORTER_TAKEN };
	socklen_t size = sizeof(p->who);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	close(listener);
	if (fd < 0)
		return -errno;
	(void)!send(p->reports, &taken, sizeof(taken), MSG_NOSIGNAL);
	channel_init(&p->client, fd, FROM_CLIENT, true);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &p->who, &size) < 0 || !may_ask(&p->who))
		return -EACCES;
	return 0;
}

void porter_run(const struct init *init, int listener, int reports)
{
	struct porter p = {
		.init = init, .reports = reports, .leader = -EBADF, .terminal = -EBADF
	};
	int keep[] = { listener, reports };
	struct message m;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "brig-init-sudo");
	title_set("brig-init: sudo");
	fd_close_others(keep, ARRAY_SIZE(keep));
	p.children = watch_children();
	if (p.children < 0 || let_in(&p, listener) < 0)
		_exit(1);
	await_message(&p, clock_ms() + ASK_MS, &m);
	if (m.type != MESSAGE_START) {
		channel_answer_error(&p.client, m.call, -EINVAL, "sudo starts commands");
		leave(&p);
	}
	start(&p, &m);
	message_done(&m);
	follow(&p);
}
