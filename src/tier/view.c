#include "tier/view.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include "jail/keeper.h"
#include "jail/outlet.h"
#include "tier/view_internal.h"

/* The layer around a path; NULL when no rule is. */
static const struct layer *around(struct view *v, const char *path)
{
	while (v->depth > 0 && (!path_is_below(path, v->layers[v->depth - 1].rule->path) ||
				str_equal(path, v->layers[v->depth - 1].rule->path)))
		v->depth--;
	return v->depth ? &v->layers[v->depth - 1] : NULL;
}

static void push(struct view *v, struct layer layer)
{
	if (v->depth == VIEW_DEPTH_MAX) {
		view_fail(v, err_set(v->err, -E2BIG, "fs: \"%s\" lies in more than %d other rules",
				     layer.rule->path, VIEW_DEPTH_MAX));
		return;
	}
	v->layers[v->depth++] = layer;
}

static bool is_writable(const struct layer *layer)
{
	return layer && !layer->is_masked && layer->rule->access >= ACCESS_OVERLAY;
}

/* Holds every directory between a writable tree and a path in its place. */
static void hold_between(struct view *v, const struct layer *layer, const char *path,
			 bool is_optional)
{
	const char *slash;

	if (!is_writable(layer))
		return;
	slash = path + strlen(layer->rule->path) - (layer->rule->path[1] == '\0');
	while ((slash = strchr(slash + 1, '/'))) {
		const char *between = plan_text(v->plan, "%.*s", (int)(slash - path), path);

		if (view_is_new(v, plan_text(v->plan, "held %s", between)))
			view_add(v, (struct op){ .kind = OP_AGAIN,
						 .target = view_inner(between),
						 .is_protecting = true,
						 .is_optional = is_optional });
	}
}

/* Whether a rule lies below another one, so that a mask over it needs mount points. */
static bool has_rules_inside(const struct view *v, const struct view_rule *rule)
{
	const struct view_rule *end = v->rq->rules + v->rq->rule_count;

	for (const struct view_rule *r = rule + 1; r < end && path_is_below(r->path, rule->path);
	     r++)
		if (r->access != ACCESS_NONE && r->kind != VIEW_ABSENT)
			return true;
	return false;
}

/* An empty directory that can be passed through, with the mount points of the rules inside. */
static const char *make_skeleton(struct view *v, const struct view_rule *rule)
{
	const struct view_rule *end = v->rq->rules + v->rq->rule_count;
	const char *name = plan_text(v->plan, VIEW_SKELETONS "/%u", ++v->masks);

	view_make_directory(v, VIEW_SKELETONS, 0700);
	view_make_directory(v, name, 0111);
	for (const struct view_rule *r = rule + 1; r < end && path_is_below(r->path, rule->path);
	     r++)
		if (r->access != ACCESS_NONE && r->kind != VIEW_ABSENT)
			view_make_mount_point(
				v, plan_text(v->plan, "%s%s", name, r->path + strlen(rule->path)),
				r->kind);
	return view_inner(name);
}

/* In a tree of the host it must not go; of what is the sandbox's own it may be that nothing is there.
 */
static void mask_rule(struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	struct op op = { .kind = OP_MASK,
			 .target = view_inner(rule->path),
			 .is_protecting = layer,
			 .is_optional = !layer };

	hold_between(v, layer, rule->path, false);
	if ((rule->kind == VIEW_DIRECTORY || !layer) && has_rules_inside(v, rule))
		op.source = make_skeleton(v, rule);
	view_add(v, op);
	v->result->masks++;
	push(v, (struct layer){ rule, true });
}

/* What everybody may read of a tree, and on top of it what we have there. */
static const char *make_veil(struct view *v, const struct view_rule *rule, const char *veil,
			     const char *lower)
{
	if (view_has_tools(v, rule))
		lower = plan_text(v->plan, "%s:%s", view_make_tools(v, rule), lower);
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .target = veil,
				 .mode = 0755 });
	view_add(v,
		 (struct op){
			 .kind = OP_VEIL, .place = PLACE_STORE, .source = lower, .target = veil });
	return veil;
}

static void bind_lower(struct view *v, const struct view_rule *rule, const char *lower)
{
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .target = lower,
				 .mode = 0700 });
	view_add(v, (struct op){ .kind = OP_BIND,
				 .place = PLACE_STORE,
				 .source = rule->source,
				 .target = lower,
				 .is_read_only = true,
				 .is_directory = true,
				 .tree = rule->tree });
}

