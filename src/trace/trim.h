/*
 * trim.h - how many streams stay (private to trace/)
 *
 * When there are more than so many, the oldest are removed until seven eighths are left, so that it
 * happens seldom: a file system may take a millisecond for each. One that is being written, shown or
 * verified is locked and stays, however old. The order of removal is: the head says "removed", then
 * stream, folder and head go; killed in between, what is left says itself that it was no accident.
 * Some of the files are put aside for new streams (spare.h).
 */
#ifndef BRIG_TRACE_TRIM_H
#define BRIG_TRACE_TRIM_H

/* Best effort: what cannot be removed stays. */
void trace_trim(int home, unsigned int keep);

/* How many there are by the folder's count of links; 0 where the file system does not tell. */
unsigned long trace_trim_count(int home);

#endif
