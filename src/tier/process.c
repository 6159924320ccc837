#include "tier/process.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hook.h"
#include "base/str.h"
#include "base/sys.h"
#include "tier/files.h"
#include "tier/limits.h"
#include "tier/view.h"

static int prepare_files(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	unsigned int parts =
		LANDLOCK_FILES | LANDLOCK_TCP |
		(request->weaken & WEAKEN_SIGNALS || hook_without("signals") ? 0
									     : LANDLOCK_SIGNALS);
	struct files_granted *granted = &tj->granted;
	struct jail *jail = &tj->jail;
	int r = landlock_open(parts, &jail->inner, err);

	r = r < 0 ? r : files_grant(&request->policy->fs, &jail->inner, granted, err);
	if (r < 0)
		return r;
	r = landlock_grant(&jail->inner, jail->scratch.dir, true, LANDLOCK_WRITE);
	if (r == 0 && request->terminal >= 0)
		r = landlock_grant(&jail->inner, request->terminal, false, LANDLOCK_WRITE_DEVICE);
	r = r < 0 ? r : files_add_own(granted, jail->scratch.path);
	if (r < 0)
		return err_errno(err, r, "cannot open the sandbox's own folder and terminal to it");
	report_add(&tj->report, "files", "Landlock",
		   "ABI %d: %zu trees to read, %zu of them to write, %u absent", jail->inner.abi,
		   granted->readable.count, granted->writable.count, granted->absent);
	if (granted->is_carried)
		report_add(&tj->report, "narrower rules", "Landlock and seccomp notification",
			   "%zu inside wider ones: %s around them by the keeper",
			   granted->carry.guarded_count,
			   granted->carry.reads ? "every open and change" : "changes");
	return 0;
}

static int prepare_signals(const struct tier_request *request, struct tier_jail *tj,
			   struct err *err)
{
	if (request->weaken & WEAKEN_SIGNALS) {
		report_add(&tj->report, "signals", "none", "given up by --weaken signals");
		return 0;
	}
	report_add(&tj->report, "signals", "Landlock scope", "its own processes only");
	return landlock_open(LANDLOCK_SIGNALS, &tj->jail.outer, err);
}

static int prepare_filter(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	struct filter_spec spec = { .sockets = tj->has_gate ? SOCKETS_SHARED : SOCKETS_NONE,
				    .has_gate = tj->has_gate,
				    .fixed_affinity = tj->jail.has_affinity };
	const struct words *allow = &request->policy->allow;
	int r;

	if (strv_has(&allow->list, extensions[EXT_NESTED].name))
		return err_set(err, -EOPNOTSUPP,
			       "allow: nested needs the container tier (--isolation container)");
	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		if (strv_has(&allow->list, extensions[i].name))
			spec.extensions |= 1u << i;
	/* Knocked out in a test build, the calls go straight to the kernel. */
	if (request->policy->net_allow.count > 0 && hook_without("gate"))
		spec.sockets = SOCKETS_INET;
	spec.mediation = hook_without("metadata") ? MEDIATE_NOTHING : MEDIATE_METADATA;
	if (tj->granted.is_carried && spec.mediation == MEDIATE_METADATA) {
		tj->jail.carry = &tj->granted.carry;
		spec.carries = tj->granted.carry.changes;
		spec.carries_reads = tj->granted.carry.reads;
	}
	r = spec.mediation == MEDIATE_NOTHING ? 0 : tier_record(request, tj, &spec, err);
	r = r < 0 ? r : filter_build(&spec, &tj->filter, err);
	if (r < 0)
		return r;
	tj->jail.filter = &tj->filter;
	tj->jail.conditions = filter_conditions(&spec);
	tj->jail.mediation = spec.mediation;
	tj->jail.writable = (const char *const *)tj->granted.writable.items;
	tj->jail.writable_count = tj->granted.writable.count;
	tj->jail.readable = (const char *const *)tj->granted.readable.items;
	tj->jail.readable_count = tj->granted.readable.count;
	report_add(&tj->report, "metadata", "seccomp notification",
		   "mode, owner, times, attributes: by the keeper, in writable trees");
	report_add(&tj->report, "syscalls", "seccomp", "default deny, %u allowed",
		   tj->filter.allowed);
	if (tj->has_gate)
		report_add(&tj->report, "network", "gate, seccomp notification and Landlock",
			   "the host's; %zu rules to connect, %zu to refuse; names, no other "
			   "datagrams; %zu ports of loopback to listen at",
			   request->policy->net_allow.count, request->policy->net_deny.count,
			   tj->jail.published_count);
	else
		report_add(&tj->report, "network", "seccomp and Landlock",
			   "no sockets but socketpair");
	return 0;
}

