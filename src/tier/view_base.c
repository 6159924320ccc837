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

/* Directories of the root that programs expect, and those that are of use only to be changed. */
static const struct {
	const char *path;
	uint32_t mode;
	bool is_own;
} directories[] = {
	{ "/home", 0755, false },
	{ "/proc", 0555, false },
	{ "/root", 0755, false },
	{ "/run", 0755, false },
	{ "/sys", 0555, false },
	{ "/var", 0755, false },
	{ "/etc/apt/apt.conf.d", 0755, true },
	{ "/etc/apt/preferences.d", 0755, true },
	{ "/media", 0755, true },
	{ "/mnt", 0755, true },
	{ "/run/lock", 01777, true },
	{ "/srv", 0755, true },
	{ "/var/cache/apt/archives/partial", 0755, true },
	{ "/var/lib/apt/lists/partial", 0755, true },
	{ "/var/local", 0755, true },
	{ "/var/log", 0755, true },
	{ "/var/opt", 0755, true },
	{ "/var/spool", 0755, true },
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

/* Where packages may be installed: those besides that every Debian has, by numbers that never change. */
#define NO_LOGIN "/usr/sbin/nologin\n"
#define SYSTEM_PASSWD                                                                       \
	"daemon:x:1:1:daemon:/usr/sbin:" NO_LOGIN "bin:x:2:2:bin:/bin:" NO_LOGIN            \
	"sys:x:3:3:sys:/dev:" NO_LOGIN "games:x:5:60:games:/usr/games:" NO_LOGIN            \
	"man:x:6:12:man:/var/cache/man:" NO_LOGIN "mail:x:8:8:mail:/var/mail:" NO_LOGIN     \
	"proxy:x:13:13:proxy:/bin:" NO_LOGIN "www-data:x:33:33:www-data:/var/www:" NO_LOGIN \
	"backup:x:34:34:backup:/var/backups:" NO_LOGIN
#define SYSTEM_GROUP                                                                            \
	"daemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\nman:x:12:\n" \
	"proxy:x:13:\nsudo:x:27:" VIEW_USER "\naudio:x:29:\nwww-data:x:33:\nbackup:x:34:\n"     \
	"src:x:40:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\nstaff:x:50:\ngames:x:60:\n"          \
	"users:x:100:\n"

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
		return !(v->rq->owns_system && str_equal(share->path, "/etc"));
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

#define SYSTEM "/" VIEW_SYSTEM

/* Whether there is a system of the sandbox's own, made out of the host's. */
static bool is_changeable(const struct view *v)
{
	return v->rq->owns_system && !v->rq->image;
}

/*
 * Below what an image left, where the base is on top of it: so that a change of it stays one. The
 * folders on the way are made in both, as a mount point may be beside.
 */
static void make_in_system(struct view *v, const char *path, struct op op)
{
	if (!view_is_new(v, path))
		return;
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		const char *folder = plan_text(v->plan, SYSTEM "%.*s", (int)(slash - path), path);

		if (view_is_new(v, folder))
			view_add(v, (struct op){ .kind = OP_DIRECTORY,
						 .place = PLACE_STORE,
						 .target = view_inner(folder),
						 .mode = 0755 });
	}
	op.place = PLACE_STORE;
	op.target = plan_text(v->plan, VIEW_SYSTEM "%s", path);
	view_add(v, op);
}

/*
 * Names that trees of a system of its own have for us: the place of sudo, and the locks of the package
 * manager, which on the host only root may open (and so nobody behind a veil). Each folder is the top
 * layer of its tree.
 */
static const struct tool {
	const char *tree, *folder, *name;
} tools[] = {
	{ "/usr", "bin", "bin/sudo" },
	{ "/var/lib/dpkg", NULL, "lock" },
	{ "/var/lib/dpkg", NULL, "lock-frontend" },
	{ "/var/lib/dpkg", NULL, "statoverride" }, /* of users that only the host has */
	{ "/var/lib/dpkg", "triggers", "triggers/Lock" },
};

static bool is_tool_of(const struct view *v, const struct tool *tool, const struct view_rule *rule)
{
	return str_equal(tool->tree, rule->path) && (v->rq->sudo || tool != &tools[0]);
}

