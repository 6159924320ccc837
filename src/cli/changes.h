/*
 * changes.h - what is done with what a sandbox wrote
 *
 * Of a run that has ended: --diff, --commit, --export, --keep. Of a sandbox that lives and is held:
 * "brig diff" (diff_state) and "brig export" (export_state), from a struct image_source.
 */
#ifndef BRIG_CLI_CHANGES_H
#define BRIG_CLI_CHANGES_H

#include <stdbool.h>
#include <time.h>

#include "data/node.h"
#include "jail/layer.h"
#include "policy/policy.h"
#include "tier/jail.h"
#include "tier/tier.h"

struct run_changes {
	bool diff, commit;
	const char *export;              /* a folder or a tar file to be made, or NULL */
	const char *keep;                /* the name of an image to be made, or NULL */
	const struct image_layers *from; /* that the sandbox was started from, or NULL */
	struct timespec started;         /* the host's changes since then are conflicts */
};

static inline bool changes_are_wanted(const struct run_changes *wanted)
{
	return wanted->diff || wanted->commit || wanted->export || wanted->keep;
}

/* Those that only a container has. */
static inline bool changes_need_container(const struct run_changes *wanted)
{
	return wanted->diff || wanted->commit || wanted->export;
}

/* Before the start: refuses what cannot be done later. */
[[nodiscard]] int changes_check(struct run_changes *wanted, const struct tier *tier,
				const struct policy *policy, struct err *err);

/*
 * After the end. Prints to standard output and error, or, for --json, adds "changes" and "commit"
 * and "export" to report. The command failed: nothing is brought back. Returns -errno with err when
 * something went wrong or was left out.
 */
[[nodiscard]] int changes_finish(const struct run_changes *wanted, const struct tier_jail *tj,
				 bool command_failed, struct node *report, struct err *err);

/*
 * All that a sandbox wrote, one line each with its whole path inside: the home, /tmp, /var/tmp, the
 * overlays, and what it changed in an image. Or, for --json, a list of { "folder", "changes",
 * "problems" }. Nobody may write meanwhile. Returns how many problems there were, each told.
 */
[[nodiscard]] int diff_state(int home, const struct image_source *source, struct node *list,
			     struct err *err);
struct node *diff_schema(void); /* of that list */

/*
 * Everything but temporary files to a new folder or tar file, each under its path; of the process
 * tier the private folder, as home/user. ret_outcome, for --json, or NULL: then it is told. Returns
 * how many things were left out.
 */
[[nodiscard]] int export_state(const char *path, const struct image_source *source,
			       struct node **ret_outcome, struct err *err);

/* Whether path can become one: before hours of work. */
[[nodiscard]] int export_check(const char *path, struct err *err);

#endif
