/*
 * gate_driver.c - the gate with the smallest keeper that can be: for tests of the gate alone
 *
 *	gate_driver process|container POLICY RESOLV_CONF EVENTS [first_ms=N] [connections=N] [unsafe=1] [straight=1] -- COMMAND...
 *
 * Runs a command whose connect() calls wait for the gate. RESOLV_CONF names the servers of this
 * host; the command sees one that says 127.0.0.1. In "container" the command has a network namespace
 * of its own with nothing but lo, and the sockets of the gate come out of a factory there; in
 * "process" it shares ours. With unsafe=1 an address that would be allowed is left to the kernel to
 * read again: the mistake that a gate must not make, to show that the attacks work. Every event is a line of EVENTS. Ends with the command's status.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "egress/gate.h"
#include "jail/target.h"

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS      SECCOMP_IOW(4, __u64)
#endif

#define STOCK 32

static void die(const char *what)
{
	perror(what);
	exit(125);
}

struct driver {
	int listener, factory;
	bool is_unsafe;
	const struct policy *policy;
	FILE *events;
	bool has_stock[2];
	int stock[2][STOCK]; /* IPv4, IPv6 streams */
	size_t stocked[2];
};

/* ---- inside ---- */

static void bring_lo_up(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		die("lo");
	close(fd);
}

struct order {
	int family, type, count;
};

/* As many replies with a descriptor as were ordered. */
static void run_factory(int socket_fd)
{
	struct order order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (recv(socket_fd, &order, sizeof(order), 0) == sizeof(order))
		for (int i = 0; i < order.count; i++) {
			int fd = socket(order.family, order.type, 0), code = fd < 0 ? -errno : 0;

			if (fd_send(socket_fd, &code, sizeof(code), &fd, fd >= 0) < 0)
				_exit(1);
			fd_close(fd);
		}
	_exit(0);
}

static int install_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_connect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	if (sys_no_new_privs() < 0)
		return -errno;
	return sys_seccomp_set_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void own_resolv_conf(void)
{
	char name[] = "/tmp/gate-resolv-XXXXXX";
	int fd = mkstemp(name);

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("mount namespace");
	if (fd < 0 || fd_write_all(fd, "nameserver 127.0.0.1\n", 21) < 0 || fchmod(fd, 0644) < 0 ||
	    mount(name, "/etc/resolv.conf", NULL, MS_BIND, NULL) < 0)
		die("resolv.conf");
	close(fd);
	unlink(name);
}

static void be_inside(bool is_container, int channel, char **command)
{
	int listener, factory[2], code = 0;

	own_resolv_conf();
	if (is_container) {
		if (unshare(CLONE_NEWNET) < 0)
			die("network namespace");
		bring_lo_up();
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, factory) < 0)
			die("socketpair");
		if (fork() == 0) {
			close(factory[0]);
			close(channel);
			run_factory(factory[1]);
		}
		close(factory[1]);
		if (fd_send(channel, &code, sizeof(code), &factory[0], 1) < 0)
			die("send");
		close(factory[0]);
	}
	listener = install_filter();
	if (listener < 0 || fd_send(channel, &code, sizeof(code), &listener, 1) < 0)
		die("filter");
	close(listener);
	/* The gate is ready. */
	if (recv(channel, &code, sizeof(code), 0) != sizeof(code))
		_exit(125);
	close(channel);
	execvp(command[0], command);
	die(command[0]);
}

/* ---- outside ---- */

static int receive_fd(int socket_fd)
{
	struct pollfd ready = { .fd = socket_fd, .events = POLLIN };
	int code = 0, passed[FD_PASS_MAX], r;

	if (poll(&ready, 1, 10000) != 1)
		return -ETIMEDOUT;
	r = fd_receive(socket_fd, &code, sizeof(code), passed);
	return r < 0 ? r : code < 0 ? code : passed[0];
}