bool view_has_tools(const struct view *v, const struct view_rule *rule)
{
	for (size_t i = 0; is_changeable(v) && i < ARRAY_SIZE(tools); i++)
		if (is_tool_of(v, &tools[i], rule))
			return true;
	return false;
}

static void make_tool_folder(struct view *v, const char *name)
{
	if (view_is_new(v, plan_text(v->plan, "tools %s", name)))
		view_add(v, (struct op){ .kind = OP_DIRECTORY,
					 .place = PLACE_STORE,
					 .target = name,
					 .mode = 0755 });
}

const char *view_make_tools(struct view *v, const struct view_rule *rule)
{
	const char *top = plan_text(v->plan, "tools%u", ++v->tools);

	make_tool_folder(v, top);
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		const struct tool *tool = &tools[i];

		if (!is_tool_of(v, tool, rule))
			continue;
		if (tool->folder)
			make_tool_folder(v, plan_text(v->plan, "%s/%s", top, tool->folder));
		view_add(v, (struct op){ .kind = OP_FILE,
					 .place = PLACE_STORE,
					 .target = plan_text(v->plan, "%s/%s", top, tool->name),
					 .mode = tool == &tools[0] ? 0755 : 0644 });
		v->result->has_sudo |= tool == &tools[0];
	}
	return top;
}

void view_make_copy(struct view *v, const char *path, const char *source)
{
	make_in_system(v, path, (struct op){ .kind = OP_COPY, .source = source });
}

/* What is made up, and may be changed where the system is the sandbox's own. */
static void make_changeable(struct view *v, const char *path, const char *text)
{
	if (is_changeable(v))
		make_in_system(v, path, (struct op){ .kind = OP_FILE, .mode = 0644, .text = text });
	else
		make_file(v, path, text);
}

void view_make_link(struct view *v, const char *path, const char *text)
{
	struct op op = { .kind = OP_LINK, .text = text };

	if (is_changeable(v) && path_is_below(path, "/etc")) {
		make_in_system(v, path, op);
		return;
	}
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
		if (is_asked_for(v, made_up[i].path))
			continue;
		else if (made_up[i].for_images)
			make_file(v, made_up[i].path, made_up[i].text);
		else if (!rq->image)
			make_changeable(v, made_up[i].path, made_up[i].text);
	if (!own_users && !is_asked_for(v, "/etc/passwd"))
		make_changeable(v, "/etc/passwd",
				plan_text(v->plan, PASSWD_FORMAT "%s", rq->shell,
					  is_changeable(v) ? SYSTEM_PASSWD : ""));
	if (!own_users && !is_asked_for(v, "/etc/group"))
		make_changeable(v, "/etc/group",
				is_changeable(v) ? GROUP_TEXT SYSTEM_GROUP : GROUP_TEXT);
}

