#include "jail/cgroup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "jail/cgroup_find.h"
#include "jail/cgroup_v2.h"

#define ID_MAX          48
#define SLICE_MAX       64
#define CPU_PERIOD_US   100000
#define CPU_MIN_QUOTA   1000 /* microseconds: the kernel refuses less */
#define US_PER_MILLI    (CPU_PERIOD_US / 1000)
#define NEEDS_V2        (1u << CGROUP_MEMORY | 1u << CGROUP_PIDS | 1u << CGROUP_CPU)
#define ALL_CONTROLS    ((1u << CGROUP_CONTROL_COUNT) - 1)
#define HAS_BIT(set, i) ((set)&1u << (i))

/*
 * One row per control: the v1 controller, the file that takes its limit in either version (or,
 * where there is no limit, the one that proves that the control is there), and the counter that
 * tells afterwards whether the limit was what ended the sandbox. v1 has no event file for memory;
 * its failcnt also counts reclaim, so the oom_kill line of memory.oom_control is used.
 */
static const struct knob {
	const char *label, *controller;
	struct {
		const char *file, *hit_file;
	} v[2];
	const char *hit_key;
	bool has_limit;
} knobs[CGROUP_CONTROL_COUNT] = {
	[CGROUP_MEMORY] = { "memory",
			    "memory",
			    { { "memory.limit_in_bytes", "memory.oom_control" },
			      { "memory.max", "memory.events" } },
			    "oom_kill",
			    true },
	[CGROUP_PIDS] = { "pids",
			  "pids",
			  { { "pids.max", "pids.events" }, { "pids.max", "pids.events" } },
			  "max",
			  true },
	[CGROUP_CPU] = { "cpu",
			 "cpu",
			 { { "cpu.cfs_quota_us", "cpu.stat" }, { "cpu.max", "cpu.stat" } },
			 "nr_throttled",
			 true },
	[CGROUP_CPUACCT] = { "CPU accounting",
			     "cpuacct",
			     { { "cpuacct.usage", NULL }, { "cpu.stat", NULL } },
			     NULL,
			     false },
	[CGROUP_KILL] = { "cgroup.kill",
			  CGROUP_UNIFIED,
			  { { NULL, NULL }, { "cgroup.kill", NULL } },
			  NULL,
			  false },
	[CGROUP_FREEZE] = { "freezer",
			    "freezer",
			    { { "freezer.state", NULL }, { "cgroup.freeze", NULL } },
			    NULL,
			    false },
};

bool cgroup_has(const struct cgroup *cg, enum cgroup_control control)
{
	return cg->dir[control] >= 0;
}

const char *cgroup_mechanism(const struct cgroup *cg, enum cgroup_control control)
{
	if (!cgroup_has(cg, control))
		return "none";
	return cg->is_v2[control] ? "cgroup v2" : "cgroup v1";
}

int cgroup_v2_fd(const struct cgroup *cg)
{
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (cg->dir[i] >= 0 && cg->is_v2[i])
			return cg->dir[i];
	return -EBADF;
}

/* What is to be made: the wanted controls, by the tree that each lives in. */
struct plan {
	const char *self; /* the text of /proc/self/cgroup */
	uint32_t wanted, v2;
	unsigned int v1_id[CGROUP_CONTROL_COUNT]; /* the hierarchy, where it is not in v2 */
};

static int tree_of(const struct plan *plan, const char *controller, struct cgroup_tree *ret_tree)
{
	struct cgroup_line line;
	int r = cgroup_line_find(plan->self, controller, &line);

	if (r == 0 && str_equal(controller, CGROUP_UNIFIED) && hook_errno("cgroup2"))
		return -ENOENT;
	return r < 0 ? r : cgroup_tree_find(controller, line.path, ret_tree);
}

/* The kernel names its v2 tree also where nobody has mounted it. */
static bool has_v2(const struct plan *plan)
{
	_cleanup_(cgroup_tree_done) struct cgroup_tree tree = CGROUP_TREE_NONE;

	return tree_of(plan, CGROUP_UNIFIED, &tree) == 0;
}

/*
 * A controller that a v1 hierarchy has is not in the v2 tree. Freezing is in every v2 directory, and
 * better there: what is frozen can be killed. CPU time is counted in each too; it goes there where
 * one is made anyway, or where v1 does not have it.
 */
