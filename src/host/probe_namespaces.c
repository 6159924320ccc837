/*
 * Namespaces and what is mounted in them.
 *
 * Root makes them directly; everybody else needs a user namespace first, and that is where hosts
 * differ: some refuse to make one, some (Ubuntu) let it be made and take the capabilities away. So
 * one counts only when a capability was used inside. Every question has a child of its own, and its
 * namespaces and mounts end with it.
 */
#include "host/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* A directory that is there wherever a user namespace can be mapped. */
#define MOUNT_POINT  "/proc"
#define MOUNT_SOURCE "brig-probe" /* so that one that got out would be known */

static const char *const step_names[STEP_COUNT] = {
	[STEP_USERNS] = "a user namespace is refused",
	[STEP_MAP] = "mapping ids is refused",
	[STEP_CAPABILITY] = "no capabilities in the user namespace",
	[STEP_NAMESPACE] = "the namespace is refused",
	[STEP_MOUNT] = "mounting is refused",
	[STEP_USE] = "made, but of no use",
};

/*
 * What the signs mean, the most certain first. A filter that refuses unshare hides what the rest of
 * the host would have said, so it stands before the settings that also give EPERM.
 */
static bool is_denied(const struct probe_signs *s)
{
	return s->error == EPERM || s->error == EACCES;
}

static bool is_clone_off(const struct probe_signs *s)
{
	return s->step == STEP_USERNS && is_denied(s) && s->clone_off && !s->root;
}

static bool is_forbidden_by_limit(const struct probe_signs *s)
{
	return s->step == STEP_USERNS && s->error == ENOSPC && s->no_namespaces;
}

static bool is_limit_reached(const struct probe_signs *s)
{
	return s->error == ENOSPC || s->error == EUSERS;
}

static bool is_no_proc(const struct probe_signs *s)
{
	return s->step == STEP_MAP && s->no_proc;
}

static bool is_undumpable(const struct probe_signs *s)
{
	return s->step == STEP_MAP && s->error == EACCES && s->undumpable;
}

static bool is_chroot(const struct probe_signs *s)
{
	return s->chroot && (s->error == EPERM || s->error == EINVAL);
}

static bool is_apparmor_restriction(const struct probe_signs *s)
{
	return s->apparmor && is_denied(s) && !s->root &&
	       (s->step == STEP_MAP || s->step == STEP_CAPABILITY || s->error == EACCES);
}

static bool is_filter(const struct probe_signs *s)
{
	return s->seccomp && (s->error == EPERM || s->error == ENOSYS) && s->step != STEP_USE;
}

static bool is_container_filter(const struct probe_signs *s)
{
	return s->container && is_filter(s);
}

static bool is_apparmor_refusal(const struct probe_signs *s)
{
	return s->apparmor && is_denied(s) && !s->root && s->step <= STEP_CAPABILITY;
}

static bool is_container_apparmor(const struct probe_signs *s)
{
	return s->container && s->step == STEP_MOUNT && s->error == EACCES;
}

static bool is_masked_proc(const struct probe_signs *s)
{
	return s->container && s->step == STEP_USE && s->error == EPERM;
}

static bool is_not_in_kernel(const struct probe_signs *s)
{
	return s->error == EINVAL || s->error == ENOSYS;
}

static bool is_no_driver(const struct probe_signs *s)
{
	return s->error == ENODEV;
}

static bool is_anything(const struct probe_signs *s)
{
	(void)s;
	return true;
}

#define APPARMOR_REMEDY                                                                      \
	"printf 'abi <abi/4.0>,\\nprofile brig %s flags=(unconfined) { userns, }\\n' "       \
	"\"$(readlink -f \"$(command -v brig)\")\" | sudo tee /etc/apparmor.d/brig && sudo " \
	"apparmor_parser -r /etc/apparmor.d/brig (or for every program: sudo sysctl -w "     \
	"kernel.apparmor_restrict_unprivileged_userns=0)"

