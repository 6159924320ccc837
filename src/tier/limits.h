/*
 * limits.h - a policy's limits as cgroup settings, resource limits and things to watch (private to
 * tier/)
 *
 * A cgroup where one can be had; else the nearest thing that an ordinary process can get, and the
 * report says which. What nobody can enforce here refuses the start with the remedy.
 */
#ifndef BRIG_TIER_LIMITS_H
#define BRIG_TIER_LIMITS_H

#include "tier/jail.h"

/* Fills cgroup, rlimits, affinity and watch of the jail, and adds to its report. */
[[nodiscard]] int limits_prepare(const struct limits *limits, const char *id, struct tier_jail *tj,
				 struct err *err);

#endif