static int plan_make(struct plan *plan)
{
	bool freezes_v2 = HAS_BIT(plan->wanted, CGROUP_FREEZE) && has_v2(plan);
	const bool bare[CGROUP_CONTROL_COUNT] = {
		[CGROUP_KILL] = true,
		[CGROUP_FREEZE] = freezes_v2,
		[CGROUP_CPUACCT] = HAS_BIT(plan->wanted, CGROUP_KILL) || freezes_v2,
	};
	struct cgroup_line line;

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		int r = -ENOENT;

		if (!HAS_BIT(plan->wanted, i))
			continue;
		if (!bare[i])
			r = cgroup_line_find(plan->self, knobs[i].controller, &line);
		if (r == -ENOENT)
			plan->v2 |= 1u << i;
		else if (r < 0)
			return r;
		else
			plan->v1_id[i] = line.id;
	}
	return 0;
}

static int set_all(struct cgroup *cg, uint32_t controls, bool is_v2, int parent, int dir,
		   struct err *err)
{
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (HAS_BIT(controls, i)) {
			cg->parent[i] = parent;
			cg->dir[i] = dir;
			cg->is_v2[i] = is_v2;
		}
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (HAS_BIT(controls, i) && faccessat(dir, knobs[i].v[is_v2].file, F_OK, 0) < 0)
			return err_set(err, -EOPNOTSUPP,
				       "%s: this kernel has no \"%s\" in its cgroups",
				       knobs[i].label, knobs[i].v[is_v2].file);
	return 0;
}

static int make_v2(struct cgroup *cg, const struct plan *plan, struct err *err)
{
	_cleanup_(cgroup_tree_done) struct cgroup_tree tree = CGROUP_TREE_NONE;
	const char *label = knobs[__builtin_ctz(plan->v2)].label;
	struct cgroup_spot spot;
	int r = tree_of(plan, CGROUP_UNIFIED, &tree);

	if (r < 0)
		return err_set(err, -EOPNOTSUPP,
			       "%s: no cgroup v2 tree is mounted: 'mount -t cgroup2 none "
			       "/sys/fs/cgroup' as root",
			       label);
	r = cgroup_v2_make(&tree, plan->v2 & NEEDS_V2, cg->slice, cg->name, label, &spot, err);
	if (r < 0)
		return r;
	cg->by_leaf = spot.by_leaf;
	return set_all(cg, plan->v2, true, spot.parent, spot.dir, err);
}

