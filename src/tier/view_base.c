#include <errno.h>
#include <string.h>

#include "tier/view_internal.h"

#define STORE_NODE_SIZE 4096 /* one inode for so many bytes of the store, and some more */
#define STORE_NODES     16384
#define MADE_ROOM       512 /* to begin with */

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
	/* The gate listens there; or nobody, and an answer comes at once all the same. */
	{ "/etc/resolv.conf", "nameserver 127.0.0.1\n", true },
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

void view_fail(struct view *v, int code)
{
	v->failure = v->failure ?: code;
}

void view_add(struct view *v, struct op op)
{
	op.stage = STAGE_KEEPER;
	plan_add(v->plan, op);
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

bool view_is_new(struct view *v, const char *path)
{
	const char **slot;

	if (v->made_count * 2 >= v->made_room && grow_made(v) < 0) {
		view_fail(v, -ENOMEM);
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
	*ret_place = path_is_below(path, VIEW_SKELETONS) ? PLACE_STORE : PLACE_BASE;
	*ret_target = view_inner(path);
}

void view_make_directory(struct view *v, const char *path, uint32_t mode)
{
	struct op op = { .kind = OP_DIRECTORY, .mode = mode };

	if (!view_is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	op.is_users = op.place == PLACE_STORE && !path_is_below(path, "/etc") &&
		      !path_is_below(path, "/dev");
	view_add(v, op);
}

static void make_parents(struct view *v, const char *path)
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
		view_make_directory(v, plan_join(v->plan, path, (size_t)(slash - path), ""), 0755);
}

static void make_file(struct view *v, const char *path, const char *text)
{
	struct op op = { .kind = OP_FILE, .mode = 0644, .text = text };

	make_parents(v, path);
	if (!view_is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	view_add(v, op);
}

void view_make_link(struct view *v, const char *path, const char *text)
{
	struct op op = { .kind = OP_LINK, .text = text };

	make_parents(v, path);
	if (!view_is_new(v, path))
		return;
	locate(v, path, &op.place, &op.target);
	view_add(v, op);
}

void view_make_mount_point(struct view *v, const char *path, enum view_kind kind)
{
	make_parents(v, path);
	if (kind == VIEW_DIRECTORY)
		view_make_directory(v, path, 0755);
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

bool view_makes_up(const char *path)
{
	if (str_equal(path, "/etc/passwd") || str_equal(path, "/etc/group"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++)
		if (str_equal(path, made_up[i].path))
			return true;
	return false;
}

void view_make_up(struct view *v)
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
void view_make_names(struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		view_make_directory(v, directories[i].path, directories[i].mode);
	for (size_t i = ARRAY_SIZE(shares); i-- > 0;)
		view_make_directory(v, shares[i].path, shares[i].mode);
	view_make_directory(v, "/dev/pts", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		make_file(v, devices[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(device_links); i++)
		view_make_link(v, device_links[i].path, device_links[i].text);
}

void view_name_overlay(struct view *v, unsigned int number)
{
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .mode = 0755,
				 .is_users = true,
				 .target = plan_text(v->plan, UPPER_PREFIX "%u", number) });
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .mode = 0700,
				 .target = plan_text(v->plan, WORK_PREFIX "%u", number) });
}

/* Store, base, and the image under them. */
void view_make_trees(struct view *v)
{
	const struct view_request *rq = v->rq;

	view_add(v, (struct op){ .kind = OP_PRIVATE });
	view_add(v, (struct op){ .kind = OP_STORE,
				 .value = rq->disk,
				 .nodes = rq->disk / STORE_NODE_SIZE + STORE_NODES });
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (uses_share(v, &shares[i]))
			view_add(v, (struct op){ .kind = OP_DIRECTORY,
						 .place = PLACE_STORE,
						 .target = shares[i].name,
						 .mode = shares[i].mode,
						 .is_users = !shares[i].is_made_up });
	view_name_overlay(v, 0);
	view_add(v, (struct op){ .kind = OP_BASE });
	if (!rq->image)
		return;
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .target = "image",
				 .mode = 0700 });
	view_add(v, (struct op){ .kind = OP_BIND,
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
	view_add(v, (struct op){ .kind = OP_PROC, .target = "proc" });
	if (v->rq->is_nested || v->rq->without_masks)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++)
		view_add(v, (struct op){ .kind = OP_MASK,
					 .target = masked[i].path,
					 .is_optional = true,
					 .is_plain = true,
					 .is_directory = masked[i].is_directory });
	for (size_t i = 0; i < ARRAY_SIZE(read_only); i++)
		view_add(v, (struct op){ .kind = OP_AGAIN,
					 .target = read_only[i],
					 .is_optional = true,
					 .is_read_only = true,
					 .is_plain = true });
	view_add(v, (struct op){ .kind = OP_SEAL, .target = "proc" });
}

static void make_shares(struct view *v, bool is_made_up)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (uses_share(v, &shares[i]) && shares[i].is_made_up == is_made_up)
			view_add(v, (struct op){ .kind = OP_SHARE,
						 .source = shares[i].name,
						 .target = view_inner(shares[i].path),
						 .is_read_only = is_made_up });
}

/* What does not depend on the rules. */
void view_make_root(struct view *v)
{
	view_add(v, (struct op){ .kind = OP_OVERLAY,
				 .source = v->rq->image ? "base:image" : "base",
				 .target = "" });
	make_shares(v, true);
	make_proc(v);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		view_add(v, (struct op){ .kind = OP_BIND,
					 .source = devices[i],
					 .target = view_inner(devices[i]),
					 .is_read_only = true,
					 .is_device = true,
					 .is_plain = true });
	view_add(v, (struct op){ .kind = OP_TERMINALS, .target = "dev/pts" });
}

void view_make_shares(struct view *v)
{
	make_shares(v, false);
}

void view_for_shares(struct view *v, void (*fn)(struct view *v, const char *path))
{
	for (size_t i = 0; i < ARRAY_SIZE(shares) && !v->rq->image; i++)
		if (!shares[i].is_made_up)
			fn(v, shares[i].path);
}

bool view_has_own(const char *path)
{
	if (path_is_below(path, "/proc") || str_equal(path, "/dev"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (str_equal(path, devices[i]))
			return true;
	return false;
}

bool view_is_own(const struct view_rule *rule)
{
	return view_has_own(rule->path) || (rule->is_shipped && view_makes_up(rule->path));
}
