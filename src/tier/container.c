#include "tier/container.h"

#include <errno.h>
#include <linux/sched.h>
#include <unistd.h>

#include "base/hook.h"
#include "tier/facts.h"
#include "tier/limits.h"

static bool is_allowed(const struct tier_request *request, enum extension extension)
{
	return strv_has(&request->policy->allow.list, extensions[extension].name);
}

/* Test builds only: leaves a wall down, so that a test can see its probe succeed. */
static unsigned int knocked_out(void)
{
	static const struct {
		const char *wall;
		unsigned int flag;
	} namespaces[] = {
		{ "pidns", CLONE_NEWPID },       { "netns", CLONE_NEWNET },
		{ "ipcns", CLONE_NEWIPC },       { "utsns", CLONE_NEWUTS },
		{ "cgroupns", CLONE_NEWCGROUP }, { "timens", CLONE_NEWTIME },
	};
	unsigned int out = 0;

	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		if (hook_without(namespaces[i].wall))
			out |= namespaces[i].flag;
	return out;
}

static bool has_any_cgroup(const struct cgroup *cgroup)
{
	for (int i = 0; i < CGROUP_CONTROL_COUNT; i++)
		if (cgroup->dir[i] >= 0)
			return true;
	return false;
}

/* The size of the store: the disk limit; without a cgroup the memory limit has to bound it too. */
static uint64_t store_size(const struct tier_jail *tj, const struct limits *limits)
{
	uint64_t size = limits->disk == LIMIT_UNSET ? 0 : limits->disk;

	if (limits->memory != LIMIT_UNSET && !cgroup_has(&tj->jail.cgroup, CGROUP_MEMORY) &&
	    (!size || limits->memory < size))
		size = limits->memory;
	return size;
}

/* Whether the filter has a listener: only one of all can, and a sandbox inside needs it. */
static bool has_listener(const struct tier_request *request)
{
	return !is_allowed(request, EXT_NESTED) && !hook_without("metadata") &&
	       !hook_without("syscalls");
}

#define LOW_PORTS 1024
#define RESOLVER  53

/* The ports inside must be such that the program can have them. */
static int check_ports(const struct tier_request *request, const struct tier_jail *tj,
		       struct err *err)
{
	const struct strv *list = &request->policy->net_publish.list;
	struct published port;

	if (list->count > 0 && knocked_out() & CLONE_NEWNET)
		return err_set(err, -EOPNOTSUPP,
			       "net.publish needs a network of the sandbox's own");
	for (size_t i = 0; i < list->count; i++)
		if (tj->has_gate && policy_port_read(list->items[i], &port) &&
		    port.inside == RESOLVER)
			return err_set(
				err, -EADDRINUSE,
				"net.publish: port 53 inside is the resolver's: let the program "
				"listen at another one");
	return 0;
}

static bool publishes_low_ports(const struct policy *policy)
{
	struct published port;

	for (size_t i = 0; i < policy->net_publish.list.count; i++)
		if (policy_port_read(policy->net_publish.list.items[i], &port) &&
		    port.inside < LOW_PORTS)
			return true;
	return false;
}

/*
 * Also without any rule, if there is a record: then it says what would have to be allowed. And where rules may
 * come later.
 */
static int choose_gate(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	bool is_wanted = request->policy->net_allow.count > 0;

	if (is_wanted && !has_listener(request))
		return err_set(err, -EOPNOTSUPP,
			       "net.allow cannot be had with allow: nested: only one sandbox of "
			       "those inside each other can answer for its calls");
	tj->has_gate = has_listener(request) && !(knocked_out() & CLONE_NEWNET) &&
		       (is_wanted || request->lives || request->policy->record != RECORD_OFF);
	return check_ports(request, tj, err);
}

