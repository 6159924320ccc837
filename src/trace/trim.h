/*
 * trim.h - how many streams stay (private to trace/)
 *
 * When a stream is opened and there are more than so many, the oldest are removed until seven
 * eighths are left, so that it happens seldom. One that is being written or verified is locked and
 * stays, however old. The order of removal is: the head says "removed", then stream, folder and
 * head go; killed in between, what is left says itself that it was no accident.
 */
#ifndef BRIG_TRACE_TRIM_H
#define BRIG_TRACE_TRIM_H

#include <stdbool.h>

/* Best effort: what cannot be removed stays. */
void trace_trim(int home, unsigned int keep);

/* Whether the folder's count of links says that there may be too many; also when it does not tell. */
bool trace_trim_is_due(int home, unsigned int keep);

#endif
