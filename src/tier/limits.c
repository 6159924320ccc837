#include "tier/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "jail/pause.h"

static void add_rlimit(struct jail *jail, int resource, uint64_t soft, uint64_t hard)
{
	jail->rlimits[jail->rlimit_count++] = (struct jail_rlimit){ resource, soft, hard };
}

/* A resource limit cannot be raised above the caller's own hard limit. */
static int check_hard(int resource, uint64_t value, const char *key, struct err *err)
{
	struct rlimit now;

	if (getrlimit(resource, &now) < 0)
		return err_errno(err, -errno, "limits.%s", key);
	if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max)
		return err_set(err, -EPERM,
			       "limits.%s: %" PRIu64
			       " is above the caller's own hard limit, %" PRIu64 " (see ulimit -H)",
			       key, value, (uint64_t)now.rlim_max);
	return 0;
}

/*
 * One row per limit that a cgroup can hold. Without a cgroup the fallback takes over, or says why
 * it cannot: err then holds what cgroup_make said, which names the remedy.
 */
static int memory_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err);
static int pids_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err);
static int cpu_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err);

static const struct cgroup_row {
	const char *name;
	size_t offset; /* in struct limits */
	enum cgroup_control control;
	void (*format)(uint64_t value, char *text, size_t size);
	int (*without)(uint64_t value, struct tier_jail *tj, struct err *err);
} cgroup_rows[] = {
	{ "memory", offsetof(struct limits, memory), CGROUP_MEMORY, format_size,
	  memory_without_cgroup },
	{ "pids", offsetof(struct limits, pids), CGROUP_PIDS, NULL, pids_without_cgroup },
	{ "cpu", offsetof(struct limits, cpu), CGROUP_CPU, format_cpus, cpu_without_cgroup },
};

static uint64_t limit_of(const struct limits *limits, size_t offset)
{
	return *(const uint64_t *)((const char *)limits + offset);
}

/* How many of the counted tasks are ours: a container's keeper, and init where there is one. */
static uint64_t brigs_own(const struct tier_jail *tj)
{
	return (uint64_t)tj->is_contained + (uint64_t)tj->lives;
}

static int memory_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err)
{
	char text[32];
	int r = check_hard(RLIMIT_DATA, value, "memory", err);

	if (r < 0)
		return r;
	/*
	 * Not RLIMIT_AS: programs that reserve address space without using it (Node, Java, Go)
	 * would not start. What escapes RLIMIT_DATA, shared memory, is in the sum that the warden
	 * watches.
	 */
	add_rlimit(&tj->jail, RLIMIT_DATA, value, value);
	tj->watch.memory = value;
	format_size(value, text, sizeof(text));
	report_add(&tj->report, "memory", "rlimit and watch",
		   "%s each process, %s together every 50 ms; files in memory are not counted",
		   text, text);
	return 0;
}

/* The tasks that this user has now: the kernel counts them together with those of the sandbox. */
static uint64_t tasks_of_user(uid_t uid)
{
	DIR *proc = opendir("/proc");
	uint64_t tasks = 0;
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		char path[64], text[1024], *p;
		unsigned long threads;
		struct stat st;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    fstatat(dirfd(proc), entry->d_name, &st, 0) < 0 || st.st_uid != uid)
			continue;
		snprintf(path, sizeof(path), "%.20s/stat", entry->d_name);
		if (file_read_at(dirfd(proc), path, text, sizeof(text)) < 0)
			continue;
		/* The name in brackets may contain anything; what follows the last bracket is
		 * numbers. */
		p = strrchr(text, ')');
		if (p && sscanf(p,
				") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
				"%*d %lu",
				&threads) == 1)
			tasks += threads;
	}
	if (proc)
		closedir(proc);
	return tasks;
}