static const struct probe_cause causes[] = {
	{ is_no_proc, "no /proc here", "mount -t proc proc /proc" },
	{ is_undumpable, "this process is not dumpable, so its maps belong to root",
	  "make the brig program readable for its user (chmod a+r), and change the user before "
	  "brig is started, not after" },
	{ is_clone_off, "kernel.unprivileged_userns_clone is 0",
	  "sudo sysctl -w kernel.unprivileged_userns_clone=1 (to keep it: a file in "
	  "/etc/sysctl.d), or use --isolation process" },
	{ is_forbidden_by_limit, "user.max_user_namespaces is 0",
	  "sudo sysctl -w user.max_user_namespaces=15000 (to keep it: a file in /etc/sysctl.d), or "
	  "use --isolation process" },
	{ is_limit_reached, "the limit of namespaces is reached, or 32 are nested",
	  "end what holds namespaces (lsns shows them) or raise the limits below "
	  "/proc/sys/user; sandboxes inside sandboxes end at 32" },
	{ is_apparmor_restriction, "AppArmor restricts user namespaces", APPARMOR_REMEDY },
	{ is_container_filter, "the container's seccomp profile",
	  "use --isolation process, which needs no namespaces, or start the container with a "
	  "profile that allows unshare, clone, setns, mount, umount2 and pivot_root (docker run "
	  "--security-opt seccomp=FILE)" },
	{ is_filter, "a seccomp filter around brig",
	  "use --isolation process, which needs no namespaces, or lift the filter (for a systemd "
	  "service: RestrictNamespaces=no and no SystemCallFilter against @mount)" },
	{ is_chroot, "inside a chroot",
	  "start brig outside of the chroot, or enter it with pivot_root (as systemd-nspawn "
	  "does)" },
	{ is_apparmor_refusal, "AppArmor restricts user namespaces", APPARMOR_REMEDY },
	{ is_container_apparmor, "the container's AppArmor profile",
	  "start the container with --security-opt apparmor=unconfined, or use --isolation "
	  "process" },
	{ is_masked_proc, "the container's own /proc is masked",
	  "start the container with --security-opt systempaths=unconfined (podman: "
	  "--security-opt unmask=ALL), or use --isolation process" },
	{ is_not_in_kernel, "not in this kernel",
	  "a kernel that has it (zgrep _NS= /proc/config.gz), or use --isolation process" },
	{ is_no_driver, "the file system is not in this kernel", "sudo modprobe overlay" },
	{ is_anything, "by a security module or a limit of this host", "use --isolation process" },
};

const struct probe_cause *probe_cause(const struct probe_signs *signs)
{
	const struct probe_cause *cause = causes;

	while (!cause->is(signs))
		cause++;
	return cause;
}

static bool setting_is(const char *path, const char *value)
{
	char text[32];

	return file_read_at(AT_FDCWD, path, text, sizeof(text)) == 0 && str_equal(text, value);
}

/* Whether "/" is among the mount points that we can see. */
static bool root_is_mounted(const char *mountinfo)
{
	for (const char *line = mountinfo; *line; line++) {
		char point[3] = "";

		if (sscanf(line, "%*s %*s %*s %*s %2s", point) == 1 && str_equal(point, "/"))
			return true;
		line = strchr(line, '\n');
		if (!line)
			return false;
	}
	return false;
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/*
 * A chroot hides the mounts that lie outside, so "/" is no mount point in mountinfo. One made at a
 * mount point escapes this; root can compare with the root of pid 1, if that lives among the same
 * mounts. No /proc at all is the mark of a bare chroot, too.
 */
static bool in_chroot(void)
{
	_cleanup_(buf_done) struct buf text = BUF(4 * MIB);
	_cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	if (fd_read_all(fd, &text) < 0)
		return false;
	if (!root_is_mounted(buf_text(&text)))
		return true;
	return is_same_file("/proc/1/ns/mnt", "/proc/self/ns/mnt") &&
	       access("/proc/1/root/", F_OK) == 0 && !is_same_file("/proc/1/root/", "/");
}

static struct probe_signs read_signs(const struct probe *probe, const struct probe_answer *answer)
{
	return (struct probe_signs){
		.step = (enum probe_step)answer->step,
		.error = -answer->error,
		.root = probe->root,
		.container = probe->container,
		.seccomp = probe_under_seccomp(),
		.chroot = in_chroot(),
		.no_proc = access("/proc/self/uid_map", F_OK) < 0,
		.undumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1,
		.apparmor =
			setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
		.clone_off = setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
		.no_namespaces = setting_is("/proc/sys/user/max_user_namespaces", "0"),
	};
}

static void fact_refused(const struct probe *probe, const struct probe_answer *answer,
			 struct host_fact *fact)
{
	struct probe_signs signs = read_signs(probe, answer);
	const struct probe_cause *cause = probe_cause(&signs);

	fact_missing(fact, cause->remedy, "%s: %s (%s)", step_names[signs.step],
		     strerror(signs.error), cause->what);
}

/* A user namespace that maps us to root, so that we have every capability over what we make next.
 */
static int enter_userns(struct probe_answer *answer)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char uid_map[32], gid_map[32];
	int r;

	snprintf(uid_map, sizeof(uid_map), "0 %u 1", uid);
	snprintf(gid_map, sizeof(gid_map), "0 %u 1", gid);
	answer->step = STEP_USERNS;
	/* So that switching it off in a test takes along what stands on it. */
	r = -hook_errno("host_userns");
	if (r < 0)
		return r;
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	answer->step = STEP_MAP;
	r = file_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r < 0)
		return r;
	r = file_write_at(AT_FDCWD, "/proc/self/uid_map", uid_map);
	if (r < 0)
		return r;
	return file_write_at(AT_FDCWD, "/proc/self/gid_map", gid_map);
}