/* Names that mounts of the rules need, before the root is put together. */
void view_make_names(struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (!directories[i].is_own || is_changeable(v)) {
			make_parents(v, directories[i].path);
			view_make_directory(v, directories[i].path, directories[i].mode);
		}
	for (size_t i = ARRAY_SIZE(shares); i-- > 0;)
		view_make_directory(v, shares[i].path, shares[i].mode);
	if (v->rq->sudo && v->rq->image) {
		view_make_mount_point(v, VIEW_SUDO, VIEW_FILE);
		v->result->has_sudo = true;
	}
	view_make_directory(v, "/dev/pts", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		make_file(v, devices[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(device_links); i++)
		view_make_link(v, device_links[i].path, device_links[i].text);
}

/* The top of an upper layer is what shows: its mode is the one that the image has. */
static uint32_t mode_of(const struct view *v, const char *path, uint32_t mode)
{
	const struct image_tree *tree = v->rq->from ? image_newest_tree(v->rq->from, path) : NULL;

	return tree ? tree->mode : mode;
}

const char *view_lowers(struct view *v, const char *path, const char *others)
{
	const struct image_layers *from = v->rq->from;
	const char *lowers = "";

	for (size_t i = from ? from->count : 0; i-- > 0;) {
		const struct image_tree *tree = image_find_tree(&from->items[i], path);

		if (tree)
			lowers = plan_text(v->plan, "%s%sl%zu/%s", lowers, *lowers ? ":" : "",
					   i + 1, tree->name);
	}
	return *lowers && *others ? plan_text(v->plan, "%s:%s", lowers, others)
	       : *lowers          ? lowers
				  : others;
}

/* A share is a folder of the store; with something of an image it is the upper layer on top. */
static bool is_layered(const struct view *v, const struct share *share)
{
	return v->rq->from && !share->is_made_up && image_newest_tree(v->rq->from, share->path);
}

bool view_has_place(const struct view *v, const char *path)
{
	if (str_equal(path, "/"))
		return view_has_own_root(v);
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (str_equal(shares[i].path, path))
			return !shares[i].is_made_up && uses_share(v, &shares[i]);
	return false;
}

void view_name_overlay(struct view *v, unsigned int number, const char *path, bool is_users)
{
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .mode = mode_of(v, path, 0755),
				 .is_users = is_users,
				 .target = plan_text(v->plan, UPPER_PREFIX "%u", number) });
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .mode = 0700,
				 .target = plan_text(v->plan, WORK_PREFIX "%u", number) });
}

/* Each layer is mounted once, under a short name; overlays name trees in it. */
static void make_layers(struct view *v)
{
	const struct image_layers *from = v->rq->from;

	for (size_t i = 0; from && i < from->count; i++) {
		const char *name = plan_text(v->plan, "l%zu", i + 1);

		view_add(v, (struct op){ .kind = OP_DIRECTORY,
					 .place = PLACE_STORE,
					 .target = name,
					 .mode = 0700 });
		view_add(v, (struct op){ .kind = OP_BIND,
					 .place = PLACE_STORE,
					 .source = from->items[i].path,
					 .target = name,
					 .is_read_only = true,
					 .is_directory = true,
					 .tree = v->rq->from_trees[i] });
	}
}

static void make_share_folder(struct view *v, const struct share *share)
{
	view_add(v, (struct op){ .kind = OP_DIRECTORY,
				 .place = PLACE_STORE,
				 .target = share->name,
				 .mode = mode_of(v, share->path, share->mode),
				 .is_users = !share->is_made_up });
	if (is_layered(v, share))
		view_add(v, (struct op){
				    .kind = OP_DIRECTORY,
				    .place = PLACE_STORE,
				    .mode = 0700,
				    .target = plan_text(v->plan, WORK_PREFIX "-%s", share->name) });
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
			make_share_folder(v, &shares[i]);
	view_name_overlay(v, 0, "/", !rq->owns_system);
	view_add(v, (struct op){ .kind = OP_BASE });
	if (is_changeable(v))
		view_add(v, (struct op){ .kind = OP_DIRECTORY,
					 .place = PLACE_STORE,
					 .target = VIEW_SYSTEM,
					 .mode = 0755 });
	make_layers(v);
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
		if (!uses_share(v, &shares[i]) || shares[i].is_made_up != is_made_up)
			continue;
		else if (is_layered(v, &shares[i]))
			view_add(v, (struct op){ .kind = OP_OVERLAY,
						 .source = view_lowers(v, shares[i].path, ""),
						 .target = view_inner(shares[i].path),
						 .text = shares[i].name });
		else
			view_add(v, (struct op){ .kind = OP_SHARE,
						 .source = shares[i].name,
						 .target = view_inner(shares[i].path),
						 .is_read_only = is_made_up });
}

/*
 * What does not depend on the rules. The base stays on top of what another sandbox left: its
 * directories are where things get mounted, and must be no links of somebody's.
 */
void view_make_root(struct view *v)
{
	const char *lowers = v->rq->image         ? view_lowers(v, "/", "image")
			     : v->rq->owns_system ? view_lowers(v, "/", VIEW_SYSTEM)
						  : NULL;

	view_add(v, (struct op){ .kind = OP_OVERLAY,
				 .source = lowers ? plan_text(v->plan, "base:%s", lowers) : "base",
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