/* Docker's profile allows it only with a capability; then no socket could be taken from a caller. */
static bool can_take_descriptors(void)
{
	_cleanup_close_ int pidfd = sys_pidfd_open(getpid()), own = -EBADF;

	own = pidfd < 0 ? pidfd : (int)syscall(SYS_pidfd_getfd, pidfd, pidfd, 0);
	return own >= 0;
}

#define LOW_PORTS 1024

static bool is_loopback(const unsigned char ip[static 16])
{
	static const unsigned char v4[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127 };
	static const unsigned char v6[16] = { [15] = 1 };

	return memcmp(ip, v4, sizeof(v4)) == 0 || memcmp(ip, v6, sizeof(v6)) == 0;
}

/* Nothing is relayed here: the program itself listens, at that very port. */
static int read_ports(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	const struct strv *list = &request->policy->net_publish.list;

	if (list->count > TIER_MAX_PORTS)
		return err_set(err, -E2BIG, "net.publish: more than %d ports", TIER_MAX_PORTS);
	for (size_t i = 0; i < list->count; i++) {
		struct published *port = &tj->published[i];

		if (!policy_port_read(list->items[i], port) || port->outside != port->inside ||
		    port->outside < LOW_PORTS || !is_loopback(port->ip))
			return err_set(
				err, -EOPNOTSUPP,
				"net.publish: \"%s\" on the process tier, which has no network "
				"of its own: only the same port outside and inside, from 1024 "
				"on, at loopback; use --isolation container",
				list->items[i]);
	}
	tj->jail.published = tj->published;
	tj->jail.published_count = list->count;
	return 0;
}

/* Whether there is a way to the network, and all walls around it. */
static int choose_gate(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	const char *key = request->policy->net_allow.count > 0 ? "net.allow" : "net.publish";

	if (request->policy->net_allow.count == 0 && request->policy->net_publish.list.count == 0)
		return 0;
	if (sys_landlock_abi() < LANDLOCK_ABI_TCP)
		return err_set(
			err, -EOPNOTSUPP,
			"%s on the process tier needs a Landlock that knows TCP "
			"(ABI %d, Linux 6.7), this kernel has ABI %d: use --isolation container",
			key, LANDLOCK_ABI_TCP, sys_landlock_abi());
	if (!can_take_descriptors())
		return err_set(err, -EOPNOTSUPP,
			       "%s on the process tier needs pidfd_getfd(), which is "
			       "forbidden here: in Docker, --cap-add SYS_PTRACE allows it; or use "
			       "--isolation container",
			       key);
	if (hook_without("metadata") || hook_without("syscalls"))
		return err_set(err, -EOPNOTSUPP, "%s needs the filter and its listener", key);
	tj->has_gate = !hook_without("gate");
	return read_ports(request, tj, err);
}

static void report_fixed_walls(struct tier_jail *tj)
{
	report_add(&tj->report, "privileges", "no_new_privs", "no capabilities, no setuid");
	report_add(&tj->report, "descriptors", "close_range", "0, 1, 2");
	report_add(&tj->report, "core dumps", "rlimit", "none");
	report_add(&tj->report, "end",
		   tj->jail.outer.fd >= 0 ? "keeper, Landlock scope" : "keeper, process tree",
		   "no process outlives the sandbox");
}