static int from_factory(void *ctx, int family, int type)
{
	struct driver *driver = ctx;
	struct order order = { family, type, 1 };

	if (send(driver->factory, &order, sizeof(order), MSG_NOSIGNAL) < 0)
		return -errno;
	return receive_fd(driver->factory);
}

/* As the real keeper will do: sockets are made ahead of the need, many at once. */
static void fill_stock(struct driver *driver)
{
	for (int f = 0; f < 2; f++) {
		struct order order = { f ? AF_INET6 : AF_INET,
				       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				       (int)(STOCK - driver->stocked[f]) };

		if (!driver->has_stock[f] || driver->stocked[f] > STOCK / 4 ||
		    send(driver->factory, &order, sizeof(order), MSG_NOSIGNAL) < 0)
			continue;
		for (int i = 0; i < order.count; i++) {
			int fd = receive_fd(driver->factory);

			if (fd >= 0)
				driver->stock[f][driver->stocked[f]++] = fd;
		}
	}
}

static int make_socket(void *ctx, int family, int type)
{
	struct driver *driver = ctx;
	int f = family == AF_INET6;

	driver->has_stock[f] = true;
	if (driver->stocked[f] > 0 && type == (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK))
		return driver->stock[f][--driver->stocked[f]];
	return from_factory(ctx, family, type);
}

