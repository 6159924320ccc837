#include "warden/terminal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_pair(struct terminal *t, struct err *err)
{
	int unlock = 0;

	t->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (t->master < 0)
		return err_errno(err, -errno, "cannot make a terminal for the sandbox: /dev/ptmx");
	if (ioctl(t->master, TIOCSPTLCK, &unlock) < 0)
		return err_errno(err, -errno, "cannot make a terminal for the sandbox");
	/* By descriptor: a path under /dev/pts could be another terminal in a foreign mount
	 * namespace. */
	t->slave = ioctl(t->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->slave < 0)
		return err_errno(err, -errno, "cannot open the terminal of the sandbox");
	return 0;
}

/* The sandbox's terminal begins as the user's is. */
static int copy_settings(struct terminal *t, struct err *err)
{
	struct termios settings;

	if (tcgetattr(t->outer, &t->saved) < 0)
		return err_errno(err, -errno, "cannot read the settings of the terminal");
	settings = t->saved;
	/* The user's terminal, not in raw mode, will turn newlines into line breaks itself. */
	if (!t->is_interactive)
		settings.c_oflag &= (tcflag_t)~OPOST;
	if (tcsetattr(t->slave, TCSANOW, &settings) < 0)
		return err_errno(err, -errno, "cannot set up the terminal of the sandbox");
	terminal_follow_size(t);
	return 0;
}

/*
 * A description of our own that does not block: a terminal that nobody reads must not hold us up,
 * and O_NONBLOCK on the one we were given would hit everybody who shares it. After su the device
 * belongs to another user, and only the name for "my terminal" opens it.
 */
int terminal_sink(int fd)
{
	char path[32];
	int sink;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	sink = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (sink < 0)
		sink = open("/dev/tty", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	return sink < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : sink;
}

int terminal_open(unsigned int use, struct terminal *ret_terminal, struct err *err)
{
	struct terminal t = TERMINAL_NONE;
	bool in_pipeline = is_pipe(1);
	int r;

	for (int fd = 2; fd >= 0; fd--)
		if ((use & 1u << fd) && isatty(fd))
			t.outer = fd;
	if (t.outer < 0) {
		*ret_terminal = t;
		return 0;
	}
	t.sink = terminal_sink((use & 2) && isatty(1) ? 1 : (use & 4) && isatty(2) ? 2 : t.outer);
	t.is_interactive = t.outer == 0 && !in_pipeline;
	r = open_pair(&t, err);
	r = r < 0 ? r : copy_settings(&t, err);
	if (r < 0) {
		terminal_done(&t);
		return r;
	}
	*ret_terminal = t;
	return 0;
}

static int outer_of(bool has_keys)
{
	for (int fd = 0; fd < 3; fd++)
		if ((fd > 0 || has_keys) && isatty(fd))
			return fd;
	return -EBADF;
}

int terminal_make(bool has_keys, struct terminal *ret_terminal, struct err *err)
{
	const struct winsize size = { .ws_row = TERMINAL_ROWS, .ws_col = TERMINAL_COLUMNS };
	struct terminal t = TERMINAL_NONE;
	int r;

	t.outer = outer_of(has_keys);
	t.is_interactive = has_keys && t.outer == 0;
	t.sink = isatty(1) ? terminal_sink(1) : fcntl(1, F_DUPFD_CLOEXEC, 3);
	r = open_pair(&t, err);
	if (r == 0 && t.outer >= 0 &&
	    (tcgetattr(t.outer, &t.saved) < 0 || tcsetattr(t.slave, TCSANOW, &t.saved) < 0))
		r = err_errno(err, -errno, "cannot set up the terminal of the sandbox");
	if (r < 0) {
		terminal_done(&t);
		return r;
	}
	(void)!ioctl(t.master, TIOCSWINSZ, &size);
	terminal_follow_size(&t);
	*ret_terminal = t;
	return 0;
}

bool terminal_is_master(int fd)
{
	struct stat st;
	unsigned int number;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2) &&
	       ioctl(fd, TIOCGPTN, &number) == 0;
}

void terminal_replace(struct terminal *terminal, int master)
{
	/* Under the same number, which others know already. */
	if (master >= 0 && terminal->master >= 0)
		(void)dup3(master, terminal->master, O_CLOEXEC);
}

void terminal_follow_size(const struct terminal *terminal)
{
	struct winsize size;

	if (terminal->master >= 0 && ioctl(terminal->outer, TIOCGWINSZ, &size) == 0)
		ioctl(terminal->master, TIOCSWINSZ, &size);
}

void terminal_enter(struct terminal *terminal)
{
	struct termios raw = terminal->saved;

	if (!terminal->is_interactive || terminal->is_raw)
		return;
	/* In the background the settings are not ours to change: the kernel would stop us. */
	if (tcgetpgrp(terminal->outer) != getpgrp())
		return;
	cfmakeraw(&raw);
	terminal->is_raw = tcsetattr(terminal->outer, TCSANOW, &raw) == 0;
}

void terminal_leave(struct terminal *terminal)
{
	if (!terminal->is_raw)
		return;
	terminal->is_raw = false;
	tcsetattr(terminal->outer, TCSANOW, &terminal->saved);
}

static bool ignores_interrupt(pid_t pid)
{
	char path[40], text[4096];
	const char *line;
	uint64_t ignored;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (file_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	line = strstr(text, "\nSigIgn:");
	return line && sscanf(line, "\nSigIgn: %" SCNx64, &ignored) == 1 &&
	       (ignored & 1u << (SIGINT - 1));
}

bool terminal_interrupt_is_ignored(const struct terminal *terminal, pid_t first, const char *typed,
				   size_t len)
{
	struct termios inner;

	if (tcgetattr(terminal->master, &inner) < 0 || !(inner.c_lflag & ISIG) ||
	    !memchr(typed, inner.c_cc[VINTR], len))
		return false;
	return tcgetpgrp(terminal->master) == first && ignores_interrupt(first);
}

void terminal_done(struct terminal *terminal)
{
	terminal_leave(terminal);
	terminal->master = fd_close(terminal->master);
	terminal->slave = fd_close(terminal->slave);
	terminal->sink = fd_close(terminal->sink);
}
