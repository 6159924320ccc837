/*
 * spare.h - the files of old streams, kept for new ones (private to trace/)
 *
 * A stream that is trimmed leaves a folder and two files. ext4 gives the number of a removed file
 * to nobody for a minute or more, and each new file looks at all such numbers: where many sandboxes
 * start, removing costs every one of them up to a millisecond. So some are emptied and put aside,
 * and the next sandbox takes them under its own name:
 *
 *	sandboxes/OLD/events.ndjson  ->  spares/OLD/events.ndjson  ->  sandboxes/NEW/events.ndjson
 *	heads/OLD                    ->  spares/OLD/head           ->  heads/NEW
 *
 * Each step is one rename. A file with a second name somewhere is never taken: it is somebody's
 * evidence. What a spare holds is not trusted: whoever takes one empties it again.
 */
#ifndef BRIG_TRACE_SPARE_H
#define BRIG_TRACE_SPARE_H

#define SPARE_MAX 160 /* more than one trim leaves over (trim.h) */

/* Puts a stream aside, locked as it is for removal and its head saying "removed". 0, or what is left is
 * to be removed. */
[[nodiscard]] int spare_put(int home, const char *id, int stream);

/* The stream of a new sandbox, empty and not locked: a descriptor to append with. -ENOENT: there is
 * no spare; -EAGAIN: there is a folder for it now, without a stream. */
[[nodiscard]] int spare_take(int home, const char *id);

/* Its head, the same. */
[[nodiscard]] int spare_take_head(int home, const char *id);

#endif
