/*
 * container.h - the container tier: every namespace, a root of its own, Landlock and seccomp on top
 *
 * container_prepare() looks at the host (what each rule leads to, a range of ids where root can
 * give one, a cgroup for the limits), and makes the plan out of it (view.h). Nothing is mounted
 * here: that is the keeper's, in namespaces that vanish with it.
 */
#ifndef BRIG_TIER_CONTAINER_H
#define BRIG_TIER_CONTAINER_H

#include "tier/jail.h"

[[nodiscard]] int container_prepare(const struct tier_request *request, struct tier_jail *ret_tj,
				    struct err *err);

#endif
