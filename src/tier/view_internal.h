/*
 * view_internal.h - what view.c (rules) and view_base.c (what every container has) share
 */
#ifndef BRIG_TIER_VIEW_INTERNAL_H
#define BRIG_TIER_VIEW_INTERNAL_H

#include "tier/view.h"

#define VIEW_DEPTH_MAX 64        /* rules that lie in each other */
#define VIEW_SKELETONS "/.masks" /* of the store: mount points inside what is masked */
#define VIEW_SYSTEM    "system"  /* of the store: what is made up and may be changed */

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
	struct layer layers[VIEW_DEPTH_MAX];
	size_t depth;
	unsigned int masks, tools;
	int failure;
};

/* The first failure sticks. */
void view_fail(struct view *v, int code);

/* Adds an operation of the keeper. */
void view_add(struct view *v, struct op op);

/* A path relative to a tree. */
static inline const char *view_inner(const char *path)
{
	return path + 1;
}

/* Remembers a name, which must stay; false when it was there already. */
bool view_is_new(struct view *v, const char *path);

/* What is made in base and store, once, with the directories above it. */
void view_make_directory(struct view *v, const char *path, uint32_t mode);
void view_make_link(struct view *v, const char *path, const char *text);
void view_make_mount_point(struct view *v, const char *path, enum view_kind kind);

/* The same for a file of the host that the sandbox may change, which is copied for it. */
void view_make_copy(struct view *v, const char *path, const char *source);

/* Whether the root can be written as a whole, by whoever owns what is in it. */
static inline bool view_has_own_root(const struct view *v)
{
	return v->rq->image || v->rq->owns_system;
}

/* Whether a tree gets a top layer with names of ours; and that layer's name in the store. */
bool view_has_tools(const struct view *v, const struct view_rule *rule);
const char *view_make_tools(struct view *v, const struct view_rule *rule);

/* Upper and work directory of the overlay that shows a path; whose its top is: the user's, or root's. */
void view_name_overlay(struct view *v, unsigned int number, const char *path, bool is_users);

/* What the image that the sandbox starts from has for a path, on top of other lowers ("" for none):
 * names in the store, with ":" between them. Just the others where it has nothing. */
const char *view_lowers(struct view *v, const char *path, const char *others);

/* The frame, in the order of the plan: trees, names in them; the root; its own on top. */
void view_make_trees(struct view *v);
void view_make_names(struct view *v);
void view_make_up(struct view *v);
void view_make_root(struct view *v);
void view_make_shares(struct view *v); /* what the sandbox may write of its own */

/* Whether the sandbox writes something of its own there, without a rule: the home, the root. */
bool view_has_place(const struct view *v, const char *path);

/* Whether a rule opens nothing of the host, as the container has that of its own. */
bool view_is_own(const struct view_rule *rule);

/* Calls fn for every tree that the sandbox may write of its own, of a host's system. */
void view_for_shares(struct view *v, void (*fn)(struct view *v, const char *path));

#endif
