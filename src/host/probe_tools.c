/*
 * What is installed beside the kernel: ranges of ids, /dev/kvm, programs of others.
 */
#include "host/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/kvm.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/*
 * A program in PATH. Relative entries do not count: they would let the work tree choose what brig
 * starts.
 */
static bool find_program(const char *name, char path[static PATH_MAX])
{
	const char *p = getenv("PATH");

	for (p = p ? p : "/usr/bin:/bin"; *p; p += strspn(p, ":")) {
		size_t len = strcspn(p, ":");
		int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)len, p, name);

		if (*p == '/' && n > 0 && n < PATH_MAX && is_program(path))
			return true;
		p += len;
	}
	return false;
}

static const struct program {
	const char *name, *remedy;
} programs[HOST_FEATURE_COUNT] = {
	[HOST_RUNSC] = { "runsc",
			 "install gVisor's runsc (https://gvisor.dev/docs/user_guide/install) "
			 "into a directory of PATH" },
	[HOST_QEMU] = { "qemu-system-x86_64", "sudo apt install qemu-system-x86" },
};

void probe_program(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	const struct program *program = &programs[feature];
	char path[PATH_MAX];

	(void)probe;
	if (find_program(program->name, path))
		fact_ok(fact, "%s", path);
	else
		fact_missing(fact, program->remedy, "\"%s\" is not in PATH", program->name);
}

/*
 * The name of our user. In a child, because the name service may load libraries, keep sockets and
 * wait for a network.
 */
static int try_user_name(const void *arg, struct probe_answer *answer)
{
	struct passwd entry, *found = NULL;
	char room[4096];
	int r = getpwuid_r(*(const uid_t *)arg, &entry, room, sizeof(room), &found);

	if (r != 0 || !found)
		return r ? -r : -ENOENT;
	if (strlen(entry.pw_name) >= sizeof(answer->text))
		return -ENAMETOOLONG;
	snprintf(answer->text, sizeof(answer->text), "%s", entry.pw_name);
	return 0;
}

/* "" when it is not known. */
static void user_name(uid_t uid, char name[static PROBE_TEXT_SIZE])
{
	struct probe_answer answer = { 0 };

	name[0] = '\0';
	if (probe_in_child(try_user_name, &uid, &answer) == 0 && answer.error == 0)
		memcpy(name, answer.text, sizeof(answer.text));
}

/* The group of the device helps only where it is one that users can be put into. */
static const char *kvm_remedy(const struct probe *probe, int error)
{
	struct stat st;

	if (error == ENOENT || error == ENODEV || error == ENXIO)
		return probe->container
			       ? "start the container with --device /dev/kvm"
			       : "switch on virtualisation in the firmware (in a virtual machine: "
				 "nested "
				 "virtualisation), then sudo modprobe kvm_intel or kvm_amd";
	if (error == EPERM)
		return "start the container with --device /dev/kvm";
	if (error != EACCES)
		return "";
	if (stat("/dev/kvm", &st) == 0 && st.st_gid != 0 && (st.st_mode & 0060) == 0060)
		return "sudo usermod -aG kvm \"$USER\", and log in again";
	return "sudo groupadd -rf kvm && sudo chown root:kvm /dev/kvm && sudo chmod 660 /dev/kvm "
	       "&& "
	       "sudo usermod -aG kvm \"$USER\", and log in again";
}

void probe_kvm(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	_cleanup_close_ int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version;

	(void)feature;
	if (fd < 0) {
		int error = errno;

		fact_missing(fact, kvm_remedy(probe, error), "/dev/kvm: %s", strerror(error));
		return;
	}
	version = ioctl(fd, KVM_GET_API_VERSION, 0);
	if (version == KVM_API_VERSION)
		fact_ok(fact, "API %d", version);
	else
		fact_missing(fact, "", "/dev/kvm is not the KVM that we know (API %d)", version);
}

struct id_range {
	uint64_t start, count;
};

