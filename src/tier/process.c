#include "tier/process.h"

#include <errno.h>

#include "base/hook.h"
#include "base/str.h"
#include "base/sys.h"
#include "tier/files.h"
#include "tier/limits.h"

static int prepare_files(const struct process_request *request, struct process_jail *pj,
			 struct err *err)
{
	unsigned int parts =
		LANDLOCK_FILES |
		(request->weaken & WEAKEN_SIGNALS || hook_without("signals") ? 0
									     : LANDLOCK_SIGNALS);
	struct files_granted *granted = &pj->granted;
	struct jail *jail = &pj->jail;
	int r = landlock_open(parts, &jail->inner, err);

	r = r < 0 ? r : files_grant(&request->policy->fs, &jail->inner, granted, err);
	if (r < 0)
		return r;
	r = landlock_grant(&jail->inner, jail->scratch.dir, true, LANDLOCK_WRITE);
	if (r == 0 && request->terminal >= 0)
		r = landlock_grant(&jail->inner, request->terminal, false, LANDLOCK_WRITE_DEVICE);
	r = r < 0 ? r : strv_add(&granted->writable, jail->scratch.path);
	r = r < 0 ? r : strv_add(&granted->readable, jail->scratch.path);
	if (r < 0)
		return err_errno(err, r, "cannot open the sandbox's own folder and terminal to it");
	report_add(&pj->report, "files", "Landlock",
		   "ABI %d: %zu trees to read, %zu of them to write, %u absent", jail->inner.abi,
		   granted->readable.count, granted->writable.count, granted->absent);
	return 0;
}

static int prepare_signals(const struct process_request *request, struct process_jail *pj,
			   struct err *err)
{
	if (request->weaken & WEAKEN_SIGNALS) {
		report_add(&pj->report, "signals", "none", "given up by --weaken signals");
		return 0;
	}
	report_add(&pj->report, "signals", "Landlock scope", "its own processes only");
	return landlock_open(LANDLOCK_SIGNALS, &pj->jail.outer, err);
}

static int prepare_filter(const struct process_request *request, struct process_jail *pj,
			  struct err *err)
{
	struct filter_spec spec = { .sockets = SOCKETS_NONE,
				    .fixed_affinity = pj->jail.has_affinity };
	const struct words *allow = &request->policy->allow;
	int r;

	if (strv_has(&allow->list, extensions[EXT_NESTED].name))
		return err_set(err, -EOPNOTSUPP,
			       "allow: nested needs the container tier, which this version of brig "
			       "does not have "
			       "yet");
	for (size_t i = 0; i < EXTENSION_COUNT; i++)
		if (strv_has(&allow->list, extensions[i].name))
			spec.extensions |= 1u << i;
	/* Knocked out in a test build, the calls go straight to the kernel. */
	spec.mediated = !hook_without("metadata");
	r = filter_build(&spec, &pj->filter, err);
	if (r < 0)
		return r;
	pj->jail.filter = &pj->filter;
	pj->jail.mediated = spec.mediated;
	pj->jail.writable = (const char *const *)pj->granted.writable.items;
	pj->jail.writable_count = pj->granted.writable.count;
	pj->jail.readable = (const char *const *)pj->granted.readable.items;
	pj->jail.readable_count = pj->granted.readable.count;
	report_add(&pj->report, "metadata", "seccomp notification",
		   "mode, owner, times, attributes: by the keeper, in writable trees");
	report_add(&pj->report, "syscalls", "seccomp", "default deny, %u allowed",
		   pj->filter.allowed);
	report_add(&pj->report, "network", "seccomp and Landlock", "no sockets but socketpair");
	return 0;
}

static void report_fixed_walls(struct process_jail *pj)
{
	report_add(&pj->report, "privileges", "no_new_privs", "no capabilities, no setuid");
	report_add(&pj->report, "descriptors", "close_range", "0, 1, 2");
	report_add(&pj->report, "core dumps", "rlimit", "none");
	report_add(&pj->report, "end",
		   pj->jail.outer.fd >= 0 ? "keeper, Landlock scope" : "keeper, process tree",
		   "no process outlives the sandbox");
}

/* Test builds only: leaves a wall down, so that a test can see its probe succeed. */
static void knock_out(struct process_jail *pj)
{
	if (hook_without("files"))
		landlock_done(&pj->jail.inner);
	if (hook_without("signals"))
		landlock_done(&pj->jail.outer);
	if (hook_without("syscalls"))
		pj->jail.filter = NULL;
	if (hook_without("limits"))
		pj->jail.rlimit_count = 0;
}

int process_prepare(const struct process_request *request, struct process_jail *ret_pj,
		    struct err *err)
{
	struct process_jail *pj = ret_pj;
	int r;

	pj->jail = (struct jail){ .outer = LANDLOCK_NONE,
				  .inner = LANDLOCK_NONE,
				  .cgroup = CGROUP_NONE,
				  .scratch = SCRATCH_NONE,
				  .wall_ms = request->policy->limits.wall };
	pj->granted = (struct files_granted){ 0 };
	pj->report.count = 0;
	pj->watch = (struct process_watch){ 0 };

	r = scratch_make(request->temporary, request->id, &pj->jail.scratch, err);
	r = r < 0 ? r : prepare_files(request, pj, err);
	r = r < 0 ? r : prepare_signals(request, pj, err);
	r = r < 0 ? r : limits_prepare(&request->policy->limits, request->id, pj, err);
	r = r < 0 ? r : prepare_filter(request, pj, err);
	if (r < 0) {
		process_abandon(pj);
		return r;
	}
	report_fixed_walls(pj);
	knock_out(pj);
	return 0;
}

void process_done(struct process_jail *pj)
{
	files_granted_done(&pj->granted);
	landlock_done(&pj->jail.inner);
	landlock_done(&pj->jail.outer);
	cgroup_done(&pj->jail.cgroup);
	scratch_done(&pj->jail.scratch);
}

void process_abandon(struct process_jail *pj)
{
	/* Nobody was inside yet, so the folder is empty; what cannot be removed is at most an empty
	 * folder. */
	(void)!scratch_remove(&pj->jail.scratch);
	process_done(pj);
}