/* Test builds only: leaves a wall down, so that a test can see its probe succeed. */
static void knock_out(struct tier_jail *tj)
{
	if (hook_without("files"))
		landlock_done(&tj->jail.inner);
	if (hook_without("signals"))
		landlock_done(&tj->jail.outer);
	if (hook_without("syscalls"))
		tj->jail.filter = NULL;
	if (hook_without("limits"))
		tj->jail.rlimit_count = 0;
}

/* What every start of this tier does, in its order. */
static void make_plan(struct tier_jail *tj)
{
	static const struct {
		enum op_stage stage;
		enum keeper_step step;
	} steps[] = {
		{ STAGE_KEEPER, STEP_PRIVILEGES }, { STAGE_KEEPER, STEP_AFFINITY },
		{ STAGE_KEEPER, STEP_DOMAIN },     { STAGE_KEEPER, STEP_SCOPE },
		{ STAGE_FIRST, STEP_PRIVILEGES },  { STAGE_FIRST, STEP_SESSION },
		{ STAGE_FIRST, STEP_TERMINAL },    { STAGE_FIRST, STEP_STDIO },
		{ STAGE_FIRST, STEP_CGROUP },      { STAGE_FIRST, STEP_FILES },
		{ STAGE_FIRST, STEP_FILTER },      { STAGE_FIRST, STEP_DESCRIPTORS },
		{ STAGE_FIRST, STEP_RLIMITS },     { STAGE_FIRST, STEP_EXEC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		plan_add(&tj->plan, (struct op){ .kind = OP_STEP,
						 .stage = steps[i].stage,
						 .value = steps[i].step });
}

/* There is one folder for all: what has another place cannot be shown. */
static int fill_scratch(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	const struct image_layers *from = request->from;

	for (size_t i = 0; i < from->count; i++)
		for (size_t k = 0; k < from->items[i].tree_count; k++)
			if (!str_equal(from->items[i].trees[k].path, VIEW_HOME))
				return err_set(err, -EOPNOTSUPP,
					       "image \"%s\" has files in \"%s\", and the process "
					       "tier has only a home: use --isolation container",
					       from->name, from->items[i].trees[k].path);
	return image_unpack(from, VIEW_HOME, tj->jail.scratch.dir, err);
}

int process_prepare(const struct tier_request *request, struct tier_jail *ret_tj, struct err *err)
{
	struct tier_jail *tj = ret_tj;
	int r;

	tier_jail_init(request, tj);
	if (policy_has_image(request->policy))
		return err_set(err, -EOPNOTSUPP,
			       "an image needs the container tier (--isolation container)");
	if (request->policy->system == SYSTEM_OWN)
		return err_set(err, -EOPNOTSUPP,
			       "a system of its own (system: own) needs the container tier "
			       "(--isolation container)");
	r = choose_gate(request, tj, err);
	if (r < 0)
		return r;
	make_plan(tj);
	r = plan_failed(&tj->plan);
	r = r < 0 ? r : scratch_make(request->temporary, request->id, &tj->jail.scratch, err);
	tj->home = tj->temporary = tj->jail.scratch.path;
	tj->jail.keeps_store = request->keeps_store;
	if (r == 0 && request->from)
		r = fill_scratch(request, tj, err);
	r = r < 0 ? r : prepare_files(request, tj, err);
	r = r < 0 ? r : prepare_signals(request, tj, err);
	r = r < 0 ? r : limits_prepare(&request->policy->limits, request->id, tj, err);
	r = r < 0 ? r : prepare_filter(request, tj, err);
	if (r < 0) {
		tier_jail_abandon(tj);
		return err->code ? r : err_errno(err, r, "cannot prepare the sandbox");
	}
	report_fixed_walls(tj);
	knock_out(tj);
	return 0;
}
