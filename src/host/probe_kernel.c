/*
 * Landlock and seccomp: walls that need no namespace and no right, but a kernel that has them on
 * and a supervisor around us that lets them through.
 */
#include "host/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

/* Since ABI 7 a refusal stands in the audit log, unless the domain says that it is not wanted. */
#ifndef LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
#define LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF (1U << 0)
#endif
#define ABI_MOVES 2
#define ABI_SCOPE 6
#define ABI_LOG   7

enum { STEP_CREATE, STEP_RESTRICT, STEP_ACT };
static const char *const step_names[] = {
	[STEP_CREATE] = "a ruleset is refused",
	[STEP_RESTRICT] = "the restriction is refused",
	[STEP_ACT] = "the restriction does not act",
};

/* Every call succeeded, and nothing was refused. */
#define DOES_NOT_ACT (-ENOTRECOVERABLE)

static void fact_stopped(struct host_fact *fact, const struct probe_answer *answer)
{
	if (answer->error == DOES_NOT_ACT)
		fact_missing(fact, "", "%s", step_names[answer->step]);
	else
		fact_missing(fact, "", "%s: %s", step_names[answer->step],
			     strerror(-answer->error));
}

static int landlock_enter(const struct sys_landlock_attr *attr, int abi,
			  struct probe_answer *answer)
{
	_cleanup_close_ int ruleset = -EBADF;
	int r;

	answer->step = STEP_CREATE;
	ruleset = sys_landlock_create_ruleset(attr, sizeof(*attr), 0);
	if (ruleset < 0)
		return ruleset;
	answer->step = STEP_RESTRICT;
	r = sys_no_new_privs();
	if (r < 0)
		return r;
	r = sys_landlock_restrict_self(
		ruleset, abi >= ABI_LOG ? LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF : 0);
	if (r < 0)
		return r;
	answer->step = STEP_ACT;
	return 0;
}

static int try_landlock(const void *arg, struct probe_answer *answer)
{
	const struct sys_landlock_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_DIR };
	_cleanup_close_ int before = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int after = -EBADF;
	int r;

	r = landlock_enter(&attr, *(const int *)arg, answer);
	if (r < 0)
		return r;
	after = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Where we could not list it before either, under another domain, there is nothing to see
	 * and the kernel's word must do. */
	return before < 0 || (after < 0 && errno == EACCES) ? 0 : DOES_NOT_ACT;
}

static void landlock_absent(struct host_fact *fact)
{
	int r = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (r == -EOPNOTSUPP)
		fact_missing(fact,
			     "put \"landlock\" into the lsm= list of the kernel command line (the "
			     "list of now: cat /sys/kernel/security/lsm) and boot again",
			     "switched off at boot");
	else if (r == -EPERM || r == -EACCES || (r == -ENOSYS && probe_under_seccomp()))
		fact_missing(fact,
			     "allow landlock_create_ruleset, landlock_add_rule and "
			     "landlock_restrict_self in the seccomp profile around brig",
			     "refused: %s (by a seccomp filter)", strerror(-r));
	else
		fact_missing(fact, "a kernel with CONFIG_SECURITY_LANDLOCK=y (Linux 5.13 or later)",
			     "not in this kernel");
}

static void landlock_result(int r, const struct probe_answer *answer, int abi,
			    struct host_fact *fact)
{
	if (r < 0) {
		fact_untried(fact, r);
	} else if (answer->error == -E2BIG) {
		fact_missing(fact, "start brig under fewer Landlock sandboxes",
			     "too many Landlock layers around us already");
	} else if (answer->error < 0) {
		fact_stopped(fact, answer);
	} else {
		fact_ok(fact, "ABI %d", abi);
		fact->value = abi;
	}
}

void probe_landlock(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	struct probe_answer answer = { 0 };
	int abi = sys_landlock_abi();
	int r;

	(void)probe;
	(void)feature;
	if (abi <= 0) {
		landlock_absent(fact);
		return;
	}
	if (abi < ABI_MOVES) {
		fact_missing(fact, "a kernel from 5.19 on",
			     "ABI %d: it forbids to move files between directories", abi);
		return;
	}
	r = probe_in_child(try_landlock, &abi, &answer);
	landlock_result(r, &answer, abi, fact);
}

/* An abstract socket that listens, made before the domain is entered, and its name. */
static int abstract_listener(struct sockaddr_un *ret_name, socklen_t *ret_len)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);

	/* Only the family: the kernel chooses a free abstract name. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name.sun_family)) < 0 ||
	    listen(fd, 1) < 0 || getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return -errno;
	*ret_name = name;
	*ret_len = len;
	return take_fd(&fd);
}

struct scope_arg {
	int abi;
	pid_t parent;
};

static int try_landlock_scope(const void *data, struct probe_answer *answer)
{
	const struct sys_landlock_attr attr = {
		.scoped = LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
	};
	const struct scope_arg *arg = data;
	_cleanup_close_ int listener = -EBADF, client = -EBADF;
	struct sockaddr_un name = { 0 };
	socklen_t len = 0;
	int r;

	listener = abstract_listener(&name, &len);
	if (listener < 0)
		return listener;
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Without the domain the signal would be allowed; otherwise its refusal proves nothing. */
	if (client < 0 || kill(arg->parent, 0) < 0)
		return -errno;
	r = landlock_enter(&attr, arg->abi, answer);
	if (r < 0)
		return r;
	if (kill(arg->parent, 0) == 0 || errno != EPERM)
		return DOES_NOT_ACT;
	if (connect(client, (struct sockaddr *)&name, len) == 0 || errno != EPERM)
		return DOES_NOT_ACT;
	return 0;
}

