#include "tier/jail.h"

#include <errno.h>
#include <sys/random.h>

#include "base/fd.h"
#include "tier/files.h"

void tier_jail_init(const struct tier_request *request, struct tier_jail *tj)
{
	tj->jail = (struct jail){ .outer = LANDLOCK_NONE,
				  .inner = LANDLOCK_NONE,
				  .cgroup = CGROUP_NONE,
				  .scratch = SCRATCH_NONE,
				  .ids = IDS_NONE,
				  .plan = &tj->plan,
				  .outlet = -EBADF,
				  .supply = -EBADF,
				  .wall_ms = request->policy->limits.wall };
	tj->granted = (struct files_granted){ 0 };
	tj->plan = (struct plan){ 0 };
	tj->guarded = (struct strv){ 0 };
	tj->overlays = (struct strv){ 0 };
	tj->overlay_sources = (struct strv){ 0 };
	tj->layers = (struct strv){ 0 };
	tj->image = NULL;
	tj->report.count = 0;
	tj->watch = (struct tier_watch){ 0 };
	tj->is_contained = false;
	tj->lives = request->lives;
	tj->slice = request->slice;
	tj->user = NULL;
	tj->store = -EBADF;
	tj->janitor = -EBADF;
	tj->has_gate = false;
	tj->record = RECORD_OFF;
	tj->pass = 0;
}

static const char *const record_words[] = {
	[RECORD_OFF] = "nothing",
	[RECORD_DENIED] = "refused calls and connections",
	[RECORD_WRITES] = "refused calls, connections, programs, changes of files",
	[RECORD_ALL] = "refused calls, connections, programs, every open of a file",
};

int tier_record(const struct tier_request *request, struct tier_jail *tj, struct filter_spec *spec,
		struct err *err)
{
	tj->record = request->policy->record == RECORD_UNSET ? RECORD_ALL : request->policy->record;
	/* 0 would be no pass at all, and the start would wait for itself. */
	while (tj->record != RECORD_OFF && tj->pass == 0)
		if (getrandom(&tj->pass, sizeof(tj->pass), 0) != sizeof(tj->pass))
			return err_errno(err, -errno, "cannot get random numbers");
	spec->record = tj->record;
	spec->pass = tj->pass;
	report_add(&tj->report, "record", "seccomp notification", "%s", record_words[tj->record]);
	return 0;
}

int tier_jail_made(const struct tier_jail *tj, struct strv *ret_made)
{
	static const char *const trees[] = { "home/", "tmp/", "var-tmp/" };
	int r = 0;

	for (size_t i = 0; i < tj->plan.count && r == 0; i++) {
		const struct op *op = &tj->plan.ops[i];

		if (op->place != PLACE_STORE ||
		    (op->kind != OP_DIRECTORY && op->kind != OP_FILE && op->kind != OP_LINK))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(trees) && r == 0; k++)
			if (str_starts(op->target, trees[k]))
				r = strv_add(ret_made, op->target);
	}
	return r;
}

struct image_source tier_jail_source(const struct tier_jail *tj, const struct strv *made)
{
	return (struct image_source){
		.store = tj->is_contained ? tj->store : tj->jail.scratch.dir,
		.isolation = tj->is_contained ? ISOLATION_CONTAINER : ISOLATION_PROCESS,
		.ids_first = tj->jail.ids.first,
		.overlays = &tj->overlays,
		.overlay_sources = &tj->overlay_sources,
		.image = tj->image,
		.layers = &tj->layers,
		.made = made,
	};
}

void tier_jail_done(struct tier_jail *tj)
{
	files_granted_done(&tj->granted);
	plan_done(&tj->plan);
	strv_done(&tj->guarded);
	strv_done(&tj->overlays);
	strv_done(&tj->overlay_sources);
	strv_done(&tj->layers);
	ids_done(&tj->jail.ids);
	tj->store = fd_close(tj->store);
	landlock_done(&tj->jail.inner);
	landlock_done(&tj->jail.outer);
	if (tj->janitor < 0)
		cgroup_done(&tj->jail.cgroup);
	tj->janitor = fd_close(tj->janitor);
	scratch_done(&tj->jail.scratch);
}

void tier_jail_abandon(struct tier_jail *tj)
{
	/* Nobody was inside yet, so the folder is empty; what cannot be removed is at most an empty
	 * folder. */
	(void)!scratch_remove(&tj->jail.scratch);
	tier_jail_done(tj);
}