static int pids_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err)
{
	uint64_t now, more = brigs_own(tj);
	int r;

	/* The kernel counts the tasks of each user by themselves. */
	if (tj->changes_users)
		return err_prefix(err, "limits.pids cannot be enforced without a cgroup where root "
				       "of the sandbox can be any of its users");
	/* In a user namespace the kernel counts its own tasks, and the keeper is one of them. */
	if (tj->is_contained) {
		r = check_hard(RLIMIT_NPROC, value + more, "pids", err);
		if (r < 0)
			return r;
		add_rlimit(&tj->jail, RLIMIT_NPROC, value + more, value + more);
		report_add(&tj->report, "pids", "rlimit, user namespace", "%" PRIu64, value);
		return 0;
	}
	/* The kernel exempts uid 0 from RLIMIT_NPROC. */
	if (getuid() == 0)
		return err_prefix(err, "limits.pids cannot be enforced for root without a cgroup");
	now = tasks_of_user(getuid()) + more;
	r = check_hard(RLIMIT_NPROC, now + value, "pids", err);
	if (r < 0)
		return r;
	add_rlimit(&tj->jail, RLIMIT_NPROC, now + value, now + value);
	report_add(&tj->report, "pids", "rlimit",
		   "%" PRIu64 " beyond the %" PRIu64 " tasks of this user, shared with them", value,
		   now - more);
	return 0;
}

static int cpu_without_cgroup(uint64_t value, struct tier_jail *tj, struct err *err)
{
	struct jail *jail = &tj->jail;
	cpu_set_t allowed;
	uint64_t left = value / 1000;

	if (value % 1000)
		return err_prefix(
			err, "limits.cpu: a fraction of a CPU cannot be enforced without a cgroup");
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return err_errno(err, -errno, "limits.cpu");
	CPU_ZERO(&jail->affinity);
	/* From a place that differs between sandboxes, so that they do not all share the first CPU.
	 */
	for (size_t i = 0, at = (size_t)getpid(); i < CPU_SETSIZE && left > 0; i++, at++)
		if (CPU_ISSET(at % CPU_SETSIZE, &allowed)) {
			CPU_SET(at % CPU_SETSIZE, &jail->affinity);
			left--;
		}
	jail->has_affinity = true;
	report_add(&tj->report, "cpu", "CPU affinity", "%d CPUs, fixed",
		   CPU_COUNT(&jail->affinity));
	return 0;
}

static int apply_cgroup_row(const struct cgroup_row *row, uint64_t value, struct tier_jail *tj,
			    struct err *err)
{
	char text[32];
	uint64_t more = row->control == CGROUP_PIDS ? brigs_own(tj) : 0;
	int r = cgroup_limit(&tj->jail.cgroup, row->control, value + more, err);

	if (r < 0)
		return err_prefix(err, "limits.%s", row->name);
	if (row->format)
		row->format(value, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%" PRIu64, value);
	report_add(&tj->report, row->name, cgroup_mechanism(&tj->jail.cgroup, row->control), "%s",
		   text);
	return 0;
}

/*
 * Makes what can be had of the wanted controls, which limits need, and of the welcome ones, without
 * which something is done otherwise. why: what the limits miss, in words, for the fallbacks.
 */
static int make_cgroup(uint32_t wanted, uint32_t welcome, const char *id, struct tier_jail *tj,
		       struct err *why)
{
	struct cgroup *cg = &tj->jail.cgroup;
	int r = cgroup_make_in(tj->slice, wanted | welcome, id, cg, why);
	uint32_t available;

