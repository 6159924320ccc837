#include "host/host.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/str.h"
#include "host/probe.h"

const struct host_feature_info host_features[HOST_FEATURE_COUNT] = {
	[HOST_LANDLOCK] = { "landlock", "Landlock", "files, without a namespace" },
	[HOST_LANDLOCK_SCOPE] = { "landlock_scope", "Landlock scopes",
				  "no signals or abstract sockets to the outside" },
	[HOST_SECCOMP] = { "seccomp", "seccomp filters", "system calls, default deny" },
	[HOST_SECCOMP_NOTIFY] = { "seccomp_notify", "seccomp notifications",
				  "the network gate, asking a person" },
	[HOST_USERNS] = { "userns", "user namespaces", "the container tier without root" },
	[HOST_MOUNTNS] = { "mountns", "mount namespaces", "a root file system of its own" },
	[HOST_PIDNS] = { "pidns", "PID namespaces", "other processes out of sight and reach" },
	[HOST_PROCFS] = { "procfs", "a fresh /proc", "/proc that shows only the sandbox" },
	[HOST_NETNS] = { "netns", "network namespaces", "no route but the gate" },
	[HOST_IPCNS] = { "ipcns", "IPC namespaces", "no shared memory with the host" },
	[HOST_UTSNS] = { "utsns", "UTS namespaces", "a host name of its own" },
	[HOST_CGROUPNS] = { "cgroupns", "cgroup namespaces", "the host's cgroups out of sight" },
	[HOST_TIMENS] = { "timens", "time namespaces", "an uptime that does not tell the host's" },
	[HOST_OVERLAY] = { "overlay", "overlayfs", "changes kept apart from the image" },
	[HOST_SUBIDS] = { "subids", "subordinate ids", "a uid range per sandbox, without root" },
	[HOST_CGROUP_MEMORY] = { "cgroup_memory", "memory cgroup", "the memory limit" },
	[HOST_CGROUP_PIDS] = { "cgroup_pids", "pids cgroup", "the limit of processes" },
	[HOST_CGROUP_CPU] = { "cgroup_cpu", "cpu cgroup", "the limit of CPUs" },
	[HOST_CGROUP_KILL] = { "cgroup_kill", "cgroup.kill", "an end that nothing can outrun" },
	[HOST_KVM] = { "kvm", "KVM", "the vm tier at full speed" },
	[HOST_RUNSC] = { "runsc", "runsc", "the gvisor tier" },
	[HOST_QEMU] = { "qemu", "QEMU", "the vm tier without KVM" },
};

static probe_fn *const probes[HOST_FEATURE_COUNT] = {
	[HOST_LANDLOCK] = probe_landlock,
	[HOST_LANDLOCK_SCOPE] = probe_landlock_scope,
	[HOST_SECCOMP] = probe_seccomp,
	[HOST_SECCOMP_NOTIFY] = probe_seccomp_notify,
	[HOST_USERNS... HOST_TIMENS] = probe_namespace,
	[HOST_OVERLAY] = probe_overlay,
	[HOST_SUBIDS] = probe_subids,
	[HOST_CGROUP_MEMORY... HOST_CGROUP_KILL] = probe_cgroup,
	[HOST_KVM] = probe_kvm,
	[HOST_RUNSC] = probe_program,
	[HOST_QEMU] = probe_program,
};

static bool has_capability(unsigned int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

/* Only for the choice of words in a remedy: nothing that enforces depends on it. */
static bool in_container(void)
{
	static const char *const marks[] = { "/.dockerenv", "/run/.containerenv",
					     "/run/systemd/container" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (access(marks[i], F_OK) == 0)
			return true;
	return getenv("container") || getenv("KUBERNETES_SERVICE_HOST");
}

static struct probe who_asks(void)
{
	bool root = geteuid() == 0;

	return (struct probe){
		.root = root,
		.privileged = root && has_capability(CAP_SYS_ADMIN),
		.sets_ids = root && has_capability(CAP_SETUID) && has_capability(CAP_SETGID),
		.container = in_container(),
	};
}

/* Every answer passes here, so that a test can switch off any of them: BRIG_TEST_FAIL=host_kvm=2.
 */
static void probe_feature(const struct probe *probe, enum host_feature feature,
			  struct host_fact *ret_fact)
{
	struct host_fact fact = { 0 };
	char hook[40];
	int refused;

	snprintf(hook, sizeof(hook), "host_%s", host_features[feature].name);
	refused = hook_errno(hook);
	if (refused)
		fact_missing(&fact, "", "refused: %s", strerror(refused));
	else
		probes[feature](probe, feature, &fact);
	*ret_fact = fact;
}

void host_probe_one(enum host_feature feature, struct host_fact *ret_fact)
{
	struct probe probe = who_asks();

	probe_feature(&probe, feature, ret_fact);
}

void host_probe(struct host *ret_host)
{
	struct probe probe = who_asks();
	struct utsname name;

	*ret_host = (struct host){ .root = probe.root, .container = probe.container };
	if (uname(&name) == 0)
		snprintf(ret_host->kernel, sizeof(ret_host->kernel), "%s", name.release);
	str_make_printable(ret_host->kernel);
	for (int i = 0; i < HOST_FEATURE_COUNT; i++)
		probe_feature(&probe, (enum host_feature)i, &ret_host->facts[i]);
}
