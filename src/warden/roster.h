/*
 * roster.h - the sandboxes that live, as files in the state directory
 *
 *	live/ID		the manifest: one JSON object that says what the sandbox is. The warden holds a lock
 *			on it for as long as it lives, in whatever way that ends
 *	live/ID.socket	where the warden listens to its clients (proto/message.h)
 *	names/NAME	a symbolic link whose text is the id
 *
 * A manifest without a lock is that of a warden that was killed: its sandbox is dead, and what is left
 * of it here is removed by whoever comes along (roster_sweep). Nothing else is left, as the keeper
 * clears up after a warden that is gone.
 *
 * The directory is the user's alone (trace/home.h). A name or the beginning of an id is as good as an
 * id where only one fits.
 */
#ifndef BRIG_WARDEN_ROSTER_H
#define BRIG_WARDEN_ROSTER_H

#include <errno.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "data/node.h"
#include "trace/event.h"

#define ROSTER_NAME_MAX 64

/* Letters, digits, '.', '_' and '-', not in front; and not what could be the beginning of an id. */
bool roster_name_is_valid(const char *name);

/* The warden's own place. */
struct roster_place {
	int home;     /* the state directory */
	int manifest; /* holds the lock */
	int socket;   /* listens */
	char id[TRACE_ID_SIZE];
	char name[ROSTER_NAME_MAX + 1]; /* "": none */
};

#define ROSTER_PLACE_NONE \
	((struct roster_place){ .home = -EBADF, .manifest = -EBADF, .socket = -EBADF })

/* -EEXIST in words when the name is taken by one that lives. name: NULL for none. */
[[nodiscard]] int roster_enter(const char *id, const char *name, const struct node *manifest,
			       struct roster_place *ret_place, struct err *err);

/* Removes the files. The socket is closed last, so that a client that waits for the end sees none. */
void roster_leave(struct roster_place *place);

/* What a person wrote: an id, the beginning of one, or a name. */
[[nodiscard]] int roster_find(const char *word, char ret_id[static TRACE_ID_SIZE], struct err *err);

/* A connection to the warden; -ESRCH in words when the sandbox does not live (any more). */
[[nodiscard]] int roster_connect(const char *id, struct err *err);

/* The manifest. *ret_is_alive: whether the warden has its lock. */
[[nodiscard]] int roster_read(const char *id, struct node **ret_manifest, bool *ret_is_alive,
			      struct err *err);

/*
 * For who looks at many: the state directory is opened once (-ENOENT: nothing was ever made), and
 * nobody is waited for: -EAGAIN when too many others wait for the warden. Without words.
 */
[[nodiscard]] int roster_open(void);
[[nodiscard]] int roster_read_at(int home, const char *id, struct node **ret_manifest,
				 bool *ret_is_alive);
[[nodiscard]] int roster_connect_at(int home, const char *id);

/* All ids, sorted; none when nothing was ever made. */
[[nodiscard]] int roster_ids(struct strv *ret_ids, struct err *err);

/* Removes what dead wardens left, looking at most at so many (0: at all). How many it was. */
size_t roster_sweep(size_t most);

#endif
