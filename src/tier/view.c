#include "tier/view.h"

#include <errno.h>
#include <limits.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>

#include "jail/keeper.h"

#define STORE_NODE_SIZE 4096 /* one inode for so many bytes of the store, and some more */
#define STORE_NODES     16384
#define SKELETONS       ".masks" /* of the store: mount points inside what is masked */
#define MADE_ROOM       512      /* to begin with */
#define DEPTH_MAX       64       /* rules that lie in each other */

/*
 * Trees of the store that show in the root. What the sandbox may write of its own; and, where the
 * system is the host's, the two made-up ones with many mount points, which the kernel finds faster
 * in a tmpfs than through the overlay.
 */
static const struct share {
	const char *path, *name;
	uint32_t mode;
	bool is_made_up;
} shares[] = {
	{ "/dev/shm", "shm", 01777, false }, { VIEW_HOME, "home", 0755, false },
	{ VIEW_TMP, "tmp", 01777, false },   { "/var/tmp", "var-tmp", 01777, false },
	{ "/dev", "dev", 0755, true },       { "/etc", "etc", 0755, true },
};

/* Directories of the root that programs expect. */
static const struct {
	const char *path;
	uint32_t mode;
} directories[] = {
	{ "/home", 0755 }, { "/proc", 0555 }, { "/root", 0755 },
	{ "/run", 0755 },  { "/sys", 0555 },  { "/var", 0755 },
};

static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
				       "/dev/random", "/dev/urandom", "/dev/tty" };

static const struct {
	const char *path, *text;
} device_links[] = {
	{ "/dev/ptmx", "pts/ptmx" },          { "/dev/fd", "/proc/self/fd" },
	{ "/dev/stdin", "/proc/self/fd/0" },  { "/dev/stdout", "/proc/self/fd/1" },
	{ "/dev/stderr", "/proc/self/fd/2" },
};

/* Nothing of these is for a sandbox: other parts of the machine, its log, its memory. */
static const struct {
	const char *path;
	bool is_directory;
} masked[] = {
	{ "proc/acpi", true },        { "proc/asound", true },
	{ "proc/kallsyms", false },   { "proc/kcore", false },
	{ "proc/keys", false },       { "proc/kmsg", false },
	{ "proc/scsi", true },        { "proc/latency_stats", false },
	{ "proc/timer_list", false }, { "proc/sysrq-trigger", false },
};
static const char *const read_only[] = { "proc/bus", "proc/driver", "proc/fs", "proc/irq",
					 "proc/sys" };

/* Made up. Names are looked up in files only: there is no network to ask. */
static const struct made {
	const char *path, *text;
	bool for_images; /* an image has its own, but this one is ours */
} made_up[] = {
	{ "/etc/hostname", VIEW_HOSTNAME "\n", true },
	{ "/etc/hosts", "127.0.0.1\tlocalhost " VIEW_HOSTNAME "\n::1\tlocalhost ip6-localhost\n",
	  true },
	/* Nobody listens there: an answer comes at once, where an empty file means a time-out. */
	{ "/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", true },
	{ "/etc/nsswitch.conf",
	  "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
	  "protocols: files\nservices: files\nethers: files\nrpc: files\n",
	  false },
};

#define PASSWD_FORMAT                                                                       \
	"root:x:0:0:root:/root:/bin/sh\n" VIEW_USER ":x:1000:1000:" VIEW_USER ":" VIEW_HOME \
	":%s\n"                                                                             \
	"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
#define GROUP_TEXT "root:x:0:\ntty:x:5:\n" VIEW_USER ":x:1000:\nnogroup:x:65534:\n"

/* One rule that lies around the one at hand. */
struct layer {
	const struct view_rule *rule;
	bool is_masked;
};

struct view {
	const struct view_request *rq;
	struct plan *plan;
	struct view_result *result;
	struct err *err;
	const char **made; /* what is in base and store already: a hash table, NULL where free */
	size_t made_count, made_room; /* the room is a power of two */
	struct layer layers[DEPTH_MAX];
	size_t depth;
	unsigned int masks;
	int failure;
};