void probe_landlock_scope(const struct probe *probe, enum host_feature feature,
			  struct host_fact *fact)
{
	struct scope_arg arg = { .abi = sys_landlock_abi(), .parent = getpid() };
	struct probe_answer answer = { 0 };
	int r;

	(void)probe;
	(void)feature;
	if (arg.abi <= 0) {
		landlock_absent(fact);
		return;
	}
	if (arg.abi < ABI_SCOPE) {
		fact_missing(fact, "Linux 6.12 or later", "ABI %d, and scopes came with %d",
			     arg.abi, ABI_SCOPE);
		return;
	}
	r = probe_in_child(try_landlock_scope, &arg, &answer);
	landlock_result(r, &answer, arg.abi, fact);
}

/* Everything is allowed but getppid, which gets the action given. */
static int load_filter(unsigned int flags, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { .len = ARRAY_SIZE(code), .filter = code };
	int r = sys_no_new_privs();

	return r < 0 ? r : sys_seccomp_set_filter(flags, &prog);
}

static int try_seccomp(const void *arg, struct probe_answer *answer)
{
	int r;

	(void)arg;
	answer->step = STEP_RESTRICT;
	r = load_filter(0, SECCOMP_RET_ERRNO | EXDEV);
	if (r < 0)
		return r;
	answer->step = STEP_ACT;
	return syscall(SYS_getppid) < 0 && errno == EXDEV ? 0 : DOES_NOT_ACT;
}

/* The child of the notification: its getppid is answered by the other side. */
#define NOTIFY_REPLY 4242

/* The kernel writes as many bytes as its own structs have, which may be more than our headers know.
 */
union notification {
	struct seccomp_notif request;
	struct seccomp_notif_resp response;
	unsigned char room[256];
};

static int answer_one(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	union notification request = { 0 }, response = { 0 };
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return -errno;
	if (sizes.seccomp_notif > sizeof(request) || sizes.seccomp_notif_resp > sizeof(response))
		return -EMSGSIZE;
	/* The whole probe is killed at its deadline; this only must not wait for ever. */
	if (poll(&p, 1, PROBE_DEADLINE_MS) != 1)
		return -ETIME;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return -errno;
	response.response.id = request.request.id;
	response.response.val = NOTIFY_REPLY;
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 ? -errno : 0;
}

static int try_seccomp_notify(const void *arg, struct probe_answer *answer)
{
	_cleanup_close_ int listener = -EBADF;
	pid_t child;
	int r, code;

	(void)arg;
	answer->step = STEP_RESTRICT;
	listener = load_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_RET_USER_NOTIF);
	if (listener < 0)
		return listener;
	answer->step = STEP_ACT;
	child = probe_fork();
	if (child < 0)
		return child;
	if (child == 0) {
		listener = fd_close(listener);
		_exit(syscall(SYS_getppid) != NOTIFY_REPLY);
	}
	r = answer_one(listener);
	/* With the listener gone its call fails, so it ends in any case. */
	listener = fd_close(listener);
	code = probe_wait(child);
	if (r < 0)
		return r;
	return code == 0 ? 0 : DOES_NOT_ACT;
}

static void seccomp_result(int r, const struct probe_answer *answer, const char *works,
			   const char *needs, struct host_fact *fact)
{
	if (r < 0)
		fact_untried(fact, r);
	else if (answer->error == 0)
		fact_ok(fact, "%s", works);
	else if (answer->error == -EBUSY)
		fact_missing(fact, "start brig outside of the sandbox that supervises it",
			     "refused: %s (another supervisor listens already)", strerror(EBUSY));
	else if (answer->error == -EINVAL || answer->error == -ENOSYS)
		fact_missing(fact, needs, "not in this kernel: %s", strerror(-answer->error));
	else if (probe_under_seccomp())
		fact_missing(fact, "allow seccomp and prctl in the seccomp profile around brig",
			     "refused: %s (by a seccomp filter)", strerror(-answer->error));
	else
		fact_stopped(fact, answer);
}

void probe_seccomp(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	struct probe_answer answer = { 0 };
	int r = probe_in_child(try_seccomp, NULL, &answer);

	(void)probe;
	(void)feature;
	seccomp_result(r, &answer, "a filter loads and acts",
		       "a kernel with CONFIG_SECCOMP_FILTER=y", fact);
}

void probe_seccomp_notify(const struct probe *probe, enum host_feature feature,
			  struct host_fact *fact)
{
	struct probe_answer answer = { 0 };
	int r = probe_in_child(try_seccomp_notify, NULL, &answer);

	(void)probe;
	(void)feature;
	seccomp_result(r, &answer, "a call was held and answered", "Linux 5.0 or later", fact);
}