/* A tree that stays as it is, but for a place for sudo. */
static void tools_rule(struct view *v, const struct view_rule *rule)
{
	const char *lower = plan_text(v->plan, "lower-%u", v->tools + 1);
	const char *veil = plan_text(v->plan, "veil-%u", v->tools + 1);

	bind_lower(v, rule, lower);
	view_add(v, (struct op){ .kind = OP_SHARE,
				 .source = make_veil(v, rule, veil, lower),
				 .target = view_inner(rule->path),
				 .is_read_only = true });
}

static void overlay_rule(struct view *v, const struct view_rule *rule)
{
	unsigned int number = (unsigned int)v->result->overlays.count + 1;
	const char *lower = plan_text(v->plan, "lower%u", number);

	if (rule->kind != VIEW_DIRECTORY) {
		view_fail(
			v,
			err_set(v->err, -ENOTDIR,
				"fs: \"%s\": an overlay shows a directory, and this is none (name "
				"the folder that it is in)",
				rule->path));
		return;
	}
	view_name_overlay(v, number, rule->path, !rule->is_veiled);
	bind_lower(v, rule, lower);
	if (rule->is_veiled)
		lower = make_veil(v, rule, plan_text(v->plan, "veil%u", number), lower);
	view_add(v, (struct op){ .kind = OP_OVERLAY,
				 .source = view_lowers(v, rule->path, lower),
				 .target = view_inner(rule->path),
				 .value = number });
	if (strv_add(&v->result->overlays, rule->path) < 0 ||
	    strv_add(&v->result->overlay_sources, rule->source) < 0)
		view_fail(v, -ENOMEM);
}

static void bind_rule(struct view *v, const struct view_rule *rule)
{
	view_add(v, (struct op){ .kind = OP_BIND,
				 .source = rule->source,
				 .target = view_inner(rule->path),
				 .is_read_only = rule->access == ACCESS_READ,
				 .is_directory = rule->kind == VIEW_DIRECTORY,
				 .is_device = rule->kind == VIEW_DEVICE,
				 .tree = rule->tree });
}

/* Whether the tree around shows the same files with the same rights already. */
static bool is_shown(const struct layer *layer, const struct view_rule *rule)
{
	const struct view_rule *by = layer ? layer->rule : NULL;

	return layer && !layer->is_masked && by->access == rule->access &&
	       path_is_below(rule->source, by->source) &&
	       str_equal(rule->source + strlen(by->source), rule->path + strlen(by->path));
}

/* With an image, what the shipped policies say of system files means the image's own. */
static bool is_in_image(const struct view *v, const struct view_rule *rule)
{
	return v->rq->image && rule->is_shipped && !str_equal(v->rq->cwd, rule->path);
}

static bool is_left_out(const struct view *v, const struct view_rule *rule)
{
	return view_is_own(rule) || is_in_image(v, rule);
}

/*
 * Trees of the system that no other rule is around: they are mounted by path, all of them before
 * anything that can be written, and made read-only in one go.
 */
static bool is_plain(const struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	return rule->is_system && rule->access == ACCESS_READ && !layer && !is_left_out(v, rule) &&
	       !view_has_tools(v, rule) &&
	       (rule->kind == VIEW_DIRECTORY || rule->kind == VIEW_FILE);
}

static void show_rule(struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	v->result->reads += rule->access == ACCESS_READ;
	v->result->writes += rule->access == ACCESS_WRITE;
	if (rule->is_copied)
		return;
	if (is_shown(layer, rule) || is_plain(v, layer, rule)) {
		push(v, (struct layer){ .rule = rule });
		return;
	}
	hold_between(v, layer, rule->path, false);
	if (rule->access == ACCESS_OVERLAY)
		overlay_rule(v, rule);
	else if (rule->access == ACCESS_READ && !layer && view_has_tools(v, rule))
		tools_rule(v, rule);
	else if (rule->access == ACCESS_READ && is_writable(layer))
		view_add(v, (struct op){ .kind = OP_AGAIN,
					 .target = view_inner(rule->path),
					 .is_protecting = true,
					 .is_read_only = true });
	else
		bind_rule(v, rule);
	push(v, (struct layer){ .rule = rule });
}