static void answer(void *ctx, uint64_t id, int error)
{
	struct driver *driver = ctx;
	struct seccomp_notif_resp reply = { .id = id, .error = -error };

	(void)!ioctl(driver->listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

static void event(void *ctx, const struct gate_event *event)
{
	struct driver *driver = ctx;
	const struct judgement *judgement = event->judgement;

	fprintf(driver->events, "%s\t%s\t%s\t%s\t%d\t%llu\t%llu\n",
		gate_action_names[event->action], judgement->is_allowed ? "allow" : "deny",
		judgement->object, judgement->reason, -event->error,
		(unsigned long long)event->sent, (unsigned long long)event->received);
	fflush(driver->events);
}

/* A socket of the sandbox's network, bound to 127.0.0.1. */
static int bound_socket(struct driver *driver, int type, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = driver->factory >= 0 ? from_factory(driver, AF_INET, type | SOCK_CLOEXEC)
				      : socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("name server");
	if (type == SOCK_STREAM && listen(fd, 16) < 0)
		die("listen");
	return fd;
}

static void let_through(struct driver *driver, const struct gate_attempt *attempt)
{
	struct seccomp_notif_resp reply = { .id = attempt->id,
					    .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	struct judge judge = { .policy = driver->policy };
	struct judgement judgement = { 0 };
	struct address address;

	if (address_from_sockaddr(&attempt->address, attempt->len, &address) == 0)
		judge_address(&judge, &address, 0, &judgement);
	if (!judgement.is_allowed)
		reply = (struct seccomp_notif_resp){ .id = attempt->id, .error = -EACCES };
	fd_close(attempt->socket);
	(void)!ioctl(driver->listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/* The keeper's part: one copy, the socket, and only then the question whether it still counts. */
static void notified(struct driver *driver, struct gate *gate)
{
	struct seccomp_notif request = { 0 };
	struct gate_attempt attempt = { .socket = -EBADF };
	uint64_t len;
	int r;

	if (ioctl(driver->listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return;
	attempt.id = request.id;
	attempt.pid = (pid_t)request.pid;
	len = request.data.args[2];
	r = len > sizeof(attempt.address)
		    ? -EINVAL
		    : target_read(attempt.pid, request.data.args[1], &attempt.address, len);
	attempt.len = (socklen_t)len;
	if (r == 0 && attempt.address.ss_family == AF_UNIX)
		r = -ECONNREFUSED;
	if (r == 0)
		attempt.socket = target_duplicate(attempt.pid, (int)request.data.args[0]);
	if (r == 0 && attempt.socket < 0)
		r = attempt.socket;
	if (ioctl(driver->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &request.id) < 0)
		r = -ENOENT;
	if (r == 0 && driver->is_unsafe) {
		let_through(driver, &attempt);
		return;
	}
	if (r < 0) {
		fd_close(attempt.socket);
		answer(driver, request.id, -r);
		return;
	}
	gate_connect(gate, &attempt);
}

/* Bound with the command's end, and with it everything that waits. */
static int supervise(struct driver *driver, struct gate *gate, pid_t child)
{
	int pidfd = sys_pidfd_open(child), status = 0;
	struct pollfd fds[] = { { .fd = driver->listener, .events = POLLIN },
				{ .fd = gate_fd(gate), .events = POLLIN },
				{ .fd = pidfd, .events = POLLIN } };

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), gate_timeout(gate)) < 0 && errno != EINTR)
			die("poll");
		if (fds[0].revents & POLLIN)
			notified(driver, gate);
		gate_work(gate);
		if (driver->factory >= 0)
			fill_stock(driver);
		if (fds[2].revents && waitpid(child, &status, WNOHANG) == child)
			break;
	}
	fd_close(pidfd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void load_policy(const char *name, struct policy *policy)
{
	struct policy_env env = { .cwd = "/", .home = NULL };
	struct err err = ERR_NONE;

	if (policy_load(name, &env, policy, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		exit(125);
	}
}

static char **read_options(char **argv, struct gate_request *request, bool *ret_unsafe)
{
	for (; *argv && !str_equal(*argv, "--"); argv++) {
		unsigned int value;

		if (sscanf(*argv, "first_ms=%u", &value) == 1)
			request->limits.first_ms = value;
		else if (sscanf(*argv, "connections=%u", &value) == 1)
			request->limits.connections = value;
		else if (sscanf(*argv, "unsafe=%u", &value) == 1)
			*ret_unsafe = value;
		else if (sscanf(*argv, "straight=%u", &value) == 1)
			request->may_go_straight = value;
	}
	return *argv ? argv + 1 : argv;
}

int main(int argc, char **argv)
{
	struct driver driver = { .listener = -EBADF, .factory = -EBADF };
	struct rlimit files;
	struct gate_request request = {
		.ctx = &driver, .make_socket = make_socket, .answer = answer, .event = event
	};
	uint64_t sync_wake_up = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
	struct gate *gate = NULL;
	struct err err = ERR_NONE;
	struct policy policy;
	int channel[2], status, code = 0;
	char **command;
	pid_t child;

	if (argc < 7)
		return 2;
	request.is_inside = str_equal(argv[1], "container");
	load_policy(argv[2], &policy);
	request.policy = driver.policy = &policy;
	request.resolv_conf = argv[3];
	driver.events = fopen(argv[4], "ae");
	command = read_options(argv + 5, &request, &driver.is_unsafe);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (!driver.events || !*command ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
		die("set-up");
	child = fork();
	if (child == 0) {
		close(channel[0]);
		be_inside(request.is_inside, channel[1], command);
	}
	close(channel[1]);
	if (request.is_inside)
		driver.factory = receive_fd(channel[0]);
	driver.listener = receive_fd(channel[0]);
	if (driver.listener < 0 || (request.is_inside && driver.factory < 0))
		return 125;
	(void)!ioctl(driver.listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, sync_wake_up);
	if (gate_new(&request, &gate, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 125;
	}
	if (gate_dns(gate, bound_socket(&driver, SOCK_DGRAM, request.is_inside ? 53 : 0),
		     bound_socket(&driver, SOCK_STREAM, request.is_inside ? 53 : 0)) < 0)
		die("dns");
	if (send(channel[0], &code, sizeof(code), MSG_NOSIGNAL) < 0)
		die("go");
	status = supervise(&driver, gate, child);
	gate_free(gate);
	for (int f = 0; f < 2; f++)
		while (driver.stocked[f] > 0)
			fd_close(driver.stock[f][--driver.stocked[f]]);
	fd_close(driver.listener);
	fd_close(driver.factory);
	fd_close(channel[0]);
	fclose(driver.events);
	policy_done(&policy);
	return status;
}
