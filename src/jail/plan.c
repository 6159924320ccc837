#include "jail/plan.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "data/schema.h"
#include "jail/keeper.h"

const char *const stage_names[STAGE_COUNT] = {
	[STAGE_WARDEN] = "warden",
	[STAGE_KEEPER] = "keeper",
	[STAGE_FIRST] = "first process",
};

/* Names of operations for --json; and how a line begins. */
static const struct {
	const char *name, *verb;
} kinds[OP_COUNT] = {
	[OP_STEP] = { "step", NULL },
	[OP_NAMESPACES] = { "namespaces", "make namespaces:" },
	[OP_CGROUP] = { "cgroup", "begin the keeper in the sandbox's cgroup" },
	[OP_IDS] = { "ids", "map ids:" },
	[OP_MASTER] = { "master", "become root of these ids" },
	[OP_OWN_CGROUPS] = { "own-cgroups", "make a cgroup namespace" },
	[OP_CLOCK] = { "clock", "make a time namespace that begins now" },
	[OP_HOSTNAME] = { "hostname", "set the host name to" },
	[OP_NETWORK] = { "network", "begin to make a network namespace with a loopback device" },
	[OP_NETWORK_IS] = { "network-is", "enter the network namespace" },
	[OP_PRIVATE] = { "private", "keep mounts from spreading" },
	[OP_STORE] = { "store", "make the store" },
	[OP_BASE] = { "base", "make the base" },
	[OP_DIRECTORY] = { "directory", "make directory" },
	[OP_FILE] = { "file", "make file" },
	[OP_LINK] = { "link", "make link" },
	[OP_COPY] = { "copy", "copy" },
	[OP_VEIL] = { "veil", "show what everybody may read of store:/" },
	[OP_OVERLAY] = { "overlay", "overlay" },
	[OP_BIND] = { "bind", "bind" },
	[OP_SHARE] = { "share", "bind store:" },
	[OP_AGAIN] = { "again", "hold" },
	[OP_MASK] = { "mask", "mask" },
	[OP_PROC] = { "proc", "mount a new proc on" },
	[OP_TERMINALS] = { "terminals", "mount new terminals on" },
	[OP_SEAL] = { "seal", "make read-only what is mounted below" },
	[OP_ROOT] = { "root", "change to the new root and begin to detach the old" },
	[OP_ALONE] = { "alone", "see that nothing of the old root can be reached" },
	[OP_GRANT] = { "grant", "allow by Landlock" },
	[OP_GUARD] = { "guard", "guard a name that must not appear:" },
	[OP_DIRECTORY_IS] = { "working-directory", "change to" },
	[OP_USER] = { "user", "become user" },
	[OP_USERS] = { "users",
		       "give up all rights but to start processes as any user, by default" },
};

/* Strings of a plan, in blocks that never move. */
struct arena {
	struct arena *next;
	size_t used, size;
	char data[];
};

static char *arena_take(struct plan *plan, size_t len)
{
	struct arena *block = plan->arena;

	if (!block || block->size - block->used < len) {
		size_t size = MAX(len, (size_t)8000);

		block = malloc(sizeof(*block) + size);
		if (!block)
			return NULL;
		*block = (struct arena){ .next = plan->arena, .size = size };
		plan->arena = block;
	}
	block->used += len;
	return block->data + block->used - len;
}

const char *plan_join(struct plan *plan, const char *a, size_t len, const char *b)
{
	size_t more = strlen(b);
	char *text = arena_take(plan, len + more + 1);

	if (!text) {
		plan->failure = plan->failure ?: -ENOMEM;
		return "";
	}
	memcpy(text, a, len);
	memcpy(text + len, b, more + 1);
	return text;
}

const char *plan_text(struct plan *plan, const char *fmt, ...)
{
	va_list ap, again;
	char *text;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	text = len < 0 ? NULL : arena_take(plan, (size_t)len + 1);
	if (text)
		vsnprintf(text, (size_t)len + 1, fmt, again);
	else
		plan->failure = plan->failure ?: -ENOMEM;
	va_end(again);
	return text ?: "";
}

void plan_add(struct plan *plan, struct op op)
{
	if (plan->failure)
		return;
	if (plan->count == plan->room) {
		size_t room = plan->room ? plan->room * 2 : 128;
		struct op *ops = realloc(plan->ops, room * sizeof(*ops));

		if (!ops) {
			plan->failure = -ENOMEM;
			return;
		}
		plan->ops = ops;
		plan->room = room;
	}
	plan->ops[plan->count++] = op;
}

const struct op *plan_find(const struct plan *plan, enum op_kind kind)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->ops[i].kind == kind)
			return &plan->ops[i];
	return NULL;
}

int plan_failed(const struct plan *plan)
{
	return plan->failure;
}

void plan_done(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->ops[i].tree > 0)
			close(plan->ops[i].tree - 1);
	while (plan->arena) {
		struct arena *block = plan->arena;

		plan->arena = block->next;
		free(block);
	}
	free(plan->ops);
	*plan = (struct plan){ 0 };
}

static const char *place_prefix(const struct op *op)
{
	static const char *const prefixes[PLACE_COUNT] = { "/", "base:/", "store:/" };

	return op->target ? prefixes[op->place] : "";
}

