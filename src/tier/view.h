/*
 * view.h - what a container sees: rules, image and what is made up, as operations
 *
 * A pure function. Whoever calls it has looked at the host before (which rule leads to a file, a
 * directory, a link or to nothing); from there on the plan follows from the request alone, so a
 * test can compare it, and --dry-run shows what would be done.
 *
 * Rules nest in any order, and the nearest one above a path decides:
 *
 *	outside every rule    a mount point in the base, and a bind or an overlay on it
 *	read in write         the same tree once more, read-only
 *	write in read         the host's tree once more
 *	none                  an empty, closed directory or file on top
 *	same as around        nothing
 *
 * Where the system is the sandbox's own, the root is an overlay of the base, of what an image left,
 * and of "system", a folder of the store with what is made up or copied and may be changed; what is
 * mounted on it are the host's folders, each an overlay.
 *
 * A folder with a protected name somewhere below could be renamed and another put in its place, so
 * every directory between a writable tree and a narrower rule is mounted on itself: the kernel does
 * not rename mount points. A protected name that does not exist yet has nothing to mount on; it
 * becomes a guard, and the keeper refuses whatever would make it (mediate.h).
 */
#ifndef BRIG_TIER_VIEW_H
#define BRIG_TIER_VIEW_H

#include "base/str.h"
#include "jail/ids.h"
#include "jail/plan.h"
#include "policy/policy.h"
#include "tier/image.h"

enum view_kind { VIEW_ABSENT, VIEW_DIRECTORY, VIEW_FILE, VIEW_DEVICE, VIEW_LINK };

struct view_rule {
	const char *path;   /* where it shows: absolute */
	const char *source; /* where it is on the host: the same without symbolic links */
	const char *link;   /* VIEW_LINK: its text */
	enum access access;
	enum view_kind kind;
	bool is_shipped;
	bool is_system; /* no component of the source is anybody's but root's */
	bool is_veiled; /* tree has all ids of the range, and shows more than others may read */
	bool is_copied; /* a file that is the sandbox's own to change */
	int tree;       /* opened with other ids: 1 + descriptor; 0: to be opened by the keeper */
};

struct view_request {
	const struct view_rule *rules; /* sorted as path_rules are */
	size_t rule_count;
	const char *image; /* NULL: the host's own system */
	int image_tree;    /* as above */
	bool image_has_home, image_has_users;
	const struct image_layers *from;  /* what another sandbox left, or NULL */
	int from_trees[IMAGE_LAYERS_MAX]; /* its layers, as above */
	const char *cwd;
	const char *shell; /* of the user inside */
	uint64_t disk;     /* bytes, 0 for half of the memory */
	uint32_t ids;      /* the first of a range, 0: only the caller's */
	uid_t uid;         /* of the caller */
	gid_t gid;
	bool has_cgroup, is_nested;
	bool owns_system;     /* its root may change what it sees as the system */
	const char *sudo;     /* owns_system: a program of the host that shows as sudo, or NULL */
	int sudo_tree;        /* as above */
	bool has_gate;        /* connects and names go to the warden */
	bool has_low_ports;   /* one below 1024 is published */
	bool lives;           /* the first process is init */
	unsigned int without; /* CLONE_NEW... that a test leaves out */
	bool without_masks, without_landlock;
};

struct view_result {
	struct strv guarded;         /* names that must not appear */
	struct strv overlays;        /* paths inside, of upper 1 and so on */
	struct strv overlay_sources; /* the same on the host */
	const char *home;            /* inside */
	bool has_sudo;
	unsigned int reads, writes, masks, absent;
};

#define VIEW_HOME     "/home/user"
#define VIEW_TMP      "/tmp"
#define VIEW_USER     "user"
#define VIEW_HOSTNAME "brig"
#define VIEW_SUDO     "/usr/bin/sudo"

/* Whether every container has a path of its own, whatever the rules say: /dev, /proc, devices. */
bool view_has_own(const char *path);

/* Whether a file is made up where the system is the host's: /etc/hosts and its like. */
bool view_makes_up(const char *path);

/* Adds everything to the plan, or says which rule cannot be shown. */
[[nodiscard]] int view_plan(const struct view_request *request, struct plan *plan,
			    struct view_result *ret_result, struct err *err);

#endif