static int make_plan(struct facts *facts, struct view_result *result, struct err *err)
{
	const struct tier_request *request = facts->request;
	struct tier_jail *tj = facts->tj;
	struct view_request view = {
		.cwd = request->env->cwd,
		.shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh",
		.disk = store_size(tj, &request->policy->limits),
		.ids = tj->jail.ids.first,
		.uid = geteuid(),
		.gid = getegid(),
		.has_cgroup = has_any_cgroup(&tj->jail.cgroup),
		.is_nested = is_allowed(request, EXT_NESTED),
		.owns_system = request->policy->system == SYSTEM_OWN,
		.has_gate = tj->has_gate,
		.has_low_ports = publishes_low_ports(request->policy) ||
				 request->policy->system == SYSTEM_OWN,
		.lives = request->lives,
		.without = knocked_out(),
		.without_masks = hook_without("masks"),
		.without_landlock = hook_without("landlock"),
	};
	int r = facts_look_at_image(facts, &view, err);

	r = r < 0 ? r : facts_look_at_from(facts, &view, err);
	r = r < 0 ? r : facts_look_at_sudo(facts, &view, err);
	r = r < 0 ? r : facts_look_at_rules(facts, err);
	if (r == 0) {
		view.rules = facts->rules;
		view.rule_count = facts->count;
		r = view_plan(&view, &tj->plan, result, err);
	}
	/* Trees that did not make it into the plan. */
	for (size_t i = 0; r < 0 && i < IMAGE_LAYERS_MAX; i++)
		if (view.from_trees[i] > 0 && !tj->plan.count)
			close(view.from_trees[i] - 1);
	if (r < 0 && view.sudo_tree > 0 && !tj->plan.count)
		close(view.sudo_tree - 1);
	return r;
}

static int prepare_filter(const struct tier_request *request, struct tier_jail *tj, struct err *err)
{
	struct filter_spec spec = {
		.sockets = SOCKETS_INET,
		.private_ipc = true,
		.fixed_affinity = tj->jail.has_affinity,
		.mediation = tj->guarded.count ? MEDIATE_NAMES : MEDIATE_MODES,
		.has_gate = tj->has_gate,
	};
	int r;

	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		if (is_allowed(request, (enum extension)i))
			spec.extensions |= 1u << i;
	if (hook_without("metadata"))
		spec.mediation = MEDIATE_NOTHING;
	r = has_listener(request) ? tier_record(request, tj, &spec, err) : 0;
	r = r < 0 ? r : filter_build(&spec, &tj->filter, err);
	if (r < 0)
		return r;
	tj->jail.filter = hook_without("syscalls") ? NULL : &tj->filter;
	tj->jail.conditions = filter_conditions(&spec);
	tj->jail.mediation = is_allowed(request, EXT_NESTED) ? MEDIATE_NOTHING : spec.mediation;
	tj->jail.guarded = (const char *const *)tj->guarded.items;
	tj->jail.guarded_count = tj->guarded.count;
	return 0;
}

