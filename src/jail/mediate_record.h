/*
 * mediate_record.h - calls that wait for the keeper only to be recorded
 *
 * What the caller asked for is copied once, put into the ring (record.h), and the call goes on: the
 * kernel decides by the mounts or by Landlock, whatever the memory holds by then. So a record says
 * what was asked for at that moment, and never lets anything through that the walls would not. A
 * call that the filter would have refused without a record is refused here, with the same errno.
 * A call that the keeper carries out itself copies its own arguments for that, once: what is judged
 * is what is done, but a second thread can make the record say something else.
 *
 * What cannot be copied is not let through: the call gets the errno that the kernel would give for
 * such memory, or EACCES where the memory is closed to us (target.h). Otherwise whoever makes a page
 * readable a moment later, or runs a program that cannot be read, would not be in the record.
 */
#ifndef BRIG_JAIL_MEDIATE_RECORD_H
#define BRIG_JAIL_MEDIATE_RECORD_H

#include <linux/seccomp.h>
#include <stdbool.h>

#include "jail/lineage.h"
#include "jail/record.h"

struct recorder {
	struct record_ring *ring; /* NULL: nothing is recorded */
	uint64_t deadline;        /* CLOCK_MONOTONIC, ns: no reader is waited for longer */
	struct lineage lineage;
};

/*
 * Puts a call into the ring. answer: what it will return, or RECORD_CONTINUED, which becomes an errno
 * where the call must not go on. Waits for the reader when the ring is full; false when the reader is
 * gone or too late.
 */
bool recorder_put(struct recorder *recorder, const struct seccomp_notif *notif, int listener,
		  int control, int *answer);

/* Which execve a thread comes from. */
uint32_t recorder_exec(struct recorder *recorder, pid_t tid);

#endif
