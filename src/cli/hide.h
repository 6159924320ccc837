/*
 * hide.h - the state directory is nothing for a sandbox (private to cli/)
 *
 * Where the events of sandboxes lie must be out of their reach, however wide their rules are: one of
 * them could forge what was recorded of it. The directory is made now, so that there is something to
 * hide, and a rule denies it; a tier that cannot hide a part of a tree refuses the start.
 *
 * A rule is about a path, and with a bind mount a directory has more than one. Those that a rule
 * itself names are found: each tree that is shown is compared with the state directory, those above
 * it and those in it, by device and inode. That takes as long as there are rules, however many mounts
 * the host has. A mount further down in a tree is not looked for.
 */
#ifndef BRIG_CLI_HIDE_H
#define BRIG_CLI_HIDE_H

#include "policy/policy.h"

[[nodiscard]] int hide_state(struct policy *policy, const struct policy_env *env, struct err *err);

#endif