static void report_walls(const struct facts *facts, const struct view_result *view,
			 const struct tier_request *request)
{
	struct tier_jail *tj = facts->tj;
	struct report *report = &tj->report;
	bool nested = is_allowed(request, EXT_NESTED);

	report_add(report, "namespaces", "kernel", "user, mount, pid, net, ipc, uts, cgroup, time");
	if (tj->jail.ids.first)
		report_add(report, "ids", "user namespace",
			   "65536 of its own from %u, user 1000 inside", tj->jail.ids.first);
	else
		report_add(report, "ids", "user namespace",
			   "the caller's own id alone, shown as 1000; root can give each sandbox a "
			   "range");
	if (facts->unmapped)
		report_add(
			report, "ids", "user namespace",
			"%u trees on file systems that cannot map ids: what others may read only",
			facts->unmapped);
	report_add(report, "root", "overlay", "%s, changes are gone at the end",
		   policy_has_image(request->policy) ? "the image"
		   : facts_owns_system(facts)
			   ? "the host's programs, a made-up /etc, for the sandbox's root to change"
			   : "the host's programs, a made-up /etc");
	if (facts->sealed)
		report_add(report, "root", "mounts", "%u folders of the system stay read-only: %s",
			   facts->sealed,
			   tj->jail.ids.first ? "their file system cannot map ids"
					      : "the sandbox has no root user of its own");
	report_add(report, "files", nested ? "mounts" : "mounts and Landlock",
		   "%u rules to read, %u to write, %zu overlays, %u hidden, %zu names guarded, %u "
		   "absent%s",
		   view->reads, view->writes, tj->overlays.count, view->masks, tj->guarded.count,
		   view->absent,
		   nested ? "; no Landlock: it would keep a sandbox inside from mounting" : "");
	if (request->from)
		report_add(report, "image", "overlays", "%s, %zu layers, read-only",
			   request->from->name, request->from->count);
	report_add(report, "proc", "mounts", "%s",
		   nested ? "its own, not masked: a sandbox inside needs one" : "its own, masked");
	report_add(report, "devices", "private /dev",
		   "null, zero, full, random, urandom, tty, terminals of its own");
	report_add(report, "syscalls", "seccomp", "default deny, %u allowed", tj->filter.allowed);
	report_add(report, "modes", nested ? "seccomp" : "seccomp notification",
		   "no setuid or setgid files%s", nested ? ", nor setgid folders" : "");
	if (request->policy->net_allow.count > 0)
		report_add(report, "network", "net namespace and gate",
			   "loopback of its own; %zu rules to connect, %zu to refuse",
			   request->policy->net_allow.count, request->policy->net_deny.count);
	else
		report_add(report, "network", "net namespace", "loopback of its own, no way out");
	if (request->policy->net_publish.list.count > 0)
		report_add(report, "ports", "relay of the warden",
			   "%zu published, to the sandbox's own loopback",
			   request->policy->net_publish.list.count);
	if (plan_find(&tj->plan, OP_USERS) && facts_owns_system(facts))
		report_add(
			report, "privileges", "no_new_privs",
			"no setuid; no capabilities but those of the sandbox's root over its own "
			"files, users and signals");
	else
		report_add(report, "privileges", "no_new_privs", "no capabilities, no setuid");
	if (view->has_sudo)
		report_add(report, "sudo", "init", "starts commands as %s for all of its users",
			   tj->jail.ids.first ? "root" : "the one user that it has");
	report_add(report, "descriptors", "close_range", "0, 1, 2");
	report_add(report, "core dumps", "rlimit", "none");
	report_add(report, "end", "pid namespace", "no process outlives the sandbox");
}

static int prepare(struct facts *facts, struct err *err)
{
	const struct tier_request *request = facts->request;
	struct tier_jail *tj = facts->tj;
	struct view_result view = { 0 };
	int r = ids_possible() ? ids_take(request->owner, &tj->jail.ids, err) : 0;

	tj->is_contained = true;
	tj->jail.keeps_store = request->keeps_store || request->lives ||
			       request->policy->limits.disk != LIMIT_UNSET;
	tj->changes_users = tj->jail.ids.first && tj->lives && facts_owns_system(facts);
	r = r < 0 ? r : limits_prepare(&request->policy->limits, request->id, tj, err);
	r = r < 0 ? r : choose_gate(facts->request, facts->tj, err);
	r = r < 0 ? r : make_plan(facts, &view, err);
	if (r < 0)
		return r;
	tj->home = view.home;
	tj->temporary = VIEW_TMP;
	tj->user = VIEW_USER;
	tj->guarded = view.guarded;
	tj->overlays = view.overlays;
	tj->overlay_sources = view.overlay_sources;
	r = prepare_filter(request, tj, err);
	if (hook_without("limits"))
		tj->jail.rlimit_count = 0;
	if (r == 0)
		report_walls(facts, &view, request);
	return r;
}

int container_prepare(const struct tier_request *request, struct tier_jail *ret_tj, struct err *err)
{
	struct facts facts = { .request = request, .tj = ret_tj };
	int r;

	tier_jail_init(request, ret_tj);
	r = prepare(&facts, err);
	facts_done(&facts, r == 0 || ret_tj->plan.count > 0);
	if (r < 0)
		tier_jail_abandon(ret_tj);
	return r < 0 && !err->code ? err_errno(err, r, "cannot prepare the sandbox") : r;
}
