/*
 * changes.h - what "brig run" does with what the sandbox wrote: --diff, --commit, --export
 */
#ifndef BRIG_CLI_CHANGES_H
#define BRIG_CLI_CHANGES_H

#include <stdbool.h>
#include <time.h>

#include "data/node.h"
#include "policy/policy.h"
#include "tier/jail.h"
#include "tier/tier.h"

struct run_changes {
	bool diff, commit;
	const char *export;      /* a folder or a tar file to be made, or NULL */
	struct timespec started; /* the host's changes since then are conflicts */
};

static inline bool changes_are_wanted(const struct run_changes *wanted)
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

#endif