/* Where there is nothing to see there is nothing to run. */
static bool is_without(const char *path)
{
	return str_equal(path, "/proc") || str_equal(path, "/dev");
}

static void plan_rule(struct view *v, const struct view_rule *rule)
{
	const struct layer *layer = around(v, rule->path);

	if (rule->access == ACCESS_NONE && !rule->is_shipped && is_without(rule->path)) {
		view_fail(v, err_set(v->err, -EINVAL,
				     "fs: \"%s\": no program runs without it, and the one in a "
				     "container is its own (hide single files in it)",
				     rule->path));
		return;
	}
	if (is_left_out(v, rule)) {
		if (rule->access == ACCESS_NONE && !rule->is_shipped)
			mask_rule(v, NULL, rule);
		return;
	}
	if (v->rq->image && !layer && rule->access == ACCESS_NONE) {
		mask_rule(v, NULL, rule);
		return;
	}
	/* What has nothing to mount on. A link can be removed then, and not be replaced. */
	if (rule->kind == VIEW_ABSENT || rule->kind == VIEW_LINK) {
		v->result->absent += rule->kind == VIEW_ABSENT && rule->access != ACCESS_NONE;
		if (is_writable(layer) && rule->access < layer->rule->access) {
			hold_between(v, layer, rule->path, true);
			if (strv_add(&v->result->guarded, rule->path) < 0)
				view_fail(v, -ENOMEM);
		}
		return;
	}
	if (rule->access != ACCESS_NONE)
		show_rule(v, layer, rule);
	else if (layer && !layer->is_masked)
		mask_rule(v, layer, rule);
}

/* Calls fn for every rule that no other one covers. */
static void for_outermost(struct view *v, void (*fn)(struct view *v, const struct view_rule *rule))
{
	const struct view_rule *outer = NULL;

	for (size_t i = 0; i < v->rq->rule_count; i++) {
		const struct view_rule *rule = &v->rq->rules[i];

		if (outer && path_is_below(rule->path, outer->path))
			continue;
		if (rule->kind == VIEW_ABSENT || rule->access == ACCESS_NONE ||
		    is_left_out(v, rule))
			continue;
		fn(v, rule);
		if (rule->kind != VIEW_LINK)
			outer = rule;
	}
}

/* They need a place in the base. */
static void place_rule(struct view *v, const struct view_rule *rule)
{
	if (rule->kind == VIEW_LINK)
		view_make_link(v, rule->path, rule->link);
	else if (rule->is_copied)
		view_make_copy(v, rule->path, rule->source);
	else
		view_make_mount_point(v, rule->path, rule->kind);
}

static void bind_plain_rule(struct view *v, const struct view_rule *rule)
{
	if (is_plain(v, NULL, rule))
		view_add(v, (struct op){ .kind = OP_BIND,
					 .source = rule->source,
					 .target = view_inner(rule->path),
					 .is_read_only = true,
					 .is_directory = rule->kind == VIEW_DIRECTORY,
					 .is_plain = true,
					 .is_sealed = path_is_below(rule->path, "/etc") &&
						      !view_has_own_root(v) });
}

static void grant(struct view *v, const char *path, bool is_directory, enum landlock_grant rights,
		  bool is_optional)
{
	static const char *const names[] = { [LANDLOCK_READ] = "read and execute",
					     [LANDLOCK_WRITE] = "write",
					     [LANDLOCK_WRITE_DEVICE] = "write and control" };

	view_add(v, (struct op){ .kind = OP_GRANT,
				 .target = view_inner(path),
				 .value = rights,
				 .text = names[rights],
				 .is_directory = is_directory,
				 .is_optional = is_optional });
}

/* A rule may have put something else in its place. */
static void grant_share(struct view *v, const char *path)
{
	grant(v, path, true, LANDLOCK_WRITE, true);
}