/* "name:start:count" */
static bool parse_range(char *line, const char **ret_owner, struct id_range *ret_range)
{
	const char *owner = strsep(&line, ":");
	const char *start = strsep(&line, ":"), *count = line;
	struct id_range range;

	if (!count || parse_count(start, &range.start, NULL) < 0 ||
	    parse_count(count, &range.count, NULL) < 0 || range.start > UINT32_MAX ||
	    range.count > UINT32_MAX)
		return false;
	*ret_owner = owner;
	*ret_range = range;
	return true;
}

/* The largest range of the user (by name or number), and the first id after all ranges of anybody.
 */
static struct id_range own_range(const char *path, const char *name, uid_t uid, uint64_t *free_from)
{
	_cleanup_(buf_done) struct buf text = BUF(4 * MIB);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct id_range best = { 0 };
	char number[16], *rest, *line;

	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return best;
	snprintf(number, sizeof(number), "%u", uid);
	rest = text.data;
	while ((line = strsep(&rest, "\n"))) {
		const char *owner;
		struct id_range range;

		if (!parse_range(line, &owner, &range))
			continue;
		*free_from = MAX(*free_from, range.start + range.count);
		if (((*name && str_equal(owner, name)) || str_equal(owner, number)) &&
		    range.count > best.count)
			best = range;
	}
	return best;
}

/* newuidmap works by the rights of its file: root's by setuid, or capabilities of the file. */
static bool find_mapper(const char *name, char path[static PATH_MAX])
{
	struct stat st;

	if (!find_program(name, path)) {
		snprintf(path, PATH_MAX, "/usr/bin/%s", name);
		if (!is_program(path))
			return false;
	}
	if (stat(path, &st) == 0 && st.st_uid == 0 && (st.st_mode & S_ISUID))
		return true;
	return getxattr(path, "security.capability", NULL, 0) > 0;
}

/* What a sandbox with all ids of a system in it wants. */
#define RANGE_SIZE 65536

static void fact_no_range(const char *name, uint64_t free_from, struct host_fact *fact)
{
	char remedy[sizeof(fact->remedy)];
	/* On a boundary and above what is taken: two users must never share an id. */
	uint64_t start = free_from <= 100000 ? 100000 : (free_from + 9999) / 10000 * 10000;
	uint64_t end = start + RANGE_SIZE - 1;

	snprintf(remedy, sizeof(remedy),
		 "sudo usermod --add-subuids %" PRIu64 "-%" PRIu64 " --add-subgids %" PRIu64
		 "-%" PRIu64 " %s",
		 start, end, start, end, *name ? name : "\"$USER\"");
	fact_missing(fact, remedy, "no range in /etc/subuid and /etc/subgid for %s",
		     *name ? name : "this user");
}

void probe_subids(const struct probe *probe, enum host_feature feature, struct host_fact *fact)
{
	char name[PROBE_TEXT_SIZE], path[PATH_MAX];
	uint64_t free_from = 0;
	struct id_range uids, gids;

	(void)feature;
	if (probe->sets_ids) {
		fact_ok(fact, "not needed: root maps ids itself");
		fact->value = RANGE_SIZE;
		return;
	}
	user_name(geteuid(), name);
	uids = own_range("/etc/subuid", name, geteuid(), &free_from);
	gids = own_range("/etc/subgid", name, geteuid(), &free_from);
	if (uids.count == 0 || gids.count == 0) {
		fact_no_range(name, free_from, fact);
	} else if (!find_mapper("newuidmap", path) || !find_mapper("newgidmap", path)) {
		fact_missing(fact, "sudo apt install uidmap",
			     "a range, but no newuidmap and newgidmap that may use it");
	} else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
		fact_missing(fact, "start brig without no_new_privs (systemd: NoNewPrivileges=no)",
			     "a range, but no_new_privs keeps newuidmap from its rights");
	} else {
		fact_ok(fact, "uids from %" PRIu64 ", gids from %" PRIu64 ", %" PRIu64 " of them",
			uids.start, gids.start, MIN(uids.count, gids.count));
		fact->value = (long)MIN(uids.count, gids.count);
	}
}