static void describe_namespaces(uint64_t flags, char *text, size_t size)
{
	static const struct {
		uint64_t flag;
		const char *name;
	} names[] = {
		{ CLONE_NEWUSER, "user" }, { CLONE_NEWNS, "mount" },      { CLONE_NEWPID, "pid" },
		{ CLONE_NEWNET, "net" },   { CLONE_NEWIPC, "ipc" },       { CLONE_NEWUTS, "uts" },
		{ CLONE_NEWTIME, "time" }, { CLONE_NEWCGROUP, "cgroup" },
	};
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (flags & names[i].flag)
			len += (size_t)snprintf(text + len, size - len, " %s", names[i].name);
}

/* What stands behind the verb and the target. */
static void describe_rest(const struct op *op, char *text, size_t size)
{
	char amount[32];

	text[0] = '\0';
	switch (op->kind) {
	case OP_NAMESPACES:
		describe_namespaces(op->value, text, size);
		break;
	case OP_IDS:
		snprintf(text, size, " user %s, group %s", op->source, op->text);
		break;
	case OP_STORE:
		format_size(op->value, amount, sizeof(amount));
		snprintf(text, size, ", a tmpfs of %s", op->value ? amount : "half the memory");
		break;
	case OP_BASE:
		snprintf(text, size, ", a folder of it for what is made up");
		break;
	case OP_DIRECTORY:
		snprintf(text, size, ", mode %04o%s", op->mode, op->is_users ? ", the user's" : "");
		break;
	case OP_LINK:
		snprintf(text, size, " to %s", op->text);
		break;
	case OP_GRANT:
		snprintf(text, size, ": %s", op->text);
		break;
	case OP_USER:
	case OP_USERS:
		snprintf(text, size, " %u%s", (unsigned int)op->value,
			 op->has_root ? ", and root with those over files of the sandbox" : "");
		break;
	case OP_NETWORK:
		snprintf(text, size, "%s%s%s%s", op->text ? ", the address " : "",
			 op->text ? op->text : "", op->text ? " and a resolver" : "",
			 op->value ? ", ports below 1024 for everybody" : "");
		break;
	case OP_HOSTNAME:
	case OP_GUARD:
	case OP_DIRECTORY_IS:
		snprintf(text, size, " %s", op->text);
		break;
	default:
		break;
	}
}

/* "read-only", and what else is worth saying, for operations that mount. */
static const char *describe_how(const struct op *op)
{
	switch (op->kind) {
	case OP_BIND:
		return op->tree ? (op->is_read_only ? ", read-only, ids mapped" : ", ids mapped")
		       : op->is_read_only ? ", read-only"
					  : "";
	case OP_AGAIN:
		return op->is_read_only ? ", read-only" : ", in its place";
	case OP_SEAL:
		return op->is_read_only ? ", and itself" : "";
	default:
		return op->is_optional ? ", if there" : "";
	}
}

void op_describe(const struct op *op, char *text, size_t size)
{
	char rest[512];

	if (op->kind == OP_STEP) {
		snprintf(text, size, "%s", keeper_steps[op->value]);
		return;
	}
	describe_rest(op, rest, sizeof(rest));
	if (op->kind == OP_OVERLAY && op->text)
		snprintf(text, size, "overlay store:/%s on /%s, changes in store:/%s", op->source,
			 op->target, op->text);
	else if (op->kind == OP_OVERLAY)
		snprintf(text, size, "overlay store:/%s on /%s, changes in store:/%s%u", op->source,
			 op->target, UPPER_PREFIX, (unsigned int)op->value);
	else if (op->kind == OP_VEIL)
		snprintf(text, size, "%s%s at store:/%s", kinds[op->kind].verb, op->source,
			 op->target);
	else if (op->kind == OP_COPY)
		snprintf(text, size, "%s %s to %s%s", kinds[op->kind].verb, op->source,
			 place_prefix(op), op->target);
	else if (op->source && op->kind != OP_IDS && op->kind != OP_MASK)
		snprintf(text, size, "%s %s%s on %s%s%s", kinds[op->kind].verb,
			 op->kind == OP_SHARE ? "/" : "", op->source, place_prefix(op), op->target,
			 describe_how(op));
	else
		snprintf(text, size, "%s%s%s%s%s%s", kinds[op->kind].verb, op->target ? " " : "",
			 place_prefix(op), op->target ?: "", rest, describe_how(op));
	str_make_printable(text);
}

static struct node *op_node(const struct op *op)
{
	_cleanup_(node_freep) struct node *map = node_map();
	char text[2048];
	int r = map ? node_set(map, "by", node_string(stage_names[op->stage])) : -ENOMEM;

	op_describe(op, text, sizeof(text));
	r = r < 0 ? r : node_set(map, "operation", node_string(kinds[op->kind].name));
	r = r < 0 ? r : node_set(map, "text", node_string(text));
	return r < 0 ? NULL : take_ptr(&map);
}

int plan_to_node(const struct plan *plan, struct node **ret_list)
{
	_cleanup_(node_freep) struct node *list = node_list();
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < plan->count && r == 0; i++)
		r = node_add(list, op_node(&plan->ops[i]));
	if (r == 0)
		*ret_list = take_ptr(&list);
	return r;
}

struct node *plan_schema(void)
{
	static const struct schema_part parts[] = { { .name = "by", .type = "string" },
						    { .name = "operation", .type = "string" },
						    { .name = "text", .type = "string" } };

	return schema_list(schema_parts(parts, ARRAY_SIZE(parts)));
}