static void fail(struct view *v, int code)
{
	v->failure = v->failure ?: code;
}

static void add(struct view *v, struct op op)
{
	op.stage = STAGE_KEEPER;
	plan_add(v->plan, op);
}

static const char *inner(const char *path)
{
	return path + 1; /* relative to a tree */
}

/* Where a name is, or would be, in a table. */
static const char **find_made(const char **made, size_t room, const char *path)
{
	size_t hash = 5381;

	for (const char *p = path; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	for (;; hash++) {
		const char **slot = &made[hash & (room - 1)];

		if (!*slot || str_equal(*slot, path))
			return slot;
	}
}

static int grow_made(struct view *v)
{
	size_t room = v->made_room ? v->made_room * 2 : MADE_ROOM;
	const char **made = calloc(room, sizeof(*made));

	if (!made)
		return -ENOMEM;
	for (size_t i = 0; i < v->made_room; i++)
		if (v->made[i])
			*find_made(made, room, v->made[i]) = v->made[i];
	free(v->made);
	v->made = made;
	v->made_room = room;
	return 0;
}

/* Remembers a name of base or store, which must stay; false when it is there already. */
static bool is_new(struct view *v, const char *path)
{
	const char **slot;

	if (v->made_count * 2 >= v->made_room && grow_made(v) < 0) {
		fail(v, -ENOMEM);
		return false;
	}
	slot = find_made(v->made, v->made_room, path);
	if (*slot)
		return false;
	v->made_count++;
	*slot = path;
	return true;
}

static bool uses_share(const struct view *v, const struct share *share)
{
	if (!v->rq->image)
		return true;
	return !share->is_made_up && !(v->rq->image_has_home && str_equal(share->path, VIEW_HOME));
}

/* Where a name that no rule covers is made: in the base, or in the store below a share. */
static void locate(struct view *v, const char *path, enum op_place *ret_place,
		   const char **ret_target)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (uses_share(v, &shares[i]) && path_is_below(path, shares[i].path) &&
		    strlen(path) > strlen(shares[i].path)) {
			*ret_place = PLACE_STORE;
			*ret_target = plan_join(v->plan, shares[i].name, strlen(shares[i].name),
						path + strlen(shares[i].path));
			return;
		}
	*ret_place = path_is_below(path, "/" SKELETONS) ? PLACE_STORE : PLACE_BASE;
	*ret_target = inner(path);
}

static void make_directory(struct view *v, const char *path, uint32_t mode)
{
	struct op op = { .kind = OP_DIRECTORY, .mode = mode };

	if (!is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	op.is_users = op.place == PLACE_STORE && !path_is_below(path, "/etc") &&
		      !path_is_below(path, "/dev");
	add(v, op);
}

static void make_parents(struct view *v, const char *path)
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
		make_directory(v, plan_join(v->plan, path, (size_t)(slash - path), ""), 0755);
}

