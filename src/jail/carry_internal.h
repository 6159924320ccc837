/* carry_internal.h - between carry.c, which finds the call, judges names and makes them, and
 * carry_open.c, which opens */
#ifndef BRIG_JAIL_CARRY_INTERNAL_H
#define BRIG_JAIL_CARRY_INTERNAL_H

#include <limits.h>

#include "jail/carry.h"
#include "jail/mediate_name.h"

/* Not for us to do: the kernel knows what it grants. No file system says this. */
#define TO_THE_KERNEL (-EREMCHG)

struct carry_call;

struct carry_request {
	struct name_request name; /* without its call */
	const struct carry *carry;
	const struct carry_call *call;
};

/* A name in a pinned directory, and what decides about both. */
struct spot {
	char path[PATH_MAX];
	const struct carry_place *folder, *self;
};

/* Where a pinned object lies; 0 or TO_THE_KERNEL. */
[[nodiscard]] int carry_locate(int fd, char path[static PATH_MAX]);

/* 0 when the name at the end of a walk may be made, replaced or removed, and Landlock would not let
 * the target; else TO_THE_KERNEL. */
[[nodiscard]] int carry_spot(const struct carry_request *request, const struct walk *walk,
			     struct spot *ret_spot);

/* The guards' answer to a new name. */
[[nodiscard]] int carry_check_new(const struct carry_request *request, const struct walk *walk,
				  const struct spot *spot, enum appearance appearance);

/* Whether an open can be anything but the kernel's, by its flags alone. */
bool carry_open_concerns(const struct carry *carry, int flags);

/* A descriptor, or -errno; TO_THE_KERNEL; -EINPROGRESS when somebody else answers. */
[[nodiscard]] int carry_open(struct carry_request *request);

#endif