/* The second wall: mounts say what is there, Landlock what may be done with it. */
static void grant_all(struct view *v)
{
	const struct view_request *rq = v->rq;

	/* A domain for files would keep a sandbox inside from mounting anything. */
	if (rq->is_nested || rq->without_landlock)
		return;
	grant(v, "/", true, view_has_own_root(v) ? LANDLOCK_WRITE : LANDLOCK_READ, false);
	grant(v, "/proc", true, LANDLOCK_WRITE, false);
	grant(v, "/dev", true, LANDLOCK_WRITE_DEVICE, false);
	view_for_shares(v, grant_share);
	for (size_t i = 0; i < rq->rule_count; i++) {
		const struct view_rule *rule = &rq->rules[i];

		if (rule->kind != VIEW_ABSENT && rule->kind != VIEW_LINK && !is_left_out(v, rule) &&
		    rule->access >= ACCESS_OVERLAY && !rule->is_copied)
			grant(v, rule->path, rule->kind == VIEW_DIRECTORY,
			      rule->kind == VIEW_DEVICE ? LANDLOCK_WRITE_DEVICE : LANDLOCK_WRITE,
			      false);
	}
}

static void make_namespaces(struct view *v)
{
	const struct view_request *rq = v->rq;
	unsigned int flags =
		(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) &
		~rq->without;

	plan_add(v->plan,
		 (struct op){ .kind = OP_NAMESPACES, .stage = STAGE_WARDEN, .value = flags });
	if (rq->has_cgroup)
		plan_add(v->plan, (struct op){ .kind = OP_CGROUP, .stage = STAGE_WARDEN });
	if (rq->ids)
		plan_add(v->plan,
			 (struct op){ .kind = OP_IDS,
				      .stage = STAGE_WARDEN,
				      .source = plan_text(v->plan, "0 %u %u", rq->ids, IDS_COUNT),
				      .text = plan_text(v->plan, "0 %u %u", rq->ids, IDS_COUNT) });
	/*
	 * The namespaces that a process has from its birth come before the one that works beside us,
	 * and before the ids change: afterwards our own files in /proc belong to somebody else.
	 */
	if (!(rq->without & CLONE_NEWCGROUP))
		view_add(v, (struct op){ .kind = OP_OWN_CGROUPS });
	if (!(rq->without & CLONE_NEWTIME))
		view_add(v, (struct op){ .kind = OP_CLOCK });
	if (!(rq->without & CLONE_NEWNET))
		view_add(v, (struct op){ .kind = OP_NETWORK,
					 .text = rq->has_gate ? OUTLET_OWN_ADDRESS : NULL,
					 .value = rq->has_low_ports });
	if (rq->ids)
		view_add(v, (struct op){ .kind = OP_MASTER, .value = IDS_USER });
	else
		view_add(v,
			 (struct op){ .kind = OP_IDS,
				      .source = plan_text(v->plan, "%u %u 1", IDS_USER, rq->uid),
				      .text = plan_text(v->plan, "%u %u 1", IDS_USER, rq->gid) });
	if (flags & CLONE_NEWUTS)
		view_add(v, (struct op){ .kind = OP_HOSTNAME, .text = VIEW_HOSTNAME });
}

/* The working directory, if the sandbox sees it, and may write there if it lives; else its home. */
static const char *working_directory(const struct view *v)
{
	const struct view_rule *nearest = NULL;
	enum access least;

	for (size_t i = 0; i < v->rq->rule_count; i++)
		if (path_is_below(v->rq->cwd, v->rq->rules[i].path) &&
		    v->rq->rules[i].kind != VIEW_ABSENT && !is_left_out(v, &v->rq->rules[i]))
			nearest = &v->rq->rules[i];
	least = v->rq->lives ? ACCESS_OVERLAY : ACCESS_READ;
	return nearest && nearest->access >= least && nearest->kind == VIEW_DIRECTORY
		       ? v->rq->cwd
		       : v->result->home;
}

/* A rule may put something of the host where the home would be. */
static const char *find_home(const struct view *v)
{
	for (size_t i = 0; i < v->rq->rule_count; i++) {
		const struct view_rule *rule = &v->rq->rules[i];

		if (path_is_below(VIEW_HOME, rule->path) && rule->kind != VIEW_ABSENT &&
		    rule->access != ACCESS_NONE && !is_left_out(v, rule))
			return VIEW_TMP;
	}
	return VIEW_HOME;
}

static void add_step(struct view *v, enum keeper_step step, bool is_early)
{
	plan_add(v->plan, (struct op){ .kind = OP_STEP,
				       .stage = STAGE_FIRST,
				       .value = step,
				       .is_early = is_early });
}

/*
 * What the first process can do while the keeper still mounts comes first. A filter that guards
 * names refuses Landlock, and has to come after it.
 */
