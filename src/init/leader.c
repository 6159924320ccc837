#include "init/leader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/title.h"

static void tell(int socket, const struct leader_report *report)
{
	(void)!send(socket, report, sizeof(*report), MSG_NOSIGNAL);
}

static void follow(pid_t pid, int socket)
{
	siginfo_t info;

	for (;;) {
		struct leader_report report = { .news = LEADER_STOPPED };

		/* Seen, and left there: what has exited keeps its pid, until init knows. */
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT) < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		report.value = info.si_status;
		if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
			waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG);
			tell(socket, &report);
			continue;
		}
		report.news = LEADER_EXITED;
		if (info.si_code == CLD_EXITED)
			report.value = info.si_status << 8;
		else if (info.si_code == CLD_DUMPED)
			report.value |= 0x80;
		tell(socket, &report);
		return;
	}
}

_Noreturn static void lead(const struct spawn *of, int socket)
{
	struct leader_report report = { .news = LEADER_STARTED };
	int keep[] = { of->stdio[0], of->stdio[1], of->stdio[2], socket };
	sigset_t hangup;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "brig-init-tty");
	title_set("brig-init: terminal");
	fd_close_others(keep, ARRAY_SIZE(keep));
	sigemptyset(&hangup);
	sigaddset(&hangup, SIGHUP);
	sigprocmask(SIG_UNBLOCK, &hangup, NULL);
	if (setsid() < 0 || ioctl(of->stdio[0], TIOCSCTTY, 0) < 0) {
		report.value = err_errno(&report.err, -errno, "cannot take the terminal");
	} else {
		/* Blocked for the program, which is to get none before it runs. */
		report.value = spawn(of, &report.err);
	}
	if (report.value < 0)
		report.news = LEADER_FAILED;
	tell(socket, &report);
	for (int i = 0; i < 3; i++) {
		if (of->stdio[i] != i)
			fd_close(of->stdio[i]);
		fd_close(i);
	}
	if (report.news == LEADER_STARTED)
		follow(report.value, socket);
	while (read(socket, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

pid_t leader_start(const struct spawn *of, int *ret_socket, struct err *err)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, -errno, "cannot make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_errno(err, -errno, "cannot start \"%s\"", of->argv[0]);
	if (pid == 0)
		lead(of, theirs);
	*ret_socket = take_fd(&ours);
	return pid;
}
