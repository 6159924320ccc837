/*
 * plan.h - the set-up of a sandbox as a list of operations
 *
 * A tier turns a policy into a plan; execute.h carries it out, one operation after the other, and
 * does nothing that is not in it. So the list can be printed before anything is done (brig run
 * --dry-run), compared in a test, and named when an operation fails.
 *
 *	struct plan plan = { 0 };
 *	plan_add(&plan, (struct op){ .kind = OP_BIND, .source = "/usr", .target = "usr" });
 *	r = plan_failed(&plan);
 *
 * Three processes share the work: the warden, which has the caller's rights; the keeper, which is
 * root in the namespaces that it was born in; the first process, which becomes the program.
 *
 * The root of a container is made out of three trees. The *store* is a tmpfs as large as the disk
 * limit; it holds all that the sandbox may write of its own. The *base* is a folder of it with what
 * is made up: directories, links, mount points. The *root* is an overlay of that, and of the image.
 * Targets are relative to one of them and never absolute, so that no operation can land elsewhere.
 */
#ifndef BRIG_JAIL_PLAN_H
#define BRIG_JAIL_PLAN_H

#include <stdbool.h>

#include "base/macro.h"
#include "data/node.h"

enum op_stage { STAGE_WARDEN, STAGE_KEEPER, STAGE_FIRST, STAGE_COUNT };

enum op_place { PLACE_ROOT, PLACE_BASE, PLACE_STORE, PLACE_COUNT };

enum op_kind {
	OP_STEP,        /* value: enum keeper_step, one of those that every tier has */
	OP_NAMESPACES,  /* value: CLONE_NEW... that the keeper is born with */
	OP_CGROUP,      /* the keeper is born in, moved to, or enters the sandbox's cgroup */
	OP_IDS,         /* source, text: uid and gid map. By the keeper: ids of its own only */
	OP_MASTER,      /* the keeper becomes root of its ids */
	OP_OWN_CGROUPS, /* a cgroup namespace, whose root is the cgroup of the sandbox */
	OP_CLOCK,       /* a time namespace that begins now */
	OP_HOSTNAME,    /* text */
	OP_NETWORK,     /* a network namespace with its loopback device, made beside the rest; text:
			   a second address of it, and the sockets of a resolver (NULL: none);
			   value: whether all may bind ports below 1024 */
	OP_NETWORK_IS,  /* wait for the network namespace, and enter it */
	OP_PRIVATE,     /* no mount spreads */
	OP_STORE,       /* value: size in bytes or 0 for half of the memory; nodes */
	OP_BASE,        /* the tree of what is made up */
	OP_DIRECTORY,   /* place, target, mode; is_users: owned by the user of the sandbox */
	OP_FILE,        /* place, target, mode, text (NULL: empty) */
	OP_LINK,        /* place, target, text */
	OP_COPY,    /* place, source: a file of the host, target; left out if we may not read it */
	OP_VEIL,    /* source: trees, target, in the store: of them only what everybody may read */
	OP_OVERLAY, /* target ("": the root), source: lowers, in the store, the topmost first;
			   value: which upper, or text: its name */
	OP_BIND,    /* place, source: path on the host; target */
	OP_SHARE,   /* source: in the store; target */
	OP_AGAIN,   /* target on itself: cannot be renamed, or no longer written */
	OP_MASK,    /* target is hidden; source: in the store (NULL: an empty one) */
	OP_PROC,    /* target */
	OP_TERMINALS,    /* target: a devpts of its own */
	OP_SEAL,         /* what is mounted below target read-only; is_read_only: itself too */
	OP_ROOT,         /* the root becomes the root; the host's is detached beside the rest */
	OP_ALONE,        /* wait until nothing of the host can be reached */
	OP_GRANT,        /* target: Landlock rights below it, in value */
	OP_GUARD,        /* text: a path that is not there and must not appear */
	OP_DIRECTORY_IS, /* text: the working directory */
	OP_USER,         /* value: uid and gid */
	OP_USERS, /* the first process is init, and starts others as any user; value: the usual one;
		     has_root: root keeps his rights over files and users of the sandbox */
	OP_COUNT,
};

#define PROTECTIONS_MAX 256 /* operations of one plan that are is_protecting */

#define UPPER_PREFIX "upper" /* store:/upper0 is that of the root */
#define WORK_PREFIX  "work"
#define LOWERS_MAX   256 /* bytes of the lowers of one overlay */

struct op {
	enum op_kind kind;
	enum op_stage stage;
	enum op_place place;
	bool is_read_only, is_directory, is_device, is_optional, is_users;
	bool has_root;
	bool is_plain;      /* by path: only root can change the source, and the target is ours */
	bool is_sealed;     /* is_plain: made read-only later, together with others */
	bool is_protecting; /* a mount inside a tree of the host that must not go */
	bool is_early;      /* of the first process: while the keeper still mounts */
	uint32_t mode;
	uint64_t value, nodes;
	const char *source, *target, *text;
	int tree; /* OP_BIND: a tree that the warden opened with other ids, 1 + its descriptor */
};

struct plan {
	struct op *ops;
	size_t count, room;
	int failure;
	struct arena *arena; /* strings that the plan owns */
};

/* Adds an operation; the first failure sticks. Strings must outlive the plan or be its own. */
void plan_add(struct plan *plan, struct op op);
const char *plan_text(struct plan *plan, const char *fmt, ...) _printf_(2, 3); /* "" on failure */
const char *plan_join(struct plan *plan, const char *a, size_t len, const char *b);
int plan_failed(const struct plan *plan);

/* The first operation of a kind, or NULL. */
const struct op *plan_find(const struct plan *plan, enum op_kind kind);

void plan_done(struct plan *plan); /* closes the trees as well */

/* One line for a person: "bind /usr on /usr, read-only". */
void op_describe(const struct op *op, char *text, size_t size);
[[nodiscard]] int plan_to_node(const struct plan *plan, struct node **ret_list);
struct node *plan_schema(void); /* of that list; NULL: out of memory */
extern const char *const stage_names[STAGE_COUNT];

#endif
