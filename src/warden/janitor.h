/*
 * janitor.h - removes the cgroup of a container, whatever happens to the warden (private to
 * warden/)
 *
 * The keeper of a container lives in the cgroup itself and has no rights on the host, and a warden
 * can be killed at any moment. So where there is a cgroup a third process waits for the end of the
 * warden, in whatever way that comes, kills what is left in the cgroup, frozen or not, and removes
 * it. The caller of brig does not wait for it.
 */
#ifndef BRIG_WARDEN_JANITOR_H
#define BRIG_WARDEN_JANITOR_H

#include "jail/cgroup.h"

/* Takes the cgroup over; the descriptor whose end it waits for, to be kept open. */
[[nodiscard]] int janitor_start(const struct cgroup *cgroup, struct err *err);

#endif
