/*
 * supply.h - sockets of the sandbox's network, for whoever relays published ports to it
 *
 * The warden accepts clients on the host's network (egress/publish.h) and needs a socket of the
 * sandbox's for each. Only somebody inside can make one, and that is the keeper: over a socket pair
 * of its own it is asked for some, and sends as many as it can make. They are new, bound to nothing
 * and connected to nobody; what the warden does with them it does without the keeper.
 *
 *	warden -> keeper   struct supply_order: the family
 *	keeper -> warden   the same, with up to SUPPLY_MAX descriptors; none: it could not make any
 */
#ifndef BRIG_JAIL_SUPPLY_H
#define BRIG_JAIL_SUPPLY_H

#include <stdint.h>

#include "base/fd.h"

#define SUPPLY_MAX FD_PASS_MAX

struct supply_order {
	int32_t family;
};

/* The keeper: answers what was asked. -EPIPE when nobody asks any more. */
[[nodiscard]] int supply_give(int channel);

#endif