	if (r != -EOPNOTSUPP)
		return r;
	available = cgroup_available();
	*why = ERR_NONE;
	if (wanted & ~available) {
		r = cgroup_make_in(tj->slice, wanted, id, cg, why);
		if (r != -EOPNOTSUPP)
			return r;
	}
	available &= wanted | welcome;
	return available ? cgroup_make_in(tj->slice, available, id, cg, NULL) : 0;
}

static int limit_cpu_time(const struct limits *limits, struct tier_jail *tj, struct err *err)
{
	uint64_t seconds = (limits->cpu_time + 999) / 1000;
	char text[32];
	bool counted = cgroup_has(&tj->jail.cgroup, CGROUP_CPUACCT);
	int r = check_hard(RLIMIT_CPU, seconds + 1, "cpu_time", err);

	if (r < 0)
		return r;
	/* SIGXCPU first, a second later the end: a single process stops also when the warden is
	 * slow. */
	add_rlimit(&tj->jail, RLIMIT_CPU, seconds, seconds + 1);
	tj->watch.cpu_time = limits->cpu_time;
	format_duration(limits->cpu_time, text, sizeof(text));
	report_add(&tj->report, "cpu_time",
		   counted ? cgroup_mechanism(&tj->jail.cgroup, CGROUP_CPUACCT)
			   : "rlimit and watch",
		   counted ? "%s together, checked every 50 ms"
			   : "%s each process; their sum as far as parents wait for children",
		   text);
	return 0;
}

static int limit_by_rlimits(const struct limits *limits, struct tier_jail *tj, struct err *err)
{
	char text[32];
	int r;

	if (limits->disk != LIMIT_UNSET) {
		r = check_hard(RLIMIT_FSIZE, limits->disk, "disk", err);
		if (r < 0)
			return r;
		add_rlimit(&tj->jail, RLIMIT_FSIZE, limits->disk, limits->disk);
		format_size(limits->disk, text, sizeof(text));
		if (tj->is_contained)
			report_add(&tj->report, "disk", "tmpfs and rlimit",
				   "%s for all of its own and in overlays, %s each file in folders "
				   "of the host",
				   text, text);
		else
			report_add(&tj->report, "disk", "rlimit",
				   "%s each file, their number is not bounded", text);
	}
	if (limits->files != LIMIT_UNSET) {
		r = check_hard(RLIMIT_NOFILE, limits->files, "files", err);
		if (r < 0)
			return r;
		add_rlimit(&tj->jail, RLIMIT_NOFILE, limits->files, limits->files);
		report_add(&tj->report, "files", "rlimit", "%" PRIu64 " each process",
			   limits->files);
	}
	return limits->cpu_time == LIMIT_UNSET ? 0 : limit_cpu_time(limits, tj, err);
}

static void report_warden_limits(const struct limits *limits, struct report *report)
{
	char text[32];

	if (limits->wall != LIMIT_UNSET) {
		format_duration(limits->wall, text, sizeof(text));
		report_add(report, "wall", "timer of the warden", "%s", text);
	}
	if (limits->output != LIMIT_UNSET) {
		format_size(limits->output, text, sizeof(text));
		report_add(report, "output", "counted by the warden", "%s", text);
	}
}

/* Of all controllers that there are, v2 has some, and they are in one directory. */
static bool is_v2_alone(void)
{
	char text[4096];

	return file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) == 0 &&
	       str_starts(text, "0::") && !strchr(text, '\n');
}

/*
 * A sandbox that lives is paused, and asked for what it uses. To be moved into a cgroup takes some
 * milliseconds for each hierarchy, more than all the rest of a start; to be born in one of v2 takes
 * nothing. So a container has what can be had in that way. The process tier, which cannot, has no more
 * than its limits need: it is paused by signals, and the sums are taken from /proc.
 */
static uint32_t welcome_controls(const struct tier_jail *tj, uint32_t wanted)
{
	const uint32_t used = 1u << CGROUP_CPUACCT | 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS;

	if (!tj->lives || !(tj->is_contained || wanted))
		return 0;
	return 1u << CGROUP_FREEZE | (is_v2_alone() ? used : 0);
}

int limits_prepare(const struct limits *limits, const char *id, struct tier_jail *tj,
		   struct err *err)
{
	uint32_t wanted = limits->cpu_time != LIMIT_UNSET ? 1u << CGROUP_CPUACCT : 0;
	uint32_t welcome;
	struct err why = ERR_NONE;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(cgroup_rows); i++)
		if (limit_of(limits, cgroup_rows[i].offset) != LIMIT_UNSET)
			wanted |= 1u << cgroup_rows[i].control;
	welcome = welcome_controls(tj, wanted);
	if (wanted || welcome)
		r = make_cgroup(wanted, welcome, id, tj, &why);
	if (r < 0) {
		*err = why;
		return r;
	}
	report_warden_limits(limits, &tj->report);
	if (tj->lives)
		report_add(&tj->report, "pause", pause_mechanism(&tj->jail.cgroup), "%s",
			   pause_words(&tj->jail.cgroup));
	for (size_t i = 0; i < ARRAY_SIZE(cgroup_rows); i++) {
		const struct cgroup_row *row = &cgroup_rows[i];
		uint64_t value = limit_of(limits, row->offset);

		if (value == LIMIT_UNSET)
			continue;
		if (cgroup_has(&tj->jail.cgroup, row->control)) {
			r = apply_cgroup_row(row, value, tj, err);
		} else {
			/* What cgroup_make() said is the remedy if the fallback cannot do it
			 * either. */
			*err = why;
			r = row->without(value, tj, err);
		}
		if (r < 0)
			return r;
		*err = ERR_NONE;
	}
	return limit_by_rlimits(limits, tj, err);
}