static void make_file(struct view *v, const char *path, const char *text)
{
	struct op op = { .kind = OP_FILE, .mode = 0644, .text = text };

	make_parents(v, path);
	if (!is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	add(v, op);
}

static void make_link(struct view *v, const char *path, const char *text)
{
	struct op op = { .kind = OP_LINK, .text = text };

	make_parents(v, path);
	if (!is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	add(v, op);
}

static void make_mount_point(struct view *v, const char *path, enum view_kind kind)
{
	make_parents(v, path);
	if (kind == VIEW_DIRECTORY)
		make_directory(v, path, 0755);
	else
		make_file(v, path, NULL);
}

/* A person's own rule for one of our made-up files is a wish to see the host's. */
static bool is_asked_for(const struct view *v, const char *path)
{
	for (size_t i = 0; i < v->rq->rule_count; i++) {
		const struct view_rule *rule = &v->rq->rules[i];

		if (!rule->is_shipped && rule->kind != VIEW_ABSENT && rule->access != ACCESS_NONE &&
		    path_is_below(path, rule->path))
			return true;
	}
	return false;
}

static bool is_made_up(const char *path)
{
	if (str_equal(path, "/etc/passwd") || str_equal(path, "/etc/group"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++)
		if (str_equal(path, made_up[i].path))
			return true;
	return false;
}

static void make_up(struct view *v)
{
	const struct view_request *rq = v->rq;
	bool own_users = rq->image && rq->image_has_users;

	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++)
		if ((!rq->image || made_up[i].for_images) && !is_asked_for(v, made_up[i].path))
			make_file(v, made_up[i].path, made_up[i].text);
	if (!own_users && !is_asked_for(v, "/etc/passwd"))
		make_file(v, "/etc/passwd", plan_text(v->plan, PASSWD_FORMAT, rq->shell));
	if (!own_users && !is_asked_for(v, "/etc/group"))
		make_file(v, "/etc/group", GROUP_TEXT);
}

/* Names that mounts of the rules need, before the root is put together. */
static void make_mount_points(struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		make_directory(v, directories[i].path, directories[i].mode);
	for (size_t i = ARRAY_SIZE(shares); i-- > 0;)
		make_directory(v, shares[i].path, shares[i].mode);
	make_directory(v, "/dev/pts", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		make_file(v, devices[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(device_links); i++)
		make_link(v, device_links[i].path, device_links[i].text);
}

static void name_overlay(struct view *v, unsigned int number)
{
	add(v, (struct op){ .kind = OP_DIRECTORY,
			    .place = PLACE_STORE,
			    .mode = 0755,
			    .is_users = true,
			    .target = plan_text(v->plan, UPPER_PREFIX "%u", number) });
	add(v, (struct op){ .kind = OP_DIRECTORY,
			    .place = PLACE_STORE,
			    .mode = 0700,
			    .target = plan_text(v->plan, WORK_PREFIX "%u", number) });
}

/* Store, base, and the image under them. */
static void make_trees(struct view *v)
{
	const struct view_request *rq = v->rq;

	add(v, (struct op){ .kind = OP_PRIVATE });
	add(v, (struct op){ .kind = OP_STORE,
			    .value = rq->disk,
			    .nodes = rq->disk / STORE_NODE_SIZE + STORE_NODES });
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (uses_share(v, &shares[i]))
			add(v, (struct op){ .kind = OP_DIRECTORY,
					    .place = PLACE_STORE,
					    .target = shares[i].name,
					    .mode = shares[i].mode,
					    .is_users = !shares[i].is_made_up });
	name_overlay(v, 0);
	add(v, (struct op){ .kind = OP_BASE });
	if (!rq->image)
		return;
	add(v,
	    (struct op){
		    .kind = OP_DIRECTORY, .place = PLACE_STORE, .target = "image", .mode = 0700 });
	add(v, (struct op){ .kind = OP_BIND,
			    .place = PLACE_STORE,
			    .source = rq->image,
			    .target = "image",
			    .is_read_only = true,
			    .is_directory = true,
			    .tree = rq->image_tree });
}

/* Its own /proc. A sandbox inside needs another, which the kernel gives only where none is masked.
 */
static void make_proc(struct view *v)
{
	add(v, (struct op){ .kind = OP_PROC, .target = "proc" });
	if (v->rq->is_nested || v->rq->without_masks)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++)
		add(v, (struct op){ .kind = OP_MASK,
				    .target = masked[i].path,
				    .is_optional = true,
				    .is_plain = true,
				    .is_directory = masked[i].is_directory });
	for (size_t i = 0; i < ARRAY_SIZE(read_only); i++)
		add(v, (struct op){ .kind = OP_AGAIN,
				    .target = read_only[i],
				    .is_optional = true,
				    .is_read_only = true,
				    .is_plain = true });
	add(v, (struct op){ .kind = OP_SEAL, .target = "proc" });
}

static void make_shares(struct view *v, bool is_made_up)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (uses_share(v, &shares[i]) && shares[i].is_made_up == is_made_up)
			add(v, (struct op){ .kind = OP_SHARE,
					    .source = shares[i].name,
					    .target = inner(shares[i].path),
					    .is_read_only = is_made_up });
}

/* What does not depend on the rules, on top of the sealed trees of the system. */
static void make_own(struct view *v)
{
	make_proc(v);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		add(v, (struct op){ .kind = OP_BIND,
				    .source = devices[i],
				    .target = inner(devices[i]),
				    .is_read_only = true,
				    .is_device = true,
				    .is_plain = true });
	add(v, (struct op){ .kind = OP_TERMINALS, .target = "dev/pts" });
}

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
	if (v->depth == DEPTH_MAX) {
		fail(v, err_set(v->err, -E2BIG, "fs: \"%s\" lies in more than %d other rules",
				layer.rule->path, DEPTH_MAX));
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

		if (is_new(v, plan_text(v->plan, "held %s", between)))
			add(v, (struct op){ .kind = OP_AGAIN,
					    .target = inner(between),
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
	const char *name = plan_text(v->plan, "/" SKELETONS "/%u", ++v->masks);

	make_directory(v, "/" SKELETONS, 0700);
	make_directory(v, name, 0111);
	for (const struct view_rule *r = rule + 1; r < end && path_is_below(r->path, rule->path);
	     r++)
		if (r->access != ACCESS_NONE && r->kind != VIEW_ABSENT)
			make_mount_point(
				v, plan_text(v->plan, "%s%s", name, r->path + strlen(rule->path)),
				r->kind);
	return inner(name);
}

static void mask_rule(struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	struct op op = { .kind = OP_MASK, .target = inner(rule->path), .is_protecting = true };

	hold_between(v, layer, rule->path, false);
	if (rule->kind == VIEW_DIRECTORY && has_rules_inside(v, rule))
		op.source = make_skeleton(v, rule);
	add(v, op);
	v->result->masks++;
	push(v, (struct layer){ rule, true });
}

static void overlay_rule(struct view *v, const struct view_rule *rule)
{
	unsigned int number = (unsigned int)v->result->overlays.count + 1;
	const char *lower = plan_text(v->plan, "lower%u", number);

	if (rule->kind != VIEW_DIRECTORY) {
		fail(v, err_set(v->err, -ENOTDIR,
				"fs: \"%s\": an overlay shows a directory, and this is none (name "
				"the folder that it is in)",
				rule->path));
		return;
	}
	add(v, (struct op){
		       .kind = OP_DIRECTORY, .place = PLACE_STORE, .target = lower, .mode = 0700 });
	name_overlay(v, number);
	add(v, (struct op){ .kind = OP_BIND,
			    .place = PLACE_STORE,
			    .source = rule->source,
			    .target = lower,
			    .is_read_only = true,
			    .is_directory = true,
			    .tree = rule->tree });
	add(v, (struct op){ .kind = OP_OVERLAY,
			    .source = lower,
			    .target = inner(rule->path),
			    .value = number });
	if (strv_add(&v->result->overlays, rule->path) < 0)
		fail(v, -ENOMEM);
}

static void bind_rule(struct view *v, const struct view_rule *rule)
{
	add(v, (struct op){ .kind = OP_BIND,
			    .source = rule->source,
			    .target = inner(rule->path),
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

/* Paths that every container has of its own: a rule for them opens nothing of the host. */
static bool is_own(const struct view_rule *rule)
{
	if (path_is_below(rule->path, "/proc") || str_equal(rule->path, "/dev"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (str_equal(rule->path, devices[i]))
			return true;
	return rule->is_shipped && is_made_up(rule->path);
}

/* With an image, what the shipped policies say of system files means the image's own. */
static bool is_in_image(const struct view *v, const struct view_rule *rule)
{
	return v->rq->image && rule->is_shipped && !str_equal(v->rq->cwd, rule->path);
}

static bool is_left_out(const struct view *v, const struct view_rule *rule)
{
	return is_own(rule) || is_in_image(v, rule);
}

/*
 * Trees of the system that no other rule is around: they are mounted by path, all of them before
 * anything that can be written, and made read-only in one go.
 */
static bool is_plain(const struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	return rule->is_system && rule->access == ACCESS_READ && !layer && !is_left_out(v, rule) &&
	       (rule->kind == VIEW_DIRECTORY || rule->kind == VIEW_FILE);
}

static void show_rule(struct view *v, const struct layer *layer, const struct view_rule *rule)
{
	v->result->reads += rule->access == ACCESS_READ;
	v->result->writes += rule->access == ACCESS_WRITE;
	if (is_shown(layer, rule) || is_plain(v, layer, rule)) {
		push(v, (struct layer){ .rule = rule });
		return;
	}
	hold_between(v, layer, rule->path, false);
	if (rule->access == ACCESS_OVERLAY)
		overlay_rule(v, rule);
	else if (rule->access == ACCESS_READ && is_writable(layer))
		add(v, (struct op){ .kind = OP_AGAIN,
				    .target = inner(rule->path),
				    .is_protecting = true,
				    .is_read_only = true });
	else
		bind_rule(v, rule);
	push(v, (struct layer){ .rule = rule });
}

static void plan_rule(struct view *v, const struct view_rule *rule)
{
	const struct layer *layer = around(v, rule->path);

	if (is_left_out(v, rule)) {
		if (path_is_below(rule->path, "/proc/") && rule->access == ACCESS_NONE)
			add(v, (struct op){ .kind = OP_MASK,
					    .target = inner(rule->path),
					    .is_optional = true });
		return;
	}
	/* What has nothing to mount on. A link can be removed then, and not be replaced. */
	if (rule->kind == VIEW_ABSENT || rule->kind == VIEW_LINK) {
		v->result->absent += rule->kind == VIEW_ABSENT && rule->access != ACCESS_NONE;
		if (is_writable(layer) && rule->access < layer->rule->access) {
			hold_between(v, layer, rule->path, true);
			if (strv_add(&v->result->guarded, rule->path) < 0)
				fail(v, -ENOMEM);
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
		make_link(v, rule->path, rule->link);
	else
		make_mount_point(v, rule->path, rule->kind);
}

static void bind_plain_rule(struct view *v, const struct view_rule *rule)
{
	if (is_plain(v, NULL, rule))
		add(v,
		    (struct op){ .kind = OP_BIND,
				 .source = rule->source,
				 .target = inner(rule->path),
				 .is_read_only = true,
				 .is_directory = rule->kind == VIEW_DIRECTORY,
				 .is_plain = true,
				 .is_sealed = path_is_below(rule->path, "/etc") && !v->rq->image });
}

static void grant(struct view *v, const char *path, bool is_directory, enum landlock_grant rights,
		  bool is_optional)
{
	static const char *const names[] = { [LANDLOCK_READ] = "read and execute",
					     [LANDLOCK_WRITE] = "write",
					     [LANDLOCK_WRITE_DEVICE] = "write and control" };

	add(v, (struct op){ .kind = OP_GRANT,
			    .target = inner(path),
			    .value = rights,
			    .text = names[rights],
			    .is_directory = is_directory,
			    .is_optional = is_optional });
}

/* The second wall: mounts say what is there, Landlock what may be done with it. */
static void grant_all(struct view *v)
{
	const struct view_request *rq = v->rq;

	/* A domain for files would keep a sandbox inside from mounting anything. */
	if (rq->is_nested || rq->without_landlock)
		return;
	grant(v, "/", true, rq->image ? LANDLOCK_WRITE : LANDLOCK_READ, false);
	grant(v, "/proc", true, LANDLOCK_WRITE, false);
	grant(v, "/dev", true, LANDLOCK_WRITE_DEVICE, false);
	for (size_t i = 0; i < ARRAY_SIZE(shares) && !rq->image; i++)
		if (!shares[i].is_made_up)
			/* A rule may have put something else in its place. */
			grant(v, shares[i].path, true, LANDLOCK_WRITE, true);
	for (size_t i = 0; i < rq->rule_count; i++) {
		const struct view_rule *rule = &rq->rules[i];

		if (rule->kind != VIEW_ABSENT && rule->kind != VIEW_LINK && !is_left_out(v, rule) &&
		    rule->access >= ACCESS_OVERLAY)
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
		add(v, (struct op){ .kind = OP_OWN_CGROUPS });
	if (!(rq->without & CLONE_NEWTIME))
		add(v, (struct op){ .kind = OP_CLOCK });
	if (!(rq->without & CLONE_NEWNET))
		add(v, (struct op){ .kind = OP_NETWORK });
	if (rq->ids)
		add(v, (struct op){ .kind = OP_MASTER, .value = IDS_USER });
	else
		add(v, (struct op){ .kind = OP_IDS,
				    .source = plan_text(v->plan, "%u %u 1", IDS_USER, rq->uid),
				    .text = plan_text(v->plan, "%u %u 1", IDS_USER, rq->gid) });
	if (flags & CLONE_NEWUTS)
		add(v, (struct op){ .kind = OP_HOSTNAME, .text = VIEW_HOSTNAME });
}

/* The working directory, if the sandbox sees it; else its home. */
static const char *working_directory(const struct view *v)
{
	const struct view_rule *nearest = NULL;

	for (size_t i = 0; i < v->rq->rule_count; i++)
		if (path_is_below(v->rq->cwd, v->rq->rules[i].path) &&
		    v->rq->rules[i].kind != VIEW_ABSENT && !is_left_out(v, &v->rq->rules[i]))
			nearest = &v->rq->rules[i];
	return nearest && nearest->access != ACCESS_NONE && nearest->kind == VIEW_DIRECTORY
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

	if (v->rq->ids)
		plan_add(v->plan, (struct op){ .kind = OP_USER,
					       .stage = STAGE_FIRST,
					       .value = IDS_USER,
					       .is_early = true });
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

int view_plan(const struct view_request *request, struct plan *plan, struct view_result *ret_result,
	      struct err *err)
{
	struct view_result result = { 0 };
	struct view v = { .rq = request, .plan = plan, .result = &result, .err = err };

	result.home = find_home(&v);
	make_namespaces(&v);
	make_trees(&v);
	make_mount_points(&v);
	for_outermost(&v, place_rule);
	make_up(&v);
	add(&v, (struct op){ .kind = OP_OVERLAY,
			     .source = request->image ? "base:image" : "base",
			     .target = "" });
	make_shares(&v, true);
	make_own(&v);
	for_outermost(&v, bind_plain_rule);
	if (!request->image)
		add(&v, (struct op){ .kind = OP_SEAL, .target = "etc", .is_read_only = true });
	make_shares(&v, false);
	for (size_t i = 0; i < request->rule_count; i++)
		plan_rule(&v, &request->rules[i]);
	for (size_t i = 0; i < result.guarded.count; i++)
		add(&v, (struct op){ .kind = OP_GUARD, .text = result.guarded.items[i] });
	add(&v, (struct op){ .kind = OP_ROOT });
	grant_all(&v);
	add(&v, (struct op){ .kind = OP_ALONE });
	add(&v, (struct op){ .kind = OP_DIRECTORY_IS, .text = working_directory(&v) });
	/* As late as can be: it takes as long as all the rest. */
	if (!(request->without & CLONE_NEWNET))
		add(&v, (struct op){ .kind = OP_NETWORK_IS });
	add_steps(&v);
	free(v.made);
	if (v.failure || plan_failed(plan)) {
		strv_done(&result.guarded);
		strv_done(&result.overlays);
		return v.failure ?: plan_failed(plan);
	}
	*ret_result = result;
	return 0;
}