static int make_v1(struct cgroup *cg, const struct plan *plan, size_t control, struct err *err)
{
	_cleanup_(cgroup_tree_done) struct cgroup_tree tree = CGROUP_TREE_NONE;
	_cleanup_close_ int parent = -EBADF, dir = -EBADF;
	const char *label = knobs[control].label;
	uint32_t together = 0;
	int r = tree_of(plan, knobs[control].controller, &tree);

	if (r < 0)
		return err_set(err, -EOPNOTSUPP,
			       "%s: the cgroup v1 hierarchy of \"%s\" is not mounted here", label,
			       knobs[control].controller);
	parent = openat(tree.mount, *tree.own ? tree.own : ".",
			O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = parent < 0 ? -errno : cgroup_dir_make_in(&parent, cg->slice, cg->name);
	if (dir == -EEXIST)
		return err_set(err, dir, "cgroup \"%s\" is already there", cg->name);
	if (cgroup_is_refusal(dir))
		return err_set(err, -EOPNOTSUPP,
			       "%s: cgroup v1 is not writable: start as root, or boot with cgroup "
			       "v2 and start with 'systemd-run --user --scope -p Delegate=yes brig "
			       "...'",
			       label);
	if (dir < 0)
		return err_errno(err, dir, "%s: cgroup \"%s\" cannot be made", label, cg->name);
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (HAS_BIT(plan->wanted & ~plan->v2, i) && plan->v1_id[i] == plan->v1_id[control])
			together |= 1u << i;
	return set_all(cg, together, false, take_fd(&parent), take_fd(&dir), err);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static bool id_is_good(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len <= ID_MAX && strspn(id, LETTERS "-") == len;
}

bool cgroup_slice_is_valid(const char *slice)
{
	size_t len = strlen(slice);

	return len > 0 && len <= SLICE_MAX && strspn(slice, LETTERS "-_.") == len;
}

static int self_read(char *text, size_t size, struct err *err)
{
	int r = file_read_at(AT_FDCWD, "/proc/self/cgroup", text, size);

	if (r == 0 && strlen(text) >= size - 2) /* cut off, perhaps inside a path */
		r = -EFBIG;
	if (r < 0)
		return err_set(err, -EOPNOTSUPP,
			       "\"/proc/self/cgroup\" cannot be read (%s): mount /proc",
			       strerror(-r));
	return 0;
}

static struct cgroup take_cgroup(struct cgroup *cg)
{
	struct cgroup taken = *cg;

	*cg = CGROUP_NONE;
	return taken;
}

int cgroup_make(uint32_t wanted, const char *id, struct cgroup *ret_cg, struct err *err)
{
	return cgroup_make_in(NULL, wanted, id, ret_cg, err);
}

int cgroup_make_in(const char *slice, uint32_t wanted, const char *id, struct cgroup *ret_cg,
		   struct err *err)
{
	_cleanup_(cgroup_done) struct cgroup cg = CGROUP_NONE;
	struct plan plan = { .wanted = wanted & ALL_CONTROLS };
	char self[CGROUP_SELF_SIZE];
	int r;

	if (!id_is_good(id) || wanted & ~ALL_CONTROLS)
		return err_set(err, -EINVAL,
			       "\"%s\" is no name for a cgroup: 1 to %d letters, digits and '-'",
			       id, ID_MAX);
	if (slice && !cgroup_slice_is_valid(slice))
		return err_set(err, -EINVAL,
			       "\"%.80s\" is no name for a slice: letters, digits, '-', '_' and "
			       "'.', at most %d",
			       slice, SLICE_MAX);
	snprintf(cg.name, sizeof(cg.name), "brig-%s", id);
	if (slice)
		snprintf(cg.slice, sizeof(cg.slice), "brig-slice-%s", slice);
	if (wanted && hook_errno("cgroup"))
		return err_set(err, -EOPNOTSUPP,
			       "%s: no cgroup is writable: start with 'systemd-run --user --scope "
			       "-p Delegate=yes brig ...' or as root",
			       knobs[__builtin_ctz(wanted)].label);
	r = self_read(self, sizeof(self), err);
	if (r < 0)
		return r;
	plan.self = self;
	r = plan_make(&plan);
	if (r < 0)
		return err_set(err, -EOPNOTSUPP,
			       "our own cgroup is outside our cgroup namespace: start brig inside "
			       "the namespace, or share the host's");

	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		if (!HAS_BIT(plan.wanted, i) || cg.dir[i] >= 0)
			continue;
		r = HAS_BIT(plan.v2, i) ? make_v2(&cg, &plan, err) : make_v1(&cg, &plan, i, err);
		if (r < 0)
			return r;
	}
	*ret_cg = take_cgroup(&cg);
	return 0;
}

static bool can_make(uint32_t controls)
{
	_cleanup_(cgroup_done) struct cgroup cg = CGROUP_NONE;
	struct timespec now;
	char id[ID_MAX + 1];

	/* Two probes at once must not meet, also from two pid namespaces. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(id, sizeof(id), "probe-%d-%lx-%lx", getpid(), (unsigned long)now.tv_sec,
		 (unsigned long)now.tv_nsec);
	return cgroup_make(controls, id, &cg, NULL) == 0;
}

uint32_t cgroup_available(void)
{
	uint32_t found = 0;

	if (can_make(ALL_CONTROLS))
		return ALL_CONTROLS;
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (can_make(1u << i))
			found |= 1u << i;
	return found;
}

/* Writes to one file of every directory of that version, once where controls share it. */
static int write_each(const struct cgroup *cg, bool is_v2, const char *file, const char *text)
{
	for (size_t i = 0; i < CGROUP_CONTROL_COUNT; i++) {
		bool seen = cg->dir[i] < 0 || cg->is_v2[i] != is_v2;
		int r;

		for (size_t j = 0; j < i; j++)
			seen |= cg->dir[j] == cg->dir[i];
		if (seen)
			continue;
		r = file_write_at(cg->dir[i], file, text);
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup_put_v2(const struct cgroup *cg, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return write_each(cg, true, "cgroup.procs", text);
}

/*
 * A thread that moves itself alone asks nobody else in the kernel. To move a process, which the other file does, is to wait
 * until every processor has looked up: milliseconds.
 */
int cgroup_enter_v1(const struct cgroup *cg)
{
	return write_each(cg, false, "tasks", "0");
}

int cgroup_enter(const struct cgroup *cg)
{
	int r = cgroup_enter_v1(cg);

	return r < 0 ? r : write_each(cg, true, "cgroup.procs", "0");
}

static int write_u64(int dir, const char *file, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return file_write_at(dir, file, text);
}

/*
 * The second limit of v1 counts memory and swap together and may never be below the first, so one
 * that grows is raised from that end. A kernel that does not count swap is told not to swap these
 * processes out when they reach the limit.
 */
static int limit_memory_v1(int dir, uint64_t value)
{
	int r = write_u64(dir, "memory.limit_in_bytes", value);
	int with_swap = write_u64(dir, "memory.memsw.limit_in_bytes", value);

	if (with_swap == -ENOENT)
		return r < 0 ? r : file_write_at(dir, "memory.swappiness", "0");
	if (r == -EINVAL && with_swap == 0)
		r = write_u64(dir, "memory.limit_in_bytes", value);
	return r < 0 ? r : with_swap;
}

static int limit_memory_v2(int dir, uint64_t value)
{
	struct sysinfo host;
	int r = write_u64(dir, "memory.max", value);

	if (r < 0)
		return r;
	r = file_write_at(dir, "memory.swap.max", "0");
	/* A kernel that does not count swap would let them grow into it. */
	if (r == -ENOENT)
		r = sysinfo(&host) == 0 && host.totalswap == 0 ? 0 : -EOPNOTSUPP;
	if (r < 0)
		return r;
	r = file_write_at(dir, "memory.oom.group", "1");
	return r == -ENOENT ? 0 : r;
}

static int limit_memory(int dir, bool is_v2, uint64_t value, struct err *err)
{
	int r = is_v2 ? limit_memory_v2(dir, value) : limit_memory_v1(dir, value);

	if (r == -EOPNOTSUPP)
		return err_set(err, r,
			       "memory: the kernel does not count swap (swapaccount=0), so the "
			       "limit would not hold: 'swapoff -a', or boot with swapaccount=1");
	return r < 0 ? err_errno(err, r, "memory: the kernel refuses %" PRIu64 " bytes", value) : 0;
}

static int limit_pids(int dir, bool is_v2, uint64_t value, struct err *err)
{
	int r = write_u64(dir, "pids.max", value);

	(void)is_v2;
	return r < 0 ? err_errno(err, r, "pids: the kernel refuses %" PRIu64, value) : 0;
}

static int limit_cpu(int dir, bool is_v2, uint64_t milli, struct err *err)
{
	char text[48], cpus[24];
	uint64_t quota;
	int r;

	if (__builtin_mul_overflow(milli, (uint64_t)US_PER_MILLI, &quota))
		return err_set(err, -ERANGE, "cpu: no host has that many");
	format_cpus(milli, cpus, sizeof(cpus));
	if (quota < CPU_MIN_QUOTA)
		return err_set(err, -EINVAL, "cpu: %s is less than the kernel can hold (0.01)",
			       cpus);
	snprintf(text, sizeof(text), "%" PRIu64 " %d", quota, CPU_PERIOD_US);
	if (is_v2) {
		r = file_write_at(dir, "cpu.max", text);
	} else {
		r = write_u64(dir, "cpu.cfs_period_us", CPU_PERIOD_US);
		if (r == 0)
			r = write_u64(dir, "cpu.cfs_quota_us", quota);
	}
	return r < 0 ? err_errno(err, r,
				 "cpu: the kernel refuses %s (a cgroup above may allow less)", cpus)
		     : 0;
}

int cgroup_limit(const struct cgroup *cg, enum cgroup_control control, uint64_t value,
		 struct err *err)
{
	static int (*const set[])(int dir, bool is_v2, uint64_t value, struct err *err) = {
		[CGROUP_MEMORY] = limit_memory,
		[CGROUP_PIDS] = limit_pids,
		[CGROUP_CPU] = limit_cpu,
	};

	if (!knobs[control].has_limit || !cgroup_has(cg, control))
		return err_set(err, -EINVAL, "%s: the cgroup has no such limit",
			       knobs[control].label);
	if (value == 0)
		return err_set(err, -EINVAL, "%s: nothing runs with a limit of 0",
			       knobs[control].label);
	return set[control](cg->dir[control], cg->is_v2[control], value, err);
}

/* The number behind key at the start of a line, or, without a key, the number that the file is. */
static int read_count(int dir, const char *file, const char *key, uint64_t *ret_count)
{
	size_t len = key ? strlen(key) : 0;
	char text[2048];
	int r = file_read_at(dir, file, text, sizeof(text));

	if (r < 0)
		return r == -ENOENT ? -ENODATA : r;
	for (const char *p = text; p; p = strchr(p, '\n')) {
		uint64_t count = 0;

		p += *p == '\n';
		if (key && (strncmp(p, key, len) != 0 || p[len] != ' '))
			continue;
		p += key ? len + 1 : 0;
		if (*p < '0' || *p > '9')
			return -EBADMSG;
		for (; *p >= '0' && *p <= '9'; p++)
			if (__builtin_mul_overflow(count, 10, &count) ||
			    __builtin_add_overflow(count, (uint64_t)(*p - '0'), &count))
				return -ERANGE;
		*ret_count = count;
		return 0;
	}
	return -ENODATA;
}

int cgroup_hits(const struct cgroup *cg, enum cgroup_control control, uint64_t *ret_hits)
{
	const struct knob *knob = &knobs[control];

	if (!cgroup_has(cg, control) || !knob->hit_key)
		return -ENODATA;
	return read_count(cg->dir[control], knob->v[cg->is_v2[control]].hit_file, knob->hit_key,
			  ret_hits);
}

int cgroup_cpu_used(const struct cgroup *cg, uint64_t *ret_us)
{
	uint64_t ns;
	int dir = cgroup_v2_fd(cg), r;

	if (dir >= 0)
		return read_count(dir, "cpu.stat", "usage_usec", ret_us);
	if (!cgroup_has(cg, CGROUP_CPUACCT))
		return -ENODATA;
	r = read_count(cg->dir[CGROUP_CPUACCT], "cpuacct.usage", NULL, &ns);
	if (r == 0)
		*ret_us = ns / 1000;
	return r;
}

int cgroup_memory_peak(const struct cgroup *cg, uint64_t *ret_bytes)
{
	if (!cgroup_has(cg, CGROUP_MEMORY))
		return -ENODATA;
	return read_count(cg->dir[CGROUP_MEMORY],
			  cg->is_v2[CGROUP_MEMORY] ? "memory.peak" : "memory.max_usage_in_bytes",
			  NULL, ret_bytes);
}

int cgroup_memory_used(const struct cgroup *cg, uint64_t *ret_bytes)
{
	if (!cgroup_has(cg, CGROUP_MEMORY))
		return -ENODATA;
	return read_count(cg->dir[CGROUP_MEMORY],
			  cg->is_v2[CGROUP_MEMORY] ? "memory.current" : "memory.usage_in_bytes",
			  NULL, ret_bytes);
}

/* v1 has a number for no limit, the largest that is a multiple of the page; v2 has a word. */
#define V1_NO_LIMIT (INT64_MAX - 1024ll * KIB)

int cgroup_memory_limit(const struct cgroup *cg, uint64_t *ret_bytes)
{
	bool is_v2 = cg->is_v2[CGROUP_MEMORY];
	char text[32];
	uint64_t bytes;
	int r;

	if (!cgroup_has(cg, CGROUP_MEMORY))
		return -ENODATA;
	r = file_read_at(cg->dir[CGROUP_MEMORY], knobs[CGROUP_MEMORY].v[is_v2].file, text,
			 sizeof(text));
	if (r == 0 && str_equal(text, "max"))
		bytes = UINT64_MAX;
	else if (r == 0)
		r = read_count(cg->dir[CGROUP_MEMORY], knobs[CGROUP_MEMORY].v[is_v2].file, NULL,
			       &bytes);
	if (r == 0)
		*ret_bytes = bytes >= (uint64_t)V1_NO_LIMIT ? UINT64_MAX : bytes;
	return r;
}

int cgroup_tasks(const struct cgroup *cg, uint64_t *ret_count)
{
	if (!cgroup_has(cg, CGROUP_PIDS))
		return -ENODATA;
	return read_count(cg->dir[CGROUP_PIDS], "pids.current", NULL, ret_count);
}
