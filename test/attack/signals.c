/* signals.c - ending or disturbing processes outside the sandbox */
#include "probe.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SIGNAL_WALL EPERM, EACCES, ESRCH

static pid_t read_stat(pid_t pid, char *ret_state)
{
	char text[512] = { 0 };
	int fd = open(path_of("/proc/%d/stat", pid), O_RDONLY), parent = 0;
	const char *p;

	need(fd, "stat of a parent");
	need(read(fd, text, sizeof(text) - 1), "stat of a parent");
	close(fd);
	p = strrchr(text, ')');
	if (!p || sscanf(p, ") %c %d", ret_state, &parent) != 2)
		cannot("stat of a parent");
	return parent;
}

static pid_t parent_of(pid_t pid)
{
	char state;

	return read_stat(pid, &state);
}

static char state_of(pid_t pid)
{
	char state;

	read_stat(pid, &state);
	return state;
}

ATTACK(kill_victim, PEER_DOS, "kill a process outside")
{
	expect_denied(raw(SYS_kill, scene_number("victim"), SIGKILL), SIGNAL_WALL);
}

ATTACK(stop_victim, PEER_DOS, "stop a process outside")
{
	expect_denied(raw(SYS_kill, scene_number("victim"), SIGSTOP), SIGNAL_WALL);
}

ATTACK(kill_victim_group, PEER_DOS, "kill the process group of a process outside")
{
	expect_denied(raw(SYS_kill, -scene_number("victim"), SIGKILL), SIGNAL_WALL);
}

ATTACK(kill_everybody, PEER_DOS, "kill(-1): every process of the user")
{
	expect_denied(raw(SYS_kill, -1, SIGKILL), SIGNAL_WALL);
}

ATTACK(tkill_victim, PEER_DOS, "kill a thread outside by tkill")
{
	expect_denied(raw(SYS_tkill, scene_number("victim"), SIGKILL), SIGNAL_WALL);
}

ATTACK(tgkill_victim, PEER_DOS, "kill a thread outside by tgkill")
{
	long victim = scene_number("victim");

	expect_denied(raw(SYS_tgkill, victim, victim, SIGKILL), SIGNAL_WALL);
}

ATTACK(pidfd_kill_victim, PEER_DOS, "kill a process outside by its pidfd")
{
	int fd = (int)expect_denied(raw(SYS_pidfd_open, scene_number("victim"), 0), SIGNAL_WALL);

	expect_denied(raw(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0), SIGNAL_WALL);
}

ATTACK(pidfd_kill_by_proc, PEER_DOS, "kill a process outside by a descriptor of /proc/PID")
{
	int fd = open(path_of("/proc/%s", scene("victim")), O_RDONLY | O_DIRECTORY);

	need(fd, "/proc/PID");
	expect_denied(raw(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0), SIGNAL_WALL);
}

ATTACK(queue_to_victim, PEER_DOS, "queue a signal with data to a process outside")
{
	siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_QUEUE };

	expect_denied(raw(SYS_rt_sigqueueinfo, scene_number("victim"), SIGTERM, &info),
		      SIGNAL_WALL);
}

ATTACK(queue_to_victim_thread, PEER_DOS, "queue a signal with data to a thread outside")
{
	long victim = scene_number("victim");
	siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_QUEUE };

	expect_denied(raw(SYS_rt_tgsigqueueinfo, victim, victim, SIGTERM, &info), SIGNAL_WALL);
}

static void send_by_owner(int how)
{
	const struct f_owner_ex owner = { F_OWNER_PID, (pid_t)scene_number("victim") };
	int pair[2];

	need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	if (how == F_SETOWN)
		expect_denied(fcntl(pair[0], F_SETOWN, owner.pid), SIGNAL_WALL);
	else
		expect_denied(fcntl(pair[0], F_SETOWN_EX, &owner), SIGNAL_WALL);
	need(fcntl(pair[0], F_SETSIG, SIGKILL), "F_SETSIG");
	need(fcntl(pair[0], F_SETFL, O_ASYNC), "O_ASYNC");
	spoil_fd(pair[1]);
	/* The kernel refuses silently: whether the process still lives is the only answer. */
	usleep(20000);
	if (raw(SYS_kill, owner.pid, 0) < 0 && errno != ESRCH)
		denied(errno);
}

ATTACK(sigio_to_victim, PEER_DOS,
       "make a process outside the owner of a socket, SIGKILL as its SIGIO")
{
	send_by_owner(F_SETOWN);
}

ATTACK(sigio_to_victim_thread, PEER_DOS, "the same by F_SETOWN_EX")
{
	send_by_owner(F_SETOWN_EX);
}

ATTACK(kill_keeper, ESCAPE, "kill the parent, which watches over the sandbox")
{
	expect_denied(raw(SYS_kill, getppid(), SIGKILL), SIGNAL_WALL);
	usleep(200000);
	/* Whoever reads this still has a parent: pid 1 of a namespace gets no signal from inside. */
	denied(EPERM);
}

ATTACK(stop_keeper, ESCAPE, "stop the parent, which watches over the sandbox")
{
	int is_stopped;

	expect_denied(raw(SYS_kill, getppid(), SIGSTOP), SIGNAL_WALL);
	usleep(200000);
	is_stopped = state_of(getppid()) == 'T';
	/* So that a control does not hang. */
	raw(SYS_kill, getppid(), SIGCONT);
	if (!is_stopped)
		denied(EPERM);
}

ATTACK(signal_keeper, ESCAPE,
       "send every other signal to the parent, which watches over the sandbox")
{
	for (int signal = 1; signal <= 64; signal++)
		if (signal != SIGKILL && signal != SIGSTOP && signal != SIGTSTP &&
		    signal != SIGTTIN && signal != SIGTTOU)
			expect_denied(raw(SYS_kill, getppid(), signal), SIGNAL_WALL);
	usleep(200000);
	denied(EPERM);
}

ATTACK(kill_warden, ESCAPE, "kill the parent's parent, which keeps the deadline")
{
	pid_t warden = parent_of(getppid());

	/* Of another namespace: it has no number here. */
	if (warden == 0)
		not_there(ESRCH);
	expect_denied(raw(SYS_kill, warden, SIGKILL), SIGNAL_WALL);
	usleep(200000);
}