static int enter(const struct probe *probe, int flags, struct probe_answer *answer)
{
	if (!probe->privileged) {
		int r = enter_userns(answer);

		if (r < 0)
			return r;
	}
	answer->step = STEP_NAMESPACE;
	if (unshare(flags) < 0)
		return -errno;
	if (!(flags & CLONE_NEWNS))
		return 0;
	/* Before anything is mounted: on most hosts it would spread to the host otherwise. */
	answer->step = STEP_MOUNT;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

static int use_utsns(void)
{
	static const char name[] = "brig-probe";

	return sethostname(name, sizeof(name) - 1) < 0 ? -errno : 0;
}

static int use_mountns(void)
{
	return mount(MOUNT_SOURCE, MOUNT_POINT, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") < 0
		       ? -errno
		       : 0;
}

/* The first child of a new PID namespace is its pid 1; its exit code is what fn returned. */
static int in_pid_1(int (*fn)(void))
{
	pid_t pid = probe_fork();
	int code;

	if (pid == 0)
		_exit(getpid() == 1 ? -fn() : ESRCH);
	code = pid < 0 ? pid : probe_wait(pid);
	return code < 0 ? code : -code;
}

static int do_nothing(void)
{
	return 0;
}

static int use_pidns(void)
{
	return in_pid_1(do_nothing);
}

static int mount_proc(void)
{
	return mount(MOUNT_SOURCE, "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
		       ? -errno
		       : 0;
}

static int use_procfs(void)
{
	return in_pid_1(mount_proc);
}

/* The loopback device of a new namespace is down, and only its owner can change that. */
static int use_netns(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	/* A kernel without IPv4 has nothing that could leave this way. */
	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : -errno;
	return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static const struct namespace
{
	int flags;
	enum probe_step step; /* of use */
	int (*use)(void);
	const char *works;
}
namespaces[HOST_FEATURE_COUNT] = {
	[HOST_USERNS] = { 0, STEP_CAPABILITY, NULL, "with capabilities inside" },
	[HOST_MOUNTNS] = { CLONE_NEWNS, STEP_MOUNT, use_mountns, "a tmpfs was mounted" },
	[HOST_PIDNS] = { CLONE_NEWPID, STEP_USE, use_pidns, "a pid 1 ran" },
	[HOST_PROCFS] = { CLONE_NEWPID | CLONE_NEWNS, STEP_USE, use_procfs, "mounted by a pid 1" },
	[HOST_NETNS] = { CLONE_NEWNET, STEP_USE, use_netns, "its loopback was set up" },
	[HOST_IPCNS] = { CLONE_NEWIPC, STEP_USE, NULL, "made" },
	[HOST_UTSNS] = { CLONE_NEWUTS, STEP_USE, use_utsns, "its name was set" },
	[HOST_CGROUPNS] = { CLONE_NEWCGROUP, STEP_USE, NULL, "made" },
	[HOST_TIMENS] = { CLONE_NEWTIME, STEP_USE, NULL, "made" },
};

struct namespace_arg {
	const struct probe *probe;
	const struct namespace *ns;
};

static int try_namespace(const void *data, struct probe_answer *answer)
{
	const struct namespace_arg *arg = data;
	int r = enter(arg->probe, arg->ns->flags, answer);

	if (r < 0 || !arg->ns->use)
		return r;
	answer->step = (int)arg->ns->step;
	return arg->ns->use();
}

static int try_userns(const void *arg, struct probe_answer *answer)
{
	int r = enter_userns(answer);

	(void)arg;
	if (r < 0)
		return r;
	answer->step = STEP_CAPABILITY;
	if (unshare(CLONE_NEWUTS) < 0)
		return -errno;
	return use_utsns();
}

void probe_namespace(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	const struct namespace_arg arg = { probe, &namespaces[feature] };
	struct probe_answer answer = { 0 };
	int r = probe_in_child(feature == HOST_USERNS ? try_userns : try_namespace, &arg, &answer);

	if (r < 0)
		fact_untried(fact, r);
	else if (answer.error < 0)
		fact_refused(probe, &answer, fact);
	else
		fact_ok(fact, "%s%s", arg.ns->works,
			probe->privileged && feature != HOST_USERNS ? ", as root" : "");
}

/* What an image layer needs: a file from below changed, a directory from below replaced. */
static int use_overlay(int base)
{
	int r;

	if (mkdirat(base, "merged/new", 0700) < 0 || faccessat(base, "upper/new", F_OK, 0) < 0)
		return -errno;
	r = unlinkat(base, "merged/old", AT_REMOVEDIR) < 0 ? -errno : 0;
	if (r == 0 && mkdirat(base, "merged/old", 0700) < 0)
		r = -errno;
	if (r == 0 && faccessat(base, "lower/old", F_OK, 0) < 0)
		r = -errno;
	return r;
}

static int try_overlay_with(const char *base, const char *options, struct probe_answer *answer)
{
	static const char *const dirs[] = {
		"", "/lower", "/lower/old", "/upper", "/work", "/merged"
	};
	_cleanup_close_ int dir = -EBADF;
	char path[64], data[256];

	answer->step = STEP_MOUNT;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", base, dirs[i]);
		if (mkdir(path, 0700) < 0)
			return -errno;
	}
	snprintf(data, sizeof(data), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work%s", base,
		 base, base, options);
	if (mount(MOUNT_SOURCE, path, "overlay", MS_NOSUID | MS_NODEV, data) < 0)
		return -errno;
	answer->step = STEP_USE;
	dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : use_overlay(dir);
}

/*
 * Root keeps whiteouts in trusted attributes, a user namespace in its own; which one this is cannot
 * be told from the uid (root of a container), so root tries both.
 */
static int try_overlay(const void *data, struct probe_answer *answer)
{
	const struct probe *probe = data;
	int r = enter(probe, CLONE_NEWNS, answer);

	if (r < 0)
		return r;
	if (mount(MOUNT_SOURCE, MOUNT_POINT, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=700") < 0)
		return -errno;
	if (probe->privileged && try_overlay_with(MOUNT_POINT "/a", "", answer) == 0) {
		snprintf(answer->text, sizeof(answer->text), "trusted attributes, as root");
		return 0;
	}
	snprintf(answer->text, sizeof(answer->text), "user attributes");
	return try_overlay_with(MOUNT_POINT "/b", ",userxattr", answer);
}

static void overlay_unusable(const struct probe_answer *answer, struct host_fact *fact)
{
	if (answer->step == STEP_USE)
		fact_missing(fact, "Linux 6.6 or later, or run as root",
			     "mounts, but a directory cannot be replaced: %s",
			     strerror(-answer->error));
	else
		fact_missing(fact, "Linux 5.11 or later, or run as root",
			     "not without root in this kernel: %s", strerror(-answer->error));
}

void probe_overlay(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	struct probe_answer answer = { 0 };
	int r = probe_in_child(try_overlay, probe, &answer);

	(void)feature;
	if (r < 0)
		fact_untried(fact, r);
	else if (answer.error == 0)
		fact_ok(fact, "%s", answer.text);
	else if (answer.step == STEP_USE || (answer.step == STEP_MOUNT && answer.error == -EINVAL))
		overlay_unusable(&answer, fact);
	else
		fact_refused(probe, &answer, fact);
}
