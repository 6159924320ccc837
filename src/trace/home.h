/*
 * home.h - where event streams lie
 *
 *	$XDG_STATE_HOME/brig, else ~/.local/state/brig, else (root) /var/lib/brig	0700
 *		sandboxes/ID/events.ndjson	the stream, only ever appended to
 *		heads/ID			what the stream must end with (head.h)
 *		spares/ID/			files for new streams (spare.h)
 *		live/, names/			sandboxes that live (warden/roster.h)
 *		images/NAME/, layers/ID/	what sandboxes left for others (tier/image.h)
 *		serve/				what the daemon must not forget (serve/store.h)
 *
 * The directory must belong to the user and be writable by nobody else; then nobody else can have
 * put anything in it. Below it no link is followed all the same, and what is opened must be a
 * plain file of the user. An id comes from the command line as well: only letters and digits make
 * one, so it cannot name anything above.
 */
#ifndef BRIG_TRACE_HOME_H
#define BRIG_TRACE_HOME_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "trace/event.h"

#define TRACE_PATH_SIZE 64 /* of a path below the state directory */

/* What lies in it, as above. A sandbox must reach none of them, by whatever name (cli/hide.h). */
enum { TRACE_FOLDERS = 8 };
extern const char *const trace_folders[TRACE_FOLDERS];

/* Where this user's state directory is, or would be. */
[[nodiscard]] int trace_home_path(char path[static PATH_MAX], struct err *err);

/* The directory, checked; NULL: this user's. Made where it is missing and make is set, else -ENOENT. */
[[nodiscard]] int trace_home_open(const char *path, bool make, struct err *err);

bool trace_id_is_valid(const char *id);

void trace_stream_path(const char *id, char path[static TRACE_PATH_SIZE]);
void trace_head_path(const char *id, char path[static TRACE_PATH_SIZE]);

/* A plain file of the user below the state directory, for reading. Never waits (a FIFO is refused). */
[[nodiscard]] int trace_file_open(int home, const char *path, struct err *err);

/* Makes a new file, for writing at the given flags. */
[[nodiscard]] int trace_file_make(int home, const char *path, int flags);

/* Whether somebody holds the stream open for writing. */
bool trace_is_alive(int stream);

#endif
