/*
 * process.h - the process tier: Landlock, seccomp, no privileges, limits; no namespace
 *
 * Refuses when a wall that the policy asks for cannot be had on this host.
 */
#ifndef BRIG_TIER_PROCESS_H
#define BRIG_TIER_PROCESS_H

#include "tier/jail.h"

[[nodiscard]] int process_prepare(const struct tier_request *request, struct tier_jail *ret_tj,
				  struct err *err);

#endif
