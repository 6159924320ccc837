/*
 * main.c - brig-init: what lives with the workload, and acts for the people outside
 *
 * The first process of a sandbox that lives. It is told what to do over one channel (proto/message.h),
 * descriptor 3, and does it with the rights of the sandbox: all the walls are up before it starts, and
 * nothing here is one. When the channel ends it ends, and so does the sandbox.
 *
 * It trusts the warden, but nothing that is inside: neither files and names, nor the processes, which
 * may be of the same user and end it whenever they want.
 *
 *	brig-init [--sudo NAME]	programs inside may ask to be root, at this socket (sudo.h)
 *	sudo ...		the program that asks
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/title.h"
#include "init/sudo.h"

#define CHANNEL_FD 3

/* What is opened later must not get one of these numbers. */
static int occupy_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 3);
	if (fd < 0)
		/* Where there is none, anything is as good. */
		do
			fd = fcntl(CHANNEL_FD, F_DUPFD_CLOEXEC, 0);
		while (fd >= 0 && fd < 3);
	if (fd < 0)
		return -errno;
	fd_close(fd);
	return 0;
}

/*
 * All of them to the default, and all blocked: nothing interrupts, and a child has only to unblock. By
 * the kernel's own calls: the libcs leave out those that they use themselves, which can be sent, or come
 * in ignored, like any other.
 */
static void quiet_signals(void)
{
	static const uint64_t standard[4], all = UINT64_MAX;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	for (int signal = 1; signal <= 64; signal++)
		if (signal != SIGKILL && signal != SIGSTOP)
			syscall(SYS_rt_sigaction, signal, standard, NULL, 8);
}

static void look_at_rights(struct init *init)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	const uint32_t users = 1u << CAP_SETUID | 1u << CAP_SETGID;
	uint64_t permitted;

	if (syscall(SYS_capget, &header, data) < 0)
		return;
	init->rights.has_users = (data[0].effective & users) == users;
	/* They are for the users of a sandbox whose system is its own. */
	permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
	init->rights.has_root = !((SYS_ROOT_RIGHTS | SYS_INIT_MARK) & ~permitted);
	for (size_t i = 0; i < ARRAY_SIZE(data); i++)
		if (data[i].permitted || data[i].inheritable)
			init->rights.has_capabilities = true;
}

/*
 * Nobody inside reads our memory, or writes to it. A child that becomes root shares it until it executes
 * something, and has his uid by then. The filter says yes to prctl() and does nothing; a change of ids does
 * the same, and what is forked has it from us.
 */
static void close_memory(const struct init *init)
{
	const struct user other = { .uid = USER_DEFAULT, .gid = USER_DEFAULT };

	prctl(PR_SET_DUMPABLE, 0);
	user_act_as(&other, init->rights.has_users);
	user_act_as(NULL, init->rights.has_users);
}

/* As many descriptors as can be had. */
static void raise_limit(struct init *init)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &init->files) < 0)
		return;
	limit = init->files;
	limit.rlim_cur = limit.rlim_max;
	(void)!setrlimit(RLIMIT_NOFILE, &limit);
}

/* Anything that is no UNIX socket carries bytes only. */
static bool passes_descriptors(int fd)
{
	socklen_t size = sizeof(int);
	int domain = -1;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

static int open_init(struct init *init, const char *sudo)
{
	int r = fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0 ? -errno : occupy_stdio();

	if (r < 0)
		return r;
	channel_init(&init->channel, CHANNEL_FD, FROM_WARDEN, passes_descriptors(CHANNEL_FD));
	raise_limit(init);
	look_at_rights(init);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	close_memory(init);
	prctl(PR_SET_NAME, "brig-init");
	init->rights.has_root = init->rights.has_root && sudo;
	r = loop_open(init);
	return r < 0 || !sudo ? r : sudo_open(init, sudo);
}

static bool is_called(const char *path, const char *name)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return path && strcmp(slash ? slash + 1 : path, name) == 0;
}

int main(int argc, char **argv)
{
	static struct init init = { .sudo.listener.fd = -EBADF };
	struct draft ready = DRAFT(MESSAGE_READY, 0);
	char sudo[64] = "";
	int r;

	if (is_called(argv[0], "sudo"))
		return sudo_main(argc, argv);
	/* The title takes its place. */
	if (argc == 3 && strcmp(argv[1], "--sudo") == 0)
		snprintf(sudo, sizeof(sudo), "%s", argv[2]);
	title_init(argc, argv);
	title_set("brig-init");
	quiet_signals();
	r = open_init(&init, sudo[0] ? sudo : NULL);
	if (r == 0) {
		answer_send(&init, &ready);
		r = loop_run(&init);
	}
	if (r < 0)
		fprintf(stderr, "brig-init: %s\n", init.channel.why ?: strerror(-r));
	return r < 0;
}