static void add_steps(struct view *v)
{
	static const enum keeper_step after[] = { STEP_SESSION, STEP_TERMINAL, STEP_STDIO,
						  STEP_FILES };
	bool is_guarded = v->result->guarded.count > 0;

	/* What makes names asks the keeper then, who is one user. */
	bool has_users = v->rq->ids && v->rq->lives && !is_guarded;

	if (v->rq->ids)
		plan_add(v->plan, (struct op){ .kind = has_users ? OP_USERS : OP_USER,
					       .stage = STAGE_FIRST,
					       .value = IDS_USER,
					       .has_root = has_users && v->rq->owns_system,
					       .is_early = true });
	if (!has_users)
		add_step(v, STEP_PRIVILEGES, true);
	if (!is_guarded)
		add_step(v, STEP_FILTER, true);
	for (size_t i = 0; i < ARRAY_SIZE(after); i++)
		add_step(v, after[i], false);
	if (is_guarded)
		add_step(v, STEP_FILTER, false);
	add_step(v, STEP_DESCRIPTORS, false);
	add_step(v, STEP_RLIMITS, false);
	add_step(v, STEP_EXEC, false);
}

static void check_protections(struct view *v)
{
	size_t count = 0;

	for (size_t i = 0; i < v->plan->count; i++)
		count += v->plan->ops[i].is_protecting;
	if (count > PROTECTIONS_MAX)
		view_fail(
			v,
			err_set(v->err, -E2BIG,
				"fs: %zu mounts are needed for rules inside writable trees, and %d "
				"can be watched: name fewer paths, or folders instead of files",
				count, PROTECTIONS_MAX));
}

/* All that an image has must show: what is silently left out would be missed later. */
static void check_from(struct view *v)
{
	const struct image_layers *from = v->rq->from;

	for (size_t i = 0; from && i < from->count; i++)
		for (size_t k = 0; k < from->items[i].tree_count; k++) {
			const char *path = from->items[i].trees[k].path;

			if (view_has_place(v, path) || strv_has(&v->result->overlays, path))
				continue;
			view_fail(v, err_set(v->err, -EINVAL,
					     "image \"%s\" has changes of \"%s\", which is no "
					     "overlay here (--overlay %s makes it one)",
					     from->name, path, path));
		}
}

int view_plan(const struct view_request *request, struct plan *plan, struct view_result *ret_result,
	      struct err *err)
{
	struct view_result result = { 0 };
	struct view v = { .rq = request, .plan = plan, .result = &result, .err = err };

	result.home = find_home(&v);
	make_namespaces(&v);
	view_make_trees(&v);
	view_make_names(&v);
	for_outermost(&v, place_rule);
	view_make_up(&v);
	view_make_root(&v);
	for_outermost(&v, bind_plain_rule);
	if (!view_has_own_root(&v))
		view_add(&v, (struct op){ .kind = OP_SEAL, .target = "etc", .is_read_only = true });
	view_make_shares(&v);
	for (size_t i = 0; i < request->rule_count; i++)
		plan_rule(&v, &request->rules[i]);
	if (result.has_sudo)
		view_add(&v, (struct op){ .kind = OP_BIND,
					  .source = request->sudo,
					  .target = view_inner(VIEW_SUDO),
					  .is_read_only = true,
					  .tree = request->sudo_tree });
	for (size_t i = 0; i < result.guarded.count; i++)
		view_add(&v, (struct op){ .kind = OP_GUARD, .text = result.guarded.items[i] });
	view_add(&v, (struct op){ .kind = OP_ROOT });
	grant_all(&v);
	view_add(&v, (struct op){ .kind = OP_ALONE });
	view_add(&v, (struct op){ .kind = OP_DIRECTORY_IS, .text = working_directory(&v) });
	/* As late as can be: it takes as long as all the rest. */
	if (!(request->without & CLONE_NEWNET))
		view_add(&v, (struct op){ .kind = OP_NETWORK_IS });
	add_steps(&v);
	check_protections(&v);
	check_from(&v);
	free(v.made);
	if (v.failure || plan_failed(plan)) {
		strv_done(&result.guarded);
		strv_done(&result.overlays);
		strv_done(&result.overlay_sources);
		return v.failure ?: plan_failed(plan);
	}
	*ret_result = result;
	return 0;
}
