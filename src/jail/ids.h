/*
 * ids.h - a range of user and group ids for each sandbox that root starts
 *
 * Two sandboxes with the same ids could signal each other or open each other's files wherever a
 * namespace has a hole; and ids of real users would give a hole a value. So each sandbox of root
 * gets 65536 ids that nobody else has, out of a part of the id space that is left to containers
 * and used by neither systemd nor the usual /etc/subuid. A range is taken by a lock on one byte of
 * a file in /run/brig: the kernel frees it when the last process that holds the descriptor is gone,
 * so nothing has to be cleaned up. That is the keeper, which is pid 1 of the sandbox: when it is
 * gone, so is everything that had the ids.
 *
 * Sandboxes of different parties (brig create --slice) do not even have the same ids one after the other: the
 * ranges come in blocks, and a block belongs to the slice that first took it, until the machine is started
 * anew. The file's content says to whom. Only when all blocks have an owner does one change hands that has no
 * sandbox in it.
 *
 * Files of the host keep their owners. A tree that a sandbox may use is mounted with an id mapping:
 * its owner's files show as the sandbox user's, and what the user makes belongs to the owner.
 */
#ifndef BRIG_JAIL_IDS_H
#define BRIG_JAIL_IDS_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define IDS_COUNT 65536u /* of a range */
#define IDS_USER  1000u  /* the user of a sandbox, inside */

struct ids {
	uint32_t first; /* 0: no range, the caller's own id only */
	int lock;       /* holds the range */
};

#define IDS_NONE ((struct ids){ .lock = -EBADF })

/* Whether this process may hand out ranges at all: root whose own ids reach that far. */
bool ids_possible(void);

/* Of a slice, in one state directory. */
uint64_t ids_owner(const char *home, const char *slice);

/* owner: 0 without a slice. -EUSERS when all ranges are taken. */
[[nodiscard]] int ids_take(uint64_t owner, struct ids *ret_ids, struct err *err);
void ids_done(struct ids *ids);

/*
 * A user namespace that maps one owner to the user of a sandbox, for a mount; its descriptor. For
 * the files of root it maps the whole range as it is where whole is asked for: an image. Leaves a
 * child behind that ends by itself, for the caller to reap.
 */
[[nodiscard]] int ids_mapping(const struct ids *ids, uid_t owner, gid_t group, bool whole);

#endif
